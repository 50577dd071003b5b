"""Names of the metrics that Nsight Compute counts a roofline by, and the FLOP that each stands for.

Source: NVIDIA, Nsight Compute, Kernel Profiling Guide (metrics decoder and roofline charts) and the section files
SpeedOfLight_RooflineChart and SpeedOfLight_Hierarchical{Single,Half,Double,Tensor}RooflineChart that come with it.
"""

from __future__ import annotations

DURATION = "gpu__time_duration.sum"
"""Seconds from the start of a kernel to its end."""

CYCLES_PER_SECOND = ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")
"""Cycles that rates `.per_cycle_elapsed` are of; the roofline sections multiply them by the first."""

VECTOR_OPS: dict[str, tuple[tuple[str, int], ...]] = {
    "ffma": (("fadd", 1), ("fmul", 1), ("ffma", 2)),
    "hfma": (("hadd", 2), ("hmul", 2), ("hfma", 4)),
    "dfma": (("dadd", 1), ("dmul", 1), ("dfma", 2)),
}
"""Thread instructions of each pipe and the FLOP of one. A half-precision instruction works on a half2, two values: the
section files derive hadd x 2, hmul x 2 and hfma x 4. Scalar half code leaves the second value unused."""

PACKED_OPS: dict[str, tuple[tuple[str, int], ...]] = {"ffma": (("fadd2", 2), ("fmul2", 2), ("ffma2", 4))}
"""Instructions on two fp32 values, which parts from CC 10.0 on have; none elsewhere."""

TENSOR_OPS = "sm__ops_path_tensor_src_"
"""What metrics begin with that count operations of the matrix units: a multiply-add is two of them already."""

TENSOR_INSTRUCTIONS = ("sm__inst_executed_pipe_tensor", "smsp__inst_executed_pipe_tensor")
"""What older metrics begin with that count instructions, whose FLOP differ by shape, dtype and part."""

TENSOR_PATHS = (
    "bf16_dst_fp32",
    "fp16_dst_fp16",
    "fp16_dst_fp32",
    "tf32_dst_fp32",
    "fp64",
    "int8",
    "fp8_sparsity_off",
    "fp8_sparsity_on",
    "fp4_dst_fp32",
    "fp4_fp6_fp8_dst_fp32",
)
"""Paths through the matrix units that are asked for; a part without one answers n/a."""

DRAM_READ = ("dram__bytes_read.sum", "dram__bytes_op_read.sum")
DRAM_WRITE = ("dram__bytes_write.sum", "dram__bytes_op_write.sum")
DRAM = "dram__bytes.sum"
CACHES = {"l2": "lts__t_bytes.sum", "l1": "l1tex__t_bytes.sum"}
"""Bytes at the tag stage of each cache."""


def instructions(op: str) -> str:
    """The metric that counts thread instructions of `op`, such as "ffma", whose predicate was on."""
    return f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"


def asked() -> tuple[str, ...]:
    """Every metric that a hierarchical roofline needs, in the order in which they are asked for."""
    vector = (instructions(op) for ops in (VECTOR_OPS, PACKED_OPS) for rows in ops.values() for op, _ in rows)
    tensor = (f"{TENSOR_OPS}{path}.sum" for path in TENSOR_PATHS)
    return (DURATION, DRAM_READ[0], DRAM_WRITE[0], *CACHES.values(), *vector, *tensor)
