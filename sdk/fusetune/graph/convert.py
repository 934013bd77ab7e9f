"""A part of an ATen graph as a fusion, and how to call it with what the graph has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from fusetune.bindings import binding_of
from fusetune.errors import CannotConvert, InvalidFusion
from fusetune.fusion import Fusion, Tensor
from fusetune.graph.operators import is_size, write
from fusetune.graph.outputs import OutputForm, StridedView, is_dense, is_row_major, root_of, view_of
from fusetune.graph.sizes import follows, known, settled, settled_number
from fusetune.graph.writing import RandomInput, Writing, is_empty
from fusetune.wire.binding import Binding, OutputBinding

aten = torch.ops.aten

WRITES_INPUT = frozenset({aten.copy_.default})
"""What stands at the end of a functional graph for a mutated input."""

COMPUTES_NOTHING = "all its outputs are inputs, or views of inputs"
"""Why there is no fusion of a graph without an operator."""


@dataclass(frozen=True)
class Converted:
    """A fusion, and what of the graph each of its inputs, scalars and outputs is.

    `inputs`: the nodes that are its tensors, in order; "seed" and "offset" are i64 tensors without dimensions that the
    caller makes, of which each of `draws` draws takes its own offset, from the one passed on. Inputs without elements
    are none. `scalars`: the nodes of numbers by value: elements in the host's memory, or sizes (`number`). `outputs`:
    every output that was asked for, and inputs that are written. `symbols`: what the fusion's symbols are in the
    trace. `layouts`: strides of outputs that only sizes settle.
    """

    fusion: Fusion
    inputs: tuple[Node | RandomInput, ...]
    scalars: tuple[Node, ...]
    outputs: tuple[OutputForm, ...]
    symbols: Mapping[str, torch.SymInt]
    draws: int = 0
    layouts: tuple[tuple[Any, ...] | None, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """`inputs` where nothing is drawn: a node each."""
        return tuple(x for x in self.inputs if isinstance(x, Node))

    def binding(self, tensors: Sequence[Any]) -> Binding:
        """Sizes, strides and alignment of the tensors of a call, which may be fake or meta tensors; of a list the
        alignment that all of it has."""
        found = binding_of(self.fusion, [_described(tensor) for tensor in tensors])
        if not any(self.layouts):
            return found
        strides = [
            None if layout is None else tuple(settled(n, self.symbols, found.sizes) for n in layout)
            for layout in self.layouts
        ]
        return found.model_copy(update={"outputs": tuple(OutputBinding(strides=x) for x in strides)})

    def number(self, node: Node, sizes: Mapping[str, int]) -> int | float:
        """One of `scalars` that is a size of the trace, or worked out of sizes, at a call with these `sizes`."""
        return settled_number(node.meta["val"], self.symbols, sizes)

    def numbers(self, given: Mapping[Node, Any], sizes: Mapping[str, int]) -> list[Any]:
        """What `scalars` are at a call that gives these nodes, with these `sizes`."""
        return [given[x] if x in given else self.number(x, sizes) for x in self.scalars]

    def values(
        self, tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], sizes: Mapping[str, int]
    ) -> tuple[torch.Tensor, ...]:
        """What was asked for, in order, after a kernel gave `outputs` of `tensors`; `sizes` of the binding."""
        return tuple(form.value(tensors, outputs, self.symbols, sizes) for form in self.outputs)


class _Described:
    """A tensor as a binding asks for it; one without memory is taken to start on 16 bytes."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype, self.stride = tensor.shape, tensor.dtype, tensor.stride
        self._tensor = tensor

    def data_ptr(self) -> int:
        """The address, or what its lowest bits are if memory starts on 16 bytes."""
        if isinstance(self._tensor, torch._subclasses.FakeTensor) or self._tensor.device.type == "meta":
            return int(self._tensor.storage_offset()) * self._tensor.dtype.itemsize
        return self._tensor.data_ptr()


def _described(given: Any) -> Any:
    return [_Described(x) for x in given] if isinstance(given, list | tuple) else _Described(given)


def to_fusion(
    nodes: Sequence[Node],
    outputs: Sequence[Node],
    *,
    inputs: Sequence[Node] = (),
    names: Mapping[Node, str] | None = None,
    each_output: bool = False,
) -> Converted:
    """The fusion of `nodes`, in the order of their graph, that gives `outputs`.

    Other nodes that they read are its inputs, those of `inputs` first and the rest in the order in which they are
    read. `names`: what inputs shall be called. With `each_output` every one of `outputs` is an output of the fusion
    with its own memory, in order, if need be a copy; else outputs that are views of one another, or of inputs, are
    returned once. Raises CannotConvert with the first node that cannot be said.
    """
    return _Conversion(nodes, outputs, inputs, names or {}, each_output).run()


class _Conversion:
    def __init__(
        self,
        nodes: Sequence[Node],
        outputs: Sequence[Node],
        inputs: Sequence[Node],
        names: Mapping[Node, str],
        each_output: bool,
    ) -> None:
        self.inside = frozenset(nodes)
        self.writes = tuple(n for n in nodes if n.target in WRITES_INPUT)
        self.wanted = tuple(n for n in outputs if n.target not in WRITES_INPUT)
        self.asked = (*outputs, *(n for n in self.writes if n not in outputs))
        self.nodes = _needed(nodes, self.asked)
        self.each_output = each_output
        self.w = Writing()
        self.w.by_value = _by_value(nodes, self.inside)
        self.w.name_inputs(names)
        for node in inputs:
            self.w.value(node)
        self.returned: dict[tuple[Node, bool], int] = {}
        self.taken: dict[str, Node] = {}
        self.stated: list[tuple[Tensor, str | None, Any]] = []
        self.layouts: list[tuple[Any, ...] | None] = []

    def run(self) -> Converted:
        for node in self.nodes:
            if node.target is aten._local_scalar_dense.default:
                self.w.refuse(node, "a number of a tensor decides what is computed", "Keep it a tensor: index by [0].")
            if not is_size(node) and not self._is_tuple_part(node):
                self.w.values[node] = write(self.w, node)
        forms = {node: self._write_input(node) for node in self.writes}
        shared = self._shared_roots()
        for node in self.wanted:
            forms[node] = self._own(node, node) if self.each_output else self._form(node, shared)
        fusion = self._built()
        for node in self.w.scalars:
            if is_size(node) and not follows(node.meta["val"], self.w.sizes.expressions):
                self.w.refuse(node, "a number of sizes that no tensor of the fusion has", "Pass that tensor to it too.")
        return Converted(
            fusion,
            tuple(self.w.inputs),
            tuple(self.w.scalars),
            tuple(forms[node] for node in self.asked),
            dict(self.w.sizes.expressions),
            self.w.draws,
            tuple(self.layouts),
        )

    def _is_tuple_part(self, node: Node) -> bool:
        return node.op in ("placeholder", "get_attr", "output")

    def _shared_roots(self) -> set[Node]:
        """Nodes whose memory several outputs lie in."""
        roots = [root_of(node, self.inside) for node in self.wanted]
        return {root for root in roots if roots.count(root) > 1}

    def _form(self, node: Node, shared: set[Node]) -> OutputForm:
        if is_empty(node):
            return OutputForm(node, -1, of="nothing")
        root = root_of(node, self.inside)
        written = next((n for n in self.writes if n.args[1] in (node, root)), None)
        if written is not None and root is not node and written.args[1] is node:
            root = node
        if root not in self.inside:
            self.w.value(root)
            return OutputForm(node, self.w.inputs.index(root), view_of(node, root), "input")
        if written is not None:
            target = written.args[0]
            assert isinstance(target, Node)
            if node is root or _same_layout(root, target):
                view = None if node is root else view_of(node, root)
                return OutputForm(node, self.returned[written, True], view)
        if root in shared or not is_dense(node.meta["val"]):
            if not is_dense(root.meta["val"]):
                return self._own(node, node)
            return self._own(node, root, view_of(node, root))
        return self._own(node, node)

    def _own(self, node: Node, made: Node, view: StridedView | None = None) -> OutputForm:
        """An output of the fusion that holds `made`, of which `node` is a view."""
        if self.each_output or (made, False) not in self.returned:
            self.returned[made, False] = self._return(made)
        return OutputForm(node, self.returned[made, False], view)

    def _return(self, node: Node) -> int:
        """Return a node's value, in the order of dimensions that torch gives it."""
        tensor = self._result(node)
        found = node.meta["val"]
        layout = None if is_row_major(found) or not is_dense(found) else tuple(found.stride())
        settled_now = layout is not None and all(known(n) is not None for n in layout)
        self.stated.append((tensor, None, layout if settled_now else None))
        self.layouts.append(None if settled_now else layout)
        return len(self.stated) - 1

    def _write_input(self, node: Node) -> OutputForm:
        """Return what is copied into an input, in that input's memory."""
        target = node.args[0]
        if not isinstance(target, Node) or target in self.inside:
            self.w.refuse(node, "a copy into what is no input", "Write it as a new tensor.")
        into = self.w.value(target)
        assert isinstance(into, Tensor)
        position = len(self.stated)
        self.stated.append((self._result(node), into.name, None))
        self.layouts.append(None)
        self.returned[node, True] = position
        return OutputForm(node, position, alias=self.w.inputs.index(target))

    def _result(self, node: Node) -> Tensor:
        """A tensor that may be returned: made by an operator, and by no other output."""
        tensor = self.w.written(self.w.value(node))
        is_input = any(tensor is self.w.values.get(x) for x in self.w.inputs if isinstance(x, Node))
        if is_input or tensor.name in self.taken:
            tensor = self.w.f.copy(tensor)
        self.taken[tensor.name] = node
        return tensor

    def _built(self) -> Fusion:
        f = self.w.f
        if not self.stated:
            fix = "A fusion computes something: leave what only returns inputs, or views of them, as it is."
            raise CannotConvert("the function", COMPUTES_NOTHING, fix)
        names = {x.name for x in self.w.values.values() if isinstance(x, Tensor)}
        try:
            for i, (tensor, alias, strides) in enumerate(self.stated):
                into = None if alias is None else self._input_called(alias)
                name = f"out{i}" if len(self.stated) > 1 else "out"
                f.output(tensor, name if name not in names else f"{name}_", alias=into, strides=strides)
            return f.build()
        except InvalidFusion as error:
            said = "; ".join(str(p) for p in error.problems)
            raise CannotConvert("the function", said, "Cut it in two.") from error

    def _input_called(self, name: str) -> Tensor:
        values = (self.w.values.get(x) for x in self.w.inputs if isinstance(x, Node))
        return next(x for x in values if isinstance(x, Tensor) and x.name == name)


def _needed(nodes: Sequence[Node], asked: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes that an output depends on, in order."""
    wanted = set(asked)
    for node in reversed(nodes):
        if node in wanted:
            wanted.update(node.all_input_nodes)
    return tuple(node for node in nodes if node in wanted)


def _by_value(nodes: Sequence[Node], inside: frozenset[Node]) -> frozenset[Node]:
    """Inputs of one element in the host's memory, beside tensors of another device: torch passes them by value."""
    elsewhere = any(
        isinstance(n.meta.get("val"), torch.Tensor) and n.meta["val"].device.type not in ("cpu", "meta") for n in nodes
    )
    read = {x for n in nodes for x in n.all_input_nodes if x not in inside}
    return frozenset(
        x
        for x in read
        if elsewhere
        and isinstance(x.meta.get("val"), torch.Tensor)
        and not x.meta["val"].shape
        and x.meta["val"].device.type == "cpu"
        and x.meta["val"].dtype is not torch.bool
    )


def _same_layout(x: Node, y: Node) -> bool:
    left, right = x.meta["val"], y.meta["val"]
    return tuple(map(str, left.stride())) == tuple(map(str, right.stride()))


__all__ = ["CannotConvert", "Converted", "OutputForm", "StridedView", "to_fusion"]
