"""mma.sync against the figures of its fragments, element by element, for every shape and pair of types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.emulate.features.mma.values import ENCODE, SIZE, small
from tests.emulate.features.small_kernels import Ran, load_row, registers, run, store_row

Array = npt.NDArray[Any]
Places = list[tuple[int, int]]

FLOATS = [(d, "f16", "f16") for d in ("f32", "f16")] + [("f32", "bf16", "bf16")]
MINIFLOATS = [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
BYTES = [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
FORMS = [
    *((k, types) for types in FLOATS for k in (8, 16)),
    *((k, ("f32", "tf32", "tf32")) for k in (4, 8)),
    *((k, types) for types in (*BYTES, *MINIFLOATS) for k in (16, 32)),
]


def elements_of_a(k: int, bits: int, lane: int) -> Places:
    """(row, k) of each element of a lane, as the manual's figures have them."""
    g, t = lane >> 2, lane & 3
    match bits, k:
        case 16, 16:
            return [(g + 8 * ((i >> 1) & 1), 2 * t + (i & 1) + 8 * (i >> 2)) for i in range(8)]
        case 16, 8:
            return [(g + 8 * (i >> 1), 2 * t + (i & 1)) for i in range(4)]
        case 32, 8:
            return [(g + 8 * (i & 1), t + 4 * (i >> 1)) for i in range(4)]
        case 32, 4:
            return [(g + 8 * i, t) for i in range(2)]
        case 8, 32:
            return [(g + 8 * ((i >> 2) & 1), 4 * t + (i & 3) + 16 * (i >> 3)) for i in range(16)]
        case _:
            return [(g + 8 * (i >> 2), 4 * t + (i & 3)) for i in range(8)]


def elements_of_b(k: int, bits: int, lane: int) -> Places:
    """(k, column) of each element of a lane."""
    g, t = lane >> 2, lane & 3
    match bits, k:
        case 16, 16:
            return [(2 * t + (i & 1) + 8 * (i >> 1), g) for i in range(4)]
        case 16, 8:
            return [(2 * t + i, g) for i in range(2)]
        case 32, 8:
            return [(t + 4 * i, g) for i in range(2)]
        case 32, 4:
            return [(t, g)]
        case 8, 32:
            return [(4 * t + (i & 3) + 16 * (i >> 2), g) for i in range(8)]
        case _:
            return [(4 * t + i, g) for i in range(4)]


def elements_of_c(lane: int) -> Places:
    """(row, column) of each element of a lane."""
    return [((lane >> 2) + 8 * (i >> 1), 2 * (lane & 3) + (i & 1)) for i in range(4)]


def packed(kind: str, matrix: Array, places: Places) -> npt.NDArray[np.uint32]:
    """The registers of a lane that holds these elements."""
    return ENCODE[kind](np.array([matrix[p] for p in places])).view(np.uint32)


def instruction(k: int, types: tuple[str, str, str], more: str = "") -> tuple[str, Mapping[str, int]]:
    """The instruction, and the registers of a, b and c; they are filled from %v0 on, d is c."""
    d, a, b = types
    counts = {"a": 16 * k * SIZE[a] // 128, "b": 8 * k * SIZE[b] // 128, "c": 16 * 8 * SIZE[d] // 128}
    places = [registers(counts["a"]), registers(counts["b"], counts["a"])]
    c = registers(counts["c"], counts["a"] + counts["b"])
    name = f"mma.sync.aligned.m16n8k{k}.row.col{more}.{d}.{a}.{b}.{d}"
    return f"  {name} {c}, {places[0]}, {places[1]}, {c};\n", counts


def multiplied(k: int, types: tuple[str, str, str], a: Array, b: Array, c: Array, more: str = "") -> tuple[Ran, Array]:
    """Runs it for each of the products of a (n, 16, k), b (n, k, 8), c (n, 16, 8), a warp each: the bits of d."""
    code, counts = instruction(k, types, more)
    d, kind_a, kind_b = types
    bits = 8 * SIZE[kind_a]
    rows = []
    for one, two, three in zip(a, b, c, strict=True):
        for lane in range(32):
            row = [
                packed(kind_a, one, elements_of_a(k, bits, lane)),
                packed(kind_b, two, elements_of_b(k, bits, lane)),
                packed(d, three, elements_of_c(lane)),
            ]
            rows.append(np.concatenate(row))
    width = sum(counts.values())
    first = counts["a"] + counts["b"]
    body = load_row(width) + "\n" + code + store_row(counts["c"], first) + "\n"
    ran = run(body, np.array(rows), len(rows) * counts["c"], threads=len(rows))
    words = ran.y.reshape(len(a), 32, counts["c"]).view(f"u{SIZE[d]}")
    found = np.zeros((len(a), 16, 8), words.dtype)
    for lane in range(32):
        for i, place in enumerate(elements_of_c(lane)):
            found[:, place[0], place[1]] = words[:, lane, i]
    return ran, found


@pytest.mark.parametrize(("k", "types"), FORMS)
def test_every_form_multiplies_small_integers(k: int, types: tuple[str, str, str]) -> None:
    rng = np.random.default_rng(k)
    d, kind_a, kind_b = types
    a, b = small(kind_a, (2, 16, k), rng), small(kind_b, (2, k, 8), rng)
    c = rng.integers(-99, 99, (2, 16, 8)).astype(np.float64)
    a[1, :, :], b[1, :, :] = 0, 0  # one element each: what is not where it should be gives zero
    a[1, 11, k - 3], b[1, k - 3, 5] = 3, 2
    ran, found = multiplied(k, types, a, b, c)
    assert ran.faults == []
    np.testing.assert_array_equal(found, ENCODE[d](a @ b + c))


def test_integers_wrap_or_saturate() -> None:
    a, b, c = np.full((1, 16, 32), 127.0), np.full((1, 32, 8), 127.0), np.full((1, 16, 8), 2.0**31 - 5)
    exact = 32 * 127 * 127 + 2**31 - 5
    _, wrapped = multiplied(32, ("s32", "s8", "s8"), a, b, c)
    assert (wrapped.view(np.int32) == exact - 2**32).all()
    _, clamped = multiplied(32, ("s32", "s8", "s8"), a, b, c, ".satfinite")
    assert (clamped.view(np.int32) == 2**31 - 1).all()


def test_sums_are_rounded_once() -> None:
    a, b, c = np.zeros((1, 16, 16)), np.zeros((1, 16, 8)), np.full((1, 16, 8), 1.0)
    a[:, :, :2], b[:, :2, :] = 2.0**-12, 2.0**-12  # 2^-24 twice: rounded apart, each would be lost
    _, found = multiplied(16, ("f32", "f16", "f16"), a, b, c)
    assert (found.view(np.float32) == 1 + 2.0**-23).all()


def test_what_is_no_number_stays_none() -> None:
    a, b, c = np.ones((1, 16, 16)), np.ones((1, 16, 8)), np.zeros((1, 16, 8))
    a[0, 0, 0], a[0, 1, 1], b[0, 1, 0] = np.inf, np.inf, 0
    _, found = multiplied(16, ("f32", "f16", "f16"), a, b, c)
    assert (found[0, 0] == 0x7F800000).all()
    assert found[0, 1, 0] == 0x7FFFFFFF
    assert (found[0, 1, 1:] == 0x7F800000).all()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32", "sm_100a"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16", "sm_100a"),
        ("mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32", "sm_100a"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32", "sm_100a"),
        ("mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32", "sm_100a"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "sm_100a"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_80"),
    ],
)
def test_forms_that_are_not_known_are_refused_by_name(name: str, target: str) -> None:
    body = load_row(10) + f"\n  {name} {registers(4, 6)}, {registers(4)}, {registers(2, 4)}, {registers(4, 6)};\n"
    ran = run(body, np.zeros(320, np.uint32), 1, threads=32, target=target)
    assert ran.faults == [("unsupported_instruction", name)]
    assert name in ran.outcome.faults[0].message


@pytest.mark.parametrize(("before", "code"), [("setp.lt.u32 %p3, %r1, 16", "@%p3 "), ("", "")])
def test_a_part_of_a_warp_cannot_multiply(before: str, code: str) -> None:
    multiply, counts = instruction(16, ("f32", "f16", "f16"))
    guard = f"  {before};\n" if before else ""
    body = load_row(sum(counts.values())) + "\n" + guard + f"  {code}{multiply.strip()}\n" + "  bar.warp.sync -1;\n"
    kinds = [kind for kind, _ in run(body, np.zeros(320, np.uint32), 1, threads=32).faults]
    assert kinds == (["divergent_collective"] if code else [])


def test_products_are_counted() -> None:
    a, b, c = np.zeros((3, 16, 16)), np.zeros((3, 16, 8)), np.zeros((3, 16, 8))
    ran, _ = multiplied(16, ("f32", "bf16", "bf16"), a, b, c)
    assert ran.outcome.counters["products"] == {
        "mma.sync": {"m16n8k16.f32.bf16.bf16": {"instructions": 3, "operations": 3 * 4096, "shared_bytes": 0}}
    }
    assert ran.outcome.counters["instructions"]["by_class"]["product"]["warp"] == 3
