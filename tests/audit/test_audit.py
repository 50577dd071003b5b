"""Audits of small models of every kind, and what happens where the two sides differ or one has nothing to say."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

REASON = "the audit runs the reference framework (extra torch)"
pytest.importorskip("torch", reason=REASON)
pytest.importorskip("transformers", reason=REASON)

import rooflens.api  # noqa: E402
from rooflens.api import audit  # noqa: E402
from rooflens.audit.build import MAX_LAYERS, build  # noqa: E402
from rooflens.audit.report import AuditReport, Claims, Comparison, Verdict  # noqa: E402
from rooflens.claims import claims  # noqa: E402
from rooflens.cli import main  # noqa: E402
from rooflens.errors import InputError, UnknownArchitectureError  # noqa: E402

DATA = Path(__file__).parent.parent / "data"
CONFIGS: dict[str, dict[str, Any]] = {
    row["name"]: row["config"]
    for file in sorted(DATA.glob("reference_*.jsonl"))
    for row in map(json.loads, file.read_text().splitlines())
}
AGREEING = (
    "llama-gqa", "gemma2", "gpt2", "gpt_neox-parallel", "phi3", "opt-word-embed-proj",
    "mixtral", "qwen3_moe", "gpt_oss", "glm4_moe", "gemma4_text-moe",
    "deepseek_v2-lite", "deepseek_v3", "minicpm3-mla", "deepseek_v32", "deepseek_v4", "mllama",
    "qwen3_next", "qwen3_5-nested", "nemotron_h-moe", "mamba2", "jamba", "recurrent_gemma",
)  # fmt: skip


def figure(report: AuditReport, start: str) -> Comparison:
    (row,) = [row for row in report.comparisons if row.name.startswith(start)]
    return row


@pytest.mark.parametrize("name", [name for name in AGREEING if name in CONFIGS])
def test_both_sides_agree(name: str) -> None:
    report = audit(CONFIGS[name])
    held = [row for row in report.comparisons if row.tolerance is not None]
    assert [row.name for row in held if row.verdict is not Verdict.AGREES] == []
    assert len(held) == 4
    assert {op.name for op in report.uncounted} <= {"aten.linalg_solve_triangular"}


def test_convolutions_are_shown_and_not_held() -> None:
    row = figure(audit(CONFIGS["mamba2"]), "convolutions, prefill")
    assert row.verdict is Verdict.NOT_COMPARED
    assert row.ours == pytest.approx(row.reference, rel=0.05)


def test_a_model_that_runs_every_expert_is_said_to() -> None:
    report = audit(CONFIGS["llama4_text"])
    assert any("runs every expert on every token" in note for note in report.notes)
    assert figure(report, "prefill").verdict is Verdict.NOT_COMPARED
    assert figure(report, "parameters").verdict is figure(report, "KV cache").verdict is Verdict.AGREES


def test_a_model_that_cannot_run_without_values_is_compared_in_what_it_can() -> None:
    report = audit(CONFIGS["dbrx"])
    assert report.agrees
    assert any("did not run the prefill on the meta device" in note for note in report.notes)
    assert figure(report, "prefill").verdict is Verdict.NOT_COMPARED
    assert figure(report, "parameters").verdict is figure(report, "KV cache").verdict is Verdict.AGREES


def test_what_the_framework_does_otherwise_is_said() -> None:
    row = figure(audit(CONFIGS["falcon-new-decoder"]), "KV cache")
    assert row.verdict is Verdict.NOT_COMPARED
    assert "once for every query head" in row.why


def test_a_class_named_in_architectures_is_used() -> None:
    report = audit({**CONFIGS["deepseek_v3"], "model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]})
    assert report.agrees
    assert "built as DeepseekV3ForCausalLM" in report.notes[0]


def off(given: Claims, **factors: float) -> Claims:
    changed = {name: round(getattr(given.figures, name) * factor) for name, factor in factors.items()}
    return replace(given, figures=replace(given.figures, **changed))


@pytest.mark.parametrize("name", ["params", "kv_growth_bytes", "prefill_flops", "decode_flops"])
def test_a_wrong_count_differs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooflens.api, "claims", lambda model: off(claims(model), **{name: 1.001}))
    report = audit(CONFIGS["mixtral"])
    assert not report.agrees
    assert sum(row.verdict is Verdict.DIFFERS for row in report.comparisons) == 1


def status(*args: str, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(sys, "argv", ["rooflens", *args])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_exit_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "small.json"
    file.write_text(json.dumps(CONFIGS["llama-gqa"]))
    assert status("model", str(file), "--audit", monkeypatch=monkeypatch) == 0
    assert "agrees" in capsys.readouterr().out
    monkeypatch.setattr(rooflens.api, "claims", lambda model: off(claims(model), prefill_flops=1.01))
    assert status("model", str(file), "--audit", "--json", monkeypatch=monkeypatch) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["agrees"] is False
    (row,) = [row for row in document["comparisons"] if row["verdict"] == "differs"]
    assert row["relative"] == pytest.approx(0.01, rel=1e-3)
    assert status("model", str(file), "--audit", "--context", "8", monkeypatch=monkeypatch) == 2


REMOTE = {
    "model_type": "not_in_the_framework",
    "architectures": ["TheirForCausalLM"],
    "auto_map": {"AutoConfig": "theirs.Config", "AutoModelForCausalLM": "theirs.Model"},
}


def test_remote_code_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / "config.json").write_text(json.dumps(REMOTE))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownArchitectureError, match="never run"):
        audit(tmp_path)
    with pytest.raises(UnknownArchitectureError, match="code that a config names is never run"):
        build(REMOTE, "theirs")
    known = {**CONFIGS["llama-gqa"], "auto_map": REMOTE["auto_map"], "attn_implementation": "somebody/kernels"}
    assert type(build(known, "known").model).__module__.startswith("transformers.")
    assert not (tmp_path / "ran").exists()


def test_what_the_framework_refuses_is_one_sentence() -> None:
    with pytest.raises(InputError, match="cannot build this config"):
        build({"model_type": "llama", "hidden_size": "wide"}, "wrong")
    with pytest.raises(InputError, match="is built for at most"):
        build({"model_type": "llama", "num_hidden_layers": MAX_LAYERS + 1}, "deep")


def test_eighty_layers_take_less_than_ten_seconds() -> None:
    """Processor seconds of the whole command, so that a busy machine is no failure."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    args = [sys.executable, "-m", "rooflens", "model", "llama-3.1-70b", "--audit"]
    subprocess.run(args, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10
