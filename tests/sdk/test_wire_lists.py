"""Fusions over lists: what a document may say, what a binding leaves open, and the table that a launch is given."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import torch

from fusetune import FusionBuilder
from fusetune.bindings import binding_of
from fusetune.errors import InvalidBinding
from fusetune.fusion import Fusion
from fusetune.wire.binding import Binding
from fusetune.wire.bound import apply_binding
from fusetune.wire.canonical import binding_hash, canonicalize, fingerprint
from fusetune.wire.fusion import FORMAT
from fusetune.wire.lists import LIST_ELEMS, ListRow, address_offset, chunks_of, pieces, table, table_bytes
from fusetune.wire.parse import parse_fusion
from fusetune.wire.problems import InvalidDocument


def scaled(size: str = "N", is_list: bool = True) -> Fusion:
    """x * rate + y."""
    f = FusionBuilder()
    x, y = (f.input(name, (size,), "f32", is_list=is_list) for name in "xy")
    rate = f.input("rate", (), "f32").broadcast_to(x.shape, dims=())
    f.output(x * rate + y, "z", alias=x)
    return f.build()


def document(**changes: Any) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "inputs": [
            {"name": "x", "shape": ["N"], "dtype": "f32", "list": True},
            {"name": "y", "shape": ["N"], "dtype": "f32", "list": True},
        ],
        "ops": [{"op": "add", "in": ["x", "y"], "out": "z"}],
        "outputs": [{"name": "z"}],
        **changes,
    }


def inputs(**second: Any) -> dict[str, Any]:
    first = {"name": "x", "shape": ["N"], "dtype": "f32", "list": True}
    return {"inputs": [first, {"name": "y", "dtype": "f32", **second}], "ops": [{"op": "neg", "in": ["x"], "out": "z"}]}


ANY_LIST = "[N], as of every list, or no dimension: one element beside each tensor"
LEGAL = (
    document(),
    document(**inputs(shape=[])),
    document(**inputs(shape=["N"], list=True)),
    document(**inputs(shape=[], list=True)),
)
ALONE = [{"name": "x", "shape": [], "dtype": "f32", "list": True}]
ILLEGAL = (
    (document(**inputs(shape=["N"])), "inputs[1].shape", "no dimension: one element beside the lists"),
    (document(**inputs(shape=["K"], list=True)), "inputs[1].shape", ANY_LIST),
    (document(**inputs(shape=[1], list=True)), "inputs[1].shape", ANY_LIST),
    (document(**inputs(shape=["N", 2], list=True)), "inputs[1].shape", ANY_LIST),
    (document(**inputs(shape=["N"], list=True, strides=[2])), "inputs[1].shape", ANY_LIST),
    (
        document(inputs=ALONE, ops=[{"op": "neg", "in": ["x"], "out": "z"}]),
        "inputs",
        "a list of tensors that they stand beside",
    ),
    (document(ops=[{"op": "sum", "in": ["x"], "dims": [0], "out": "z"}]), "outputs[0].name", "[N], as of every list"),
)


@pytest.mark.parametrize("legal", LEGAL)
def test_lists_are_of_one_size_beside_single_elements(legal: dict[str, Any]) -> None:
    fusion = parse_fusion(legal)
    assert parse_fusion(fusion.to_json()) == fusion
    assert canonicalize(fusion).inputs[0].list
    assert apply_binding(fusion, Binding()).fusion.list_size == LIST_ELEMS


@pytest.mark.parametrize(("illegal", "where", "expected"), ILLEGAL)
def test_what_is_refused_has_its_place(illegal: dict[str, Any], where: str, expected: str) -> None:
    with pytest.raises(InvalidDocument) as error:
        parse_fusion(illegal)
    assert (where, expected) in [(p.where, p.expected) for p in error.value.problems]


def test_a_list_is_another_fusion_than_one_tensor() -> None:
    assert fingerprint(scaled()) != fingerprint(scaled(is_list=False))
    assert fingerprint(scaled()) == fingerprint(scaled("K"))


def test_one_binding_is_for_tensors_of_any_number_and_sizes() -> None:
    """All that is told of a list is what divides every address in it."""
    fusion, rate = scaled(), torch.ones(())

    def of(*sizes: int, skipped: int = 0) -> str:
        lists = [[torch.empty(n + skipped)[skipped:] for n in sizes] for _ in "xy"]
        return binding_hash(fusion, binding_of(fusion, [*lists, rate]))  # type: ignore[list-item]  # lists of tensors

    assert of(5) == of(7, 9, 100000) != of(7, 9, skipped=1)
    with pytest.raises(InvalidBinding, match="a list of torch tensors"):
        binding_of(fusion, [torch.ones(4), torch.ones(4), rate])
    half = [torch.ones(4), torch.ones(4).half()]
    with pytest.raises(InvalidBinding, match=r"input 'y'\[1\]"):
        binding_of(fusion, [[torch.ones(4)] * 2, half, rate])  # type: ignore[list-item]  # lists of tensors


def test_a_list_of_single_elements_is_bound_as_one() -> None:
    f = FusionBuilder()
    x = f.input("x", ("N",), "f32", is_list=True)
    f.output(x * f.input("rate", (), "f32", is_list=True).broadcast_to(x.shape, dims=()), "z", alias=x)
    fusion = f.build()
    assert fingerprint(fusion) != fingerprint(parse_fusion(_shared_rate(fusion)))
    xs, rates = [torch.ones(4), torch.ones(5)], [torch.ones(())] * 2
    assert binding_of(fusion, [xs, rates]).inputs  # type: ignore[list-item]  # lists of tensors
    with pytest.raises(InvalidBinding, match=r"input 'rate'\[1\]"):
        binding_of(fusion, [xs, [torch.ones(()), torch.ones(1)]])  # type: ignore[list-item]  # lists of tensors
    with pytest.raises(InvalidBinding, match="a list of torch tensors"):
        binding_of(fusion, [xs, torch.ones(())])  # type: ignore[list-item]  # a list of tensors


def _shared_rate(fusion: Fusion) -> dict[str, Any]:
    """The same with one rate for all tensors."""
    document: dict[str, Any] = fusion.model_dump(by_alias=True, exclude_none=True)
    document["inputs"][1].pop("list")
    return document


def test_the_table_lies_column_by_column() -> None:
    rows = [ListRow((0x1000, 0x2000), 5), ListRow((0x3000, 0x4000), 9)]
    data = table(rows, slots=2, room=3, tile=4)
    assert len(data) == table_bytes(2, 3)
    addresses, rest = struct.unpack("<6Q", data[:48]), data[48:]
    assert addresses == (0x1000, 0x3000, 0, 0x2000, 0x4000, 0)
    assert struct.unpack("<3Q", rest[:24]) == (5, 9, 0)
    assert struct.unpack("<5I", rest[24:44]) == (0, 2, 5, 5, 2)
    assert chunks_of(rows, 4) == 5
    assert [address_offset(3, slot, row) for slot, row in ((0, 1), (1, 0))] == [8, 24]


@pytest.mark.parametrize(("elems", "tile", "step"), [(1 << 14, 1024, 4), (512, 512, 4), (3, 1024, 4), (1000, 128, 16)])
def test_the_pieces_of_a_tensor_are_all_of_it_each_once_and_aligned(elems: int, tile: int, step: int) -> None:
    found = pieces(elems, tile, step)
    assert [start for start, _ in found] == [sum(n for _, n in found[:k]) for k in range(len(found))]
    assert sum(n for _, n in found) == elems
    assert all(n > 0 and start % step == 0 for start, n in found)
    assert elems < 5 * tile or any(n % tile for _, n in found)
