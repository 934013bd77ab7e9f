"""The model's rules on warp specialisation: the nearest legal and the nearest illegal schedule of each."""

from typing import Any

import pytest

from compiler.errors import Stage
from compiler.ir.iter_domain import ParallelType as P
from compiler.ir.tensor import BufferKind, CircularBuffer
from tests.compiler.model import (
    Document,
    Steps,
    breaches,
    buffer,
    copies,
    inline,
    kept,
    merge,
    op,
    reorder,
    rules,
    schedule,
    scheduled,
    split,
    tensor,
    types,
)

DIMENSION = "loading_warps_are_on_a_thread_dimension"
REGISTERS = "shared_registers_are_whole_units"
OUTERMOST = "registers_are_shared_in_the_outermost_loop"
ONE = "one_dimension_is_warp_specialized"
BLOCK = "warp_specialized_block_is_whole_warp_groups"
BULK = "warp_specialized_loads_are_bulk_copies"
LOADED_BY = "warp_specialized_dimension_is_not_loaded_by"
NESTED = "warp_specialized_loop_is_not_inside_a_pipelined_one"
ROLES = "loading_warps_have_at_most_four_roles"
SLICE = "stage_slice_lies_in_the_tensor"
SAME = "stage_slice_is_the_same_for_who_reads_it"
ONE_SLICE = "loading_warps_share_one_slice"
DIVIDES = "unguarded_loops_under_a_circular_buffer_divide"
THREADS = "block_has_threads_enough"


def specialized(stages: int = 2, on: P | None = P.TIDX, **more: Any) -> CircularBuffer:
    return CircularBuffer(stages, stages - 1, BufferKind.WARP_SPECIALIZED, on, **more)


def rowwise(
    block: tuple[int, int, int] = (128, 1, 1),
    options: CircularBuffer | None = None,
    via: str = "bulk1d",
) -> tuple[Document, dict[str, Any]]:
    """One row a step: loaded by warps of their own, computed by a block of these threads (x, y, z)."""
    x, y, z = block
    document = copies((8, 4 * x * y * z), f"g s={via} g" if via else "g s g")
    threads = [split("tv2", 1, x), split("tv2", 1, y), split("tv2", 1, z)]
    document = scheduled(document, threads, types("tv2", "-", "-", "TIDz", "TIDy", "TIDx"))
    document = scheduled(document, types("tv1", "-", "Bulk") if via else [], inline("tv1", 1))
    return document, {"circular": options if options is not None else specialized()}


def judged(document: Document, changed: dict[str, Any]) -> tuple[str, ...]:
    return rules(document, tv1=changed)


@pytest.mark.parametrize(
    ("block", "on", "expected"),
    [
        ((128, 1, 1), P.TIDX, ()),
        ((96, 1, 1), P.TIDX, (BLOCK,)),
        ((128, 2, 1), P.TIDY, ()),
        ((64, 2, 1), P.TIDY, ()),
        ((64, 1, 1), P.TIDY, (BLOCK,)),
        ((256, 1, 1), P.TIDY, (BLOCK,)),
        ((256, 1, 1), P.TIDX, ()),
        ((96, 4, 1), P.TIDY, (BLOCK,)),
        ((32, 4, 2), P.TIDX, ()),
        ((32, 4, 2), P.TIDZ, ()),
        ((128, 2, 1), P.TIDZ, (BLOCK,)),
        # With the 128 threads that load, a block has 1024.
        ((128, 7, 1), P.TIDY, ()),
        ((128, 8, 1), P.TIDY, (THREADS,)),
    ],
)
def test_blocks(block: tuple[int, int, int], on: P, expected: tuple[str, ...]) -> None:
    assert judged(*rowwise(block, specialized(on=on))) == expected


def test_the_other_dimensions_are_known_beforehand() -> None:
    document = copies((8, 256), "g s=bulk1d g", symbolic=True)
    loops = [split("tv2", 1, 128), *types("tv2", "-", "TIDy", "TIDx"), *types("tv1", "-", "Bulk"), inline("tv1", 1)]
    unknown = scheduled(document, *loops)
    assert rules(unknown, tv1={"circular": specialized(on=P.TIDX)}) == (BLOCK,)
    # All 128 threads of the other dimensions load: how many rows of threads compute does not matter.
    assert rules(unknown, tv1={"circular": specialized(on=P.TIDY)}) == ()
    narrow = scheduled(document, split("tv2", 1, 64), *loops[1:])
    assert rules(narrow, tv1={"circular": specialized(on=P.TIDY)}) == (BLOCK,)


@pytest.mark.parametrize(("on", "expected"), [(P.TIDX, ()), (P.BIDX, (DIMENSION,)), (None, (DIMENSION,))])
def test_warps_are_appended_to_threads(on: P | None, expected: tuple[str, ...]) -> None:
    assert judged(*rowwise((128, 1, 1), specialized(on=on))) == expected


@pytest.mark.parametrize(
    ("registers", "expected"),
    [
        ((24, 256), ()),
        ((64, 64), ()),
        ((16, 64), (REGISTERS,)),
        ((64, 264), (REGISTERS,)),
        ((36, 64), (REGISTERS,)),
        ((72, 64), (REGISTERS,)),
    ],
)
def test_registers(registers: tuple[int, int], expected: tuple[str, ...]) -> None:
    assert judged(*rowwise(options=specialized(registers=registers))) == expected


def nested(outer: str, rows: int, **options: Any) -> tuple[str, ...]:
    """tv0 [rows, 8, 512] -> tv1, one row a step of the inner loop -> tv2, `outer` the type of the outer loop."""
    document = copies((rows, 8, 512), "g s=tma g")
    loops = [split("tv2", 2, 128), *types("tv2", outer, "-", "-", "TIDx")]
    load = [split("tv1", 2, 256), *types("tv1", outer, "-", "-", "Bulk"), inline("tv1", 2)]
    return rules(scheduled(document, *loops, *load), tv1={"circular": specialized(**options)})


def test_registers_are_shared_outermost() -> None:
    shared = {"registers": (64, 168)}
    assert nested("BIDx", 4, **shared) == ()
    assert nested("-", 4, **shared) == (OUTERMOST,)
    assert nested("-", 1, **shared) == ()
    assert nested("-", 4) == ()


def test_loads_are_bulk_copies() -> None:
    for via, expected in (("bulk1d", ()), ("", (BULK,))):
        assert judged(*rowwise(via=via)) == expected


def test_the_specialized_dimension_does_not_load() -> None:
    document = copies((8, 2, 128), "g s=bulk1d g")
    loops = [*types("tv2", "-", "TIDy", "TIDx"), *types("tv1", "-", "-", "Bulk")]
    changed = {"circular": specialized(on=P.TIDY)}
    assert rules(scheduled(document, *loops, inline("tv1", 1)), tv1=changed) == ()
    # Inlined deeper, the load runs in the loop that the computing warps share out.
    assert rules(scheduled(document, *loops, inline("tv1", 2)), tv1=changed) == (LOADED_BY,)


def two(first: CircularBuffer, second: CircularBuffer, at: tuple[int, int] = (1, 1), rows: int = 4) -> tuple[str, ...]:
    """tv0 [4, 4, 256] and x0 [rows, 4, 256], loaded into tv1 and x1 and added; inlined at these positions."""
    shapes = {"tv0": (4, 4, 256), "tv1": (4, 4, 256), "tv2": (4, 4, 256), "x0": (rows, 4, 256), "x1": (rows, 4, 256)}
    shared = ("tv1", "x1")
    names = {n: tensor(shape, "shared" if n in shared else "global") for n, shape in shapes.items()}
    ops = [op("set", "tv1", "tv0", via="tma"), op("set", "x1", "x0", via="tma"), op("add", "tv2", "tv1", "x1")]
    ends = {"inputs": ["tv0", "x0"], "outputs": ["tv2"]}
    loops = [split("tv2", 2, 128), *types("tv2", "-", "-", "-", "TIDx")]
    for tv, position in zip(shared, at, strict=True):
        loops += [*types(tv, "-", "-", "Bulk"), inline(tv, position)]
    document = {"name": "two", "tensors": names, "ops": ops, "schedule": loops} | ends
    return rules(document, tv1={"circular": first}, x1={"circular": second})


def test_one_dimension_is_specialized() -> None:
    assert two(specialized(), specialized()) == ()
    assert ONE in two(specialized(), specialized(on=P.TIDY))


def test_a_specialized_loop_is_not_pipelined_over() -> None:
    pipelined = CircularBuffer(2, 1)
    # A broadcast axis is no loop of x1's own, so the warps that load it have the inner loop.
    assert two(pipelined, specialized(), at=(1, 2), rows=1) == (NESTED,)
    assert two(pipelined, pipelined, at=(1, 2), rows=1) == ()
    assert two(specialized(), pipelined, at=(1, 2)) == ()


def test_loading_warps_have_four_roles() -> None:
    def many(count: int) -> tuple[str, ...]:
        """So many loads, each in a loop nest of its own."""
        names: dict[str, Document] = {}
        ops, loops = [], []
        changed: dict[str, Any] = {}
        for i in range(count):
            names |= {f"a{i}": tensor((4, 512), "global"), f"b{i}": tensor((4, 512), "shared")}
            names[f"c{i}"] = tensor((4, 512), "global")
            ops += [op("set", f"b{i}", f"a{i}", via="bulk1d"), op("set", f"c{i}", f"b{i}")]
            loops += [split(f"c{i}", 1, 128), *types(f"c{i}", "-", "-", "TIDx"), *types(f"b{i}", "-", "Bulk")]
            loops.append(inline(f"b{i}", 1))
            changed[f"b{i}"] = {"circular": specialized()}
        ends = {"inputs": [f"a{i}" for i in range(count)], "outputs": [f"c{i}" for i in range(count)]}
        return rules(scheduled({"name": "m", "tensors": names, "ops": ops, "schedule": []} | ends, *loops), **changed)

    assert many(4) == ()
    assert many(5) == (ROLES,)


def ping_pong(slice_position: int | None, groups: str = "TIDy", rows: int = 4, alike: bool = True) -> Document:
    """[block, step, group, row] of 128 columns: a stage is a slice, computed by two groups of 128 threads."""
    document = copies((3 * 4 * 2 * rows, 128), "g s=bulk1d g")
    loops: Steps = []
    for tv in ("tv1", "tv2"):
        loops += [split(tv, 0, rows), split(tv, 0, 2), split(tv, 0, 4)]
    if not alike:
        loops.append(split("tv2", 3, 2))
    loops += [*types("tv1", "BIDx", "-", "-", "-", "Bulk"), inline("tv1", 2)]
    loops += types("tv2", "BIDx", "-", groups, "-", *([] if alike else ["-"]), "TIDx")
    sliced = {"slice_position": slice_position} if slice_position is not None else {}
    return scheduled(document, *loops, buffer("tv1", 8, kind="warp_specialized", on="TIDy", **sliced))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (ping_pong(-1), (SLICE,)),
        (ping_pong(0), (SLICE,)),
        (ping_pong(1), (SLICE,)),
        (ping_pong(2), ()),
        (ping_pong(3), ()),
        (ping_pong(4), ()),
        (ping_pong(5), (SLICE,)),
        (ping_pong(6), (SLICE,)),
        (ping_pong(3, alike=False), ()),
        (ping_pong(4, alike=False), (SAME,)),
        # Nothing tells the computing groups apart.
        (ping_pong(3, groups="-"), (SAME,)),
    ],
)
def test_slices(document: Document, expected: tuple[str, ...]) -> None:
    assert rules(document) == expected


@pytest.mark.parametrize(("slice_position", "rows"), [(None, 8), (2, 8), (3, 4), (4, 1)])
def test_a_slice_is_what_a_stage_holds(slice_position: int | None, rows: int) -> None:
    assert schedule(ping_pong(slice_position)).shared_bytes.total == 8 * rows * 512 + 2 * 8 * 8


def test_loads_share_a_slice() -> None:
    first, second = specialized(slice_position=1), specialized(slice_position=2)
    assert ONE_SLICE in two(first, second)
    assert ONE_SLICE not in two(first, first)


def rows_of(total: int, via: str = "bulk1d", symbolic: bool = False, undone: bool = False) -> Document:
    """Two rows a stage, out of so many: the split into stages leaves a hole where the number is odd. `undone`: with a
    split by 1 of the rows of a stage, and the merge that takes it back."""
    unknown = {"symbolic": [symbolic, False]}
    document = copies((total, 128), f"g s={via} g", tv0=unknown, tv1=unknown, tv2=unknown)
    loops = [split(tv, 0, 2) for tv in ("tv1", "tv2")]
    loops += [split("tv1", 1, 1), merge("tv1", 1)] if undone else []
    loops += [*types("tv1", "-", "-", "Bulk"), *types("tv2", "-", "-", "TIDx"), inline("tv1", 1)]
    return scheduled(document, *loops, buffer("tv1", 2, kind="warp_specialized", on="TIDy"))


@pytest.mark.parametrize(
    ("document", "stage"),
    [
        (rows_of(16), None),
        (rows_of(15), Stage.COMPILE),
        (rows_of(15, undone=True), Stage.COMPILE),
        (rows_of(15, symbolic=True), Stage.RUNTIME),
        (rows_of(15, via="tma"), None),
    ],
)
def test_loops_of_a_stage_have_no_holes(document: Document, stage: Stage | None) -> None:
    assert [(v.rule, v.stage) for v in breaches(document)] == ([(DIVIDES, stage)] if stage is not None else [])


def test_unknown_loops_of_a_stage_are_checked_at_every_launch() -> None:
    assert kept(rows_of(16, symbolic=True))[DIVIDES] == ("size[0][0] % (2) == 0",)
    assert DIVIDES not in kept(rows_of(16))


def test_reordered_loops_are_found_by_their_axes() -> None:
    document = copies((8, 4, 128), "g s=bulk1d g")
    loops = [reorder(tv, 1, 0, 2) for tv in ("tv1", "tv2")]
    loops += [*types("tv1", "BIDx", "-", "Bulk"), *types("tv2", "BIDx", "-", "TIDx"), inline("tv1", 2)]
    found = schedule(scheduled(document, *loops), tv1={"circular": specialized(on=P.TIDY)}).circular_buffers
    assert [(loop.tensors, loop.positions) for loop in found.loops] == [(("tv1",), (1,))]
