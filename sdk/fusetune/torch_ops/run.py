"""`fusetune::run(Tensor[] xs, str key) -> Tensor[]`: any kernel, by a key that says which in every process."""

from __future__ import annotations

from collections.abc import Callable
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

LIBRARY = Library("fusetune", "FRAGMENT")  # type: ignore[no-untyped-call]
_HELD: dict[str, Any] = {}
_OTHERWISE: dict[str, Otherwise] = {}
_LAST: dict[str, LastCall] = {}
"""A graph calls a kernel with tensors of one form: what was looked at once is not looked at again."""


def hold(kernel: Any, otherwise: Otherwise | None = None) -> str:
    """The key by which `fusetune::run` runs the kernel: "fingerprint/binding/code". Other processes find it in the
    store. `otherwise`: what runs where the kernel fails, which else raises. Raises InvalidKernel for one that writes
    into its inputs, which has an operator of its own (`register`)."""
    if changed_inputs(kernel):
        raise InvalidKernel("kernel", "it writes into its inputs", "Give it a name: fusetune.torch_ops.register.")
    artifact = kernel.artifact
    key = f"{artifact.fingerprint}/{artifact.binding}/{artifact.code_hash}"
    _HELD[key] = kernel
    if otherwise is not None:
        _OTHERWISE[key] = otherwise
    return key


def run(tensors: list[torch.Tensor], key: str) -> list[torch.Tensor]:
    """What the kernel of `key` gives for the tensors, as one node of a graph."""
    made: list[torch.Tensor] = torch.ops.fusetune.run(tensors, key)
    return made


def _kernel(key: str) -> Any:
    """Raises NotCached where neither this process nor the store has it."""
    if key not in _HELD:
        fingerprint, _, rest = key.partition("/")
        binding, _, code = rest.partition("/")
        found = Store().find(fingerprint, binding, Accept())
        kernel = None if found is None else Kernel.from_json(found.artifact, info=found.view, origin="store")
        if kernel is None or kernel.artifact.code_hash != code:
            raise NotCached("fusetune::run", key, "neither this process nor the store has the kernel")
        _HELD[key] = kernel
    return _HELD[key]


def _run(tensors: list[torch.Tensor], key: str) -> list[torch.Tensor]:
    kernel = _kernel(key)
    given = tuple(tensors)
    last = _LAST.get(key)
    try:
        if last is not None and last.is_like(given, None, _nothing):
            return own_outputs(kernel, kernel.of_known(*given))
        made = own_outputs(kernel, kernel(*given))
        if hasattr(kernel, "of_known") and (last := LastCall.of(given, None, ())) is not None:
            _LAST[key] = last
        return made
    except FusetuneError as error:
        if key not in _OTHERWISE:
            raise
        return _OTHERWISE[key](tensors, kernel, error)


def _nothing() -> tuple[()]:
    return ()


def _as_traced(tensors: list[torch.Tensor], key: str) -> list[torch.Tensor]:
    return as_returned(_kernel(key), tensors)


LIBRARY.define(  # type: ignore[no-untyped-call]
    "run(Tensor[] xs, str key) -> Tensor[]", tags=(torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag)
)
for _device in ("CUDA", "CPU"):
    LIBRARY.impl("run", _run, _device)  # type: ignore[no-untyped-call]
register_fake("fusetune::run", _as_traced, lib=LIBRARY)
