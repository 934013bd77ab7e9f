"""What multicasts of the flat scheduler bring, along which dimensions, and what that takes and saves."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from compiler.arch import arch_named
from compiler.dtypes import DType
from compiler.ir.expr import Var, const, var
from compiler.ir.fusion import Fusion
from compiler.lower.issue import announced
from compiler.lower.kernel_ir import BulkLoad, If, TmaLoad
from compiler.lower.operands import Barrier, Less, Shared
from compiler.lower.sync_ir import AddBytes, ClusterWait, ExpectBytes
from compiler.lower.traversal import walk
from compiler.schedule.start import start
from search.cost.predicting import features_of
from search.space.schedulers.flat import Flat
from search.space.schedulers.iteration_space import IterationSpace, iteration_space
from search.space.schedulers.multicasts import multicasts_of
from tests.compiler.schedules import from_wire
from tests.search.schedulers.fusions import tensor
from tests.search.schedulers.points import SM_COUNT, generated
from tests.search.schedulers.view_fusions import broadcast

HOPPER = arch_named("sm_90a")


def added(shape: list[int], *operands: list[int], dtype: str = "f32", align: int = 16, pad: int = 0) -> Fusion:
    """x + an operand for each list of the dimensions that it has; between rows of x are `pad` elements."""
    padded = [*shape[:-1], shape[-1] + pad]
    strides = [prod(padded[d + 1 :]) for d in range(len(shape))]
    inputs, ops, total = [tensor("x", shape, dtype, strides=strides)], [], "x"
    for i, dims in enumerate(operands):
        inputs.append({**tensor(f"o{i}", [shape[d] for d in dims], dtype), "align": align})
        ops += [broadcast(f"o{i}", f"w{i}", shape, *dims), {"op": "add", "in": [total, f"w{i}"], "out": f"t{i}"}]
        total = f"t{i}"
    return from_wire(inputs, ops, total)


def space_of(fusion: Fusion) -> IterationSpace:
    found = iteration_space(start(fusion))
    assert isinstance(found, IterationSpace), found
    return found


BROUGHT: dict[str, tuple[Fusion, tuple[int, list[str]] | None]] = {
    "a bias": (added([64, 256], [1]), (0, ["i1"])),
    "a bias at any address": (added([64, 256], [1], align=4), None),
    "a scale of each row": (added([64, 256], [0]), None),
    "slabs": (added([8, 64, 256], [1, 2]), (0, ["i1"])),
    "slabs of rows that a tensor map describes": (added([8, 63, 260], [1, 2], [2], dtype="bf16"), (1, ["i2"])),
    "along the dimension where most repeats": (added([8, 64, 256], [1, 2], [2], [0, 2]), (1, ["i2", "i3"])),
    "beside a dimension of one": (added([64, 1, 256], [2]), None),
    "a dimension of one of the operand's own": (added([64, 1, 256], [1, 2]), None),
    "nothing that repeats": (added([64, 256], [0, 1]), None),
}


@pytest.mark.parametrize("name", BROUGHT)
def test_what_is_brought_lies_dense_and_repeats_along_the_cluster(name: str) -> None:
    fusion, expected = BROUGHT[name]
    found = multicasts_of(space_of(fusion))
    assert (None if found is None else (found.group, [o.name for o in found.operands])) == expected
    values = {k.name: k.values for k in Flat(SM_COUNT).space(fusion, HOPPER).knobs}["multicast"]
    assert values == ((1,) if expected is None else (1, 2, 4))


@pytest.mark.parametrize("arch", ["sm_80", "sm_120a"])
def test_architectures_without_large_clusters_or_tensor_maps(arch: str) -> None:
    values = {k.name: k.values for k in Flat(SM_COUNT).space(added([64, 256], [1]), arch_named(arch)).knobs}
    assert values["multicast"] == ((1,) if arch == "sm_80" else (1, 2, 4))


def test_tiles_of_an_operand_along_the_rows_and_across_them() -> None:
    slabs = multicasts_of(space_of(added([8, 64, 256], [1, 2], pad=4)))
    assert slabs is not None
    orders, rows = np.array(["natural", "broadcast_last"]), np.array([4, 4])
    assert slabs.tile_bytes(orders, rows, 128).tolist() == [4 * 128 * 4, 128 * 4]
    assert slabs.extent(orders, rows).tolist() == [8, 2]


TILE: dict[str, Any] = {"view": "2d", "vector": 4, "threads_x": 32, "threads_y": 4, "rows": 2}


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_what_passes_through_l2_is_divided_by_the_blocks_that_share_it(blocks: int) -> None:
    rows, columns = 2048, 1024
    features = features_of(generated("flat", added([rows, columns], [1]), **TILE, multicast=blocks))
    tiles = rows // 8
    # By threads, every thread row asks for its own vectors; by a copy, the tile is brought once.
    once = tiles * columns * 4 * (4 if blocks == 1 else 1) / blocks
    assert features.l2_read_bytes == rows * columns * 4 + once
    assert features.cluster == blocks


@pytest.mark.parametrize(("blocks", "passes"), [(1, 16), (2, 8), (4, 4)])
def test_clusters_read_again_what_fewer_blocks_did_before(blocks: int, passes: int) -> None:
    """A slab is read again once a cluster has gone over the others; what lies between is the same."""
    fusion = added([16, 64, 1024], [1, 2], pad=4)
    features = features_of(generated("flat", fusion, **TILE, multicast=blocks))
    slab = 64 * 1024 * 4
    assert features.l2_read_bytes == 16 * slab + passes * slab
    between = blocks * 2 * slab + slab
    assert features.l2_reuse_distance_bytes == (between if blocks > 1 else 3 * slab)


def test_the_cluster_is_waited_for_after_everything_else_is_asked_for() -> None:
    body = generated("flat", added([64, 256], [1]), **TILE, load="tma", multicast=2).kernel.body
    asked = [s for s in walk(body) if isinstance(s, ClusterWait | TmaLoad)]
    assert [type(s) for s in asked] == [TmaLoad, ClusterWait, TmaLoad]
    assert [s.blocks for s in asked if isinstance(s, TmaLoad)] == [1, 2]


def test_every_block_announces_what_the_first_one_copies() -> None:
    """Also where a condition may leave a run out, which is then the same in all blocks."""
    barrier, place = Barrier(const(64)), Shared("s", DType.F32, const(0))
    load = BulkLoad(place, "i0", const(0), barrier, 64, 2)
    first, inside = Less(var(Var("cx", 2)), const(1)), Less(var(Var("bx", 8)), const(7))
    assert announced(barrier, (load,)) == (ExpectBytes(barrier, 64), If((first,), (load,)))
    assert announced(barrier, (If((inside,), (load,)),)) == (
        If((inside,), (AddBytes(barrier, 64), If((first,), (load,)))),
        ExpectBytes(barrier, 0),
    )
