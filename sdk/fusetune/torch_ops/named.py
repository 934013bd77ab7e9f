"""Operators with a name of their own, of a kernel or of a function under jit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.library import Library, infer_schema, register_autograd, register_fake

from fusetune.errors import InvalidRequest
from fusetune.torch_ops.gradients import Gradients
from fusetune.torch_ops.outputs import as_returned, changed_inputs, own_outputs
from fusetune.wire.fusion import show
from fusetune.wire.problems import Problem

_TAGS = (torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag)
_LIBRARIES: dict[str, Library] = {}
"""Kept alive: an operator goes with its library."""


def register(name: str, made_of: Any, *, backward: Any = None, changes: Sequence[str] = ()) -> Callable[..., Any]:
    """The operator `name` ("mine::bias_gelu"), which runs a Kernel or a function under jit; returns how to call it.

    A kernel's operator takes its tensors, then its scalars. Inputs that the kernel writes are declared changed, and are
    returned as they are. A jit function needs annotated parameters; those that it changes are named in `changes`, and
    none may be returned.
    `backward`: a kernel that takes the inputs and then a gradient for each output, and gives one for each input. A jit
    function with `grad=True` brings its own. Raises InvalidRequest for a name or a kernel that cannot be.
    """
    space, _, op = name.partition("::")
    if not space.isidentifier() or not op.isidentifier():
        fix = "Write it like mine::bias_gelu."
        raise InvalidRequest((Problem("name", show(name), "a namespace and a name", fix),))
    if hasattr(getattr(torch.ops, space), op):
        raise InvalidRequest((Problem("name", show(name), "one that no operator has", "Choose another."),))
    if not hasattr(made_of, "artifact") and not hasattr(made_of, "part"):
        expected = "a Kernel, or a function under fusetune.jit"
        raise InvalidRequest((Problem("made_of", type(made_of).__name__, expected, "Decorate it: fusetune.jit."),))
    library = _LIBRARIES.setdefault(space, Library(space, "FRAGMENT"))
    if hasattr(made_of, "artifact"):
        return _of_kernel(library, space, op, made_of, backward)
    if backward is not None:
        fix = "Give it grad=True, and leave `backward` out."
        raise InvalidRequest((Problem("backward", "given", "none: a jit function brings its own", fix),))
    return _of_function(library, op, made_of, tuple(changes))


def _schema_of(function: Callable[..., Any], changes: tuple[str, ...]) -> str:
    try:
        return infer_schema(function, mutates_args=changes)
    except (ValueError, TypeError) as error:
        expected = "parameters and results with annotations of torch's types, those in `changes` among them"
        fix = "Annotate it, as in (x: torch.Tensor, scale: float) -> torch.Tensor."
        reason = str(error).splitlines()[0].removeprefix("infer_schema(func): ").rstrip(".")
        raise InvalidRequest((Problem("the function", reason, expected, fix),)) from None


def _define(
    library: Library, op: str, schema: str, run: Callable[..., Any], fake: Callable[..., Any]
) -> Callable[..., Any]:
    library.define(f"{op}{schema}", tags=_TAGS)
    for device in ("CUDA", "CPU"):
        library.impl(op, run, device)
    register_fake(f"{library.ns}::{op}", fake, lib=library)
    found: Callable[..., Any] = getattr(getattr(torch.ops, library.ns), op)
    return found


def _of_kernel(library: Library, space: str, op: str, kernel: Any, backward: Any) -> Callable[..., Any]:
    artifact, changed = kernel.artifact, changed_inputs(kernel)
    count = len(artifact.inputs)
    if backward is not None and changed:
        fix = "Leave `backward` out."
        raise InvalidRequest((Problem("backward", "given", "none: the kernel writes into its inputs", fix),))
    own = sum(spec.alias is None for spec in artifact.outputs)

    def shaped(found: list[torch.Tensor]) -> Any:
        return None if not own else found[0] if own == 1 else tuple(found)

    def run(*given: Any) -> Any:
        return shaped(own_outputs(kernel, kernel(*given)))

    def fake(*given: Any) -> Any:
        return shaped(as_returned(kernel, given[:count]))

    called = _define(library, op, _schema(artifact, changed, own), run, fake)
    if backward is not None:
        grads = register(f"{space}::{op}_backward", backward)
        _give_gradients(library, op, grads)
    if not changed:
        return called

    def with_inputs(*given: Any) -> Any:
        """The operator; outputs that are inputs stand in their places."""
        made = called(*given)
        rest = iter(() if made is None else made if isinstance(made, tuple) else (made,))
        found = [given[spec.alias] if spec.alias is not None else next(rest) for spec in artifact.outputs]
        return found[0] if len(found) == 1 else tuple(found)

    return with_inputs


def _schema(artifact: Any, changed: list[int], own: int) -> str:
    """`(Tensor x0, Tensor(a1!) x1, float s0) -> Tensor`"""
    tensors = [f"Tensor(a{n}!) x{n}" if n in changed else f"Tensor x{n}" for n in range(len(artifact.inputs))]
    kinds = ["int" if spec.dtype == "i64" else "float" for spec in artifact.scalars]
    numbers = [f"{kind} s{n}" for n, kind in enumerate(kinds)]
    results = "Tensor" if own == 1 else f"({', '.join(['Tensor'] * own)})"
    return f"({', '.join([*tensors, *numbers])}) -> {results}"


def _give_gradients(library: Library, op: str, backward: Callable[..., Any]) -> None:
    """Autograd for an operator: `backward` takes them and the gradients of the outputs."""

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*(x for x in inputs if isinstance(x, torch.Tensor)))
        ctx.given = [isinstance(x, torch.Tensor) for x in inputs]

    def run(ctx: Any, *gradients: torch.Tensor) -> Any:
        found = backward(*ctx.saved_tensors, *(x.contiguous() for x in gradients))
        each = iter(found if isinstance(found, tuple | list) else (found,))
        return tuple(next(each) if is_tensor else None for is_tensor in ctx.given)

    register_autograd(f"{library.ns}::{op}", run, setup_context=keep, lib=library)


def _of_function(library: Library, op: str, jitted: Any, changes: tuple[str, ...]) -> Callable[..., Any]:
    function = jitted.__wrapped__
    if changes and jitted.grad:
        fix = "Leave grad=True out of fusetune.jit."
        raise InvalidRequest((Problem("changes", show(list(changes)), "none: the function brings gradients", fix),))
    forward = torch.no_grad()(jitted.part("operator", function, is_inside=True))
    called = _define(library, op, _schema_of(function, changes), forward, function)
    if not jitted.grad:
        return called

    def define(suffix: str, schema: str, run: Callable[..., Any], fake: Callable[..., Any]) -> Any:
        return _define(library, op + suffix, schema, run, fake)

    library.impl(op, Gradients(jitted, called, define), "Autograd")
    return called
