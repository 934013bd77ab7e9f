"""Warps that only load: a block with 128 threads more, which fill the stages that the others use.

    if (a thread that computes) { more registers; wait for the stage; compute; the stage is free } else { fewer
    registers; the first thread: wait for the stage to be free; copy; the first of the second warp, where results are
    in tensor memory: wait for the stage; ask for products, whose end frees the stage }

(nvFuser, warp specialisation; PTX ISA, setmaxnreg, mbarrier.) Barriers of the block are those of the threads that
compute. To make a circular buffer so: CircularBuffer(kind=WARP_SPECIALIZED, on=a thread dimension).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from compiler.analysis.facts import Facts
from compiler.analysis.loops.loop_nest import BUILTIN
from compiler.analysis.sync.block_parts import THREAD_DIMENSIONS, BlockParts, block_parts
from compiler.arch import REGISTERS_PER_SM, WARP_THREADS, WARPGROUP_THREADS
from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import TensorView
from compiler.lower.kernel_ir import If, Stmt
from compiler.lower.operands import Less
from compiler.lower.sync_ir import SetRegisters, Sync, SyncPart
from compiler.lower.traversal import with_bodies

_PART = 1
"""Number of the barrier of those that compute; 0 is that of the whole block (PTX ISA, barrier)."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The bodies of the two parts of a block put together. `groups`: of the threads that compute, those that take turns
    and meet among themselves alone; `group`: the number of a thread's own."""

    block: BlockParts
    groups: int = 1
    group: Expr = field(default_factory=Expr)

    def index(self, type_: ParallelType) -> Expr:
        """The index of a thread of either part in a dimension."""
        return var(Var(BUILTIN[type_], self.block.launched[THREAD_DIMENSIONS.index(type_)]))

    def joined(self, compute: tuple[Stmt, ...], load: tuple[Stmt, ...], ask: tuple[Stmt, ...]) -> list[Stmt]:
        """The body of the kernel; `ask`: what the thread does that asks for products in tensor memory, the first of the
        second warp that does not compute. Raises Unsupported for more registers than a block can have."""
        block = self.block
        others = (p for p, n in zip(THREAD_DIMENSIONS, block.extents, strict=True) if p is not block.on and n > 1)
        first = (
            Less(self.index(block.on), const(block.computing + 1)),
            *(Less(self.index(p), const(1)) for p in others),
        )
        compute = _of_part(compute, SyncPart(_PART, block.threads // self.groups, self.group))
        load = (If(first, load), If(self._of_second_warp(), ask)) if ask else (If(first, load),)
        if block.registers is not None:
            mean = self._mean(*block.registers)
            fewer, more = block.registers
            compute = (SetRegisters(more, True, mean), *compute) if more > mean else compute
            load = (SetRegisters(fewer, False, mean), *load) if fewer < mean else load
        return [If((Less(self.index(block.on), const(block.computing)),), compute, load)]

    def _of_second_warp(self) -> tuple[Less, ...]:
        """What holds for the first thread of the second warp of those that do not compute."""
        on, block = self.block.on, self.block
        x, first = ParallelType.TIDX, block.computing + (WARP_THREADS if on is ParallelType.TIDX else 0)
        across = block.launched[0] - (block.computing if on is x else 0)
        if across < 2 * WARP_THREADS:
            raise Unsupported(
                f"{across} threads along x that do not compute, and products in tensor memory,",
                f"Compute with a multiple of {2 * WARP_THREADS} threads along x.",
            )
        place = {p: (first if p is on else WARP_THREADS if p is x else 0) for p in THREAD_DIMENSIONS}
        extents = zip(THREAD_DIMENSIONS, block.launched, strict=True)
        inside = [(p, self.index(p)) for p, n in extents if n > 1]
        lower = [Less(const(place[p] - 1), at) for p, at in inside if place[p] and place[p] != block.computing]
        return (*lower, *(Less(at, const(place[p] + 1)) for p, at in inside))

    def _mean(self, load: int, compute: int) -> int:
        """Registers of every thread at the start: enough for both parts together, since none are added later."""
        computing = self.block.threads
        threads = computing + WARPGROUP_THREADS
        mean = self.block.common_registers
        assert mean is not None, "asked of parts that share registers"
        if mean * threads > REGISTERS_PER_SM:
            raise Unsupported(
                f"{load} registers of {WARPGROUP_THREADS} loading and {compute} of {computing} computing threads, "
                f"{mean * threads} together,",
                f"Share {REGISTERS_PER_SM} at most.",
            )
        return mean


def parts_of(facts: Facts) -> Parts | None:
    """The parts of the block; None where all of its threads do the same."""
    nest = facts.indexing.nest
    found = block_parts(facts.sf, nest)
    if found is None:
        return None
    if len(nest.in_turns) > 1:
        raise Unsupported("groups of threads that take turns in two ways,", "Let one loop tell them apart.")
    own = next((nest.beside[n] for n in nest.in_turns), Expr())
    return Parts(found, max(1, nest.turns), own)


@dataclass(frozen=True, slots=True)
class Readers:
    """Who says that one stage has been read: so many arrivals, of warps or of single threads. `groups` of threads have
    stages of their own, in turns."""

    arrivals: int
    are_warps: bool
    groups: int


def readers(facts: Facts, t: TensorView) -> Readers:
    """Those that use one stage of `t`: all threads that compute, or those of the group that has stages of its own.

    A warp of one group arrives as one: fewer arrivals at one address, which come one after the other.
    """
    nest = facts.indexing.nest
    apart = [nest.beside[n] for n in nest.path(t)[: nest.depth(t)] if n in nest.beside]
    groups = prod(max(v.extent for v in e.variables) for e in apart)
    threads = prod(nest.block()) // groups
    inside = prod(nest.block()) if not apart else nest.block()[0]
    is_whole = all(v.name != BUILTIN[ParallelType.TIDX] for e in apart for v in e.variables)
    if is_whole and inside % WARP_THREADS == 0:
        return Readers(threads // WARP_THREADS, True, groups)
    return Readers(threads, False, groups)


def are_asked_for(facts: Facts, names: Iterable[str]) -> bool:
    """Whether products in tensor memory alone read what loads bring: the thread that asks for them frees the stage."""
    users = [op.output for name in names for op in facts.sf.consumers(name)]
    made = {name for group in facts.accumulators for name in group.tensors}
    return bool(users) and made.issuperset(users)


def meets_in_turns(stages: int, groups: int) -> bool:
    """Whether the groups must meet after each turn: where a stage goes from one group to another.

    A group waits for one parity of a stage's barrier. Where another group had the stage in between, it could come two
    phases ahead of its copy and take the phase before last for its own (PTX ISA, mbarrier.test_wait: the parity tells
    a phase from the one before it alone). Raises Unsupported for fewer stages than groups, whose turn has two phases.
    """
    if groups > stages:
        raise Unsupported(
            f"{stages} stages that {groups} groups of threads take in turns,", "Give each group a stage of its own."
        )
    return stages % groups != 0


def _of_part(body: tuple[Stmt, ...], meeting: SyncPart) -> tuple[Stmt, ...]:
    """Statements whose block barriers are those of one part."""
    return tuple(meeting if isinstance(s, Sync) else with_bodies(s, lambda b: _of_part(b, meeting)) for s in body)
