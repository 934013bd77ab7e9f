"""The generator of `rand`: the published words, and numbers that are uniform and know nothing of their neighbours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from compiler.ir.ops import OpKind
from compiler.ir.ops.philox import philox, uniform

PUBLISHED = [
    # counter, key, words: kat_vectors of the Random123 library, philox4x32 of 10 rounds
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]

COUNT = 1 << 16
SEEDS = (0, 1, -1, 0x0123456789ABCDEF)


def draw(seed: int, offset: int, first: int = 0, count: int = COUNT) -> Any:
    return uniform(np, np.asarray(seed, np.int64), np.asarray(offset, np.int64), np.arange(first, first + count))


@pytest.mark.parametrize(("counter", "key", "words"), PUBLISHED)
def test_the_words_are_the_published_ones(
    counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]
) -> None:
    found = philox(tuple(np.array([x], np.int64) for x in counter), tuple(np.array([x], np.int64) for x in key))
    assert tuple(int(x[0]) for x in found) == words


@pytest.mark.parametrize(("counter", "key", "words"), PUBLISHED)
def test_elements_are_the_words_of_their_group(
    counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]
) -> None:
    """Element e is word e % 4 for the counter (e // 4, offset): by the formula of docs/contracts.md."""
    group, offset = counter[0] | counter[1] << 32, counter[2] | counter[3] << 32
    if group * 4 >= 1 << 63:
        return  # no tensor has such an element
    seed = key[0] | key[1] << 32
    seed, offset = (x - (1 << 64) if x >> 63 else x for x in (seed, offset))
    assert [float(x) for x in draw(seed, offset, first=4 * group, count=4)] == [(w >> 8) * 2.0**-24 for w in words]


def test_torch_arrays_give_the_same_numbers() -> None:
    seed, offset = torch.tensor(-5), torch.tensor(1 << 40)
    found = uniform(torch, seed, offset, torch.arange(1000))
    assert np.array_equal(found.numpy(), draw(-5, 1 << 40, count=1000))
    assert found.dtype is torch.float64


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_uniform(seed: int) -> None:
    """Mean, variance and 256 equal cells, each within five standard deviations of what it is expected to be."""
    x = draw(seed, 7)
    assert ((x >= 0) & (x < 1)).all()
    assert np.array_equal(x * 2**24, np.round(x * 2**24))
    assert abs(x.mean() - 0.5) < 5 / math.sqrt(12 * COUNT)
    assert abs(x.var() - 1 / 12) < 5 / math.sqrt(180 * COUNT)
    cells = np.bincount((x * 256).astype(int), minlength=256)
    chi = ((cells - COUNT / 256) ** 2 / (COUNT / 256)).sum()
    assert abs(chi - 255) < 5 * math.sqrt(2 * 255)


@pytest.mark.parametrize(
    "other",
    [(0, 7, 1), (0, 7, 2), (0, 7, 4), (0, 7, 4096), (0, 8, 0), (1, 7, 0), (0, 7 + (1 << 32), 0), (1 << 32, 7, 0)],
    ids=["next", "second", "group", "row", "offset", "seed", "high-offset", "high-seed"],
)
def test_numbers_say_nothing_of_others(other: tuple[int, int, int]) -> None:
    """Of neighbours, of another offset, of another seed: correlation within five standard deviations of none."""
    a, b = draw(0, 7), draw(*other)
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / math.sqrt(COUNT)
    both = np.histogram2d(a, b, bins=16, range=((0, 1), (0, 1)))[0]
    chi = ((both - COUNT / 256) ** 2 / (COUNT / 256)).sum()
    assert abs(chi - 255) < 5 * math.sqrt(2 * 255)


def test_operands_that_are_not_known_leave_the_whole_range() -> None:
    assert OpKind.RAND.row.ends is not None
    ends = [(np.zeros(3), np.ones(3)), (np.zeros(3), np.zeros(3)), (np.arange(3.0), np.arange(3.0))]
    low, high = OpKind.RAND.row.ends(lambda *_: None, ends, np)
    assert (low.tolist(), high.tolist()) == ([0.0] * 3, [1.0] * 3)
