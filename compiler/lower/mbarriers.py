"""The mbarriers of a kernel: which it has, in which order they lie, and how many arrive at each."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from compiler.analysis.facts import Facts
from compiler.arch import BARRIER_BYTES, WARP_THREADS
from compiler.copies.instruction import multicast_blocks
from compiler.errors import Unsupported
from compiler.ir.expr import Expr
from compiler.ir.tensor import CopyVia
from compiler.lower.leaves import Scope
from compiler.lower.nest import AsyncLoads, FoldPart, FoldStep, Leaf, Nested, Node, TensorProducts
from compiler.lower.operands import Barrier
from compiler.lower.reduce import Exchange
from compiler.lower.sync_ir import InitBarriers
from compiler.lower.thread_predicates import issuers
from compiler.lower.warp_specialized import are_asked_for, readers


@dataclass
class Mbarriers:
    """Those of the pieces of a kernel, numbered in their order."""

    facts: Facts
    ring: dict[str, tuple[AsyncLoads, int]] = field(default_factory=dict)
    """Shared tensor -> the loads that fill it and the number of their first barrier."""
    exchanges: dict[str, int] = field(default_factory=dict)
    """Reduction over a cluster -> the number of its first barrier."""
    sums: dict[str, int] = field(default_factory=dict)
    """Sum whose parts the blocks of a cluster send each other -> the number of its barrier."""
    tiles: dict[str, int] = field(default_factory=dict)
    """Tensor in tensor memory that the tensor cores fill -> the number of its barrier."""
    orders: dict[int, int] = field(default_factory=dict)
    """Loop in whose turns groups of threads use rings -> the number of the barrier of the first group."""
    products: dict[str, int] = field(default_factory=dict)
    """Product in tensor memory that one thread asks for -> the number of the first barrier of its places."""
    arrivals: list[int] = field(default_factory=list)
    """Threads that arrive at each barrier."""

    @property
    def count(self) -> int:
        return len(self.arrivals)

    def number(self, nodes: tuple[Node, ...]) -> None:
        """Numbers those of some pieces, after all others. Raises Unsupported."""
        for node in nodes:
            match node:
                case AsyncLoads() if node.is_bulk:
                    self.ring |= dict.fromkeys(node.tensors, (node, self.count))
                    t = self.facts.sf.tensor(node.tensors[0])
                    self.arrivals += [issuers(self.facts, t)] * node.stages
                    by_commit = are_asked_for(self.facts, node.tensors)
                    freed = (1 if by_commit else readers(self.facts, t).arrivals) * self.blocks_of(node)
                    self.arrivals += [freed] * node.stages if node.frees else []
                case Nested():
                    if node.group in self.facts.indexing.nest.in_turns:
                        self.orders[node.group] = self.count
                        self.arrivals += [self._warps_of_a_group(node)] * node.extent
                    self.number(node.body)
                case TensorProducts():
                    self.products |= dict.fromkeys(node.tensors, self.count)
                    self.arrivals += [1] * node.stages
                    reading = readers(self.facts, self.facts.sf.tensor(node.tensors[0])).arrivals
                    self.arrivals += [reading] * node.stages if node.is_reused else []
                    self.number(node.body)
                case FoldStep() if node.part is FoldPart.CLUSTER_WRITE:
                    self.exchanges[node.tensor] = self.count
                    self.arrivals += [1] * self.facts.folds[node.tensor].stages
                case FoldStep() if node.part is FoldPart.SLICES:
                    self.sums[node.tensor] = self.count
                    self.arrivals.append(1)
                case Leaf(op=op) if op.via.by_tensor_cores:
                    self.tiles[op.output] = self.count
                    self.arrivals.append(1)
                case Leaf() | FoldStep() | AsyncLoads():
                    pass

    def _warps_of_a_group(self, node: Nested) -> int:
        """Warps of one of the groups of threads that take turns."""
        threads = prod(self.facts.indexing.nest.block()) // node.extent
        if threads % WARP_THREADS:
            raise Unsupported(f"groups of {threads} threads that take turns,", "Make them of whole warps.")
        return threads // WARP_THREADS

    def blocks_of(self, node: AsyncLoads) -> int:
        """Blocks of the cluster that one copy of these loads brings its tile to."""
        ops = (self.facts.sf.producer(name) for name in node.tensors)
        return max(multicast_blocks(self.facts, op) for op in ops if op is not None)

    @property
    def tells_blocks(self) -> bool:
        """Whether other blocks are told that a stage is read."""
        return any(loads.frees and self.blocks_of(loads) > 1 for loads, _ in self.ring.values())

    @property
    def sends_to_blocks(self) -> bool:
        """Whether threads store to the shared memory of other blocks."""
        return bool(self.exchanges or self.sums)

    def init(self, maps: tuple[str, ...]) -> InitBarriers:
        """What sets all of them up."""
        arrivals = self.arrivals if any(n != 1 for n in self.arrivals) else ()
        # Tiles from shared memory have the fence of what is written there.
        under_a_fence = sum(op.via is CopyVia.CP_TMEM for op in self.facts.sf.ops)
        fenced = self.count > under_a_fence
        return InitBarriers(self.facts.smem.barrier_offset, self.count, maps, tuple(arrivals), fenced)

    def at(self, first: int, step: Expr, name: str = "") -> Barrier:
        """The barrier `step` places after number `first`, which is the first with that `name`."""
        return Barrier(step * BARRIER_BYTES + (self.facts.smem.barrier_offset + BARRIER_BYTES * first), name, step)

    def of_stage(self, node: AsyncLoads, turn: Expr, *, freed: bool = False) -> Barrier:
        """That of the stage of a turn: it is filled, or, `freed`, read."""
        first = self.ring[node.tensors[0]][1] + (node.stages if freed else 0)
        return self.at(first, turn % node.stages, f"{'+'.join(node.tensors)}.{'free' if freed else 'filled'}")

    def of_products(self, node: TensorProducts, turn: Expr, *, freed: bool = False) -> Barrier:
        """That of the place of a turn in tensor memory: the products are there, or, `freed`, read."""
        first = self.products[node.tensors[0]] + (node.stages if freed else 0)
        return self.at(first, turn % node.stages, f"{'+'.join(node.tensors)}.{'read' if freed else 'made'}")

    def of_group(self, node: Nested, group: Expr) -> Barrier:
        """The barrier at which a group of threads waits for its turn."""
        return self.at(self.orders[node.group], group, "turn_of_group")

    def of_tile(self, name: str) -> Barrier:
        """That of what tensor cores copy to tensor memory."""
        return self.at(self.tiles[name], Expr())

    def of_sum(self, name: str) -> Barrier:
        """That of the parts of a sum that other blocks of the cluster send."""
        return self.at(self.sums[name], Expr())

    def exchange(self, node: FoldStep, scope: Scope) -> Exchange | None:
        """Where the blocks of a cluster exchange partials in this turn of the loops around, None where a step exchanges
        none. Raises Unsupported."""
        if node.part not in (FoldPart.CLUSTER_WRITE, FoldPart.CLUSTER_READ):
            return None
        if len(scope.serial) > 1:
            raise Unsupported(
                f"{node.tensor}: a fold over a cluster under {len(scope.serial)} serial loops", "Merge them."
            )
        turn, stages = scope.count(scope.depth), self.facts.folds[node.tensor].stages
        stage = turn % stages
        return Exchange(stage, self.at(self.exchanges[node.tensor], stage), (turn // stages) % 2)
