"""Locked kernels to check: the example fusions, scheduled and compiled as a tuning would, without a search."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from compiler.arch import arch_named, card_or_default
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from fusetune.wire.artifact import VERIFIER, KernelArtifact
from fusetune.wire.lock import LockedCandidate
from search.cost.roofline import floor_us
from search.measure.device import TIMING_POLICY
from search.measure.fake import FACTS, FakeDevice
from search.tuning.attached import Attached, Detached, card_of
from search.tuning.candidates.plan import Plan
from search.tuning.identity import kernel_id
from service.ci.folder import LockSubject, read_folder
from service.ci.lock import CiCard, CiEntry, CiEvidence, CiLock, write_lock

EXAMPLES = Path(__file__).parents[3] / "examples" / "fusions"
NAMES = ("add", "bias_gelu", "transpose")
SIZES = {"M": 64, "N": 128}


def copied(folder: Path) -> Path:
    """A new folder with the examples of NAMES."""
    folder.mkdir()
    for name in NAMES:
        shutil.copy(EXAMPLES / f"{name}.json", folder)
    return folder


@pytest.fixture(scope="session")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LockSubject]:
    at = tmp_path_factory.mktemp("none")
    folder = read_folder(copied(at / "fusions"), SIZES, CiLock(), at / "lock.json")
    assert not folder.unusable
    return {subject.name: subject for subject in folder.subjects}


def kernel_of(subject: LockSubject, pool: CompilePool, of: str = "") -> tuple[Any, KernelArtifact]:
    """A candidate, of the first scheduler whose name begins with `of`, and its kernel for the fake card's target."""
    plan = Plan.of(subject.fusion, card_of(FACTS)[0])
    candidate = next(one for one in plan.sample(1, 0) if one.scheduler.startswith(of))
    trace = plan.schedulers[candidate.scheduler].trace(subject.fusion, candidate.knobs)
    generated = generate(trace, arch_named("sm_90a"))
    return candidate, artifact(generated, pool.submit(generated.source, "sm_90a").result())


def entry_of(subject: LockSubject, candidate: Any, kernel: KernelArtifact) -> CiEntry:
    """What a tuning on the fake device leaves of it: every kernel takes 10 us there."""
    card = card_of(FACTS)[0]
    code_hash, launch_hash = kernel_id(kernel)
    return CiEntry(
        fingerprint=subject.fusion.fingerprint,
        binding_hash=subject.fusion.binding_hash,
        binding=subject.binding,
        card=CiCard.of(card),
        policy=TIMING_POLICY,
        generator=kernel.conditions.generator,
        nvrtc=kernel.conditions.nvrtc,
        driver="none",
        candidate=LockedCandidate(scheduler=candidate.scheduler, point=candidate.knobs),
        trace=kernel.trace,
        source_sha256=sha256(kernel.source.encode()).hexdigest(),
        code_hash=code_hash,
        launch_hash=launch_hash,
        evidence=CiEvidence(verifier=VERIFIER),
        median_us=10.0,
        p10_us=9.9,
        p90_us=10.1,
        floor_us=floor_us(subject.fusion, card),
    )


@pytest.fixture(scope="session")
def kernels(subjects: dict[str, LockSubject], pool: CompilePool) -> dict[str, tuple[Any, KernelArtifact]]:
    """Of each example a candidate and its kernel."""
    return {name: kernel_of(subject, pool) for name, subject in subjects.items()}


@pytest.fixture(scope="session")
def lock(subjects: dict[str, LockSubject], kernels: dict[str, tuple[Any, KernelArtifact]]) -> CiLock:
    return CiLock(fusions={name: entry_of(subject, *kernels[name]) for name, subject in subjects.items()})


@pytest.fixture
def place(tmp_path: Path, lock: CiLock) -> Path:
    """A folder as a repository has it: `fusions/*.json` and, beside it, `lock.json`."""
    copied(tmp_path / "fusions")
    write_lock(tmp_path / "lock.json", lock)
    return tmp_path


def times_of(us: float) -> dict[str, float]:
    """The fields of an entry whose kernel always took so long."""
    return {"median_us": us, "p10_us": us, "p90_us": us}


Edit = Callable[[str, Callable[[dict[str, Any]], None]], None]


@pytest.fixture
def edit_entry(place: Path) -> Edit:
    """Changes one entry of the lock file as a hand would."""

    def edit(name: str, change: Callable[[dict[str, Any]], None]) -> None:
        document = json.loads((place / "lock.json").read_text())
        change(document["fusions"][name])
        (place / "lock.json").write_text(json.dumps(document))

    return edit


@pytest.fixture
def no_gpu() -> Detached:
    return Detached(card_or_default(None), "no GPU is attached")


@pytest.fixture
def fake_gpu() -> Iterator[Attached]:
    card, notes = card_of(FACTS)
    with FakeDevice() as device:
        yield Attached(device, replace(FACTS), card, notes)
