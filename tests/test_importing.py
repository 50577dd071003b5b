"""Recordings of others as profiles: by hand, and the real traces where they are at hand."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rooflens import load
from rooflens.core.op import OpKind
from rooflens.core.profile import Profile
from rooflens.core.scenario import PhaseKind
from rooflens.errors import InputError, UnknownHardwareError
from rooflens.render.csv import profile_csv
from rooflens.render.document import encode
from rooflens.render.documents import profile_document
from rooflens.render.html import html
from tests.sources.kineto_traces import kernel, launch, near, span
from tests.sources.nsys_files import two_phases
from tests.sources.replays import DECODE, replayed, trace
from tests.sources.shared import traces
from tests.test_docs import CONFIG

PRIVATE = ("zebra-host", "zebra-user", "zebra-token", "/home/zebra", "zebra-metadata", "zebra_cmd")


def small(folder: Path) -> Path:
    """Two layers of width 64 with 8 heads of 8 over 2, an MLP of 160, a vocabulary of 100, untied."""
    path = folder / "config.json"
    path.write_text(CONFIG)
    return path


def flops(profile: Profile) -> Counter[OpKind]:
    found: Counter[OpKind] = Counter()
    for phase in profile.phases:
        for point in phase.points:
            found[point.op.kind] += int(point.op.model_flops)
    return found


def only(profiles: list[Profile]) -> Profile:
    (profile,) = profiles
    return profile


def test_a_replayed_step_has_the_flop_of_its_model(tmp_path: Path) -> None:
    """4 tokens. Products of a layer: 64 x 96 + 64 x 64 + 64 x 320 + 160 x 64 = 40,960 weights; head 6,400:
    2 x 4 x (2 x 40,960 + 6,400) = 706,560. Attention: 400 positions x 8 heads x 2 x (8 + 8) x 2 layers = 204,800."""
    profile = only(load([trace(tmp_path / "t.json", replayed())], model=small(tmp_path)))
    (phase,) = profile.phases
    assert (phase.phase.kind, phase.phase.batch.sequences, phase.phase.batch.cached_tokens) == (PhaseKind.DECODE, 4, 99)
    found = flops(profile)
    assert (found[OpKind.GEMM], found[OpKind.ATTENTION]) == (706_560, 204_800)
    assert phase.traffic.weights > 2 * (2 * 40_960 + 6_400)
    assert phase.traffic.kv_read == 4 * 99 * 2 * (2 * 8 * 2) * 2
    assert phase.measured.traced.coverage == near(1)
    assert phase.measured.traced.wall_s == near(340e-6)
    assert phase.predicted is not None
    assert "11 of 11 products and attentions" in " ".join(finding.text for finding in profile.findings)


@pytest.mark.parametrize(("name", "said"), [("step[DECODE bs=4]", True), (DECODE, False)])
def test_cached_tokens_that_the_annotation_leaves_out_are_said(tmp_path: Path, name: str, said: bool) -> None:
    profile = only(load([trace(tmp_path / "t.json", replayed(name=name))], model=small(tmp_path)))
    assert any("cached tokens of each sequence" in finding.text for finding in profile.findings) is said


def test_without_a_model_kernels_have_classes_and_no_flop(tmp_path: Path) -> None:
    profile = only(load([trace(tmp_path / "t.json", replayed())]))
    (phase,) = profile.phases
    assert (sum(flops(profile).values()), phase.measured.traced.coverage) == (0, 0)
    assert phase.measured.traced.matrix_share == near(11 / 24)
    assert any("with --model" in finding.text for finding in profile.findings)


def test_a_model_of_other_layers_is_a_warning(tmp_path: Path) -> None:
    """One layer ran, two are asked for: 5 products and one attention of 11 are there."""
    profile = only(load([trace(tmp_path / "t.json", replayed(layers=1))], model=small(tmp_path)))
    (finding,) = (finding for finding in profile.findings if finding.code == "matched")
    assert finding.level == "warning"
    assert "6 of 11" in finding.text


def test_two_kernels_that_shorten_alike_stay_apart(tmp_path: Path) -> None:
    names = ["void elementwise_kernel<4, Add>(int)", "void elementwise_kernel<4, Mul>(int)"]
    events = [span("decode", 0, 50), launch(10, 7, name="cudaGraphLaunch"),
              *(kernel(name, 100 + 10 * i, 10, correlation=7) for i, name in enumerate(names))]  # fmt: skip
    (phase,) = only(load([trace(tmp_path / "t.json", events)])).phases
    assert [timed.op.name for timed in phase.measured.traced.ops] == ["elementwise_kernel"] * 2


@pytest.mark.parametrize("device", ["", " ", "AMD Radeon Graphics", "Example 9000"])
def test_a_device_that_is_not_known_is_asked_for(tmp_path: Path, device: str) -> None:
    path = trace(tmp_path / "t.json", replayed(), device=device)
    with pytest.raises(UnknownHardwareError, match="--gpu"):
        load([path])
    assert only(load([path], gpu="mi300x")).hardware.name == "mi300x"


def test_a_file_without_devices_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": replayed()}))
    with pytest.raises(UnknownHardwareError, match="--gpu"):
        load([path])


def private(folder: Path) -> Path:
    """A trace with everything in it that should not leave it, under the folder of a user."""
    home = folder / "zebra-user"
    home.mkdir()
    host, user, token, path, metadata, command = PRIVATE
    inside = {"env": {"HOME": path, "TOKEN": token}, "argv": [command], "note": metadata}
    events = replayed()
    events.append({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": command, "labels": user}})
    events[0]["args"] = {"user": user, "cmdline": command, "Python parent id": 1}
    more: dict[str, Any] = {"host_name": host, "metadata": inside, "traceName": f"{path}/t.json", "with_stack": 1}
    more["distributedInfo"] = {"rank": 0, "pg_config": token, "hostname": host}
    return trace(home / "t.json", events, **more)


def test_nothing_private_leaves_a_trace(tmp_path: Path) -> None:
    from io import StringIO

    from rich.console import Console

    from rooflens.render.table import profile_table

    profile = only(load([private(tmp_path)], model=small(tmp_path)))
    table = StringIO()
    Console(file=table, width=300).print(profile_table(profile))
    outputs = (table.getvalue(), str(encode(profile_document(profile))), profile_csv(profile), html(profile))
    for output in outputs:
        assert "down_proj" in output
        assert not [word for word in PRIVATE if word in output]


def test_nothing_private_leaves_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"host_name": PRIVATE[0], "metadata": {"x": PRIVATE[2]}, "traceEvents": 7}))
    with pytest.raises(InputError) as caught:
        load([path], gpu="h100-sxm")
    assert not [word for word in PRIVATE if word in str(caught.value)]


def test_names_of_a_trace_do_not_reach_the_terminal_as_codes(tmp_path: Path) -> None:
    from io import StringIO

    from rich.console import Console

    from rooflens.render.table import profile_table

    events = [span("decode", 0, 50), launch(10, 7, name="cudaGraphLaunch"),
              kernel("\x1b[2Jgone[red]x[/red][/]", 100, 10, correlation=7)]  # fmt: skip
    table = StringIO()
    Console(file=table, width=300).print(profile_table(only(load([trace(tmp_path / "t.json", events)]))))
    assert "\x1b[2J" not in table.getvalue()
    assert "[red]x[/red]" in table.getvalue()


def test_each_format_and_packed(tmp_path: Path) -> None:
    """Four files that are called alike, one of each kind: a profile for each, in their order."""
    csv = "Dispatch_ID,Kernel_Name,Start_Timestamp,End_Timestamp\n0,gemm,0,1000\n"
    kineto = trace(tmp_path / "a", replayed())
    packed = tmp_path / "b"
    packed.write_bytes(gzip.compress(kineto.read_bytes()))
    nsys, zipped = tmp_path / "c", tmp_path / "c.gz"
    nsys.write_bytes(two_phases().write(tmp_path / "x.sqlite").read_bytes())
    zipped.write_bytes(gzip.compress(nsys.read_bytes()))
    rocprof, tight = tmp_path / "d", tmp_path / "d.json"
    rocprof.write_text(csv)
    tight.write_bytes(gzip.compress(csv.encode()))
    files = [kineto, packed, nsys, zipped, rocprof, tight]
    found = load(files, gpu="h100-sxm")
    kinds = [dict(profile.conditions)["recorded by"] for profile in found]
    assert kinds == ["kineto", "kineto", "nsys", "nsys", "rocprof", "rocprof"]
    for left, right in zip(found[::2], found[1::2], strict=True):
        assert [phase.measured.time_s for phase in left.phases] == [phase.measured.time_s for phase in right.phases]


def test_what_could_not_be_read_is_said(tmp_path: Path) -> None:
    events = [*replayed(), *(kernel("late", 900 + i, -5, correlation=7) for i in range(3))]
    profile = only(load([trace(tmp_path / "t.json", events)]))
    assert any("3 events could not be read" in finding.text for finding in profile.findings)


def test_two_passes_are_averaged(tmp_path: Path) -> None:
    """The second replay takes 20 us a kernel: 24 x (10 + 20) / 2 us."""
    second = [{**event, "ts": event["ts"] + 10_000} for event in replayed(seconds_us=20)]
    for event in second:
        if "correlation" in event["args"]:
            event["args"] = {"correlation": 8}
    (phase,) = only(load([trace(tmp_path / "t.json", [*replayed(), *second])])).phases
    assert phase.measured.traced.passes == 2
    assert phase.measured.traced.op_s == near(360e-6)


def of_sample(file: str, **options: Any) -> Profile:
    return only(load([traces(f"kineto/{file}.json.gz")], **options))


def test_the_replay_of_sglang() -> None:
    """Qwen3-8B on an MI300X, 32 sequences of 1,024 tokens, a HIP graph of 544 kernels, without its capture trace."""
    profile = of_sample("sglang_mi300x_qwen3-8b_decode_graphreplay", model="qwen3-8b", gpu="mi300x")
    (phase,) = profile.phases
    assert phase.measured.traced.coverage >= 0.95
    assert phase.measured.traced.matrix_share >= 0.80
    assert not [point.op.name for point in phase.points if (point.roof_share or 0) > 1.05]
    shares: dict[OpKind, list[float]] = {}
    for point in phase.points:
        if point.measured_s:
            row = shares.setdefault(point.op.kind, [0.0, 0.0])
            row[0], row[1] = row[0] + float(point.floor_s), row[1] + point.measured_s
    assert all(floor <= 1.05 * took for floor, took in shares.values())


def test_the_eager_step_of_an_h100() -> None:
    profile = of_sample("hf_h100_qwen1.5-0.5b")
    assert profile.hardware.name == "h100-sxm"
    assert all(phase.measured.traced.coverage >= 0.95 for phase in profile.phases)


def test_graph_replay_of_an_mi300_is_asked_for_its_part() -> None:
    for path in sorted(traces("kineto").glob("*.gz")):
        try:
            profile = only(load([path]))
        except UnknownHardwareError as refusal:
            assert "--gpu" in str(refusal)
            assert load([path], gpu="mi300x")[0].phases
        else:
            assert profile.phases
