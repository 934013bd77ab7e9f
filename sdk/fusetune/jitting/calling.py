"""A kernel as the function that it was made of: tensors out of the arguments, results out of what it gives.

What can be settled when the kernel is taken is settled there: a call that is repeated does little beside the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fusetune.graph import Captured, Converted

Run = Callable[[tuple[Any, ...], Any], Any]
Tensors = Sequence[torch.Tensor]


def run_of(kernel: Any, captured: Captured, converted: Converted, sizes: Mapping[str, int], is_flat: bool) -> Run:
    """`is_flat`: no argument of a call holds several, and none is passed by name."""
    tensors_of = _taking(captured, converted, is_flat)
    call, result_of = checked_once(kernel), _giving(captured, converted, sizes)
    if not converted.scalars:

        def run(args: tuple[Any, ...], kwargs: Any) -> Any:
            tensors = tensors_of(args, kwargs)
            return result_of(tensors, call(tensors))

        return run

    nodes = converted.nodes

    def run_with_numbers(args: tuple[Any, ...], kwargs: Any) -> Any:
        given = dict(zip(captured.placeholders, captured.tensors(args, kwargs), strict=True))
        tensors = tuple(given[node] for node in nodes)
        return result_of(tensors, kernel(*tensors, *converted.numbers(given, sizes)))

    return run_with_numbers


def checked_once(kernel: Any) -> Callable[[Tensors], Any]:
    """The kernel on tensors that are alike from call to call: the first call checks what then holds of all."""
    known: Callable[[Tensors], Any] | None = None

    def call(tensors: Tensors) -> Any:
        nonlocal known
        if known is not None:
            return known(tensors)
        made = kernel(*tensors)
        known = getattr(kernel, "known", None)
        return made

    return call


def _taking(captured: Captured, converted: Converted, is_flat: bool) -> Callable[[tuple[Any, ...], Any], Tensors]:
    """The kernel's tensors, in its order, of the arguments of a call."""
    of_captured = [captured.placeholders.index(node) for node in converted.inputs]
    count, closed = len(captured.arguments), captured.closed

    def in_general(args: tuple[Any, ...], kwargs: Any) -> Tensors:
        given = captured.tensors(args, kwargs)
        return [given[n] for n in of_captured]

    if not is_flat or any(n >= count + len(closed) for n in of_captured):
        return in_general
    if any(n >= count for n in of_captured):
        taken = [(0, closed[n - count]) if n >= count else (captured.arguments[n], None) for n in of_captured]
        return lambda args, kwargs: (
            in_general(args, kwargs) if kwargs else [args[n] if held is None else held for n, held in taken]
        )
    places = tuple(captured.arguments[n] for n in of_captured)
    if places == tuple(range(len(places))):
        every = len(places)
        return lambda args, kwargs: args if len(args) == every and not kwargs else in_general(args, kwargs)[:every]
    return lambda args, kwargs: [args[n] for n in places] if not kwargs else in_general(args, kwargs)


def _giving(captured: Captured, converted: Converted, sizes: Mapping[str, int]) -> Callable[[Tensors, Any], Any]:
    """The function's result, of the kernel's tensors and of what it gave."""
    nodes = [form.node for form in converted.outputs]
    at = {form.node: form.position for form in converted.outputs if form.of == "output" and form.view is None}

    def in_general(tensors: Tensors, made: Any) -> Any:
        values = converted.values(tensors, made if isinstance(made, tuple) else (made,), sizes)
        return captured.result(dict(zip(nodes, values, strict=True)))

    if not all(isinstance(x, torch.fx.Node) and x in at for x in captured.outputs):
        return in_general
    places = [at[x] for x in captured.outputs]
    is_one = len({form.position for form in converted.outputs if form.of == "output"}) == 1
    if captured.out_spec.is_leaf():
        return (lambda tensors, made: made) if is_one else (lambda tensors, made: made[places[0]])
    is_tuple = captured.out_spec.type is tuple and all(x.is_leaf() for x in captured.out_spec.children())
    if is_tuple and not is_one:
        return lambda tensors, made: tuple([made[n] for n in places])
    return in_general
