"""Votes, matches, reductions and elections in a warp, and its barrier (PTX ISA, "vote.sync" and the like)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import integer_type, spread
from compiler.emulate.features.warp.engine import Gathering, WarpBarriers, WarpEngine
from compiler.emulate.features.warp.member_mask import MaskedCollective
from compiler.emulate.numeric import ordered
from compiler.emulate.ptx.module import Pair, PtxInstruction, Sink
from compiler.emulate.registry import Collective, Run, instruction
from compiler.emulate.threads import WARP

Array = npt.NDArray[Any]


@instruction("activemask")
def build_activemask(insn: PtxInstruction, binder: Binder) -> Run:
    """`activemask`: the lanes that execute this together."""
    write = binder.writer(insn.operands[0], np.uint32, insn)

    def run(active: Active) -> None:
        write(active, active.machine.engine(WarpEngine).words(active.lanes)[active.lanes // WARP])

    return run


@instruction("vote.sync")
def build_vote(insn: PtxInstruction, binder: Binder) -> Collective:
    """`vote.sync.all`, `.any`, `.uni`, `.ballot`."""
    if insn.name[2] not in ("all", "any", "uni", "ballot"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    return Vote(insn, binder)


class Vote(MaskedCollective):
    """A vote over the predicates of the lanes."""

    def __init__(self, insn: PtxInstruction, binder: Binder) -> None:
        destination, predicate, mask = insn.operands
        super().__init__(insn, binder, mask)
        self._mode = insn.name[2]
        self._predicate = binder.reader(predicate, np.bool_, insn)
        self._write = binder.writer(destination, np.uint32 if self._mode == "ballot" else np.bool_, insn)

    def execute(self, active: Active, gathering: Gathering) -> None:
        """Collects a bit a lane."""
        votes = spread(self._predicate(active), active)
        ballot = gathering.reduce(np.bitwise_or, np.where(votes, gathering.bits, np.uint32(0)))
        match self._mode:
            case "ballot":
                self._write(active, ballot)
            case "any":
                self._write(active, ballot != 0)
            case "all":
                self._write(active, ballot == gathering.words)
            case _:
                self._write(active, (ballot == 0) | (ballot == gathering.words))


@instruction("match.any.sync", "match.all.sync")
def build_match(insn: PtxInstruction, binder: Binder) -> Collective:
    """`match.any.sync` and `match.all.sync`."""
    return MatchAny(insn, binder)


class MatchAny(MaskedCollective):
    """Which lanes hold the same value."""

    def __init__(self, insn: PtxInstruction, binder: Binder) -> None:
        destination, value, mask = insn.operands
        super().__init__(insn, binder, mask)
        self._is_all = insn.name[1] == "all"
        result, flag = (
            (destination.first, destination.second) if isinstance(destination, Pair) else (destination, Sink())
        )
        self._value = binder.reader(value, integer_type(insn.name[-1]), insn)
        self._write = binder.writer(result, np.uint32, insn)
        self._flag = binder.writer(flag, np.bool_, insn)

    def execute(self, active: Active, gathering: Gathering) -> None:
        """`any`: the lanes with the own value; `all`: all lanes, if they agree, else none."""
        values = spread(self._value(active), active)
        if self._is_all:
            agree = gathering.reduce(np.minimum, values) == gathering.reduce(np.maximum, values)
            self._write(active, np.where(agree, gathering.words, np.uint32(0)))
            self._flag(active, agree)
            return
        number = np.unique(values, return_inverse=True)[1].astype(np.int64)
        keys = gathering.groups.astype(np.int64) * (int(number.max()) + 1) + number
        order = np.argsort(keys, kind="stable")
        is_first = np.r_[True, keys[order][1:] != keys[order][:-1]]
        words = np.bitwise_or.reduceat(gathering.bits[order], np.flatnonzero(is_first))
        result = np.empty(len(active), np.uint32)
        result[order] = words[np.cumsum(is_first) - 1]
        self._write(active, result)


_REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@instruction("redux.sync")
def build_redux(insn: PtxInstruction, binder: Binder) -> Collective:
    """`redux.sync` of integers and bits, and of f32 with `.abs` and `.NaN`."""
    operation, kind = insn.name[2], insn.name[-1]
    if operation not in _REDUCTIONS or kind not in ("u32", "s32", "b32", "f32"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    if (kind == "f32" and operation not in ("min", "max")) or (kind != "f32" and insn.has("abs", "NaN")):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    return Redux(insn, binder)


class Redux(MaskedCollective):
    """A reduction over the lanes."""

    def __init__(self, insn: PtxInstruction, binder: Binder) -> None:
        destination, value, mask = insn.operands
        super().__init__(insn, binder, mask)
        self._is_float = insn.name[-1] == "f32"
        dtype = np.dtype(np.uint32) if self._is_float else integer_type(insn.name[-1])
        self._value = binder.reader(value, dtype, insn)
        self._write = binder.writer(destination, dtype, insn)
        self._function = _REDUCTIONS[insn.name[2]]
        self._nan_is_least = insn.has("NaN") == (insn.name[2] == "min")
        self._absolute = insn.has("abs")

    def execute(self, active: Active, gathering: Gathering) -> None:
        """Sums wrap; floats are compared as integers that lie in their order."""
        values = spread(self._value(active), active)
        if not self._is_float:
            self._write(active, gathering.reduce(self._function, values))
            return
        if self._absolute:
            values = values & np.uint32(0x7FFFFFFF)
        keys = gathering.reduce(self._function, ordered.keys(values, self._nan_is_least))
        self._write(active, ordered.floats(keys))


@instruction("elect.sync")
def build_elect(insn: PtxInstruction, binder: Binder) -> Collective:
    """`elect.sync`."""
    return Elect(insn, binder)


class Elect(MaskedCollective):
    """One lane is chosen: the lowest of those that take part, which is deterministic, as the PTX ISA asks."""

    def __init__(self, insn: PtxInstruction, binder: Binder) -> None:
        destination, mask = insn.operands
        super().__init__(insn, binder, mask)
        if not isinstance(destination, Pair):
            raise UnknownForm(f"{insn.text} without a predicate")
        self._wants_lane = not isinstance(destination.first, Sink)
        self._write = binder.writer(destination.first, np.uint32, insn)
        self._flag = binder.writer(destination.second, np.bool_, insn)

    def execute(self, active: Active, gathering: Gathering) -> None:
        """The lane number of the leader for all, the predicate for the leader alone."""
        lane = (active.lanes % WARP).astype(np.uint32)
        leader = gathering.reduce(np.minimum, lane)
        if self._wants_lane:
            self._write(active, leader)
        self._flag(active, lane == leader)


@instruction("bar.warp.sync")
def build_warp_barrier(insn: PtxInstruction, binder: Binder) -> Collective:
    """`bar.warp.sync`."""
    return WarpBarrier(insn, binder, insn.operands[0])


class WarpBarrier(MaskedCollective):
    """The barrier of a warp: lanes may wait at different ones, as long as their masks agree. It orders memory."""

    def arrive(self, active: Active) -> None:
        """The engine sees lanes at other places too."""
        active.machine.engine(WarpBarriers).arrive(active, self.mask(active))

    def ready(self, active: Active) -> npt.NDArray[np.bool_]:
        """Those whose barrier is complete."""
        free = active.machine.engine(WarpBarriers).released(active.lanes, self.insn)
        active.machine.engine(WarpEngine).note(self.insn, active.lanes, free)
        return free

    def finish(self, active: Active) -> None:
        """They go on; who came was checked when the barrier completed."""
        active.machine.engine(WarpBarriers).leave(active.lanes)

    def absent(self, active: Active) -> npt.NDArray[Any]:
        """Those who do not wait with the same mask at any barrier of the warp."""
        return active.machine.engine(WarpBarriers).absent(active.lanes)

    def execute(self, active: Active, gathering: Gathering) -> None:
        """Nothing is computed."""
