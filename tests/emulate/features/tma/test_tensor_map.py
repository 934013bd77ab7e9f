"""Tensor maps as bytes: what is encoded is decoded, and what the driver refuses is told field by field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.emulate.features.tma.elements import DTYPES, ELEMENTS
from compiler.emulate.features.tma.swizzle import SWIZZLES
from compiler.emulate.features.tma.tensor_map import MAP_BYTES, decode, encode, pack, problems, unsupported
from compiler.emulate.launch import EmulatedTensorMap

ADDRESS = 0x7F0000000100

CLEAN = EmulatedTensorMap("x", "bf16", (256, 64, 8), (512, 32768), (64, 8, 2), (1, 1, 1), swizzle="128B")


def found(m: EmulatedTensorMap, address: int = ADDRESS, capability: int = 90) -> list[str]:
    decoded = decode(encode(m, address))
    assert decoded is not None
    return problems(decoded, capability)


@st.composite
def maps(draw: st.DrawFn) -> EmulatedTensorMap:
    rank = draw(st.integers(1, 5))
    return EmulatedTensorMap(
        "x",
        draw(st.sampled_from(sorted(DTYPES))),
        tuple(draw(st.lists(st.integers(0, 1 << 33), min_size=rank, max_size=rank))),
        tuple(draw(st.lists(st.integers(0, 1 << 41), min_size=rank - 1, max_size=rank - 1))),
        tuple(draw(st.lists(st.integers(0, 1000), min_size=rank, max_size=rank))),
        tuple(draw(st.lists(st.integers(0, 255), min_size=rank, max_size=rank))),
        draw(st.sampled_from(sorted(SWIZZLES))),
        draw(st.sampled_from(["NONE", "16B", "32B"])),
        draw(st.sampled_from(["zero", "nan"])),
        offset_bytes=draw(st.integers(0, 1 << 20)),
    )


@given(maps())
def test_what_is_encoded_is_decoded(m: EmulatedTensorMap) -> None:
    data = encode(m, ADDRESS)
    assert len(data) == MAP_BYTES
    decoded = decode(data)
    assert decoded is not None
    rank = len(m.dims)
    assert decoded.address == ADDRESS + m.offset_bytes
    assert decoded.rank == rank
    assert decoded.dims[:rank] == m.dims
    assert decoded.strides[: rank - 1] == m.strides_bytes
    assert decoded.box[:rank] == m.box
    assert decoded.element_strides[:rank] == m.element_strides
    assert ELEMENTS[decoded.element] is DTYPES[m.dtype]
    assert decoded.swizzle.name == m.swizzle
    assert pack(decoded) == data


@pytest.mark.parametrize("data", [b"", bytes(128), bytes(127), b"TMap" + bytes(125)])
def test_other_bytes_are_no_map(data: bytes) -> None:
    assert decode(data) is None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dims": (1, 1, 1)},
        {"dims": (1 << 32, 64, 8)},
        {"strides_bytes": (0, 0)},
        {"strides_bytes": (512, (1 << 40) - 16)},
        {"box": (64, 256, 256)},
        {"box": (8, 1, 1)},
        {"element_strides": (1, 8, 8)},
        {"element_strides": (9, 1, 1)},
        {"swizzle": "NONE", "box": (256, 1, 1)},
        {"swizzle": "64B", "box": (32, 1, 1)},
        {"swizzle": "64B", "box": (16, 1, 1)},
        {"oob_fill": "nan"},
        {"dtype": "u8", "box": (128, 1, 1)},
    ],
    ids=str,
)
def test_a_legal_map_has_no_problems(changes: dict[str, Any]) -> None:
    assert found(replace(CLEAN, **changes)) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"offset_bytes": 8}, "global address"),
        ({"dims": (0, 64, 8)}, "dims[0] is 0"),
        ({"dims": (256, (1 << 32) + 1, 8)}, "dims[1]"),
        ({"strides_bytes": (520, 32768)}, "strides_bytes[0] is 520; it must be a multiple of 16"),
        ({"strides_bytes": (512, 1 << 40)}, "strides_bytes[1]"),
        ({"box": (64, 0, 2)}, "box[1] is 0"),
        ({"box": (64, 257, 2)}, "box[1] is 257; allowed are 1 to 256"),
        ({"box": (60, 8, 2)}, "120 bytes; it must be a multiple of 16"),
        ({"box": (72, 8, 2)}, "swizzle 128B allows at most 128"),
        ({"swizzle": "64B"}, "swizzle 64B allows at most 64"),
        ({"swizzle": "32B", "box": (32, 8, 2)}, "swizzle 32B allows at most 32"),
        ({"element_strides": (1, 0, 1)}, "element_strides[1] is 0"),
        ({"element_strides": (1, 1, 9)}, "element_strides[2] is 9"),
        ({"dtype": "i32", "box": (32, 8, 2), "oob_fill": "nan"}, "oob_fill is nan for INT32"),
        ({"swizzle": "128B_ATOM_32B"}, "capability 9.0"),
        ({"interleave": "32B"}, "interleave 32B needs swizzle 32B"),
    ],
    ids=str,
)
def test_an_illegal_map_is_told_by_its_field(changes: dict[str, Any], told: str) -> None:
    messages = found(replace(CLEAN, **changes))
    assert len(messages) == 1
    assert told in messages[0]


def test_atoms_are_legal_on_capability_10() -> None:
    assert found(replace(CLEAN, swizzle="128B_ATOM_32B_FLIP_8B"), capability=100) == []


def test_interleaved_maps_need_three_dims() -> None:
    flat = EmulatedTensorMap("x", "f16", (64, 8), (128,), (8, 8), (1, 1), interleave="16B")
    assert "an interleaved map has 3 to 5" in found(flat)[0]


def test_what_cannot_be_executed_is_named() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"interleave": "16B", "swizzle": "NONE"}, "interleave 16B"),
        ({"dtype": "TFLOAT32", "oob_fill": "nan"}, "TFLOAT32 that fills with NaN"),
        ({"dtype": "16U4_ALIGN8B"}, "16U4_ALIGN8B"),
    )
    for changes, told in cases:
        decoded = decode(encode(replace(CLEAN, **changes), ADDRESS))
        assert decoded is not None
        assert told in (unsupported(decoded) or "")
    clean = decode(encode(CLEAN, ADDRESS))
    assert clean is not None
    assert unsupported(clean) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "c64"},
        {"swizzle": "16B"},
        {"interleave": "64B"},
        {"oob_fill": "one"},
        {"box": (64, 8)},
        {"strides_bytes": (512,)},
        {"element_strides": (1,)},
        {"box": (-1, 8, 2)},
        {"element_strides": (1, 256, 1)},
        {"dims": (1,) * 6, "strides_bytes": (16,) * 5, "box": (1,) * 6, "element_strides": (1,) * 6},
    ],
    ids=str,
)
def test_what_has_no_encoding_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is|has|most"):
        encode(replace(CLEAN, **changes), ADDRESS)
