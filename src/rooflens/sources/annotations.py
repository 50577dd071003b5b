"""Step annotations of serving engines, as ranges of a trace are named: which phase a pass is, and its tokens.

Forms seen in traces of vLLM and SGLang: `execute_context_1(888_788544)_generation_0(0)`,
`execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)`,
`step[DECODE bs=32]`, `step[EXTEND bs=15 toks=15360]`, `capture_32_FULL`, `capture_32_DECODE`, `ProfilerStep#6`.
"""

from __future__ import annotations

import re

from rooflens.core.recording import Step
from rooflens.core.scenario import PhaseKind

_EXECUTE = re.compile(r"execute_(?:\d+_)?context_(\d+)\(([^()]*)\)_generation_(\d+)\(([^()]*)\)")
_STEP = re.compile(r"step\[(\w+) bs=(\d+)(?: toks=(\d+))?\]")
_SUMS = re.compile(r"sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)")
_WHOLE = re.compile(r"ProfilerStep#\d+")
_CAPTURE = re.compile(r"capture_\d+_[A-Z_]+")
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
        if max(many, tokens) > _LARGEST:
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
    sums = [_read(text) for text in (first, second)]
    if any(part is None for part in sums) or not context + generation:
        return None
    parts = [part for part in sums if part is not None]
    if max(context, generation, *(value for part in parts for value in part)) > _LARGEST:
        return None
    q, kv, squares, pairs = ((parts[0][i], parts[1][i]) for i in range(4))
    return Step(context, generation, q, kv, pairs, squares)


def _read(text: str) -> tuple[int, int, int, int] | None:
    """Sums of new tokens, attended tokens, squares of new ones, and their products.

    The short form has new tokens and their squares alone: a prompt without anything cached, or a step.
    """
    found = _SUMS.fullmatch(text)
    if found:
        q, k, qq, qk = (int(value) for value in found.groups())
        return q, k, qq, qk
    words = text.split("_")
    if not all(word.isdigit() for word in words) or len(words) > 2:
        return None
    q, qq = int(words[0]), int(words[-1])
    return q, q, qq, qq
