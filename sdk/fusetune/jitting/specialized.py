"""One kind of call of a function: its fusion and binding, and the kernel that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fusetune.errors import CannotConvert, FusetuneError
from fusetune.fusion import Fusion
from fusetune.graph import Captured, Converted, capture
from fusetune.graph.ambient import on_a_thread
from fusetune.jitting.calling import Run, run_of
from fusetune.jitting.last_call import LastCall
from fusetune.jitting.trial import KernelTrial
from fusetune.running.source import Search, key_of
from fusetune.wire.binding import Binding

NEEDS_ITS_OWN = "it closes over a tensor that needs gradients; pass it as an argument"
DRAWS = "it draws random numbers, which a kernel would draw otherwise than torch"


@dataclass(slots=True, eq=False)
class Specialized:
    """`run` is None as long as eager runs; `why` says why it always will. `bytes`: what a call reads and writes.

    A call that needs gradients has two `halves`, forward and backward, and `join` makes its run of their kernels; the
    forward alone, where gradients are passed on as they are.
    `last`: what tells calls like its last one; from call `like_at` on another is made where calls are like it no more.
    `trial`: its kernels beside eager, from when they are there. `device`: of its tensors, if that is of CUDA.
    `wrap`: what its run is wrapped in. `is_flat`: no argument holds several, and none is passed by name.
    """

    fusion: Fusion | None = None
    binding: Binding = field(default_factory=Binding)
    captured: Captured | None = None
    converted: Converted | None = None
    key_text: str = ""
    bytes: int = 0
    card: str | None = None
    device: torch.device | None = None
    why: str = ""
    refusal: CannotConvert | None = None
    stays_eager: bool = False
    run: Run | None = None
    kernel: Any = None
    calls: int = 0
    last: LastCall | None = None
    like_at: int = 0
    trial: KernelTrial | None = None
    halves: tuple[Specialized, ...] = ()
    join: Callable[..., Run] | None = None
    wrap: Callable[[Run], Run] = lambda run: run
    is_flat: bool = False

    @property
    def parts(self) -> tuple[Specialized, ...]:
        """What has kernels of its own: itself, or its halves."""
        return self.halves or (self,)

    @property
    def origin(self) -> str:
        """Where its kernel came from."""
        return str(getattr(self.kernel, "origin", "kernel"))

    @classmethod
    def eager(cls, why: str, refusal: CannotConvert | None = None) -> Specialized:
        """A call that no kernel will run."""
        return cls(why=why, key_text=why, refusal=refusal, stays_eager=True)

    @classmethod
    def of_fusion(
        cls, converted: Converted, binding: Binding, captured: Captured | None = None, *, size: int
    ) -> Specialized:
        """A call, or a half of one, as a fusion at a binding; it moves `size` bytes."""
        key = key_of(converted.fusion, binding)
        return cls(converted.fusion, binding, captured, converted, f"{key[0][:12]}/{key[1][:12]}", size)

    @classmethod
    def of_halves(cls, halves: tuple[Specialized, ...], join: Callable[..., Run]) -> Specialized:
        """A call whose gradients come of kernels."""
        forward, key_text = halves[0], "+".join(half.key_text for half in halves)
        return cls(
            forward.fusion, forward.binding, key_text=key_text, bytes=sum(half.bytes for half in halves),
            halves=halves, join=join,
        )  # fmt: skip

    @classmethod
    def of_gradient(cls, made: Callable[[], Specialized]) -> Specialized:
        """What `made` gives; where it cannot be said, what is refused stands in `why`."""
        try:
            return made()
        except FusetuneError as error:
            return cls.eager(str(error), error if isinstance(error, CannotConvert) else None)

    @classmethod
    def traced(
        cls, fn: Callable[..., Any], args: Any, kwargs: Any, dynamic: bool, is_inside: bool = False
    ) -> Specialized:
        """The call, traced; where it cannot be said, what is refused stands in `why`. `is_inside`: an operator of
        torch makes the call."""
        try:
            tracing = partial(capture, fn, args, kwargs, symbolic=dynamic)
            # Inside an operator this thread dispatches below autograd, where nothing can be traced.
            captured = on_a_thread(tracing) if is_inside else tracing()
            converted = captured.converted()
            if converted.draws:
                return cls.eager(DRAWS)
            if torch.is_grad_enabled() and any(x.requires_grad for x in captured.closed):
                return cls.eager(NEEDS_ITS_OWN)
            given = dict(zip(captured.placeholders, captured.tensors(args, kwargs), strict=True))
            tensors = [given[node] for node in converted.nodes]
            binding = converted.binding(tensors)
        except CannotConvert as error:
            return cls.eager(str(error), error)
        except FusetuneError as error:
            return cls.eager(str(error))
        size = sum(x.numel() * x.element_size() for x in tensors)
        size += sum(_bytes(form.node.meta["val"]) for form in converted.outputs if form.of == "output")
        found = cls.of_fusion(converted, binding, captured, size=size)
        found.is_flat = not kwargs and all(x is y for x, y in zip_longest(args, pytree.tree_leaves(tuple(args))))
        return found

    def hold(self, *kernels: Any) -> Run:
        """Keeps these, a kernel for each part; the call by them, which nobody runs yet."""
        for part, kernel in zip(self.parts, kernels, strict=True):
            part.kernel = kernel
        self.kernel = kernels[0]
        return self.wrap(self._runner(self.kernel) if self.join is None else self.join(*kernels))

    def searches(self, search: Search, buckets: Sequence[int] | str) -> Iterator[tuple[Binding, Search]]:
        """What to ask for: the binding, or the next larger bucket's and then the binding with that one's schedule."""
        search = self.search_on_card(search)
        edge = self._edge(buckets)
        if edge is None or edge == self.binding:
            yield self.binding, search
        else:
            yield edge, search
            yield self.binding, replace(search, trials=1)

    def search_on_card(self, search: Search) -> Search:
        """The search, for the card that the call's tensors are on: another card's kernel may not even load."""
        return replace(search, card=search.card or self.card)

    def _edge(self, buckets: Sequence[int] | str) -> Binding | None:
        sizes = dict(self.binding.sizes)
        if buckets == "exact" or not sizes or any(x.strides is not None for x in self.binding.inputs):
            return None
        return self.binding.model_copy(update={"sizes": {name: next_size(n, buckets) for name, n in sizes.items()}})

    def _runner(self, kernel: Any) -> Run:
        assert self.captured is not None
        assert self.converted is not None
        return run_of(kernel, self.captured, self.converted, self.binding.sizes, self.is_flat)


def next_size(size: int, buckets: Sequence[int] | str) -> int:
    """The bucket that a size is tuned in: the next power of 2, or the next of a list, beyond which it is its own."""
    if buckets == "pow2":
        return 1 << (size - 1).bit_length()
    return min((edge for edge in map(int, buckets) if edge >= size), default=size)


def _bytes(value: Any) -> int:
    return int(value.numel()) * int(value.element_size()) if isinstance(value, torch.Tensor) else 0
