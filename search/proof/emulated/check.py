"""One kernel proven without a GPU: its class at a small binding, and the served code on its boundary blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod

from compiler.arch import arch_named
from compiler.emulate.launch import Completion
from compiler.emulate.memory.build import BadLaunch
from compiler.emulate.ptx.errors import PtxError
from compiler.emulate.ptx.parser import parse
from compiler.errors import CompileError, CompilerError, Unsupported
from compiler.ir.fusion import Fusion
from compiler.pipeline import Generated, artifact, generate
from compiler.wire import trace_from_json
from fusetune.wire.artifact import VERIFIER, Emulated, Evidence, KernelArtifact, Verification
from search.proof.emulated.running import ARRAYS, ORDERS, SEED, EmulatedVerdict, run_set
from search.proof.emulated.served import Served, run_served
from search.proof.small.binding import Small, small_binding
from search.proof.verify.decided import UNDECIDED_FIX, best_shares, why_undecided
from search.proof.verify.inputs import RANDOM, input_sets
from search.proof.verify.scalars import expect_set
from search.tuning.build import Compiler

DEVICE = "emulator"
"""What a verification names in place of a GPU."""

MOST_WHOLE = 1 << 18
"""Elements of all inputs and outputs of a kernel that is run whole: some seconds for each input set."""

_UNPROVEN = "Could not be proven"

_TOO_LONG_SHARES = (
    "blocks of the served code, which have shares of steps, take too long to look for races between their stages, and"
    " those of the small kernel have too few steps to fill a stage again. Verify it on a GPU."
)


@dataclass(frozen=True, slots=True)
class EmulatedProof:
    """What came of a kernel: its `verification`; or its `fault`; or, in `undone`, why neither is known."""

    verification: Verification | None = None
    fault: str = ""
    undone: str = ""

    @property
    def verdict(self) -> str:
        """In a word or two."""
        return "right" if self.verification is not None else "wrong" if self.fault else "not proven"


def generated_of(stored: KernelArtifact) -> Generated:
    """The kernel of an artifact made again from its trace. Raises InvalidFusion, InvalidStep, IllegalSchedule."""
    return generate(trace_from_json(stored.trace), arch_named(stored.arch))


def verify(served: Generated, compiled: KernelArtifact, compiler: Compiler) -> EmulatedProof:
    """Proves a compiled kernel, or finds out what is wrong with it. `compiler` compiles its small binding."""
    try:
        return _verify(served, compiled, compiler)
    except (Unsupported, PtxError, BadLaunch, CompileError) as error:
        return EmulatedProof(undone=str(error))


def verify_again(fusion: Fusion, stored: KernelArtifact, compiler: Compiler) -> EmulatedProof:
    """Proves a kernel of earlier by the code that is stored of it: as `verify` does where today's generator and
    compiler make the very same code of its schedule, else by running the whole of it, if it is small enough.
    """
    try:
        made = _made_again(stored, compiler)
        return _verify_whole(fusion, stored) if made is None else _verify(made, stored, compiler)
    except (Unsupported, PtxError, BadLaunch, CompileError) as error:
        return EmulatedProof(undone=str(error))


def proven(compiled: KernelArtifact, verification: Verification, predicted_us: float | None) -> KernelArtifact:
    """The artifact with the evidence of its verification, and what a model of the card expects; it has no timing."""
    evidence = Evidence(correct="verified_emulated", time="none" if predicted_us is None else "predicted")
    return compiled.model_copy(
        update={"evidence": evidence, "verification": verification, "predicted_us": predicted_us}
    )


def _made_again(stored: KernelArtifact, compiler: Compiler) -> Generated | None:
    """What makes the stored code today, None if nothing does."""
    try:
        generated = generated_of(stored)
        again = artifact(generated, compiler.submit(generated.source, generated.arch.name).result())
    except CompilerError:  # whatever today's compiler has against it: its code is what it is
        return None
    same = (again.ptx, again.launches, again.scratch) == (stored.ptx, stored.launches, stored.scratch)
    return generated if same else None


def _verify_whole(fusion: Fusion, stored: KernelArtifact) -> EmulatedProof:
    """Runs all blocks of a kernel on all input sets: nothing need be known of how it was made."""
    elems = sum(fusion.value(name).elems for name in (*fusion.inputs, *fusion.outputs))
    if elems > MOST_WHOLE:
        why = f"its code is no longer made of its schedule, and to run all of it has {elems:,} elements"
        return EmulatedProof(undone=f"{_UNPROVEN} in the emulator: {why}, at most {MOST_WHOLE:,} are gone through")
    module = parse(stored.ptx)
    verdicts: list[EmulatedVerdict] = []
    sets = input_sets(fusion)
    for name in sets:
        verdict = run_set(fusion, stored, module, name, ORDERS if name == RANDOM else ORDERS[:1])
        if verdict.fault:
            return EmulatedProof(fault=f"in the emulator: {verdict.fault}")
        if verdict.unfinished:
            return EmulatedProof(undone=f"{_UNPROVEN} in the emulator: {verdict.unfinished}")
        verdicts.append(verdict)
    blocks = sum(prod(launch.grid) for launch in stored.launches)
    ran = Served("", tuple(range(blocks)), orders=ORDERS)
    return EmulatedProof(_verification(sets, verdicts, _record(stored, stored, ran, ORDERS), _decided(fusion)))


def _verify(served: Generated, compiled: KernelArtifact, compiler: Compiler) -> EmulatedProof:
    try:
        small = small_binding(served)
    except Unsupported as error:
        return _verify_served(served, compiled, error)
    built = artifact(small.generated, compiler.submit(small.generated.source, served.arch.name).result())
    module = parse(built.ptx)
    verdicts: list[EmulatedVerdict] = []
    at = f"in the emulator, at {_shapes(small)}: "
    sets = input_sets(served.trace.fusion)  # how many there are hangs on the sizes
    for name in sets:
        verdict = run_set(small.fusion, built, module, name, ORDERS if name == RANDOM else ORDERS[:1])
        if verdict.fault:
            return EmulatedProof(fault=at + verdict.fault)
        verdicts.append(verdict)
    ran = run_served(served, compiled, parse(compiled.ptx))
    if ran.fault:
        return EmulatedProof(fault=f"in the emulator: {ran.fault}")
    if unfinished := next(filter(None, (verdict.unfinished for verdict in verdicts)), ""):
        return EmulatedProof(undone=f"{_UNPROVEN} {at}{unfinished}")
    if ran.unfinished:
        return EmulatedProof(undone=f"{_UNPROVEN} in the emulator: {ran.unfinished}")
    if ran.missed_races:
        return EmulatedProof(undone=f"{_UNPROVEN} in the emulator: {_TOO_LONG_SHARES}")
    decided = _decided(small.fusion)
    return EmulatedProof(_verification(sets, verdicts, _record(built, compiled, ran, ORDERS), decided))


def _verify_served(served: Generated, compiled: KernelArtifact, none_smaller: Unsupported) -> EmulatedProof:
    """What some blocks show of a kernel that is as large at any sizes. Raises `none_smaller` if none could run."""
    ran = run_served(served, compiled, parse(compiled.ptx), is_alone=True)
    if ran.fault:
        return EmulatedProof(fault=f"in the emulator: {ran.fault}")
    if ran.unfinished:
        return EmulatedProof(undone=f"{_UNPROVEN} in the emulator: {ran.unfinished}")
    if not ran.blocks or not ran.values_compared:
        raise none_smaller
    verdict = EmulatedVerdict(max_error=ran.max_error, tolerance=ran.tolerance)
    return EmulatedProof(_verification((RANDOM,), [verdict], _record(None, compiled, ran, ran.orders)))


def _decided(fusion: Fusion) -> tuple[float, ...]:
    """The decided share of each output. Raises Unsupported where one is not decided."""
    found = best_shares(fusion, ARRAYS, lambda name: expect_set(fusion, name, ARRAYS))
    if why := why_undecided(found):
        raise Unsupported(why, UNDECIDED_FIX)
    return found


def _verification(
    sets: tuple[str, ...], verdicts: Sequence[EmulatedVerdict], record: Emulated, decided: tuple[float, ...] = ()
) -> Verification:
    worst = max(verdicts, key=lambda verdict: verdict.max_error)
    return Verification(
        device=DEVICE,
        input_sets=sets,
        max_error=worst.max_error,
        tolerance=worst.tolerance,
        deterministic=True,
        emulated=record,
        decided=decided,
        verifier=VERIFIER,
    )


def _record(
    built: KernelArtifact | None, compiled: KernelArtifact, ran: Served, orders: Sequence[Completion]
) -> Emulated:
    """`built` is the kernel of the small binding, None where there is none; `compiled` the served one."""
    specs = (*built.inputs, *built.outputs) if built is not None else ()
    blocks = sum(prod(launch.grid) for launch in compiled.launches)
    return Emulated(
        shapes=tuple(spec.shape for spec in specs),
        strides=tuple(spec.strides for spec in specs),
        grid=(0, 0, 0) if built is None else built.launches[0].grid,
        code_hash="" if built is None else built.code_hash,
        ptx_sha256="" if built is None else sha256(built.ptx.encode()).hexdigest(),
        orders=tuple(f"{order} {SEED}" if order == "random" else str(order) for order in orders),
        served_ptx_sha256=sha256(compiled.ptx.encode()).hexdigest(),
        served_blocks=ran.blocks,
        served_blocks_of=blocks,
        served_values_compared=ran.values_compared,
        not_run=_not_run(ran, blocks, has_small=built is not None),
    )


def _not_run(ran: Served, blocks: int, has_small: bool) -> str:
    """In plain words, what nobody has seen."""
    left = blocks - len(ran.blocks)
    parts = [f"{left} of the {blocks} blocks of the served code"] if left else []
    if left and not has_small:
        parts.append("all blocks of a kernel of its class, which is as large at any sizes")
    if not has_small and not ran.sought_races:
        parts.append("a search for races between its threads, and other orders of its copies")
    if not ran.values_compared:
        parts.append("a comparison of the values that its blocks write")
    parts += ["its machine code, which ptxas makes of the PTX", "its timing"]
    return "Not run: " + "; ".join(parts) + "."


def _shapes(small: Small) -> str:
    shapes = [list(small.fusion.value(name).shape) for name in small.fusion.inputs]
    return f"shapes {', '.join(map(str, shapes))}"
