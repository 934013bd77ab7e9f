"""What of a kernel's artifact, and of the trial that found it, stands in its row."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from fusetune.wire.artifact import KernelArtifact
from search.tuning.leaders import Winner
from service.db import kernels


def of_artifact(session: Session, artifact: KernelArtifact) -> dict[str, Any]:
    """Keeps the bytes; returns the columns that say which they are and how far they may be believed."""
    if artifact.verification is None:
        raise AssertionError(f"a kernel of {artifact.fingerprint} without a proof: it would be served")
    sha256 = kernels.put_artifact(session, artifact.model_dump_json().encode())
    limit = None if artifact.timing is None else artifact.timing.conditions.get("clock_limit_mhz")
    return {
        "id": kernels.kernel_id(sha256),
        "artifact_sha256": sha256,
        "correct": artifact.evidence.correct,
        "time": artifact.evidence.time,
        "verifier": artifact.verification.verifier,
        "clock_limit_mhz": int(limit) if limit else None,
    }


def of_winner(session: Session, winner: Winner) -> dict[str, Any]:
    """The columns of `of_artifact`, and what was found of the kernel and when."""
    artifact, trial = winner.artifact, winner.trial
    return {
        **of_artifact(session, artifact),
        "median_us": trial.median_us,
        "p10_us": trial.p10_us,
        "p90_us": trial.p90_us,
        "scheduler": trial.candidate.scheduler,
        "point": trial.candidate.knobs,
        "resources": artifact.resources.model_dump(mode="json"),
        "generator": artifact.conditions.generator,
        "nvrtc": artifact.conditions.nvrtc,
        "driver": artifact.conditions.driver,
    }
