"""The body of a kernel: statements of each piece of its loops, with the waits and barriers that go between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from compiler.analysis.facts import Facts
from compiler.analysis.memory.allocation import layout_of
from compiler.arch import BARRIER_BYTES
from compiler.copies.instruction import Path, instruction_of
from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import REDUCTIONS
from compiler.ir.tensor import CopyVia, TensorOp
from compiler.lower.effects import NodeEffects, has_loads, ops_of
from compiler.lower.issue import announced
from compiler.lower.kernel_ir import Declare, Elected, Fill, If, Loop, Stmt
from compiler.lower.leaves import Scope, lower_leaf, map_name
from compiler.lower.nest import (
    AsyncLoads,
    FoldPart,
    FoldStep,
    Leaf,
    Nested,
    Node,
    build_nest,
    declaration_depth,
    is_specialized,
)
from compiler.lower.online import declare_running
from compiler.lower.operands import Barrier, Less
from compiler.lower.predicates import trip_count
from compiler.lower.reduce import Exchange, lower_fold
from compiler.lower.register_loops import over_other_bits, register_bits
from compiler.lower.register_stages import in_stages, stage_registers
from compiler.lower.scans import declare_carry
from compiler.lower.sync import Effects, Hazards, Needs
from compiler.lower.sync_ir import (
    Arrive,
    ClusterArrive,
    ClusterWait,
    CommitCopies,
    CommitStores,
    FenceAsync,
    InitBarriers,
    Sync,
    WaitBarrier,
    WaitCopies,
    WaitStores,
)
from compiler.lower.tensor_memory import address, allocated, declared_words, freed, landed, lower_tile_copy, warps
from compiler.lower.thread_predicates import issuers, issuing_threads
from compiler.lower.tmem_ir import TmemFenceAfter, TmemFenceBefore, WaitTmemLoads, WaitTmemStores
from compiler.lower.tmem_sync import TmemNeeds
from compiler.lower.traversal import map_exprs
from compiler.lower.turns import turns_of
from compiler.lower.warp_specialized import meets_in_turns, parts_of, readers


def kernel_body(facts: Facts) -> tuple[Stmt, ...]:
    """All statements of the kernel, before any pass. Raises Unsupported, by name, for what cannot be lowered yet."""
    return _Lowering(facts).kernel()


@dataclass
class _Lowering:
    facts: Facts
    ring: dict[str, tuple[AsyncLoads, int]] = field(default_factory=dict)
    """Shared tensor -> the loads that fill it and the number of their first barrier."""
    barriers: int = 0
    exchanges: dict[str, int] = field(default_factory=dict)
    """Reduction over a cluster -> the number of its first barrier."""
    tiles: dict[str, int] = field(default_factory=dict)
    """Tensor that tiles are copied to in tensor memory -> the number of its barrier."""
    arrivals: list[int] = field(default_factory=list)
    """Threads that ask for the copies of each barrier."""

    @cached_property
    def effects(self) -> NodeEffects:
        return NodeEffects(self.facts)

    def kernel(self) -> tuple[Stmt, ...]:
        nodes = build_nest(self.facts)
        self.number_barriers(nodes)
        body, hazards = self.body(nodes, Scope(), Hazards(starting=self.facts.indexing.nest.cluster > 1))
        if any(self.is_bulk_store(op.output) for op in self.facts.sf.ops):
            body.append(self.wait_stores())
        has_tensor_memory = self.facts.tmem_placement.columns > 0
        if has_tensor_memory:
            body += [*self.wait_tensor_memory(hazards.tmem.at_end()), *freed(self.facts)]
        if (parts := parts_of(self.facts)) is not None:
            body = parts.joined(tuple(body), tuple(self.loads(nodes, Scope())))
        out: list[Stmt] = []
        if self.barriers:
            maps = tuple(map_name(op.output) for op in self.facts.sf.ops if self.is_by_map(op))
            arrivals = self.arrivals if any(n != 1 for n in self.arrivals) else ()
            out.append(InitBarriers(self.facts.smem.barrier_offset, self.barriers, maps, tuple(arrivals)))
        out += allocated(self.facts) if has_tensor_memory else ()
        if self.barriers or (has_tensor_memory and warps(self.facts) > 1):
            out.append(Sync())
        if has_tensor_memory:
            out.append(address(self.facts))
        if self.exchanges or any(op.multicasts for op in self.facts.sf.ops):
            out.append(ClusterArrive())
        out += body
        return tuple(out)

    def is_by_map(self, op: TensorOp) -> bool:
        """Whether a tensor map carries the copy: a tile may have to go as a run."""
        instruction = instruction_of(self.facts, op) if op.via is CopyVia.TMA else None
        return instruction is not None and instruction.path is Path.TMA

    def is_store(self, name: str) -> bool:
        return self.facts.sf.tensor(name).memory is MemoryType.GLOBAL

    def number_barriers(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            match node:
                case AsyncLoads() if node.is_bulk:
                    t = self.facts.sf.tensor(node.tensors[0])
                    for name in node.tensors:
                        self.ring[name] = (node, self.barriers)
                    self.barriers += node.stages * (2 if node.frees else 1)
                    self.arrivals += [issuers(self.facts, t)] * node.stages
                    self.arrivals += [readers(self.facts, t).arrivals] * node.stages if node.frees else []
                case Nested():
                    self.number_barriers(node.body)
                case FoldStep() if node.part is FoldPart.CLUSTER_WRITE:
                    self.exchanges[node.tensor] = self.barriers
                    stages = self.facts.folds[node.tensor].stages
                    self.barriers += stages
                    self.arrivals += [1] * stages
                case Leaf(op=op) if op.via is CopyVia.CP_TMEM:
                    self.tiles[op.output] = self.barriers
                    self.barriers += 1
                    self.arrivals.append(1)
                case Leaf() | FoldStep() | AsyncLoads():
                    pass

    def exchange(self, node: FoldStep, scope: Scope) -> Exchange | None:
        """Where the blocks of a cluster exchange partials in this turn of the loops around, None where a step exchanges
        none. Raises Unsupported."""
        if node.part not in (FoldPart.CLUSTER_WRITE, FoldPart.CLUSTER_READ):
            return None
        if len(scope.serial) > 1:
            raise Unsupported(
                f"{node.tensor}: a fold over a cluster under {len(scope.serial)} serial loops", "Merge them."
            )
        turn, first = scope.count(scope.depth), self.exchanges[node.tensor]
        stages = self.facts.folds[node.tensor].stages
        stage = turn % stages
        barrier = Barrier(stage * BARRIER_BYTES + (self.facts.smem.barrier_offset + BARRIER_BYTES * first))
        return Exchange(stage, barrier, (turn // stages) % 2)

    def body(
        self, nodes: tuple[Node, ...], scope: Scope, hazards: Hazards, used_up: list[AsyncLoads] | None = None
    ) -> tuple[list[Stmt], Hazards]:
        """Statements of one body, with waits and barriers between its pieces, and the hazards left open at its end.

        `used_up`: loads whose stages are free again once the last piece that reads them has.
        """
        out: list[Stmt] = []
        last = [(self.last_reader(nodes, loads), loads) for loads in used_up or ()]
        for number, node in enumerate(nodes):
            effects = self.effects.of(node)
            needs = self.needs(hazards, effects)
            out += self.meet(needs, scope, node)
            hazards = hazards.after(effects, needs)
            out += self.declarations(node, scope)
            out += self.node(node, scope, fence_loads=needs.fence_loads)
            for _, loads in (found for found in last if found[0] == number):
                out += self.free(loads, scope)
        return out, hazards

    def last_reader(self, nodes: tuple[Node, ...], loads: AsyncLoads) -> int:
        """Number of the last piece of a body that reads what the loads bring: itself, where none does."""
        effects = [self.effects.of(node) for node in nodes]
        reading = [i for i, e in enumerate(effects) if (e.reads | e.bulk_stores) & frozenset(loads.tensors)]
        return reading[-1] if reading else len(nodes) - 1

    def left_open(self, nodes: tuple[Node, ...]) -> Hazards:
        """Hazards at the end of an iteration, which the next one starts with."""
        hazards = Hazards()
        for node in nodes:
            effects = self.effects.of(node)
            hazards = hazards.after(effects, self.needs(hazards, effects))
        return hazards

    def needs(self, hazards: Hazards, effects: Effects) -> Needs:
        """What must come first; a wait for one load is a wait for all that share its barrier."""
        needs = hazards.before(effects)
        if not needs.wait_loads:
            return needs
        loads = frozenset(other for name in needs.wait_loads for other in self.ring[name][0].tensors)
        return replace(needs, wait_loads=loads)

    def node(self, node: Node, scope: Scope, *, fence_loads: bool) -> list[Stmt]:
        """Statements of one piece. `fence_loads`: its bulk loads overwrite what threads have read without a fence."""
        match node:
            case Leaf():
                return self.leaf(node, scope)
            case AsyncLoads():
                return self.issue_ahead(node, scope, fence_loads=fence_loads)
            case Nested():
                return self.loop(node, scope, fence_loads=fence_loads)
            case FoldStep():
                return list(lower_fold(self.facts, node, self.exchange(node, scope)))

    def is_bulk_store(self, name: str) -> bool:
        op = self.facts.sf.producer(name)
        return op is not None and op.via.is_bulk and self.is_store(name)

    def leaf(self, node: Leaf, scope: Scope) -> list[Stmt]:
        if node.op.via is CopyVia.CP_TMEM:
            first = self.facts.smem.barrier_offset + BARRIER_BYTES * self.tiles[node.op.output]
            return list(lower_tile_copy(self.facts, node.op, Barrier(const(first)), scope.count(scope.depth)))
        statements = in_stages(self.facts, lower_leaf(self.facts, node.op, scope), scope)
        if scope.elected or not self.is_bulk_store(node.op.output):
            return list(statements)
        return self.by_issuers(node.op.output, (*statements, CommitStores()))

    def by_issuers(self, name: str, statements: tuple[Stmt, ...]) -> list[Stmt]:
        """What the threads do that ask for tiles of the bulk copy that writes tensor `name`."""
        conditions = issuing_threads(self.facts, self.facts.sf.tensor(name))
        if conditions is None:
            return [Elected(statements)]
        return [If(conditions, statements)] if conditions else list(statements)

    def wait_stores(self) -> Stmt:
        """Every thread waits for the bulk stores that it asked for."""
        stores = (self.facts.sf.tensor(op.output) for op in self.facts.sf.ops if self.is_bulk_store(op.output))
        alone = all(issuing_threads(self.facts, t) is None for t in stores)
        return Elected((WaitStores(),)) if alone else WaitStores()

    def has_one_issuer(self, name: str) -> bool:
        """True for a bulk store that the first thread of the block asks for."""
        return self.is_bulk_store(name) and issuing_threads(self.facts, self.facts.sf.tensor(name)) is None

    def loop(self, node: Nested, scope: Scope, *, fence_loads: bool) -> list[Stmt]:
        variable = Var(f"k{node.group}", node.extent)
        trip, implied = self.trip(node, variable, scope)
        inner = scope.enter(variable, trip, node.unroll, implied)
        prologue: list[Stmt] = []
        for child in node.body:
            if isinstance(child, AsyncLoads):
                prologue += stage_registers(self.facts, child)
                for ahead in range(child.prefetch):
                    prologue += self.issue_at(child, inner, const(ahead), conditional=True, fence_loads=fence_loads)
        if not scope.elected and all(self.has_one_issuer(name) for name in ops_of(node)):
            statements, _ = self.body(node.body, inner.elect(), Hazards())
            return [Elected((Loop(variable, trip, node.unroll, tuple(statements)), CommitStores()))]
        hazards = self.left_open(node.body)
        if fence_loads:
            hazards = replace(hazards, looked_at=hazards.looked_at | self.effects.of(node).bulk_loads)
        statements, _ = self.body(node.body, inner, hazards, self.used_up(node))
        if not statements:
            return prologue
        loop = Loop(variable, trip, node.unroll, tuple(statements))
        bits = register_bits(self.facts, node)
        return [*prologue, *(over_other_bits(loop, bits) if bits else (loop,))]

    def trip(self, node: Nested, variable: Var, scope: Scope) -> tuple[Expr, frozenset[object]]:
        """Trip count of a serial loop, shortened by a bound that every store inside has, uniform in the block."""
        stores = [op for op in ops_of(node) if self.is_store(op)]
        walks = any(name in self.facts.scans for name in ops_of(node))  # each turn but the last meets in another stage
        if node.unroll or walks or not stores or (scope.loops and has_loads(node)):
            return const(node.extent), scope.implied
        common = set.intersection(*(set(self.facts.indexing.bounds(self.facts.sf.tensor(s))) for s in stores))
        for bound in sorted(common - scope.implied, key=str):
            count = trip_count(bound, variable, frozenset(v for v, _ in scope.loops))
            if count is not None:
                return count, scope.implied | {bound}
        return const(node.extent), scope.implied

    def issue_ahead(self, node: AsyncLoads, scope: Scope, *, fence_loads: bool) -> list[Stmt]:
        """The issue of the loads of the iteration `prefetch` ahead."""
        if self.is_specialized(node):
            return []
        if node.prefetch == 0:
            return self.issue_at(node, scope, None, conditional=False, fence_loads=fence_loads)
        if not scope.loops:
            raise Unsupported("prefetching for a loop of one round", "Load without stages, or into one.")
        step = var(scope.loops[-1][0]) + node.prefetch
        return self.issue_at(node, scope, step, conditional=True, fence_loads=fence_loads)

    def issue_at(
        self, node: AsyncLoads, scope: Scope, step: Expr | None, *, conditional: bool, fence_loads: bool
    ) -> list[Stmt]:
        """The issuing threads announce the bytes of iteration `step` (None: the current one) and issue their copies.

        `fence_loads`: first they fence what all threads have read before the barrier that lies between.
        """
        if self.is_specialized(node):
            return []
        here = scope.count(scope.depth)
        turn = scope.loops[-1][0] if step is not None and scope.loops else None
        use = here.substitute({turn: step}) if turn is not None and step is not None else here
        is_first = use.hi < node.stages
        statements = self.filled(node, scope, here, is_first=is_first)
        if fence_loads and node.is_bulk and not is_first:
            statements = (FenceAsync(), *statements)
        if turn is not None and step is not None:
            statements = map_exprs(statements, lambda e: e.substitute({turn: step}))
        issue = self.by_issuers(node.tensors[0], statements) if node.is_bulk else list(statements)
        if conditional and step is not None:
            # Every turn has a group of copies, though it be empty: what is waited for is all but the last groups.
            group = [CommitCopies()] if node.by_copies else []
            return [If((Less(step, scope.trip),), tuple(issue)), *group]
        return issue

    def used_up(self, node: Nested) -> list[AsyncLoads]:
        """Loads whose stages are free again at the end of a turn. Loops that others have on threads take no turn."""
        beside = self.facts.indexing.nest.beside
        found: list[AsyncLoads] = []
        for child in node.body if node.group not in beside else ():
            if isinstance(child, AsyncLoads) and child.frees:
                found.append(child)
            elif isinstance(child, Nested) and child.group in beside:
                found += [c for c in child.body if isinstance(c, AsyncLoads) and c.frees]
        return found

    def is_specialized(self, node: AsyncLoads) -> bool:
        """Whether warps of their own issue the loads."""
        return is_specialized(self.facts.sf.tensor(node.tensors[0]))

    def filled(self, node: AsyncLoads, scope: Scope, turn: Expr, *, is_first: bool = False) -> tuple[Stmt, ...]:
        """One stage filled, for the use number `turn`: by bulk copies once it is free, or by the threads. `is_first`:
        nothing has been in it."""
        barrier = self.barrier(node, turn) if node.is_bulk else None
        staged = scope.with_stage(dict.fromkeys(node.tensors, turn % node.stages), barrier)
        copies, _ = self.body(node.body, staged, Hazards())
        if barrier is None:
            return tuple(copies)
        # A fresh barrier lets the first turn of every stage through (PTX ISA, mbarrier phases).
        waits = (WaitBarrier(self.barrier(node, turn, freed=True), (turn // node.stages + 1) % 2),)
        return (*(waits if node.frees and not is_first else ()), *announced(barrier, tuple(copies)))

    def free(self, node: AsyncLoads, scope: Scope) -> list[Stmt]:
        """Every thread that has read a stage says so, or every warp; bulk stores from it have read it first."""
        t = self.facts.sf.tensor(node.tensors[0])
        stored = any(op.via.is_bulk for name in node.tensors for op in self.facts.sf.consumers(name))
        freed = self.barrier(node, turns_of(self.facts, t, scope.loops), freed=True)
        who = readers(self.facts, t)
        arrival = Arrive(freed, of_warp=who.are_warps)
        meeting = [Sync()] if meets_in_turns(node.stages, who.groups) else []
        return [*([self.wait_stores()] if stored else []), arrival, *meeting]

    def loads(self, nodes: tuple[Node, ...], scope: Scope) -> list[Stmt]:
        """What warps of their own load, in the loops in which the others use it."""
        out: list[Stmt] = []
        for node in nodes:
            match node:
                case Nested() if has_loads(node):
                    variable = Var(f"k{node.group}", node.extent)
                    trip, implied = self.trip(node, variable, scope)
                    inside = self.loads(node.body, scope.enter(variable, trip, node.unroll, implied))
                    out += [Loop(variable, trip, node.unroll, tuple(inside))] if inside else []
                case AsyncLoads() if self.is_specialized(node):
                    out += self.filled(node, scope, scope.count(scope.depth))
                case _:
                    pass
        return out

    def barrier(self, node: AsyncLoads, step: Expr, *, freed: bool = False) -> Barrier:
        first = self.ring[node.tensors[0]][1] + (node.stages if freed else 0)
        return Barrier((step % node.stages) * 8 + (self.facts.smem.barrier_offset + 8 * first))

    def meet(self, needs: Needs, scope: Scope, node: Node) -> list[Stmt]:
        """What must come before `node`."""
        out: list[Stmt] = []
        if needs.wait_stores:
            out.append(self.wait_stores())
        if needs.wait_copies:
            out.append(WaitCopies(0))
        elif needs.wait_stage:
            assert isinstance(node, AsyncLoads), "a node turns its own stages"
            out.append(WaitCopies(node.prefetch - 1))
        if needs.fence:
            out.append(FenceAsync())
        if needs.blocks:
            out.append(ClusterWait())
        out += self.wait_tensor_memory(needs.tmem)
        if needs.tmem.fence_before:
            out.append(TmemFenceBefore())
        if needs.sync:
            out.append(Sync())
        if needs.tmem.fence_after:
            out.append(TmemFenceAfter())
        waited: set[int] = set()
        for name in sorted(needs.wait_loads):
            node, first = self.ring[name]
            if first in waited:
                continue
            waited.add(first)
            here = turns_of(self.facts, self.facts.sf.tensor(name), scope.loops)
            out.append(WaitBarrier(self.barrier(node, here), (here // node.stages) % 2))
        return out

    def wait_tensor_memory(self, needs: TmemNeeds) -> list[Stmt]:
        """Waits of this warp for its own stores and loads; what uses the registers that were loaded stays behind."""
        out: list[Stmt] = [WaitTmemStores()] if needs.wait_stores else []
        if needs.wait_loads:
            arrived = (self.facts.sf.tensor(name) for name in sorted(needs.landed))
            out += [WaitTmemLoads(), *(s for t in arrived for s in landed(t))]
        return out

    def declarations(self, node: Node, scope: Scope) -> list[Stmt]:
        """Register arrays whose values are made in `node` and live in this body."""
        out: list[Stmt] = []
        for name in ops_of(node):
            t = self.facts.sf.tensor(name)
            scan = self.facts.scans.get(name)
            if scan is not None and scan.carry_depth == scope.depth:
                out += declare_carry(scan)
            if t.memory is MemoryType.LOCAL and t.circular is None and declaration_depth(self.facts, t) == scope.depth:
                out += [Declare(name, t.dtype, layout_of(t).elems), *declared_words(self.facts, t)]
                op = self.facts.sf.producer(name)
                if op is not None and op.kind in REDUCTIONS:
                    out.append(Fill(name, t.dtype, layout_of(t).elems, op.kind))
                online = self.facts.online.get(name)
                if online is not None and online.maximum == name:
                    out += declare_running(self.facts.sf.tensor(online.running))
        return out
