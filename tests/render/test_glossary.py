"""The revision, the table and the glossary: examples are evaluated, and figures in the prose are counted anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rooflens.api import predict
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.profile import Bound
from rooflens.core.scenario import Batch, Conventions, Phase, PhaseKind
from rooflens.count import active_params, forward, params, state_bytes
from rooflens.count.moe import distinct_experts
from rooflens.count.sizes import kv_bytes_per_token
from rooflens.errors import InputError, UnknownNameError
from rooflens.metrics import phase_metrics
from rooflens.render.explain_kv import kv_savings, kv_savings_text
from rooflens.render.glossary import phase_table, revision, topic, topics
from rooflens.sources.hardware import load_hardware
from rooflens.sources.models import load_model
from tests.conftest import precision, tiny_model
from tests.render.formula_text import check_line, evaluate
from tests.render.small_models import SMALL

DOCS = Path(__file__).resolve().parents[2] / "docs"
LLAMA = "llama-3.1-8b"


def ridge(part: str) -> float:
    roof = load_hardware(part).roof(DType.BF16)
    return roof.peak / roof.bandwidth


@pytest.mark.parametrize("name", topics())
def test_every_topic_is_complete_and_its_examples_hold(name: str) -> None:
    entry = topic(name)
    sentences = re.findall(r"[.:](?=\s|$)", entry.text)
    assert 2 <= len(sentences) <= 7
    assert entry.beyond
    assert set(entry.see) <= set(topics()) - {name}
    assert sum(" = " in line for line in entry.example) >= 1
    for line in entry.example:
        if " = " in line:
            check_line(line)
    assert str(entry).startswith(f"{entry.title}\n")
    assert all(len(line) <= 120 for line in str(entry).splitlines() if " = " not in line)


def test_names_are_read_in_any_spelling() -> None:
    assert topic("KV Cache") == topic("kv_cache") == topic("kv-cache") == topic(" KVCACHE ")
    assert topic("Ridge").name == "ridge-point"
    assert {topic(word).name for word in ("GQA", "mha", "Grouped-Query Attention")} == {"gqa"}


def test_no_alias_stands_for_two_topics() -> None:
    words = [word.lower() for name in topics() for word in {topic(name).name, *topic(name).aliases}]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(("name", "near"), [("rigde point", "ridge-point"), ("prefil", "prefill")])
def test_an_unknown_topic_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=near):
        topic(name)


def test_an_unknown_topic_without_a_neighbour_points_to_the_list() -> None:
    with pytest.raises(UnknownNameError, match="lists all") as error:
        topic("q" * 500)
    assert len(str(error.value)) < 200


def test_the_revision_has_the_table_and_every_topic() -> None:
    text = revision()
    assert phase_table() in text
    assert all(name in text for name in topics())
    rows = re.findall(r"^  (\S+(?: \S+)?)  +\S", phase_table(), re.MULTILINE)
    assert [row for row in rows if "-" not in row][-5:] == [
        "processes",
        "parallel?",
        "main work",
        "bottleneck",
        "limited by",
    ]
    assert "tendencies" in text


def test_thresholds_in_the_prose_are_those_of_the_layers() -> None:
    """T = r / (1 - r (n + k) / (n k)) over Llama-3-8B's four GEMMs of a layer."""
    layers = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))
    text = topic("batch-threshold").beyond
    for part in ("a100-sxm-80gb", "h100-sxm"):
        r = ridge(part)
        tokens = [r / (1 - r * (n + k) / (n * k)) for n, k in layers]
        assert f"{min(tokens):.0f} to {max(tokens):.0f}" in text
        assert f"{r:.0f}" in text
    r = ridge("h100-sxm")
    apart, fused = (r / (1 - r * (n + 4096) / (n * 4096)) for n in (1024, 6144))
    assert f"needs {apart:.0f} tokens" in topic("fusion").beyond
    assert f"needs {fused:.0f}" in topic("fusion").beyond


def test_figures_in_the_prose_are_those_of_a_prediction() -> None:
    """Llama-3.1-8B on an H100: prompt and context 2,048, batch 1 and 64; 64 prompts of 512; a prompt of 32."""
    one, many, batch, short = (
        predict(LLAMA, "h100-sxm", batch=b, prompt=s, context=c)
        for b, s, c in ((1, 2048, 2048), (64, 2048, 2048), (64, 512, 2048), (1, 32, 32))
    )
    prefill, step = one.phases
    assert f"{prefill.flops / 1e12:.2f} TFLOP" in topic("flops").beyond
    assert f"{prefill.model_flops / 1e12:.2f}" in topic("flops").beyond
    assert f"{prefill.floor_s * 1e3:.1f} ms" in topic("floor").beyond
    assert f"ideal {prefill.ideal_s * 1e3:.1f} ms" in topic("floor").beyond
    assert f"MBU of {phase_metrics(prefill).mbu * 100:.0f} %" in topic("mbu").beyond
    assert f"{phase_metrics(step).mfu * 100:.2f} %" in topic("mfu").beyond
    assert step.flops / step.traffic.memory == pytest.approx(1.053, rel=1e-3)
    decode = many.phases[1]
    assert f"{decode.floor_s * 1e3:.2f} ms" in topic("tpot").beyond
    assert f"{64 * step.floor_s / decode.floor_s:.0f} times" in topic("throughput").beyond
    assert f"{decode.traffic.kv_read / decode.traffic.memory * 100:.0f} %" in topic("traffic").beyond
    wide = batch.phases[0]
    assert f"{wide.bound_share[Bound.COMPUTE] * 100:.1f} %" in topic("bound").beyond
    attention = next(point for point in wide.points if point.op.name == "attention")
    assert attention.timing.bound is Bound.MEMORY
    assert f"{attention.op.intensity:.0f} FLOP/byte" in topic("attention").beyond
    assert f"{short.phases[0].floor_s * 1e3:.2f} ms" in topic("prefill").beyond
    assert f"{short.phases[0].intensity:.0f} FLOP/byte" in topic("prefill").beyond
    assert short.phases[0].bound is Bound.MEMORY


def test_decode_on_a_low_ridge_point_is_compute_bound_as_the_glossary_says() -> None:
    assert predict(LLAMA, "h20", batch=128, prompt=128).phases[1].bound is Bound.COMPUTE


def test_launches_in_the_prose_are_the_kernels_of_a_step() -> None:
    for name, layers in ((LLAMA, 32), ("llama-3.2-1b", 16)):
        step = predict(name, "h100-sxm").phases[1]
        assert sum(point.op.count for point in step.points) == 9 * layers + 3


def test_the_cache_saves_what_two_passes_differ_by() -> None:
    """Tiny: 80 weights in a layer of 4 x (8 + 4) and so on are counted once per token, pairs 5 against 15."""
    dtypes, model = precision(), tiny_model()
    savings = kv_savings(model, 4, dtypes)
    step = forward(model, Phase(PhaseKind.DECODE, Batch(1, 1, 4)), dtypes, Conventions())
    whole = forward(model, Phase(PhaseKind.PREFILL, Batch(1, 5, 0)), dtypes, Conventions())
    assert savings.cached_flops == sum(op.flops for op in step)
    assert savings.recomputed_flops == sum(op.flops for op in whole)
    assert savings.held_bytes == 2 * 4 * 4 * 2  # layers x tokens x (K and V of one head of 2) x bytes
    assert (savings.read_bytes, savings.written_bytes) == (64, 16)


def test_what_the_cache_saves_for_a_real_model() -> None:
    savings = kv_savings(load_model(LLAMA), 2048)
    assert savings.held_bytes == 2048 * 131_072
    assert savings.cached_flops == 16_098_186_240
    assert savings.factor == pytest.approx(1846.3, abs=0.1)
    text = kv_savings_text(savings)
    assert text.endswith("\n")
    assert [check_line(line) for line in text.splitlines() if " = " in line]


def test_a_window_bounds_what_the_step_reads() -> None:
    model: ModelSpec = tiny_model(window=3)
    savings = kv_savings(model, 100)
    assert savings.read_bytes == 2 * 2 * 4 * 2  # two tokens before the new one, two layers, 4 values, 2 bytes
    assert savings.held_bytes == 2 * 3 * 4 * 2


def test_the_state_of_a_hybrid_stands_beside_its_cache() -> None:
    text = kv_savings_text(kv_savings(SMALL["mamba"], 100))
    assert f"recurrent layers keep {2 * (12 * 3 * 4 + 12 * 3 * 2):,} B beside it" in text
    assert "recurrent" not in kv_savings_text(kv_savings(tiny_model(), 100))


def test_figures_of_layer_kinds_are_those_of_the_counts() -> None:
    """DeepSeek-V3 and V3.2, gpt-oss-120b, Mixtral, Qwen3-Next: what the prose says of them."""
    v3, oss, mixtral, hybrid = (
        load_model(name) for name in ("deepseek-v3", "gpt-oss-120b", "mixtral-8x7b", "qwen3-next-80b-a3b")
    )
    for dtype in (DType.BF16, DType.FP8_DS_MLA):
        assert f"{kv_bytes_per_token(v3, dtype, windowed=False):,} B" in str(topic("mla"))
    for windowed in (True, False):
        assert f"{kv_bytes_per_token(oss, DType.BF16, windowed=windowed):,}" in topic("sliding-window").beyond
    assert f"{params(mixtral):,} / {active_params(mixtral):,}" in str(topic("moe"))
    assert f"{kv_bytes_per_token(hybrid, DType.BF16, windowed=False):,}" in topic("recurrent-state").beyond
    assert f"{state_bytes(hybrid, None, DType.BF16) // 36:,} B" in str(topic("recurrent-state"))
    step = predict("deepseek-v3.2", "h200-sxm", prompt=131_072, context=131_072).phases[1]
    assert f"{step.traffic.kv_read // 61:,} B" in str(topic("sparse-attention"))
    for text in (str(topic("distinct-experts")), (DOCS / "concepts.md").read_text(encoding="utf-8")):
        assert f"{distinct_experts(256, 8, 32):.1f}" in text


@pytest.mark.parametrize("context", [0, -1, 2**41, 1.5, True, "8"])
def test_a_context_that_is_no_length_is_refused(context: object) -> None:
    with pytest.raises(InputError, match="whole number"):
        kv_savings(tiny_model(), context)  # type: ignore[arg-type]


def _formulas_of_the_documentation() -> list[tuple[str, str]]:
    """Lines with " = " in the fenced `text` blocks of every page."""
    found = []
    for page in sorted(DOCS.rglob("*.md")):
        for block in re.findall(r"^```text\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            found += [(page.name, line) for line in block.splitlines() if " = " in line]
    return found


def test_formulas_of_the_documentation_hold() -> None:
    for page, line in _formulas_of_the_documentation():
        assert check_line(line) is not None, page


def _examples() -> list[tuple[str, str]]:
    pages = [(page.name, page.read_text(encoding="utf-8")) for page in sorted(DOCS.rglob("*.md"))]
    return [(name, code) for name, text in pages for code in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)]


@pytest.mark.parametrize("code", [pytest.param(code, id=f"{name}-{i}") for i, (name, code) in enumerate(_examples())])
def test_python_examples_of_the_documentation_run(code: str) -> None:
    exec(compile(code, "example", "exec"), {})


def test_the_evaluator_reads_what_explanations_print() -> None:
    assert evaluate("2 x 1,024 x (3 + 4)") == 14_336
    assert evaluate("ceil((3 x 5) / 16) x 9") == 9
    assert evaluate("512 + 129 // 2") == 576
    assert float(evaluate("256 x (1 - (1 - 8 / 256)^1,000)")) == pytest.approx(256 * (1 - (1 - 8 / 256) ** 1000))
    assert evaluate("max(1,000 FLOP / 2 kFLOP/s, 3 B / 1 B/s)") == 3
    with pytest.raises(AssertionError):
        check_line("FLOP  a x b = 2 x 3 = 7 FLOP")
    with pytest.raises(AssertionError):
        check_line("time  a / b = 1 / 3 = 0.3 s")
