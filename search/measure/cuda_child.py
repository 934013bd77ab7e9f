"""What runs in the child that owns a GPU. torch and CUDA are imported here and in what this calls, nowhere else."""

from __future__ import annotations

import hashlib
import math
import statistics
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.reference import settled
from fusetune.launch import Launcher, LaunchFailed, NoDevice
from fusetune.wire.artifact import VERIFIER, KernelArtifact, Timing, Verification
from search.measure.child_device import ContextPoisoned, handler_of
from search.measure.cuda_check import CardVerdict, CheckBench
from search.measure.cuda_timing import EagerCalls, GraphRun, KernelCalls, RotatingSets, Samples
from search.measure.device import TIMING_POLICY, Baseline, CardFacts, Effort, MeasureResult
from search.measure.eager import EagerForm, allowances, eager_form
from search.measure.facts import Nvml, read_facts
from search.measure.halving import BestTimed
from search.measure.marks import SLOWER_THAN, Repeats
from search.proof.verify.arrays import TorchArrays
from search.proof.verify.decided import UNDECIDED_FIX, why_undecided
from search.proof.verify.inputs import RANDOM, input_sets
from search.proof.verify.scalars import numbers_in
from search.tuning.timeline import SearchStage, Span, taken
from search.tuning.trial import TrialState

KERNELS_KEPT = 8
"""Checked and captured kernels that stay ready: a round over the leaders does not capture them again."""

KEPT_SHARE = 0.5
"""Of the memory that is left, what input sets and their references may have, so that they are made once."""

_OTHERS_BYTES = 3 << 30
"""Where others have more of the GPU's memory, a training say, they may want the rest: nothing is kept. A context and
what the driver keeps to itself come to one or two GiB."""

_LONGEST_IDLE_S = 1.5
"""Sets that take longer to make are made when they are asked for: a kernel that comes meanwhile has to wait."""

SAMPLE_MS = {Effort.SCREEN: 10.0, Effort.LEADER: 25.0, Effort.ALL_SETS: 10.0}


def serve(index: int) -> Callable[[Any], Any]:
    """The handler of the child of device `index`, whose target is `search.measure.cuda_start`. Raises NoDevice."""
    return handler_of(CudaBackend(index))


class _Ready:
    """A kernel on its way through the efforts: loaded, checked on some sets, captured."""

    def __init__(self, artifact: KernelArtifact, device: int) -> None:
        self.launcher = Launcher(artifact, device)
        self.verdicts: dict[str, CardVerdict] = {}
        self.run: GraphRun | None = None

    def close(self) -> None:
        if self.run is not None:
            self.run.close()
        self.launcher.close()


class CudaBackend:
    """One GPU and the fusion open on it."""

    def __init__(self, index: int) -> None:
        self.spans: list[Span] = []
        self._index = index
        with taken(SearchStage.LIMITS, self.spans):
            self._facts = read_facts(index)
        self._nvml = Nvml(index)
        self._repeats = Repeats(self._facts.clock_limit_mhz)
        self._best = BestTimed()
        self._torch: Any = None
        self._arrays: TorchArrays
        self._kernels: OrderedDict[str, _Ready] = OrderedDict()
        self._fusion: Fusion | None = None
        self._bench: CheckBench | None = None
        self._sets: RotatingSets | None = None
        self._makes_ahead = False

    def facts(self) -> CardFacts:
        return self._facts

    def open(self, fusion: Fusion) -> None:
        """Makes the random set, its reference and the buffers for timing. Raises NoDevice where torch cannot use it."""
        self._load_torch()
        self._drop_kernels(keep=0)
        self._best.forget()
        self._fusion = self._bench = self._sets = None  # what is next may not fit: then nothing is open
        self._makes_ahead = False
        self._torch.cuda.empty_cache()
        begun = time.monotonic()
        self._bench = CheckBench(fusion, self._arrays)
        self._torch.cuda.empty_cache()  # the reference's temporaries, so that the buffers find room
        self._sets = RotatingSets(fusion, self._bench.random_storages, self._facts.l2_bytes, self._arrays)
        self._torch.cuda.synchronize()
        self._makes_ahead = time.monotonic() - begun < _LONGEST_IDLE_S
        self._bench.keep_within(self._room_bytes)
        self._fusion = fusion

    def idle(self) -> bool:
        """Makes an input set ahead: the first kernel that is served has to be right on all of them."""
        if self._bench is None or self._fusion is None or not self._makes_ahead:
            return False
        self._makes_ahead = False  # where it raises
        with taken(SearchStage.INPUTS, self.spans):
            made = self._bench.prepare()
            self._torch.cuda.synchronize()
        if not made:
            self.spans.pop()
        self._makes_ahead = made and self.spans[-1].wall_s < _LONGEST_IDLE_S
        return self._makes_ahead

    @property
    def _free_bytes(self) -> int:
        return int(self._torch.cuda.mem_get_info()[0])

    @property
    def _room_bytes(self) -> int:
        """For input sets that are kept."""
        free, total = self._torch.cuda.mem_get_info()
        others = total - free - self._torch.cuda.memory_reserved()
        return int(KEPT_SHARE * free) if others < _OTHERS_BYTES else 0

    def _load_torch(self) -> None:
        """Once: what the card says of itself is told before, since a search can begin with that."""
        if self._torch is not None:
            return
        try:
            with taken(SearchStage.IMPORTS, self.spans):
                import torch
            with taken(SearchStage.CONTEXT, self.spans):
                torch.cuda.set_device(self._index)
                self._arrays = TorchArrays(f"cuda:{self._index}")
        except (ImportError, RuntimeError, AssertionError) as error:
            fix = "Install a build of torch for the CUDA that this driver supports."
            raise NoDevice(f"torch cannot use it: {_first_line(error)}", fix) from error
        self._torch = torch

    def measure(self, artifact: KernelArtifact, effort: Effort) -> MeasureResult:
        """Raises KernelError for a kernel that cannot run, ContextPoisoned after which the process is of no use."""
        if self._fusion is None:
            raise ValueError("no fusion is open in this process")
        try:
            return self._measure(artifact, effort, self._fusion)
        except self._torch.OutOfMemoryError as error:
            why = _first_line(error)
        except (RuntimeError, LaunchFailed):  # torch raises RuntimeError for every CUDA error
            self._fail_if_poisoned()
            raise
        # What the error held is free from here on.
        self._drop_kernels(keep=0)
        if self._forget_sets():
            return self.measure(artifact, effort)
        return MeasureResult(TrialState.UNSUPPORTED, f"the GPU's memory does not suffice: {why}")

    def baseline(self, name: str) -> Baseline:
        """Raises ContextPoisoned where torch fails: a capture that broke off leaves the allocator in no known state."""
        if self._fusion is None:
            raise ValueError("no fusion is open in this process")
        try:
            return self._baseline(
                name, eager_form(settled(self._fusion, numbers_in(self._fusion, RANDOM))), self._fusion
            )
        except Unsupported as error:
            return Baseline(name, None, str(error))
        except RuntimeError as error:  # torch raises it for every CUDA error, for lack of memory a subclass
            raise ContextPoisoned(f"the {name} form failed: {_first_line(error)}") from error

    def _baseline(self, name: str, form: EagerForm, fusion: Fusion) -> Baseline:
        assert self._bench is not None
        assert self._sets is not None
        if self._bench.kept_bytes > self._free_bytes:  # the eager form makes tensors of its own
            self._forget_sets()
        self._sets.restore()
        if fault := self._bench.fault_of(form(self._sets.inputs[0]), allowances(fusion)):
            return Baseline(name, None, f"the {name} form is wrong: {fault}")
        self._torch.cuda.empty_cache()  # memory of the check, which the graph's pool cannot use
        run = GraphRun(EagerCalls(form, self._sets), self._arrays)
        timing = self._timing(run.samples(SAMPLE_MS[Effort.LEADER]))
        run.close()
        del run  # holds the last outputs
        self._torch.cuda.empty_cache()
        return Baseline(name, timing)

    def _measure(self, artifact: KernelArtifact, effort: Effort, fusion: Fusion) -> MeasureResult:
        assert self._bench is not None
        if why := why_undecided(self._bench.decided):
            return MeasureResult(TrialState.UNSUPPORTED, f"{why}. {UNDECIDED_FIX}")
        with taken(SearchStage.VERIFYING, self.spans):
            ready = self._ready(artifact)
            fault = self._fault(ready, input_sets(fusion) if effort is Effort.ALL_SETS else (RANDOM,))
        seconds = {"verify": self.spans[-1].wall_s}
        if fault:
            self._drop_kernels(keep=KERNELS_KEPT, without=ready)
            self._best.forget()  # this one may have been it: right on random inputs, wrong on others
            return MeasureResult(TrialState.WRONG_RESULT, fault, seconds=seconds)
        with taken(SearchStage.TIMING, self.spans):
            timing = self._time(ready, effort)
        seconds["time"] = self.spans[-1].wall_s
        return MeasureResult(TrialState.MEASURED, "", self._verification(ready), timing, seconds)

    def _fault(self, ready: _Ready, sets: Sequence[str]) -> str:
        """What is wrong on the first of these input sets on which anything is; empty where nothing is."""
        return next((verdict.fault for name in sets if (verdict := self._verdict(ready, name)).fault), "")

    def _ready(self, artifact: KernelArtifact) -> _Ready:
        key = _key(artifact)
        if key not in self._kernels:
            self._drop_kernels(keep=KERNELS_KEPT - 1)
            self._kernels[key] = _Ready(artifact, self._index)
        self._kernels.move_to_end(key)
        return self._kernels[key]

    def _verdict(self, ready: _Ready, set_name: str) -> CardVerdict:
        assert self._bench is not None
        if set_name not in ready.verdicts:
            ready.verdicts[set_name] = self._bench.check(ready.launcher, set_name)
        return ready.verdicts[set_name]

    def _verification(self, ready: _Ready) -> Verification:
        assert self._bench is not None
        worst = max(ready.verdicts.values(), key=lambda verdict: verdict.max_error)
        return Verification(
            device=self._facts.name,
            input_sets=tuple(ready.verdicts),
            max_error=worst.max_error,
            tolerance=worst.tolerance,
            deterministic=all(verdict.deterministic for verdict in ready.verdicts.values()),
            decided=self._bench.decided,
            verifier=VERIFIER,
        )

    def _time(self, ready: _Ready, effort: Effort) -> Timing:
        assert self._sets is not None
        if ready.run is None:
            ready.run = GraphRun(KernelCalls(ready.launcher, self._sets, self._arrays), self._arrays)
        run = ready.run
        reach_us = self._best.reach_us if effort is Effort.SCREEN else math.inf
        timing = self._repeats.taken(lambda: self._timing(run.samples(SAMPLE_MS[effort], reach_us), reach_us))
        if SLOWER_THAN not in timing.conditions:
            self._best.saw(timing.samples_us)
        return timing

    def _timing(self, samples: Samples, reach_us: float = math.inf) -> Timing:
        ordered = sorted(samples.us)
        return Timing(
            policy=TIMING_POLICY,
            card=self._facts.name,
            median_us=statistics.median(ordered),
            p10_us=ordered[len(ordered) // 10],
            p90_us=ordered[len(ordered) * 9 // 10],
            samples_us=samples.us,
            conditions={
                "calls_per_sample": samples.calls_per_sample,
                "buffer_sets": samples.buffer_sets,
                "retaken": samples.retaken,
                "driver": self._facts.driver,
                "clock_limit_mhz": self._facts.clock_limit_mhz,
                "torch": str(self._torch.__version__),  # a type of its own, for which our parent would import torch
                **({SLOWER_THAN: reach_us} if samples.ended_early else {}),
                **self._nvml.state(),
            },
        )

    def _drop_kernels(self, keep: int, without: _Ready | None = None) -> None:
        """Closes the kernels used longest ago, and `without`."""
        for key, ready in list(self._kernels.items()):
            if ready is without or len(self._kernels) > keep:
                del self._kernels[key]
                ready.close()

    def _forget_sets(self) -> bool:
        """Gives back all memory that is kept for speed alone, for good; whether input sets had any."""
        assert self._bench is not None
        had = self._bench.kept_bytes > 0
        self._makes_ahead = False
        self._bench.keep_within(0)
        self._torch.cuda.empty_cache()
        return had

    def _fail_if_poisoned(self) -> None:
        try:
            self._torch.cuda.synchronize()
        except RuntimeError as error:
            raise ContextPoisoned(_first_line(error)) from error


def _key(artifact: KernelArtifact) -> str:
    """Equal code launched in the same way."""
    launches = "".join(launch.model_dump_json() for launch in artifact.launches)
    return hashlib.sha256(f"{artifact.code_hash}{launches}".encode()).hexdigest()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
