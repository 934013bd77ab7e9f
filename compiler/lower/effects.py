"""What the pieces of a kernel do to shared memory: what is read, written and copied, for the barriers between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from compiler.analysis.facts import Facts
from compiler.analysis.sync.own_elements import is_own
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import CopyVia, TensorOp
from compiler.lower.nest import AsyncLoads, FoldStep, Leaf, Nested, Node, TensorProducts
from compiler.lower.reduce import fold_effects
from compiler.lower.sync import NOTHING, Effects
from compiler.lower.tensor_memory import loads_in_order
from compiler.lower.tmem_sync import NO_EFFECTS, TmemEffects


@dataclass(frozen=True)
class NodeEffects:
    """The effects of the pieces of one scheduled fusion."""

    facts: Facts
    _known: dict[int, tuple[Node, Effects]] = field(default_factory=dict)
    """By the identity of a piece: loops around it ask for its effects, each as often as it is looked through."""

    def of(self, node: Node) -> Effects:
        """What a piece does, those inside it included; of a loop, what is seen from around it."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = (node, self._found(node))
        return known[1]

    def _found(self, node: Node) -> Effects:
        match node:
            case Leaf():
                own, tmem = self._of_leaf(node), self._on_tensor_memory(node.op)
                return own if tmem is NO_EFFECTS else replace(own, tmem=tmem)
            case FoldStep():
                return fold_effects(self.facts, node)
            case TensorProducts():
                return NOTHING  # of the threads that compute: they wait for the barrier of what is made
            case Nested() | AsyncLoads():
                total = NOTHING
                for child in node.body:
                    total = total | self.of(child)
                if isinstance(node, Nested):
                    return total.around
                if node.by_copies and node.prefetch:
                    return replace(total, copies=frozenset(), turned=total.copies)
                if node.frees:
                    total = replace(total, freed=total.bulk_loads, sent=frozenset())
                return total

    @cached_property
    def private(self) -> frozenset[str]:
        """Shared tensors of which each thread reads what it has copied itself."""
        copied = (op.output for op in self.facts.sf.ops if op.via is CopyVia.CP_ASYNC)
        return frozenset(name for name in copied if is_own(self.facts.sf, name))

    def _of_leaf(self, node: Leaf) -> Effects:
        op = node.op
        shared = frozenset(n for n in op.tensor_inputs if self.facts.sf.tensor(n).memory is MemoryType.SHARED)
        target = frozenset({op.output}) if self.facts.sf.tensor(op.output).memory is MemoryType.SHARED else frozenset()
        if not shared and not target:
            return NOTHING
        if op.via is CopyVia.CP_TMEM or (op.output in self.facts.products and shared):
            return Effects(tiles=shared)
        if op.via.is_bulk:
            return Effects(bulk_stores=shared, bulk_loads=target, sent=target if op.multicasts else frozenset())
        reads, own = shared - self.private, shared & self.private
        copies = target if op.via is CopyVia.CP_ASYNC else frozenset()
        return Effects(reads=reads, own=own, writes=target - self.private, copies=copies)

    def _on_tensor_memory(self, op: TensorOp) -> TmemEffects:
        """What an operator does to tensor memory, and to registers that loads from there may still fill."""
        placement = self.facts.tmem_placement
        if not placement.columns:
            return NO_EFFECTS
        registers = (n for n in (*op.tensor_inputs, op.output) if self.facts.sf.tensor(n).memory is MemoryType.LOCAL)
        if op.via is CopyVia.ST_TMEM:
            stored = frozenset({placement.shared[op.output]})
            exchanged, filled = stored & placement.exchanged, stored & placement.filled
            return TmemEffects(stores=stored, exchanged=exchanged, watched=filled, touched=frozenset(registers))
        if op.via is CopyVia.CP_TMEM:
            return TmemEffects(filled=frozenset({placement.shared[op.output]}))
        if op.via is CopyVia.SHIFT_TMEM:
            return TmemEffects(moved=frozenset({placement.shared[op.output]}))
        if op.via is CopyVia.LD_TMEM:
            read, target = frozenset({placement.shared[op.tensor_inputs[0]]}), frozenset({op.output})
            landing = target if loads_in_order(self.facts, op) else frozenset[str]()
            return TmemEffects(
                loads=read,
                exchanged=read & placement.exchanged,
                watched=read & placement.filled,
                landing=landing,
                touched=target - landing,
            )
        return TmemEffects(touched=frozenset(registers))


def has_loads(node: Node) -> bool:
    """Whether bulk loads, or tiles of tensor memory, are issued inside: what counts their phases must not depend on a
    trip count."""
    match node:
        case AsyncLoads() | TensorProducts():
            return True
        case Nested():
            return any(map(has_loads, node.body))
        case Leaf():
            return node.op.via.by_tensor_cores
        case FoldStep():
            return False


def ops_of(node: Node) -> list[str]:
    """The tensors that are made in a piece, in order."""
    match node:
        case Leaf():
            return [node.op.output]
        case FoldStep():
            return []
        case Nested() | AsyncLoads() | TensorProducts():
            return [name for child in node.body for name in ops_of(child)]
