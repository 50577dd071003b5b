"""Memory kernels as LLVM IR: explicit vectors of 8 to 64 bytes, independent accumulators, repetitions inside.

The IR is compiled as it is written, without passes that would change its loops. A call is
`kernel(a, b, c, d, bytes, repeats)`: `repeats` sweeps over `bytes` of each array, whose number is a multiple of
a step and whose places are multiples of 64. Reads are reduced with OR, whose latency is one cycle, so that
loads limit and not the chain of additions.

Source: the patterns are those of STREAM (McCalpin, 1995) and likwid-bench: load, copy, stream, triad.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

LINE_BYTES = 64
"""Arrays begin at multiples of this: the widest vector, and a line of most caches."""

SCALE = 0.5
"""The scalar of the triad a[i] = b[i] + SCALE x c[i]: exact in binary, and no overflow however often it is applied."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a kernel's loop: `unroll` vectors of `vector_bytes` (a power of two from 8 to 64) at each of `runs`.

    Each array is cut into as many parts as there are runs, and all parts are swept side by side: more streams for the
    prefetchers of memory to follow.
    """

    vector_bytes: int
    unroll: int
    runs: int = 1

    @property
    def advance(self) -> int:
        """Bytes by which each run moves on in one step."""
        return self.vector_bytes * self.unroll

    @property
    def size(self) -> int:
        """Bytes of each array in one step."""
        return self.advance * self.runs

    @property
    def vectors(self) -> int:
        """Vectors of each array in one step."""
        return self.unroll * self.runs

    @property
    def words(self) -> int:
        """32-bit words of a vector."""
        return self.vector_bytes // 4

    def __str__(self) -> str:
        sides = f" at {self.runs} places" if self.runs > 1 else ""
        return f"{self.unroll} x {self.vector_bytes} bytes{sides}"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A way to sweep over memory: how many arrays it reads (after `a`) and whether it writes `a`.

    non_temporal: stores that bypass the caches.
    """

    name: str
    reads: int
    writes: bool
    non_temporal: bool = False

    @property
    def streams(self) -> int:
        """Arrays that are counted: bytes of a sweep over N bytes of each are streams x N, without write-allocates."""
        return self.reads + self.writes


PATTERNS = {
    pattern.name: pattern
    for pattern in (
        Pattern("read", 1, False),
        Pattern("copy", 1, True),
        Pattern("triad", 2, True),
        Pattern("copy_nt", 1, True, True),
        Pattern("triad_nt", 2, True, True),
        Pattern("vector_triad", 3, True),
    )
}
"""By name. `read` reads a; `copy` is a = b; `triad` is a = b + SCALE x c; `vector_triad`, which benchmarks alone use,
is a = b x c + d; all in single precision."""


def ir(pattern: Pattern, step: Step) -> str:
    """The module with the one function `kernel` that sweeps as `pattern` does, a `step` at a time.

    It is one loop over the repetitions around one over the arrays; both run at least once.
    """
    parts = "\n".join(f"  %part{run} = mul i64 %part, {run}" for run in range(step.runs))
    body = "\n".join(_vector(pattern, step, lane) for lane in range(step.vectors))
    sums, kind, words = range(step.vectors if not pattern.writes else 0), f"<{step.words} x i32>", step.words
    heads = "\n".join(f"  %acc{k} = phi {kind} [%out{k}, %outer], [%new{k}, %inner]" for k in sums)
    outs = "\n".join(f"  %out{k} = phi {kind} [zeroinitializer, %entry], [%new{k}, %next]" for k in sums)
    return f"""
define i32 @kernel(ptr noalias %a, ptr noalias %b, ptr noalias %c, ptr noalias %d, i64 %bytes, i64 %repeats) #0 {{
entry:
  %part = udiv i64 %bytes, {step.runs}
{parts}
  br label %outer
outer:
  %r = phi i64 [0, %entry], [%r1, %next]
{outs}
  br label %inner
inner:
  %i = phi i64 [0, %outer], [%i1, %inner]
{heads}
{body}
  %i1 = add nuw nsw i64 %i, {step.advance}
  %more = icmp ult i64 %i1, %part
  br i1 %more, label %inner, label %next
next:
  %r1 = add nuw nsw i64 %r, 1
  %again = icmp ult i64 %r1, %repeats
  br i1 %again, label %outer, label %exit
exit:
{_result(pattern, step)}
}}
declare <{words} x float> @llvm.fmuladd.v{words}f32(<{words} x float>, <{words} x float>, <{words} x float>)
declare i32 @llvm.vector.reduce.or.v{words}i32({kind})
attributes #0 = {{ "min-legal-vector-width"="512" "prefer-vector-width"="512" }}
!0 = !{{i32 1}}
"""


def _vector(pattern: Pattern, step: Step, lane: int) -> str:
    """The IR of one vector: its loads, and its store or its OR into the accumulator of `lane`."""
    run, index = divmod(lane, step.unroll)
    lines = [
        f"  %s{lane} = add nuw nsw i64 %i, {index * step.vector_bytes}",
        f"  %o{lane} = add nuw nsw i64 %s{lane}, %part{run}",
    ]
    sources = "bcd"[: pattern.reads] if pattern.writes else "a"
    kind = f"<{step.words} x {'float' if pattern.writes else 'i32'}>"
    for array in "abcd":
        if array in sources or (pattern.writes and array == "a"):
            lines.append(f"  %p{array}{lane} = getelementptr i8, ptr %{array}, i64 %o{lane}")
        if array in sources:
            lines.append(f"  %v{array}{lane} = load {kind}, ptr %p{array}{lane}, align {step.vector_bytes}")
    if not pattern.writes:
        return "\n".join([*lines, f"  %new{lane} = or {kind} %acc{lane}, %va{lane}"])
    value = f"%vb{lane}"
    if pattern.reads > 1:
        value, scales = f"%t{lane}", f"<{', '.join([f'float {SCALE}'] * step.words)}>"
        factors = f"{scales}, {kind} %vb{lane}" if pattern.reads == 2 else f"%vb{lane}, {kind} %vd{lane}"
        call = f"@llvm.fmuladd.v{step.words}f32({kind} %vc{lane}, {kind} {factors})"
        lines.append(f"  {value} = call {kind} {call}")
    hint = ", !nontemporal !0" if pattern.non_temporal else ""
    return "\n".join([*lines, f"  store {kind} {value}, ptr %pa{lane}, align {step.vector_bytes}{hint}"])


def _result(pattern: Pattern, step: Step) -> str:
    """The end: every accumulator in one integer, or a fence after which the stores are seen."""
    if pattern.writes:
        return "  fence seq_cst\n  ret i32 0"
    kind, last = f"<{step.words} x i32>", step.vectors - 1
    lines = [
        f"  %all{k} = or {kind} {f'%all{k - 1}' if k else 'zeroinitializer'}, %new{k}" for k in range(step.vectors)
    ]
    call = f"  %one = call i32 @llvm.vector.reduce.or.v{step.words}i32({kind} %all{last})"
    return "\n".join([*lines, call, "  ret i32 %one"])


_ENGINES: list[Any] = []
"""Compiled code lives as long as its engine."""


@cache
def compiled(name: str, step: Step) -> Any:
    """The function of PATTERNS[name], compiled for this processor; calling it releases the interpreter's lock.

    It takes the addresses of a, b, c and d (arrays that a pattern does not use are ignored), the bytes of each and the
    repetitions, and returns the OR of everything read, or 0.

    Raises:
        ImportError: llvmlite is not installed.
    """
    engine = _engine(ir(PATTERNS[name], step))
    signature = ctypes.CFUNCTYPE(ctypes.c_uint32, *([ctypes.c_void_p] * 4), ctypes.c_int64, ctypes.c_int64)
    _ENGINES.append(engine)
    return signature(engine.get_function_address("kernel"))


def _engine(text: str) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True
    )
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return engine
