"""How the outputs of a fusion become the values of a graph's nodes: views of one another are computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch.fx import Node

from fusetune.graph.sizes import TorchSize, known, settled

aten = torch.ops.aten

VIEWS = frozenset(
    {
        aten.view.default, aten.alias.default, aten.detach.default, aten.permute.default, aten.transpose.int,
        aten.t.default, aten.expand.default, aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim,
        aten.squeeze.dims, aten.select.int, aten.slice.Tensor, aten.as_strided.default, aten.diagonal.default,
    }
)  # fmt: skip
"""Operators whose result lies in the memory of their operand."""


@dataclass(frozen=True)
class StridedView:
    """Where a view's elements lie in the memory of the tensor that is viewed: sizes, strides and an offset in
    elements from its first one. Sizes may be expressions of a trace's symbols."""

    size: tuple[TorchSize, ...]
    stride: tuple[TorchSize, ...]
    offset: TorchSize


@dataclass(frozen=True)
class OutputForm:
    """How `node` is had after a call: output number `position` of the fusion, or its input of that number, as it is or
    seen through `view`; of "nothing" is a new tensor without elements, which no kernel makes. `alias`: the input in
    whose memory the output is written."""

    node: Node
    position: int
    view: StridedView | None = None
    of: Literal["output", "input", "nothing"] = "output"
    alias: int | None = None

    def value(
        self,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        symbols: Mapping[str, torch.SymInt],
        sizes: Mapping[str, int],
    ) -> torch.Tensor:
        """The node's tensor, after a kernel gave `outputs` of `inputs`; `symbols` and `sizes` as of the fusion."""
        if self.of == "nothing":
            like = self.node.meta["val"]
            shape = [settled(n, symbols, sizes) for n in like.shape]
            return torch.empty(shape, dtype=like.dtype, device=like.device)
        found = (outputs if self.of == "output" else inputs)[self.position]
        if self.view is None:
            return found
        if not symbols:
            return found.as_strided(self.view.size, self.view.stride, found.storage_offset() + self.view.offset)
        size, stride = ([settled(n, symbols, sizes) for n in side] for side in (self.view.size, self.view.stride))
        offset = settled(self.view.offset, symbols, sizes)
        return found.as_strided(size, stride, found.storage_offset() + offset)


def root_of(node: Node, inside: frozenset[Node]) -> Node:
    """The node in whose memory `node` lies, going back through views that are part of the fusion."""
    while node in inside and node.target in VIEWS and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def view_of(node: Node, root: Node) -> StridedView | None:
    """How `node`'s elements lie in `root`'s memory; None if it is `root`, to the stride."""
    found, base = node.meta["val"], root.meta["val"]
    offset = found.storage_offset() - base.storage_offset()
    view = StridedView(tuple(found.shape), tuple(found.stride()), offset)
    return None if node is root or view == StridedView(tuple(base.shape), tuple(base.stride()), 0) else view


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie without gaps, in whatever order of the dimensions."""
    from fusetune.graph.operators.strided import dense_order

    return dense_order(tensor.shape, tensor.stride()) is not None


def is_row_major(tensor: torch.Tensor) -> bool:
    """Whether the elements lie as those of a new tensor."""
    step: TorchSize = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if known(size) != 1 and str(stride) != str(step):
            return False
        step = step * size
    return True
