"""Turns of a product that are dealt to blocks: all steps of all tiles, one after the other, in equal shares.

    tile     |    0    |    1    |    2    |    3    |    4    |
    block    |     3     |     2     |     1     |     0     |

A tile's sum is made where its first step is: by that block, of its own steps and of what the blocks with the others
hand over. These have smaller numbers, and make that part first: they were started before the one that waits, and are
done with it early. So no block waits for one that is not running, whatever runs beside it (stream-K: Osama et al.,
PPoPP 2023; CUTLASS, tile schedulers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from compiler.analysis.loops.loop_nest import BUILTIN, LoopNest
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, inside, var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import TensorView


def dealt_axes(t: TensorView) -> tuple[int, int] | None:
    """Positions of the loops over tiles and along the sum whose turns can be dealt: serial ones, the outermost but for
    a cluster; None where a tensor has no such loops."""
    first = next((i for i, p in enumerate(t.types) if p is not ParallelType.CLUSTER), len(t.types))
    if len(t.loop) < first + 2:
        return None
    tile, step = t.loop[first], t.loop[first + 1]
    are_serial = t.types[first] is t.types[first + 1] is ParallelType.SERIAL
    in_order = step.is_reduction and not tile.is_reduction and not tile.is_broadcast
    return (first, first + 1) if are_serial and in_order and tile.extent > 1 and step.extent > 1 else None


def dealt_turns(t: TensorView) -> tuple[int, int] | None:
    """Tiles, and steps of each, whose turns are dealt; None of a tensor of which none are."""
    axes = dealt_axes(t) if t.dealt else None
    return (t.loop[axes[0]].extent, t.loop[axes[1]].extent) if axes is not None else None


def most_others(tiles: int, steps: int, blocks: int) -> int:
    """Blocks that have parts of one tile's sum beside the one that makes it, at most."""

    def share(position: int) -> int:
        return ((position + 1) * blocks - 1) // (tiles * steps)

    return max(share((tile + 1) * steps - 1) - share(tile * steps) for tile in range(tiles))


def usual_turns(tiles: int, steps: int, blocks: int) -> tuple[int, int]:
    """Tiles of which a block with the most steps has some, if it begins with one, and steps of each of these, so that
    together they are its share."""
    share = -(-tiles * steps // blocks)
    own = -(-share // steps)
    return own, -(-share // own)


@dataclass(frozen=True, slots=True)
class DealtTurns:
    """The shares of `blocks` blocks in the turns of the loops over tiles and along the sum of the product `tensor`.

    `tile`, `step`: the variables of these loops, `loops`: their numbers. A position counts steps through all tiles.
    """

    tensor: str
    blocks: int
    tile: Var
    step: Var
    loops: tuple[int, int]

    @property
    def positions(self) -> int:
        """Steps of all tiles."""
        return self.tile.extent * self.step.extent

    @property
    def block(self) -> Expr:
        """The number of a block, or of its cluster."""
        return var(Var(BUILTIN[ParallelType.BIDX], self.blocks))

    @property
    def others(self) -> int:
        """Blocks that hand over parts of one tile's sum, at most."""
        return most_others(self.tile.extent, self.step.extent, self.blocks)

    @property
    def begin(self) -> Var:
        """The first position of a block."""
        return Var("share_begin", self.positions)

    @property
    def end(self) -> Var:
        """The position behind a block's last one."""
        return Var("share_end", self.positions + 1)

    @property
    def first_tile(self) -> Expr:
        """The tile of a block's first step."""
        return var(self.begin) // self.step.extent

    @property
    def last_tile(self) -> Expr:
        """The tile behind that of a block's last step."""
        return (var(self.end) + (self.step.extent - 1)) // self.step.extent

    @property
    def behind(self) -> Var:
        """How many blocks have parts of the tile in turn behind the one that has its first step."""
        return Var(f"{self.tile.name}_others", self.others + 1)

    @property
    def count_behind(self) -> Expr:
        """The same as a number, in that block."""
        last = (var(self.tile) * self.blocks + (self.blocks - 1)) // self.tile.extent
        return last + self.block - (self.blocks - 1)

    @property
    def tile_begin(self) -> Expr:
        """The position of the first step of the tile that is in turn."""
        return var(self.tile) * self.step.extent

    @property
    def first_step(self) -> Var:
        """The first step of that tile which a block has."""
        return Var(f"{self.step.name}_first", self.step.extent)

    @property
    def last_step(self) -> Var:
        """The step behind the last one of that tile which a block has."""
        return Var(f"{self.step.name}_stop", self.step.extent + 1)

    def own_turns(self, loops: Sequence[tuple[str, int]], turns: Expr) -> Expr:
        """How often a body inside these loops, variables and extents, has run in its block, of how often it would have
        in one that has all turns."""
        names, dealt = tuple(name for name, _ in loops), (self.tile.name, self.step.name)
        for depth, first, count in ((2, var(self.begin), self.positions), (1, self.first_tile, self.tile.extent)):
            if names[:depth] == dealt[:depth]:
                each = prod(extent for _, extent in loops[depth:])
                return inside(turns - first * each, count * each)
        return turns


def infer_deal(sf: ScheduledFusion, nest: LoopNest) -> DealtTurns | None:
    """What is dealt; None where nothing is, or where rules refuse it."""
    for t in sf.tensors:
        axes = dealt_axes(t) if t.dealt > 1 else None
        if axes is not None:
            numbers = tuple(nest.group[t.name][i] for i in axes)
            variables = [v for i in axes for v in nest.variable(t, i).variables]
            tile, step = variables
            assert numbers[0] is not None, "loops of several turns have numbers"
            assert numbers[1] is not None, "loops of several turns have numbers"
            return DealtTurns(t.name, t.dealt, tile, step, (numbers[0], numbers[1]))
    return None
