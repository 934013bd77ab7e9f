"""Warps that only load: a block with 128 threads more, which fill the stages that the others use.

    if (a thread that computes) { more registers; wait for the stage; compute; the stage is free } else { fewer
    registers; the first thread: wait for the stage to be free; copy }

(nvFuser, warp specialisation; PTX ISA, setmaxnreg, mbarrier.) Barriers of the block are those of the threads that
compute. To make a circular buffer so: CircularBuffer(kind=WARP_SPECIALIZED, on=a thread dimension).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from compiler.analysis.circular_buffer import LOADING_THREADS, specialized_dimension
from compiler.analysis.facts import Facts
from compiler.analysis.loop_nest import BUILTIN
from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import TensorView
from compiler.lower.kernel_ir import Elected, If, Less, Loop, SetRegisters, Stmt, Sync, SyncPart

_THREADS = (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ)
_PART = 1
"""Number of the barrier of those that compute; 0 is that of the whole block (PTX ISA, barrier)."""
_REGISTERS_PER_BLOCK = 65536
"""Of every target (CUDA guide, technical specifications per compute capability)."""
_UNIT = 8
"""Registers of a thread are given out so many at once (PTX ISA, setmaxnreg)."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The two parts of a block: threads below index `computing` of dimension `on` compute. `threads` are all of those,
    `registers` what each thread of the part that loads, and that computes, is to have."""

    on: ParallelType
    computing: int
    extents: tuple[int, int, int]
    registers: tuple[int, int] | None

    @property
    def threads(self) -> int:
        return prod(self.extents)

    @property
    def launched(self) -> tuple[int, int, int]:
        """The block with the threads that load."""
        added = LOADING_THREADS // (self.threads // self.computing)
        x, y, z = (n + (added if p is self.on else 0) for p, n in zip(_THREADS, self.extents, strict=True))
        return x, y, z

    def index(self, type_: ParallelType) -> Expr:
        return var(Var(BUILTIN[type_], self.launched[_THREADS.index(type_)]))

    def joined(self, compute: tuple[Stmt, ...], load: tuple[Stmt, ...]) -> list[Stmt]:
        """The body of the kernel."""
        others = (p for p in _THREADS if p is not self.on and self.extents[_THREADS.index(p)] > 1)
        first = (Less(self.index(self.on), const(self.computing + 1)), *(Less(self.index(p), const(1)) for p in others))
        compute = _of_part(compute, self.threads)
        load = (If(first, load),)
        if self.registers is not None:
            mean = self._mean()
            fewer, more = self.registers
            compute = (SetRegisters(more, True, mean), *compute) if more > mean else compute
            load = (SetRegisters(fewer, False, mean), *load) if fewer < mean else load
        return [If((Less(self.index(self.on), const(self.computing)),), compute, load)]

    def _mean(self) -> int:
        """Registers of every thread at the start: enough for both parts together, since none are added later."""
        assert self.registers is not None, "asked for where registers are shared"
        load, compute = self.registers
        threads = self.threads + LOADING_THREADS
        mean = -(-(load * LOADING_THREADS + compute * self.threads) // threads // _UNIT) * _UNIT
        if mean * threads > _REGISTERS_PER_BLOCK:
            raise Unsupported(
                f"{load} registers of {LOADING_THREADS} loading and {compute} of {self.threads} computing threads, "
                f"{mean * threads} together,",
                f"Share {_REGISTERS_PER_BLOCK} at most.",
            )
        return mean


def parts_of(facts: Facts) -> Parts | None:
    """The parts of the block; None where all of its threads do the same."""
    on = specialized_dimension(facts.sf)
    if on is None:
        return None
    block = facts.indexing.nest.block()
    asked = (t.circular for t in facts.sf.tensors if t.circular is not None and t.circular.on is not None)
    shared = next((o.registers for o in asked if o.registers is not None), None)
    return Parts(on, block[_THREADS.index(on)], block, shared)


def launched_block(facts: Facts) -> tuple[int, int, int]:
    """Threads of the block in each dimension."""
    parts = parts_of(facts)
    return facts.indexing.nest.block() if parts is None else parts.launched


def readers(facts: Facts, t: TensorView) -> int:
    """Threads that use one stage of `t`: all that compute, or those of the group that has stages of its own."""
    nest = facts.indexing.nest
    groups = prod(
        max(v.extent for v in nest.beside[n].variables) for n in nest.path(t)[: nest.depth(t)] if n in nest.beside
    )
    return prod(nest.block()) // groups


def _of_part(body: tuple[Stmt, ...], threads: int) -> tuple[Stmt, ...]:
    """Statements whose block barriers are those of one part."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case Sync():
                out.append(SyncPart(_PART, threads))
            case Loop() | Elected():
                out.append(replace(s, body=_of_part(s.body, threads)))
            case If():
                out.append(replace(s, then=_of_part(s.then, threads), orelse=_of_part(s.orelse, threads)))
            case _:
                out.append(s)
    return tuple(out)
