"""`fusetune::run(Tensor[] xs, str key) -> Tensor[]`: any kernel, by a key that says which in every process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.library import Library, register_fake

from fusetune.errors import FusetuneError, InvalidKernel, NotCached
from fusetune.jitting.last_call import LastCall
from fusetune.kernel import Kernel
from fusetune.store import Store
from fusetune.torch_ops.outputs import as_returned, changed_inputs, own_outputs
from fusetune.wire.service import Accept

Otherwise = Callable[[list[torch.Tensor], Any, FusetuneError], list[torch.Tensor]]
"""What a call gives whose kernel failed: of its tensors, the kernel and the error, which it may raise again."""

LIBRARY = Library("fusetune", "FRAGMENT")


class _Held:
    """A kernel, and what runs where it fails. A graph calls it with tensors of one form: `call` takes those that are
    like the `last`, of which nothing is looked at again."""

    __slots__ = ("call", "is_one", "kernel", "last", "otherwise")

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.is_one = kernel, len(kernel.artifact.outputs) == 1
        self.otherwise: Otherwise | None = None
        self.last: LastCall | None = None
        self.call: Callable[[Sequence[torch.Tensor]], Any] | None = None

    def looked_at(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """A call of which nothing is known. Raises KernelError."""
        made = own_outputs(self.kernel, self.kernel(*tensors))
        self.call = getattr(self.kernel, "known", None)
        if self.call is not None:
            self.last = LastCall.of(tuple(tensors))
        return made


_HELD: dict[str, _Held] = {}


def hold(kernel: Any, otherwise: Otherwise | None = None) -> str:
    """The key by which `fusetune::run` runs the kernel: "fingerprint/binding/code". Other processes find it in the
    store. `otherwise`: what runs where the kernel fails, which else raises. Raises InvalidKernel for one that writes
    into its inputs, which has an operator of its own (`register`)."""
    if changed_inputs(kernel):
        raise InvalidKernel("kernel", "it writes into its inputs", "Give it a name: fusetune.torch_ops.register.")
    artifact = kernel.artifact
    key = f"{artifact.fingerprint}/{artifact.binding}/{artifact.code_hash}"
    held = _HELD.get(key)
    if held is None or held.kernel is not kernel:
        made = _HELD[key] = _Held(kernel)
        made.otherwise = None if held is None else held.otherwise
    if otherwise is not None:
        _HELD[key].otherwise = otherwise
    return key


def run(tensors: list[torch.Tensor], key: str) -> list[torch.Tensor]:
    """What the kernel of `key` gives for the tensors, as one node of a graph."""
    made: list[torch.Tensor] = torch.ops.fusetune.run(tensors, key)
    return made


def _held(key: str) -> _Held:
    """Raises NotCached where neither this process nor the store has it."""
    if key not in _HELD:
        fingerprint, _, rest = key.partition("/")
        binding, _, code = rest.partition("/")
        found = Store().find(fingerprint, binding, Accept())
        kernel = None if found is None else Kernel.from_json(found.artifact, info=found.view, origin="store")
        if kernel is None or kernel.artifact.code_hash != code:
            raise NotCached("fusetune::run", key, "neither this process nor the store has the kernel")
        _HELD[key] = _Held(kernel)
    return _HELD[key]


def _run(tensors: list[torch.Tensor], key: str) -> list[torch.Tensor]:
    held = _HELD.get(key) or _held(key)
    try:
        if held.last is not None and held.call is not None and held.last.is_of_like(tensors):
            made = held.call(tensors)
            return [made] if held.is_one else list(made)
        return held.looked_at(tensors)
    except FusetuneError as error:
        if held.otherwise is None:
            raise
        return held.otherwise(tensors, held.kernel, error)


def _as_traced(tensors: list[torch.Tensor], key: str) -> list[torch.Tensor]:
    return as_returned(_held(key).kernel, tensors)


LIBRARY.define(
    "run(Tensor[] xs, str key) -> Tensor[]", tags=(torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag)
)
for _device in ("CUDA", "CPU"):
    LIBRARY.impl("run", _run, _device)
register_fake("fusetune::run", _as_traced, lib=LIBRARY)
