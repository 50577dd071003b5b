"""Reference counts of small language models, taken from the public `transformers` library.

Reads rows of `name` and `config` (the content of a minimal config.json) and writes them back with what an independent
count is compared with: parameters, the FLOP that `torch.utils.flop_counter` sees, the bytes that the library's own
cache holds. Models are built from their configuration class on the meta device, without weights and without remote
code; on the CPU with random weights where the meta device cannot run them (`device` says which).

- FLOP are those of matrix products and convolutions, 2 a multiply-add, of the library's eager attention: masked
  positions count. Batch 2, a prefill of 48 tokens with logits for all, one decode step after it.
- Convolutions are counted apart, over their padded output: tokens + kernel - 1 positions, 2 in a decode step.
- A sliding layer of the library's cache keeps window - 1 tokens after a prefill.
- `cache_bytes_*` grow with the tokens (keys, values, latents), `state_bytes` do not; both of one sequence in bf16.
- A value that cannot be had is null, and `why` says the reason.

Usage: python scripts/reference_counts.py tests/data/reference_dense.jsonl --out new.jsonl [--only REGEX]
Needs torch and transformers, which rooflens itself does not.
"""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, DynamicCache
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

Row = dict[str, Any]

BATCH, TOKENS, MORE_TOKENS = 2, 48, 96
CACHE_FIELDS = ("cache", "past_key_values", "cache_params", "state")
STATE_WORDS = ("conv", "recurrent", "ssm", "state", "linear_cache", "buffer", "overlap")
VISION_PARTS = ("vision_model", "vision_tower", "multi_modal_projector")
BOOKKEEPING_WORDS = ("cumulative", "position", "_sliding_window_tensor", "offset")


def build_model(row: Row, device: str) -> Any:
    """Build the model of `row` on `device` with eager attention; the text model alone where one is nested."""
    raw = json.loads(json.dumps(row["config"]))
    whole = CONFIG_MAPPING[raw["model_type"]].from_dict(raw)
    config = whole.get_text_config() if "text_config" in raw else whole
    torch.manual_seed(0)
    options = {"attn_implementation": "eager", "dtype": torch.bfloat16}
    with torch.device(device):
        alone = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
        kind, config = (AutoModelForCausalLM, config) if alone else (AutoModelForImageTextToText, whole)
        try:
            model = kind.from_config(config, experts_implementation="batched_mm", **options)
        except (TypeError, ValueError):
            model = kind.from_config(config, **options)
    for name in () if alone else VISION_PARTS:  # the library has no class for the text part alone
        if hasattr(model.model, name):
            delattr(model.model, name)
    return model.eval().requires_grad_(False)


def is_tied(model: Any) -> bool:
    """Whether the output head shares its weight with the input embedding."""
    head = model.get_output_embeddings()
    if head is None:
        return False
    return head.weight is model.get_input_embeddings().weight


def output_cache(output: Any) -> Any:
    """The cache that a forward pass returned, whatever the model calls it, or None."""
    values = (getattr(output, name, None) for name in CACHE_FIELDS)
    return next((value for value in values if value is not None), None)


def forward(model: Any, batch: int, tokens: int, cache: Any = None, past: int = 0) -> Any:
    """Run `tokens` new tokens a sequence, after `past` cached ones."""
    device = next(model.parameters()).device
    ids = torch.zeros(batch, tokens, dtype=torch.long, device=device)
    if device.type != "meta":
        ids = torch.randint(3, 1000, (batch, tokens))
    inputs: dict[str, Any] = {"input_ids": ids, "use_cache": True}
    if cache is not None:
        positions = torch.arange(past, past + tokens, device=device).expand(batch, tokens)
        inputs |= {cache_argument(model): cache, "position_ids": positions}
    accepted = inspect.signature(model.forward).parameters
    return model(**{name: value for name, value in inputs.items() if name in accepted})


def prefill(model: Any, batch: int, tokens: int) -> Any:
    """Run a prompt and return the cache; one is handed in to a model that returns none."""
    with torch.no_grad():
        cache = output_cache(forward(model, batch, tokens))
        if cache is None:
            cache = DynamicCache(config=model.config)
            forward(model, batch, tokens, cache)
    return cache


def module_states(model: Any) -> dict[str, torch.Tensor]:
    """Recurrent states that a model keeps in its modules instead of in a cache."""
    states = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and any(word in name for word in STATE_WORDS):
                states[f"{path}.{name}"] = value
    return states


def cache_argument(model: Any) -> str:
    """The name under which `model` takes its cache back."""
    accepted = inspect.signature(model.forward).parameters
    return next(name for name in CACHE_FIELDS if name in accepted)


def measure_flops(run: Callable[[], Any]) -> tuple[int, int]:
    """FLOP of one call of `run`, a forward pass: of matrix products, and of convolutions."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    by_op = counter.get_flop_counts().get("Global", {})
    convolutions = sum(flops for op, flops in by_op.items() if "conv" in str(op))
    return int(counter.get_total_flops()) - convolutions, convolutions


def tensors_of(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor reachable in a cache, with the attribute name that holds it."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from tensors_of(entry, f"{name}.{key}" if isinstance(key, str) else name)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from tensors_of(entry, name)
    elif hasattr(value, "__dict__"):
        for key, entry in vars(value).items():
            if key != "config":
                yield from tensors_of(entry, key)


def cache_bytes_by_name(cache: Any) -> dict[str, int]:
    """Bytes that a cache holds, by the attribute name of its tensors, each tensor once."""
    seen: set[int] = set()
    sizes: dict[str, int] = defaultdict(int)
    for name, tensor in tensors_of(cache, "state"):
        if id(tensor) in seen or any(word in name for word in BOOKKEEPING_WORDS):
            continue
        seen.add(id(tensor))
        sizes[name] += tensor.numel() * tensor.element_size()
    return dict(sizes)


def split_cache(sizes: dict[str, int]) -> tuple[int, int]:
    """Bytes that grow with the tokens (keys, values, ...) and bytes of fixed-size states."""
    state = sum(n for name, n in sizes.items() if any(word in name for word in STATE_WORDS))
    return sum(sizes.values()) - state, state


def measure_cache(model: Any, tokens: int) -> dict[str, int]:
    """Cache bytes by tensor name after a prefill of `tokens` tokens, one sequence."""
    sizes = cache_bytes_by_name(prefill(model, 1, tokens))
    for name, tensor in module_states(model).items():
        short = name.rpartition(".")[2]
        sizes[short] = sizes.get(short, 0) + tensor.numel() * tensor.element_size()
    return sizes


def attempt(record: Row, name: str, run: Callable[[], Any]) -> Any:
    """Call `run`; on failure return None and keep the reason in the record."""
    try:
        return run()
    except Exception as error:  # any failure of the library is a result here
        record["why"][name] = f"{type(error).__name__}: {error}"[:300]
        return None


def decode_flops(model: Any) -> tuple[int, int]:
    """FLOP of one decode step after a prefill, the prefill not counted."""
    cache = prefill(model, BATCH, TOKENS)
    return measure_flops(lambda: forward(model, BATCH, 1, cache, TOKENS))


def measure(row: Row, device: str) -> Row:
    """All counts of one row on one device."""
    model = build_model(row, device)
    record: Row = {
        "name": row["name"],
        "transformers": transformers.__version__,
        "torch": torch.__version__.partition("+")[0],
        "device": device,
        "config": row["config"],
        "params": sum(p.numel() for p in model.parameters()),
        "tied": is_tied(model),
        "why": {},
    }
    step = lambda: measure_flops(lambda: forward(model, BATCH, TOKENS))  # noqa: E731
    for name, run in (("prefill", step), ("decode", partial(decode_flops, model))):
        counted = attempt(record, f"{name}_flops", run) or (None, None)
        record[f"{name}_flops"], record[f"{name}_convolution_flops"] = counted
    for tokens in (TOKENS, MORE_TOKENS):
        sizes = attempt(record, f"cache_bytes_{tokens}", partial(measure_cache, model, tokens))
        record[f"cache_bytes_{tokens}"] = None if sizes is None else split_cache(sizes)[0]
        record["state_bytes"] = None if sizes is None else split_cache(sizes)[1]
    return record


def reference(row: Row) -> Row:
    """The record of one row: from the meta device, or from the CPU where that falls short."""
    records = []
    for device in ("meta", "cpu"):
        bare: Row = {"name": row["name"], "config": row["config"], "why": {}}
        records.append(attempt(bare, "build", partial(measure, row, device)) or bare)
        if not records[-1]["why"]:
            break
    return min(records, key=lambda record: len(record["why"]))


def main() -> int:
    """Write the records of a file of rows; return 1 if any of them is incomplete."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="JSON lines with name and config")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines file to write")
    parser.add_argument("--only", default="", help="regular expression that the names to measure match")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    rows = [json.loads(line) for line in options.rows.read_text(encoding="utf-8").splitlines()]
    records = [reference(row) for row in rows if re.search(options.only, row["name"])]
    options.out.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    incomplete = [record["name"] for record in records if record["why"]]
    print(f"{len(records)} rows, incomplete: {', '.join(incomplete) or 'none'}", file=sys.stderr)
    return int(bool(incomplete))


if __name__ == "__main__":
    sys.exit(main())
