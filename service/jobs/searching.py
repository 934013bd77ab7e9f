"""A tuning on the attached GPU: the search, the baseline beside it, and the end."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from functools import partial

from compiler.nvrtc import CompilePool
from search.measure.device import MeasuringDevice
from search.tuning.attached import Attached
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.drafting import DraftPool
from search.tuning.elsewhere import Elsewhere
from search.tuning.first import FirstKernel
from search.tuning.tune import tune_on
from service.db import cards, kernels, trials
from service.jobs.executor import WorkerStopping
from service.jobs.job import Job
from service.jobs.past import PastTunings
from service.jobs.reproving import on_gpu, prove_again
from service.jobs.settle import serve_first, settle, settle_proven_again

log = logging.getLogger(__name__)


def search(
    job: Job,
    gpu: Attached,
    stopping: threading.Event,
    compilers: int | None,
    drafting: DraftPool | None = None,
    compiling: CompilePool | None = None,
    elsewhere: Elsewhere | None = None,
) -> str:
    """Go on from the stored trials to the end of the budget; returns the state that the tuning ended in.

    What the emulator found right for the card's model is tried before anything else, then what won at other sizes of
    the fusion, and on other cards: a tuning of one trial builds that schedule anew, verifies it and times it.
    A kernel of an older verifier is proven again first, and nothing is searched if it is right. `elsewhere`: other
    workers that help.

    Raises WorkerStopping once `stopping` is set, TuningLost, DeviceLost, Unsupported if nothing is legal to search.
    """
    with ExitStack() as stack:
        progress = stack.enter_context(job.progress())

        def is_stopped() -> bool:
            return progress.is_cancelled or stopping.is_set()

        count = stack.enter_context(job.counting(is_stopped))

        def beside(device: MeasuringDevice) -> None:
            count()
            record_baseline(job, device)

        job, again = prove_again(job, partial(on_gpu, job, gpu), progress)
        if again is not None:
            job.count()
            state = settle_proven_again(job, again.known, again.artifact, progress.spent_s, gpu.facts.driver)
            if state is not None:
                return state
        outcome = tune_on(
            gpu,
            job.plan,
            job.trials(),
            job.budget,
            job.seed,
            progress,
            is_stopped=is_stopped,
            compile_processes=compilers,
            drafting=drafting,
            compiling=compiling,
            baseline=beside,
            first=proven_before(job),
            history=PastTunings(job.db, job.key),
            timeline=job.timeline,
            early=FirstKernel(lambda: progress.wants_first, partial(serve_first, job, gpu.facts.driver)),
            enough=lambda: progress.enough,
            elsewhere=elsewhere,
        )
    if outcome.ended == "stopped" and not progress.is_cancelled:
        raise WorkerStopping
    return settle(job, outcome, progress.spent_s, gpu.facts.driver)


def proven_before(job: Job) -> list[Candidate]:
    """What the emulator found right of the job's fusion for cards of this model, the best predicted first."""
    fingerprint, binding, card_id, _ = job.key
    with job.db.read() as session:
        card = cards.get(session, card_id)
        twins = [] if card is None else [row.id for row in cards.of_model(session, card)]
        found = trials.proven(session, fingerprint, binding, [card_id, *twins])
    return list(dict.fromkeys(map(Candidate.from_json, found)))


def record_baseline(job: Job, device: MeasuringDevice) -> None:
    """Time the fusion without us, unless that was done for its key. A fusion that has no such time is tuned as well."""
    with job.db.read() as session:
        if kernels.baselines(session, [job.key])[job.key]:
            return
    found = device.baseline()
    if found.timing is None:
        log.warning("tuning %s: no baseline %s: %s", job.id, found.name, found.why)
        return
    timing = found.timing
    with job.db.write() as session:
        kernels.put_baseline(
            session,
            job.key,
            found.name,
            timing.median_us,
            timing.samples_us,
            {"card": timing.card, **timing.conditions},
        )
