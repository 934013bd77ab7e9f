"""Compiling on one thread while the program runs on others. Torch keeps three things for all threads that a
compilation changes, and that a step beside it would notice:

- that something is traced by fx: a compiled function that is called meanwhile refuses to run;
- the state of random numbers: it is saved before a compilation and put back behind it, with all that was drawn between
  drawn again;
- its lock of compilations: only one runs at a time.

Here the first two are kept to the thread that compiles. And what it compiles is kept in Inductor's caches under the key
that it has where Dynamo compiles it: a later process finds it there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch

_compiling: list[int] = []
"""The thread that compiles, by its number; empty if none does."""


@contextlib.contextmanager
def beside_the_program() -> Iterator[None]:
    """What is compiled inside is none of Dynamo's own compilations. Waits until those are done."""
    from torch._dynamo.convert_frame import compile_lock

    with compile_lock, torch._guards.tracing(None), _random_numbers_untouched(), _kept_in_caches():
        _tell_threads_apart()
        outer = list(_compiling)
        _compiling[:] = [threading.get_ident()]
        try:
            yield
        finally:
            _compiling[:] = outer


def is_elsewhere() -> bool:
    """Whether another thread than this one compiles here."""
    return bool(_compiling) and _compiling[0] != threading.get_ident()


def _is_traced_on_this_thread() -> bool:
    # The names are those of torch.fx._symbolic_trace, whose function takes this code.
    return (
        _is_fx_tracing_flag  # type: ignore[name-defined]  # noqa: F821 - a name of that module
        and not torch.compiler.is_compiling()
        and not _fusetune_is_elsewhere()  # type: ignore[name-defined]  # noqa: F821 - put there below
    )


def _tell_threads_apart() -> None:
    """`is_fx_symbolic_tracing` speaks of its caller's thread. Compiled functions hold the function itself, so that its
    code has to change, and not the name that it stands under."""
    module: Any = torch.fx._symbolic_trace
    asked: FunctionType = module.is_fx_symbolic_tracing
    if asked.__code__ is not _is_traced_on_this_thread.__code__:
        module._fusetune_is_elsewhere = is_elsewhere
        asked.__code__ = _is_traced_on_this_thread.__code__


@contextlib.contextmanager
def _random_numbers_untouched() -> Iterator[None]:
    """This thread puts no state of random numbers back. A compilation draws none."""
    places = ((torch.random, "set_rng_state"), (torch.cuda, "set_rng_state"))
    before = [(module, name, getattr(module, name)) for module, name in places]
    thread = threading.get_ident()
    for module, name, function in before:
        setattr(module, name, _elsewhere_alone(function, thread))
    try:
        yield
    finally:
        for module, name, function in before:
            setattr(module, name, function)


def _elsewhere_alone(function: Callable[..., Any], thread: int) -> Callable[..., Any]:
    def given(*args: Any, **kwargs: Any) -> Any:
        return None if threading.get_ident() == thread else function(*args, **kwargs)

    return given


@contextlib.contextmanager
def _kept_in_caches() -> Iterator[None]:
    """Caches ask for the environment of the sizes that are open, and keep nothing where there is none. Tensors that
    know one would say that sizes are open, which is part of a graph's key: so there is one that no tensor knows."""
    from torch._inductor.codecache import GuardedCache
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    before = GuardedCache.__dict__["_get_shape_env"]
    sizes, thread = ShapeEnv(), threading.get_ident()

    def of_this_thread(cls: type) -> Any:
        return sizes if threading.get_ident() == thread else before.__func__(cls)

    GuardedCache._get_shape_env = classmethod(of_this_thread)  # type: ignore[assignment,method-assign]  # torch's, for a while
    try:
        yield
    finally:
        GuardedCache._get_shape_env = before  # type: ignore[method-assign]  # as it was
