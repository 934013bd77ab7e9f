"""Explicit schedules that are lowered: those of the documents for Hopper, and circular buffers of every kind."""

from __future__ import annotations

from typing import Any

from tests.compiler.documents import CASES, DESCRIBED

Document = dict[str, Any]

HOPPER: list[Document] = [
    c
    for c in (*CASES, *DESCRIBED)
    if c["expect"]["legal"] and all(t.get("memory") != "tensor" for t in c["tensors"].values())
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
    loads = "TIDx" if via in (None, "cp_async") else "Bulk"
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


def copied_transpose(name: str, word: int, stages: int = 1) -> Document:
    """[61, 64] to [64, 61]: tiles of 32 by 32 that threads copy by rows and read by columns."""
    tensors = {"tv0": tensor(61, 64), "tv1": tensor(61, 64, memory="shared"), "tv2": tensor(64, 61)}
    steps = [step("tv2", "reorder", map={"0": 1, "1": 0})]
    for t in ("tv1", "tv2"):
        steps += [step(t, "split", axis=1, factor=32), step(t, "split", axis=0, factor=32)]
        steps += [step(t, "reorder", map={"1": 2, "2": 1}), on(t, 0, "BIDx")]
    steps += [step("tv1", "split", axis=3, factor=word), step("tv1", "merge", axis=2), on("tv1", 3, "Vectorize")]
    steps += [step("tv2", "merge", axis=2), step("tv2", "split", axis=2, factor=32 * 32 // word)]
    steps += [step("tv2", "reorder", map={"2": 3, "3": 2}), on("tv1", 2, "TIDx"), on("tv2", 2, "TIDx")]
    steps.append(step("tv1", "inline_at", position=2))
    if stages > 1:
        steps.append(step("tv1", "circular_buffer", stages=stages, prefetch=stages - 1))
    ops = [op("set", "tv1", "tv0", via="cp_async"), op("permute", "tv2", "tv1", dims=[1, 0])]
    return case(name, tensors, ops, *steps)


def copied_and_stored(name: str, rows: int) -> Document:
    """[rows, 128]: what threads bring to shared memory the copy engine stores, a row at a time."""
    tensors = {"tv0": tensor(rows, 128), "tv1": tensor(rows, 128, memory="shared"), "tv2": tensor(rows, 128)}
    steps = [s for t in ("tv1", "tv2") for s in (step(t, "split", axis=0, factor=8), on(t, 0, "BIDx"))]
    steps += [step("tv1", "split", axis=2, factor=4), on("tv1", 2, "TIDx"), on("tv1", 3, "Vectorize")]
    steps += [on("tv2", 2, "Bulk"), step("tv1", "inline_at", position=2)]
    ops = [op("set", "tv1", "tv0", via="cp_async"), op("set", "tv2", "tv1", via="tma")]
    return case(name, tensors, ops, *steps)


def transpose_of_matrices(name: str) -> Document:
    """[104, 200] to [200, 104] in halves: tiles of 64 by 64 that the copy engine brings, swizzled, and stores; warps
    read 8 columns of 32 rows by ldmatrix, transposed, and put down 8 rows of 32 by stmatrix."""
    half = {"dtype": "float16"}
    tensors = {"tv0": tensor(104, 200, **half), "in_smem": tensor(104, 200, memory="shared", **half)}
    tensors["reg"] = tensor(200, 104, memory="local", **half)
    tensors |= {"out_smem": tensor(200, 104, memory="shared", **half), "out": tensor(200, 104, **half)}
    steps: list[Document] = []
    for t in ("in_smem", "reg", "out_smem", "out"):
        steps += [step(t, "split", axis=1, factor=64), step(t, "split", axis=0, factor=64)]
        tiles_first = {"0": 1, "1": 2, "2": 0} if t == "in_smem" else {"1": 2, "2": 1}
        steps += [step(t, "reorder", map=tiles_first), step(t, "merge", axis=0), on(t, 0, "BIDx")]
    steps += [step("in_smem", "split", axis=2, factor=8), step("in_smem", "split", axis=1, factor=8)]
    steps.append(step("in_smem", "swizzle", kind="xor", axes=[2, 3]))
    for t in ("in_smem", "out_smem"):
        steps.append(step(t, "set_allocation_domain", axes="loop", contiguity=True))
    steps += [on(t, axis, "Bulk") for t, last in (("in_smem", 4), ("out", 2)) for axis in range(1, last + 1)]
    for t in ("reg", "out_smem"):
        steps += [step(t, "split", axis=axis, factor=n) for axis, n in ((2, 2), (2, 4), (2, 4), (1, 8))]
        # tile, rows, line, columns, matrix, pair, half
        steps += [step(t, "reorder", map={"2": 3, "3": 2, "4": 5, "5": 4}), step(t, "merge", axis=3)]
        steps += [step(t, "merge", axis=4), on(t, 3, "TIDx"), on(t, 4, "Vectorize")]
    steps += [step(t, "inline_at", position=n) for t, n in (("in_smem", 1), ("reg", 4), ("out_smem", 1))]
    ops = [op("set", "in_smem", "tv0", via="tma"), op("permute", "reg", "in_smem", via="ldmatrix", dims=[1, 0])]
    ops += [op("set", "out_smem", "reg", via="stmatrix"), op("set", "out", "out_smem", via="tma")]
    return case(name, tensors, ops, *steps)


def multicast_bias(blocks: int = 2) -> Document:
    """[9, 64] + [64]: neighbouring rows are of the blocks of a cluster, to all of which one copy brings what they add;
    a row of the last one is not there."""
    tiles = {name: tensor(9, 64, memory=m) for name, m in (("xr", "local"), ("yr", "local"), ("y", "global"))}
    biases = {name: tensor(9, 64, memory=m, broadcast_axes=[0]) for name, m in (("bs", "shared"), ("br", "local"))}
    steps = [step("bs", "multicast")]
    for t in ("bs", "br", "xr", "yr", "y"):
        last = "Bulk" if t == "bs" else "TIDx"
        steps += [step(t, "split", axis=0, factor=blocks), on(t, 0, "BIDx"), on(t, 1, "Cluster"), on(t, 2, last)]
    ops = [
        op("broadcast", "bs", "b", broadcast_flags=[True, False], via="tma"),
        op("set", "br", "bs"),
        op("set", "xr", "x"),
        op("add", "yr", "xr", "br"),
        op("set", "y", "yr"),
    ]
    return case("multicast", {"x": tensor(9, 64), "b": tensor(64), **biases, **tiles}, ops, *steps)


_WARPS: dict[str, Any] = {"stages": 3, "kind": "warp_specialized", "on": "TIDx"}
BUFFERED: list[Document] = [
    ring("one stage"),
    ring("bulk runs", via="bulk1d"),
    ring("pipelined", stages=3, prefetch=2),
    ring("pipelined with a second mbarrier", stages=3, prefetch=1, war_mbarrier=True),
    ring("pipelined by threads", via=None, stages=3, prefetch=2),
    ring("pipelined in registers", via=None, memory="local", stages=2, prefetch=1),
    ring("copied by threads", via="cp_async"),
    ring("pipelined by copies of threads", via="cp_async", stages=3, prefetch=2),
    ring("pipelined by copies, a stage to spare", via="cp_async", stages=4, prefetch=2),
    copied_transpose("cp_async of four bytes, transposed", word=1),
    copied_transpose("cp_async of sixteen bytes, transposed in stages", word=4, stages=2),
    copied_and_stored("cp_async, stored by a tensor map", rows=61),
    transpose_of_matrices("matrices, by tensor maps both ways"),
    ring("warp specialized", **_WARPS),
    ring("warp specialized, registers shared", **_WARPS, registers=[40, 232]),
    ring("warp specialized bulk runs", via="bulk1d", **_WARPS),
    *map(ping_pong, (2, 3, 4)),
]
"""Circular buffers, and the same loops without."""
