"""The timing policy `graph_rotating_v1`: CUDA graphs of many calls over rotating buffers, cold in L2.

- Calls rotate over buffer sets that together hold at least eight times the L2 (2 to 128 sets; one where a call moves
  more than 1.5 GB, which flushes the cache by itself). Inputs are the `random` set: data decides power, and so clocks.
- A graph of enough calls to last about a millisecond is replayed between two events: launch latency is not in the
  figure, the gap between kernels is. A sample is that time over the calls, in microseconds.
- Before the samples the graph is replayed for a few milliseconds, longer if the GPU has idled: clocks rise under load.
- Where the 10th and 90th percentile lie more than 10 % apart, the samples are taken once more; all are kept.
- Samples of a candidate that is beyond doubt slower than the best so far end early (`search.measure.halving`).

Where outputs are written into inputs, these are restored before each sample, outside of what is timed: calls of one
sample go on from what the one before has left in their set. The eager form makes new tensors.

A kernel and the eager form of its fusion are timed alike: what is captured is the only difference.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass
from typing import Any, Protocol

from compiler.ir.fusion import Fusion
from fusetune.launch import Launcher
from search.measure.eager import EagerForm
from search.measure.halving import more_samples, surely_slower
from search.measure.marks import NOISY_SPREAD, spread
from search.proof.verify.arrays import Array, TorchArrays
from search.proof.verify.inputs import RANDOM
from search.proof.verify.scalars import numbers_in

L2_MULTIPLE = 8
MAX_SETS = 128
ONE_SET_BYTES = 1_500_000_000
FREE_MEMORY_SHARE = 0.5
REPLAY_US = 1000.0
MAX_CALLS = 1024
IDLE_S = 0.05
IDLE_WARM_MS = 20.0
WARM_MS = 3.0
SLOW_REPLAY_MS = 20.0
MAX_SAMPLES = 50


def sets_for(call_bytes: int, l2_bytes: int, free_bytes: int) -> int:
    """How many buffer sets to rotate over. Fewer than asked for where memory is short, never fewer than one."""
    if call_bytes > ONE_SET_BYTES:
        return 1
    wanted = min(max(math.ceil(L2_MULTIPLE * l2_bytes / call_bytes), 2), MAX_SETS)
    return max(min(wanted, int(free_bytes * FREE_MEMORY_SHARE) // call_bytes), 1)


class RotatingSets:
    """Device memory for timed calls. Allocated as a user's tensors are, so alignment is the allocator's."""

    def __init__(self, fusion: Fusion, storages: list[Array], l2_bytes: int, arrays: TorchArrays) -> None:
        outputs = [fusion.value(name) for name in fusion.outputs]
        output_bytes = [v.storage_bytes for v in outputs]
        call_bytes = sum(s.numel() * s.element_size() for s in storages) + sum(output_bytes)
        free_bytes, _ = arrays.xp.cuda.mem_get_info(arrays.device)
        self._memory: list[list[Array]] = []
        for _ in range(sets_for(call_bytes, l2_bytes, free_bytes)):
            written = [arrays.xp.empty(n, dtype=arrays.xp.uint8, device=arrays.device) for n in output_bytes]
            self._memory.append([*(arrays.copy(storage) for storage in storages), *written])
        self.numbers = numbers_in(fusion, RANDOM)
        into = fusion.alias_places
        places = [into.get(n - len(storages), n) for n in range(len(storages) + len(outputs))]
        self.pointers = tuple(tuple(one[place].data_ptr() for place in places) for one in self._memory)
        self._written = [(place, storages[place]) for place in into.values()]
        layouts = [(value.shape, value.strides) for value in map(fusion.value, fusion.inputs)]
        self.inputs = tuple(
            tuple(arrays.strided(flat, *layout) for flat, layout in zip(one[: len(layouts)], layouts, strict=True))
            for one in self._memory
        )

    def restore(self) -> bool:
        """Gives inputs that outputs are written into the values they had; False where there are none."""
        for one in self._memory:
            for place, storage in self._written:
                one[place].copy_(storage)
        return bool(self._written)


class Calls(Protocol):
    """What is captured: call number n works on buffer set n modulo `sets`."""

    sets: int

    def restore(self) -> bool:
        """Before a sample: brings back the inputs that calls have changed; False where calls change none."""

    def __call__(self, call: int, stream: Any) -> None:
        """Enqueues one call on `stream`, which is torch's current one."""


class KernelCalls:
    """Calls of a loaded kernel, through the launcher that users have."""

    def __init__(self, launcher: Launcher, sets: RotatingSets, arrays: TorchArrays) -> None:
        self.sets = len(sets.pointers)
        self.restore = sets.restore
        self._launcher = launcher
        self._pointers = sets.pointers
        self._numbers = sets.numbers
        # One buffer for all calls: they run one after another, and the kernel zeroes it itself where it needs to.
        self._scratch_memory = [
            arrays.xp.empty(spec.bytes + spec.align, dtype=arrays.xp.uint8, device=arrays.device)
            for spec in launcher.artifact.scratch
        ]
        self._scratch = tuple(
            -(-memory.data_ptr() // spec.align) * spec.align
            for memory, spec in zip(self._scratch_memory, launcher.artifact.scratch, strict=True)
        )

    def __call__(self, call: int, stream: Any) -> None:
        self._launcher.launch(self._pointers[call % self.sets], stream.cuda_stream, self._scratch, self._numbers)


class EagerCalls:
    """Calls of a fusion's eager form, on the inputs that kernels are timed on.

    Torch allocates, as it does for users: intermediates come back to the same memory in every call, under capture from
    the graph's own pool. The outputs of a set live until its next call, so that they rotate as a kernel's do.
    """

    def __init__(self, form: EagerForm, sets: RotatingSets) -> None:
        self.sets = len(sets.inputs)
        self._form = form
        self._inputs = sets.inputs
        self._outputs: list[tuple[Array, ...]] = [()] * self.sets

    def __call__(self, call: int, stream: Any) -> None:
        self._outputs[call % self.sets] = self._form(self._inputs[call % self.sets])

    def restore(self) -> bool:
        return False  # its results are new tensors


@dataclass(frozen=True, slots=True)
class Samples:
    """Microseconds a call, in the order taken, and how they were taken."""

    us: tuple[float, ...]
    calls_per_sample: int
    buffer_sets: int
    retaken: bool
    ended_early: bool


class GraphRun:
    """Calls captured for replay. Close it before what they call, a kernel's launcher say."""

    last_work_s = -math.inf
    """When the GPU was last seen busy (monotonic), whoever kept it so."""

    def __init__(self, calls: Calls, arrays: TorchArrays) -> None:
        self._cuda = arrays.xp.cuda
        self._call = calls
        stream = self._cuda.Stream()
        stream.wait_stream(self._cuda.current_stream())
        with self._cuda.stream(stream):
            once_us = self._estimate_us(stream)
            count = calls.sets
            self.calls = min(max(count, math.ceil(REPLAY_US / max(once_us, 0.5)), 2), max(MAX_CALLS, count))
            self._graph = self._cuda.CUDAGraph()
            # Not torch.cuda.graph(): it empties the allocator's cache, which costs more than the capture.
            self._graph.capture_begin(capture_error_mode="thread_local")
            for call in range(self.calls):
                self._call(call, stream)
            self._graph.capture_end()
        self._cuda.current_stream().wait_stream(stream)

    def samples(self, sample_ms: float, reach_us: float = math.inf) -> Samples:
        """Takes about `sample_ms` of samples, twice if they are noisy; few where they lie beyond doubt beyond
        `reach_us`. Waits for the GPU."""
        idle_s = time.monotonic() - GraphRun.last_work_s
        replay_ms = max(self._replay_ms(1)[0], 1e-3)
        if replay_ms < SLOW_REPLAY_MS:
            warm_ms = WARM_MS if idle_s < IDLE_S else IDLE_WARM_MS
            for _ in range(math.ceil(warm_ms / replay_ms)):
                self._graph.replay()
        count = max(3 if replay_ms > SLOW_REPLAY_MS else 5, min(MAX_SAMPLES, int(sample_ms / replay_ms)))
        reach_ms = reach_us * self.calls / 1000.0
        taken: list[float] = []
        while more := more_samples(taken, count, reach_ms):
            taken += self._replay_ms(more, is_led=bool(taken))
        ended_early = surely_slower(taken, reach_ms)
        retaken = not ended_early and spread(taken) > NOISY_SPREAD and replay_ms < SLOW_REPLAY_MS
        if retaken:
            taken += self._replay_ms(count)
        GraphRun.last_work_s = time.monotonic()
        us = tuple(ms * 1000.0 / self.calls for ms in taken)
        return Samples(us, self.calls, self._call.sets, retaken, ended_early)

    def close(self) -> None:
        """Frees the graph, which holds a launcher's code and the memory allocated under capture."""
        self._graph.reset()

    def _estimate_us(self, stream: Any) -> float:
        self._call(0, stream)
        start, end = self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)
        start.record(stream)
        for call in range(1, 4):
            self._call(call, stream)
        end.record(stream)
        end.synchronize()
        return float(start.elapsed_time(end)) * 1000.0 / 3

    def _replay_ms(self, count: int, *, is_led: bool = False) -> list[float]:
        """Replays in a row. `is_led`: one goes before them, untimed. The GPU has waited for the host by then, and the
        first sample would have the latency of its launch in it."""
        if self._call.restore():
            return [self._restored_replay_ms() for _ in range(count)]
        marks = [self._cuda.Event(enable_timing=True) for _ in range(count + 1)]
        if is_led:
            self._graph.replay()
        marks[0].record()
        for mark in marks[1:]:
            self._graph.replay()
            mark.record()
        marks[-1].synchronize()
        return [float(a.elapsed_time(b)) for a, b in itertools.pairwise(marks)]

    def _restored_replay_ms(self) -> float:
        """One replay on restored inputs, between two events: the restoring is before the first."""
        self._call.restore()
        start, end = self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)
        start.record()
        self._graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))
