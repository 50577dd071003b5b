"""What a stranger's model, loop, disk or hand can do to a run: one sentence, and nothing of what was measured lost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="a run needs the extra 'measure'")
pytest.importorskip("transformers", reason="a run needs the extra 'measure'")

from click.testing import CliRunner

import rooflens
from rooflens.cli import cli
from rooflens.errors import InputError
from rooflens.live.passes import Runner
from tests.live.kept import measured_part
from tests.live.test_profile import TINY, card, config, run

__all__ = ["card"]
GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 50, "n_positions": 16}
ERRORS = (IndexError("index out of range in self"), TypeError("no"), KeyError("x"), AttributeError("logits"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_whatever_a_forward_raises_is_one_sentence(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_args: object) -> None:
        raise error

    monkeypatch.setattr(Runner, "prefill", fail)
    with pytest.raises(InputError, match=rf"did not run on cpu \({type(error).__name__}"):
        run(tmp_path, TINY, prompt=8, output=3)


@pytest.mark.parametrize("error", [*ERRORS, InputError("no trace")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("place", ["trace_phases", "read_references", "read_kineto"])
def test_whatever_a_breakdown_raises_leaves_the_times(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, place: str
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(f"rooflens.profiler.{place}", fail)
    profile = run(tmp_path, TINY, prompt=8, output=3)
    assert [len(phase.measured.times_s) for phase in profile.phases if phase.measured] == [2, 2]
    assert "the breakdown is missing" in profile.findings[0].text


def test_a_repeat_that_fails_leaves_those_before(card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = Runner.prefill, iter(range(100))

    def fail_later(runner: Runner, tokens: Any) -> Any:
        if next(calls) == 3:
            raise IndexError("out of range")
        return real(runner, tokens)

    monkeypatch.setattr(Runner, "prefill", fail_later)
    profile = run(tmp_path, TINY, prompt=8, output=3, repeat=5)
    assert [len(phase.measured.times_s) for phase in profile.phases if phase.measured] == [2, 2]
    assert "failed (IndexError: out of range) after 2 complete repeats" in profile.findings[0].text


def test_counters_that_are_interrupted_leave_the_rest(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rooflens.profiler.counters", stop)
    profile = run(tmp_path, TINY, prompt=8, output=3)
    assert profile.findings[0].code == "interrupted"
    assert all(phase.measured is not None and phase.measured.traced is not None for phase in profile.phases)


def test_positions_that_a_table_lacks_are_refused_before_loading(card: Path, tmp_path: Path) -> None:
    """16 positions: a prompt of 14 and 3 tokens take 16, the last token is not fed back; a prompt of 15 takes 17."""
    assert run(tmp_path, GPT2, prompt=14, output=3, repeat=1).phases[1].measured is not None
    with pytest.raises(InputError, match="table of 16 positions, and prompt and output take 17"):
        run(tmp_path, GPT2, prompt=15, output=3)


def command(folder: Path, *options: str) -> Any:
    given = ["profile", str(config(folder, TINY)), "--random-weights", "--ceilings", str(folder / "card.toml")]
    given += ["--dtype", "fp32", "--output", "2", "--repeat", "1", "--warmup", "0"]
    return CliRunner().invoke(cli, [*given, *options])


def test_a_sweep_that_fails_prints_the_runs_before(card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Runner.prefill

    def fail_long(runner: Runner, tokens: Any) -> Any:
        if runner.prompt == 9:
            raise IndexError("out of range")
        return real(runner, tokens)

    monkeypatch.setattr(Runner, "prefill", fail_long)
    result = command(tmp_path, "--prompt", "8,9", "--json")
    assert isinstance(result.exception, InputError)
    assert '"prompt": 8' in result.stdout


@pytest.mark.parametrize("option", ["--html", "--svg", "--keep-traces"])
def test_where_nothing_can_be_written_is_refused_before_the_run(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr("rooflens.measuring.load_subject", lambda *_a, **_o: pytest.fail("the model was loaded"))
    result = command(tmp_path, "--prompt", "8", option, str(card / "below-a-file"))
    assert isinstance(result.exception, InputError)


def test_what_cannot_be_written_is_printed(card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise InputError("no room")

    monkeypatch.setattr("rooflens.cli.profile.write_all", fail)
    result = command(tmp_path, "--prompt", "8", "--svg", str(tmp_path / "x.svg"))
    assert isinstance(result.exception, InputError)
    assert "decode" in result.stdout


def test_each_run_of_a_sweep_keeps_its_own_traces(card: Path, tmp_path: Path) -> None:
    list(rooflens.profile_sweep(config(tmp_path, TINY), prompt=(8, 9), hardware=card, random_weights=True,
                                dtype="fp32", output=2, repeat=1, keep=tmp_path / "kept"))  # fmt: skip
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"batch-1-prompt-8", "batch-1-prompt-9"}


@pytest.mark.parametrize(
    "options",
    [{"batch": "1"}, {"layers": "2"}, {"layers": True}, {"attention": None}, {"device": 3}, {"keep": 3},
     {"conventions": 3}, {"hardware": 3}, {"dtype": 3}, {"repeat": 2.0}],
)  # fmt: skip
def test_wrong_types_are_refused_in_words(card: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(rooflens.RooflensError):
        run(tmp_path, TINY, **options)


def test_sizes_of_a_sweep_that_are_no_sequence(card: Path, tmp_path: Path) -> None:
    for sizes in ("12", 3):
        with pytest.raises(InputError, match="expected a sequence"):
            rooflens.profile_sweep(config(tmp_path, TINY), batch=sizes)  # type: ignore[arg-type]


def linear() -> Any:
    import torch

    return torch.nn.Linear(8, 8)


def once(model: Any) -> None:
    import torch

    model(torch.ones(2, 8))


def test_one_block_at_a_time(card: Path) -> None:
    """A second recording in one process ends it without a word."""
    from torch.profiler import profile

    model, refused = linear(), []

    def open_block() -> None:
        try:
            with rooflens.profiling(model, hardware=card):
                pass
        except InputError as error:
            refused.append(str(error))

    with rooflens.profiling(model, hardware=card) as outer:
        open_block()
        thread = threading.Thread(target=open_block)
        thread.start()
        thread.join()
        once(model)
    with profile():
        open_block()
    assert len(refused) == 3
    assert len(outer.profile.phases) == 1
    with rooflens.profiling(model, hardware=card) as after:
        once(model)
    assert len(after.profile.phases) == 1
    assert not model._forward_hooks


def test_a_phase_in_another_thread_is_refused_there(card: Path) -> None:
    model, refused = linear(), []

    def call() -> None:
        try:
            once(model)
        except InputError as error:
            refused.append(str(error))

    with rooflens.profiling(model, hardware=card) as block:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        once(model)
    assert "another thread" in refused[0]
    assert len(block.profile.phases) == 1


def fails(model: Any, card: Path) -> None:
    with rooflens.profiling(model, hardware=card):
        once(model)
        raise KeyError("mine")


def test_what_is_raised_inside_comes_out(card: Path) -> None:
    """Also where no profile can be made: the card has no peak of this model's dtype."""
    for model in (linear(), linear().double()):
        if next(model.parameters()).element_size() == 8:
            model.register_forward_pre_hook(lambda _model, inputs: tuple(i.double() for i in inputs))
        with pytest.raises(KeyError, match="mine"):
            fails(model, card)


@pytest.mark.parametrize("model", [3, "x", {}, object, lambda: 0])
def test_what_is_no_model_is_refused(card: Path, model: Any) -> None:
    with pytest.raises(InputError, match="expected the torch module"), rooflens.profiling(model, hardware=card):
        pass


@pytest.mark.parametrize(
    "sizes", [{"batch": 0}, {"batch": True}, {"tokens": "x"}, {"tokens": 1.5}, {"cached": -1}, {"steps": "2"}]
)
def test_sizes_of_a_phase_are_checked(card: Path, sizes: dict[str, Any]) -> None:
    with (
        rooflens.profiling(hardware=card) as block,
        pytest.raises(InputError, match="expected a whole number"),
        block.phase("prefill", **sizes),
    ):
        pass


@pytest.mark.parametrize("plain", [0, -1, "3", 1.5])
def test_numbers_of_passes_are_checked(card: Path, plain: Any) -> None:
    with rooflens.profiling(hardware=card) as block, pytest.raises(InputError, match="expected a whole number"):
        list(block.passes(plain))


def test_a_cache_folder_that_no_system_has_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is longer than any file's; a folder that may not be entered is refused at the same place."""
    monkeypatch.setenv("ROOFLENS_CACHE", str(tmp_path / ("x" * 400)))
    monkeypatch.setattr("rooflens.live.ceilings.measure", lambda *_args, **_options: measured_part())
    assert "could not be kept" in rooflens.ceilings("cpu").notes[-1]
