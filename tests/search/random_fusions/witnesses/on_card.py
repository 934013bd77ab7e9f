"""Kernels run once on a GPU over the inputs of a set: what they leave, without a reference."""

from __future__ import annotations

from compiler.emulate.memory.region import POISON
from compiler.ir.fusion import Fusion
from fusetune.launch import Launcher
from fusetune.wire.artifact import KernelArtifact
from search.proof.verify import arrays as libraries
from search.proof.verify.arrays import TorchArrays
from search.proof.verify.inputs import RANDOM, make_inputs
from search.proof.verify.scalars import in_set, numbers_in
from tests.search.random_fusions.witnesses.witness import Array


class OnCard:
    """The inputs of one fusion on a card, of one set, for all of its kernels."""

    def __init__(self, fusion: Fusion, arrays: TorchArrays, name: str = RANDOM) -> None:
        self._fusion = fusion
        self._arrays = arrays
        self._inputs = make_inputs(in_set(fusion, name), name, arrays)
        self._numbers = numbers_in(fusion, name)

    def outputs_of(self, artifact: KernelArtifact) -> list[Array]:
        """What a kernel leaves in its outputs, poisoned before, in their logical shapes. Raises KernelError as the
        launcher does, and torch's RuntimeError on a CUDA error."""
        arrays, torch = self._arrays, self._arrays.xp
        values = [self._fusion.value(name) for name in self._fusion.outputs]

        def poisoned(nbytes: int) -> libraries.Array:
            return torch.full((nbytes,), POISON, dtype=torch.uint8, device=arrays.device)

        outputs = [poisoned(value.storage_bytes) for value in values]
        scratch = [poisoned(spec.bytes) for spec in artifact.scratch]
        launcher = Launcher(artifact)
        try:
            pointers = tuple(t.data_ptr() for t in (*self._inputs, *outputs))
            launcher.launch(pointers, arrays.stream(), tuple(t.data_ptr() for t in scratch), self._numbers)
            torch.cuda.synchronize()
        finally:
            launcher.close()
        found = []
        for value, memory in zip(values, outputs, strict=True):
            storage = arrays.strided(arrays.reinterpret(memory, value.dtype), value.shape, value.strides)
            found.append(arrays.load(storage, value.dtype).cpu().numpy())
        return found
