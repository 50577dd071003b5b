"""The counter against counts on paper, on modules that fit on a line."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the counter watches torch (extra torch)")

from rooflens.audit.counter import Row, Tally, counting, module_paths  # noqa: E402
from rooflens.audit.formulas import PRODUCTS  # noqa: E402
from rooflens.audit.kinds import Work  # noqa: E402
from rooflens.audit.traffic import storage_of  # noqa: E402


def new(*shape: int, dtype: Any = None) -> Any:
    return torch.empty(*shape, dtype=dtype or torch.float32, device="meta")


def count(run: Callable[[], Any], **owners: Any) -> Tally:
    memory = {storage_of(tensor): owner for owner, tensor in owners.items()}
    with counting(Tally(memory)) as tally:
        run()
    return tally


def only(tally: Tally, op: str) -> Row:
    (row,) = [row for row in tally.rows if row.op == op]
    return row


def test_linear() -> None:
    """2 x 5 rows of 4 by 4 x 3: 2 x 10 x 4 x 3 FLOP; reads 40 + 12 + 3 fp32 values, writes 30."""
    with torch.device("meta"):
        layer = torch.nn.Linear(4, 3)
    row = only(count(lambda: layer(new(2, 5, 4)), weights=layer.weight), "aten.addmm")
    assert row.flops == 240
    assert row.read == {"activations": 4 * 43, "weights": 4 * 12}
    assert row.written == {"activations": 4 * 30}


PRODUCTS_ON_PAPER: dict[str, tuple[Callable[[], Any], int]] = {
    "mm": (lambda: torch.mm(new(3, 4), new(4, 5)), 2 * 3 * 4 * 5),
    "addmm": (lambda: torch.addmm(new(5), new(3, 4), new(4, 5)), 2 * 3 * 4 * 5),
    "bmm": (lambda: torch.bmm(new(2, 3, 4), new(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    "baddbmm": (lambda: torch.baddbmm(new(2, 3, 5), new(2, 3, 4), new(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    "addbmm": (lambda: torch.addbmm(new(3, 5), new(2, 3, 4), new(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    "mv": (lambda: torch.mv(new(3, 4), new(4)), 2 * 3 * 4),
    "einsum": (lambda: torch.einsum("bik,bkj->bij", new(2, 3, 4), new(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    "einsum over two": (lambda: torch.einsum("abc,cd->abd", new(2, 3, 4), new(4, 5)), 2 * 6 * 4 * 5),
    "matmul of many": (lambda: new(2, 7, 3, 4) @ new(2, 7, 4, 5), 2 * 14 * 3 * 4 * 5),
}


@pytest.mark.parametrize("name", PRODUCTS_ON_PAPER)
def test_product(name: str) -> None:
    run, flops = PRODUCTS_ON_PAPER[name]
    tally = count(run)
    assert tally.flops == flops
    assert not any(row.unread or row.work is Work.UNKNOWN for row in tally.rows)


def test_attention() -> None:
    """3 queries on 5 keys, 2 heads, keys 4 and values 6 wide: 2 x 2 x 3 x 5 x (4 + 6), in either layout."""
    heads_first = (new(1, 2, 3, 4), new(1, 2, 5, 4), new(1, 2, 5, 6))
    tokens_first = (new(1, 3, 2, 4), new(1, 5, 2, 4), new(1, 5, 2, 6))
    assert PRODUCTS["_scaled_dot_product_flash_attention"](heads_first, {}, None) == 600
    assert PRODUCTS["_flash_attention_forward"](tokens_first, {}, None) == 600
    assert PRODUCTS["_flash_attention_forward"]([new(3, 2, 4)] * 3, {}, None) is None


def test_grouped_products() -> None:
    """6 rows, each by one of 3 matrices of 4 x 5; 6 columns, each by one of 3 matrices; 3 pieces of 8 rows."""
    grouped = PRODUCTS["_grouped_mm"]
    assert grouped((new(6, 4), new(3, 4, 5)), {}, None) == 2 * 6 * 4 * 5
    assert grouped((new(3, 5, 4), new(4, 6)), {}, None) == 2 * 5 * 4 * 6
    assert grouped((new(5, 8), new(8, 6)), {}, None) == 2 * 5 * 8 * 6
    assert grouped((new(3, 5, 4), new(3, 4, 6)), {}, None) == 2 * 3 * 5 * 4 * 6


def test_convolutions_stand_apart() -> None:
    """4 channels by themselves, 6 tokens padded to 8 positions, kernel 3; 4 to 2 channels transposed, 6 inputs."""
    tally = count(lambda: torch.nn.functional.conv1d(new(1, 4, 6), new(4, 1, 3), padding=2, groups=4))
    assert (tally.flops, tally.convolution_flops) == (0, 2 * 4 * 8 * 3)
    tally = count(lambda: torch.nn.functional.conv_transpose1d(new(1, 4, 6), new(4, 2, 3)))
    assert tally.convolution_flops == 2 * 4 * 6 * 2 * 3


def test_a_view_moves_nothing_and_a_repeated_value_is_read_once() -> None:
    tally = count(lambda: new(3, 4).t().reshape(2, 6).view(12).expand(5, 12) + 1.0)
    assert not only(tally, "aten.t").read
    assert not only(tally, "aten.expand").written
    row = only(tally, "aten.add")
    assert (row.read["activations"], row.written["activations"]) == (4 * 12, 4 * 60)


def test_a_lookup_reads_the_rows_that_it_returns() -> None:
    """7 of 1,000 rows of 4 fp32 values, by indices of 8 bytes."""
    table, rows = new(1000, 4), new(7, dtype=torch.int64)
    row = only(count(lambda: torch.nn.functional.embedding(rows, table), weights=table), "aten.embedding")
    assert row.read == {"weights": 7 * 16, "activations": 7 * 8}
    assert row.written == {"activations": 7 * 16}


def test_writes_in_place() -> None:
    def run() -> None:
        held = new(10, 4)
        held.copy_(new(10, 4))
        held[new(3, dtype=torch.int64)] = new(3, 4)

    tally = count(run)
    copied, put = only(tally, "aten.copy_"), only(tally, "aten.index_put_")
    assert (copied.read["activations"], copied.written["activations"]) == (160, 160)
    assert (put.read["activations"], put.written["activations"]) == (24 + 48, 48)


def test_what_a_pass_leaves_in_a_cache_is_its_own() -> None:
    """2 old rows and 1 new of 4 fp32 values: the old are read from the cache, the new written to it."""
    cache = new(2, 4)
    kept: list[Any] = []
    tally = count(lambda: kept.append(torch.cat([cache, new(1, 4)])), kv=cache)
    tally.claim({storage_of(kept[0]): "kv"})
    row = only(tally, "aten.cat")
    assert row.read == {"kv": 32, "activations": 16}
    assert row.written == {"activations": 32, "kv": 16}


@pytest.mark.parametrize(
    ("run", "op"),
    [
        (lambda: torch.linalg.inv(new(3, 3)), "aten.linalg_inv_ex"),
        (lambda: torch.fft.rfft(new(8)), "aten._fft_r2c"),
    ],
)
def test_what_it_cannot_count_is_listed(run: Callable[[], Any], op: str) -> None:
    row = only(count(run), op)
    assert row.work is Work.UNKNOWN
    assert row.calls == 1


def test_ops_are_kept_by_module() -> None:
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 2, bias=False))
    with module_paths(model) as where, counting(Tally(where=where)) as tally:
        model(new(3, 4))
    assert {row.module: row.flops for row in tally.rows if row.work is Work.PRODUCT} == {"0": 96, "1": 48}


def test_nothing_is_left_hooked_after_an_error() -> None:
    from torch.nn.modules import module as hooks

    before = len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks)
    with pytest.raises(ZeroDivisionError), module_paths(SimpleNamespace(named_modules=list)):
        raise ZeroDivisionError
    assert (len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks)) == before
