"""The tree by which threads fold together: every thread's part is in every result of its group, once."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from compiler.analysis.id.graph import id_graph
from compiler.analysis.loops.fold import Fold, infer_folds
from compiler.analysis.loops.loop_nest import infer_loop_nest
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.iter_domain import IterDomain, IterKind, MemoryType, ParallelType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import TensorOp, TensorView

P = ParallelType
THREADS = (P.TIDX, P.TIDY, P.TIDZ)
BLOCKS = [
    (32, 1, 1),
    (16, 1, 1),
    (12, 1, 1),
    (96, 1, 1),
    (256, 1, 1),
    (1024, 1, 1),
    (32, 8, 1),
    (8, 16, 1),
    (8, 12, 1),
    (64, 4, 1),
    (5, 3, 1),
    (16, 3, 2),
    (4, 4, 4),
    (32, 2, 2),
    (1, 64, 1),
    (2, 48, 1),
]
SETS = [c for n in (1, 2, 3) for c in combinations(THREADS, n)]


def fold_of(block: tuple[int, int, int], dims: tuple[ParallelType, ...], cluster: int = 1) -> Fold | None:
    """The fold of a tensor whose axes are the threads of a block, those in `dims` folded."""
    axes: list[IterDomain] = []
    types: list[ParallelType] = []
    for p, n in zip((*THREADS, P.CLUSTER), (*block, cluster), strict=True):
        kind = IterKind.REDUCTION if p in dims or p is P.CLUSTER else IterKind.ITERATION
        axes.append(IterDomain(f"r.{len(axes)}", n, kind))
        types.append(p)
    whole = tuple(IterDomain(f"x.{i}", a.extent) for i, a in enumerate(axes))
    shape = (*block, cluster)
    x = TensorView("x", DType.F32, MemoryType.LOCAL, whole, whole, tuple(types))
    r = TensorView("r", DType.F32, MemoryType.LOCAL, tuple(axes), tuple(axes), tuple(types))
    value = Value("x", shape, DType.F32, dense_strides(shape))
    fusion = Fusion((value,), ("x",), (Op(OpKind.SUM, ("x",), "r"),), (), "", "")
    sf = ScheduledFusion(fusion, (x, r), (TensorOp(OpKind.SUM, ("x",), "r"),))
    return infer_folds(sf, infer_loop_nest(sf, id_graph(sf))).get("r")


def results(fold: Fold, block: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    """For every thread, how often each thread's part is in its result: one row a thread."""
    count = block[0] * block[1] * block[2]
    threads = np.arange(count)
    at = {"tx": threads % block[0], "ty": threads // block[0] % block[1], "tz": threads // (block[0] * block[1])}
    held = np.eye(count, dtype=int)
    for mask in fold.masks:
        assert all(t ^ mask < count and t // 32 == (t ^ mask) // 32 for t in threads)
        held = held + held[threads ^ mask]
    if not fold.is_shared:
        return held
    slots: dict[int, np.ndarray[Any, Any]] = {}
    writes = np.ones(count, bool)
    for condition in fold.leader:
        writes &= np.broadcast_to(condition.evaluate(at), count) < 1
    place = np.broadcast_to(fold.place(fold.slot).evaluate(at), count)
    for t in threads[writes]:
        assert place[t] not in slots, "two threads write one partial"
        slots[int(place[t])] = held[t]
    found = np.zeros_like(held)
    group = np.broadcast_to(fold.group.evaluate(at), count)
    for t in threads:
        for slot in range(fold.slots):
            found[t] += slots[slot * fold.groups + group[t] if fold.slot_major else group[t] * fold.slots + slot]
    return found


@pytest.mark.parametrize("dims", SETS, ids=lambda d: "+".join(p.value for p in d))
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_thread_is_in_the_result_of_its_group_once(
    block: tuple[int, int, int], dims: tuple[ParallelType, ...]
) -> None:
    fold = fold_of(block, dims)
    extents = dict(zip(THREADS, block, strict=True))
    if all(extents[p] == 1 for p in dims):
        assert fold is None
        return
    assert fold is not None
    count = block[0] * block[1] * block[2]
    threads = np.arange(count)
    coordinates = {
        P.TIDX: threads % block[0],
        P.TIDY: threads // block[0] % block[1],
        P.TIDZ: threads // (block[0] * block[1]),
    }
    same = np.ones((count, count), bool)
    for p in THREADS:
        if p not in dims:
            same &= coordinates[p][:, None] == coordinates[p][None, :]
    assert np.array_equal(results(fold, block), same.astype(int))


@pytest.mark.parametrize(
    ("block", "dims", "masks", "slots"),
    [
        ((32, 4, 1), (P.TIDX,), (1, 2, 4, 8, 16), 1),
        ((8, 4, 1), (P.TIDX,), (1, 2, 4), 1),
        ((256, 1, 1), (P.TIDX,), (1, 2, 4, 8, 16), 8),
        ((32, 16, 1), (P.TIDY,), (), 16),
        ((8, 16, 1), (P.TIDY,), (8, 16), 4),
        ((12, 1, 1), (P.TIDX,), (), 12),
    ],
)
def test_shuffles_go_as_far_as_a_warp(
    block: tuple[int, int, int], dims: tuple[ParallelType, ...], masks: tuple[int, ...], slots: int
) -> None:
    fold = fold_of(block, dims)
    assert fold is not None
    assert (fold.masks, fold.slots) == (masks, slots)


def test_blocks_of_a_cluster_exchange_one_partial_each() -> None:
    fold = fold_of((64, 2, 1), (P.TIDX,), cluster=4)
    assert fold is not None
    assert (fold.cluster, fold.cluster_bytes) == (4, 4 * 2 * 4)
