"""What the service and its clients say to each other: one definition for the SDK, the routes and the OpenAPI document.

Requests are parsed strictly, unknown fields refused. Answers are made of the same types, so a client reads them with
`model_validate_json`. Times are microseconds (`_us`) or seconds (`_s`); moments are UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from fusetune.wire.artifact import Evidence, Resources, Time, Wire
from fusetune.wire.binding import Binding
from fusetune.wire.checks import Checked
from fusetune.wire.fusion import Fusion, Seq
from fusetune.wire.patterns import HASH, NAME
from fusetune.wire.signature import Signature
from fusetune.wire.timeline import TimelineView
from fusetune.wire.wanting import WANT_BEST, Distance, Enough, Want

API_VERSION = "v1"

TrialStateName = Literal[
    "illegal", "compile_failed", "compile_timed_out", "wrong_result", "unsupported", "crashed", "timed_out", "pruned",
    "duplicate", "verified", "measured", "compiled", "cancelled",
]  # fmt: skip
"""How a trial can end (docs/contracts.md, "Trial states")."""

TuningState = Literal["queued", "running", "done", "failed", "cancelled"]
"""`done` says that the search came to its end, not that it found a kernel: see `kernel` and `note`."""

ACTIVE: tuple[TuningState, ...] = ("queued", "running")
"""States of a tuning that will still change."""

MIN_BUDGET_S = 1.0
Name = Annotated[str, Field(min_length=1, max_length=80, pattern=NAME)]
CardWord = Annotated[str, Field(min_length=1, max_length=120)]
Moment = Annotated[datetime, Field(strict=False)]
"""Strict ones refuse the text of JSON inside a Seq: what stands in one reaches pydantic decoded."""

Hash = Annotated[str, Field(pattern=HASH)]


class Accept(Wire):
    """The evidence that an answer may stand on. An unverified kernel is never served, so it cannot be accepted."""

    correct: Annotated[Seq[Literal["verified_on_gpu", "verified_emulated"]], Field(min_length=1)] = ("verified_on_gpu",)
    time: Annotated[Seq[Time], Field(min_length=1)] = ("measured",)

    def allows(self, evidence: Evidence) -> bool:
        """True if a result with `evidence` may answer the request."""
        return evidence.correct in self.correct and evidence.time in self.time

    def is_like(self, other: Accept) -> bool:
        """True if it allows what `other` allows, in whatever order it says so."""
        return (set(self.correct), set(self.time)) == (set(other.correct), set(other.time))


class TuningRequest(Wire):
    """POST /v1/tunings: find the fastest correct kernel of `fusion` at `binding` on `card`.

    `card` is a GPU model's name or a card's id; without it, the card of a worker that is up. `trials` bounds the
    candidates beside `budget_s`. `refresh` searches again although the cache has an answer. `want` "first" takes a
    provisional kernel too: the first that is right on all input sets and was timed, while the search goes on.
    `enough` ends the search before its budget. `name` is for people.
    """

    fusion: Fusion
    binding: Binding = Binding()
    card: CardWord | None = None
    budget_s: Annotated[float, Field(ge=MIN_BUDGET_S, allow_inf_nan=False)] = 60.0
    trials: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    accept: Accept = Accept()
    refresh: bool = False
    want: Want = WANT_BEST
    enough: Enough | None = Field(default=None, exclude_if=lambda enough: enough is None)
    name: Name | None = None


class KernelKey(Wire):
    """What a kernel is looked up by. Without `card`, the card of a worker that is up."""

    fingerprint: Hash
    binding: Hash
    card: CardWord | None = None


class KernelLookup(Wire):
    """POST /v1/kernels/lookup: the kernels of many keys at once, from the cache only; `want` as of a tuning."""

    keys: Annotated[Seq[KernelKey], Field(min_length=1, max_length=256)]
    accept: Accept = Accept()
    want: Want = WANT_BEST


class CardView(Wire):
    """A GPU model as read off a card (`source` "attached") or as the table of known cards has it ("table")."""

    id: str
    name: str
    capability: Seq[int]
    sm_count: int
    max_sm_clock_mhz: int
    max_memory_clock_mhz: int
    memory_bytes: int
    l2_bytes: int
    power_w: int
    source: Literal["attached", "table"]
    driver: str | None = None


class WorkerView(Wire):
    """A worker process. `attached`: it has the card; otherwise it compiles for it and emulates, and `why` says why."""

    id: str
    host: str
    card: str
    attached: bool
    alive: bool
    why: str = ""
    tuning: str | None = None
    started_at: Moment
    heartbeat_at: Moment


class CardStatus(Wire):
    """A card and the workers that serve it."""

    card: CardView
    workers: Seq[WorkerView] = ()
    kernels: int = 0


class BaselineView(Wire):
    """A time recorded for the same fusion, sizes and card without fusetune, say eager torch; always measured."""

    name: str
    median_us: float
    recorded_at: Moment


class CandidateView(Wire):
    """A point of a scheduler's space."""

    scheduler: str
    point: dict[str, Any]


class KernelView(Wire):
    """A served kernel without its code: GET /v1/kernels/{id} is the whole artifact.

    `artifact_sha256` is the hash of exactly those bytes. `stale`: made under other conditions than today's (generator,
    driver, clock limit) and not timed again since; still right, its time may have changed. `checked`: when it was timed
    again, if it was. `superseded`: a newer search has replaced it. `predicted_us`: what
    a model of the card expects of a kernel that was not timed. `verifier`: the number of the verifier that proved it;
    what an older one has proven is unverified, and proven again before it is served. `refuted`: why it is not, where
    today's verifier has found it wrong. `provisional`: how far it may be from the best, where the search that found
    it had not ended; null for what a search ended with. `signatures`: of its artifact (`fusetune.wire.signature`).
    """

    id: str
    artifact_sha256: str
    fingerprint: str
    binding: str
    name: str | None = None
    card: CardView
    policy: str
    arch: str
    evidence: Evidence
    verifier: int = 1
    refuted: str = ""
    provisional: Distance | None = None
    median_us: float | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    predicted_us: float | None = None
    floor_us: float | None = None
    baselines: Seq[BaselineView] = ()
    candidate: CandidateView
    resources: Resources
    generator: str
    nvrtc: str
    driver: str | None = None
    checked: Checked | None = None
    stale: bool = False
    stale_reason: str = ""
    superseded: bool = False
    tuning: str | None = None
    created_at: Moment
    signatures: Seq[Signature] = ()


class KernelAnswers(Wire):
    """The answers to a lookup, in the order of its keys; null where the cache has none that is acceptable."""

    kernels: Seq[KernelView | None]


class BestSoFar(Wire):
    """The fastest measured trial of a tuning up to now."""

    number: int
    median_us: float
    candidate: CandidateView


class HelperView(Wire):
    """A worker that has helped with a tuning of another one: kernels that its GPU has measured (`attached`: it has the
    card), candidates that it has built; `left`: why it helps no more, empty while it does."""

    worker: str
    attached: bool
    measured: int = 0
    built: int = 0
    left: str = ""


class TuningView(Wire):
    """A tuning: its request, how far it is, and how it ended.

    `phase` is a word for people. `interrupted`: it was begun, and no living worker has it in hand; one that is "queued"
    was not begun. `trials` counts them by state, `refused` the points of the space by the rule that
    refuses them, `reasons` why each rule does. `timeline` is of its last run. `note` says in plain words what was not
    done, `error` what went wrong if `state` is failed. `kernel` is what it ended with; `first` the one that was served
    before, where somebody wanted that; `tied` are trials that time does not tell from it.
    """

    id: str
    state: TuningState
    phase: str = ""
    interrupted: bool = False
    fingerprint: str
    binding: str
    name: str | None = None
    card: CardView
    policy: str
    budget_s: float
    spent_s: float = 0.0
    trials_limit: int | None = None
    points: int | None = None
    legal: int | None = None
    refused: dict[str, int] = Field(default={})
    reasons: dict[str, str] = Field(default={})
    trials: dict[str, int] = Field(default={})
    floor_us: float | None = None
    best: BestSoFar | None = None
    kernel: str | None = None
    first: str | None = None
    want: Want = "best"
    enough: Enough | None = None
    tied: Seq[int] = ()
    ended: str | None = None
    note: str = ""
    error: str | None = None
    worker: str | None = None
    helpers: Seq[HelperView] = ()
    ahead: int = 0
    timeline: TimelineView | None = None
    cancel_requested: bool = False
    created_at: Moment
    started_at: Moment | None = None
    ended_at: Moment | None = None


class ViolationView(Wire):
    """A rule's refusal of one candidate."""

    rule: str
    where: str
    found: int | float | str
    limit: int | float | str
    fix: str
    message: str = ""


class TrialView(Wire):
    """What happened to one candidate. `predicted_us` is never a measurement.

    `predicted_terms` are the microseconds that the model makes it of, by name; terms that overlap do not add up to it.
    """

    number: int
    candidate: CandidateView
    state: TrialStateName
    reason: str = ""
    violations: Seq[ViolationView] = ()
    predicted_us: float | None = None
    predicted_terms: dict[str, float] = Field(default={})
    median_us: float | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    resources: Resources | None = None
    duplicate_of: int | None = None
    seconds: dict[str, float] = Field(default={})
    recorded_at: Moment


class FusionView(Wire):
    """A fusion that was posted: its canonical document and how often it was tuned."""

    fingerprint: str
    name: str | None = None
    text: str
    document: Fusion
    tunings: int = 0
    kernels: int = 0
    created_at: Moment


class DeletedFusionView(Wire):
    """What went with a fusion that was deleted."""

    fingerprint: str
    kernels: int
    tunings: int
    trials: int


class SpaceRequest(Wire):
    """POST /v1/spaces: what a search of this fusion would look through."""

    fusion: Fusion
    binding: Binding = Binding()
    card: CardWord | None = None
    samples: Annotated[int, Field(ge=0, le=100)] = 5
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0


class SchedulerSpace(Wire):
    """The space of one scheduler: `points` in all, `legal` of them, how many each rule refuses, and why it does."""

    scheduler: str
    knobs: dict[str, Seq[Any]]
    points: int
    legal: int
    refused: dict[str, int]
    reasons: dict[str, str]
    samples: Seq[dict[str, Any]] = ()


class SpaceView(Wire):
    """All schedulers that take the fusion, and why the others do not."""

    fingerprint: str
    binding: str
    card: CardView
    schedulers: Seq[SchedulerSpace]
    not_applicable: dict[str, str] = Field(default={})


class Tunings(Wire):
    """A page of tunings, the newest first. `next` is the `after` of the next page, null at the end."""

    items: Seq[TuningView]
    next: str | None = None


class Trials(Wire):
    """A page of trials in order of number."""

    items: Seq[TrialView]
    next: int | None = None


class Kernels(Wire):
    """A page of kernels, the newest first."""

    items: Seq[KernelView]
    next: str | None = None


class Fusions(Wire):
    """A page of fusions, the newest first."""

    items: Seq[FusionView]
    next: str | None = None


class Cards(Wire):
    """All cards known to this service."""

    items: Seq[CardStatus]


class PackTaken(Wire):
    """What came of a pack: `kernels` are new here, `known` were here before, `left` names those that were left out;
    `trials` of its history are new."""

    sha256: str
    kernels: int
    known: int
    trials: int = 0
    left: Seq[str] = ()


class AuditEntry(Wire):
    """Who did what to what: `subject` is an id, `detail` what belongs to it."""

    id: int
    at: Moment
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]


class AuditEntries(Wire):
    """A page of the audit log, the newest first; `next` is the `before` of the page behind it."""

    items: Seq[AuditEntry]
    next: int | None = None


class Health(Wire):
    """`ok`, or what is not; "starting" while the service comes up, and `checks` says what it is at. `version` is
    fusetune's; `generator` is what makes kernels, whose name changes with them alone."""

    status: Literal["ok", "starting", "unavailable"]
    checks: dict[str, str] = Field(default={})
    version: str = ""
    generator: str = ""


class ProblemItem(Wire):
    """One fault of a request: where it is, what was found, what was expected, how to mend it."""

    where: str
    found: str
    expected: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}, expected {self.expected}. {self.fix}"


class ProblemDetails(Wire):
    """An error answer (RFC 9457, `application/problem+json`). `type` is stable: programs may branch on it."""

    type: str
    title: str
    status: int
    detail: str
    fix: str = ""
    instance: str | None = None
    request_id: str | None = None
    problems: Seq[ProblemItem] = ()
