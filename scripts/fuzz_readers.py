"""Mutated inputs for the readers of recordings: each is read or refused with an InputError, nothing else.

    python scripts/fuzz_readers.py [--inputs 10000] [--seed 0] [kineto nsys ncu rocprof]

Inputs are random mutations of small files of each format; with `--atheris`, where that is installed, coverage chooses
those of the one format that is named.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.sources.mutations import mutated, seeds
from tests.test_docs import CONFIG

from rooflens.errors import RooflensError
from rooflens.importing import Ran, import_recording, read_recording
from rooflens.render.document import encode
from rooflens.render.documents import profile_document
from rooflens.sources.hardware import load_hardware
from rooflens.sources.kineto_record import record_kineto
from rooflens.sources.models import load_model
from rooflens.sources.ncu import read_ncu
from rooflens.sources.nsys import read_nsys
from rooflens.sources.rocprof import read_rocprof, read_rocprof_counters


def readers(folder: Path) -> dict[str, Callable[[Path], object]]:
    """What reads a file of each format; what is a recording is placed, matched with a small model, and rendered too."""
    (folder / "config.json").write_text(CONFIG)
    part, ran = load_hardware("h100-sxm"), Ran(load_model(folder))

    def kineto(path: Path) -> object:
        return encode(profile_document(import_recording(record_kineto(path), part, ran)))

    def rocprof(path: Path) -> object:
        with contextlib.suppress(RooflensError):
            read_rocprof_counters(path)
        return profile_document(import_recording(read_rocprof(path), part, Ran()))

    def nsys(path: Path) -> object:
        return profile_document(import_recording(read_nsys(path), part, ran))

    return {"kineto": kineto, "nsys": nsys, "ncu": read_ncu, "rocprof": rocprof}


class Reading:
    """One reader under test: how many inputs it read, how many it refused, and what else came."""

    def __init__(self, read: Callable[[Path], object], path: Path) -> None:
        self.read, self.path = read, path
        self.sound = self.refused = 0
        self.broken: list[tuple[bytes, str]] = []

    def one(self, data: bytes) -> None:
        """Read `data`."""
        self.path.write_bytes(data)
        try:
            self.read(self.path)
            self.sound += 1
        except RooflensError:
            self.refused += 1
        except Exception:
            self.broken.append((data, traceback.format_exc()))


def run(name: str, files: Sequence[bytes], reading: Reading, inputs: int, seed: int) -> None:
    """Read `inputs` mutations of `files`, and print what came of them."""
    chance, began = random.Random(f"{seed} {name}"), perf_counter()
    for _ in range(inputs):
        reading.one(mutated(chance.choice(files), chance))
    took = perf_counter() - began
    print(f"{name}: {inputs:,} inputs in {took:.0f} s: {reading.sound:,} read, {reading.refused:,} refused, "
          f"{len(reading.broken):,} broken", flush=True)  # fmt: skip
    for trace_ in dict.fromkeys(text.strip().splitlines()[-1] + "\n" + text[-700:] for _, text in reading.broken[:5]):
        print(trace_)


def guided(name: str, files: Sequence[bytes], reading: Reading, inputs: int) -> None:
    """The same with inputs that atheris chooses; it ends the process."""
    import atheris

    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(files):
            Path(corpus, str(number)).write_bytes(data)

        def one(data: bytes) -> None:
            reading.one(data)
            if reading.broken:
                raise AssertionError(reading.broken[0][1])

        atheris.instrument_all()
        atheris.Setup([sys.argv[0], f"-runs={inputs}", "-max_len=65536", corpus], one)
        print(f"{name}: {inputs:,} inputs, chosen by coverage")
        atheris.Fuzz()


def main() -> int:
    """Fuzz the formats that are named, all of them unless some are; 1 where anything broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", help="kineto, nsys, ncu, rocprof, any")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", action="store_true", help="inputs by coverage, for one format")
    asked = parser.parse_args()
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        files, known = seeds(Path(folder)), readers(Path(folder))
        known["any"], files["any"] = read_recording, [data for group in files.values() for data in group]
        for name in asked.formats or ["kineto", "nsys", "ncu", "rocprof"]:
            reading = Reading(known[name], Path(folder, "input"))
            if asked.atheris:
                guided(name, files[name], reading, asked.inputs)
            run(name, files[name], reading, asked.inputs, asked.seed)
            broken += len(reading.broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
