"""The end of a tuning: its kernel and its state are written in one transaction, or neither is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy.orm import Session

from fusetune.wire.artifact import Evidence, KernelArtifact
from fusetune.wire.signature import kernel_bytes
from fusetune.wire.wanting import Distance
from search.tuning.candidates.spread import TYPICAL_ERROR
from search.tuning.leaders import Winner
from search.tuning.progress import failure_counts
from search.tuning.trial import Trial
from search.tuning.tuner import SearchOutcome
from service.db import cards, kernels, keys, signatures, tunings
from service.db.models import KernelRow, TuningRow
from service.jobs import kernel_rows
from service.jobs.job import Job
from service.jobs.past import kin_of

_FAILURES_NAMED = 5

_DELETED = "No kernel: it was deleted while the search went on, and is not served again. Post the fusion again."

_SERVED_WHERE = "It is served where verified_emulated and predicted are accepted."


def settle(job: Job, outcome: SearchOutcome, spent_s: float, driver: str) -> str:
    """Publish the winner and end the tuning; returns its state. Raises TuningLost if it is not ours to end."""
    with job.writing() as session:
        is_cancelled = tunings.advance(session, job.id, "publishing", spent_s, job.run)
        if is_cancelled or outcome.ended == "stopped":
            return _cancel(session, job)
        if outcome.winner is None:
            note = job.noted(why_no_kernel(outcome.trials))
            return tunings.finish(session, job.id, "done", ended=outcome.ended, note=note).state
        kept = _publish(session, job, _rows_of(job, outcome.winner, driver))
        if kept is None:
            return _end_without(session, job, outcome.ended, _DELETED)
        note = job.noted(f"{kept.note} {_promoted(session, kept.id)}".strip())
        tied = outcome.winner.tied
        return tunings.finish(
            session, job.id, "done", ended=outcome.ended, note=note, kernel_id=kept.id, tied=tied
        ).state


def serve_first(job: Job, driver: str, winner: Winner, best_predicted_us: float | None) -> None:
    """Publish a kernel while its search goes on, for who takes the first; one that a search has ended with stays.

    `best_predicted_us`: what the model expects of the fastest candidate. Raises TuningLost.
    """

    def provisional(session: Session) -> KernelRow:
        new = _kernel_row(session, job, winner, driver)
        new.provisional = distance(winner.trial, job.floor_us, best_predicted_us).model_dump()
        return new

    with job.writing() as session:
        kept = _publish(session, job, provisional)
        if kept is not None:
            tunings.set_first(session, job.id, kept.id)


def distance(trial: Trial, floor_us: float | None, best_predicted_us: float | None) -> Distance:
    """How much faster than a measured trial the best may be."""
    at_most = expected = None
    if trial.median_us and floor_us is not None:
        at_most = max(0.0, 1 - floor_us / trial.median_us)
    if trial.predicted_us and best_predicted_us is not None:
        expected = max(0.0, 1 - best_predicted_us / trial.predicted_us)
    return Distance(at_most=at_most, expected=expected, error=None if expected is None else TYPICAL_ERROR)


def settle_without_gpu(job: Job, winner: Winner | None, note: str, spent_s: float) -> str:
    """End a tuning for which kernels were compiled, and publish the one that was proven in the emulator, if one was.

    Returns the tuning's state. Raises TuningLost.
    """
    ended = "compiled" if winner is None else "emulated"
    with job.writing() as session:
        if tunings.advance(session, job.id, ended, spent_s, job.run):
            return _cancel(session, job)
        if winner is None:
            return tunings.finish(session, job.id, "done", ended=ended, note=job.noted(note)).state
        kept = _publish(session, job, _rows_of(job, winner, None))
        if kept is None:
            return _end_without(session, job, ended, f"{note} {_DELETED}")
        note = job.noted(f"{note} {kept.note or _SERVED_WHERE}")
        return tunings.finish(session, job.id, "done", ended=ended, note=note, kernel_id=kept.id).state


def is_enough(tuning: TuningRow, known: KernelRow) -> bool:
    """Whether a kernel of an older verifier, once it is proven again, answers all who wait for the tuning: none of them
    wants a search, and each would have taken it as its record stood."""
    said = Evidence.model_validate({"correct": known.correct, "time": known.time})
    return not tuning.refresh and all(accept.allows(said) for accept in tunings.accepts_of(tuning))


def settle_proven_again(
    job: Job, known: KernelRow, artifact: KernelArtifact, spent_s: float, driver: str | None
) -> str | None:
    """Publish the kernel `known` under its fresh proof, that of `artifact`, and end the tuning; returns its state.

    None, with the kernel published and the tuning going on, if somebody has joined meanwhile for whom it is not enough.
    `driver`: under which it was timed again, None if it was not. Raises TuningLost.
    """
    proof = artifact.verification
    assert proof is not None
    with job.writing() as session:
        if tunings.advance(session, job.id, "publishing", spent_s, job.run):
            return _cancel(session, job)
        kernels.take_turn(session, job.key)
        is_there = kernels.get(session, known.id) is not None  # its code comes back under no other id either
        again = partial(_row_again, known=known, artifact=artifact, driver=driver)
        kept = _publish(session, job, again) if is_there else None
        if kept is None:
            return _end_without(session, job, "proven_again", _DELETED)
        if not is_enough(session.get_one(TuningRow, job.id), known):
            return None
        note = (
            f"Nothing was searched: the kernel found earlier was proven by verifier {known.verifier}, and has been "
            f"proven again by verifier {proof.verifier}, on {proof.device}. {kept.note}"
        ).strip()
        return tunings.finish(session, job.id, "done", ended="proven_again", note=note, kernel_id=kept.id).state


def refute(job: Job, known: KernelRow, why: str) -> None:
    """The kernel `known` has been found wrong: it is never served again. Raises TuningLost."""
    with job.writing() as session:
        kernels.refute(session, known.id, why)
        keys.audit(session, f"worker:{job.worker}", "kernel.refuted", known.id, {"tuning": job.id, "why": why})


@dataclass(frozen=True, slots=True)
class _Kept:
    """The kernel that answers from now on, and what to say of it: empty, or a sentence."""

    id: str
    note: str


def _publish(session: Session, job: Job, make: Callable[[Session], KernelRow]) -> _Kept | None:
    """What answers once the kernel of `make` is published; None if it was deleted, then nothing of it is stored."""
    try:
        with session.begin_nested():
            new = make(session)
            kept = kernels.publish(session, new)
            if job.signer is not None:
                value = job.signer.sign(kernel_bytes(new.artifact_sha256))
                signatures.put(session, new.artifact_sha256, job.signer.key, value)
    except kernels.DeletedKernel:
        return None
    keys.audit(session, f"worker:{job.worker}", "kernel.published", kept.id, {"tuning": job.id})
    return _Kept(kept.id, note_on(kept, new))


def _promoted(session: Session, id: str) -> str:
    """A kernel that was measured takes the place of what was predicted for its card's model; in words, if it did."""
    row = kernels.get(session, id)
    card = None if row is None else cards.get(session, row.card_id)
    if row is None or card is None or row.time != "measured":
        return ""
    before = kernels.give_way(session, row, [twin.id for twin in cards.of_model(session, card)])
    return f"It takes the place of a kernel that was predicted for the {card.name} and not measured." if before else ""


def _end_without(session: Session, job: Job, ended: str, note: str) -> str:
    """The tuning's kernel was deleted meanwhile. That is no answer to who asks again: another search is made then."""
    row = tunings.finish(session, job.id, "done", ended=ended, note=job.noted(note))
    row.stands_on = None
    return row.state


def _cancel(session: Session, job: Job) -> str:
    note = "Cancelled while it ran: its trials are kept, no kernel was published."
    return tunings.finish(session, job.id, "cancelled", ended="stopped", note=note).state


def _rows_of(job: Job, winner: Winner, driver: str | None) -> Callable[[Session], KernelRow]:
    return partial(_kernel_row, job=job, winner=winner, driver=driver)


def _kernel_row(session: Session, job: Job, winner: Winner, driver: str | None) -> KernelRow:
    fingerprint, binding, card_id, policy = job.key
    row = KernelRow(
        fingerprint=fingerprint,
        binding=binding,
        card_id=card_id,
        policy=policy,
        arch=winner.artifact.arch,
        floor_us=job.floor_us,
        tuning_id=job.id,
        trial_number=winner.trial.number,
        **kernel_rows.of_winner(session, winner),
        **kin_of(job.plan.fusion),
    )
    row.driver = row.driver or driver
    return row


def _row_again(session: Session, known: KernelRow, artifact: KernelArtifact, driver: str | None) -> KernelRow:
    timing = artifact.timing
    timed = {} if timing is None else {"median_us": timing.median_us, "p10_us": timing.p10_us, "p90_us": timing.p90_us}
    return kernels.proven_again(
        known,
        **kernel_rows.of_artifact(session, artifact),
        checked=None,
        **timed,
        **({} if driver is None else {"driver": driver}),
    )


def note_on(kept: KernelRow, new: KernelRow) -> str:
    """In words, whether the kernel that now answers is the one that was found."""
    if kept.id == new.id:
        return ""
    if kept.correct != new.correct:
        return "The kernel found earlier stays: it was verified on a GPU, the best of this search in the emulator."
    if kept.time == "predicted":
        return "The kernel found earlier stays: the best of this search is not predicted to be faster."
    times = [f"{row.median_us:.2f} us" if row.median_us is not None else "not timed" for row in (kept, new)]
    return f"The kernel found earlier stays ({times[0]}): the best of this search is no faster ({times[1]})."


def why_no_kernel(trials: Iterable[Trial]) -> str:
    """In words, from what happened to the candidates."""
    ended = [trial for trial in trials if trial.state.is_tried]
    if not ended:
        return "No kernel: the budget ended before a candidate was run. Give the tuning more seconds."
    failures = failure_counts(ended)
    if not failures:
        return f"No kernel: none of the {len(ended)} candidates could be timed."
    return f"No kernel: of {len(ended)} candidates none was both right and timed ({_listed(failures)})."


def _listed(failures: Mapping[str, int]) -> str:
    named = [f"{count} {reason}" for reason, count in list(failures.items())[:_FAILURES_NAMED]]
    return ", ".join([*named, *(["…"] if len(failures) > _FAILURES_NAMED else [])])
