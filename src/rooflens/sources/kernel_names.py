"""What a GPU kernel is, by its name: the only thing that a profile without shapes tells of it.

The patterns are those of libraries and engines whose kernels appear in real traces; the first that matches holds. A
name that none of them knows is OTHER: it is not guessed.
"""

from __future__ import annotations

import re
from functools import cache

from rooflens.core.op import DType, OpKind

_CLASSES = (
    # Names that a library of products generates, and that hold letters of anything: rocBLAS and hipBLASLt (Tensile),
    # cuBLAS (nvjet, xmma), MIOpen's implicit GEMM (a convolution on the matrix units).
    (OpKind.GEMM, r"^cijk_|^nvjet|^sm\d+_xmma_gemm|^igemm"),
    # Between GPUs: NCCL and RCCL, the one- and two-shot reductions of vLLM, SGLang, TensorRT-LLM and PyTorch
    # (symmetric memory), NVSHMEM and the dispatch of experts.
    (
        OpKind.COLLECTIVE,
        r"nccl|rccl|all_?reduce|cross_device_reduce|multimem|all_?gather|reduce_?scatter|all_?to_?all|(one|two)_?shot|"
        r"lamport|nvshmem|deep_ep|quick_?reduce",
    ),
    # What a profiler calls copies of the driver.
    (OpKind.COPY, r"^\[?(cuda )?mem(cpy|set)"),
    # Writes to a KV cache, and the tables of its pages.
    (
        OpKind.COPY,
        r"reshape_and_cache|concat_and_cache|store_?kv_?cache|kv_?indices|page_indices|copy_blocks|swap_blocks|"
        r"append_?paged_?kv|set_mla_kv|write_req_to_token",
    ),
    (OpKind.ROTARY, r"rotary|(?<![a-z])m?rope(?![a-z])|applyrope"),
    # Experts: routing and the grouped products. TensorRT-LLM's bmm_..._dynBatch is the grouped product of its experts.
    (
        OpKind.EXPERTS,
        r"moe|top_?k_?gating|topk_softmax|grouped_?topk|grouped_?gemm|group_?gemm|groupproblemshape|expert|"
        r"^bmm_.*dynbatch|silu_and_mul_masked",
    ),
    # Choosing a token.
    (OpKind.SAMPLING, r"arg_?max|arg_?min|sampl|multinomial|top_?k|top_?p_|min_?p_|penalt|gumbel|distribution_"),
    # Recurrent layers: Mamba, gated delta rule, linear attention, RWKV; their short convolution.
    (OpKind.CONVOLUTION, r"causal_conv1d|conv1d_update"),
    (
        OpKind.SCAN,
        r"selective_scan|chunk_(scan|state|cumsum|fwd|gated|delta|local)|state_passing|ssd_|delta_rule|"
        r"fused_recurrent|mamba|wkv\d?",
    ),
    # Attention: FlashAttention 2 and 3, FlashInfer, cuDNN and TensorRT (fmha), vLLM (paged, unified), AITER and
    # Triton (attn_fwd), latent attention (mla), and the kernels that join split keys.
    (
        OpKind.ATTENTION,
        r"flash_?(fwd|bwd|attn|attention|mla|splitkv|decode)|fmha|f?mha_|paged_?attention|unified_attention|"
        r"attn_fwd|attn_kernel|attention|_attn_|merge_?attn|batch(prefill|decode)|single(prefill|decode)|"
        r"(?<![a-z])mla(?![a-z])|sdpa",
    ),
    (OpKind.NORM, r"rms_?norm|layer_?norm|batch_?norm|group_?norm|add_\w*norm|qk_?norm|l2_?norm"),
    # Products: cuBLAS, CUTLASS, CUB's and cuBLAS's gemv and split-K sums, vLLM's wvSplitK, quantised ones (Marlin,
    # Machete, llama.cpp's mul_mat), templates of torch.compile (triton_tem), and older cuBLAS (volta_sgemm).
    (
        OpKind.GEMM,
        r"gemm|gemv|xmma|cublas|cutlass_\d|cutlass::(kernel|device_kernel|gemm)|wvsplitk|split_?k_?reduce|"
        r"(^|_)bmm_|matmul|mul_mat|triton_tem|triton_\w*_mm_|marlin|machete|"
        r"dot_kernel|wgmma|mfma",
    ),
    (OpKind.SOFTMAX, r"softmax"),
    # Activation functions, and those that multiply by a gate.
    (OpKind.ACTIVATION, r"silu|gelu|swi_?glu|act_and_mul|(?<![a-z])relu|geglu"),
    (OpKind.EMBEDDING, r"embedding"),
    # Copies that are kernels: casts, concatenation, transposition, fills, rows by their index.
    (
        OpKind.COPY,
        r"copy|catarray|(?<!un)transpose|fillfunctor|(?<!masked_)fill_kernel|index_?(elementwise|select|kernel|put|add|fill|copy)|"
        r"indexing_|gather|scatter|withcast|triton_\w*_(clone|cat)(_\d+)?$",
    ),
    # Reductions of PyTorch, CUB and rocPRIM, sums over prefixes, pooling, and torch.compile's reductions.
    (OpKind.REDUCTION, r"reduce|reduction|pool|cumsum|devicescan|scan_config|triton_(red|per)_|segmented"),
    # Element by element: PyTorch's, torch.compile's (triton_poi), optimizers, quantisation of activations.
    (OpKind.POINTWISE, r"elementwise|pointwise|triton_poi|multi_tensor_apply|quant|clamp|foreach|subtensorop"),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _CLASSES)

_DTYPES = (
    # The narrowest operand decides the units that multiply; a compound name lists accumulators and outputs too.
    (DType.FP8, r"e4m3|e5m2|fp8(?!kvcachedatatype)|float8|nvjet_(sm\d+_)?qq"),
    (DType.FP4, r"e2m1|nvfp4|mxfp4"),
    (DType.BF16, r"bf16|bfloat16|bfloat|df16b|^cijk_[a-z]+_[a-z]+_(bbs|b_bs|bss)_|nvjet_(sm\d+_)?tst"),
    (
        DType.FP16,
        r"fp16|(?<![b\d])f16|half|hgemm|h16816|h1688|h884|^cijk_[a-z]+_[a-z]+_(hhs|h_hs|hb|hss)_|nvjet_(sm\d+_)?hsh",
    ),
    (DType.FP64, r"f64|double|dgemm"),
    (DType.TF32, r"tf32"),
    (DType.FP32, r"f32|fp32|sgemm|(?<![a-z_])float(?![a-z\d_])|^cijk_[a-z]+_[a-z]+_s_"),
)
_KNOWN_DTYPES = tuple((dtype, re.compile(pattern)) for dtype, pattern in _DTYPES)

_GENERIC = frozenset({"kernel", "kernel2", "device_kernel", "trampoline_kernel", "_kernel"})
"""Names of frames around a kernel: what it is stands in the first argument of its template."""

_TELLING = re.compile(r"\w*(gemm|gemv|flash|scan|sort)\w*", re.IGNORECASE)

LONGEST = 48
"""Characters of a kernel's short name at most."""

_TENSILE = re.compile(r"(Cijk(?:_[A-Za-z0-9]+){4}).*?_(MT\d+x\d+x\d+)")
_TAIL = 15


@cache
def kernel_class(name: str) -> OpKind:
    """What the kernel `name` does, by its whole name (templates included, mangled or not); OTHER where none knows."""
    lowered = name.lower()
    return next((kind for kind, pattern in _COMPILED if pattern.search(lowered)), OpKind.OTHER)


@cache
def kernel_dtype(name: str) -> DType | None:
    """The dtype of the operands where the name says one; None where it does not."""
    lowered = name.lower()
    return next((dtype for dtype, pattern in _KNOWN_DTYPES if pattern.search(lowered)), None)


@cache
def short_name(name: str) -> str:
    """The name of a kernel without return type, namespaces, template and parameters, at most `LONGEST` characters.

    A generic frame ("cutlass::Kernel2<...>") is called after the first argument of its template; of a product of
    Tensile the operands' types and the tile remain. Of a longer name the middle is left out: its end tells variants
    apart.
    """
    tensile = _TENSILE.match(name)
    short = f"{tensile[1]} {tensile[2]}" if tensile else _demangled(name) or _last_part(name)
    short = "".join(c if c.isprintable() else "?" for c in short)
    return short if len(short) <= LONGEST else f"{short[: LONGEST - _TAIL - 3]}...{short[-_TAIL:]}"


def _last_part(name: str) -> str:
    """The last part of a name in C++ ("void at::native::foo<int>(char*)" -> "foo"); any other as it is."""
    if name.startswith("Mem"):
        return name
    plain = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "").rpartition("::type ")[2].strip()
    head, _, inside = plain.partition("<") if "(" not in plain.partition("<")[0] else (plain.partition("(")[0], "", "")
    short = re.split(r"::|\s", head.strip())[-1]
    if short.lower() in _GENERIC and inside:
        found = _TELLING.search(inside) or re.match(r"[\w:]{6,}", inside)
        short = found[0].rpartition("::")[2] if found else short
    return short or name


def _demangled(name: str) -> str:
    """The last part of an Itanium-mangled name ("_ZN5aiter4normE..." -> "norm"); empty for any other."""
    if not name.startswith("_Z"):
        return ""
    at, last = (3 if name.startswith("_ZN") else 2), ""
    while (length := re.match(r"[1-9]\d{0,3}", name[at:])) is not None:
        begin = at + len(length[0])
        at = begin + int(length[0])
        if at > len(name):
            return ""
        last = name[begin:at]
    return last
