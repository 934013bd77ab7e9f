"""Kernels that are none: the reference computes what a fusion means, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from compiler.ir.pinned import pinned
from compiler.reference import evaluate, settled
from compiler.wire import bind
from fusetune.errors import LaunchFailed, WrongArguments
from fusetune.fusion import Fusion
from fusetune.jitting.clocks import KnownTimes
from fusetune.torch import DTYPES
from fusetune.wire.artifact import Evidence, TensorSpec
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash


@dataclass(frozen=True)
class _Artifact:
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    fingerprint: str
    binding: str
    evidence: Evidence
    code_hash: str


class ReferenceKernel:
    """Called like a kernel, with a kernel's bits: products in sums are rounded with them. `calls` counts; broken is
    what the driver refuses."""

    def __init__(self, fusion: Fusion, binding: Binding, align: int = 1, code: str = "reference") -> None:
        self.fusion = fusion
        self.bound = pinned(bind(fusion, binding))
        self.artifact = _Artifact(
            tuple(self._spec(name, align) for name in self.bound.inputs),
            tuple(self._spec(name, 16) for name in self.bound.outputs),
            fusion.fingerprint, binding_hash(fusion, binding),
            Evidence(correct="verified_on_gpu", time="measured"), code,
        )  # fmt: skip
        self.calls, self.is_broken = 0, False

    def _spec(self, name: str, align: int) -> TensorSpec:
        """The tensor as its caller sees it."""
        value, order = self.bound.value(name), self._order(name, len(self.bound.value(name).shape))
        back = [order.index(dim) for dim in range(len(order))]
        shape, strides = (tuple(side[n] for n in back) for side in (value.shape, value.strides))
        return TensorSpec(shape=shape, strides=strides, dtype=value.dtype.value, align=align)

    def __call__(self, *arguments: Any) -> torch.Tensor | tuple[torch.Tensor, ...]:
        if self.is_broken:
            raise LaunchFailed("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE", 1)
        if any(stated.list for stated in self.fusion.inputs):
            found_lists: Any = self._of_lists(arguments)
            return found_lists  # type: ignore[no-any-return]  # lists of tensors, as a kernel over lists gives
        for n, (given, spec) in enumerate(zip(arguments, self.artifact.inputs, strict=False)):
            if given.data_ptr() % spec.align:
                raise WrongArguments(f"input {n}", "an odd address", f"a multiple of {spec.align}", "Copy it.")
        self.calls += 1
        count = len(self.bound.inputs)
        fusion = settled(self.bound, arguments[count:]) if arguments[count:] else self.bound
        named = zip(self.bound.inputs, arguments[:count], strict=True)
        found = evaluate(fusion, [np.transpose(_array(x), self._order(name, x.dim())) for name, x in named], np)
        into = {name: arguments[self.bound.inputs.index(alias)] for name, alias in self.bound.aliases}
        named = zip(self.bound.outputs, found, strict=True)
        outputs = tuple(self._output(name, array, into.get(name)) for name, array in named)
        return outputs[0] if len(outputs) == 1 else outputs

    def _of_lists(self, arguments: Sequence[Any]) -> Any:
        """Each place by itself, flat, at its own size."""
        self.calls += 1
        lists = [x for x, stated in zip(arguments, self.fusion.inputs, strict=False) if stated.list]
        assert all(len(x) == len(lists[0]) for x in lists)
        made = [self._place([x[n] if isinstance(x, list) else x for x in arguments]) for n in range(len(lists[0]))]
        found = tuple([one[n] for one in made] for n in range(len(self.bound.outputs)))
        return found[0] if len(found) == 1 else found

    def _place(self, given: list[Any]) -> list[torch.Tensor]:
        sized = [x for x, stated in zip(given, self.fusion.inputs, strict=False) if stated.shape]
        like = sized[0]
        assert all(x.shape == like.shape and x.stride() == like.stride() for x in sized)
        size = self.fusion.list_size
        assert isinstance(size, str)
        bound = pinned(bind(self.fusion, Binding(sizes={size: like.numel()})))
        count = len(bound.inputs)
        if given[count:]:
            bound = settled(bound, given[count:])
        flat = [_flat(x) if stated.shape else x for x, stated in zip(given, self.fusion.inputs, strict=False)]
        found = evaluate(bound, [_array(x) for x in flat], np)
        into = {name: bound.inputs.index(alias) for name, alias in bound.aliases}
        results = []
        for name, array in zip(bound.outputs, found, strict=True):
            dtype = DTYPES[bound.value(name).dtype.value]
            out = given[into[name]] if name in into else torch.empty_strided(like.shape, like.stride(), dtype=dtype)
            _flat(out).copy_(torch.from_numpy(np.array(array)))
            results.append(out)
        return results

    def _order(self, name: str, rank: int) -> tuple[int, ...]:
        return dict(self.bound.orders).get(name, tuple(range(rank)))

    def _output(self, name: str, array: Any, into: torch.Tensor | None) -> torch.Tensor:
        """In the layout and the order of dimensions that the caller was told, or in the input that it is written to."""
        value = self.bound.value(name)
        if into is not None:
            order = self._order(name, into.dim())
            into.permute(order).copy_(torch.from_numpy(np.array(array)).reshape(value.shape))
            return into
        laid = torch.empty_strided(value.shape, value.strides, dtype=DTYPES[value.dtype.value])
        laid.copy_(torch.from_numpy(np.array(array)).reshape(value.shape))
        order = self._order(name, laid.dim())
        return laid.permute([order.index(dim) for dim in range(laid.dim())])


def _flat(x: torch.Tensor) -> torch.Tensor:
    """The elements of a dense tensor as they lie in memory."""
    return x.detach().as_strided((x.numel(),), (1,))


def _array(x: torch.Tensor) -> Any:
    x = x.detach()
    return (x.double() if x.is_floating_point() else x).numpy()


class FakeKernels:
    """A source that has every kernel at once, or after `ready_after` looks; what was asked for is in `asked`."""

    def __init__(self, ready_after: int = 0, align: int = 1, code: str = "reference") -> None:
        self.ready_after, self.align, self.code = ready_after, align, code
        self.asked: list[tuple[str, float]] = []
        self.kernels: dict[tuple[str, str], Any] = {}
        self.looks = 0

    def peek(self, fusion: Any, binding: Binding) -> Any:
        self.looks += 1
        if self.looks <= self.ready_after:
            return None
        key = fusion.fingerprint, binding.to_json()
        if key not in self.kernels:
            self.kernels[key] = ReferenceKernel(fusion, binding, self.align, self.code)
        return self.kernels[key]

    def request(self, fusion: Any, binding: Binding, *, weight: float) -> None:
        self.asked.append((fusion.fingerprint, weight))


class OneKernel(FakeKernels):
    """Has one kernel alone, until it gives all."""

    gives_all = False

    def peek(self, fusion: Any, binding: Binding) -> Any:
        if self.kernels and not self.gives_all and (fusion.fingerprint, binding.to_json()) not in self.kernels:
            return None
        return super().peek(fusion, binding)


@dataclass
class FixedClock:
    """Says what it is told. `compared` counts."""

    otherwise_us: float = 2.0
    kernel_us: float = 1.0
    compared: list[object] = field(default_factory=list)

    def compare(self, otherwise: Any, kernel: Any) -> KnownTimes:
        self.compared.append(type(kernel))  # not the call, which holds tensors
        return KnownTimes(self.otherwise_us, self.kernel_us)


class RunningClock(FixedClock):
    """Runs both before it says so."""

    def compare(self, otherwise: Any, kernel: Any) -> KnownTimes:
        otherwise()
        kernel()
        return super().compare(otherwise, kernel)


class BrokenKernels(FakeKernels):
    """Kernels that the driver refuses."""

    def peek(self, fusion: Any, binding: Binding) -> Any:
        kernel = super().peek(fusion, binding)
        kernel.is_broken = True
        return kernel
