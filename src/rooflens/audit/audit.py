"""An audit: the framework's model runs on the meta device under our counter, and its figures meet ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from rooflens.audit.build import Built, build
from rooflens.audit.counter import Row, Tally, counting, module_paths
from rooflens.audit.kinds import Work
from rooflens.audit.known import known_difference
from rooflens.audit.passes import cache_bytes, cache_of, prefill, run, weight_memory
from rooflens.audit.report import LONGER, PROMPT, AuditReport, Claims, Comparison, Figures, OpCount, Verdict
from rooflens.frameworks import first_line, quiet

T = TypeVar("T")

CONVENTIONS = (
    f"one sequence in bf16: a prefill of {PROMPT} tokens, then one decode step",
    "full attention: every pair of positions that the framework's eager attention multiplies, masked ones included",
    "logits for every token; latent attention expanded; experts as batched_mm, the chosen ones alone",
    "FLOP of matrix products and attention, 2 a multiply-add; a full window holds W - 1 tokens after a pass",
    "convolutions are shown and not compared: the framework pads them",
)


@dataclass(slots=True)
class _Observed:
    """What the framework showed: a tally for each pass that ran, the cache's growth, and why something is missing."""

    prefill: Tally | None = None
    decode: Tally | None = None
    growth: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def tallies(self) -> list[Tally]:
        return [tally for tally in (self.prefill, self.decode) if tally]

    @property
    def runs_every_expert(self) -> bool:
        """Whether whole expert tables are multiplied by every token instead of the chosen experts."""
        return any(_whole_table(row) for tally in self.tallies for row in tally.rows)


def audit(name: str, values: Mapping[str, Any], claims: Claims) -> AuditReport:
    """Hold `claims` of the model `name`, whose config is `values`, against the framework's own model.

    Parameters and cache are compared exactly, FLOP within the claims' tolerance. What the framework cannot run on the
    meta device, or runs otherwise than an engine does, is said in a sentence and not compared.

    Raises:
        MissingExtraError, UnknownArchitectureError, InputError: as `build` does.
    """
    built = build(values, name)
    with quiet():
        observed = _observe(built)
    why = ""
    if observed.runs_every_expert:
        why = f"{built.class_name} runs every expert on every token"
        observed.notes.append(f"{why}: its FLOP are not those of the chosen experts and are not compared")
    return AuditReport(
        model=name,
        class_name=built.class_name,
        framework=built.framework,
        comparisons=_comparisons(claims, _figures(built, observed), why, built.model_type),
        ops=_ops(observed),
        conventions=CONVENTIONS,
        notes=(*built.notes, *observed.notes),
    )


def _observe(built: Built) -> _Observed:
    """Run both passes under the counter, and a longer prompt for the growth of the cache."""
    seen = _Observed()
    cache = _attempt(seen, "prefill", lambda: _count_prefill(built.model, seen))
    if cache is None:
        _attempt(seen, "cache", lambda: _grow_without_experts(built.model, seen))
        return seen
    held = cache_bytes(cache)[0]
    _attempt(seen, "decode step", lambda: _count_decode(built.model, cache, seen))
    longer = _attempt(seen, "cache", lambda: cache_bytes(prefill(built.model, LONGER))[0])
    seen.growth = None if longer is None else longer - held
    return seen


def _attempt(seen: _Observed, what: str, call: Callable[[], T]) -> T | None:
    """Call, or note why the framework cannot."""
    try:
        return call()
    except Exception as cause:  # the framework raises whatever its code runs into
        reason = first_line(cause)
        seen.notes.append(f"the framework did not run the {what} on the meta device, which holds no values ({reason})")
        return None


def _count_prefill(model: Any, seen: _Observed) -> Any:
    with module_paths(model) as where, counting(Tally(weight_memory(model), where)) as tally:
        output = run(model, PROMPT)
    seen.prefill = tally
    return cache_of(output, model, PROMPT)


def _count_decode(model: Any, cache: Any, seen: _Observed) -> None:
    with module_paths(model) as where, counting(Tally(weight_memory(model), where)) as tally:
        run(model, 1, cache=cache, past=PROMPT)
    seen.decode = tally


def _grow_without_experts(model: Any, seen: _Observed) -> None:
    """Take the cache of a model that cannot route without values: its experts, which do not matter, are left out."""
    skipped = [module for module in model.modules() if type(module).__name__.endswith("Experts")]
    for module in skipped:
        module.forward = _unchanged
    shorter, longer = (cache_bytes(prefill(model, tokens))[0] for tokens in (PROMPT, LONGER))
    seen.growth = longer - shorter
    seen.notes.append(f"the cache is that of {type(model).__name__} with its experts left out")


def _unchanged(hidden: Any, *_routing: Any, **_options: Any) -> Any:
    return hidden


def _whole_table(row: Row) -> bool:
    return row.op == "aten.bmm" and "expert" in row.module.lower() and row.read["weights"] > 0


def _figures(built: Built, seen: _Observed) -> Figures:
    first, step = seen.prefill, seen.decode
    return Figures(
        params=built.parameters,
        kv_growth_bytes=seen.growth,
        prefill_flops=first.flops if first else None,
        decode_flops=step.flops if step else None,
        prefill_convolution_flops=first.convolution_flops if first else None,
        decode_convolution_flops=step.convolution_flops if step else None,
    )


def _comparisons(claims: Claims, reference: Figures, every: str, kind: str) -> tuple[Comparison, ...]:
    """Both sides of each figure; `every` says why FLOP are not held, `kind` is the framework's model_type."""
    rows: list[tuple[str, str, str, float | None, str]] = [
        ("parameters", "", "params", 0.0, ""),
        (f"KV cache growth, {PROMPT} to {LONGER:,} tokens", "B", "kv_growth_bytes", 0.0, ""),
        (f"prefill of {PROMPT} tokens", "FLOP", "prefill_flops", claims.tolerance, every),
        (f"decode step after {PROMPT} tokens", "FLOP", "decode_flops", claims.tolerance, every),
        ("convolutions, prefill", "FLOP", "prefill_convolution_flops", None, ""),
        ("convolutions, decode step", "FLOP", "decode_convolution_flops", None, ""),
    ]
    both = [
        _compare(Comparison(label, unit, getattr(claims.figures, key), getattr(reference, key), held, why), kind, key)
        for label, unit, key, held, why in rows
    ]
    return tuple(row for row in both if row.tolerance is not None or row.ours or row.reference)


def _compare(row: Comparison, model_type: str, figure: str) -> Comparison:
    """`row`, with the reason where the framework has no such figure or is known to do what engines do not."""
    if row.reference is None:
        return replace(row, why="the framework gave no figure")
    known = known_difference(model_type, figure) if row.verdict is Verdict.DIFFERS else ""
    return replace(row, why=known) if known else row


def _ops(seen: _Observed) -> tuple[OpCount, ...]:
    """Every op of both passes by name, products first, most calls first within a kind."""
    counted: dict[tuple[str, Work], list[int]] = {}
    for position, tally in ((0, seen.prefill), (1, seen.decode)):
        for row in tally.rows if tally else ():
            sums = counted.setdefault((row.op, row.work), [0] * 7)
            sums[position] += row.calls
            sums[2 + position] += row.flops
            sums[4] += sum(row.read.values())
            sums[5] += sum(row.written.values())
            sums[6] += row.calls if row.work is Work.UNKNOWN else row.unread
    kinds = list(Work)
    ordered = sorted(counted.items(), key=lambda item: (kinds.index(item[0][1]), -item[1][0] - item[1][1], item[0][0]))
    return tuple(OpCount(name, str(work), *sums) for (name, work), sums in ordered)
