"""Which dtypes a run uses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rooflens.core.hardware import Ceiling
from rooflens.core.op import DType
from rooflens.errors import InputError, UnitError, UnknownPeakError
from rooflens.precision import PRESETS, Dtypes, preset, requested, settle, storage
from tests.conftest import SOURCE, part, tiny_model

BF16, FP16, FP32, FP8 = DType.BF16, DType.FP16, DType.FP32, DType.FP8


def test_a_checkpoint_runs_as_it_is() -> None:
    settled, found = settle(tiny_model(), part(), Dtypes())
    assert {getattr(settled, n) for n in ("compute", "attention", "activations", "weights", "kept", "kv")} == {BF16}
    assert found == ()


def test_weights_follow_the_dtype_that_was_asked_for() -> None:
    settled, _ = settle(tiny_model(), part(), Dtypes(dtype=FP32))
    assert (settled.compute, settled.weights, settled.activations, settled.kv) == (FP32, FP32, FP32, FP32)


def test_fp8_keeps_attention_and_activations_in_16_bit() -> None:
    settled, _ = settle(tiny_model(), part(), Dtypes(dtype=FP8))
    assert (settled.compute, settled.weights) == (FP8, FP8)
    assert (settled.attention, settled.activations, settled.kept, settled.kv) == (BF16, BF16, BF16, BF16)


def test_weights_dtype_alone_is_weight_only() -> None:
    """int4 weights multiplied in 16 bit: the roof follows the compute dtype."""
    settled, _ = settle(tiny_model(), part(), Dtypes(weights=DType.INT4))
    assert (settled.compute, settled.weights, settled.kept) == (BF16, DType.INT4, BF16)


def test_single_options_win_over_the_preset() -> None:
    assert preset("fp8", Dtypes(kv=BF16)) == Dtypes(FP8, FP8, BF16)
    with pytest.raises(InputError, match="known are fp32, tf32, bf16"):
        preset("fp7", Dtypes())


def test_every_preset_settles_on_a_part_that_has_everything() -> None:
    everything = part(matrix={dtype: Ceiling(1e14, SOURCE) for dtype in DType})
    for name in PRESETS:
        settled, _ = settle(tiny_model(), everything, preset(name, Dtypes()))
        assert settled.activations.bits >= 16


def test_only_what_the_user_asked_for_is_refused() -> None:
    with pytest.raises(UnknownPeakError, match="its peak is not published; it has fp32, bf16, fp8"):
        settle(tiny_model(), part(), Dtypes(dtype=FP16))
    with pytest.raises(UnknownPeakError, match="its matrix units do not have it"):
        settle(tiny_model(), part(absent=frozenset({FP16})), Dtypes(dtype=FP16))


def test_a_checkpoint_without_a_peak_of_its_own_falls_back_and_says_so() -> None:
    old = part(matrix={FP16: Ceiling(65e12, SOURCE)}, absent=frozenset({BF16}))
    settled, found = settle(tiny_model(), old, Dtypes())
    assert (settled.compute, settled.attention) == (FP16, FP16)
    assert (settled.weights, settled.activations, settled.kv) == (BF16, BF16, BF16)
    assert "does not have bf16" in found[0].text


def test_a_16_bit_peak_that_is_not_published_is_a_warning() -> None:
    settled, found = settle(tiny_model(), part(matrix={}), Dtypes())
    assert (settled.compute, settled.weights, settled.activations) == (FP32, BF16, BF16)
    assert (found[0].level, "no floor" in found[0].text) == ("warning", True)


def test_what_a_narrow_request_leaves_in_16_bit_falls_back_and_says_so() -> None:
    """fp8 linear layers, but no 16-bit peak for attention and head: they run in fp32 and stay stored in bf16."""
    narrow = part(matrix={FP8: Ceiling(4e14, SOURCE)})
    settled, found = settle(tiny_model(), narrow, Dtypes(dtype=FP8))
    assert (settled.compute, settled.attention, settled.activations, settled.kv) == (FP8, FP32, BF16, BF16)
    assert found[0].level == "warning"


def test_wide_weights_are_storage_alone() -> None:
    settled, _ = settle(tiny_model(), part(), Dtypes(weights=FP32))
    assert (settled.compute, settled.activations, settled.weights, settled.kept) == (BF16, BF16, FP32, FP32)


def test_the_fastest_peak_stands_in_where_no_wide_one_is_published() -> None:
    """A time from a peak that products cannot reach is too short: a floor still, and a warning."""
    settled, found = settle(tiny_model(), part(matrix={DType.FP4: Ceiling(1e15, SOURCE)}, vector={}), Dtypes())
    assert (settled.compute, settled.activations) == (DType.FP4, BF16)
    assert (found[0].level, "too short" in found[0].text) == ("warning", True)


def test_64_bit_falls_to_the_nearest() -> None:
    model = replace(tiny_model(), weights_dtype=DType.FP64, kept_dtype=DType.FP64)
    assert settle(model, part(), Dtypes())[0].compute is FP32


def test_dtypes_take_spellings() -> None:
    assert Dtypes(dtype="bfloat16", kv="e4m3") == Dtypes(BF16, None, FP8)  # type: ignore[arg-type]
    with pytest.raises(UnitError):
        Dtypes(dtype="bf17")  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [5, ("fp8",), {"dtype": "fp8"}])
def test_what_is_no_precision(asked: object) -> None:
    with pytest.raises(InputError, match="expected the name of a preset, or Dtypes"):
        requested(asked)


def test_a_part_without_any_peak_is_refused() -> None:
    with pytest.raises(UnknownPeakError, match="no peak of it is published"):
        settle(tiny_model(), part(matrix={}, vector={}), Dtypes())


def test_fp4_checkpoints_are_weight_only_where_there_is_no_fp4() -> None:
    model = replace(tiny_model(), weights_dtype=DType.MXFP4)
    settled, found = settle(model, part(), Dtypes())
    assert (settled.compute, settled.weights) == (BF16, DType.MXFP4)
    assert "multiplied in bf16" in found[0].text
    new = part(matrix={BF16: Ceiling(1e14, SOURCE), DType.FP4: Ceiling(4e14, SOURCE)})
    assert settle(model, new, Dtypes())[0].compute is DType.FP4


def test_awq_computes_in_16_bit_even_where_int4_is_fast() -> None:
    model = replace(tiny_model(), weights_dtype=DType.INT4, weight_only=True)
    fast = part(matrix={BF16: Ceiling(1e14, SOURCE), DType.INT4: Ceiling(4e14, SOURCE)})
    assert settle(model, fast, Dtypes())[0].compute is BF16


def test_storage_without_a_part() -> None:
    assert storage(tiny_model(), Dtypes()) == (BF16, BF16, BF16)
    assert storage(tiny_model(), Dtypes(weights=DType.INT4)) == (DType.INT4, BF16, BF16)
    assert storage(tiny_model(), Dtypes(dtype=FP32)) == (FP32, FP32, FP32)
    assert storage(tiny_model(), preset("fp8", Dtypes())) == (FP8, BF16, FP8)
