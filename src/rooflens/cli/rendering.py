"""A Profile as the text and the files that were asked for."""

from __future__ import annotations

from pathlib import Path

from rooflens.core.profile import Profile


def text(profile: Profile, as_json: bool, as_csv: bool, explain: bool = False) -> str | None:
    """The text for standard output, or None where the table is asked for."""
    if as_json:
        from rooflens.render.document import encode
        from rooflens.render.documents import profile_document

        return encode(profile_document(profile))
    if as_csv:
        from rooflens.render.csv import profile_csv

        return profile_csv(profile)
    if explain:
        from rooflens.render.explain import explain_profile

        return explain_profile(profile)
    return None


def files(profile: Profile, dark: bool, wanted: dict[str, Path]) -> dict[Path, bytes]:
    """Every file that was asked for, rendered before any is written."""
    if not wanted:
        return {}
    from rooflens.render import chart, html, image

    makers = {
        "html": lambda: html.html(profile, dark=dark or None).encode(),
        "svg": lambda: image.svg(chart.chart(profile, dark=dark)).encode(),
        "png": lambda: image.png(chart.chart(profile, dark=dark)),
        "pdf": lambda: image.pdf(chart.chart(profile, dark=dark)),
    }
    return {path: makers[kind]() for kind, path in wanted.items()}
