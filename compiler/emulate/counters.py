"""What a run did, counted: instructions, sectors and requests, shared-memory wavefronts, copies.

Counts are of the program, not of a chip: no caches, no replays. They follow the units of the profiler (CUDA, Nsight
Compute, "Memory Tables"): a request is one instruction of one warp, a sector 32 bytes of global memory, a wavefront one
pass over the 32 banks of shared memory.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.memory.region import MemoryRegion, Offsets
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.threads import WARP, Lanes

SECTOR = 32
"""Bytes that global memory moves together (CUDA C++ Programming Guide, "Device Memory Accesses")."""

BANKS = 32
"""Banks of shared memory, of 4-byte words in turn (CUDA C++ Programming Guide, "Shared Memory")."""

_WORD = 4
_WIDEST = 16
"""Bytes of the widest access to shared memory by one lane."""


@dataclass(slots=True)
class _Traffic:
    """Requests of warps, and the sectors and bytes of them."""

    requests: int = 0
    sectors: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Banks:
    """Requests of warps, and the wavefronts that they took and would take without conflicts."""

    requests: int = 0
    wavefronts: int = 0
    ideal: int = 0

    def as_dict(self) -> dict[str, int]:
        return {
            "requests": self.requests,
            "wavefronts": self.wavefronts,
            "ideal_wavefronts": self.ideal,
            "bank_conflicts": self.wavefronts - self.ideal,
        }


@dataclass(slots=True)
class _Products:
    """Instructions that multiply matrices, their multiplications and additions, and bytes of operands in memory."""

    instructions: int = 0
    operations: int = 0
    shared_bytes: int = 0


class Counters:
    """Counts of a run. `is_on` False counts nothing, for speed."""

    def __init__(self, *, is_on: bool = True) -> None:
        self.is_on = is_on
        self._instructions: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        self._traffic: dict[str, dict[str, _Traffic]] = defaultdict(lambda: defaultdict(_Traffic))
        self._banks: dict[tuple[str, int | None], _Banks] = defaultdict(_Banks)
        self._bulk: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
        self._products: dict[str, dict[str, _Products]] = defaultdict(lambda: defaultdict(_Products))

    def instructions(self, klass: str, warps: int, lanes: int, divergent: int = 0) -> None:
        """Instructions of a class, executed by so many warps and by so many of their lanes.

        `divergent`: of the warps, those in which some live lanes did not take part.
        """
        if self.is_on:
            counts = self._instructions[klass]
            counts[0] += warps
            counts[1] += lanes
            counts[2] += divergent

    def global_access(
        self,
        lanes: Lanes,
        region: MemoryRegion,
        offsets: Offsets,
        nbytes: int,
        is_store: bool,
        *,
        is_atomic: bool = False,
    ) -> None:
        """One instruction of these lanes, each with `nbytes` bytes of a tensor at its offset.

        A request touches each sector once, however many lanes need it.
        """
        if not self.is_on or not len(offsets):
            return
        kind = "atomic" if is_atomic else "store" if is_store else "load"
        warps = lanes // WARP
        first, last = offsets // SECTOR, (offsets + (nbytes - 1)) // SECTOR
        keys = warps << 40 | first
        if (first != last).any():
            more = [np.minimum(first + n, last) for n in range(1, nbytes // SECTOR + 2)]
            keys = np.concatenate([keys, *(warps << 40 | sector for sector in more)])
        counts = self._traffic[region.name][kind]
        counts.requests += _runs(warps)
        counts.sectors += _runs(np.sort(keys))
        counts.bytes += len(offsets) * nbytes

    def shared_access(
        self,
        lanes: Lanes,
        offsets: Offsets,
        nbytes: int,
        is_store: bool,
        insn: PtxInstruction | None = None,
    ) -> None:
        """One instruction of `lanes`, each with `nbytes` bytes of shared memory at its offset; rows of `ldmatrix` and
        `stmatrix` are such accesses of 16 bytes by the lanes that give their addresses.

        Up to 4 bytes a lane, a warp's access takes as many wavefronts as the fullest bank has different words. 8 bytes
        a lane go in two halves of a warp, 16 bytes in four quarters, each by itself; without conflicts every one of
        them takes one wavefront (CUDA C++ Programming Guide, "Shared Memory", and long-standing microbenchmarks).
        """
        if not self.is_on or not len(offsets):
            return
        wavefronts, ideal = wavefronts_of(offsets, nbytes, lanes)
        requests = _runs(lanes // WARP)
        line = insn.source.line if insn is not None and insn.source is not None else None
        counts = self._banks["store" if is_store else "load", line]
        counts.requests += requests
        counts.wavefronts += wavefronts
        counts.ideal += ideal

    def bulk(self, kind: str, tensor: str, boxes: int, nbytes: int) -> None:
        """Bulk copies of a kind (load, store, reduce, prefetch…) that move so many boxes, or runs, of a tensor."""
        if not self.is_on:
            return
        counts = self._bulk[kind][tensor]
        counts[0] += boxes
        counts[1] += nbytes

    def product(self, kind: str, form: str, instructions: int, operations: int, shared_bytes: int) -> None:
        """Instructions of a kind (`mma.sync`, `wgmma`, `tcgen05.mma`) and form (shape and types), each with so many
        multiplications and additions, and bytes that it reads of operands in shared memory."""
        if not self.is_on:
            return
        counts = self._products[kind][form]
        counts.instructions += instructions
        counts.operations += instructions * operations
        counts.shared_bytes += instructions * shared_bytes

    def as_dict(self) -> dict[str, Any]:
        """All counts, integers in nested dictionaries, in a fixed order:

        instructions   warp, thread, divergent: of all; by_class: class -> the same three. `warp` counts an instruction
                       once a warp, `thread` once a lane, `divergent` the warps where some live lanes took no part
        global         tensor -> load, store, atomic -> requests, sectors, bytes (what the lanes asked for, together)
        shared         load, store -> requests, wavefronts, ideal_wavefronts, bank_conflicts (wavefronts beyond the
                       ideal); by_line: CUDA source line -> load, store -> the same, where the line is known
        bulk           kind -> tensor -> boxes, bytes
        products       kind -> form -> instructions, operations (multiplications and additions), shared_bytes (operands
                       read from shared memory)
        """
        names = ("warp", "thread", "divergent")
        by_class = {k: dict(zip(names, n, strict=True)) for k, n in sorted(self._instructions.items())}
        return {
            "instructions": {**{n: sum(c[n] for c in by_class.values()) for n in names}, "by_class": by_class},
            "global": {
                tensor: {
                    kind: {"requests": t.requests, "sectors": t.sectors, "bytes": t.bytes}
                    for kind in ("load", "store", "atomic")
                    for t in (kinds.get(kind, _Traffic()),)
                }
                for tensor, kinds in sorted(self._traffic.items())
            },
            "shared": {
                **self._shared(list(self._banks)),
                "by_line": {
                    str(line): self._shared([k for k in self._banks if k[1] == line])
                    for line in sorted({line for _, line in self._banks if line is not None})
                },
            },
            "bulk": {
                kind: {tensor: {"boxes": n[0], "bytes": n[1]} for tensor, n in sorted(tensors.items())}
                for kind, tensors in sorted(self._bulk.items())
            },
            "products": {
                kind: {
                    form: {
                        "instructions": c.instructions,
                        "operations": c.operations,
                        "shared_bytes": c.shared_bytes,
                    }
                    for form, c in sorted(forms.items())
                }
                for kind, forms in sorted(self._products.items())
            },
        }

    def _shared(self, keys: list[tuple[str, int | None]]) -> dict[str, dict[str, int]]:
        totals = {"load": _Banks(), "store": _Banks()}
        for key in keys:
            total, counts = totals[key[0]], self._banks[key]
            total.requests += counts.requests
            total.wavefronts += counts.wavefronts
            total.ideal += counts.ideal
        return {kind: total.as_dict() for kind, total in totals.items()}


def wavefronts_of(offsets: Offsets, nbytes: int, lanes: Lanes) -> tuple[int, int]:
    """The wavefronts of one instruction of `lanes` (ascending), and those that it would take without bank conflicts."""
    per_pass = WARP * _WORD // min(max(nbytes, _WORD), _WIDEST)
    passes = lanes // per_pass
    passes = passes - passes[0]
    words = offsets >> 2
    if nbytes > _WORD:
        count = nbytes // _WORD
        words = (words[:, None] + np.arange(count)).ravel()
        passes = np.repeat(passes, count)
    lowest = int(words.min())
    keys = np.sort(passes * (int(words.max()) - lowest + 1) + (words - lowest))
    span = int(words.max()) - lowest + 1
    is_first = np.empty(len(keys), np.bool_)
    is_first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    different = keys[is_first]
    where = different // span
    banks = (different - where * span + lowest) % BANKS
    fullest = np.bincount(where * BANKS + banks, minlength=(int(where[-1]) + 1) * BANKS).reshape(-1, BANKS).max(axis=1)
    return int(fullest.sum()), int(np.count_nonzero(fullest))


def _runs(ordered: npt.NDArray[Any]) -> int:
    """How many different values there are in an ordered array."""
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
