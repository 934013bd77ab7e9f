"""`regions_of`: what torch.compile would ask for, without asking anybody: for tunings ahead of time, and for CI."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fusetune.running.source import Key, key_of
from fusetune.torch_compile.choosing import KernelChoice, KernelChoices
from fusetune.torch_compile.compiling import CompileBackend
from fusetune.torch_compile.inside.compiling import look
from fusetune.torch_compile.inside.norms import norms_of_a_card
from fusetune.torch_compile.inside.passes import Looking, Proposer
from fusetune.torch_compile.inside.regions import PortableRegion
from fusetune.torch_compile.inside.traced import TracedGraph, fakes_of, may_be_compiled_again
from fusetune.torch_compile.options import CompileOptions
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Fusion


@dataclass(frozen=True)
class RegionRequest:
    """A fusion at a binding, the bytes that it moves in a step, in all its places, and the lines that it stands for."""

    fusion: Fusion
    binding: Binding
    weight: float
    lines: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = ", ".join(line.rpartition("/")[2] for line in self.lines)
        return f"RegionRequest({len(self.fusion.ops)} operators, {self.weight:.0f} bytes, {lines})"


def regions_of(
    function: Callable[..., Any],
    *args: Any,
    gradients: bool = False,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> tuple[RegionRequest, ...]:
    """The distinct regions of a call of a function or a module, the heaviest first. The call is made once, in eager;
    what torch.compile has compiled in this process is dropped, and is compiled again when it is called.

    `gradients`: those of its backward too. `options`: as of torch.compile(backend="fusetune"). What a process asks for
    on a card may differ in what torch does otherwise there, such as attention: trace there what is to run there.
    """
    source = _Noted()
    backend = CompileBackend(source)
    chosen = CompileOptions.read(options, None)
    torch._dynamo.reset()
    compiler: Any = backend if chosen.host == "eager" else _Inside(backend, chosen)
    given: dict[str, Any] = {"options": {**(options or {}), "engine": "eager"}} if chosen.host == "eager" else {}
    with torch.set_grad_enabled(gradients):
        found = torch.compile(function, backend=compiler, **given)(*args, **kwargs)
    if gradients and chosen.host == "eager":
        _pull(pytree.tree_leaves(found), [*pytree.tree_leaves((args, kwargs)), *_parameters(function)])
    if isinstance(compiler, _Inside):
        compiler.request(source)
        return _requests(source, [(x.line, choice) for x, choice in compiler.found])
    pairs = [(x.line, choice) for x in backend.proposed if x.call is not None for choice in x.call.choices.values()]
    return _requests(source, pairs)


def _requests(source: _Noted, pairs: Sequence[tuple[str, KernelChoice]]) -> tuple[RegionRequest, ...]:
    lines: dict[Key, dict[str, None]] = {}
    weights: dict[Key, float] = {}
    for line, choice in pairs:
        lines.setdefault(choice.key, {})[line] = None
        weights[choice.key] = choice.weight
    regions = [RegionRequest(f, b, weights[key], tuple(lines[key])) for key, (f, b) in source.asked.items()]
    return tuple(sorted(regions, key=lambda region: (-region.weight, key_of(region.fusion, region.binding))))


class _Inside:
    """A backend that looks at the regions that a graph has inside Inductor, and runs it in eager."""

    def __init__(self, backend: CompileBackend, options: CompileOptions) -> None:
        self.backend, self.options = backend, options
        self.choices = KernelChoices("inductor")
        self.found: list[tuple[PortableRegion, KernelChoice]] = []

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        looking = Looking(Proposer(self.backend.lower, self.options.least_bytes))
        traced = TracedGraph(gm)
        given = fakes_of(inputs) if may_be_compiled_again(inputs) else inputs
        is_on_card = any(isinstance(x, torch.Tensor) and x.is_cuda for x in inputs)
        with contextlib.nullcontext() if is_on_card else norms_of_a_card():
            look(traced, given, self.options.patches, looking)
        for _, _, said in looking.found:
            if isinstance(said, PortableRegion) and not said.library:
                self.found.append((said, self.choices.of(said.fusion, said.binding, said.moved_bytes)))
        run: Callable[..., Any] = gm.forward
        return run

    def request(self, source: _Noted) -> None:
        """Each once."""
        for choice in self.choices.known.values():
            source.request(choice.fusion, choice.binding, weight=choice.weight)


def _parameters(function: Any) -> list[torch.Tensor]:
    return list(function.parameters()) if isinstance(function, torch.nn.Module) else []


def _pull(results: list[Any], inputs: list[Any]) -> None:
    """One backward, which changes no `grad`."""
    made, given = ([x for x in side if isinstance(x, torch.Tensor) and x.requires_grad] for side in (results, inputs))
    if made and given:
        torch.autograd.grad(made, given, [torch.zeros_like(x) for x in made], allow_unused=True)


class _Noted:
    """A source that has nothing and asks nobody."""

    def __init__(self) -> None:
        self.asked: dict[Key, tuple[Fusion, Binding]] = {}

    def peek(self, fusion: Fusion, binding: Binding) -> Any:
        """Nothing."""
        return None

    def request(self, fusion: Fusion, binding: Binding, *, weight: float) -> None:
        """Notes it."""
        self.asked[key_of(fusion, binding)] = fusion, binding
