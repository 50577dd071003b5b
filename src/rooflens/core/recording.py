"""Recording: what a file of another profiler holds, before it is placed under anybody's roofs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rooflens.core.op import DType, Op, OpKind
from rooflens.core.scenario import PhaseKind
from rooflens.core.timed import TimedPhase


class Format(str, Enum):
    """Formats that are read, as `rooflens import` names them."""

    KINETO = "kineto"
    NSYS = "nsys"
    NCU = "ncu"
    ROCPROF = "rocprof"
    DCGMI = "dcgmi"
    PROMETHEUS = "prometheus"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Step:
    """The tokens of one pass of an engine, as its annotation gives them; a sum over its sequences each.

    context, generation: sequences that are read (prefill) and that get one more token (decode). q_tokens: new tokens;
    kv_tokens: tokens that each attends to, its own among them; pairs: sum of new times attended tokens; squares: sum of
    the squares of new tokens. Of context and generation apart, each a pair.
    """

    context: int
    generation: int
    q_tokens: tuple[int, int]
    kv_tokens: tuple[int, int] | None = None
    pairs: tuple[int, int] | None = None
    squares: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One kernel that ran: its class by its name, its seconds, and what it computed where shapes tell that.

    dtype: of its operands where the name says it. graph: which replay of a graph ran it, None outside of any. short:
    the name without its templates, the whole name unless given.
    """

    name: str
    kind: OpKind
    seconds: float
    op: Op | None = None
    dtype: DType | None = None
    graph: int | None = None
    short: str = ""

    @property
    def label(self) -> str:
        """What a table calls it."""
        return self.short or self.name


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel that a capture recorded: the name of its op and what that counts, None without formula or shapes.

    call: which call of the capture it is a part of: an op of several kernels counts once.
    """

    name: str = ""
    op: Op | None = None
    call: int = 0


@dataclass(frozen=True, slots=True)
class Capture:
    """A graph as it was captured, under the name of its range: the kernels that each replay runs, in order."""

    name: str
    launches: tuple[Launch, ...]


@dataclass(frozen=True, slots=True)
class RecordedPhase:
    """A phase of a recording: its mean pass, and of that pass the tokens and the kernels in order of time.

    kind: what the pass does. step: its tokens, where the file tells them. runs: of the first pass; empty where the
    format does not keep the order.
    """

    kind: PhaseKind
    timed: TimedPhase
    step: Step | None = None
    runs: tuple[KernelRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """The timed phases of one file or of several that belong together.

    device: what the file calls the device it ran on, "" where it does not say; nothing is guessed from it.
    multiprocessors, memory_bytes: of that device where the file has them. notes: what a reader should know, one
    sentence each; what could not be read is among them. captures: of graphs, which run their kernels when replayed.
    """

    format: Format
    sources: tuple[str, ...]
    phases: tuple[RecordedPhase, ...]
    device: str = ""
    multiprocessors: int | None = None
    memory_bytes: int | None = None
    notes: tuple[str, ...] = ()
    captures: tuple[Capture, ...] = ()
