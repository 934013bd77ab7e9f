"""A region over lists as a fusion, traced at one place, and what calls its kernel with lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from fusetune.errors import CannotConvert, FusetuneError
from fusetune.fusion import Fusion
from fusetune.graph import capture, to_fusion
from fusetune.jitting.clocks import Clock
from fusetune.jitting.last_call import LastCall
from fusetune.kernel import Kernel
from fusetune.torch_compile.calls import Bind, RegionCall
from fusetune.torch_compile.lowering import Lowered
from fusetune.torch_compile.program import Boxed, Call, calls_of, program
from fusetune.torch_compile.regions.columns import ListColumns
from fusetune.torch_compile.regions.region import Region

_ELEMS = 4099
"""Elements of the tensors that are traced. Nothing is decided by it: what is over lists is pointwise."""

_SIZE = "N"
"""The symbol of the size of the lists."""


def lowered_lists(columns: ListColumns) -> Lowered:
    """The fusion of what is done at one place, over lists. Raises CannotConvert, InvalidFusion."""
    copies = [Call((), torch.ops.aten.copy_.default, (into, node), {}) for node, into in columns.written]
    wanted = tuple(given.node for given in columns.gives)
    run = program(columns.placeholders, [*calls_of(columns.nodes), *copies], wanted, "place")
    captured = capture(lambda *args: run(list(args)), [_standing_for(x) for x in columns.inputs])
    if captured.closed:
        raise CannotConvert("the region", "tracing it again found tensors beside its lists")
    inputs = [node for node in captured.placeholders if isinstance(node.meta.get("val"), torch.Tensor)]
    converted = to_fusion(captured.nodes, captured.returned, inputs=inputs, names=captured.names)
    if any(form.of != "output" or form.view is not None for form in converted.outputs):
        raise CannotConvert("the region", "a list that it gives is one that it reads")
    lists = {node: isinstance(given, tuple) for node, given in zip(captured.placeholders, columns.inputs, strict=True)}
    are_lists = [lists[node] for node in converted.inputs if isinstance(node, fx.Node)]
    return Lowered(captured, replace(converted, fusion=_over_lists(converted.fusion, are_lists)))


def _standing_for(given: tuple[fx.Node, ...] | fx.Node) -> torch.Tensor:
    """A tensor like those of a list, with one dimension where any of them has some."""
    first: torch.Tensor = (given[0] if isinstance(given, tuple) else given).meta["val"]
    is_sized = isinstance(given, tuple) and any(node.meta["val"].shape for node in given)
    return first.new_empty((_ELEMS,)) if is_sized else first


def _over_lists(fusion: Fusion, are_lists: Sequence[bool]) -> Fusion:
    """The fusion whose inputs are lists where it is said so, and whose size is any."""
    document = json.loads(fusion.to_json())
    for stated, is_list in zip(document["inputs"], are_lists, strict=True):
        if is_list:
            stated["list"] = True
    for part in (*document["inputs"], *document["ops"], *document["outputs"]):
        if part.get("shape") == [_ELEMS]:
            part["shape"] = [_SIZE]
    return Fusion.from_json(document)


@dataclass(frozen=True)
class _Places:
    """Where things stand among a call's arguments and a kernel's results. `tensors`: for each input of the fusion its
    arguments, or its one; `rows`: for each result of the region the list that it is in, and its place there."""

    tensors: tuple[tuple[int, ...] | int, ...]
    rows: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, region: Region, columns: ListColumns, lowered: Lowered) -> _Places:
        at = {node: n for n, node in enumerate(region.inputs)}
        arguments = dict(zip(lowered.captured.placeholders, lowered.captured.arguments, strict=True))

        def place(node: Any) -> tuple[int, ...] | int:
            given = columns.inputs[arguments[node]]
            return tuple(at[x] for x in given) if isinstance(given, tuple) else at[given]

        forms = {form.node: form.position for form in lowered.converted.outputs}
        rows = {
            part: (forms[node], row)
            for given, node in zip(columns.gives, lowered.captured.outputs, strict=True)
            for row, part in enumerate(given.parts)
        }
        tensors = tuple(place(node) for node in lowered.converted.inputs)
        return cls(tensors, tuple(rows[node] for node in region.outputs))

    def given(self, args: Sequence[Any]) -> list[Any]:
        """What a kernel takes: lists, and tensors beside them."""
        return [args[x] if isinstance(x, int) else [args[n] for n in x] for x in self.tensors]


class ListCall(RegionCall):
    """A region over lists. Sizes say nothing of its kernel, so there is one form."""

    def __init__(
        self,
        lowered: Lowered,
        eager: Boxed,
        bind: Bind,
        clock: Clock,
        strict: bool,
        region: Region,
        columns: ListColumns,
    ) -> None:
        super().__init__(lowered, eager, bind, clock, strict)
        self._places = _Places.of(region, columns, lowered)
        self._written = [n for n, node in enumerate(region.inputs) if node in region.written]
        self._numbers = [(node, self._places_of(node, region, columns)) for node, _ in self._numbers]
        self._like: tuple[Kernel | None, LastCall | None] = None, None
        self.is_static = True

    def _places_of(self, node: Any, region: Region, columns: ListColumns) -> int | None:
        at = dict(zip(self.lowered.captured.placeholders, columns.inputs, strict=True)).get(node)
        return region.inputs.index(at) if isinstance(at, fx.Node) else None

    def _tensors(self, args: Sequence[Any]) -> list[Any]:
        return self._places.given(args)

    def launch(self, kernel: Kernel, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """The region's outputs by the kernel. Raises KernelError."""
        scalars = [args[at] for _, at in self._numbers if at is not None]
        if len(scalars) != len(self._numbers):
            raise FusetuneError("a number of sizes stands beside lists of tensors of any")
        given = self._places.given(args)
        made = self._as_before(kernel, given, args)
        if made is None:
            made = kernel(*given, *scalars)
            self._like = kernel, None if scalars else LastCall.of(tuple(args))
        lists = made if isinstance(made, tuple) else (made,)
        return tuple([lists[n][row] for n, row in self._places.rows])

    def _as_before(self, kernel: Kernel, given: list[Any], args: Sequence[Any]) -> Any:
        """What the kernel gives of tensors like the last ones, where they were, of which nothing is looked at again."""
        known, like = self._like
        call = getattr(kernel, "known_lists", None)
        return (
            call(given) if known is kernel and call is not None and like is not None and like.is_of_like(args) else None
        )
