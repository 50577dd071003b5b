"""What a server did between two snapshots, against counts on paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rooflens import watching
from rooflens.core.profile import Bound
from rooflens.core.server import Gauge, Histogram, Observed, Snapshot, Total
from rooflens.errors import InputError
from rooflens.render.reading import reading_document, reading_line
from rooflens.render.reading_words import headroom, watch_verdict
from rooflens.watching import Watched
from tests.conftest import part, precision, tiny_model

PREFILL_FLOPS = 4 * 2 * 240 + 18 * 16 * 2 + 80
"""4 tokens behind 2: 240 FLOP for a token and layer, 18 pairs of 16 FLOP a layer, one row of logits."""
STEP_FLOPS = 2 * 2 * 240 + 2 * 10 * 16 * 2 + 2 * 80
"""2 sequences at 9 cached tokens: linear layers, 10 positions each, two rows of logits."""
STEP_KV_BYTES = 2 * (9 + 1) * 16
"""9 tokens read and 1 written for each sequence; K and V of 2 values in 2 bytes, two layers: 16 bytes a token."""


def read(before: Snapshot, after: Snapshot, served: Watched) -> Any:
    return watching.read(before, after, served)


def watched(**changed: object) -> Watched:
    return Watched(tiny_model(), part(), precision(), **changed)


def snapshot(step: int, **changed: object) -> Snapshot:
    """40 computed and 20 cached prompt tokens, 10 prompts, 110 tokens, 4 s of gaps in each step of 2 s."""
    made = Snapshot(
        engine="vllm",
        seconds=10 + 2.0 * step,
        totals={
            Total.PROMPT: 60.0 * step,
            Total.COMPUTED: 40.0 * step,
            Total.CACHED: 20.0 * step,
            Total.GENERATED: 110.0 * step,
        },
        gauges={Gauge.RUNNING: 2.0, Gauge.WAITING: 3.0, Gauge.KV_USAGE: 0.09, Gauge.KV_TOKENS: 200.0},
        histograms={
            Histogram.TTFT: Observed(0.5 * step, 10.0 * step),
            Histogram.INTER_TOKEN: Observed(4.0 * step, 100.0 * step),
        },
        series={"tokens": 110.0 * step},
    )
    return replace(made, **changed)


def test_flops_per_second_by_hand() -> None:
    """10 prompts and 110 - 10 tokens in 2 s: 5 prefills of 4 tokens behind 2, and 50 / 2 = 25 steps of 2 a second."""
    reading = read(snapshot(0), snapshot(1), watched())
    assert reading.workload.batch == 2
    assert reading.workload.context == pytest.approx(9)
    assert (reading.workload.prompt_tokens, reading.workload.prefix_tokens) == (4, 2)
    assert reading.prefill.model_flops == pytest.approx(5 * PREFILL_FLOPS)
    assert reading.decode.model_flops == pytest.approx(25 * STEP_FLOPS)
    assert reading.total.model_flops == pytest.approx(5 * 2576 + 25 * 1760)
    assert reading.decode.kv == pytest.approx(25 * STEP_KV_BYTES)
    assert reading.total.mfu == pytest.approx((5 * 2576 + 25 * 1760) / 100e12)


def test_each_step_reads_the_weights_once() -> None:
    """280 weights in two layers and the head, 5 norms of 4, and 2 rows of 4 of the table: 308 values of 2 bytes."""
    reading = read(snapshot(0), snapshot(1), watched())
    assert reading.decode.weights == pytest.approx(25 * 308 * 2)


def test_a_small_model_is_memory_bound_and_the_cache_is_next() -> None:
    reading = read(snapshot(0), snapshot(1), watched())
    assert reading.bound is Bound.MEMORY
    assert "memory-bound" in watch_verdict(reading)
    assert reading.next_limit == "kv_cache"
    assert headroom(reading)[0] == (
        "next limit: the KV cache, 9.0 % of 200 tokens held; room for 182 tokens, 20 more sequences of 9"
    )


def test_cached_tokens_cost_no_prefill() -> None:
    """Without word of cached tokens all 60 of 2 s count, 10 a second too many, and it is said."""
    totals = {step: {Total.PROMPT: 60.0 * step, Total.GENERATED: 110.0 * step} for step in (0, 1)}
    reading = read(snapshot(0, totals=totals[0]), snapshot(1, totals=totals[1]), watched())
    assert (reading.workload.computed_per_s, reading.workload.cached_per_s) == (30, None)
    assert any("all count as computed" in note for note in reading.notes)


def test_a_batch_between_two_numbers_is_steps_of_both() -> None:
    """Gaps of 5 s in 2 s are 2.5 sequences: 50 tokens are 20 steps, 10 of 2 and 10 of 3, each reads the weights."""
    gaps = {Histogram.TTFT: Observed(0.5, 10.0), Histogram.INTER_TOKEN: Observed(5.0, 100.0)}
    decode = read(snapshot(0), snapshot(1, histograms=gaps), watched()).decode
    assert decode.model_flops == pytest.approx(10 * STEP_FLOPS + 10 * STEP_FLOPS * 3 / 2)
    assert decode.weights == pytest.approx(10 * 308 * 2 + 10 * 312 * 2)


def test_without_gaps_the_running_sequences_are_the_batch() -> None:
    first = ({Histogram.TTFT: Observed(0.5 * step, 10.0 * step)} for step in (0, 1))
    before, after = (snapshot(step, histograms=seen) for step, seen in zip((0, 1), first, strict=True))
    reading = read(before, after, watched())
    assert reading.workload.batch == 2
    assert ("batch", "running sequences at both ends") in reading.origins


def test_the_engines_own_rate_where_tokens_are_counted_at_the_end() -> None:
    gauges = {**snapshot(0).gauges, Gauge.THROUGHPUT: 50.0}
    reading = read(snapshot(0, gauges=gauges), snapshot(1, gauges=gauges), watched())
    assert (reading.workload.decoded_per_s, reading.workload.generated_per_s) == (50, 55)
    assert ("decoded tokens", "the engine's own rate, mean of both ends") in reading.origins


def test_figures_have_their_sources() -> None:
    origins = dict(read(snapshot(0), snapshot(1), watched()).origins)
    assert origins["bf16 peak"] == origins["memory bandwidth"] == "user: a test"
    assert origins["model shape"] == "a test"


def test_two_gpus_share_the_work() -> None:
    one, two = (read(snapshot(0), snapshot(1), watched(tp=tp)) for tp in (1, 2))
    assert two.total.flops == one.total.flops
    assert two.total.mfu == pytest.approx(one.total.mfu / 2)
    assert two.attainable == pytest.approx(2 * one.attainable)


def test_replicas_have_batches_of_their_own() -> None:
    """4 sequences on two replicas are 2 on each: as many steps as tokens over 2."""
    gaps = {Histogram.TTFT: Observed(0.5, 10.0), Histogram.INTER_TOKEN: Observed(8.0, 100.0)}
    after = snapshot(1, engines=2, histograms=gaps)
    reading = read(snapshot(0, engines=2), after, watched(context=9))
    assert reading.parts == 2
    assert reading.decode.model_flops == pytest.approx(25 * STEP_FLOPS)


def test_a_verify_pass_of_speculative_decoding() -> None:
    """4 drafts, of which 2 are accepted: 3 tokens a step, 5 verified, and logits for each of them."""

    def drafted(step: int) -> dict[Total, float]:
        return {**snapshot(step).totals, Total.DRAFTS: 10.0 * step, Total.DRAFT_TOKENS: 40.0 * step,
                Total.ACCEPTED: 20.0 * step}  # fmt: skip

    before = snapshot(0, totals=drafted(0), accepted=(0.0, 0.0))
    after = snapshot(1, totals=drafted(1), accepted=(9.0, 4.0))
    reading = read(before, after, watched())
    pairs = sum(9 + i for i in range(1, 6))
    step = 2 * 5 * 2 * 240 + 2 * pairs * 16 * 2 + 2 * 5 * 80
    assert reading.workload.tokens_per_step == 3
    assert reading.decode.model_flops == pytest.approx(50 / (2 * 3) * step)
    assert reading.accepted == (0.9, 0.4)


def test_what_is_not_exported_stays_unknown() -> None:
    bare = {Total.GENERATED: 110.0}
    before = snapshot(0, totals={Total.GENERATED: 0.0}, gauges={}, histograms={})
    reading = read(before, snapshot(1, totals=bare, gauges={}, histograms={}), watched())
    assert (reading.prefill, reading.decode, reading.total, reading.bound) == (None, None, None, None)
    assert reading.limits == {}
    assert {"prompt tokens are not exported: prefill is not known"} < set(reading.notes)
    assert "KV -" in reading_line(reading)
    assert watch_verdict(reading) == "what limits the server is not known"
    assert reading_document(reading)["total"] is None


def test_given_lengths_stand_in() -> None:
    totals = {
        step: {Total.PROMPT: 60.0 * step, Total.CACHED: 20.0 * step, Total.DECODED: 100.0 * step} for step in (0, 1)
    }
    gauges = {Gauge.RUNNING: 2.0}
    before, after = (snapshot(step, totals=totals[step], gauges=gauges, histograms={}) for step in (0, 1))
    reading = read(before, after, watched(prompt=6, context=9))
    assert reading.total.model_flops == pytest.approx(5 * PREFILL_FLOPS + 25 * STEP_FLOPS)


def test_tokens_of_a_prompt_that_goes_on() -> None:
    """No first token in the interval: the mean of 100 prompts before is 4 computed behind 2."""
    seen = {Histogram.TTFT: Observed(5.0, 100.0), Histogram.INTER_TOKEN: Observed(4.0, 100.0)}
    totals = [{Total.COMPUTED: 360.0, Total.CACHED: 200.0}, {Total.COMPUTED: 400.0, Total.CACHED: 200.0}]
    before, after = (snapshot(step, histograms=seen, totals=totals[step]) for step in (0, 1))
    reading = read(before, after, watched())
    assert (reading.workload.prompt_tokens, reading.workload.prefix_tokens) == (4, 2)
    assert reading.prefill.model_flops == pytest.approx(20 / 4 * PREFILL_FLOPS)


def test_an_idle_server() -> None:
    reading = read(snapshot(1), replace(snapshot(1), seconds=20.0), watched())
    assert reading.total.flops == 0
    assert watch_verdict(reading) == "the server did no work in this interval"


def test_more_work_than_the_roof_allows_is_said() -> None:
    slow = part(matrix={k: replace(v, value=1e3) for k, v in part().matrix.items()})
    reading = read(snapshot(0), snapshot(1), Watched(tiny_model(), slow, precision()))
    assert reading.total.busy > 1
    assert any("more time at the roof than there was" in note for note in reading.notes)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (snapshot(1), replace(snapshot(0), seconds=20.0), "tokens went down: the server restarted"),
        (snapshot(1), snapshot(1), "no time passed"),
        (snapshot(0), replace(snapshot(1), engine="sglang"), "do not compare"),
    ],
)
def test_snapshots_that_do_not_compare(before: Snapshot, after: Snapshot, text: str) -> None:
    with pytest.raises(InputError, match=text):
        read(before, after, watched())


@pytest.mark.parametrize("given", [{"tp": 0}, {"prompt": 0}, {"context": -1}])
def test_sizes_are_checked(given: dict[str, int]) -> None:
    with pytest.raises(InputError, match="expected a whole number"):
        watched(**given)
