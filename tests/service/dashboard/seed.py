"""A service's database as it looks after some use: tunings in every state, kernels, workers, trials with real points.

Fusions, spaces, schedules and CUDA sources are real; times are drawn around the floor, cubin and PTX are stand-ins.
"""

from __future__ import annotations

import hashlib
import random
import statistics
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from compiler.arch import Card, card_named
from compiler.generator import GENERATOR
from compiler.nvrtc import Compiled, KernelResources
from compiler.pipeline import Generated, artifact, generate
from compiler.wire import bind
from fusetune.wire.artifact import (
    TIMING_POLICY,
    VERIFIER,
    Conditions,
    Emulated,
    Evidence,
    KernelArtifact,
    Timing,
    Verification,
)
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Fusion
from fusetune.wire.parse import parse_fusion
from fusetune.wire.printing import fusion_text
from search.cost.roofline import floor_us
from search.measure.fake import FACTS as FAKE_FACTS
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan
from service.db import cards, fusions, kernels, trials, tunings
from service.db.cards import Presence
from service.db.engine import Database
from service.db.models import KernelRow, TuningRow, WorkerRow
from service.db.types import now
from service.operations.understanding import understand
from tests.service.databases import new_file

EXAMPLES = Path(__file__).parents[3] / "examples" / "fusions"
H200 = card_named("H200")
DRIVER = "580.65.06"
TRIALS = 150

_STATES = (
    ("measured", 0.62), ("duplicate", 0.16), ("compile_failed", 0.03), ("wrong_result", 0.03), ("illegal", 0.04),
    ("timed_out", 0.02), ("crashed", 0.01), ("pruned", 0.05), ("cancelled", 0.04),
)  # fmt: skip
_REASONS = {
    "compile_failed": "ptxas: too much shared data (0x3a000 bytes, 0x38c00 max)",
    "wrong_result": "output 0, random inputs: element [17, 130] is 0.4922, expected 0.4883 to 0.4902",
    "timed_out": "one launch took longer than 2 s",
    "crashed": "CUDA_ERROR_ILLEGAL_ADDRESS; the measuring process was started again",
    "illegal": "i0_s: box[0] is 512, at most 256 is allowed (tensor_map_boxes_are_1_to_256)",
}
_VIOLATION = {
    "rule": "tensor_map_boxes_are_1_to_256", "where": "i0_s: box[0]", "found": 512, "limit": 256, "message": "",
    "fix": "Split that axis by 256 or less before boxing it.",
}  # fmt: skip


def open_database(folder: Path) -> Database:
    """A new database with all tables."""
    return Database(new_file(folder))


@dataclass(frozen=True, repr=False)
class Subject:
    """A posted fusion at a binding, on a card: what tunings and kernels are of."""

    name: str
    fingerprint: str
    binding: str
    card: Card
    card_id: str
    plan: Plan
    candidates: tuple[Candidate, ...]
    floor_us: float

    @property
    def key(self) -> kernels.Key:
        return self.fingerprint, self.binding, self.card_id, TIMING_POLICY


@cache
def _planned(
    name: str, sizes: tuple[tuple[str, int], ...], card_name: str
) -> tuple[Fusion, Binding, Plan, tuple[Candidate, ...]]:
    card = card_named(card_name)
    fusion = parse_fusion((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    binding = Binding(sizes=dict(sizes))
    plan = Plan.of(bind(fusion, binding), card)
    return fusion, binding, plan, tuple(plan.sample(TRIALS, 7)[:TRIALS])


def post(session: Session, name: str, sizes: Mapping[str, int], card: Card = H200, *, attached: bool = True) -> Subject:
    """Post the example fusion `name` at `sizes`."""
    fusion, binding, plan, candidates = _planned(
        name, tuple(sorted(sizes.items())), H200.name if card.name == FAKE_FACTS.name else card.name
    )
    asked = understand(fusion, binding)
    fingerprint, binding_hash = plan.fusion.fingerprint, plan.fusion.binding_hash
    document = asked.fusion.model_dump(mode="json", by_alias=True, exclude_none=True)
    fusions.put(session, fingerprint, document, fusion_text(asked.fusion), name)
    fusions.put_binding(session, fingerprint, binding_hash, asked.binding.model_dump(mode="json", exclude_none=True))
    row = cards.put(session, card, DRIVER if attached else None, attached=attached)
    floor = floor_us(plan.fusion, card)
    return Subject(name, fingerprint, binding_hash, card, row.id, plan, candidates, floor)


def tune(session: Session, subject: Subject, age_s: float = 60.0, **columns: Any) -> TuningRow:
    """A queued tuning of `subject`, posted `age_s` ago."""
    given: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "fingerprint": subject.fingerprint,
        "binding": subject.binding,
        "card_id": subject.card_id,
        "policy": TIMING_POLICY,
        "queue": f"tune-{subject.card_id}",
        "name": subject.name,
        "accept": {"correct": ["verified_on_gpu"], "time": ["measured"]},
        "budget_s": 60.0,
        "request_sha256": hashlib.sha256(b"request").hexdigest(),
        "created_at": now() - timedelta(seconds=age_s),
    }
    row = TuningRow(**given | columns)
    session.add(row)
    session.flush()
    return row


def begin(session: Session, subject: Subject, row: TuningRow, worker: str = "hopper-0") -> None:
    """A worker takes the tuning and has looked at its space."""
    tunings.start(session, row.id, worker)
    plan = subject.plan
    tunings.set_space(session, row.id, plan.points, plan.legal, plan.refused, plan.reasons)
    tunings.set_floor(session, row.id, subject.floor_us)
    tunings.advance(session, row.id, "searching", 1.0)


def trial(subject: Subject, number: int, state: str | None = None) -> dict[str, Any]:
    """What became of candidate `number`, as `Trial.to_json` writes it; the same for equal arguments."""
    rng = random.Random(1000 + number)
    states, weights = zip(*_STATES, strict=True)
    state = state or rng.choices(states, weights)[0]
    candidate = subject.candidates[number % len(subject.candidates)]
    spread = subject.floor_us * rng.uniform(0.12, 2.6) * (1 - 0.7 * min(number, TRIALS) / TRIALS * rng.random())
    us = subject.floor_us * 1.06 + spread
    found: dict[str, Any] = {
        "number": number,
        **candidate.to_json(),
        "state": state,
        "reason": _REASONS.get(state, ""),
        "predicted_us": round(us * rng.uniform(0.7, 1.4), 3),
        "predicted_terms": {"fixed": 1.9, "bandwidth": round(0.8 * us, 3), "latency": 0.4, "spills": 0.0},
        "seconds": {"generate": 0.01, "compile": 0.9},
    }
    if state == "illegal":
        return found | {"violations": [_VIOLATION]}
    if state in ("measured", "duplicate"):
        registers = rng.randrange(24, 128, 8)
        spills = 64 if registers > 110 else 0
        found["resources"] = _resources(registers, spills)
        found["median_us"] = round(us, 4)
    if state == "duplicate":
        return found | {"duplicate_of": max(0, number - 3)}
    if state == "measured":
        samples = [round(us * (1 + rng.gauss(0.0, 0.004)), 4) for _ in range(21)]
        found |= {"p10_us": round(us * 0.996, 4), "p90_us": round(us * 1.006, 4), "samples_us": samples}
    return found


def _resources(registers: int, spills: int = 0) -> dict[str, int]:
    return {
        "registers": registers, "spill_store_bytes": spills, "spill_load_bytes": spills, "stack_bytes": 0,
        "static_smem_bytes": 1024, "barriers": 1,
    }  # fmt: skip


def make_artifact(
    subject: Subject, candidate: Candidate, us: float | None, emulated: Emulated | None = None
) -> KernelArtifact:
    """The artifact of a candidate, measured at `us` unless that is None; or proven in the emulator."""
    key = (subject.fingerprint, subject.binding, subject.card.name)
    _plans[key] = subject.plan
    generated = _generated(key, candidate)
    compiled = Compiled(
        entry="fused", arch="sm_90a", cubin=candidate.key.encode(), ptx=_PTX, log="", code_hash=candidate.key,
        resources=KernelResources(**_resources(40)), nvrtc_version="13.0.88", seconds=0.9,
        entries=tuple(f"fused_{n}" for n in range(len(generated.launches))) if len(generated.launches) > 1 else (),
    )  # fmt: skip
    made = artifact(generated, compiled)
    evidence = Evidence(correct="verified_on_gpu", time="none" if us is None else "measured")
    sets = ("random", "large", "tiny", "ties", "signed zeros", "infinities and NaN")
    verification = Verification(
        device="emulator" if emulated else subject.card.name,
        input_sets=sets,
        max_error=0.0039,
        tolerance=0.0156,
        deterministic=True,
        emulated=emulated,
        verifier=VERIFIER,
    )
    if emulated is not None:
        evidence = Evidence(correct="verified_emulated", time="predicted")
    conditions = Conditions(generator=GENERATOR, nvrtc="13.0.88", driver=DRIVER)
    timing = None
    if us is not None:
        rng = random.Random(5)
        drawn = [us * (1 + abs(rng.gauss(0, 0.006)) - 0.003 + (0.02 if rng.random() < 0.04 else 0)) for _ in range(180)]
        scale = us / statistics.median(drawn)
        samples = sorted(round(one * scale, 4) for one in drawn)
        kept = tuple(round(one * scale, 4) for one in drawn)
        timing = Timing(
            policy=TIMING_POLICY, card=subject.card.name, median_us=us, p10_us=samples[18], p90_us=samples[162],
            samples_us=kept,
            conditions={"sm_clock_mhz": 1980, "memory_clock_mhz": 3201, "power_w": 412.5, "other_processes": 0},
        )  # fmt: skip
    changes = {"evidence": evidence, "verification": verification, "timing": timing, "conditions": conditions}
    return made.model_copy(update=changes)


_PTX = ".version 9.0\n.target sm_90a\n.address_size 64\n" + "".join(
    f"\tld.global.nc.v4.b32 {{%r{i}, %r{i + 1}, %r{i + 2}, %r{i + 3}}}, [%rd{i}];\n" for i in range(1, 240, 4)
)


@cache
def _generated(subject_key: tuple[str, str, str], candidate: Candidate) -> Generated:
    plan = _plans[subject_key]
    trace = plan.schedulers[candidate.scheduler].trace(plan.fusion, candidate.knobs)
    return generate(trace, plan.arch)


_plans: dict[tuple[str, str, str], Plan] = {}


def publish(
    session: Session,
    subject: Subject,
    number: int,
    us: float | None,
    tuning: TuningRow | None,
    emulated: Emulated | None = None,
) -> KernelRow:
    """Serve the kernel of candidate `number`."""
    candidate = subject.candidates[number % len(subject.candidates)]
    made = make_artifact(subject, candidate, us, emulated)
    sha256 = kernels.put_artifact(session, made.model_dump_json().encode())
    timing = made.timing
    row = KernelRow(
        id=kernels.kernel_id(sha256),
        artifact_sha256=sha256,
        fingerprint=subject.fingerprint,
        binding=subject.binding,
        card_id=subject.card_id,
        policy=TIMING_POLICY,
        arch="sm_90a",
        correct=made.evidence.correct,
        time=made.evidence.time,
        verifier=VERIFIER,
        median_us=timing and timing.median_us,
        p10_us=timing and timing.p10_us,
        p90_us=timing and timing.p90_us,
        floor_us=subject.floor_us,
        scheduler=candidate.scheduler,
        point=candidate.knobs,
        resources=made.resources.model_dump(),
        generator=GENERATOR,
        nvrtc="13.0.88",
        driver=DRIVER,
        tuning_id=tuning.id if tuning else None,
        trial_number=number,
    )
    if emulated is not None:
        row.created_at = now() - timedelta(days=2)  # not the newest: that one is measured
    return kernels.publish(session, row)


def finish_well(session: Session, subject: Subject, row: TuningRow, count: int = TRIALS) -> KernelRow:
    """`count` trials, an eager baseline, a served winner."""
    begin(session, subject, row)
    for number in range(count):
        trials.record(session, row.id, trial(subject, number))
    eager = subject.floor_us * 3.4
    kernels.put_baseline(session, subject.key, "eager", eager, [eager] * 5, {})
    best = trials.best(session, row.id)
    assert best is not None
    kernel = publish(session, subject, best.number, best.median_us, row)
    row.spent_s = 58.4
    tunings.finish(session, row.id, "done", ended="budget", kernel_id=kernel.id)
    return kernel


def worker(session: Session, id: str, card_id: str, *, attached: bool, why: str = "", age_s: float = 1.0) -> None:
    """A worker heard of `age_s` ago."""
    row: WorkerRow = cards.announce(session, Presence(id, id.rsplit("-", 1)[0], 4242, card_id, attached, why))
    row.started_at = now() - timedelta(seconds=age_s + 5000)
    row.heartbeat_at = now() - timedelta(seconds=age_s)


@dataclass(frozen=True)
class Seeded:
    """Ids of what `seed` made."""

    fusion: str
    kernel: str
    done: str
    running: str
    queued: str
    failed: str
    cancelled: str
    no_gpu: str
    emulated_kernel: str
    fake: str
    fake_kernel: str
    subject: Subject


NO_GPU_NOTE = "Nothing was timed: this worker has no GPU (no NVIDIA driver). 5 kernels compiled, 1 of them verified."
EMULATED = Emulated(
    shapes=((2, 1024), (2, 1024)),
    strides=((1024, 1), (1024, 1)),
    grid=(4, 1, 1),
    code_hash="c0de" * 16,
    ptx_sha256="5a11" * 16,
    orders=("eager", "lazy", "random 1"),
    served_ptx_sha256="5e4d" * 16,
    served_blocks=(0, 14, 15),
    served_blocks_of=16,
    served_values_compared=True,
    not_run="Not run: 13 of the 16 blocks of the served code; its timing.",
)
COMPILE_ERROR = "The GPU does not answer any more: CUDA_ERROR_ECC_UNCORRECTABLE. Reset it and tune again."


def seed(database: Database) -> Seeded:
    """All of it."""
    with database.write() as session:
        return _seed(session)


def _seed(session: Session) -> Seeded:
    bias = post(session, "bias_gelu", {"M": 8192})
    done = tune(session, bias, 4000)
    kernel = finish_well(session, bias, done)

    small = post(session, "bias_gelu", {"M": 512})
    finish_well(session, small, tune(session, small, 3000), 40)

    fake_card = replace(H200, name=FAKE_FACTS.name, aliases=())
    fake_subject = post(session, "add", {"M": 4096, "N": 4096}, fake_card)
    fake = tune(session, fake_subject, 2500, budget_s=5.0)
    fake_kernel = finish_well(session, fake_subject, fake, 12)

    transpose = post(session, "transpose", {"M": 8192, "N": 4096})
    running = tune(session, transpose, 20)
    begin(session, transpose, running)
    for number in range(23):
        trials.record(session, running.id, trial(transpose, number))
    tunings.advance(session, running.id, "searching", 14.2)
    kernels.put_baseline(session, transpose.key, "eager", transpose.floor_us * 2.6, [1.0], {})

    add = post(session, "add", {"M": 4096, "N": 4096})
    failed = tune(session, add, 900)
    begin(session, add, failed)
    for number in range(6):
        trials.record(session, failed.id, trial(add, number, "crashed" if number == 5 else "measured"))
    tunings.finish(session, failed.id, "failed", error=COMPILE_ERROR)
    cancelled = tune(session, add, 600)
    tunings.request_cancel(session, cancelled.id)
    queued = tune(session, add, 10)

    table = post(session, "bias_gelu", {"M": 2048}, card_named("B200"), attached=False)
    no_gpu = tune(session, table, 1200, queue=f"prepare-{table.card_id}")
    begin(session, table, no_gpu, "builder-0")
    for number in range(5):
        trials.record(session, no_gpu.id, trial(table, number, "verified" if number == 2 else "compiled"))
    emulated = publish(session, table, 2, None, no_gpu, EMULATED)
    tunings.finish(session, no_gpu.id, "done", ended="emulated", note=NO_GPU_NOTE, kernel_id=emulated.id)

    worker(session, "hopper-0", bias.card_id, attached=True)
    session.get_one(WorkerRow, "hopper-0").tuning_id = running.id
    worker(session, "hopper-1", bias.card_id, attached=True, age_s=10 * 86400)
    worker(session, "builder-0", table.card_id, attached=False, why="no NVIDIA driver on this machine")
    worker(session, "test-0", fake_subject.card_id, attached=True)
    return Seeded(
        fusion=bias.fingerprint,
        kernel=kernel.id,
        done=done.id,
        running=running.id,
        queued=queued.id,
        failed=failed.id,
        cancelled=cancelled.id,
        no_gpu=no_gpu.id,
        emulated_kernel=emulated.id,
        fake=fake.id,
        fake_kernel=fake_kernel.id,
        subject=transpose,
    )
