"""New tensors, their memories, and what is said of operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import MOVES, ROUNDING_FOLDS, SCANS
from compiler.schedule import steps
from compiler.schedule.refusals.registry import Refusal, Site, step_rule


@dataclass(frozen=True, slots=True)
class Declared:
    """A tensor as a document declares it, before the first step."""


@step_rule(Declared)
def declared_inputs_and_outputs_are_global(site: Site, step: Declared) -> Iterator[Refusal]:
    """What a kernel is given and gives back lies in global memory (nvFuser, transforms)."""
    memory = site.tensor.memory
    if memory is not MemoryType.GLOBAL and site.name in (*site.sf.inputs, *site.sf.outputs):
        yield Refusal(
            site.name,
            str(memory),
            "global",
            "Copy it into another memory, or from there.",
            f"{site.name} is an input or output in {memory} memory",
        )


_Cache = steps.CacheInput | steps.CacheOutput


@step_rule(steps.CacheInput, steps.CacheOutput, steps.Recompute)
def caches_have_names_of_their_own(site: Site, step: _Cache | steps.Recompute) -> Iterator[Refusal]:
    """A cache, or a copy that is computed again, is a new tensor."""
    if step.out in site.sf.by_name:
        fix = "Choose a name that no tensor has."
        yield Refusal(site.name, step.out, "a new name", fix, f"{step.out} exists already")


@step_rule(steps.CacheInput, steps.CacheOutput)
def caches_lie_inside_the_kernel(site: Site, step: _Cache) -> Iterator[Refusal]:
    """A cache is not in global memory: nobody gives it any."""
    if step.memory is MemoryType.GLOBAL:
        fix = "Cache in shared memory or in registers."
        yield Refusal(site.name, "global", "shared or local", fix, f"{step.out} cannot be global")


@step_rule(steps.CacheInput)
def cached_inputs_are_read_and_not_inlined(site: Site, step: steps.CacheInput) -> Iterator[Refusal]:
    """A cache takes over the loops of the tensor's consumers, so it is made before inlining (nvFuser, transforms)."""
    t = site.tensor
    if t.compute_at or not site.sf.consumers(t.name):
        found = f"compute-at position {t.compute_at}" if t.compute_at else "no consumer"
        fix = "Cache before inlining."
        yield Refusal(site.name, found, "consumers, not inlined", fix, f"{t.name} is inlined or has no consumer")


@step_rule(
    steps.CacheOutput,
    steps.SetMemory,
    steps.Recompute,
    steps.SetCache,
    steps.Straddle,
    steps.Multicast,
)
def tensors_are_made_by_an_operator(site: Site, step: object) -> Iterator[Refusal]:
    """What is said of an operator is said of one that exists: inputs have none."""
    if site.sf.producer(site.name) is None:
        yield Refusal(
            site.name,
            "an input",
            "the result of an operator",
            "Name the tensor that the access writes or defines.",
            f"{site.name} is an input of the fusion",
        )


@step_rule(steps.Straddle)
def straddling_words_are_loaded_by_threads(site: Site, step: steps.Straddle) -> Iterator[Refusal]:
    """A thread puts a word together in registers, of words of global memory: such a copy may straddle."""
    op = site.sf.producer(site.name)
    ends = [site.sf.tensor(n).memory for n in op.tensor_inputs] if op is not None and op.kind in MOVES else []
    if ends != [MemoryType.GLOBAL] or site.tensor.memory is not MemoryType.LOCAL:
        found = "a copy elsewhere" if ends else "no copy"
        fix = "Name a copy of an input in registers."
        yield Refusal(site.name, found, "a copy, global to local", fix, f"{site.name} is {found}")


@step_rule(steps.CacheOutput)
def cached_outputs_are_outputs(site: Site, step: steps.CacheOutput) -> Iterator[Refusal]:
    """Only what leaves the kernel is computed into a cache first."""
    if site.name not in site.sf.outputs:
        fix = "Cache it for its consumers (cache_input)."
        yield Refusal(site.name, "no output", "an output", fix, f"{site.name} is no output")


@step_rule(steps.CacheOutput)
def cached_outputs_are_not_scheduled_yet(site: Site, step: steps.CacheOutput) -> Iterator[Refusal]:
    """A cache has the loops of a new tensor, so it is made before transforming and inlining (nvFuser, transforms)."""
    t = site.tensor
    if t.compute_at or t.exprs:
        fix = "Cache before transforming and inlining."
        yield Refusal(site.name, "scheduled", "not scheduled", fix, f"{t.name} is scheduled already")


@step_rule(steps.Recompute)
def recomputed_tensors_are_read_and_not_scheduled_yet(site: Site, step: steps.Recompute) -> Iterator[Refusal]:
    """The consumer reads the tensor, and its copy has the loops of a new tensor (nvFuser, transforms)."""
    t = site.tensor
    if t.compute_at or t.exprs or t.name in site.sf.outputs:
        fix = "Recompute before transforming and inlining, and never an output."
        yield Refusal(site.name, "scheduled, or an output", "not scheduled", fix, f"{t.name} cannot be recomputed")
    readers = [op.output for op in site.sf.consumers(t.name)]
    for consumer in (step.consumer, *step.others):
        if consumer not in readers:
            fix, expected = f"Name a tensor that reads {t.name}.", ", ".join(readers) or "nothing"
            yield Refusal(site.name, consumer, expected, fix, f"{consumer} does not read {t.name}")


@step_rule(steps.Recompute)
def float_sums_are_folded_once(site: Site, step: steps.Recompute) -> Iterator[Refusal]:
    """A sum or product of floats, also one up to each element, is folded once and read by all: folded again, in another
    order, it may have other bits, and who reads both would see two values (docs/contracts.md, "Bits")."""
    op = site.sf.producer(site.name)
    if op is not None and op.kind in ROUNDING_FOLDS | SCANS and site.tensor.dtype.is_float:
        fix = f"Recompute what is read of it, and let all read the one {op.kind}."
        expected = "an elementwise value, or an exact fold"
        yield Refusal(site.name, f"a {op.kind} of floats", expected, fix, f"{site.name} is a {op.kind}")


@step_rule(steps.SetMemory)
def inputs_and_outputs_stay_global(site: Site, step: steps.SetMemory) -> Iterator[Refusal]:
    """Inputs and outputs of the fusion are in global memory, everything else is not (nvFuser, transforms)."""
    if site.tensor.memory is MemoryType.GLOBAL or step.memory is MemoryType.GLOBAL:
        yield Refusal(
            site.name,
            f"{site.tensor.memory} to {step.memory}",
            "a memory inside the kernel",
            "Inputs and outputs stay global, the rest off it.",
            f"{site.name} cannot move to {step.memory}",
        )


@step_rule(steps.SetMemory)
def shared_tensors_are_written_by_copies(site: Site, step: steps.SetMemory) -> Iterator[Refusal]:
    """Arithmetic writes registers; shared memory is filled by a copy."""
    op = site.sf.producer(site.name)
    if op is not None and op.kind not in MOVES and step.memory is MemoryType.SHARED:
        yield Refusal(
            site.name,
            str(op.kind),
            "a copy",
            "Cache its output in shared memory instead.",
            f"{site.name} is computed by {op.kind}",
        )


@step_rule(steps.Park)
def parked_tensors_are_in_registers(site: Site, step: steps.Park) -> Iterator[Refusal]:
    """A part of what a thread has in registers is parked, not all of it."""
    t = site.sf.tensor(step.tv)
    if t.memory is not MemoryType.LOCAL or step.first < 1:
        yield Refusal(
            step.tv,
            f"{t.memory.value}, from element {step.first} on",
            "registers, from element 1 or a later one on",
            "Park later elements of a register tensor.",
            f"{step.tv} in {t.memory.value} from element {step.first} on",
        )


@step_rule(steps.Deal)
def turns_are_dealt_to_blocks(site: Site, step: steps.Deal) -> Iterator[Refusal]:
    """Somebody has the turns: what is dealt to no block would be taken for what is not dealt."""
    if step.blocks < 1:
        fix = "Deal to a block or more, or leave the step out."
        yield Refusal(site.name, step.blocks, "1 block or more", fix, f"{site.name} dealt to {step.blocks} blocks")


@step_rule(steps.CapRegisters)
def register_caps_are_multiples_of_8(site: Site, step: steps.CapRegisters) -> Iterator[Refusal]:
    """Registers are allocated to a warp in units of 256, 8 a thread (cuda_occupancy.h); a thread has at most 255."""
    if step.count % 8 or not 16 <= step.count <= 248:
        yield Refusal(
            "registers",
            step.count,
            "a multiple of 8 from 16 to 248",
            "A cap is a multiple of 8 from 16 to 248.",
            f"{step.count} registers",
        )
