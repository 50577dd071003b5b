"""The format of a file by its content, whatever it is called."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from rooflens.core.recording import Format
from rooflens.errors import InputError
from rooflens.sources.sniffing import format_of
from tests.sources.shared import traces

FILES = {
    "kineto": (Format.KINETO, b'{"schemaVersion": 1, "traceEvents": []}'),
    "kineto with a mark of UTF-8": (Format.KINETO, b'\xef\xbb\xbf {"traceEvents": []}'),
    "kineto whose kernel is called like a column": (
        Format.KINETO,
        b'{"traceEvents": [{"name": "Kernel_Name # HELP"}]}',
    ),
    "a list of events": (Format.KINETO, b'\n [{"ph": "X"}]'),
    "nsys": (Format.NSYS, b"SQLite format 3\x00" + bytes(100)),
    "ncu": (Format.NCU, b'==PROF== Connected\n"ID","Kernel Name","Metric Name"\n'),
    "ncu in UTF-16": (Format.NCU, '"ID","Kernel Name"\n'.encode("utf-16")),
    "ncu report": (Format.NCU, b"NVR\x00" + bytes(50)),
    "rocprof": (Format.ROCPROF, b"Dispatch_ID,GPU_ID,Kernel_Name,Start_Timestamp,End_Timestamp\n"),
    "rocprof 1": (Format.ROCPROF, b'"Index","KernelName","BeginNs","EndNs"\n'),
    "rocprofv3": (Format.ROCPROF, b'{"rocprofiler-sdk-tool": [{}]}'),
    "rocprofv3 csv": (Format.ROCPROF, b'"Kind","Agent_Id","Queue_Id","Dispatch_Id","Kernel_Name"\n'),
    "dcgmi": (Format.DCGMI, b"#Entity   SMACT   TENSO\nID\nGPU 0   0.5  0.1\n"),
    "prometheus": (Format.PROMETHEUS, b"# HELP vllm:prompt_tokens_total x\n# TYPE vllm:prompt_tokens_total counter\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_each_format_plain_and_packed(tmp_path: Path, name: str) -> None:
    kind, data = FILES[name]
    path = tmp_path / "file.txt"
    for content in (data, gzip.compress(data)):
        path.write_bytes(content)
        assert format_of(path) is kind


@pytest.mark.parametrize("data", [b"", b" \n\t", gzip.compress(b""), gzip.compress(b"\n")])
def test_an_empty_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match="is empty; expected"):
        format_of(path)


@pytest.mark.parametrize("data", [bytes(range(256)), b"hello", b"\x7fELF" + bytes(99), b"a,b,c\n1,2,3\n", "é".encode()])
def test_what_is_of_no_format(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match="of no format that is known; expected one of kineto, nsys, ncu"):
        format_of(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "none", tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(InputError, match="could not be read"):
            format_of(path)


@pytest.mark.parametrize("kind", [kind for kind in Format if kind is not Format.ROCPROF])
def test_the_samples(kind: Format) -> None:
    for path in sorted(traces(str(kind)).iterdir()):
        if path.suffix not in (".md",):
            assert format_of(path) is kind, path.name
