"""Explicit schedules that are lowered: those of the documents for Hopper, and circular buffers of every kind."""

from __future__ import annotations

from typing import Any

from tests.compiler.documents import CASES

Document = dict[str, Any]

HOPPER: list[Document] = [
    c for c in CASES if c["expect"]["legal"] and all(t.get("memory") != "tensor" for t in c["tensors"].values())
]
"""Legal cases of the documents without tensor memory."""


def step(tv: str, do: str, **fields: Any) -> Document:
    """A step on a tensor."""
    return {"tv": tv, "do": do, **fields}


def tensor(*shape: int, memory: str = "global", dtype: str = "float32", **more: Any) -> Document:
    """A tensor; one in global memory is dense."""
    return {"shape": list(shape), "dtype": dtype, "memory": memory, **more}


def op(kind: str, out: str, *inputs: str, **more: Any) -> Document:
    """An operator."""
    return {"op": kind, "in": list(inputs), "out": out, **more}


def case(name: str, tensors: Document, ops: list[Document], *steps: Document) -> Document:
    """A case: inputs are what no operator makes, the output is the last one's result."""
    made = [o["out"] for o in ops]
    inputs = [t for t in tensors if t not in made]
    return {
        "name": name,
        "tensors": tensors,
        "ops": ops,
        "inputs": inputs,
        "outputs": [made[-1]],
        "schedule": list(steps),
    }


def ring(name: str, via: str | None = "tma", memory: str = "shared", rows: int = 61, **buffer: Any) -> Document:
    """[rows, 256]: blocks of eight rows, one a turn of the buffered loop; 61 rows leave the last block five."""
    loads = "TIDx" if via is None else "Bulk"
    steps = [s for t in ("tv1", "tv2") for s in (step(t, "split", axis=0, factor=8), on(t, 0, "BIDx"))]
    steps += [on("tv1", 2, loads), on("tv2", 2, "TIDx"), step("tv1", "inline_at", position=2)]
    if buffer:
        steps.append(step("tv1", "circular_buffer", **buffer))
    tensors = {"tv0": tensor(rows, 256), "tv1": tensor(rows, 256, memory=memory), "tv2": tensor(rows, 256)}
    copy = {"via": via} if via is not None else {}
    return case(name, tensors, [op("set", "tv1", "tv0", **copy), op("set", "tv2", "tv1")], *steps)


def on(tv: str, axis: int, type_: str) -> Document:
    """An axis on a parallel type."""
    return step(tv, "parallelize", axis=axis, type=type_)


def ping_pong(slice_position: int) -> Document:
    """Two groups of threads that compute, and stages of two rows for both, of two for each, or of one row."""
    steps = []
    for t in ("tv1", "tv2"):
        steps += [step(t, "split", axis=0, factor=2) for _ in range(2)]
        steps += [step(t, "split", axis=0, factor=4), on(t, 0, "BIDx")]
    steps += [on("tv1", 4, "Bulk"), on("tv2", 2, "TIDy"), on("tv2", 4, "TIDx"), step("tv1", "inline_at", position=2)]
    buffer = {"kind": "warp_specialized", "on": "TIDy", "registers": [40, 232], "slice_position": slice_position}
    tensors = {"tv0": tensor(62, 128), "tv1": tensor(62, 128, memory="shared"), "tv2": tensor(62, 128)}
    ops = [op("set", "tv1", "tv0", via="tma"), op("set", "tv2", "tv1")]
    return case(f"slice {slice_position}", tensors, ops, *steps, step("tv1", "circular_buffer", stages=3, **buffer))


_WARPS: dict[str, Any] = {"stages": 3, "kind": "warp_specialized", "on": "TIDx"}
BUFFERED: list[Document] = [
    ring("one stage"),
    ring("bulk runs", via="bulk1d"),
    ring("pipelined", stages=3, prefetch=2),
    ring("pipelined with a second mbarrier", stages=3, prefetch=1, war_mbarrier=True),
    ring("pipelined by threads", via=None, stages=3, prefetch=2),
    ring("pipelined in registers", via=None, memory="local", stages=2, prefetch=1),
    ring("warp specialized", **_WARPS),
    ring("warp specialized, registers shared", **_WARPS, registers=[40, 232]),
    ring("warp specialized bulk runs", via="bulk1d", **_WARPS),
    *map(ping_pong, (2, 3, 4)),
]
"""Circular buffers, and the same loops without."""
