"""Profile -> one page that explains itself and loads nothing: verdict, chart, tables, conventions, sources.

The page carries its style, its script and the chart library (packed), each named by its hash in a
content-security policy that allows nothing else: no network, no evaluation of text, no style attributes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from rooflens.core.profile import Bound, PhaseProfile, Profile
from rooflens.render.chart import chart
from rooflens.render.chart_data import clean
from rooflens.render.document import OpDocument, PhaseDocument, ProfileDocument
from rooflens.render.documents import profile_document
from rooflens.render.figures import figure, percent
from rooflens.render.html_words import BYTES, PASSES, glued, meaning
from rooflens.render.measured_words import coverage_line, timing_line
from rooflens.render.palette import config
from rooflens.render.table_rows import FLOOR_ROWS, MEASURED_ROWS
from rooflens.render.words import precision_line, verdict
from rooflens.units import si

LEAST_SHOWN = 0.001
"""Share of a phase's time below which an op that ran has no row on the page; JSON and CSV have it."""

_ASSETS = Path(__file__).parent / "assets"


def html(profile: Profile, *, dark: bool | None = None) -> str:
    """`profile` as one HTML document for reading offline, in light and dark, from a phone to a wide screen.

    It starts as the reader's system is set, or dark or light where `dark` says so. Kernel tables sort by any
    column; the chart shows its numbers on hover. About 0.4 MB, most of it the chart library. To be written as
    UTF-8 without changing its line ends, which the hashes of its policy cover.

    Raises:
        InputError: `profile` holds arrays of scenarios.
    """
    document = profile_document(profile)
    style, script = _asset("page.css"), _asset("page.js")
    library, packed = _library()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}' '{_hash(library)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(_asset("page.html")).substitute(
        theme="" if dark is None else f' data-theme="{"dark" if dark else "light"}"',
        policy=policy,
        title=f"{_text(document.model.name)} on {_text(document.hardware.title)}",
        style=style,
        workload=_workload(document, profile),
        verdicts="".join(_verdict(shown, phase) for shown, phase in zip(document.phases, profile.phases, strict=True)),
        above=_above(profile),
        phases=_phases(document),
        kernels="".join(_kernels(phase) for phase in document.phases),
        notes=_notes(document),
        sources=_sources(document, profile),
        version=escape(document.version),
        licences=_asset("licences.txt"),
        data=_json(_forms(profile)),
        library=packed,
        script=script,
    )


def _forms(profile: Profile) -> dict[str, Any]:
    """The chart in two widths and two themes, its data once; for whichever version of Vega-Lite the library has."""
    forms: dict[str, Any] = {}
    for name, width, height in (("wide", 900, 560), ("narrow", 358, 680)):
        spec = chart(profile, width=width, height=height)
        del spec["config"], spec["$schema"]
        datasets = spec.pop("datasets")
        themes = {theme: config(dark=theme == "dark", narrow=name == "narrow") for theme in ("light", "dark")}
        forms |= {name: {"spec": spec, "config": themes}, "datasets": datasets}
    return forms


def _json(value: Any) -> str:
    """`value` as JSON that holds nothing an HTML parser acts on."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _text(text: str, longest: int = 300) -> str:
    """A user's own words for HTML: no control characters, no mark-up, shortened in the middle."""
    return glued(escape(clean(text, longest)))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


@cache
def _library() -> tuple[str, str]:
    """The chart library as a script, and packed: deflated and in base64."""
    import vl_convert

    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return script, base64.b64encode(zlib.compress(script.encode(), 9)).decode()


def _above(profile: Profile) -> str:
    """What a point above the roof means."""
    if not any(phase.measured for phase in profile.phases):
        return "No point can lie above the roof."
    return (
        "A triangle is where the prediction puts a phase: at its floor. A point above the roof moved what a cache "
        "held, or a ceiling was measured too low."
    )


def _workload(document: ProfileDocument, profile: Profile) -> str:
    work = document.scenario
    size = f"{document.model.params:,} parameters; " if document.model.params else ""
    context = f", decode step at context {work.context:,}" if work.context is not None else ""
    return (
        f"{size}batch {work.batch:,}, prompt {work.prompt:,}, "
        f"output {work.output:,}{context}; {escape(precision_line(profile.scenario.precision, profile.model))}."
    )


def _verdict(shown: PhaseDocument, phase: PhaseProfile) -> str:
    kind = phase.phase.kind
    claim, colon, reason = glued(escape(verdict(phase))).partition(":")
    return (
        f'<article class="{kind}"><h2>{str(kind).capitalize()}</h2>'
        f"<p><strong>{claim[0].upper()}{claim[1:]}</strong>{colon}{reason}.</p><p>{glued(meaning(phase))}</p>"
        f'<p class="quiet">{PASSES[kind]} {_how(phase)}: {glued(figure(shown.tokens_per_s) + " tokens/s")}, '
        f"{_rates(shown)}.</p></article>"
    )


def _how(phase: PhaseProfile) -> str:
    """Whether the rates are of a run, and how it was timed, or of the floor."""
    if phase.measured is None:
        return "At the floor"
    covered = coverage_line(phase)
    return glued(escape(f"{covered[0].upper()}{covered[1:]}. Timed as the {timing_line(phase.measured)}. Measured"))


def _rates(shown: PhaseDocument) -> str:
    return f"MFU\N{NO-BREAK SPACE}{glued(percent(shown.mfu))}, MBU\N{NO-BREAK SPACE}{glued(percent(shown.mbu))}"


def _table(caption: str, head: Sequence[str], rows: Iterable[str], *, kind: str = "", sorts: bool = False) -> str:
    cells = (f'<button type="button">{name}</button>' if sorts else name for name in head)
    header = "".join(f'<th scope="col">{cell}</th>' for cell in cells)
    return (
        f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0"><table class="{kind}">'
        f"<caption>{caption}</caption><thead><tr>{header}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(head: str, cells: Iterable[str], kind: str = "") -> str:
    start = f'<th scope="row" class="{kind}">' if kind else '<th scope="row">'
    return f"<tr>{start}{head}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _phases(document: ProfileDocument) -> str:
    shown = document.phases
    kinds = [kind for kind in BYTES if any(getattr(phase.bytes, kind) for phase in shown)]
    rows = [
        _row("tokens in the pass", (f"{p.tokens:,}" for p in shown)),
        _row("cached tokens before it, each sequence", (f"{p.context:,}" for p in shown)),
        _row("FLOP", (si(p.flops, "FLOP") for p in shown)),
        _row("model FLOP", (si(p.model_flops, "FLOP") for p in shown), "part"),
        _row("bytes", (si(p.bytes.total, "B") for p in shown)),
        *(_row(BYTES[kind], (si(getattr(p.bytes, kind), "B") for p in shown), "part") for kind in kinds),
        _row("intensity", ("-" if p.intensity is None else f"{figure(p.intensity)} FLOP/byte" for p in shown)),
        _row("ridge point", (f"{figure(p.ridge_point)} FLOP/byte" for p in shown)),
        *(_row(f"time on {b}", (percent(getattr(p.bound_share, b)) for p in shown)) for b in _bounds(shown)),
        *(
            _row(label.strip(), (str(cell(p)) for p in shown), "part" if label.startswith(" ") else "")
            for label, cell in (MEASURED_ROWS if any(p.measured for p in shown) else FLOOR_ROWS)
        ),
    ]
    table = _table("Sums over the kernels of each phase", ["", *(phase.phase for phase in shown)], rows)
    return f"<section><h2>Phases</h2>{table}</section>"


def _bounds(phases: Sequence[PhaseDocument]) -> list[str]:
    return [str(bound) for bound in Bound if any(getattr(phase.bound_share, str(bound)) for phase in phases)]


def _kernels(phase: PhaseDocument) -> str:
    ran = phase.measured is not None and phase.measured.traced_passes is not None
    times = ("measured", "floor", "of roof") if ran else ("floor",)
    head = (
        "kernel",
        "share",
        *times,
        "bound",
        "FLOP",
        "bytes",
        "FLOP/byte",
        "runs",
        "dtype",
        *(() if ran else ("kind",)),
    )
    shown = [op for op in phase.ops if not ran or op.share >= LEAST_SHOWN]
    rest = len(phase.ops) - len(shown)
    which = (
        f"those with at least {percent(LEAST_SHOWN)} of the time, {rest} shorter ones left out" if rest else "every one"
    )
    caption = f"{phase.phase}: kernels, {which}; totals over their runs"
    table = _table(caption, head, (_kernel(op, ran=ran) for op in shown), kind="kernels", sorts=True)
    return f"<section><h2>Kernels of {phase.phase}</h2>{table}</section>"


def _kernel(op: OpDocument, *, ran: bool) -> str:
    took, reached = op.measured_s or 0.0, op.roof_share or 0.0
    cells = (
        _number(op.share, percent(op.share)),
        *([_number(took, si(took, "s"))] if ran else []),
        _number(op.floor_s, si(op.floor_s, "s")) if op.known else _number(-1, "-"),
        *([_number(reached, percent(reached)) if op.known else _number(-1, "-")] if ran else []),
        f"<td>{escape(op.bound) if op.known else 'no formula'}</td>",
        _number(op.flops, si(op.flops, "FLOP")),
        _number(op.bytes.total, si(op.bytes.total, "B")),
        _number(-1, "-") if op.intensity is None else _number(op.intensity, figure(op.intensity)),
        _number(op.count, f"{op.count:,}"),
        f"<td>{escape(op.dtype)}</td>" + ("" if ran else f"<td>{escape(op.kind)}</td>"),
    )
    return f'<tr><th scope="row">{_text(op.name).replace("_", "_<wbr>")}</th>{"".join(cells)}</tr>'


def _number(value: float, text: str) -> str:
    """A cell that sorts by its value, not by how it is printed."""
    return f'<td data-value="{value!r}">{text}</td>'


def _notes(document: ProfileDocument) -> str:
    found = "".join(
        f'<li class="{escape(f.level)}"><strong>{escape(f.level)}:</strong> {_text(f.text, 1000)}</li>'
        for f in document.findings
    )
    counted = "".join(f"<li>{escape(note)}</li>" for note in document.conventions.notes)
    findings = f"<section><h2>Findings</h2><ul>{found}</ul></section>" if found else ""
    held = "".join(f"<li>{_text(row.name)}: {_text(row.text, 500)}</li>" for row in document.conditions)
    conditions = f"<section><h2>What held while it ran</h2><ul>{held}</ul></section>" if held else ""
    return f"{findings}{conditions}<section><h2>How it is counted</h2><ul>{counted}</ul></section>"


def _sources(document: ProfileDocument, profile: Profile) -> str:
    rows = (
        _row(_text(row.figure), map(_text, (row.value, row.kind, " - ".join(filter(None, (row.source, row.note))))))
        for row in document.provenance
    )
    table = _table("Where each figure comes from", ("figure", "value", "kind", "source"), rows, kind="words")
    clashes = [
        _row(_text(c.field), map(_text, ("; ".join(c.values), c.used, c.why))) for c in profile.hardware.conflicts
    ]
    head = ("figure", "published", "used", "why")
    disagree = _table("Where sources disagree", head, clashes, kind="words") if clashes else ""
    return f"<section><h2>Sources</h2>{table}{disagree}</section>"
