"""Answers of /metrics endpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.core.activity import Field
from rooflens.core.server import Gauge, Histogram, Snapshot, Total
from rooflens.errors import InputError
from rooflens.sources.prometheus import LIMIT, read_snapshot
from tests.metrics_server import sglang, vllm

pytest.importorskip("prometheus_client")

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "traces" / "prometheus"
SHARED = pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs the shared samples")


def read(text: str | bytes) -> Snapshot:
    return read_snapshot(text if isinstance(text, bytes) else text.encode(), "test", seconds=1.0)


def test_vllm() -> None:
    found = read(vllm(1))
    assert (found.engine, found.models, found.engines) == ("vllm", ("tiny",), 1)
    assert found.totals == {
        Total.PROMPT: 1060,
        Total.COMPUTED: 740,
        Total.CACHED: 320,
        Total.GENERATED: 5110,
        Total.ESTIMATED_FLOPS: 60_000,
        Total.ESTIMATED_READ: 30_000,
        Total.ESTIMATED_WRITE: 1_000,
    }
    assert found.gauges == {Gauge.RUNNING: 2, Gauge.WAITING: 3, Gauge.KV_USAGE: 0.09, Gauge.KV_TOKENS: 200}
    assert (found.histograms[Histogram.TTFT].total, found.histograms[Histogram.TTFT].count) == (5.5, 60)
    assert found.histograms[Histogram.STEP_TOKENS].count == 3060
    assert found.notes == ()


def test_renamed_metrics() -> None:
    """Of vLLM 0.6: another name of the cache's use, of the gaps between tokens, and of prefix hits."""
    old = vllm(1, usage="gpu_cache_usage_perc", drop=("by_source",))
    old = old.replace("inter_token_latency_seconds", "time_per_output_token_seconds")
    old = old.replace("prefix_cache_hits_total", "gpu_prefix_cache_hits_total")
    found = read(old)
    assert found.gauges[Gauge.KV_USAGE] == 0.09
    assert found.histograms[Histogram.INTER_TOKEN].total == 104
    assert found.totals[Total.CACHED] == 320
    assert Total.COMPUTED not in found.totals


def test_ranks_of_one_replica_count_once() -> None:
    found = read(sglang(1))
    assert (found.engine, found.engines) == ("sglang", 1)
    assert found.gauges == {
        Gauge.RUNNING: 2,
        Gauge.WAITING: 3,
        Gauge.KV_USAGE: 0.09,
        Gauge.KV_TOKENS: 200,
        Gauge.THROUGHPUT: 55,
    }
    assert found.totals[Total.CACHED] == 320


def test_sglang_counts_tokens_as_they_run_where_it_does() -> None:
    """`prompt_tokens_total` grows when a request ends, `realtime_tokens_total` as it runs."""
    text = sglang(1) + "".join(
        f'sglang:realtime_tokens_total{{mode="{mode}"}} {value}\n'
        for mode, value in (("prefill_compute", 70), ("prefill_cache", 30), ("decode", 400))
    )
    totals = read(text).totals
    assert (totals[Total.PROMPT], totals[Total.COMPUTED], totals[Total.CACHED]) == (100, 70, 30)
    assert totals[Total.DECODED] == 400


def test_replicas_are_added_up() -> None:
    one = vllm(1)
    found = read(one + one.replace('engine="0"', 'engine="1"'))
    assert found.engines == 2
    assert (found.totals[Total.PROMPT], found.totals[Total.ESTIMATED_FLOPS]) == (2120, 60_000)
    assert (found.gauges[Gauge.KV_USAGE], found.gauges[Gauge.KV_TOKENS]) == (0.09, 400)


def test_priorities_are_parts_of_the_whole() -> None:
    lines = "".join(f'sglang:num_queue_reqs{{priority="{p}"}} {n}\n' for p, n in (("", 3), ("1", 2), ("5", 1)))
    assert read(lines).gauges[Gauge.WAITING] == 3


def test_drafts_by_position() -> None:
    lines = "".join(
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{n}"}} {value}\n'
        for n, value in enumerate((90, 40, 10))
    )
    assert read(lines + "vllm:spec_decode_num_drafts_total 100\n").accepted == (90, 40, 10)


@pytest.mark.parametrize("names", [("PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE", "SM_ACTIVE"),
                                   ("TENSOR_UTIL_RATIO", "DRAM_UTIL_RATIO", "SM_UTIL_RATIO")])  # fmt: skip
def test_an_exporter_of_either_generation(names: tuple[str, ...]) -> None:
    values = (("0", (0.2, 0.9, 9223372036854775794)), ("1", (0.8, 0.3, 0.95)))
    lines = "".join(
        f'DCGM_FI_PROF_{name}{{gpu="{gpu}",UUID="GPU-x"}} {value}\n'
        for gpu, row in values
        for name, value in zip(names, row, strict=True)
    )
    first, second = read(lines).activities
    assert (first.device, first.seconds) == ("GPU 0", None)
    assert (first.get(Field.TENSOR), first.get(Field.DRAM), first.get(Field.SM)) == (0.2, 0.9, None)
    assert second.get(Field.SM) == 0.95


def test_lines_that_cannot_be_read_are_counted() -> None:
    """NaN, infinity, no number, open labels, 5,000 digits, bytes that are no UTF-8, a line without an end."""
    bad = [
        b"vllm:num_requests_waiting NaN",
        b"vllm:num_requests_waiting +Inf",
        b"vllm:num_requests_waiting many",
        b'vllm:num_requests_waiting{engine="0 1',
        b"vllm:num_requests_waiting " + b"9" * 5000,
        b"vllm:num_requests_waiting " + b"9" * 400,
        b'vllm:num_requests_waiting{engine="\xff\xfe"} 1',
        b"vllm:num_requests_waiting" + b" " * 9000 + b"1",
        b"vllm:prompt_tokens_total 12",
    ]
    found = read(b"vllm:num_requests_running 2\n" + b"\n".join(bad))
    assert found.gauges == {Gauge.RUNNING: 2}
    assert found.totals == {}
    assert found.notes == ("9 lines could not be read, or held no number, and were left out",)


def test_a_cut_number_is_not_taken() -> None:
    """A total that lost its last digits would look like a restart."""
    whole = vllm(1)
    assert read(whole[: whole.index("vllm:generation") + 60]).totals.get(Total.GENERATED) is None


def test_several_models_are_said() -> None:
    found = read(vllm(1) + vllm(1).replace('"tiny"', '"other"'))
    assert found.notes == ("2 models are served and added up: other, tiny",)


def test_what_a_server_calls_itself_does_not_reach_the_terminal() -> None:
    found = read('vllm:num_requests_running{model_name="\x1b[31mred"} 1\nDCGM_FI_PROF_SM_ACTIVE{gpu="\x1b]0;x"} 1\n')
    assert found.models == ("\N{REPLACEMENT CHARACTER}[31mred",)
    assert found.activities[0].device == "GPU \N{REPLACEMENT CHARACTER}]0;x"


@pytest.mark.parametrize(
    "data", [b"", b"<html>404</html>", b"\x00\xff" * 100, b"node_cpu 1\n", b"vllm:x", b"# vllm:\n"]
)
def test_other_content_is_one_sentence(data: bytes) -> None:
    with pytest.raises(InputError, match="test holds no metric that is known"):
        read(data)


def test_a_huge_answer_is_refused() -> None:
    with pytest.raises(InputError, match="more than 16,777,216 bytes"):
        read(b"x" * (LIMIT + 1))


@SHARED
def test_real_excerpts() -> None:
    found = read((SAMPLES / "dynamo_vllm_excerpt_0.txt").read_bytes())
    ttft = found.histograms[Histogram.TTFT]
    assert (found.engine, ttft.total, ttft.count) == ("vllm", 89.38, 165)
    other = read((SAMPLES / "dynamo_sglang_excerpt_0.txt").read_bytes())
    assert other.totals == {Total.PROMPT: 8128902, Total.GENERATED: 7557572}
    for path in SAMPLES.glob("dcgm_exporter_readme_*.txt"):
        with pytest.raises(InputError, match="no metric that is known"):
            read(path.read_bytes())
