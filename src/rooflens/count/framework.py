"""A framework op with its shapes -> Op: FLOP and the bytes that it reads and writes, each operand once.

FLOP are those of `count.gemm` and `count.attention`. What a trace does not tell is not guessed: without shapes, for
shapes that do not fit, or for an op that no formula knows, there is no Op.
"""

from __future__ import annotations

from collections.abc import Callable

from rooflens.core.call import Call
from rooflens.core.op import Op
from rooflens.core.scenario import AttentionFlops
from rooflens.count.framework_moves import cat, copy, fill, lookup, rows
from rooflens.count.framework_names import Work, work_of
from rooflens.count.framework_products import attention, convolution, grouped, product
from rooflens.count.framework_values import norm, pointwise, reduction, scan, softmax


def counted(call: Call, convention: AttentionFlops = AttentionFlops.CAUSAL) -> Op | None:
    """Return what `call` computes and moves; None where its shapes or its formula are not known.

    flops, model_flops: FLOP of one call; model_flops those of matrix multiplication and attention. traffic: bytes
    that are read and written, each operand once, a repeated dimension (stride 0) once. convention: which pairs of
    attention with a causal flag count; one with an explicit mask multiplies them all.

    Derivation: one multiply-add is 2 FLOP; the output of an op is as large as its operands make it.
    """
    work = work_of(call.name)
    if work is Work.ATTENTION:
        return attention(call, convention)
    formula = _FORMULAS.get(work)
    return formula(call) if formula is not None and call.tensors else None


_FORMULAS: dict[Work, Callable[[Call], Op | None]] = {
    Work.PRODUCT: product,
    Work.GROUPED: grouped,
    Work.CONVOLUTION: convolution,
    Work.POINTWISE: pointwise,
    Work.REDUCTION: reduction,
    Work.NORM: norm,
    Work.SOFTMAX: softmax,
    Work.COPY: copy,
    Work.CAT: cat,
    Work.LOOKUP: lookup,
    Work.ROWS: rows,
    Work.FILL: fill,
    Work.SCAN: scan,
}
