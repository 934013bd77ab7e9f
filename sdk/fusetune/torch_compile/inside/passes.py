"""What Inductor calls after its own passes over a graph: one pass looks at the regions, one gives them to kernels."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._inductor.custom_graph_pass import CustomGraphPass

from fusetune.errors import CannotConvert, FusetuneError
from fusetune.torch_compile.inside.products import gelu_of_product
from fusetune.torch_compile.inside.regions import Kind, PortableRegion, portable
from fusetune.torch_compile.inside.replacing import Replacement, replace
from fusetune.torch_compile.inside.softmax import put_together, take_apart
from fusetune.torch_compile.lowering import Lowered, Sayable, eager_of, positions_of
from fusetune.torch_compile.program import Boxed
from fusetune.torch_compile.regions.operators import name_of
from fusetune.torch_compile.regions.products import with_products
from fusetune.torch_compile.regions.propose import propose
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.units import UnitGraph

log = logging.getLogger("fusetune.torch_compile")

Lower = Callable[[Region, Boxed], Lowered]
"""The fusion of a region; remembered from one graph to the next."""


class BesideInductor(Sayable):
    """What fusions can say inside Inductor. Random numbers are Inductor's, and so is a mask made of them: it is drawn
    where it is made, and read as a mask."""

    def __init__(self) -> None:
        super().__init__("eager")

    def __call__(self, node: fx.Node) -> bool:
        return not _is_drawn(node) and super().__call__(node)


def _is_drawn(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if name_of(node) in _DRAWS or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return True
    return name_of(node) in _OF_DRAWN and all(_is_drawn(x) for x in node.all_input_nodes)


_DRAWS = frozenset({"inductor_random", "inductor_randint", "inductor_seeds", "inductor_seed", "inductor_lookup_seed"})
_OF_DRAWN = frozenset({"convert_element_type", "gt", "ge", "lt", "le"})


class Proposer:
    """Finds the regions of a graph, and says them."""

    def __init__(self, lower: Lower, least_bytes: int) -> None:
        self.lower, self.least_bytes = lower, least_bytes
        self.sayable = BesideInductor()

    def regions(self, graph: fx.Graph, kind: Kind) -> tuple[UnitGraph, list[tuple[Region, PortableRegion | str]]]:
        """The regions in order, with a reason in words where no kernel can stand for one; behind one that torch's
        library does along with a product that way of it. Then those with products in them."""
        flow, found = propose(graph, self.sayable, least_bytes=self.least_bytes, writes=False)
        pairs: list[tuple[Region, PortableRegion | str]] = []
        for n, region in enumerate(found):
            said = self._said(region, kind, n)
            pairs.append((region, said))
            if isinstance(said, PortableRegion) and (whole := gelu_of_product(flow, region, said)) is not None:
                pairs.append(whole)
        for n, way in enumerate(with_products(flow, found, self.least_bytes), start=len(found)):
            pairs.append((way.region, self._said(way.region, kind, n, way.covers)))
        return flow, pairs

    def _said(self, region: Region, kind: Kind, number: int, covers: Sequence[int] = ()) -> PortableRegion | str:
        try:
            lowered = self.lower(region, eager_of(region, f"{kind}_{number}"))
            if lowered.converted.draws:
                raise CannotConvert("the region", "it draws random numbers")
            reads = [n for n in positions_of(lowered) if n is not None]
            binding = lowered.converted.binding([region.inputs[n].meta["val"] for n in reads])
            return portable(region, lowered, binding, kind, number, covers)
        except FusetuneError as error:
            return str(error).split("\n")[0]


class LookedAt(Exception):
    """A graph was looked at: nothing more is wanted of its compilation."""


class Looking(CustomGraphPass):
    """Notes the regions of each graph, and ends its compilation with `LookedAt`."""

    kind: Kind = "inference"

    def __init__(self, proposer: Proposer) -> None:
        self.proposer = proposer
        self.found: list[tuple[Kind, Region, PortableRegion | str]] = []

    def __call__(self, graph: fx.Graph) -> None:
        with _mode_of(graph):
            take_apart(graph)
            self.found += [(self.kind, *pair) for pair in self.proposer.regions(graph, self.kind)[1]]
        raise LookedAt

    def uuid(self) -> None:
        """None: nothing of it is kept."""


Place = tuple[str, int, tuple[str, str]]
"""A graph's kind, the number of a region in it, and the key of the kernel that it gets."""


class Taking(CustomGraphPass):
    """Gives the regions of `places` to the kernels in `keys`, which are by fusion and binding. Another pass that
    Inductor has in this place runs before it."""

    kind: Kind = "inference"

    def __init__(
        self,
        proposer: Proposer,
        keys: Mapping[tuple[str, str], str],
        places: Collection[Place],
        before: Any = None,
        *,
        strict: bool = False,
    ) -> None:
        self.proposer, self.keys, self.before, self.strict = proposer, dict(keys), before, strict
        self.places = frozenset(places)
        self.taken: list[str] = []

    def __call__(self, graph: fx.Graph) -> None:
        if self.before is not None:
            self.before(graph)
        try:
            with _mode_of(graph):
                self._replace(graph)
        except Exception as error:
            if self.strict:
                raise
            log.warning("a graph is left to Inductor: %s: %s", type(error).__name__, error)

    def _replace(self, graph: fx.Graph) -> None:
        apart = take_apart(graph)
        try:
            self._give_to_kernels(graph)
        finally:
            put_together(graph, apart)

    def _give_to_kernels(self, graph: fx.Graph) -> None:
        flow, found = self.proposer.regions(graph, self.kind)
        wanted = [
            Replacement(region, said, self.keys[said.key])
            for region, said in found
            if isinstance(said, PortableRegion) and (self.kind, said.number, said.key) in self.places
        ]
        self.taken += [x.key for x in replace(flow, wanted)] if wanted else []

    def uuid(self) -> str | None:
        """A hash of the kernels, their places and our own passes: another of any, and Inductor's cache has another
        graph."""
        own = {**self.keys, ("places", ""): repr(sorted(self.places))}
        if self.before is None:
            return uuid_of(own)
        if not isinstance(self.before, CustomGraphPass) or not (other := self.before.uuid()):
            return None
        return uuid_of({**own, ("before", ""): repr(other)})


def uuid_of(keys: Mapping[tuple[str, str], str]) -> str:
    """Of kernels by fusion and binding."""
    return hashlib.sha256("\n".join([own_code(), *sorted(keys.values())]).encode()).hexdigest()


@functools.cache
def own_code() -> str:
    """A hash of all that decides what becomes of a graph: the partitioner, how regions are said, and this."""
    here = Path(__file__).parents[1]
    folders = (here, here.parent / "graph")
    found = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


@contextlib.contextmanager
def _mode_of(graph: fx.Graph) -> Iterator[None]:
    mode = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    with mode if mode is not None else contextlib.nullcontext():
        yield
