"""What torch's library does behind a product in one kernel: a bias and a tanh GELU, which then cost no pass of their
own.

A region that is such a function of a product, and of nothing else, has this as a second way beside its own kernel. Like
a kernel it is timed once, product and all, and taken only where it is faster.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from fusetune.graph import capture
from fusetune.graph.lines import line_of
from fusetune.torch import DTYPES
from fusetune.torch_compile.inside.regions import PortableRegion, ResultPlace, tensor_form, written
from fusetune.torch_compile.regions.operators import VIEWS, name_of
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.units import UnitGraph
from fusetune.wire.artifact import TensorSpec

aten = torch.ops.aten

GELU_OF_PRODUCT = "gelu_of_product"

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def gelu_of_product(flow: UnitGraph, region: Region, said: PortableRegion) -> tuple[Region, PortableRegion] | None:
    """The region with the product before it, if it is the tanh GELU of that alone."""
    if len(region.inputs) != 1 or len(region.outputs) != 1:
        return None
    value, chain = region.inputs[0].meta["val"], _behind_product(region.inputs[0])
    if chain is None or said.fusion.fingerprint != _gelu(tuple(value.shape), value.dtype):
        return None
    product, views = chain
    bias, left, right = product.args[:3]
    nodes = (product, *views, *region.nodes)
    units = (flow.units[flow.unit_of[product]], *region.units)
    whole = Region(units, nodes, (bias, left, right), region.outputs)  # type: ignore[arg-type]  # nodes, all three
    out = region.outputs[0].meta["val"]
    forms = tuple(tensor_form(node.meta["val"]) for node in whole.inputs)
    place = ResultPlace(position=0, size=tuple(out.shape), strides=tuple(out.stride()))
    key = hashlib.sha256("".join(x.model_dump_json() for x in (*forms, place)).encode()).hexdigest()
    return whole, PortableRegion(
        graph=said.graph, number=said.number, line=said.line or line_of(product), operators=whole.operators,
        moved_bytes=said.moved_bytes, fusion_json=said.fusion_json, binding_json=said.binding_json,
        program=written(whole), inputs=forms, reads=(0, 1, 2), places=(place,),
        library=GELU_OF_PRODUCT, library_key=key, covers=(said.number,),
    )  # fmt: skip


def _behind_product(node: fx.Node) -> tuple[fx.Node, tuple[fx.Node, ...]] | None:
    """The product with a bias that a node is, or is a view of, and the views between, the first first; None if anybody
    else reads any of them."""
    views: list[fx.Node] = []
    while name_of(node) in VIEWS and len(node.all_input_nodes) == 1:
        views.insert(0, node)
        node = node.all_input_nodes[0]
    if node.target is not aten.addmm.default or node.kwargs or len(node.args) != 3:
        return None
    bias: Any = node.args[0]
    is_plain = bias.meta["val"].dim() == 1 and all(x.meta["val"].is_contiguous() for x in (node, *views))
    is_alone = all(len(x.users) == 1 for x in (node, *views[:-1]))
    return (node, tuple(views)) if is_plain and is_alone else None


@functools.lru_cache(maxsize=64)
def _gelu(shape: tuple[int, ...], dtype: torch.dtype) -> str:
    """The fingerprint of a tanh GELU as Inductor takes it apart."""
    from torch._inductor.decomposition import select_decomp_table

    rule = select_decomp_table()[aten.gelu.default]
    like = torch.empty(shape, dtype=dtype, device="meta")
    found: str = capture(lambda x: rule(x, approximate="tanh"), [like]).converted().fusion.fingerprint
    return found


@dataclass(frozen=True)
class LibraryArtifact:
    """What is known of it, as of a kernel's artifact."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    fingerprint: str
    binding: str
    code_hash: str = torch.__version__


class LibraryKernel:
    """Torch's own operator, called like a kernel."""

    told = "torch's own operator"

    def __init__(self, region: PortableRegion) -> None:
        specs = tuple(
            TensorSpec(shape=x.shape, strides=x.strides, dtype=_NAMES[getattr(torch, x.dtype)], align=1)
            for x in region.inputs
        )
        rows, columns = region.inputs[1].shape[0], region.inputs[2].shape[1]
        made = TensorSpec(shape=(rows, columns), strides=(columns, 1), dtype=specs[0].dtype, align=16)
        self.artifact = LibraryArtifact(specs, (made,), *region.key)

    def __call__(self, bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """One kernel of the library on CUDA; elsewhere torch has an exact GELU under that name."""
        if not left.is_cuda:
            return functional.gelu(torch.addmm(bias, left, right), approximate="tanh")
        found: torch.Tensor = aten._addmm_activation(bias, left, right, use_gelu=True)
        return found
