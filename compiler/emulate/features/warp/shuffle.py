"""`shfl.sync`: lanes of a warp read one another's registers (PTX ISA, "shfl.sync")."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Array, Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import common, spread
from compiler.emulate.features.warp.engine import Gathering, WarpEngine
from compiler.emulate.features.warp.member_mask import MaskedCollective
from compiler.emulate.ptx.module import Pair, PtxInstruction, Sink
from compiler.emulate.registry import Collective, instruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP

_FIVE_BITS = np.uint32(31)


def source_lanes(mode: str, lane: Array, b: Array, c: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The lane that each lane reads, and whether it lies in the segment; lanes whose source does not read themselves.

    `c` holds the clamp in bits 4:0 and the segment mask in bits 12:8.
    """
    step, clamp, segment = b & _FIVE_BITS, c & _FIVE_BITS, (c >> np.uint32(8)) & _FIVE_BITS
    lowest = lane & segment
    limit = lowest | (clamp & ~segment)
    match mode:
        case "up":
            # One to the left of lane 0 is below every limit: signed.
            source = lane.astype(np.int64) - step.astype(np.int64)
            inside = source >= limit.astype(np.int64)
        case "down":
            source = lane + step
            inside = source <= limit
        case "bfly":
            source = lane ^ step
            inside = source <= limit
        case _:
            source = lowest | (step & ~segment)
            inside = source <= limit
    return np.where(inside, source, lane).astype(np.intp), np.asarray(inside)


@lru_cache(maxsize=256)
def _table(mode: str, b: int, c: int) -> tuple[Array, npt.NDArray[np.bool_]]:
    """`source_lanes` for the lanes of one warp."""
    source, inside = source_lanes(
        mode, np.arange(WARP, dtype=np.uint32), np.asarray(np.uint32(b)), np.asarray(np.uint32(c))
    )
    return source, np.broadcast_to(inside, WARP)


@instruction("shfl.sync")
def build_shfl(insn: PtxInstruction, binder: Binder) -> Collective:
    """`shfl.sync.up`, `.down`, `.bfly`, `.idx`."""
    if insn.name[-1] != "b32" or insn.name[2] not in ("up", "down", "bfly", "idx"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    return ShuffleInstruction(insn, binder)


class ShuffleInstruction(MaskedCollective):
    """A shuffle of 32-bit values."""

    def __init__(self, insn: PtxInstruction, binder: Binder) -> None:
        destination, value, b, c, mask = insn.operands
        super().__init__(insn, binder, mask)
        self._mode = insn.name[2]
        result, flag = (
            (destination.first, destination.second) if isinstance(destination, Pair) else (destination, Sink())
        )
        self._write = binder.writer(result, np.uint32, insn)
        self._flag = binder.writer(flag, np.bool_, insn)
        self._wants_flag = not isinstance(flag, Sink)
        self._value, self._b, self._c = (binder.reader(o, np.uint32, insn) for o in (value, b, c))

    def execute(self, active: Active, gathering: Gathering) -> None:
        """Reads the sources; one that does not take part gives an undefined value, which is a fault."""
        values, b, c = self._value(active), self._b(active), self._c(active)
        step, segment = common(b), common(c)
        if step is not None and segment is not None:
            source, inside = _table(self._mode, step, segment)
            if gathering.is_whole:
                self._write(active, values if not values.ndim else values.reshape(-1, WARP)[:, source].reshape(-1))
                if self._wants_flag:
                    self._flag(active, np.tile(inside, len(active) // WARP))
                return
            lane = active.lanes % WARP
            source, inside = source[lane], inside[lane]
        else:
            lane = (active.lanes % WARP).astype(np.uint32)
            source, inside = source_lanes(self._mode, lane, spread(b, active), spread(c, active))
        if not gathering.is_whole:
            self._check_sources(active, gathering, source)
        whole = np.zeros(active.machine.threads.lanes, np.uint32)
        whole[active.lanes] = values
        self._write(active, whole[active.lanes - active.lanes % WARP + source])
        if self._wants_flag:
            self._flag(active, np.broadcast_to(inside, len(active)))

    def _check_sources(self, active: Active, gathering: Gathering, source: npt.NDArray[Any]) -> None:
        here = active.machine.engine(WarpEngine).words(active.lanes)[active.lanes // WARP]
        bits = np.left_shift(np.uint32(1), source.astype(np.uint32))
        bad = (bits & here & gathering.masks) == 0
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            active.fault(
                FaultKind.DIVERGENT_COLLECTIVE,
                self.insn,
                f"Lane {int(active.lanes[first]) % WARP} reads lane {int(source[first])}, which does not take part in "
                "the shuffle: the value is undefined. Let that lane come too, name it in the mask, or narrow the "
                "segment (the width) so that no lane reads beyond those that take part.",
                bad,
            )
