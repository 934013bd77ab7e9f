"""`PortableRegion`: a region as text, which outlives its graph and its process: its fusion, and its own operators.

In a process that takes Inductor's compiled graph out of Inductor's cache no pass runs and no region is seen: what a
kernel's call needs beside the kernel is had from here.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import fx

from fusetune.errors import CannotConvert
from fusetune.fusion import Fusion
from fusetune.graph.lines import line_of
from fusetune.running.source import key_of
from fusetune.torch import DTYPES
from fusetune.torch_compile.lowering import Lowered, positions_of
from fusetune.torch_compile.regions.region import Region
from fusetune.wire.artifact import TensorSpec, Wire
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Seq

Kind = Literal["forward", "backward", "inference"]


class RegionInput(Wire):
    """A tensor that a region reads; strides in elements."""

    shape: Seq[int]
    strides: Seq[int]
    dtype: str

    def empty(self, device: torch.device) -> torch.Tensor:
        """A new one, with whatever its memory holds."""
        return torch.empty_strided(self.shape, self.strides, dtype=getattr(torch, self.dtype), device=device)


class ResultPlace(Wire):
    """Where a region's output lies: in the kernel's output of this number, as it is, or by sizes, strides, offset."""

    position: int
    size: Seq[int] | None = None
    strides: Seq[int] = ()
    offset: int = 0

    def of(self, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """The region's output, of those of the kernel."""
        found = outputs[self.position]
        return found if self.size is None else found.as_strided(self.size, self.strides, self.offset)


class PortableRegion(Wire):
    """`program` is Python: a method `forward` of the region's `inputs`, in order, that returns its outputs. `reads`:
    for each tensor of the fusion the input that it is; `places`: where the region's outputs are to be found.
    `library`: what of torch does it in the place of a kernel, by `library_key`. `covers`: of one with products in it,
    the numbers of the regions that it stands for."""

    graph: Kind
    number: int
    line: str
    operators: int
    moved_bytes: int
    fusion_json: str
    binding_json: str
    program: str
    inputs: Seq[RegionInput]
    reads: Seq[int]
    places: Seq[ResultPlace]
    library: str = ""
    library_key: str = ""
    covers: Seq[int] = ()

    @functools.cached_property
    def fusion(self) -> Fusion:
        """Raises InvalidFusion where the text is none."""
        return Fusion.from_json(self.fusion_json)

    @functools.cached_property
    def binding(self) -> Binding:
        """Of the tensors in `inputs`."""
        return Binding.model_validate_json(self.binding_json)

    @functools.cached_property
    def key(self) -> tuple[str, str]:
        """What a kernel of it is known by."""
        if self.library:
            return self.library, self.library_key
        return key_of(self.fusion, self.binding)

    def otherwise(self, device: torch.device) -> Callable[[Sequence[torch.Tensor], Sequence[TensorSpec]], Any]:
        """What gives a kernel's outputs without it: of the fusion's tensors, in the memory that `specs` asks for."""
        run = forward_of(self.program, device)
        count = len(self.inputs)

        def outputs(tensors: Sequence[torch.Tensor], specs: Sequence[TensorSpec]) -> list[torch.Tensor]:
            given: list[Any] = [None] * count
            for tensor, position in zip(tensors, self.reads, strict=True):
                given[position] = tensor
            found = run(*given)
            made = [torch.empty_strided(x.shape, x.strides, dtype=DTYPES[x.dtype], device=device) for x in specs]
            for place, value in zip(self.places, found, strict=True):
                place.of(made).copy_(value)
            return made

        return outputs


def portable(
    region: Region, lowered: Lowered, binding: Binding, kind: Kind, number: int, covers: Sequence[int] = ()
) -> PortableRegion:
    """The region as text. Raises CannotConvert for one that no call inside Inductor can stand for."""
    converted = lowered.converted
    reads = positions_of(lowered)
    if converted.symbols or any(_is_open(x.meta["val"]) for x in region.inputs):
        raise CannotConvert("the region", "its sizes are open")
    if converted.scalars:
        raise CannotConvert("the region", "it reads numbers from the host's memory")
    if None in reads or any(form.of != "output" or form.alias is not None for form in converted.outputs):
        raise CannotConvert("the region", "it draws, writes into what it reads, or returns it")
    tensors = [node.meta["val"] for node in region.inputs]
    if not tensors or len({*reads}) != len(tensors):
        raise CannotConvert("the region", "it reads nothing, or a tensor that its fusion does not")
    by_node = {form.node: form for form in converted.outputs}
    forms = [by_node[node] for node in lowered.captured.outputs]
    places = [
        ResultPlace(position=x.position) if x.view is None
        else ResultPlace(position=x.position, size=tuple(map(int, x.view.size)), strides=tuple(map(int, x.view.stride)),
                   offset=int(x.view.offset))
        for x in forms
    ]  # fmt: skip
    return PortableRegion(
        graph=kind, number=number,
        line=next((found for node in region.nodes if (found := line_of(node))), ""),
        operators=region.operators, moved_bytes=region.moved_bytes,
        fusion_json=converted.fusion.to_json(), binding_json=binding.to_json(),
        program=written(region),
        inputs=tuple(tensor_form(x) for x in tensors), reads=tuple(n for n in reads if n is not None),
        places=tuple(places), covers=tuple(covers),
    )  # fmt: skip


def written(region: Region) -> str:
    """The region's operators as Python. Raises CannotConvert where they cannot be written down."""
    graph = fx.Graph()
    at = {node: graph.placeholder(f"x{n}") for n, node in enumerate(region.inputs)}
    for node in region.nodes:
        at[node] = graph.node_copy(node, lambda x: at[x])
        at[node].meta = {}
    graph.output(tuple(at[node] for node in region.outputs))
    code = graph.python_code("self")
    used = {node.id for node in ast.walk(ast.parse(code.src)) if isinstance(node, ast.Name)}
    strange = (code.globals.keys() & used) - _globals(torch.device("cpu")).keys()
    if strange:
        raise CannotConvert("the region", f"its operators name {', '.join(sorted(strange))}")
    return code.src


@functools.lru_cache(maxsize=512)
def forward_of(program: str, device: torch.device) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The function that a program says, on this device."""
    names = _globals(device)
    exec(compile(program, "<a region>", "exec"), names)
    forward = names["forward"]
    return functools.partial(forward, None)


def _globals(device: torch.device) -> dict[str, Any]:
    def named(type: str, index: int | None = None) -> torch.device:
        """The device that is meant, whatever its number was where the text was written."""
        return device if type == device.type else torch.device(type)

    return {"torch": torch, "device": named, "inf": math.inf, "nan": math.nan, "NoneType": type(None)}


def tensor_form(x: torch.Tensor) -> RegionInput:
    """How it lies in memory."""
    return RegionInput(shape=tuple(x.shape), strides=tuple(x.stride()), dtype=str(x.dtype).removeprefix("torch."))


def _is_open(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return True
    return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride(), value.storage_offset()))
