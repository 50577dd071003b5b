"""Small models of the reference framework, traced here and read: FLOP on paper and by the independent counter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="runs the reference framework (extra torch)")
transformers = pytest.importorskip("transformers", reason="runs the reference framework (extra torch)")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

from rooflens.audit.counter import Tally, counting  # noqa: E402
from rooflens.core.scenario import AttentionFlops  # noqa: E402
from rooflens.core.timed import TimedPhase  # noqa: E402
from rooflens.frameworks import quiet_stderr  # noqa: E402
from rooflens.sources.kineto import read_kineto  # noqa: E402
from tests.sources.kineto_traces import near  # noqa: E402

PROMPT, STEPS = 16, 3
_BASE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128, "pad_token_id": 0}
_GQA = {**_BASE, "num_key_value_heads": 2, "intermediate_size": 96}

MODELS: dict[str, dict[str, Any]] = {
    "Llama": _GQA,
    "GPT2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128, "n_positions": 64},
    "Mixtral": {**_GQA, "num_local_experts": 4},
    "Qwen3": {**_GQA, "head_dim": 16},
    "Gemma2": {**_GQA, "head_dim": 16, "sliding_window": 8},
    "Phi3": _GQA,
    "Mamba": {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128, "state_size": 8},
    "Mamba2": {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "vocab_size": 128,
        "state_size": 16,
        "num_heads": 8,
        "head_dim": 16,
        "n_groups": 1,
        "chunk_size": 8,
    },
    "DeepseekV3": {
        **_BASE,
        "num_key_value_heads": 4,
        "intermediate_size": 96,
        "moe_intermediate_size": 32,
        "first_k_dense_replace": 1,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "n_group": 2,
        "topk_group": 1,
        "q_lora_rank": 32,
        "kv_lora_rank": 32,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
    },
    "GptOss": {**_GQA, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2},
}


class Run(NamedTuple):
    """Both phases as they were read with causal attention and with all pairs, and FLOP by the other counter."""

    causal: dict[str, TimedPhase]
    full: dict[str, TimedPhase]
    flops: dict[str, int]


Within = Callable[[str], Any]


def steps(model: Any, within: Within) -> None:
    """Prefill, and decode steps that pass its cache on; each inside what `within` opens for its phase.

    Without gradients, but not in inference mode: there the dispatcher sees einsum, not the products that it makes.
    """
    tokens = torch.arange(PROMPT)[None]
    with torch.no_grad():
        with within("prefill"):
            out = model(tokens, use_cache=True)
        for _ in range(STEPS):
            state = {n: out[n] for n in ("past_key_values", "cache_params") if out.get(n) is not None}
            with within("decode"):
                out = model(out.logits[:, -1:].argmax(-1), use_cache=True, **state)


_done: dict[str, Run] = {}


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    name: str = request.param
    if name not in _done:
        _done[name] = ran(name, tmp_path)
    return _done[name]


def ran(name: str, folder: Path) -> Run:
    kind = getattr(transformers, f"{name}Config", None)
    if kind is None:
        pytest.skip(f"this transformers has no {name}")
    torch.manual_seed(0)
    with quiet_stderr():
        model = transformers.AutoModelForCausalLM.from_config(kind(**MODELS[name])).eval()
        steps(model, torch.profiler.record_function)
        with torch.profiler.profile(record_shapes=True) as session:
            steps(model, torch.profiler.record_function)
        session.export_chrome_trace(str(folder / "trace.json"))
        tallies = {"prefill": Tally({}), "decode": Tally({})}
        steps(model, lambda phase: counting(tallies[phase]))
    read = [
        {phase.name: phase for phase in read_kineto(folder / "trace.json", tallies, convention=convention)}
        for convention in AttentionFlops
    ]
    flops = {name: tally.flops for name, tally in tallies.items()}
    by = dict(zip(AttentionFlops, read, strict=True))
    return Run(by[AttentionFlops.CAUSAL], by[AttentionFlops.FULL], flops)


def model_flops(phase: TimedPhase) -> float:
    return float(sum(timed.op.model_flops for timed in phase.ops))


@pytest.mark.parametrize("run", ["Llama"], indirect=True)
def test_llama_on_paper(run: Run) -> None:
    """A layer: q and o 64 x 64, k and v 64 x 32, three of 64 x 96, 30,720 weights; the head 64 x 128 over all tokens.
    Causal attention of 4 heads of 16: 136 pairs in prefill; a step meets 17, 18 and 19 keys."""
    weights = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96) + 64 * 128
    pair = 2 * (16 + 16) * 4 * 2
    prefill, decode = run.causal["prefill"], run.causal["decode"]
    assert model_flops(prefill) == 2 * PROMPT * weights + pair * 136
    assert model_flops(decode) == near(2 * weights + pair * 18)
    assert model_flops(run.full["prefill"]) == 2 * PROMPT * weights + pair * 256
    assert (prefill.passes, decode.passes) == (1, STEPS)
    for phase in (prefill, decode):
        read = sum(timed.op.traffic.weights for timed in phase.ops if timed.op.model_flops)
        assert read == near(4 * weights)
        assert phase.coverage >= 0.99
        assert phase.unknown == ()
        assert phase.busy_s + phase.dispatch_s + phase.gap_s == near(phase.wall_s)


@pytest.mark.parametrize("run", ["Llama"], indirect=True)
def test_decode_reads_the_cache(run: Run) -> None:
    """16, 17 and 18 tokens cached, K and V of 2 heads of 16 in fp32 in 2 layers, kept once for each KV head."""
    (attention,) = (timed.op for timed in run.causal["decode"].ops if timed.op.kind == "attention")
    assert attention.traffic.kv_read == near(17 * 2 * 2 * 16 * 4 * 2)
    assert attention.count == 2


@pytest.mark.parametrize("run", MODELS, indirect=True)
def test_every_op_is_known(run: Run) -> None:
    for phase in run.causal.values():
        assert phase.unknown == ()
        assert phase.coverage == near(1)
        assert phase.busy_s + phase.dispatch_s + phase.gap_s == near(phase.wall_s)


@pytest.mark.parametrize("run", MODELS, indirect=True)
def test_flops_of_the_independent_counter(run: Run) -> None:
    """Every pair of attention is multiplied there; its products are those of the dispatcher, ours those of a trace."""
    assert model_flops(run.full["prefill"]) == run.flops["prefill"] > 0
    assert model_flops(run.full["decode"]) * STEPS == near(run.flops["decode"])
