"""A binding in words: what goes in and what comes out, with sizes, dtypes and unusual layouts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from fusetune.wire.binding import Binding
from fusetune.wire.bound import Bound, BoundInput, apply_binding
from fusetune.wire.fusion import Fusion
from fusetune.wire.infer import strides_are_dense
from fusetune.wire.op_check import TensorType
from fusetune.wire.problems import InvalidDocument
from fusetune.wire.recent import recent
from service.operations.answers import Recent

_BY = "\N{MULTIPLICATION SIGN}"
_USUAL_ALIGN = 16
"""Bytes; what tensors of torch's allocator have at least, and the default of a binding."""


_KEPT = 20_000
"""Bindings whose words one process keeps; a hundred bytes each."""

_known: Recent[bytes, str] = Recent(_KEPT, lambda _: 1)


def shapes(fusion: Mapping[str, Any], binding: Mapping[str, Any]) -> str:
    """ "8192x4096 bf16, 4096 bf16 → 8192x4096 bf16"; sizes by symbol where the documents do not fit together."""
    key = hashlib.sha256(json.dumps((fusion, binding)).encode()).digest()  # a page has hundreds, the same every time
    words = _known.get(key)
    if words is None:
        words = _words(fusion, binding)
        _known.put(key, words)
    return words


@recent
def _read(fusion: Mapping[str, Any]) -> Fusion:
    """Once for the kernels of a fusion, which stand side by side."""
    return Fusion.model_validate(dict(fusion))


def _words(fusion: Mapping[str, Any], binding: Mapping[str, Any]) -> str:
    try:
        bound = apply_binding(_read(fusion), Binding.model_validate(dict(binding)))
    except (InvalidDocument, ValidationError):
        sizes = binding.get("sizes")
        return ", ".join(f"{name} = {size}" for name, size in sizes.items()) if isinstance(sizes, dict) else ""
    tensors = [
        _tensor(bound.types[tensor.name]) + _layout(bound, tensor.name, layout)
        for tensor, layout in zip(bound.fusion.inputs, bound.inputs, strict=True)
    ]
    inputs = ", ".join([*tensors, *(f"{scalar.dtype} by value" for scalar in bound.fusion.numbers)])
    outputs = ", ".join(_tensor(bound.types[output.name]) for output in bound.fusion.outputs)
    return f"{inputs} → {outputs}" if inputs else f"→ {outputs}"


def _tensor(found: TensorType) -> str:
    sizes = _BY.join(str(extent.constant) for extent in found.shape)
    return f"{sizes or 'scalar'} {found.dtype}"


def _layout(bound: Bound, name: str, layout: BoundInput) -> str:
    words: list[str] = []
    if not strides_are_dense(bound.types[name].shape, layout.strides):
        words.append(f"strides {', '.join(map(str, layout.strides))}")
    if layout.align != _USUAL_ALIGN:
        words.append(f"aligned to {layout.align} B")
    return f" ({'; '.join(words)})" if words else ""
