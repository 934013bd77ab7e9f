"""A measuring device without a GPU, for tests: the same child process and messages, kernels that do what a tag says.

The first line of an artifact's source that starts with `// fake:` decides:

    // fake: us=12.5     right, and takes 12.5 us a call (samples spread over +-1 %; few where that is
                      beyond doubt slower than another kernel was, as on a GPU)
    // fake: wrong       wrong result
    // fake: crash       the process dies of SIGSEGV
    // fake: exit        the process ends by os._exit(3)
    // fake: hang        never answers
    // fake: poison      breaks the context: fails, and so does everything after it in that process
    // fake: refuse      the launcher refuses it (a guard)
    // fake: oom         the GPU's memory does not suffice
    // fake: noisy=2     right, but so many of its timings vary by half
    // fake: foreign=2   right, but beside so many of its timings another process runs

Without a tag, and with the last two, a kernel is right and takes 10 us. The eager baseline of every fusion takes 25 us.

Where the environment names a file in FUSETUNE_FAKE_LOG, each kernel that is asked for is written down there before it
runs: a JSON object a line, with `effort`, `code_hash` and `launch_hash` as trials have them.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import statistics
import time
from collections.abc import Callable
from typing import Any

from compiler.arch import READ_FACTS, Card
from compiler.ir.fusion import Fusion
from fusetune.launch import GuardFailed
from fusetune.wire.artifact import VERIFIER, KernelArtifact, Timing, Verification
from search.measure.child_device import ChildDevice, ContextPoisoned, Deadlines, handler_of
from search.measure.device import TIMING_POLICY, Baseline, CardFacts, Effort, MeasureResult
from search.measure.halving import BestTimed, more_samples, surely_slower
from search.measure.marks import SLOWER_THAN, Repeats
from search.proof.verify.inputs import RANDOM, input_sets
from search.tuning.identity import kernel_id
from search.tuning.timeline import SearchStage, Span, taken
from search.tuning.trial import TrialState

FACTS = CardFacts(
    name="fake",
    capability=(9, 0),
    sm_count=132,
    max_sm_clock_mhz=1980,
    max_memory_clock_mhz=3201,
    memory_bytes=1 << 37,
    l2_bytes=60 << 20,
    power_w=700,
    driver="none",
)

LOG_VARIABLE = "FUSETUNE_FAKE_LOG"

_TAG = re.compile(r"^\s*// fake: (\w+)(?:=([\d.]+))?\s*$", re.MULTILINE)
_DEFAULT_US = 10.0
_BASELINE_US = 25.0
_SAMPLES = {Effort.SCREEN: 11, Effort.LEADER: 31, Effort.ALL_SETS: 11}


class FakeDevice(ChildDevice):
    """See the module's text for what its kernels do."""

    def __init__(self, limits: Deadlines | None = None, facts: CardFacts = FACTS) -> None:
        super().__init__("fake device", "search.measure.fake:serve", facts, limits)


def facts_of(card: Card) -> CardFacts:
    """What such a card would say of itself: the table's figures, and a little less memory, as a driver reports it."""
    known = {name: getattr(card, name) for name in READ_FACTS} | {"memory_bytes": card.memory_bytes - (1 << 20)}
    return CardFacts(name=card.aliases[-1], capability=card.arch.capability, driver="none", **known)


def serve(facts: CardFacts) -> Callable[[Any], Any]:
    """The child's target."""
    return handler_of(FakeBackend(facts))


class FakeBackend:
    """What runs in the child, on a card of these facts."""

    def __init__(self, facts: CardFacts = FACTS) -> None:
        self._facts = facts
        self._fusion: Fusion | None = None
        self._is_poisoned = False
        self._repeats = Repeats(sleep=lambda seconds: None)
        self._best = BestTimed()
        self.spans: list[Span] = []

    def open(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._best.forget()

    def facts(self) -> CardFacts:
        return self._facts

    def idle(self) -> bool:
        return False

    def measure(self, artifact: KernelArtifact, effort: Effort) -> MeasureResult:
        assert self._fusion is not None
        _write_down(artifact, effort)
        found = _TAG.search(artifact.source)
        tag, argument = found.groups() if found else ("us", str(_DEFAULT_US))
        if self._is_poisoned:
            raise ContextPoisoned("an earlier kernel broke it")
        match tag:
            case "us":
                return self._measured(float(argument), effort, "", 0)
            case "noisy" | "foreign":
                return self._measured(_DEFAULT_US, effort, tag, int(argument))
            case "oom":
                return MeasureResult(TrialState.UNSUPPORTED, "the GPU's memory does not suffice: 80 GiB were asked for")
            case "wrong":
                return MeasureResult(TrialState.WRONG_RESULT, "element [0] is 1, expected 2 to 2")
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "exit":
                os._exit(3)
            case "hang":
                time.sleep(3600)
            case "poison":
                self._is_poisoned = True
                raise ContextPoisoned("CUDA_ERROR_ILLEGAL_ADDRESS")
            case "refuse":
                raise GuardFailed("ptr[0] % 16 == 0", "the address of tensor 0 is not a multiple of 16")
        raise ValueError(f"unknown tag {tag!r}")

    def _measured(self, us: float, effort: Effort, fault: str, count: int) -> MeasureResult:
        """`count` timings have a fault."""
        assert self._fusion is not None
        sets = input_sets(self._fusion) if effort is Effort.ALL_SETS else (RANDOM,)
        left = [fault] * count
        reach_us = self._best.reach_us if effort is Effort.SCREEN else math.inf

        def take() -> Timing:
            has = left.pop() if left else ""
            samples = _halved(_samples(us, _SAMPLES[effort], width=0.5 if has == "noisy" else 0.02), reach_us)
            early = {SLOWER_THAN: reach_us} if surely_slower(samples, reach_us) else {}
            timing = _timing(self._facts.name, samples)
            return timing.model_copy(update={"conditions": {"other_processes": int(has == "foreign"), **early}})

        with taken(SearchStage.VERIFYING, self.spans):
            pass
        with taken(SearchStage.TIMING, self.spans):
            timing = self._repeats.taken(take)
            if SLOWER_THAN not in timing.conditions:
                self._best.saw(timing.samples_us)
            return _result(self._facts.name, timing, sets)

    def baseline(self, name: str) -> Baseline:
        if self._is_poisoned:
            raise ContextPoisoned("an earlier kernel broke it")
        return Baseline(name, _timing(self._facts.name, _samples(_BASELINE_US, _SAMPLES[Effort.LEADER])))


def _write_down(artifact: KernelArtifact, effort: Effort) -> None:
    """One line in the file that the environment names, if it names one; a killed child leaves it whole."""
    path = os.environ.get(LOG_VARIABLE)
    if path is None:
        return
    code_hash, launch_hash = kernel_id(artifact)
    line = json.dumps({"effort": effort, "code_hash": code_hash, "launch_hash": launch_hash})
    with open(path, "a", encoding="utf-8") as log:
        log.write(f"{line}\n")


def _result(card: str, timing: Timing, sets: tuple[str, ...]) -> MeasureResult:
    verification = Verification(
        device=card, input_sets=sets, max_error=0.0, tolerance=0.0, deterministic=True, verifier=VERIFIER
    )
    return MeasureResult(TrialState.MEASURED, "", verification, timing, {"verify": 0.0, "time": 0.0})


def _samples(us: float, count: int, width: float = 0.02) -> tuple[float, ...]:
    """From the middle outwards, so that few of them have the median of all."""
    places = sorted(range(count), key=lambda i: abs(2 * i - (count - 1)))
    return tuple(us * (1 + width * (i / (count - 1) - 0.5)) for i in places)


def _halved(samples: tuple[float, ...], reach_us: float) -> tuple[float, ...]:
    """Those that are taken, of all that there could be."""
    count = 0
    while more := more_samples(samples[:count], len(samples), reach_us):
        count += more
    return samples[:count]


def _timing(card: str, samples: tuple[float, ...]) -> Timing:
    ordered = sorted(samples)
    return Timing(
        policy=TIMING_POLICY,
        card=card,
        median_us=statistics.median(samples),
        p10_us=ordered[len(ordered) // 10],
        p90_us=ordered[len(ordered) * 9 // 10],
        samples_us=samples,
    )
