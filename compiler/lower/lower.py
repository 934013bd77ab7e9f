"""Lowers a scheduled fusion to kernel IR. It reads the scheduled fusion and its analyses, and knows no scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compiler.analysis.allocation import layout_of
from compiler.analysis.facts import Facts
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, const, every_part, var
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import CopyVia
from compiler.lower.kernel_ir import (
    Barrier,
    CommitStores,
    Declare,
    Elected,
    ExpectBytes,
    FenceAsync,
    If,
    InitBarriers,
    Kernel,
    Less,
    Loop,
    Pointer,
    Stmt,
    Sync,
    TensorMap,
    WaitBarrier,
    WaitStores,
    expressions,
    map_exprs,
    walk,
)
from compiler.lower.leaves import Scope, issued_bytes, lower_leaf, map_name
from compiler.lower.nest import AsyncLoads, Leaf, Nested, Node, build_nest, declaration_depth
from compiler.lower.passes.full_tiles import split_full_tiles
from compiler.lower.passes.setup_sync import drop_redundant_setup_sync
from compiler.lower.predicates import trip_count
from compiler.lower.sync import Effects, Hazards, Needs

INDEX_LIMIT = 1 << 31
"""Beyond it an index, or a part of one, is computed in 64 bits."""


def lower(sf: ScheduledFusion) -> Kernel:
    """The kernel of a legal scheduled fusion. Raises Unsupported, by name, for what cannot be lowered yet."""
    return lower_facts(Facts(sf))


def lower_facts(facts: Facts) -> Kernel:
    """`lower`, for a caller that has the analyses already."""
    sf = facts.sf
    body = _Lowering(facts).kernel()
    positions = {name: i for i, name in enumerate((*sf.inputs, *sf.outputs))}
    pointed = {s.tensor for s in walk(body) if hasattr(s, "tensor")}
    pointers = tuple(
        Pointer(name, sf.tensor(name).dtype, p, name in sf.outputs) for name, p in positions.items() if name in pointed
    )
    wide = any(not every_part(e, _fits_32_bits) for e in expressions(body))
    return Kernel(
        pointers=pointers,
        tensor_maps=_tensor_maps(facts, positions),
        grid=facts.indexing.nest.grid(),
        block=facts.indexing.nest.block(),
        smem_bytes=facts.smem.total_bytes,
        smem_align=facts.smem.align,
        max_registers=sf.max_registers,
        index_bits=64 if wide else 32,
        body=split_full_tiles(drop_redundant_setup_sync(body)),
    )


def _fits_32_bits(e: Expr) -> bool:
    return e.lo > -INDEX_LIMIT and e.hi < INDEX_LIMIT


def _tensor_maps(facts: Facts, positions: dict[str, int]) -> tuple[TensorMap, ...]:
    maps = []
    for name, copy in facts.tensor_maps.items():
        assert copy.dims is not None, "legality refuses copies that have no tensor map"
        nbytes = copy.global_tensor.dtype.nbytes
        maps.append(
            TensorMap(
                name=map_name(name),
                dtype=copy.global_tensor.dtype,
                position=positions[copy.global_tensor.name],
                dims=tuple(d.size.value for d in copy.dims),
                strides_bytes=tuple(d.stride.value * nbytes for d in copy.dims[1:]),
                box=tuple(d.box_size.value for d in copy.dims),
                element_strides=tuple(d.element_stride_size.value for d in copy.dims),
                swizzle=copy.swizzle,
            )
        )
    return tuple(maps)


@dataclass
class _Lowering:
    facts: Facts
    ring: dict[str, tuple[AsyncLoads, int]] = field(default_factory=dict)
    """Shared tensor -> the loads that fill it and the number of their first barrier."""
    barriers: int = 0

    def kernel(self) -> tuple[Stmt, ...]:
        nodes = build_nest(self.facts)
        self.number_barriers(nodes)
        body, _ = self.body(nodes, Scope(), Hazards())
        out: list[Stmt] = []
        if self.barriers:
            maps = tuple(map(map_name, self.facts.tensor_maps))
            out += [InitBarriers(self.facts.smem.barrier_offset, self.barriers, maps), Sync()]
        out += body
        if any(self.is_bulk_store(op.output) for op in self.facts.sf.ops):
            out.append(Elected((WaitStores(),)))
        return tuple(out)

    def is_store(self, name: str) -> bool:
        return self.facts.sf.tensor(name).memory is MemoryType.GLOBAL

    def number_barriers(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            match node:
                case AsyncLoads():
                    for name in node.tensors:
                        self.ring[name] = (node, self.barriers)
                    self.barriers += node.stages
                case Nested():
                    self.number_barriers(node.body)
                case Leaf():
                    pass

    def body(self, nodes: tuple[Node, ...], scope: Scope, hazards: Hazards) -> tuple[list[Stmt], Hazards]:
        """Statements of one body, with waits and barriers between its pieces, and the hazards left open at its end."""
        out: list[Stmt] = []
        for node in nodes:
            effects = self.effects(node)
            needs = self.needs(hazards, effects)
            out += self.meet(needs, scope)
            hazards = hazards.after(effects, needs)
            out += self.declarations(node, scope)
            out += self.node(node, scope)
        return out, hazards

    def left_open(self, nodes: tuple[Node, ...]) -> Hazards:
        """Hazards at the end of an iteration, which the next one starts with."""
        hazards = Hazards()
        for node in nodes:
            effects = self.effects(node)
            hazards = hazards.after(effects, self.needs(hazards, effects))
        return hazards

    def needs(self, hazards: Hazards, effects: Effects) -> Needs:
        """What must come first; a wait for one load is a wait for all that share its barrier."""
        needs = hazards.before(effects)
        loads = frozenset(other for name in needs.wait_loads for other in self.ring[name][0].tensors)
        return replace(needs, wait_loads=loads)

    def node(self, node: Node, scope: Scope) -> list[Stmt]:
        match node:
            case Leaf():
                return self.leaf(node, scope)
            case AsyncLoads():
                return self.issue_ahead(node, scope)
            case Nested():
                return self.loop(node, scope)

    def is_bulk_store(self, name: str) -> bool:
        op = self.facts.sf.producer(name)
        return op is not None and op.via is not CopyVia.PLAIN and self.is_store(name)

    def leaf(self, node: Leaf, scope: Scope) -> list[Stmt]:
        statements = lower_leaf(self.facts, node.op, scope)
        if scope.elected or not self.is_bulk_store(node.op.output):
            return list(statements)
        return [Elected((*statements, CommitStores()))]

    def loop(self, node: Nested, scope: Scope) -> list[Stmt]:
        variable = Var(f"k{node.group}", node.extent)
        trip, implied = self.trip(node, variable, scope)
        inner = scope.enter(variable, trip, node.unroll, implied)
        prologue: list[Stmt] = []
        for child in node.body:
            if isinstance(child, AsyncLoads):
                for ahead in range(child.prefetch):
                    prologue += self.issue_at(child, inner, const(ahead), conditional=True)
        if not scope.elected and all(self.is_bulk_store(name) for name in _ops(node)):
            statements, _ = self.body(node.body, inner.elect(), Hazards())
            return [Elected((Loop(variable, trip, node.unroll, tuple(statements)), CommitStores()))]
        statements, _ = self.body(node.body, inner, self.left_open(node.body))
        return [*prologue, Loop(variable, trip, node.unroll, tuple(statements))]

    def trip(self, node: Nested, variable: Var, scope: Scope) -> tuple[Expr, frozenset[object]]:
        """Trip count of a serial loop, shortened by a bound that every store inside has, uniform in the block."""
        stores = [op for op in _ops(node) if self.is_store(op)]
        if node.unroll or not stores:
            return const(node.extent), scope.implied
        common = set.intersection(*(set(self.facts.indexing.bounds(self.facts.sf.tensor(s))) for s in stores))
        for bound in sorted(common - scope.implied, key=str):
            count = trip_count(bound, variable, frozenset(v for v, _ in scope.loops))
            if count is not None:
                return count, scope.implied | {bound}
        return const(node.extent), scope.implied

    def issue_ahead(self, node: AsyncLoads, scope: Scope) -> list[Stmt]:
        """The issue of the loads of the iteration `prefetch` ahead."""
        if node.prefetch == 0:
            return self.issue_at(node, scope, None, conditional=False)
        step = var(scope.counter(node.tensors[0])) + node.prefetch
        return self.issue_at(node, scope, step, conditional=True)

    def issue_at(self, node: AsyncLoads, scope: Scope, step: Expr | None, *, conditional: bool) -> list[Stmt]:
        """One elected thread announces the bytes of iteration `step` (None: the current one) and issues its copies."""
        counter = scope.counter(node.tensors[0]) if scope.serial else None
        here = const(0) if counter is None else var(counter)
        staged = scope.with_stage(dict.fromkeys(node.tensors, here % node.stages), self.barrier(node, here))
        copies, _ = self.body(node.body, staged, Hazards())
        statements: tuple[Stmt, ...] = (
            ExpectBytes(self.barrier(node, here), issued_bytes(tuple(copies))),
            *copies,
        )
        if step is not None and counter is not None:
            statements = map_exprs(statements, lambda e: e.substitute({counter: step}))
        issue: Stmt = Elected(statements)
        if conditional and step is not None:
            issue = If((Less(step, scope.trip),), (issue,))
        return [issue]

    def barrier(self, node: AsyncLoads, step: Expr) -> Barrier:
        first = self.ring[node.tensors[0]][1]
        return Barrier((step % node.stages) * 8 + (self.facts.smem.barrier_offset + 8 * first))

    def meet(self, needs: Needs, scope: Scope) -> list[Stmt]:
        out: list[Stmt] = []
        if needs.wait_stores:
            out.append(Elected((WaitStores(),)))
        if needs.fence:
            out.append(FenceAsync())
        if needs.sync:
            out.append(Sync())
        waited: set[int] = set()
        for name in sorted(needs.wait_loads):
            node, first = self.ring[name]
            if first in waited:
                continue
            waited.add(first)
            here = var(scope.counter(name)) if scope.serial else const(0)
            out.append(WaitBarrier(self.barrier(node, here), (here // node.stages) % 2))
        return out

    def declarations(self, node: Node, scope: Scope) -> list[Stmt]:
        """Register arrays whose values are made in `node` and live in this body."""
        out: list[Stmt] = []
        for name in _ops(node):
            t = self.facts.sf.tensor(name)
            if t.memory is MemoryType.LOCAL and declaration_depth(self.facts, t) == scope.depth:
                out.append(Declare(name, t.dtype, layout_of(t).elems))
        return out

    def effects(self, node: Node) -> Effects:
        match node:
            case Leaf():
                return self.leaf_effects(node)
            case Nested() | AsyncLoads():
                total = Effects()
                for child in node.body:
                    total = total | self.effects(child)
                return total

    def leaf_effects(self, node: Leaf) -> Effects:
        op = node.op
        shared = frozenset(n for n in op.tensor_inputs if self.facts.sf.tensor(n).memory is MemoryType.SHARED)
        target = frozenset({op.output}) if self.facts.sf.tensor(op.output).memory is MemoryType.SHARED else frozenset()
        if op.via is CopyVia.PLAIN:
            return Effects(reads=shared, writes=target)
        return Effects(bulk_stores=shared, bulk_loads=target)


def _ops(node: Node) -> list[str]:
    match node:
        case Leaf():
            return [node.op.output]
        case Nested() | AsyncLoads():
            return [name for child in node.body for name in _ops(child)]
