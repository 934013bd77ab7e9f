"""The body of a kernel: statements of each piece of its loops, with the waits and barriers that go between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from compiler.analysis.facts import Facts
from compiler.analysis.memory.allocation import layout_of
from compiler.copies.instruction import Path, instruction_of
from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import REDUCTIONS
from compiler.ir.tensor import CopyVia, TensorOp
from compiler.lower.deal import begun, share, stop_of
from compiler.lower.effects import NodeEffects, has_loads, ops_of
from compiler.lower.group_sync import apart_by_groups, meeting
from compiler.lower.handed_on import HANDING_ON, handed_on
from compiler.lower.issue import announced
from compiler.lower.kernel_ir import Declare, Elected, Fill, If, Loop, Stmt
from compiler.lower.leaves import Scope, lower_leaf, map_name
from compiler.lower.mbarriers import Mbarriers
from compiler.lower.mma import drained, freed_late, grouped, in_flight, is_asynchronous, is_group, taken_up
from compiler.lower.nest import (
    AsyncLoads,
    FoldStep,
    Leaf,
    Nested,
    Node,
    TensorProducts,
    build_nest,
    declaration_depth,
    is_specialized,
)
from compiler.lower.online import declare_running
from compiler.lower.operands import Less
from compiler.lower.predicates import trip_count
from compiler.lower.reduce import lower_fold
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
    Sync,
    WaitBarrier,
    WaitCopies,
    WaitStores,
)
from compiler.lower.tensor_memory import address, allocated, by_tensor_cores, declared_words, freed, waits, warps
from compiler.lower.tensor_products import asked_for, has_been_read, last_load, there
from compiler.lower.thread_predicates import issuing_threads
from compiler.lower.tmem_ir import TmemCommit, TmemFenceAfter, TmemFenceBefore
from compiler.lower.tmem_sync import NO_EFFECTS, TmemHazards
from compiler.lower.traversal import map_exprs
from compiler.lower.turns import turns_of
from compiler.lower.warp_specialized import are_asked_for, meets_in_turns, parts_of, readers

OwnWork = Callable[[Node, Scope], list[Stmt] | None]


def kernel_body(facts: Facts) -> tuple[Stmt, ...]:
    """All statements of the kernel, before any pass. Raises Unsupported, by name, for what cannot be lowered yet."""
    return _Lowering(facts).kernel()


@dataclass
class _Lowering:
    facts: Facts

    @cached_property
    def barriers(self) -> Mbarriers:
        return Mbarriers(self.facts)

    @cached_property
    def apart(self) -> frozenset[str]:
        return apart_by_groups(self.facts)

    @cached_property
    def effects(self) -> NodeEffects:
        return NodeEffects(self.facts)

    def kernel(self) -> tuple[Stmt, ...]:
        nodes, outside = build_nest(self.facts), Scope(deal=self.facts.deal)
        self.barriers.number(nodes)
        body, hazards = self.body(nodes, outside, Hazards(starting=self.facts.indexing.nest.cluster > 1))
        if any(self.is_bulk_store(op.output) for op in self.facts.sf.ops):
            body.append(self.wait_stores())
        has_tensor_memory = self.facts.tmem_placement.columns > 0
        if has_tensor_memory:
            body += waits(self.facts, hazards.tmem.at_end())
            body += freed(self.facts, tuple(body))
        if (parts := parts_of(self.facts)) is not None:
            load, ask = (tuple(self.by_others(nodes, outside, own)) for own in (self.loaded, self.asked))
            body = parts.joined(tuple(body), load, ask)
        if self.barriers.tells_blocks:  # which write to its memory, and arrive at its barriers, until they are done
            body = [ClusterWait(), *body, ClusterArrive(releases=True), ClusterWait()]
        out: list[Stmt] = [*share(self.facts)]
        if self.barriers.count:
            maps = tuple(map_name(op.output) for op in self.facts.sf.ops if self.is_by_map(op))
            out.append(self.barriers.init(maps))
        out += allocated(self.facts) if has_tensor_memory else ()
        if self.barriers.count or (has_tensor_memory and warps(self.facts) > 1):
            out.append(Sync())
        if has_tensor_memory:
            out.append(address(self.facts))
        if self.barriers.sends_to_blocks or any(op.multicasts for op in self.facts.sf.ops):
            out.append(ClusterArrive())
        out += body
        return tuple(out)

    def is_by_map(self, op: TensorOp) -> bool:
        """Whether a tensor map carries the copy: a tile may have to go as a run."""
        instruction = instruction_of(self.facts, op) if op.via is CopyVia.TMA else None
        return instruction is not None and instruction.path is Path.TMA

    def is_store(self, name: str) -> bool:
        return self.facts.sf.tensor(name).memory is MemoryType.GLOBAL

    def body(
        self, nodes: tuple[Node, ...], scope: Scope, hazards: Hazards, used_up: list[AsyncLoads] | None = None
    ) -> tuple[list[Stmt], Hazards]:
        """Statements of one body, with waits and barriers between its pieces, and the hazards left open at its end.

        `used_up`: loads whose stages are free again once the last piece that reads them has.
        """
        out: list[Stmt] = []
        last = [(self.last_reader(nodes, loads), loads) for loads in used_up or ()]
        handed: tuple[FoldStep, int] | None = None
        for number, node in enumerate(nodes):
            effects = self.effects.of(node)
            inside = self.met_inside(node, scope, hazards)
            before = Hazards(tmem=hazards.tmem) if inside is not None else hazards
            needs = self.needs(before, effects)
            out += self.meet(needs, scope, node)
            hazards = before.after(effects, needs)
            if isinstance(node, FoldStep) and node.part in HANDING_ON:
                handed = node, len(out)
                continue
            if isinstance(node, Nested) and inside is not None:
                hazards = hazards | self.left_open(node.body, inside)
            out += self.declarations(node, scope)
            out += self.piece(node, scope, inside or Hazards(), fence_loads=needs.fence_loads)
            for _, loads in (found for found in last if found[0] == number):
                late = self.in_flight(ops_of(node), scope)
                out += (
                    self.free(loads, scope)
                    if not late
                    else [freed_late(self.facts, self.free(loads, scope), scope.loops[-1][0], late)]
                )
            for products in nodes:
                if isinstance(products, TensorProducts) and number == last_load(
                    self.facts, self.effects, nodes, products
                ):
                    arrived = hazards.tmem.at_end()
                    out += waits(self.facts, arrived)
                    hazards = replace(hazards, tmem=hazards.tmem.after(NO_EFFECTS, arrived))
                    out += has_been_read(self.facts, self.barriers, products, scope.count(scope.depth))
        if handed is not None:
            step, at = handed
            out[at:] = handed_on(self.facts, self.barriers, step, out[at:])
        return out, hazards

    def last_reader(self, nodes: tuple[Node, ...], loads: AsyncLoads) -> int:
        """Number of the last piece of a body that reads what the loads bring: itself, where none does."""
        effects = [self.effects.of(node) for node in nodes]
        reading = [i for i, e in enumerate(effects) if (e.reads | e.bulk_stores | e.tiles) & frozenset(loads.tensors)]
        return reading[-1] if reading else len(nodes) - 1

    def left_open(self, nodes: tuple[Node, ...], hazards: Hazards | None = None) -> Hazards:
        """Hazards at the end of an iteration, which the next one starts with; `hazards` are open at its begin."""
        *_, (_, end) = ((None, hazards or Hazards()), *self.through(nodes, hazards or Hazards()))
        return end

    def through(self, nodes: tuple[Node, ...], hazards: Hazards) -> Iterator[tuple[Needs, Hazards]]:
        """What each piece of a body needs, and the hazards after it."""
        for node in nodes:
            effects = self.effects.of(node)
            needs = self.needs(hazards, effects)
            hazards = hazards.after(effects, needs)
            yield needs, hazards

    def met_inside(self, node: Node, scope: Scope, hazards: Hazards) -> Hazards | None:
        """Of the hazards before a loop those of shared memory, if every turn meets them anyway, since the turn before
        leaves open what needs as much: nothing then stands before the loop. None otherwise."""
        if not isinstance(node, Nested) or has_loads(node) or all(map(self.has_one_issuer, ops_of(node))):
            return None
        shared = replace(hazards, tmem=TmemHazards())
        if self.needs(shared, self.effects.of(node)) == Needs() or not self.turns(node, scope):
            return None
        own = self.left_open(node.body)
        both = own | shared
        alike = zip(self.through(node.body, own), self.through(node.body, both), strict=True)
        return shared if all(one == other for (one, _), (other, _) in alike) else None

    def turns(self, node: Nested, scope: Scope) -> bool:
        """Whether a loop has a turn, wherever it is come to."""
        return self.trip(node, Var(f"k{node.group}", node.extent), scope)[0].lo > 0

    def needs(self, hazards: Hazards, effects: Effects) -> Needs:
        """What must come first; a wait for one load is a wait for all that share its barrier."""
        needs = hazards.before(effects)
        loads = frozenset(other for name in needs.wait_loads for other in self.barriers.ring[name][0].tensors)
        apart = bool(needs.met) and not needs.tmem.sync and needs.met <= self.apart
        return needs if not (loads or apart) else replace(needs, wait_loads=loads, apart=apart)

    def piece(self, node: Node, scope: Scope, inside: Hazards, *, fence_loads: bool) -> list[Stmt]:
        """Statements of one piece; those of a group of products with what goes around them."""
        made = ops_of(node)
        if scope.grouped or not is_group(self.facts, node, made):
            return self.node(node, scope, inside, fence_loads=fence_loads)
        statements = self.node(node, replace(scope, grouped=True), inside, fence_loads=fence_loads)
        return grouped(self.facts, made, statements, self.in_flight(made, scope))

    def in_flight(self, made: Iterable[str], scope: Scope) -> int:
        """Groups of products that may be under way when a turn of the loop around them ends."""
        return max((in_flight(self.facts, name, scope.loops) for name in made), default=0)

    def node(self, node: Node, scope: Scope, inside: Hazards, *, fence_loads: bool) -> list[Stmt]:
        """Statements of one piece. `inside`: what a loop meets that was open before it; `fence_loads`: its bulk loads
        overwrite what threads have read without a fence."""
        match node:
            case Leaf():
                return self.leaf(node, scope)
            case AsyncLoads():
                return self.issue_ahead(node, scope, fence_loads=fence_loads)
            case Nested():
                return self.loop(node, scope, inside, fence_loads=fence_loads)
            case TensorProducts():
                return there(self.barriers, node, scope.count(scope.depth))
            case FoldStep():
                return list(lower_fold(self.facts, node, self.barriers.exchange(node, scope)))

    def is_bulk_store(self, name: str) -> bool:
        op = self.facts.sf.producer(name)
        return op is not None and op.via.is_bulk and self.is_store(name)

    def leaf(self, node: Leaf, scope: Scope) -> list[Stmt]:
        if node.op.via.by_tensor_cores:
            barrier = self.barriers.of_tile(node.op.output)
            return list(by_tensor_cores(self.facts, node.op, barrier, scope.count(scope.depth)))
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

    def loop(self, node: Nested, scope: Scope, inside: Hazards, *, fence_loads: bool) -> list[Stmt]:
        variable = Var(f"k{node.group}", node.extent)
        if node.group in self.barriers.orders:
            return self.in_turns(node, variable, scope)
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
        hazards = self.left_open(node.body) | inside
        if fence_loads:
            hazards = replace(hazards, looked_at=hazards.looked_at | self.effects.of(node).bulk_loads)
        statements, _ = self.body(node.body, inner, hazards, self.used_up(node))
        if not statements:
            return prologue
        loop = Loop(variable, trip, node.unroll, tuple(statements))
        bits = register_bits(self.facts, node)
        loops = over_other_bits(loop, bits) if bits else begun(self.facts, loop, node.group)
        return [*prologue, *taken_up(self.facts, node.group), *loops, *self.drained(node, inner, trip)]

    def in_turns(self, node: Nested, variable: Var, scope: Scope) -> list[Stmt]:
        """The turn of each group of threads, one group after the other: a ring's barriers tell a phase from the one
        before it alone, and the group before has seen all phases up to those of its turn."""
        own, groups = self.facts.indexing.nest.beside[node.group], node.extent
        inner = scope.enter(variable, const(groups), False, scope.implied)
        statements, _ = self.body(node.body, inner, Hazards())
        moved = map_exprs(tuple(statements), lambda e: e.substitute({variable: own}))
        # The first group waits for the last one's turn before, which a fresh barrier lets through.
        is_first = (own * -1 + (groups - 1)) // (groups - 1)
        turn = WaitBarrier(self.barriers.of_group(node, own), (scope.count(scope.depth) + is_first) % 2)
        return [turn, *moved, Arrive(self.barriers.of_group(node, (own + 1) % groups), of_warp=True, by_mma=True)]

    def drained(self, node: Nested, inner: Scope, trip: Expr) -> list[Stmt]:
        """What comes behind a loop whose products may be under way: their end, and the stages that they have read."""
        made = [name for child in node.body for name in ops_of(child) if is_group(self.facts, child, ops_of(child))]
        late = self.in_flight(made, inner)
        if not late or inner.grouped:
            return []
        freed = [s for loads in self.used_up(node) for s in self.free(loads, inner)]
        return drained(self.facts, made, freed, inner.loops[-1][0], trip, late)

    def trip(self, node: Nested, variable: Var, scope: Scope) -> tuple[Expr, frozenset[object]]:
        """Trip count of a serial loop, shortened by a bound that every store inside has, uniform in the block."""
        stores = [op for op in ops_of(node) if self.is_store(op)]
        walks = any(name in self.facts.scans for name in ops_of(node))  # each turn but the last meets in another stage
        stop = stop_of(self.facts, node.group, node.extent)
        is_settled = bool(stop.terms) or node.unroll or walks or not stores
        if is_settled or (scope.loops and has_loads(node)) or self.fills_what_stays(node, scope):
            return stop, scope.implied
        common = set.intersection(*(set(self.facts.indexing.bounds(self.facts.sf.tensor(s))) for s in stores))
        for bound in sorted(common - scope.implied, key=str):
            count = trip_count(bound, variable, frozenset(v for v, _ in scope.loops))
            if count is not None:
                return count, scope.implied | {bound}
        return stop, scope.implied

    def fills_what_stays(self, node: Nested, scope: Scope) -> bool:
        """Whether the loop stores to memory of the block that later loops read: these come to every place, also to
        those past an end, where what is read is not used, but has to be there."""
        filled = (self.facts.sf.tensor(name) for name in ops_of(node))
        staying = (t for t in filled if declaration_depth(self.facts, t) <= scope.depth)
        return any(t.memory in (MemoryType.SHARED, MemoryType.TENSOR) for t in staying)

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
        barrier = self.barriers.of_stage(node, turn) if node.is_bulk else None
        staged = scope.with_stage(dict.fromkeys(node.tensors, turn % node.stages), barrier)
        copies, _ = self.body(node.body, staged, Hazards())
        if barrier is None:
            return tuple(copies)
        # A fresh barrier lets the first turn of every stage through (PTX ISA, mbarrier phases).
        waits = (WaitBarrier(self.barriers.of_stage(node, turn, freed=True), (turn // node.stages + 1) % 2),)
        return (*(waits if node.frees and not is_first else ()), *announced(barrier, tuple(copies)))

    def free(self, node: AsyncLoads, scope: Scope) -> list[Stmt]:
        """Every thread that has read a stage says so, or every warp; bulk stores from it have read it first."""
        t = self.facts.sf.tensor(node.tensors[0])
        stored = any(op.via.is_bulk for name in node.tensors for op in self.facts.sf.consumers(name))
        freed = self.barriers.of_stage(node, turns_of(self.facts, t, scope.loops), freed=True)
        who = readers(self.facts, t)
        users = (op.output for name in node.tensors for op in self.facts.sf.consumers(name))
        if are_asked_for(self.facts, node.tensors):
            return [TmemCommit(freed)]
        by_mma = who.are_warps and all(is_asynchronous(self.facts, user) for user in users)
        arrival = Arrive(freed, of_warp=who.are_warps, by_mma=by_mma, blocks=self.barriers.blocks_of(node))
        takes_turns = any(f"k{n}" in (v.name for v, _ in scope.loops) for n in self.barriers.orders)
        meeting = [Sync()] if not takes_turns and meets_in_turns(node.stages, who.groups) else []
        return [*([self.wait_stores()] if stored else []), arrival, *meeting]

    def by_others(self, nodes: tuple[Node, ...], scope: Scope, own: OwnWork) -> list[Stmt]:
        """What warps do that do not compute, in the loops in which others use it: `own` of a piece, if it has it."""
        out: list[Stmt] = []
        for node in nodes:
            if (found := own(node, scope)) is not None:
                out += found
            elif isinstance(node, TensorProducts):
                out += self.by_others(node.body, scope, own)
            elif isinstance(node, Nested) and has_loads(node):
                variable = Var(f"k{node.group}", node.extent)
                trip, implied = self.trip(node, variable, scope)
                inside = self.by_others(node.body, scope.enter(variable, trip, node.unroll, implied), own)
                out += begun(self.facts, Loop(variable, trip, node.unroll, tuple(inside)), node.group) if inside else ()
        return out

    def loaded(self, node: Node, scope: Scope) -> list[Stmt] | None:
        """What a warp of its own loads."""
        if not isinstance(node, AsyncLoads) or not self.is_specialized(node):
            return None
        return list(self.filled(node, scope, scope.count(scope.depth)))

    def asked(self, node: Node, scope: Scope) -> list[Stmt] | None:
        """What a thread of its own asks for: products in tensor memory."""
        if not isinstance(node, TensorProducts):
            return None
        stages = [loads for loads in node.body if isinstance(loads, AsyncLoads)]
        products, _ = self.body(node.body, scope.elect(), Hazards(), stages)
        return asked_for(self.barriers, node, scope.count(scope.depth), products)

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
        out += waits(self.facts, needs.tmem)
        if needs.tmem.fence_before:
            out.append(TmemFenceBefore())
        if needs.sync:
            out.append(meeting(self.facts) if needs.apart else Sync())
        if needs.tmem.fence_after:
            out.append(TmemFenceAfter())
        waited: set[int] = set()
        for name in sorted(needs.wait_loads):
            node, first = self.barriers.ring[name]
            if first in waited:
                continue
            waited.add(first)
            here = turns_of(self.facts, self.facts.sf.tensor(name), scope.loops)
            out.append(WaitBarrier(self.barriers.of_stage(node, here), (here // node.stages) % 2))
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
                if op is not None and op.kind in REDUCTIONS and not is_asynchronous(self.facts, name):
                    out.append(Fill(name, t.dtype, layout_of(t).elems, op.kind))
                online = self.facts.online.get(name)
                if online is not None and online.maximum == name:
                    out += declare_running(self.facts.sf.tensor(online.running))
        return out
