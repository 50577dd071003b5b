"""What a framework op does, so that each is counted, known to have no product, or listed as not counted."""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any

from rooflens.audit.formulas import CONVOLUTIONS, PRODUCTS


class Work(str, Enum):
    """Kinds of ops. FLOP are those of PRODUCT and CONVOLUTION; UNKNOWN is what the counter has no word for."""

    PRODUCT = "product"
    CONVOLUTION = "convolution"
    VIEW = "view"
    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    NORM = "norm"
    SOFTMAX = "softmax"
    COPY = "copy"
    LOOKUP = "lookup"
    CREATION = "creation"
    SCAN = "scan"
    SELECTION = "selection"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value

    @property
    def has_product(self) -> bool:
        """Whether a formula gives its FLOP."""
        return self in (Work.PRODUCT, Work.CONVOLUTION)


_NAMES = {
    Work.VIEW: "_unsafe_view _reshape_alias detach lift_fresh alias set_ resize_",
    Work.NORM: "native_layer_norm native_group_norm native_batch_norm _fused_rms_norm rms_norm linalg_vector_norm",
    Work.SOFTMAX: "_softmax _log_softmax _safe_softmax softmax log_softmax logsumexp",
    Work.COPY: (
        "_to_copy cat stack clone copy copy_ repeat roll flip tril triu tril_ triu_ constant_pad_nd reflection_pad1d "
        "replication_pad1d slice_scatter select_scatter as_strided_scatter diagonal_scatter expand_copy view_copy "
        "index_copy index_copy_ index_put index_put_ _unsafe_index_put index_fill index_fill_ index_add index_add_ "
        "scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ masked_scatter masked_scatter_ "
        "repeat_interleave unfold_copy diag_embed diag block_diag"
    ),
    Work.LOOKUP: "embedding index _unsafe_index index_select gather take take_along_dim",
    Work.CREATION: (
        "arange zeros ones full empty eye scalar_tensor linspace zeros_like ones_like full_like empty_like rand_like "
        "randn_like new_zeros new_ones new_full new_empty new_empty_strided empty_strided fill fill_ zero zero_ "
        "tril_indices triu_indices"
    ),
    Work.POINTWISE: "polar floor_divide complex view_as_complex_copy isin log_sigmoid_forward",
    Work.SCAN: "cumsum cumsum_ cumprod cumprod_ logcumsumexp cummax cummin",
    Work.SELECTION: "topk sort argsort nonzero one_hot bincount histc searchsorted bucketize kthvalue multinomial",
    Work.REDUCTION: "sum mean prod amax amin max min argmax argmin any all var std var_mean std_mean norm _is_all_true",
}
_KIND = {name: work for work, names in _NAMES.items() for name in names.split()}


@cache
def name_of(func: Any) -> str:
    """The name of an op without namespace and overload: "mm" for aten.mm.default."""
    return str(func.overloadpacket.__name__)


@cache
def work_of(func: Any) -> Work:
    """What `func` does: by its formula, by its name, else by what the framework says of it."""
    name = name_of(func)
    if func.namespace == "aten":
        if name in PRODUCTS:
            return Work.PRODUCT
        if name in CONVOLUTIONS:
            return Work.CONVOLUTION
        if name in _KIND:
            return _KIND[name]
    if func.is_view:
        return Work.VIEW
    tags = {str(tag).rpartition(".")[2] for tag in func.tags}
    if "pointwise" in tags:
        return Work.POINTWISE
    return Work.REDUCTION if "reduction" in tags else Work.UNKNOWN
