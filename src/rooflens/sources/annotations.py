"""Step annotations of serving engines, as ranges of a trace are named: which phase a pass is, and its tokens.

Forms seen in traces of vLLM and SGLang: `execute_context_1(888_788544)_generation_0(0)`,
`execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)`,
`step[DECODE bs=32]`, `step[EXTEND bs=15 toks=15360]`, `capture_32_FULL`, `capture_32_DECODE`, `ProfilerStep#6`.
"""

from __future__ import annotations

import re

from rooflens.core.recording import Step
from rooflens.core.scenario import PhaseKind

_N = "([0-9]{1,16})"
_EXECUTE = re.compile(rf"execute_(?:[0-9]+_)?context_{_N}\(([^()]*)\)_generation_{_N}\(([^()]*)\)")
_STEP = re.compile(rf"step\[(\w+) bs={_N}(?: toks={_N})?\]")
_SUMS = re.compile(f"sq{_N}sk{_N}sqsq{_N}sqsk{_N}")
_SHORT = re.compile(f"{_N}(?:_{_N})?")
_WHOLE = re.compile("ProfilerStep#[0-9]+")
_CAPTURE = re.compile("capture_[0-9]+_[A-Z_]+")
_KINDS = {"DECODE": PhaseKind.DECODE, "EXTEND": PhaseKind.PREFILL, "PREFILL": PhaseKind.PREFILL}
_NAMES = {str(kind): kind for kind in PhaseKind}
_LARGEST = 2**50


def phase_of(name: str) -> PhaseKind | None:
    """The phase that a range named `name` is a pass of; None for a range that is no pass of a model."""
    if name.lower() in _NAMES:
        return _NAMES[name.lower()]
    step = step_of(name)
    if step is not None:
        return _kind(step)
    return PhaseKind.STEP if _WHOLE.fullmatch(name) or _STEP.fullmatch(name) else None


def kind_of(name: str) -> PhaseKind:
    """What a range named `name` is a pass of, STEP where its name does not tell."""
    return phase_of(name) or PhaseKind.STEP


def step_of(name: str) -> Step | None:
    """The tokens that an engine's annotation states; None where it states none, or more than any pass has."""
    found = _EXECUTE.fullmatch(name)
    if found:
        return _execute(int(found[1]), found[2], int(found[3]), found[4])
    found = _STEP.fullmatch(name)
    if found and found[1] in _KINDS:
        many, tokens = int(found[2]), int(found[3] or found[2])
        if not many or max(many, tokens) > _LARGEST:
            return None
        decodes = _KINDS[found[1]] is PhaseKind.DECODE
        return Step(0, many, (0, tokens)) if decodes else Step(many, 0, (tokens, 0))
    return None


def is_capture(name: str) -> bool:
    """Whether a range records a graph, whose kernels run when it is replayed."""
    return bool(_CAPTURE.fullmatch(name))


def _kind(step: Step) -> PhaseKind:
    if step.context and step.generation:
        return PhaseKind.CHUNKED_PREFILL
    return PhaseKind.PREFILL if step.context else PhaseKind.DECODE


def _execute(context: int, first: str, generation: int, second: str) -> Step | None:
    parts = [part for text in (first, second) if (part := _read(text)) is not None]
    if len(parts) < 2 or not context + generation:
        return None
    if max(context, generation, *(value for part in parts for value in part)) > _LARGEST:
        return None
    q, kv, squares, pairs = ((parts[0][i], parts[1][i]) for i in range(4))
    if generation and not _SUMS.fullmatch(second):
        return Step(context, generation, q, squares=(squares[0], q[1]))
    return Step(context, generation, q, kv, pairs, squares)


def _read(text: str) -> tuple[int, int, int, int] | None:
    """Sums of new tokens, attended tokens, squares of new ones, and their products.

    The short form has new tokens and their squares alone, as of a prompt without anything cached.
    """
    found = _SUMS.fullmatch(text)
    if found:
        q, k, qq, qk = (int(value) for value in found.groups())
        return q, k, qq, qk
    found = _SHORT.fullmatch(text)
    if not found:
        return None
    q, qq = int(found[1]), int(found[2] or found[1])
    return q, q, qq, qq
