"""Schedules of products at random points, and what else may be made of them: every instruction's axes by themselves,
and one step changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from compiler.arch import card_or_default
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.space.schedulers import singles_for
from tests.compiler.products import product

P = ParallelType
FEW_SMS = replace(card_or_default("H200"), sm_count=4)
"""Persistent blocks have several tiles of a small result."""

FEW_SMS_WITH_TENSOR_MEMORY = replace(card_or_default("B200"), sm_count=4)

SIZES = ((64, 32, 128), (128, 64, 192), (192, 96, 136), (72, 48, 128), (128, 128, 64), (65, 24, 256))


def random_fusion(random: Random) -> Fusion:
    m, n, k = random.choice(SIZES)
    left, right = (random.choice(("k", "mn")) for _ in range(2))
    m = m - m % 8 if left == "mn" else m
    return product(m, n, k, out=random.choice(("bf16", "f32")), left=left, right=right)


def traces(seed: int, scheduler: str = "product") -> Iterator[tuple[str, ScheduleTrace]]:
    """Schedules of random products at random points of one scheduler, with what they are."""
    random = Random(seed)
    card = FEW_SMS_WITH_TENSOR_MEMORY if scheduler == "tensor_product" else FEW_SMS
    while True:
        fusion = random_fusion(random)
        found = [s for s in singles_for(fusion, card) if s.name == scheduler]
        for one in found:
            space = one.space(fusion, card.arch)
            for point in space.sample(2, random.randrange(1 << 30)):
                made = one.trace(fusion, point)
                assert isinstance(made, ScheduleTrace)
                yield f"{fusion.value(fusion.outputs[0]).shape} {point}", made


def small_traces(seed: int, scheduler: str = "product") -> Iterator[tuple[str, ScheduleTrace]]:
    """The same of few columns, each of which is multiplied by itself: of one group of warps, or of a thread."""
    random = Random(seed)
    card = FEW_SMS_WITH_TENSOR_MEMORY if scheduler == "tensor_product" else FEW_SMS
    while True:
        fusion = random_fusion(random)
        columns, drawn = random.choice((8, 16, 24, 32)), random.randrange(1 << 30)
        for one in (s for s in singles_for(fusion, card) if s.name == scheduler):
            chosen = one.space(fusion, card.arch).having({"tile_columns": columns, "k_lines": 1})
            for point in chosen.sample(1, drawn):
                made = one.trace(fusion, point)
                assert isinstance(made, ScheduleTrace)
                yield f"{fusion.value(fusion.outputs[0]).shape} {point}", made


def without_instructions(trace: ScheduleTrace) -> ScheduleTrace:
    """Every axis that an instruction takes is Serial, or Unroll where registers lie along it, as everywhere; nothing is
    waited for any more. What lay in tensor memory lies in registers of the threads that read it."""
    kept = [s for s in trace.steps if not isinstance(s, steps.ProductsInFlight | steps.TmemDimsep)]
    away = _TensorMemory.of(trace)
    return ScheduleTrace(trace.fusion, tuple(after for s in kept for after in away.left(s)))


@dataclass(frozen=True)
class _TensorMemory:
    """What a trace has in tensor memory, of it in half of the lanes, and what is loaded from there."""

    kept: frozenset[str]
    halves: frozenset[str]
    loaded: frozenset[str]

    @classmethod
    def of(cls, trace: ScheduleTrace) -> _TensorMemory:
        kept = {s.tensor for s in trace.steps if isinstance(s, steps.SetMemory) and s.memory is MemoryType.TENSOR}
        placed = [s for s in trace.steps if isinstance(s, steps.SetAllocationDomain) and s.tv in kept]
        loaded = {s.out for s in trace.steps if isinstance(s, steps.CacheInput) and s.via is CopyVia.LD_TMEM}
        return cls(frozenset(kept), frozenset(s.tv for s in placed if s.strides), frozenset(loaded))

    def left(self, step: steps.Step) -> list[steps.Step]:
        """What is left of a step where nothing is in tensor memory."""
        match step:
            case steps.SetMemory() if step.tensor in self.kept:
                return [replace(step, memory=MemoryType.LOCAL)]
            case steps.CacheInput() if step.out in self.loaded:
                return [replace(step, via=CopyVia.PLAIN)]
            case steps.SetAllocationDomain() if step.tv in self.kept:
                return []
            case steps.ParallelizeLoops() if step.tv in self.kept:
                return self._by_threads(step)
            case steps.ParallelizeLoops() if step.tv in self.loaded:
                return [replace(step, types=tuple(P.UNROLL if p is P.VECTORIZE else p for p in step.types))]
        return [_serial(step)]

    def _by_threads(self, step: steps.ParallelizeLoops) -> list[steps.Step]:
        """[.., rows, columns, k] of an instruction -> [.., halves, thread, half, 8 columns, side, k]: the elements by
        the threads that load them."""
        tv, at = step.tv, len(step.types) - 3
        warp = 16 if tv in self.halves else 32
        cut: list[steps.Step] = [
            steps.Split(tv, *one) for one in ((at + 1, 8), (at + 2, 2), (at, warp), (at + 1, 16), (at + 2, 8))
        ]
        # warp, halves, half, line | 8 columns, pair, side | k
        moves = tuple((at + old, at + new) for new, old in enumerate((1, 0, 3, 5, 2, 4, 6, 7)))
        threads: list[steps.Step] = [steps.Reorder(tv, moves), steps.Merge(tv, at + 1), steps.Merge(tv, at + 1)]
        types = (*step.types[:at], P.UNROLL, P.TIDX, P.UNROLL, P.UNROLL, P.UNROLL, P.SERIAL)
        return [*cut, *threads, replace(step, types=types)]


def _serial(step: steps.Step) -> steps.Step:
    if not isinstance(step, steps.ParallelizeLoops) or P.MMA not in step.types:
        return step
    summed = len(step.types) - 1 - step.types[::-1].index(P.MMA)
    types = (P.SERIAL if n == summed else P.UNROLL if p is P.MMA else p for n, p in enumerate(step.types))
    return replace(step, types=tuple(types))


# One step changed ----------------------------------------------------------------------------------------------------


_OFTEN = {steps.CircularBuffer: 8, steps.Parallelize: 5, steps.ProductsInFlight: 3, steps.Multicast: 3}
"""How much more often kinds of steps are changed of which most changes are legal."""


def changed(trace: ScheduleTrace, random: Random) -> tuple[str, ScheduleTrace]:
    """The trace with one generic step changed, of all rings the number of stages, and what was done to it."""
    ways = [(n, s, other) for n, s in enumerate(trace.steps) for other in _others(s, random)]
    kinds = sorted({type(s) for _, s, _ in ways}, key=str)
    (kind,) = random.choices(kinds, [_OFTEN.get(one, 1) for one in kinds])
    place, before, after = random.choice([way for way in ways if type(way[1]) is kind])
    made = (*trace.steps[:place], *([] if after is None else [after]), *trace.steps[place + 1 :])
    if isinstance(after, steps.CircularBuffer):  # rings that turn together have equally many stages
        made = tuple(replace(s, stages=after.stages) if isinstance(s, steps.CircularBuffer) else s for s in made)
    return f"step {place}: {before} -> {after}", ScheduleTrace(trace.fusion, made)


def _others(step: steps.Step, random: Random) -> list[steps.Step | None]:
    """What may stand in the place of a step: of each kind, as often as others of it are thinkable; None for nothing."""
    match step:
        case steps.CircularBuffer():
            fewer, more = replace(step, stages=max(2, step.stages - 1)), replace(step, stages=step.stages + 1)
            return [fewer, more]
        case steps.Split() if isinstance(step.factor, int) and step.factor > 1:
            return [replace(step, factor=random.choice((step.factor // 2, 2 * step.factor)))]
        case steps.InlineSelectedAt() if step.position > 0:
            return [replace(step, position=step.position - 1)]
        case steps.ProductsInFlight() | steps.Multicast():
            return [None, None]
        case steps.SetMemory() if step.via is CopyVia.STMATRIX:
            return [replace(step, via=CopyVia.PLAIN)]
        case steps.SetMemory() if step.memory is MemoryType.SHARED:
            return [replace(step, via=CopyVia.CP_ASYNC)]
        case steps.SetAllocationDomain():
            plain = tuple(t for t in step.transforms if not isinstance(t, steps.Swizzle))
            return [replace(step, transforms=plain)]
        case steps.Parallelize() if step.type is P.VECTORIZE:
            return [replace(step, type=P.UNROLL)]
        case steps.ParallelizeLoops() if P.SERIAL in step.types:
            place = random.choice([i for i, p in enumerate(step.types) if p is P.SERIAL])
            return [replace(step, types=(*step.types[:place], P.UNROLL, *step.types[place + 1 :]))]
        case _:
            return []
