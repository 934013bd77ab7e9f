"""One kernel proven without a GPU: its class at a small binding, and the served code on its boundary blocks."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from compiler.arch import arch_named
from compiler.emulate.memory.build import BadLaunch
from compiler.emulate.ptx.errors import PtxError
from compiler.emulate.ptx.parser import parse
from compiler.errors import CompileError, Unsupported
from compiler.pipeline import Generated, artifact, generate
from compiler.wire import trace_from_json
from fusetune.wire.artifact import Emulated, Evidence, KernelArtifact, Verification
from search.build import Compiler
from search.emulation.running import ORDERS, SEED, Verdict, run_set
from search.emulation.served import Served, run_served
from search.emulation.small import Small, small_binding
from search.emulation.tiling import tilings
from search.verify.inputs import RANDOM, input_sets

DEVICE = "emulator"
"""What a verification names in place of a GPU."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """What came of a kernel: its `verification`; or its `fault`; or, in `undone`, why neither is known."""

    verification: Verification | None = None
    fault: str = ""
    undone: str = ""


def generated_of(stored: KernelArtifact) -> Generated:
    """The kernel of an artifact made again from its trace. Raises InvalidFusion, InvalidStep, IllegalSchedule."""
    return generate(trace_from_json(stored.trace), arch_named(stored.arch))


def verify(served: Generated, compiled: KernelArtifact, compiler: Compiler) -> Emulation:
    """Proves a compiled kernel, or finds out what is wrong with it. `compiler` compiles its small binding."""
    try:
        return _verify(served, compiled, compiler)
    except (Unsupported, PtxError, BadLaunch, CompileError) as error:
        return Emulation(undone=str(error))


def proven(compiled: KernelArtifact, verification: Verification, predicted_us: float | None) -> KernelArtifact:
    """The artifact with the evidence of its verification, and what a model of the card expects; it has no timing."""
    evidence = Evidence(correct="verified_emulated", time="none" if predicted_us is None else "predicted")
    return compiled.model_copy(
        update={"evidence": evidence, "verification": verification, "predicted_us": predicted_us}
    )


def _verify(served: Generated, compiled: KernelArtifact, compiler: Compiler) -> Emulation:
    small = small_binding(served)
    built = artifact(small.generated, compiler.submit(small.generated.source, served.arch.name).result())
    module = parse(built.ptx)
    verdicts: list[Verdict] = []
    sets = input_sets(small.fusion)
    for name in sets:
        verdict = run_set(small.fusion, built, module, name, ORDERS if name == RANDOM else ORDERS[:1])
        if verdict.fault:
            return Emulation(fault=f"in the emulator, at {_shapes(small)}: {verdict.fault}")
        verdicts.append(verdict)
    ran = run_served(served.trace.fusion, compiled, parse(compiled.ptx), tilings(served.trace))
    if ran.fault:
        return Emulation(fault=f"in the emulator: {ran.fault}")
    worst = max(verdicts, key=lambda verdict: verdict.max_error)
    return Emulation(
        Verification(
            device=DEVICE,
            input_sets=sets,
            max_error=worst.max_error,
            tolerance=worst.tolerance,
            deterministic=True,
            emulated=_record(small, built, compiled, ran),
        )
    )


def _record(small: Small, built: KernelArtifact, compiled: KernelArtifact, ran: Served) -> Emulated:
    specs = (*built.inputs, *built.outputs)
    grid = compiled.launches[0].grid
    return Emulated(
        shapes=tuple(spec.shape for spec in specs),
        strides=tuple(spec.strides for spec in specs),
        grid=built.launches[0].grid,
        code_hash=built.code_hash,
        ptx_sha256=sha256(built.ptx.encode()).hexdigest(),
        orders=tuple(f"{order} {SEED}" if order == "random" else str(order) for order in ORDERS),
        served_ptx_sha256=sha256(compiled.ptx.encode()).hexdigest(),
        served_blocks=ran.blocks,
        served_blocks_of=grid[0] * grid[1] * grid[2],
        served_values_compared=ran.values_compared,
        not_run=_not_run(ran, grid[0] * grid[1] * grid[2]),
    )


def _not_run(ran: Served, blocks: int) -> str:
    """In plain words, what nobody has seen."""
    left = blocks - len(ran.blocks)
    parts = [f"{left} of the {blocks} blocks of the served code"] if left else []
    if not ran.values_compared:
        parts.append("a comparison of the values that its blocks write")
    parts += ["its machine code, which ptxas makes of the PTX", "its timing"]
    return "Not run: " + "; ".join(parts) + "."


def _shapes(small: Small) -> str:
    shapes = [list(small.fusion.value(name).shape) for name in small.fusion.inputs]
    return f"shapes {', '.join(map(str, shapes))}"
