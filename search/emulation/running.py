"""The small kernel run on input sets, in several orders of completion, and held against the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.emulate.launch import Completion, Launch, Options, Outcome
from compiler.emulate.ptx.module import Module
from compiler.emulate.report import Fault, FaultKind
from compiler.emulate.run import emulate
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from fusetune.wire.artifact import KernelArtifact
from search.emulation.launching import element_bytes, input_tensor, launch_of, output_tensor
from search.verify.arrays import Array, NumpyArrays
from search.verify.compare import compare, differing, first_fault
from search.verify.expected import Expected, expect
from search.verify.inputs import make_inputs

ARRAYS = NumpyArrays()

ORDERS = (Completion.EAGER, Completion.LAZY, Completion.RANDOM)
"""Copies complete at once, as late as can be, and at any time between; warps take turns at random in the last."""

SEED = 1
"""Of the random order: the same on every run, so that a fault that was found is found again."""

MAX_INSTRUCTIONS = 20_000_000
"""Of all warps together: hundreds of times what a tile needs, so that a kernel that never ends is reported."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`fault` is empty where nothing was wrong. `max_error` is relative to the element, as `tolerance` is."""

    fault: str = ""
    max_error: float = 0.0
    tolerance: float = 0.0
    deterministic: bool = True


def run_set(
    fusion: Fusion, artifact: KernelArtifact, module: Module, set_name: str, orders: Sequence[Completion]
) -> Verdict:
    """Runs all blocks on one input set, once in each order. Raises Unsupported for an instruction that is not built."""
    storages = make_inputs(fusion, set_name, ARRAYS)
    expected = expect(fusion, storages, ARRAYS)
    first: list[Array] = []
    worst, rtol = 0.0, 0.0
    for order in orders:
        where = f"{set_name} inputs, {order} order"
        launch = _launch(fusion, artifact, storages)
        outcome = emulate(module, launch, options(order, races=len(orders) > 1))
        if fault := fault_of(outcome) or _misplaced(fusion, launch, outcome):
            return Verdict(f"{where}: {fault}")
        found = [_storage(launch, name, want) for name, want in zip(fusion.outputs, expected, strict=True)]
        for output, (want, have) in enumerate(zip(expected, found, strict=True)):
            if wrong := wrong_elements(want, have, output):
                return Verdict(f"{where}: {wrong}")
            if first and (changed := int(differing(first[output], have, ARRAYS))):
                text = f"{where}: output {output}: {changed} elements differ from those of the {orders[0]} order"
                return Verdict(text, deterministic=False)
            share = float(compare(want, have, ARRAYS).worst_share)
            if want.tolerance is not None and share * want.tolerance.rtol >= worst:
                worst, rtol = share * want.tolerance.rtol, want.tolerance.rtol
        first = first or found
    return Verdict("", worst, rtol)


def options(order: Completion, races: bool, blocks: tuple[int, ...] | None = None) -> Options:
    """How every run of a verification goes."""
    return Options(order, SEED, blocks, MAX_INSTRUCTIONS, races, counts=False)


def fault_of(outcome: Outcome) -> str:
    """The first fault in words, empty if there is none. Raises Unsupported where the emulator is what lacks."""
    for fault in outcome.faults:
        if fault.kind is FaultKind.UNSUPPORTED_INSTRUCTION:
            raise Unsupported(f"emulating `{fault.instruction}` (PTX line {fault.ptx_line})", "Verify it on a GPU.")
    return _in_words(outcome.faults[0]) if outcome.faults else ""


def wrong_elements(want: Expected, have: Array, output: int) -> str:
    """What is wrong with an output's values, in words; empty if nothing is."""
    wrong = int(compare(want, have, ARRAYS).wrong)
    if not wrong:
        return ""
    return f"output {output}: {wrong} of {len(want.lower)} elements are wrong; {first_fault(want, have, ARRAYS)}"


def _in_words(fault: Fault) -> str:
    return f"{fault.kind}: {fault.message} At `{fault.instruction}` (PTX line {fault.ptx_line})"


def _launch(fusion: Fusion, artifact: KernelArtifact, storages: Sequence[Array]) -> Launch:
    """Fresh tensors: every run begins with the same inputs and unwritten outputs."""
    inputs = [
        input_tensor(fusion.value(name), ARRAYS.bytes_of(storage).copy())
        for name, storage in zip(fusion.inputs, storages, strict=True)
    ]
    return launch_of(artifact, [*inputs, *(output_tensor(fusion.value(name)) for name in fusion.outputs)])


def _storage(launch: Launch, name: str, want: Expected) -> Array:
    return ARRAYS.reinterpret(launch.tensors[name].data, want.dtype)


def _misplaced(fusion: Fusion, launch: Launch, outcome: Outcome) -> str:
    """Elements of inputs that were written, and of outputs that were not; empty if there are none."""
    for position, name in enumerate(fusion.inputs):
        if changed := int(np.count_nonzero(outcome.written[name])):
            return f"{changed} bytes of input {position} were overwritten"
    for position, name in enumerate(fusion.outputs):
        missing = int(np.count_nonzero(element_bytes(fusion.value(name)) & ~outcome.written[name]))
        if missing:
            nbytes = fusion.value(name).dtype.nbytes
            total = launch.tensors[name].data.size // nbytes
            return f"output {position}: {-(-missing // nbytes)} of {total} elements were never written"
    return ""
