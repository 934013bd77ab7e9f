"""A witnessed fusion at a random point, run in the emulator and asked what it says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from compiler.emulate.launch import Completion
from compiler.emulate.memory.build import BadLaunch
from compiler.emulate.ptx.errors import PtxError
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import launches_of, tensors_of, written_by
from compiler.errors import CompileError, Unsupported
from compiler.ir.fusion import Fusion
from compiler.pipeline import artifact
from fusetune.wire.artifact import KernelArtifact
from fusetune.wire.scalars import with_numbers
from search.proof.emulated.running import fault_of, options, too_long
from search.proof.verify.arrays import NumpyArrays
from search.proof.verify.inputs import RANDOM, make_inputs
from search.proof.verify.scalars import in_set, numbers_in
from search.tuning.build import Compiler
from tests.search.random_fusions.proving import Kernel, kernels
from tests.search.random_fusions.witnesses.witness import Array, violations
from tests.search.random_fusions.witnesses.witnessed import Witnessed

ARRAYS = NumpyArrays()


@dataclass(frozen=True)
class Asked:
    """What came of a kernel: `broken` witnesses, or a `fault` before they could be asked; `unsupported` is neither."""

    kernel: Kernel
    broken: tuple[str, ...] = ()
    fault: str = ""
    unsupported: str = ""
    ptx: str = field(default="", repr=False)

    @property
    def is_right(self) -> bool:
        """Whether it ran and every witness holds."""
        return not (self.broken or self.fault or self.unsupported)

    @property
    def words(self) -> str:
        """What is wrong; empty if nothing is."""
        return "\n".join(filter(None, (*self.broken, self.fault, self.unsupported)))

    def __str__(self) -> str:
        """The whole of a failure, with a command that shows it again."""
        kernel = self.kernel
        point = "" if kernel.candidate is None else json.dumps(kernel.candidate.to_json())
        command = f"python -m tests.search.random_fusions.witnesses.again {kernel.case.name} --seed {kernel.seed}"
        return f"{self.words}\npoint {kernel.candidate}\n{kernel.case}\nagain: {command} --candidate '{point}'"


def outputs_of(fusion: Fusion, built: KernelArtifact, set_name: str = RANDOM) -> list[Array]:
    """What the kernel leaves in its outputs, in their logical shapes. Raises AssertionError with a fault in words."""
    module = parse(built.ptx)
    built = with_numbers(built, numbers_in(fusion, set_name))
    storages = make_inputs(in_set(fusion, set_name), set_name, ARRAYS)
    tensors = tensors_of(fusion, [ARRAYS.bytes_of(storage).copy() for storage in storages])
    for launch in launches_of(built, tensors):
        outcome = emulate(module, launch, options(Completion.RANDOM, races=False))
        if fault := too_long(outcome) or fault_of(outcome):
            raise AssertionError(fault)
        written_by(launch, outcome)
    found = []
    for name, tensor in zip(fusion.outputs, tensors[len(fusion.inputs) :], strict=True):
        value = fusion.value(name)
        storage = ARRAYS.reinterpret(tensor.data, value.dtype)
        found.append(ARRAYS.load(ARRAYS.strided(storage, value.shape, value.strides), value.dtype))
    return found


def asked(kernel: Kernel, of: Witnessed) -> Asked:
    """Runs a compiled kernel and asks its witnesses."""
    if kernel.made is None or kernel.compiled is None:
        return Asked(kernel, fault=kernel.fault, unsupported=kernel.unsupported)
    try:
        built = artifact(kernel.made, kernel.compiled.result())
        outputs = outputs_of(kernel.made.trace.fusion, built)
    except (CompileError, BadLaunch, AssertionError) as error:
        return Asked(kernel, fault=f"{type(error).__name__}: {error}")
    except (Unsupported, PtxError) as error:
        return Asked(kernel, unsupported=str(error))
    return Asked(kernel, tuple(violations(of.witnesses, outputs)), ptx=built.ptx)


def all_asked(every: Iterable[Witnessed], seed: int, points: int, pool: Compiler, ahead: int = 16) -> Iterator[Asked]:
    """Every fusion at `points` points; the compiler works on those ahead while one is run."""
    waiting: list[tuple[Kernel, Witnessed]] = []
    for one in every:
        waiting += [(kernel, one) for kernel in kernels(one.case, seed, points, pool)]
        while len(waiting) > ahead:
            yield asked(*waiting.pop(0))
    for kernel, one in waiting:
        yield asked(kernel, one)


def told(found: Sequence[Asked], most: int = 3) -> str:
    """What failed, in words; empty if nothing did."""
    wrong = [str(one) for one in found if not one.is_right]
    return f"{len(wrong)} of {len(found)}\n\n" + "\n\n".join(wrong[:most]) if wrong else ""
