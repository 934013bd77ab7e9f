"""A worker's hands without its process, for tests that replace the search."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from sqlalchemy import select

from compiler.arch import card_named
from fusetune.wire.artifact import (
    VERIFIER,
    Conditions,
    Evidence,
    KernelArtifact,
    LaunchSpec,
    Resources,
    Timing,
    Verification,
)
from search.measure.device import EAGER, Baseline, CardFacts, DeviceLost
from search.measure.fake import FACTS
from search.proof.emulated.apart import Prover
from search.tuning.attached import Attached, Detached, card_of
from search.tuning.budget import Budget
from search.tuning.candidates.candidate import Candidate
from search.tuning.leaders import Winner
from search.tuning.trial import Trial, TrialState
from search.tuning.tuner import Ending, SearchOutcome
from service.db.models import KernelRow, TuningRow
from service.jobs.tuning import TuningJobs
from tests.service.jobs.sites import Site

CANDIDATE = Candidate.of("flat", {"vector": 8})
H200 = Detached(card_named("H200"), "no GPU is attached")


class Device:
    """A GPU that answers unless it is `gone`."""

    def __init__(self) -> None:
        self.gone = False
        self.baselines = 0
        self.baseline_timing: Timing | None = timing(25.0)

    def tell(self, timeline: Any) -> None: ...

    def open(self, fusion: Any) -> None: ...

    def measure(self, artifact: KernelArtifact, effort: Any = None) -> Any:
        raise AssertionError("nothing is measured here")

    def baseline(self, name: str = EAGER) -> Baseline:
        self.baselines += 1
        return Baseline(name, self.baseline_timing, "" if self.baseline_timing else "no such operator")

    def facts(self) -> CardFacts:
        if self.gone:
            raise DeviceLost("GPU 0", "it fell off the bus")
        return FACTS

    def close(self) -> None: ...


def timing(us: float) -> Timing:
    return Timing(policy="p", card="fake", median_us=us, p10_us=us, p90_us=us, samples_us=(us,) * 3)


def winner(us: float, number: int = 0) -> Winner:
    artifact = KernelArtifact(
        fingerprint="f",
        binding="b",
        arch="sm_90a",
        inputs=(),
        outputs=(),
        launches=(LaunchSpec(entry="k", grid=(1, 1, 1), block=(32, 1, 1), args=()),),
        cubin=b"",
        cubin_sha256=sha256(b"").hexdigest(),
        source=f"takes {us}",
        ptx="",
        trace={},
        resources=Resources(registers=1, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=0),
        code_hash="hash",
        conditions=Conditions(generator="1", nvrtc="13.0"),
        evidence=Evidence(correct="verified_on_gpu", time="measured"),
        verification=Verification(
            device="d", input_sets=("random",), max_error=0, tolerance=0, deterministic=True, verifier=VERIFIER
        ),
        timing=timing(us),
    )
    return Winner(Trial(number, CANDIDATE, TrialState.MEASURED, median_us=us, p10_us=us, p90_us=us), artifact)


@dataclass
class Bench:
    """A worker's hands without its process; `search` is what the search does."""

    site: Site
    search: Callable[..., SearchOutcome] = lambda **_: SearchOutcome(None, (), "budget")
    device: Device = field(default_factory=Device)
    stopping: threading.Event = field(default_factory=threading.Event)
    budgets: list[Budget] = field(default_factory=list)

    def tune_on(
        self, gpu: Any, plan: Any, log: Any, budget: Budget, *args: Any, baseline: Any, **kwargs: Any
    ) -> SearchOutcome:
        self.budgets.append(budget)
        baseline(gpu.device)
        return self.search(log=log, **kwargs)

    def tunings(self, prover: Prover | None = None) -> TuningJobs:
        gpu = Attached(self.device, FACTS, card_of(FACTS)[0], ())
        return TuningJobs(self.site.db, gpu, "w0", self.stopping, database_pause_s=0.01, prover=prover)

    def run(self, tuning_id: str) -> TuningRow:
        self.tunings().run(tuning_id)
        return self.site.tuning(tuning_id)

    def kernels(self) -> list[KernelRow]:
        with self.site.db.read() as session:
            return list(session.scalars(select(KernelRow).order_by(KernelRow.created_at)))


def wins(us: float, ended: Ending = "budget") -> Callable[..., SearchOutcome]:
    return lambda **_: SearchOutcome(winner(us), (winner(us).trial,), ended)
