"""Claims: what this program says of a model under the conventions of the reference framework, for an audit."""

from __future__ import annotations

from collections.abc import Iterator

from rooflens.audit.report import LONGER, PROMPT, Claims, Figures
from rooflens.core.attention import Reach
from rooflens.core.blocks import Block
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.recurrent import Recurrent
from rooflens.core.scenario import (
    AttentionFlops,
    Batch,
    Conventions,
    LatentForm,
    Logits,
    Phase,
    PhaseKind,
    Precision,
)
from rooflens.count import forward, kv_cache_bytes, params
from rooflens.count.sizes import block_kv_bytes

_BF16 = Precision(
    compute=DType.BF16,
    attention=DType.BF16,
    activations=DType.BF16,
    weights=DType.BF16,
    kept=DType.BF16,
    kv=DType.BF16,
)
_CONVENTIONS = Conventions(AttentionFlops.FULL, Logits.ALL, latent=LatentForm.EXPANDED)
_PREFILL = Phase(PhaseKind.PREFILL, Batch(1, PROMPT, 0))
_DECODE = Phase(PhaseKind.DECODE, Batch(1, 1, PROMPT))
_DENSE, _HYBRID, _SPARSE = 1e-4, 1e-2, 3e-2


def claims(model: ModelSpec) -> Claims:
    """What is claimed of `model`: parameters, growth of the cache in bytes, FLOP of both passes.

    FLOP may be off by 1e-4 of the reference's; by 1e-2 with recurrent layers and 3e-2 with an indexer, which the
    framework runs in forms of its own.
    """
    return Claims(
        Figures(
            params=params(model),
            kv_growth_bytes=_held(model, LONGER) - _held(model, PROMPT),
            prefill_flops=_flops(model, _PREFILL),
            decode_flops=_flops(model, _DECODE),
            prefill_convolution_flops=PROMPT * _convolution(model),
            decode_convolution_flops=_convolution(model),
        ),
        _tolerance(model),
    )


def _flops(model: ModelSpec, phase: Phase) -> int:
    return int(sum(op.model_flops for op in forward(model, phase, _BF16, _CONVENTIONS)))


def _held(model: ModelSpec, tokens: int) -> int:
    """Bytes after `tokens` tokens. The framework keeps W - 1 of a full window, room for the next, engines keep W."""
    full = (count * block_kv_bytes(block, DType.BF16) for count, block in _blocks(model) if _is_full(block, tokens))
    return int(kv_cache_bytes(model, tokens, DType.BF16)) - sum(full)


def _is_full(block: Block, tokens: int) -> bool:
    span = getattr(block, "span", None)
    return span is not None and span.held is not None and span.held <= tokens


def _convolution(model: ModelSpec) -> int:
    """FLOP of the depthwise convolutions for one token: 2 x kernel a channel."""
    layers = ((count, block) for count, block in _blocks(model) if isinstance(block, Recurrent))
    return sum(count * 2 * block.conv_channels * block.conv_kernel for count, block in layers if block.conv_kernel > 1)


def _tolerance(model: ModelSpec) -> float:
    blocks = [block for _, block in _blocks(model)]
    spans = [getattr(block, "span", None) for block in blocks]
    if any(span is not None and span.reach is Reach.SPARSE for span in spans):
        return _SPARSE
    return _HYBRID if any(isinstance(block, Recurrent) for block in blocks) else _DENSE


def _blocks(model: ModelSpec) -> Iterator[tuple[int, Block]]:
    return ((layer.count, block) for layer in model.layers for block in layer.blocks)
