"""Where shared tensors and barriers lie in dynamic shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from compiler.analysis.facts import Facts
from compiler.analysis.memory.smem import Placement, plan_shared_memory
from compiler.arch import BARRIER_BYTES
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion, Op, Value
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.schedule.steps import CacheInput, CircularBuffer, InlineAt, SetAllocationDomain, Split, Step, Swizzle
from tests.compiler.schedules import SHARED, P, parallel, unary
from tests.compiler.scheduling import load, scheduled, store

Shared = tuple[str, int, CopyVia, int]
"""Name, elements (f32), how it is loaded, stages."""


def shared_tensors(*wanted: Shared) -> ScheduledFusion:
    """One input for each shared tensor, copied through it to an output; each has a shape of its own."""
    parts = [_through_shared(i, *one) for i, one in enumerate(wanted)]
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    return replace(parts[0], tensors=tensors, ops=tuple(op for part in parts for op in part.ops))


def _through_shared(i: int, name: str, elems: int, via: CopyVia, stages: int) -> ScheduledFusion:
    source, result = f"i{i}", f"v{i}"
    values = tuple(Value(v, (elems,), DType.F32, (1,), 16) for v in (source, result))
    fusion = Fusion(values, (source,), (Op(OpKind.COPY, (source,), result),), (result,), "f", "b")
    taken: list[Step] = [CacheInput(source, name, SHARED, via)]
    if stages > 1:
        taken += [Split(name, 0, elems), Split(result, 0, elems), InlineAt(name, 1), CircularBuffer(name, stages)]
    return scheduled(fusion, *taken)


PLAIN, TMA, BULK1D = CopyVia.PLAIN, CopyVia.TMA, CopyVia.BULK1D

PLANS = [
    pytest.param([("s", 64, PLAIN, 1)], {}, [("s", 0, 256, 1)], 256, 256, 128, id="one"),
    pytest.param([("s", 65, PLAIN, 1)], {}, [("s", 0, 384, 1)], 384, 384, 128, id="rounded-up"),
    pytest.param([("s", 64, TMA, 1)], {}, [("s", 0, 256, 1)], 256, 264, 128, id="a-barrier"),
    pytest.param([("s", 64, BULK1D, 3)], {}, [("s", 0, 256, 3)], 768, 792, 128, id="a-barrier-each-stage"),
    pytest.param([("s", 64, PLAIN, 3)], {}, [("s", 0, 256, 3)], 768, 768, 128, id="stages-by-threads-need-none"),
    pytest.param(
        [("s", 65, PLAIN, 1), ("t", 32, TMA, 2)],
        {},
        [("s", 0, 384, 1), ("t", 384, 128, 2)],
        640,
        656,
        128,
        id="one-after-the-other",
    ),
    pytest.param(
        [("s", 65, PLAIN, 1), ("t", 256, TMA, 2)],
        {"t": 128},
        [("t", 0, 1024, 2), ("s", 2048, 384, 1)],
        2432,
        2448,
        1024,
        id="most-aligned-first",
    ),
    pytest.param(
        [("s", 32, TMA, 1), ("t", 32, TMA, 1), ("u", 32, TMA, 1)],
        {"s": 32, "t": 64, "u": 128},
        [("u", 0, 1024, 1), ("t", 1024, 512, 1), ("s", 1536, 256, 1)],
        1792,
        1816,
        1024,
        id="every-span",
    ),
]


@pytest.mark.parametrize(("wanted", "spans", "placed", "barriers_at", "total", "align"), PLANS)
def test_plans(
    wanted: Sequence[Shared],
    spans: Mapping[str, int],
    placed: list[tuple[str, int, int, int]],
    barriers_at: int,
    total: int,
    align: int,
) -> None:
    plan = plan_shared_memory(shared_tensors(*wanted), lambda name: spans.get(name, 0))
    assert plan.placements == tuple(Placement(*p) for p in placed)
    assert (plan.barrier_offset, plan.total_bytes, plan.align) == (barriers_at, total, align)
    assert plan.barrier_offset % BARRIER_BYTES == 0
    for p in plan.placements:
        assert plan.of(p.tensor) == p
        assert p.offset % max(128, 8 * spans.get(p.tensor, 0)) == 0


def test_nothing_shared_takes_nothing() -> None:
    plan = plan_shared_memory(scheduled(unary((64,))), lambda _: 0)
    assert (plan.placements, plan.total_bytes) == ((), 0)


def test_the_span_of_a_tensor_is_that_of_its_copies() -> None:
    """A tile that the copy engine fills under the 128-byte swizzle starts on 1024 bytes; one by threads on 128."""
    chunks = (Split("s", 1, 4), Split("s", 0, 8), Swizzle("s", 1, 2))
    allocation = SetAllocationDomain("s", (0, 1), chunks)
    facts = Facts(load((16, 32), allocation, *parallel("s", P.BULK, P.BULK)))
    assert facts.swizzle_span("s") == 128
    assert (facts.smem.align, facts.smem.total_bytes) == (1024, 2048 + 8)
    stored = Facts(store((16, 32), allocation, *parallel("v0", P.BULK, P.BULK)))
    assert stored.swizzle_span("s") == 128
    assert (stored.smem.align, stored.smem.total_bytes) == (1024, 2048)
    by_threads = Facts(load((16, 32), allocation, via=PLAIN))
    assert by_threads.swizzle_span("s") == 0
    assert (by_threads.smem.align, by_threads.smem.total_bytes) == (128, 2048)
