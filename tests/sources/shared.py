"""Real traces that lie beside a checkout, in ../shared; tests of them are skipped where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"


def traces(name: str) -> Path:
    """The trace or folder `name`; the test is skipped where it is missing."""
    path = TRACES / name
    if not path.exists():
        pytest.skip("needs the shared data folder")
    return path
