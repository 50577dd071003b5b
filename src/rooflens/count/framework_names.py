"""What each framework op does, by its name: multiplies, moves bytes, or only rearranges what others computed.

Source: the operators of PyTorch's native_functions.yaml, as Kineto prints their names without the namespace.
"""

from __future__ import annotations

from enum import Enum
from functools import cache


class Work(str, Enum):
    """Kinds of framework ops. FREE moves nothing; COMPOSITE is seen through what it calls; UNKNOWN has no formula."""

    PRODUCT = "product"
    GROUPED = "grouped"
    ATTENTION = "attention"
    CONVOLUTION = "convolution"
    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    NORM = "norm"
    SOFTMAX = "softmax"
    COPY = "copy"
    CAT = "cat"
    LOOKUP = "lookup"
    ROWS = "rows"
    FILL = "fill"
    SCAN = "scan"
    FREE = "free"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


_NAMES = {
    Work.PRODUCT: "mm bmm addmm baddbmm addbmm mv addmv dot vdot matmul linear _int_mm _addmm_activation _scaled_mm "
    "_linear_pointwise mkldnn_linear",
    Work.GROUPED: "_grouped_mm _scaled_grouped_mm",
    Work.ATTENTION: (
        "scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_flash_attention "
        "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention "
        "_scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable "
        "_scaled_dot_product_attention_math_for_mps"
    ),
    Work.CONVOLUTION: "convolution _convolution mkldnn_convolution cudnn_convolution miopen_convolution "
    "miopen_depthwise_convolution _conv_depthwise2d _slow_conv2d_forward thnn_conv2d conv1d conv2d conv3d",
    Work.POINTWISE: (
        "abs add addcdiv addcmul bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max clamp_min cos "
        "cosh div eq erf erfc exp exp2 expm1 floor floor_divide fmod ge gelu gt hardswish isfinite isinf isnan "
        "isneginf isposinf le leaky_relu lerp log log1p log2 logical_and logical_not logical_or logical_xor lt "
        "masked_fill maximum minimum mish mul nan_to_num ne neg pow reciprocal relu remainder round rsqrt rsub "
        "sigmoid sign silu sin softplus sqrt square sub tanh trunc where"
    ),
    Work.REDUCTION: "all amax amin any argmax argmin bincount count_nonzero histc logsumexp max mean min norm "
    "linalg_vector_norm prod std sum var var_mean std_mean",
    Work.NORM: "native_layer_norm native_group_norm native_batch_norm rms_norm _fused_rms_norm",
    Work.SOFTMAX: "_softmax _log_softmax _safe_softmax softmax log_softmax",
    Work.COPY: "copy_ roll flip tril triu tril_ triu_ clone repeat_interleave",
    Work.CAT: "cat stack",
    Work.LOOKUP: "embedding index index_select gather take",
    Work.ROWS: "index_copy_ index_put_ _index_put_impl_ index_fill_ index_add_ scatter_ scatter_add_ masked_scatter_",
    Work.FILL: "fill_ zero_ arange linspace normal_ uniform_ random_ exponential_ bernoulli_ eye tril_indices",
    Work.SCAN: "cumsum cumsum_ cumprod logcumsumexp cummax cummin sort topk argsort nonzero",
    Work.FREE: (
        "T H mT mH adjoint movedim moveaxis diagonal ravel tensor_split real imag atleast_1d atleast_2d "
        "empty_permuted new_empty_strided unsafe_chunk is_floating_point is_complex _assert_async "
        "_has_compatible_shallow_copy_type _local_scalar_dense _nested_tensor_from_mask_left_aligned _reshape_alias "
        "_unsafe_view alias as_strided as_strided_ broadcast_tensors can_cast chunk contiguous detach detach_ dropout "
        "empty empty_like empty_strided expand expand_as flatten is_nonzero is_same_size item lift_fresh narrow "
        "new_empty numpy_T ones permute reshape resize_ resolve_conj resolve_neg result_type select set_ size slice "
        "split split_with_sizes squeeze squeeze_ stride swapaxes t to to_dense transpose transpose_ type_as unbind "
        "unflatten unfold unsqueeze unsqueeze_ unsafe_split view view_as view_as_complex view_as_real zeros full "
        "zeros_like ones_like full_like scalar_tensor new_zeros new_ones new_full"
    ),
}
_KIND = {name: work for work, names in _NAMES.items() for name in names.split()}


@cache
def work_of(name: str) -> Work:
    """What the op `name` does; an op in place ("mul_") does what the other does."""
    if name in _KIND:
        return _KIND[name]
    plain = name.removesuffix("_")
    return Work.POINTWISE if _KIND.get(plain) is Work.POINTWISE else Work.UNKNOWN
