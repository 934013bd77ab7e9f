"""One random fusion on its way: bound, scheduled at random points, compiled, run whole in the emulator, compared."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from compiler.arch import card_or_default
from compiler.emulate.memory.build import BadLaunch
from compiler.emulate.ptx.errors import PtxError
from compiler.emulate.ptx.parser import parse
from compiler.errors import CompileError, IllegalSchedule, InvalidFusion, InvalidStep, Unsupported
from compiler.nvrtc import Compiled
from compiler.pipeline import Generated, artifact, generate
from search.proof.emulated.running import ORDERS, run_set
from search.space.schedulers.launches import TILES
from search.tuning.build import Compiler
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan
from tests.search.random_fusions.cases import Case
from tests.search.random_fusions.products import is_product

CARDS = tuple(replace(card_or_default("H200"), sm_count=count) for count in (132, 4))
"""Few multiprocessors give persistent blocks several tiles of a small tensor."""

BLACKWELL_CARDS = tuple(replace(card_or_default("B200"), sm_count=count) for count in (148, 4))
"""The same of cards that have tensor memory."""

DRAWN_POINTS = 6
"""Points of each scheduler that one is chosen of; what the whole model refuses of them is passed over."""


_BY_WARP_GROUPS = 0.7
"""Of random products that warp groups can make, the share that they do."""

BUGS = (InvalidStep, InvalidFusion, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What no fusion and no legal point may raise: reported with the fusion, so that the others are still tried."""


@dataclass(frozen=True)
class Kernel:
    """A schedule of a case on its way through the compiler, or why there is none."""

    case: Case
    seed: int
    candidate: Candidate | None = None
    made: Generated | None = None
    compiled: Future[Compiled] | None = None
    unsupported: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of a kernel: right if there is neither a `fault` nor something that is `unsupported`."""

    kernel: Kernel
    fault: str = ""
    unsupported: str = ""

    def __str__(self) -> str:
        """The whole of a failure, with a command that shows it again."""
        kernel = self.kernel
        said = f"unsupported: {self.unsupported}" if self.unsupported else self.fault
        point = "none" if kernel.candidate is None else str(kernel.candidate)
        return f"{said}\npoint {point}\n{kernel.case}\nagain: {reproduction(kernel)}"


def reproduction(kernel: Kernel) -> str:
    """A command that does the same once more."""
    command = f"PYTHONPATH=.:sdk python -m tests.search.random_fusions.again '{kernel.case.name}' --seed {kernel.seed}"
    if kernel.candidate is None:
        return command
    return f"{command} --candidate '{json.dumps(kernel.candidate.to_json())}'"


def kernels(case: Case, seed: int, count: int, pool: Compiler) -> list[Kernel]:
    """Up to `count` schedules of the case, each handed to the compiler. `seed` chooses the card and the points."""
    random = Random(seed)
    try:
        plan = Plan.of(case.bound(), random.choice(CARDS))
        drawn = plan.sample(DRAWN_POINTS, seed)
    except Unsupported as error:
        return [Kernel(case, seed, unsupported=str(error))]
    except BUGS as error:
        return [Kernel(case, seed, fault=_traced(error))]
    random.shuffle(drawn)
    if is_product(case.name) and random.random() < _BY_WARP_GROUPS:
        drawn.sort(key=lambda candidate: not candidate.scheduler.startswith(("product", f"launches-{TILES}")))
    found: list[Kernel] = []
    reasons: list[str] = []
    for candidate in drawn:
        if len(found) == count:
            break
        try:
            found.append(kernel_of(case, seed, plan, candidate, pool))
        except (IllegalSchedule, Unsupported) as error:
            reasons.append(str(error))
        except BUGS as error:
            return [Kernel(case, seed, candidate, fault=_traced(error))]
    return found or [Kernel(case, seed, unsupported=f"every point drawn is refused: {reasons[0]}")]


def _traced(error: Exception) -> str:
    """The error and where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {error}"


def kernel_of(case: Case, seed: int, plan: Plan, candidate: Candidate, pool: Compiler) -> Kernel:
    """One candidate, handed to the compiler. Raises as `generate` does."""
    made = generate(plan.schedulers[candidate.scheduler].trace(plan.fusion, candidate.knobs), plan.arch)
    return Kernel(case, seed, candidate, made, pool.submit(made.source, made.arch.name))


def candidate_of(case: Case, seed: int, candidate: Candidate, pool: Compiler) -> Kernel:
    """The candidate on the first of the cards on which it is legal. Ends the program if there is none."""
    for card in (*CARDS, card_or_default("H200"), *BLACKWELL_CARDS):
        plan = Plan.of(case.bound(), card)
        try:
            if plan.spaces[candidate.scheduler].is_legal(candidate.knobs):
                return kernel_of(case, seed, plan, candidate, pool)
        except (KeyError, ValueError):
            continue
    raise SystemExit(f"{candidate} is no legal point of this fusion any more")


def outcome(kernel: Kernel) -> Outcome:
    """Runs the compiled kernel over the case's own sizes, in a random order of everything that has no order."""
    if kernel.made is None or kernel.compiled is None:
        return Outcome(kernel, kernel.fault, kernel.unsupported)
    try:
        built = artifact(kernel.made, kernel.compiled.result())
        module = parse(built.ptx)
        fusion, fault = kernel.made.trace.fusion, ""
        for name in kernel.case.sets:
            fault = fault or run_set(fusion, built, module, name, ORDERS[-1:], races=True).fault
    except (CompileError, BadLaunch) as error:
        return Outcome(kernel, fault=f"{type(error).__name__}: {error}")
    except (Unsupported, PtxError) as error:
        return Outcome(kernel, unsupported=str(error))
    return Outcome(kernel, fault=fault)


def outcomes(cases: Iterator[Case], seed: int, points: int, pool: Compiler, ahead: int = 16) -> Iterator[Outcome]:
    """Every case at `points` points; the compiler works on those ahead while one is run."""
    waiting: list[Kernel] = []
    for case in cases:
        waiting += kernels(case, seed, points, pool)
        while len(waiting) > ahead:
            yield outcome(waiting.pop(0))
    for kernel in waiting:
        yield outcome(kernel)
