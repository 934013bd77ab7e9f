"""What Prometheus reads: requests as they happen, and tunings, trials and workers as the database has them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
    multiprocess,
    values,
)
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from compiler.generator import GENERATOR
from fusetune.wire.artifact import TIMING_POLICY
from service.db import cards, conditions, trials, tunings
from service.db.engine import Database
from service.operations.presence import alive_since
from service.settings import Settings

# A second line for every series, which nobody reads. The function has no types.
disable_created_metrics()

CONTENT_TYPE = CONTENT_TYPE_LATEST

_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""From a cache hit to a watched tuning."""


FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which that package is told where processes that share their metrics keep them."""


def share(slot: int) -> None:
    """This process, number `slot` of several, keeps its metrics where the others find them (FOLDER).

    By the slot, not by the process's own number as the package does: one that was started again goes on counting in
    the same file, so that nothing piles up.
    """
    values.ValueClass = values.MultiProcessValue(lambda: slot)


class Metrics:
    """The metrics of one application, in a registry of its own: two applications in one process do not mix.

    Where several processes answer, they are the sums over all of them.
    """

    def __init__(self, db: Database, settings: Settings) -> None:
        self.registry = CollectorRegistry()
        is_shared = values.ValueClass._multiprocess
        own = CollectorRegistry() if is_shared else self.registry
        self._requests = Counter("fusetune_requests", "Requests answered.", ("route", "method", "status"), registry=own)
        self._seconds = Histogram(
            "fusetune_request_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ("route", "method"),
            buckets=_BUCKETS_S,
            registry=own,
        )
        if is_shared:
            multiprocess.MultiProcessCollector(self.registry)
        self.registry.register(_Stored(db, settings))

    def request(self, route: str, method: str, status: int | None, seconds: float) -> None:
        """Count a request, if that can be done. `status` is None if the client left before there was one.

        What several processes count lies in files. Their folder is taken away once whoever started them is dead, which
        they may outlive by a request; and its disk may be full. The answer does not depend on either.
        """
        known = method if method in _METHODS else "other"
        with suppress(OSError):
            self._requests.labels(route, known, "none" if status is None else str(status)).inc()
            self._seconds.labels(route, known).observe(seconds)

    def render(self) -> bytes:
        """All of them in Prometheus' text format. Reads the database."""
        return generate_latest(self.registry)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Stored:
    """What the database knows, read when somebody asks."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings

    def describe(self) -> Iterable[Metric]:
        """Nothing: a registry would otherwise collect once when it is made, before there is a table."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """One snapshot of the database."""
        with self._db.read() as session:
            by_state = tunings.counts_by_state(session)
            by_trial_state = trials.totals_by_state(session)
            alive = cards.alive(session, alive_since(self._settings))
            checked = conditions.checks(session)
            invented = {one.card_id for one in alive if cards.is_invented(session, one.card_id)}
        yield _by_label("fusetune_tunings", "Tunings by state.", "state", by_state)
        yield GaugeMetricFamily("fusetune_queue_length", "Tunings that wait for a worker.", by_state.get("queued", 0))
        # A gauge, not a counter: replaced trials and a restored backup may lower it.
        yield _by_label("fusetune_trials", "Trials stored, by state.", "state", by_trial_state)
        attached = sum(worker.attached and worker.card_id not in invented for worker in alive)
        workers = {"true": attached, "false": len(alive) - attached}
        yield _by_label("fusetune_workers", "Workers alive, by whether they have a GPU.", "attached", workers)
        text = "Kernels that answer and were timed again, by whether they have become slower beyond noise."
        yield _by_label("fusetune_kernels_checked", text, "outcome", checked)
        yield InfoMetricFamily("fusetune_build", "This version.", {"generator": GENERATOR, "policy": TIMING_POLICY})


def _by_label(name: str, text: str, label: str, values: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, count in sorted(values.items()):
        family.add_metric((value,), count)
    return family
