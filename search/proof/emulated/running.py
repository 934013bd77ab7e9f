"""The small kernel run on input sets, in several orders of completion, and held against the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import Completion, EmulatedOutcome, EmulatedTensor, Launch, Options
from compiler.emulate.ptx.module import Module
from compiler.emulate.report import EmulatorFault, FaultKind
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import element_bytes, launches_of, tensors_of, written_by
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from fusetune.wire.artifact import KernelArtifact
from fusetune.wire.lists import pieces
from fusetune.wire.scalars import with_numbers
from search.proof.verify.arrays import Array, NumpyArrays
from search.proof.verify.compare import compare, differing, first_fault
from search.proof.verify.expected import Expected, expect
from search.proof.verify.inputs import make_inputs
from search.proof.verify.scalars import in_set, numbers_in

ARRAYS = NumpyArrays()

ORDERS = (Completion.EAGER, Completion.LAZY, Completion.RANDOM)
"""Copies complete at once, as late as can be, and at any time between; warps take turns at random in the last."""

Written = dict[str, npt.NDArray[np.bool_]]
"""By tensor, a flag for each byte that was written."""

SEED = 1
"""Of the random order: the same on every run, so that a fault that was found is found again."""

MAX_INSTRUCTIONS = 20_000_000
"""Of all warps together: hundreds of times what a tile needs, so that a kernel that never ends is reported."""


@dataclass(frozen=True, slots=True)
class EmulatedVerdict:
    """`fault` is empty where nothing was wrong. `max_error` is relative to the element, as `tolerance` is.

    `unfinished`: the orders in which the run was too long to be brought to its end, in words; others were right.
    """

    fault: str = ""
    max_error: float = 0.0
    tolerance: float = 0.0
    deterministic: bool = True
    unfinished: str = ""


def run_set(
    fusion: Fusion,
    artifact: KernelArtifact,
    module: Module,
    set_name: str,
    orders: Sequence[Completion],
    *,
    races: bool | None = None,
) -> EmulatedVerdict:
    """Runs all blocks on one input set, once in each order. Raises Unsupported for an instruction that is not built.

    `races`: whether to look for races too, which takes as long again; without it, where there are several orders. A
    kernel that meets the limit of instructions in every order is at fault; in some orders only, it is too long there.
    """
    looks = len(orders) > 1 if races is None else races
    artifact = with_numbers(artifact, numbers_in(fusion, set_name))
    fusion = in_set(fusion, set_name)
    storages = make_inputs(fusion, set_name, ARRAYS)
    expected = expect(fusion, storages, ARRAYS)
    first: list[Array] = []
    first_order = orders[0]
    worst, rtol = 0.0, 0.0
    endless: list[str] = []
    for order in orders:
        where = f"{set_name} inputs, {order} order"
        launches = _launches(fusion, artifact, storages)
        written, fault, is_too_long = _run(module, launches, options(order, races=looks))
        if is_too_long:
            endless.append(f"{where}: {fault}")
            continue
        tensors = launches[0].tensors
        if fault := fault or _misplaced(fusion, tensors, written):
            return EmulatedVerdict(f"{where}: {fault}")
        found = [
            _storage(tensors, fusion.memory_of(name), want) for name, want in zip(fusion.outputs, expected, strict=True)
        ]
        for output, (want, have) in enumerate(zip(expected, found, strict=True)):
            if wrong := wrong_elements(want, have, output):
                return EmulatedVerdict(f"{where}: {wrong}")
            if first and (changed := int(differing(first[output], have, ARRAYS))):
                text = f"{where}: output {output}: {changed} elements differ from those of the {first_order} order"
                return EmulatedVerdict(text, deterministic=False)
            share = float(compare(want, have, ARRAYS).worst_share)
            if want.tolerance is not None and share * want.tolerance.rtol >= worst:
                worst, rtol = share * want.tolerance.rtol, want.tolerance.rtol
        if not first:
            first, first_order = found, order
    if len(endless) == len(orders):
        return EmulatedVerdict(endless[0])
    return EmulatedVerdict("", worst, rtol, unfinished="; ".join(endless))


def options(order: Completion, races: bool, blocks: tuple[int, ...] | None = None) -> Options:
    """How every run of a verification goes."""
    return Options(order, SEED, blocks, MAX_INSTRUCTIONS, races, counts=False)


def fault_of(outcome: EmulatedOutcome) -> str:
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


def too_long(outcome: EmulatedOutcome) -> str:
    """That a run was ended for its length, in words; empty if it was not, or if more is wrong with it."""
    return outcome.faults[0].message if outcome.met_limit and len(outcome.faults) == 1 else ""


def _in_words(fault: EmulatorFault) -> str:
    return f"{fault.kind}: {fault.message} At `{fault.instruction}` (PTX line {fault.ptx_line})"


def _run(module: Module, launches: Sequence[Launch], how: Options) -> tuple[Written, str, bool]:
    """Runs the launches in order, up to the first with a fault: what all of them wrote, the fault in words, and whether
    it is no more than the run's length."""
    written: Written = {}
    for number, launch in enumerate(launches):
        outcome = emulate(module, launch, how)
        for name, flags in outcome.written.items():
            written[name] = written[name] | flags if name in written else flags
        if fault := too_long(outcome) or fault_of(outcome):
            return written, f"launch {number}: {fault}" if len(launches) > 1 else fault, bool(too_long(outcome))
        written_by(launch, outcome)
    return written, "", False


def _launches(fusion: Fusion, artifact: KernelArtifact, storages: Sequence[Array]) -> tuple[Launch, ...]:
    """Fresh tensors: every run begins with the same inputs and unwritten outputs."""
    tensors = tensors_of(fusion, [ARRAYS.bytes_of(storage).copy() for storage in storages])
    lists = artifact.lists
    parts = () if lists is None else pieces(fusion.value(fusion.outputs[0]).elems, lists.tile, lists.step)
    return launches_of(artifact, tensors, parts)


def _storage(tensors: Mapping[str, EmulatedTensor], name: str, want: Expected) -> Array:
    return ARRAYS.reinterpret(tensors[name].data, want.dtype)


def _misplaced(fusion: Fusion, tensors: Mapping[str, EmulatedTensor], written: Written) -> str:
    """Elements of inputs that were written, and of outputs that were not; empty if there are none."""
    for position, name in enumerate(fusion.inputs):
        if name in dict(fusion.aliases).values():
            continue
        if changed := int(np.count_nonzero(written[name])):
            return f"{changed} bytes of input {position} were overwritten"
    for position, name in enumerate(fusion.outputs):
        memory = fusion.memory_of(name)
        missing = int(np.count_nonzero(element_bytes(fusion.value(name)) & ~written[memory]))
        if missing:
            nbytes = fusion.value(name).dtype.nbytes
            total = tensors[memory].data.size // nbytes
            return f"output {position}: {-(-missing // nbytes)} of {total} elements were never written"
    return ""
