"""Has Inductor compile a graph: as it is, only to see its regions, or with kernels in their places."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import fx

from fusetune.torch_compile.inside.beside import beside_the_program
from fusetune.torch_compile.inside.cutting import DecisionsKept
from fusetune.torch_compile.inside.passes import LookedAt, Looking, Taking, own_code
from fusetune.torch_compile.inside.regions import Kind
from fusetune.torch_compile.inside.traced import TracedGraph
from fusetune.torch_compile.program import boxed

Run = Callable[..., Any]
"""A compiled graph."""

Compile = Callable[..., Any]
"""What makes code of one graph of operators: Inductor's `compile_fx_inner`."""


def as_it_is(gm: fx.GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any], inner: Compile | None) -> Run:
    """What torch.compile does without us; the graph is taken over."""
    from torch._inductor.compile_fx import compile_fx

    return cast(Run, compile_fx(gm, inputs, inner_compile=code_maker(inner), config_patches=dict(patches)))


def look(traced: TracedGraph, inputs: Sequence[Any], patches: Mapping[str, Any], looking: Looking) -> None:
    """Shows `looking` the graphs that come of it, forward and backward. No code is made, nothing is kept in caches."""

    def seen(gm: fx.GraphModule, example_inputs: Sequence[Any], **settings: Any) -> Any:
        looking.kind = _kind_of(settings)
        try:
            code_maker(None)(gm, example_inputs, **settings)
        except Exception as error:
            if not _is_looked_at(error):
                raise
        return _nothing

    with apart(traced), _with_backward():
        from torch._inductor.compile_fx import compile_fx

        both = {**_cut(patches), "post_grad_custom_post_pass": looking}
        compile_fx(traced.copy(), inputs, inner_compile=seen, config_patches=both)


def with_kernels(
    gm: fx.GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any], taking: Taking, inner: Compile | None
) -> Run:
    """The graph with kernels where `taking` finds regions for them; the graph is taken over. The backward graph is
    compiled at once, whoever compiles: it is part of the key in AOTAutograd's cache."""
    from torch._inductor.compile_fx import compile_fx

    make = code_maker(inner)

    def compiled(gm: fx.GraphModule, example_inputs: Sequence[Any], **settings: Any) -> Any:
        taking.kind = _kind_of(settings)
        return make(gm, example_inputs, **settings)

    both = {**_cut(patches), "post_grad_custom_post_pass": taking}
    with _with_backward():
        return cast(Run, compile_fx(gm, inputs, inner_compile=compiled, config_patches=both))


@contextlib.contextmanager
def apart(traced: TracedGraph) -> Iterator[None]:
    """For a compilation beside the program: ambient as in the traced one."""
    with beside_the_program(), traced.ambient.entered():
        yield


def _cut(patches: Mapping[str, Any]) -> dict[str, Any]:
    """With our way to cut joint graphs, unless the user has one."""
    import torch._inductor.config as config

    own = patches.get("custom_partitioner_fn", config.custom_partitioner_fn)
    return {**patches, "custom_partitioner_fn": own if own is not None else DecisionsKept(own_code())}


def _with_backward() -> Any:
    return torch._functorch.config.patch(force_non_lazy_backward_lowering=True)


def earlier_pass(patches: Mapping[str, Any]) -> Any:
    """The pass that Inductor has in our place already; None if it has none."""
    import torch._inductor.config as config

    found = patches.get("post_grad_custom_post_pass", config.post_grad_custom_post_pass)
    return found or None


def code_maker(inner: Compile | None) -> Compile:
    """What makes code of a graph; Inductor's own unless another is given."""
    from torch._inductor.compile_fx import compile_fx_inner

    return compile_fx_inner if inner is None else inner


def _kind_of(settings: Mapping[str, Any]) -> Kind:
    if settings.get("is_backward"):
        return "backward"
    return "inference" if settings.get("is_inference") else "forward"


def _is_looked_at(error: Exception) -> bool:
    """Whether the exception is `LookedAt`: Inductor wraps what a pass raises."""
    return isinstance(error, LookedAt) or isinstance(getattr(error, "inner_exception", None), LookedAt)


@boxed
def _nothing(args: list[Any]) -> tuple[Any, ...]:
    raise AssertionError("a graph that was only looked at is not run")
