"""What a kernel of a product moves between device memory and L2: the operands of tiles that run at a time.

Blocks that run at a time go along what is summed side by side, and find in L2 what another has just brought.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.loops.deal import dealt_turns, usual_turns
from compiler.arch import LINE_BYTES, Card
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.touched import read_bytes, written_bytes
from compiler.lower import kernel_ir as k
from compiler.lower.operands import TensorMap
from compiler.pipeline import Generated, GeneratedLaunch
from search.cost.sites import StatementSite, positions_of

KEPT_SHARE = 0.5
"""Of L2, what the blocks that run at a time may read of operands for the next ones to find it there. 4096^3 of bf16 in
tiles of 128 x 256, whose blocks read 34 of 50 MB at a time, read 148 MB from memory in four turns (H100)."""

_MOST_TURNS = 64
"""Turns of blocks whose operands are told apart; the others are taken for their like."""

_Values = dict[str, NDArray[np.int64]]


def outer_axes(made: TensorView) -> list[tuple[IterDomain, ParallelType]]:
    """The axes of a product around what is summed, with their types."""
    summed = next(i for i, axis in enumerate(made.loop) if axis.is_reduction)
    return list(zip(made.loop, made.types, strict=True))[:summed]


@dataclass(frozen=True, slots=True)
class PanelCopy:
    """What brings tiles of an operand: the input's position, where in it, bytes for a block and how often, blocks that
    have it of one copy, the loops around that are not unrolled; lines that L2 is asked for, over what its
    bytes would fill."""

    position: int
    coordinates: tuple[Expr, ...]
    nbytes: float
    times: int
    blocks: int
    around: tuple[Var, ...]
    lines: float = 1.0


def brought(kernel: k.Kernel, sites: list[StatementSite], operands: Collection[int]) -> list[PanelCopy]:
    """What brings tiles of the inputs in these positions, by the copy engine or by all threads of a block."""
    position = positions_of(kernel)
    around = {id(copy): path for copy, path in _loops_of_copies(kernel.body, ())}
    lines = {m.name: lines_of_rows(m) for m in kernel.tensor_maps}
    found = []
    for site in sites:
        s, times = site.statement, site.per_tile * site.tiles
        match s:
            case k.TmaLoad():
                where = position[s.tensor_map], s.coordinates
                one = PanelCopy(*where, s.nbytes, times, s.blocks, around[id(s)], lines[s.tensor_map])
            case k.CopyAsync() | k.GlobalLoad() if id(s) in around:
                nbytes = s.width * s.target.dtype.nbytes * kernel.threads
                one = PanelCopy(position[s.tensor], (s.offset,), nbytes, times, 1, around[id(s)])
            case _:
                continue
        if one.position in operands:
            found.append(one)
    return found


def lines_of_rows(box: TensorMap) -> float:
    """Lines of memory that the rows of a box lie in, over those that their bytes would fill.

    A row is asked for line by line: one of 128 bytes that begins inside a line takes two requests, one of 64 bytes as
    much as a whole line. On an H200 five thin products of rows that are no whole lines took 1.2 to 1.5 times as long as
    predicted without the former, 1.0 to 1.15 with it; 38 kernels with tiles of half lines 1.09 to 1.53 without the
    latter (pairs that share them, blocks by themselves), 0.99 to 1.23 with it. Rows of whole lines are as before.
    """
    nbytes = box.box[0] * box.dtype.nbytes
    step = gcd(LINE_BYTES, nbytes, *box.strides_bytes)  # tensors begin on a line
    starts = range(0, LINE_BYTES, step)
    return sum(-(-(start + nbytes) // LINE_BYTES) for start in starts) * LINE_BYTES / (len(starts) * nbytes)


def operand_positions(sf: ScheduledFusion, product: TensorOp) -> frozenset[int]:
    """Positions of the inputs that the operands of a product are made of; what is read apart is the input it is of."""
    inputs, waiting, found = list(sf.fusion.inputs), list(product.tensor_inputs), set[int]()
    while waiting:
        name = waiting.pop()
        op = sf.producer(name)
        if op is None:
            found.add(inputs.index(sf.tensor(name).part_of or name))
        else:
            waiting += op.tensor_inputs
    return frozenset(found)


def dram_bytes(
    launch: Generated | GeneratedLaunch, made: TensorView, copies: list[PanelCopy], card: Card, resident: int
) -> float:
    """Bytes from and to device memory: operands once for all tiles that run at a time, everything else once."""
    kernel, fusion = launch.kernel, launch.trace.fusion
    names = list(fusion.inputs)
    axes = [(axis.extent, p.is_thread) for axis, p in outer_axes(made) if not p.is_block and axis.extent > 1]
    turns, count = _dealt_turns(kernel, made) or _turns(kernel, axes, card.sm_count * resident)
    own = count if made.dealt else prod(extent for extent, _ in axes)
    read: dict[str, float] = {}
    for c in copies:
        panels = _panels(c.coordinates, c.around[: len(axes)], turns) * count / len(turns)
        name = names[c.position]
        read[name] = read.get(name, 0.0) + panels * c.nbytes * c.times / own
    is_kept = sum(read.values()) / count < KEPT_SHARE * card.l2_bytes
    total = sum(size if is_kept else max(size, read.get(name, 0.0)) for name, size in read_bytes(fusion).items())
    return float(total + sum(written_bytes(fusion).values()))


def _turns(kernel: k.Kernel, axes: list[tuple[int, bool]], at_a_time: int) -> tuple[list[_Values], int]:
    """Blocks and loops of the tiles that run at a time, of the first turns; and how many turns there are. A loop's
    variable goes by its place among them."""
    grid = np.arange(prod(kernel.grid), dtype=np.int64)
    turns = prod(extent for extent, is_thread in axes if not is_thread)
    within = prod(extent for extent, is_thread in axes if is_thread)
    # Blocks that stay are all there at a time.
    windows = [grid] if turns > 1 else [grid[at : at + at_a_time] for at in range(0, len(grid), at_a_time)]

    def each() -> Iterator[_Values]:
        for turn in range(turns):
            for window in windows:
                block, group = np.repeat(window, within), np.tile(np.arange(within), len(window))
                loops: _Values = {}
                rest = {False: np.full(len(block), turn), True: group}
                for place, (extent, is_thread) in reversed(list(enumerate(axes))):
                    loops[str(place)] = rest[is_thread] % extent
                    rest[is_thread] = rest[is_thread] // extent
                yield loops | {
                    "bx": block % kernel.grid[0] // kernel.cluster,
                    "cx": block % kernel.cluster,
                    "by": block // kernel.grid[0] % kernel.grid[1],
                    "bz": block // (kernel.grid[0] * kernel.grid[1]),
                }

    return list(islice(each(), _MOST_TURNS)), turns * len(windows)


def _dealt_turns(kernel: k.Kernel, made: TensorView) -> tuple[list[_Values], int] | None:
    """The same of blocks that have equal shares of steps; None of others. A block goes on with the tiles behind the one
    that it begins with."""
    if (found := dealt_turns(made)) is None:
        return None
    tiles, steps = found
    count, _ = usual_turns(tiles, steps, made.dealt)
    block = np.arange(prod(kernel.grid), dtype=np.int64)
    share = block // kernel.cluster
    first = (made.dealt - 1 - share) * tiles // made.dealt
    zero = np.zeros_like(block)
    return [
        {
            "0": np.minimum(first + turn, tiles - 1),
            "bx": share,
            "cx": block % kernel.cluster,
            "by": zero,
            "bz": zero,
        }
        for turn in range(count)
    ], count


def _panels(coordinates: tuple[Expr, ...], around: tuple[Var, ...], turns: list[_Values]) -> int:
    """Tiles of an operand that are brought in these turns: those that several blocks of a turn read alike, once."""
    found = 0
    for values in turns:
        named = {v.name: values[str(place)] for place, v in enumerate(around)}
        at = np.stack([_at(e, {**values, **named}, values["bx"].shape) for e in coordinates])
        found += len(np.unique(at, axis=1).T)
    return found


def _at(coordinate: Expr, values: _Values, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """A coordinate where all loops inside begin."""
    here = {v.name: values.get(v.name, 0) for v in coordinate.variables}
    return np.broadcast_to(np.asarray(coordinate.evaluate(here), dtype=np.int64), shape)


def _loops_of_copies(body: tuple[k.Stmt, ...], around: tuple[Var, ...]) -> Iterator[tuple[k.Stmt, tuple[Var, ...]]]:
    """Statements that read global memory, each with the loops around it that are not unrolled."""
    for s in body:
        match s:
            case k.TmaLoad() | k.CopyAsync() | k.GlobalLoad():
                yield s, around
            case k.Loop():
                yield from _loops_of_copies(s.body, around if s.unroll else (*around, s.var))
            case k.Elected():
                yield from _loops_of_copies(s.body, around)
            case k.If():
                yield from _loops_of_copies(s.then, around)
                yield from _loops_of_copies(s.orelse, around)
            case _:
                pass
