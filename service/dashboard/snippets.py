"""Python and shell that a reader can copy: how to post a fusion, how to call a kernel that is served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any

from fusetune.wire.artifact import Evidence, KernelArtifact, TensorSpec
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash
from fusetune.wire.extent import Extent
from fusetune.wire.fusion import Fusion
from fusetune.wire.infer import strides_are_dense
from fusetune.wire.service import Accept

_TORCH = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snippets:
    """The same request from Python and from a shell."""

    python: str
    curl: str


def first_request(url: str) -> Snippets:
    """How to post a first fusion to the service at `url`."""
    python = f'''\
from fusetune import Client, FusionBuilder

f = FusionBuilder()
x = f.input("x", ("M", 4096), "bf16")
bias = f.input("bias", (4096,), "bf16")
y = f.gelu(x.cast("f32") + bias.cast("f32").broadcast_to(x.shape, dims=(1,)))
f.output(y.cast("bf16"))

with Client("{url}") as client:
    kernel = client.tune(f.build(), binding={{"M": 8192}}, name="bias_gelu", progress=True)
'''
    curl = f"""\
curl {url}/v1/tunings -H 'Content-Type: application/json' -d '{{
  "name": "add",
  "fusion": {{
    "format": "fusetune.fusion/1",
    "inputs": [{{"name": "a", "shape": ["N"], "dtype": "f32"}}, {{"name": "b", "shape": ["N"], "dtype": "f32"}}],
    "ops": [{{"op": "add", "in": ["a", "b"], "out": "sum"}}],
    "outputs": [{{"name": "sum"}}]
  }},
  "binding": {{"sizes": {{"N": 16777216}}}},
  "budget_s": 60
}}'
"""
    return Snippets(python, curl)


def kernel_call(
    url: str, card: str, fusion: Mapping[str, Any], binding: Mapping[str, Any], kernel: KernelArtifact
) -> str:
    """How to take `kernel` out of the cache of the service at `url` and call it; `card` is the card's id.

    What a request does not accept unless it says so, it says: else it would be told that there is no such kernel.
    """
    sizes = dict(binding.get("sizes", {}))
    are_sizes_all = binding_hash(Fusion.model_validate(dict(fusion)), Binding(sizes=sizes)) == kernel.binding
    names = [f"x{i}" for i in range(len(kernel.inputs))]
    tensors = "\n".join(f"{name} = {_tensor(spec)}" for name, spec in zip(names, kernel.inputs, strict=True))
    arguments = [*names, *("1" if x.dtype == "i64" else "1.0" for x in kernel.scalars)]
    return f'''\
import torch
from fusetune import Client

# fingerprint {kernel.fingerprint}
# binding     {kernel.binding}
fusion = {pformat(_operator_first(fusion), width=100, sort_dicts=False, compact=True)}
binding = {pformat(sizes if are_sizes_all else dict(binding), width=100, sort_dicts=False, compact=True)}

with Client("{url}") as client:  # from the cache: nothing is searched for
    kernel = client.kernel(fusion, binding=binding, card="{card}"{_accepting(kernel.evidence)})

{tensors}
y = kernel({", ".join(arguments)})
'''


def _accepting(evidence: Evidence) -> str:
    """The argument that accepts `evidence`, where the default does not."""
    if Accept().allows(evidence):
        return ""
    return f', accept={{"correct": ["{evidence.correct}"], "time": ["{evidence.time}"]}}'


def _operator_first(fusion: Mapping[str, Any]) -> dict[str, Any]:
    """The document with each operator's name before its operands, as people write it."""
    return {**fusion, "ops": [{"op": op["op"], **op} for op in fusion["ops"]]}


def _tensor(spec: TensorSpec) -> str:
    how = f'dtype=torch.{_TORCH[spec.dtype]}, device="cuda"'
    if strides_are_dense(tuple(map(Extent.of, spec.shape)), spec.strides):
        return f"torch.ones({spec.shape}, {how})"
    return f"torch.empty_strided({spec.shape}, {spec.strides}, {how})"
