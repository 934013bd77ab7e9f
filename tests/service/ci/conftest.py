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
from fusetune.wire.artifact import KernelArtifact
from search.attached import Attached, Detached, card_of
from search.ending import kernel_id
from search.measure.device import TIMING_POLICY
from search.measure.fake import FACTS, FakeDevice
from search.plan import Plan
from search.roofline import floor_us
from service.ci.folder import Subject, read_folder
from service.ci.lock import Entry, Lock, LockedCandidate, LockedCard, LockedEvidence, write_lock

EXAMPLES = Path(__file__).parents[3] / "examples" / "fusions"
SIZES = {"B": 2, "M": 64, "N": 128}


@pytest.fixture(scope="session")
def pool() -> Iterator[CompilePool]:
    with CompilePool(1) as pool:
        yield pool


@pytest.fixture(scope="session")
def fake_card() -> LockedCard:
    return LockedCard.of(card_of(FACTS)[0])


@pytest.fixture(scope="session")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Subject]:
    folder = read_folder(EXAMPLES, SIZES, Lock(), tmp_path_factory.mktemp("none") / "lock.json")
    assert not folder.unusable
    return {subject.name: subject for subject in folder.subjects}


@pytest.fixture(scope="session")
def kernels(subjects: dict[str, Subject], pool: CompilePool) -> dict[str, tuple[Any, KernelArtifact]]:
    """Of each example a candidate and its kernel, as the fake card's compile target has it."""
    built: dict[str, tuple[Any, KernelArtifact]] = {}
    for name, subject in subjects.items():
        plan = Plan.of(subject.fusion, card_of(FACTS)[0])
        candidate = plan.sample(1, 0)[0]
        trace = plan.schedulers[candidate.scheduler].trace(subject.fusion, candidate.knobs)
        generated = generate(trace, arch_named("sm_90a"))
        built[name] = (candidate, artifact(generated, pool.submit(generated.source, "sm_90a").result()))
    return built


@pytest.fixture(scope="session")
def lock(subjects: dict[str, Subject], kernels: dict[str, tuple[Any, KernelArtifact]], fake_card: LockedCard) -> Lock:
    """What a tuning on the fake device leaves: every kernel takes 10 us there."""
    card = card_of(FACTS)[0]
    entries: dict[str, Entry] = {}
    for name, subject in subjects.items():
        candidate, kernel = kernels[name]
        code_hash, launch_hash = kernel_id(kernel)
        entries[name] = Entry(
            fingerprint=subject.fusion.fingerprint,
            binding_hash=subject.fusion.binding_hash,
            binding=subject.binding,
            card=fake_card,
            policy=TIMING_POLICY,
            generator=kernel.conditions.generator,
            nvrtc=kernel.conditions.nvrtc,
            driver="none",
            candidate=LockedCandidate(scheduler=candidate.scheduler, point=candidate.knobs),
            trace=kernel.trace,
            source_sha256=sha256(kernel.source.encode()).hexdigest(),
            code_hash=code_hash,
            launch_hash=launch_hash,
            evidence=LockedEvidence(),
            median_us=10.0,
            p10_us=9.9,
            p90_us=10.1,
            floor_us=floor_us(subject.fusion, card),
        )
    return Lock(fusions=entries)


@pytest.fixture
def place(tmp_path: Path, lock: Lock) -> Path:
    """A folder as a repository has it: `fusions/*.json` and, beside it, `lock.json`."""
    shutil.copytree(EXAMPLES, tmp_path / "fusions")
    write_lock(tmp_path / "lock.json", lock)
    return tmp_path


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
