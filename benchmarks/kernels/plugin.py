"""Tuned kernels as a benchmark plugin: `build(case) -> callable(*inputs) -> outputs`, or None where there is no kernel.

The file stands alone: load it by its path from anywhere. Kernels come from the folder that FUSETUNE_KERNELS names (and
the folders below it); nothing is ever tuned here. Only kernels that were verified on a GPU and fit this one are used,
the fastest where several fit a case.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

SDK = Path(__file__).resolve().parents[2] / "sdk"
if str(SDK) not in sys.path:
    sys.path.append(str(SDK))

from fusetune.wire.artifact import KernelArtifact  # noqa: E402 (the path comes first)
from fusetune.wire.canonical import binding_hash, fingerprint  # noqa: E402 (as above)
from fusetune.wire.op_check import ITEM_BYTES  # noqa: E402 (as above)
from fusetune.wire.parse import parse_binding, parse_fusion  # noqa: E402 (as above)
from fusetune.wire.suite import strip_case  # noqa: E402 (as above)

FORMAT = "fusetune.kernel/1"
ALIGNS = (128, 16, 8, 4, 2, 1)
"""Alignments a kernel may be bound to; what torch allocates on a GPU satisfies each (its blocks start at 512 bytes)."""

Case = Mapping[str, Any]
Key = tuple[str, str]


class StoredKernels:
    """Verified artifacts by fingerprint and binding hash.

    Not a dataclass: those fail in a module that its loader has not entered in `sys.modules`.
    """

    def __init__(self, by_key: Mapping[Key, KernelArtifact]) -> None:
        self.by_key = by_key

    @classmethod
    def from_folder(cls, folder: Path | None, arch: str | None = None) -> StoredKernels:
        """Kernels below `folder` for `arch`, by default this GPU's; none without a folder. Raises OSError."""
        found: dict[Key, KernelArtifact] = {}
        arch = arch or _arch_of_this_gpu()
        for artifact in _artifacts(folder) if folder else ():
            if artifact.evidence.correct != "verified_on_gpu" or artifact.is_outdated or artifact.arch != arch:
                continue
            key = (artifact.fingerprint, artifact.binding)
            if key not in found or _us(artifact) < _us(found[key]):
                found[key] = artifact
        return cls(found)

    def find(self, case: Case) -> KernelArtifact | None:
        """The fastest kernel whose fusion and binding are the case's."""
        return min((self.by_key[key] for key in keys(case) if key in self.by_key), key=_us, default=None)

    def build(self, case: Case) -> Callable[..., Any] | None:
        """A function on torch tensors that returns a tuple of outputs."""
        artifact = self.find(case)
        if artifact is None:
            return None
        from fusetune.kernel import Kernel

        kernel = Kernel(artifact)

        def run(*inputs: Any) -> tuple[Any, ...]:
            outputs = kernel(*inputs)
            return outputs if isinstance(outputs, tuple) else (outputs,)

        return run


def build(case: Case) -> Callable[..., Any] | None:
    """What a benchmark harness calls; reads the folder once."""
    return _from_env().build(case)


def folder_from_env() -> Path | None:
    """The folder that FUSETUNE_KERNELS names, if it names one."""
    named = os.environ.get("FUSETUNE_KERNELS", "")
    return Path(named) if named else None


def keys(case: Case) -> Iterator[Key]:
    """Every key under which a kernel for the case may stand.

    A fusion may state the strides of its inputs or leave them to the binding, and a kernel may be bound to any
    alignment that its elements allow.
    """
    document, binding = strip_case(case)
    layouts = zip(document["inputs"], binding["inputs"], strict=True)
    stated = {**document, "inputs": [{**tensor, **layout} for tensor, layout in layouts]}
    for fusion in (parse_fusion(document), parse_fusion(stated)):
        for align in ALIGNS:
            aligns = [max(align, ITEM_BYTES[tensor.dtype]) for tensor in fusion.inputs]
            inputs = [{**layout, "align": a} for layout, a in zip(binding["inputs"], aligns, strict=True)]
            yield fingerprint(fusion), binding_hash(fusion, parse_binding({**binding, "inputs": inputs}))


@functools.cache
def _from_env() -> StoredKernels:
    return StoredKernels.from_folder(folder_from_env())


def _artifacts(folder: Path) -> Iterator[KernelArtifact]:
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: found no such folder, expected one with tuned kernels (*.json).")
    for path in sorted(folder.rglob("*.json")):
        try:
            text = path.read_text()
            document = json.loads(text)
        except ValueError:
            continue  # not JSON: not ours
        if isinstance(document, dict) and document.get("format") == FORMAT:
            yield KernelArtifact.model_validate_json(text)


def _us(artifact: KernelArtifact) -> float:
    return artifact.timing.median_us if artifact.timing else float("inf")


def _arch_of_this_gpu() -> str | None:
    import torch

    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
