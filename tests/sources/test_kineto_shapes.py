"""What the shapes of a trace say: dtypes, lists, lists of indices, or nothing."""

from __future__ import annotations

from pathlib import Path

from rooflens.core.op import DType, Traffic
from tests.sources.kineto_traces import named, near, op, read, shaped, span


def test_dtypes_by_their_names(tmp_path: Path) -> None:
    """bf16 by its name in c10; a complex operand, whose bytes are not known here, is not counted in part."""
    half = shaped([3, 4], [4, 5], types=["c10::BFloat16", "c10::BFloat16"])
    turned = shaped([3, 4], [3, 4], types=["c10::complex<float>", "float"])
    phase = read(tmp_path, span("decode", 0, 100), op("mm", 10, 20, half), op("mul", 40, 20, turned))
    assert named(phase, "mm 5 x 4").op.traffic == Traffic(weights=40, activations=2 * 27)
    assert named(phase, "mm 5 x 4").op.dtype is DType.BF16
    assert phase.unknown == (("mul", near(0.5)),)


def test_a_list_has_the_dtype_of_what_ran_before(tmp_path: Path) -> None:
    """cat of [3, 4] and [2, 4] after a product in bf16: 20 values of 2 bytes, read and written."""
    half = shaped([3, 4], [4, 5], types=["c10::BFloat16", "c10::BFloat16"])
    joined = {"Input Dims": [[[3, 4], [2, 4]], []], "Input type": ["TensorList", "Scalar"]}
    phase = read(tmp_path, span("decode", 0, 100), op("mm", 10, 20, half), op("cat", 40, 20, joined))
    assert named(phase, "cat").op.traffic == Traffic(activations=2 * 2 * 20)


def test_index_is_counted_by_what_it_calls(tmp_path: Path) -> None:
    """rows[16, 64] by 32 positions, as torch 2.13 prints it: the list has no shapes, the calls inside do.
    32 x 64 fp32 values read and written, 32 positions of 8 bytes."""
    picked = ["", "[32, 64]", "[0, 1]", ""]
    events = [
        op("index", 10, 50, shaped([16, 64], [], types=["float", ""])),
        op(
            "as_strided",
            20,
            5,
            shaped([16, 64], [], [], [], types=["float", "ScalarList", "ScalarList", ""], texts=picked),
        ),
        op("reshape", 30, 5, shaped([32], [], types=["long int", "ScalarList"], texts=["", "[32, 1]"])),
    ]
    phase = read(tmp_path, span("decode", 0, 100), *events)
    assert named(phase, "index").op.traffic == Traffic(activations=2 * 4 * 2048 + 256)
    bare = read(tmp_path, span("decode", 0, 100), events[0])
    assert bare.unknown == (("index", 1),)


def test_without_shapes_nothing_is_known(tmp_path: Path) -> None:
    phase = read(tmp_path, span("decode", 0, 100), op("linear", 10, 50), op("mm", 20, 30))
    assert phase.unknown == (("mm", 1),)
    assert phase.coverage == 0
