"""Random schedules against the copy engine: what is legal moves every element to its place, what is called impossible
no descriptor does."""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import prod
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as hs

from compiler.errors import Violation
from compiler.ir.iter_domain import ParallelType
from compiler.legality.tensor_map import inference
from compiler.schedule.apply import apply
from compiler.schedule.steps import Parallelize, Resize, Split
from tests.compiler.analysis.explicit_copies import (
    Document,
    Inferred,
    Step,
    bulk,
    document,
    inferred,
    merge,
    reorder,
    scheduled,
    split,
    swizzle,
)
from tests.compiler.analysis.tma_machine import Descriptor, Meaning, addresses, load, meaning, store

LAW = settings(derandomize=True, max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
MAX_ELEMS = 64


def random_case(rng: Random, *, store_: bool = False) -> Document:
    """Any splits, merges and orders, any axes Bulk, and rows that may be padded."""
    shape = [rng.choice((2, 3, 4, 5, 6, 8)) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    while prod(shape) > MAX_ELEMS:
        shape.remove(max(shape))
    steps, rank = list[Step](), len(shape)
    for _ in range(rng.randrange(5)):
        match rng.choice(("split", "split", "merge", "reorder")):
            case "split":
                steps.append(split(rng.randrange(rank), rng.choice((2, 2, 3, 4)), rng.random() < 0.8))
                rank += 1
            case "merge" if rank > 1:
                steps.append(merge(rng.randrange(rank - 1)))
                rank -= 1
            case "reorder" if rank > 1:
                order = list(range(rank))
                rng.shuffle(order)
                steps.append(reorder(*order))
    tile = [a for a in range(rank) if rng.random() < 0.5] or [rank - 1]
    flags, strides, dense = [True] * len(shape), [1] * len(shape), 1
    for d in reversed(range(len(shape))):
        if not store_ and d < len(shape) - 1 and rng.random() < 0.3:
            flags[d], dense = False, dense + rng.randrange(3)
        strides[d] = dense
        dense *= shape[d]
    bound = None if store_ else strides
    return document(shape, [*steps, *bulk(*tile)], store=store_, contiguity=flags, strides=bound)


def boxed_case(rng: Random, *, store_: bool = False) -> Document:
    """A schedule as the documents make them: axes boxed, some strided, tiles cut again, and merged."""
    shape = [rng.choice((4, 6, 8, 9)), rng.choice((4, 5, 8))][: rng.choice((1, 2))]
    steps, outer, inner = list[Step](), list[int](), list[int]()
    at = 0
    for d in range(len(shape)):
        kind = rng.choice(("whole", "one", "box", "box", "box", "strided", "nested"))
        if kind == "strided" and d == len(shape) - 1:
            kind = "box"
        if kind in ("box", "strided", "nested"):
            steps.append(split(at, rng.choice((2, 3, 4))))
        match kind:
            case "whole":
                inner.append(at)
            case "one":
                outer.append(at)
            case "box":
                outer.append(at)
                inner.append(at + 1)
                at += 1
            case "strided":
                steps.append(split(at + 1, rng.choice((2, 3))))
                outer += [at, at + 2]
                inner.append(at + 1)
                at += 2
            case "nested":
                steps.append(split(at, 2))
                outer.append(at)
                inner += [at + 1, at + 2]
                at += 2
        at += 1
    steps.append(reorder(*outer, *inner))
    count = len(outer)
    while count > 1 and rng.random() < 0.6:
        steps.append(merge(0))
        count -= 1
        if rng.random() < 0.5:
            steps.append(split(0, rng.choice((2, 3))))
            count += 1
    return document(shape, [*steps, *bulk(*range(count, count + len(inner)))], store=store_)


def mixed_case(rng: Random) -> Document:
    """Padded rows merged and boxed across their ends, or tiles swizzled with what lies in them."""
    if rng.random() < 0.5:
        rows, columns = rng.choice((2, 3, 4)), rng.choice((4, 6, 8))
        pad = rng.choice((0, 1, 2))
        steps = [merge(*rng.choice(((0, 1), (1, 0)))), split(0, rng.choice((2, 3, 4, 5))), *bulk(1)]
        return document((rows, columns), steps, contiguity=[pad == 0, True], strides=[columns + pad, 1])
    steps = [split(0, 4), split(0, 4), swizzle(*rng.choice(((1, 2), (2, 1)))), *bulk(rng.choice((1, 2)))]
    return document((rng.choice((32, 48, 64)),), steps)


def random_document(rng: Random, *, store_: bool = False) -> Document:
    if not store_ and rng.random() < 0.1:
        return mixed_case(rng)
    return (random_case if rng.random() < 0.5 else boxed_case)(rng, store_=store_)


def is_accepted(found: Inferred) -> bool:
    return found.copy.dims is not None and not found.refusals


def filled(what: Meaning) -> np.ndarray:
    return np.arange(1, what.memory + 1, dtype=np.int64)


def check_load(found: Inferred) -> None:
    what = meaning(found)
    memory = filled(what)
    for one in what.tiles:
        if found.copy.correctness == "strong_with_predicate" and not np.any(one.address >= 0):
            continue  # The predicate turns away a tile that has no element.
        tile = load(memory, what.descriptor, one.start)
        for place, address in zip(what.places, one.address, strict=True):
            if address >= 0:
                assert place >= 0
                assert tile[place] == memory[address]
            elif place >= 0 and found.copy.correctness != "weak":
                assert tile[place] == 0, "a hole that holds an element"


def check_store(found: Inferred) -> None:
    """Holes are poisoned: none may land in the tensor."""
    what = meaning(found)
    memory, expect = np.zeros(what.memory, dtype=np.int64), np.zeros(what.memory, dtype=np.int64)
    for one in what.tiles:
        if found.copy.correctness == "strong_with_predicate" and not np.any(one.address >= 0):
            continue
        tile = np.full(prod(what.descriptor.tile), -1, dtype=np.int64)
        for place, address in zip(what.places, one.address, strict=True):
            if address >= 0:
                tile[place] = expect[address] = address + 1
        store(memory, what.descriptor, one.start, tile)
    assert np.array_equal(memory, expect)


@given(hs.randoms(use_true_random=False))
@LAW
def test_an_accepted_load_moves_every_element_to_its_place(rng: Random) -> None:
    found = inferred(scheduled(random_document(rng)))
    if is_accepted(found):
        check_load(found)


@given(hs.randoms(use_true_random=False))
@LAW
def test_an_accepted_store_writes_the_tensor_and_no_hole(rng: Random) -> None:
    found = inferred(scheduled(random_document(rng, store_=True)))
    if is_accepted(found) and found.copy.correctness != "weak":
        check_store(found)


@pytest.mark.parametrize(("left", "right"), [(0, 3), (2, 0), (3, 4)])
def test_what_padding_adds_is_filled_with_zero(left: int, right: int) -> None:
    """Boxes that start before the tensor and end behind it."""
    sf = scheduled(document((10, 6), []))
    for step in (Resize("a", 0, left, right), Split("a", 0, 4, True), Parallelize("a", 1, ParallelType.BULK)):
        sf = apply(sf, step)
    found = inferred(apply(sf, Parallelize("a", 2, ParallelType.BULK)))
    assert is_accepted(found)
    assert found.copy.correctness == "strong"
    assert min(x for one in meaning(found).tiles for x in one.start) == -left
    check_load(found)


@cache
def random_cases() -> tuple[Inferred, ...]:
    rng = Random(11)
    return tuple(inferred(scheduled(random_document(rng))) for _ in range(1500))


def test_the_cases_reach_every_correctness_and_both_verdicts() -> None:
    seen: Counter[str] = Counter()
    for found in random_cases():
        if is_accepted(found):
            seen[str(found.copy.correctness)] += 1
        seen.update(b.message.split(":")[0] for b in inference.breaches(found.copy) if isinstance(b, Violation))
    assert {"strong", "strong_with_predicate", "weak", "impossible", "not recognised"} <= set(seen)


def test_a_weak_load_has_a_tile_with_an_element_and_a_filled_hole() -> None:
    """No predicate can mend it, so it is not called weak too soon."""
    weak = [found for found in random_cases() if is_accepted(found) and found.copy.correctness == "weak"]
    assert weak
    for found in weak:
        what = meaning(found)
        memory = filled(what)
        assert any(
            np.any(one.address >= 0)
            and any(
                p >= 0 and a < 0 and load(memory, what.descriptor, one.start)[p]
                for p, a in zip(what.places, one.address, strict=True)
            )
            for one in what.tiles
        )


def some_descriptor(tiles: list[list[int]], count: int, memory: int) -> Descriptor | None:
    """A descriptor of rank 1 or 2 whose tiles of `count` elements hold those of every given tile; the 16-byte rules are
    off, the tensor map stays within `memory`."""
    for size0 in range(1, memory + 1):
        for tile0 in (t for t in range(1, count + 1) if count % t == 0):
            tile1 = count // tile0
            if tile1 == 1 and _reaches(tiles, Descriptor((size0,), (1,), (tile0,), (1,))):
                return Descriptor((size0,), (1,), (tile0,), (1,))
            for stride in range(size0, memory + 1):
                size1 = (memory - size0) // stride + 1
                for step in range(1, 9 if tile1 > 1 else 2):
                    d = Descriptor((size0, size1), (1, stride), (tile0, (tile1 - 1) * step + 1), (1, step))
                    if _reaches(tiles, d):
                        return d
    return None


def _reaches(tiles: list[list[int]], d: Descriptor) -> bool:
    """Every tile lies at the coordinate of its least element: the given ones lie wholly in the tensor."""
    for tile in tiles:
        x = [tile[0] % d.stride[-1], tile[0] // d.stride[-1]] if len(d.size) == 2 else [tile[0]]
        if x[0] >= d.size[0] or {at for at in d.elements(x) if at is not None} != set(tile):
            return False
    return True


def whole_tiles(found: Inferred) -> tuple[list[list[int]], int, int]:
    """The tiles without holes, elements of a tile, and how far memory reaches."""
    _, _, flat, memory = addresses(found.sf, found.copy.op.output)
    return [sorted(row.tolist()) for row in flat if np.all(row >= 0)], flat.shape[1], memory


@pytest.mark.parametrize("count", [10, pytest.param(25, marks=pytest.mark.long)])
def test_no_descriptor_does_what_is_called_impossible(count: int) -> None:
    checked = 0
    for found in random_cases():
        refused = [b.message for b in inference.breaches(found.copy) if isinstance(b, Violation)]
        if not any(m.startswith("impossible") for m in refused):
            continue
        tiles, elems, memory = whole_tiles(found)
        if memory > MAX_ELEMS:
            continue
        assert some_descriptor(tiles, elems, memory) is None
        checked += 1
        if checked == count:
            return
    pytest.fail(f"only {checked} impossible schedules among the random ones")


def test_the_search_finds_the_descriptor_of_an_accepted_schedule() -> None:
    """Otherwise it could not show that there is none."""
    for steps in ([split(0, 2), split(2, 4), *bulk(1, 3)], [split(0, 4), split(1, 2), *bulk(1, 3)]):
        found = inferred(scheduled(document((8, 8), steps)))
        assert is_accepted(found)
        assert some_descriptor(*whole_tiles(found)) is not None


def test_few_possible_schedules_are_not_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 1000 schedules at random, and of 1000 as the documents make them: accepted, impossible, not recognised."""
    shares = {}
    for name, make in (("any", random_case), ("boxed", boxed_case)):
        rng = Random(5)
        tally: Counter[str] = Counter()
        for _ in range(1000):
            found = inferred(scheduled(make(rng)))
            refused = [b.message.split(":")[0] for b in inference.breaches(found.copy) if isinstance(b, Violation)]
            tally[refused[0] if refused else "accepted"] += 1
        shares[name] = tally["not recognised"] / tally.total()
        with capsys.disabled():
            print(f"\n{name}: {dict(tally)}, not recognised {shares[name]:.1%}")
    assert shares["any"] < 0.2
    assert shares["boxed"] < 0.02
