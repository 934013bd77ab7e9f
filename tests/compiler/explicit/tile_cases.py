"""Tiles of the copy engine at the edges of what the documents allow: legal schedules, and illegal ones beside them.

Every case is [rows, columns] from global to shared memory by tiles and on by threads, or the other way (`stored`).
"""

from __future__ import annotations

from typing import Any

from tests.compiler.explicit.cases import Document, case, on, op, step, tensor

TILES = ("tv1", "tv2")
Steps = list[Document]


def _case(name: str, shape: tuple[int, ...], is_load: bool, steps: Steps, **more: Any) -> Document:
    dtype = more.pop("dtype", "float32")
    tensors = {t: tensor(*shape, dtype=dtype) for t in ("tv0", "tv2")}
    tensors["tv1"] = tensor(*shape, memory="shared", dtype=dtype)
    vias: list[Document] = [{"via": "tma"}, {}] if is_load else [{}, {"via": "tma"}]
    ops = [op("set", out, source, **via) for (source, out), via in zip((("tv0", "tv1"), TILES), vias, strict=True)]
    return case(name, tensors, ops, *steps) | more


def loaded(name: str, shape: tuple[int, ...], *steps: Steps, **more: Any) -> Document:
    """Tiles loaded: `tv1` is the copy engine's."""
    return _case(name, shape, True, [s for part in steps for s in part], **more)


def stored(name: str, shape: tuple[int, ...], *steps: Steps, **more: Any) -> Document:
    """Tiles stored: `tv2` is the copy engine's."""
    return _case(name, shape, False, [s for part in steps for s in part], **more)


def each(do: str, *of: str, **fields: Any) -> Steps:
    """The step on both tensors, or those named."""
    return [step(t, do, **fields) for t in of or TILES]


def tiles(rows: int, columns: int) -> Steps:
    """[row of tiles, column of tiles, rows, columns]."""
    cut = [*each("split", axis=1, factor=columns), *each("split", axis=0, factor=rows)]
    return [*cut, *each("reorder", map={"1": 2, "2": 1})]


def pieces(block: int, box: int) -> Steps:
    """[block, box, element] of one dimension."""
    return [*each("split", axis=0, factor=block), *each("split", axis=1, factor=box)]


def xor(x: int, y: int, *of: str) -> Steps:
    return each("swizzle", *of, kind="xor", axes=[x, y])


def blocks(*axes: int) -> Steps:
    """Axes of both tensors on BIDx, BIDy."""
    return [on(t, a, type_) for a, type_ in zip(axes, ("BIDx", "BIDy"), strict=False) for t in TILES]


def bulk(tv: str, *axes: int) -> Steps:
    return [on(tv, a, "Bulk") for a in axes]


def threads(tv: str, axis: int) -> Steps:
    return [on(tv, axis, "TIDx")]


def laid(tv: str, axes: Any = "loop", **more: Any) -> Steps:
    """The memory order of a tensor, contiguous unless said otherwise."""
    return [step(tv, "set_allocation_domain", axes=axes, **{"contiguity": True, **more})]


def chunks(unit: int, span: int) -> Steps:
    """Rows and columns of a tile, axes 2 and 3, as [-1, span, 8 / span, span, unit], swizzled: all of the tile."""
    cut = [*each("split", axis=3, factor=unit), *each("split", axis=2, factor=8)]
    return [*cut, *each("split", axis=3, factor=8 // span), *xor(3, 5), *bulk("tv1", *range(2, 7)), *laid("tv1")]


def launched(tv: str, shape: tuple[int, ...], *strides: int) -> Document:
    return {"runtime_inputs": {tv: {"shape": list(shape), "strides": list(strides)}}}


BY_COLUMNS = [
    *each("split", axis=1, factor=8),
    *each("split", axis=0, factor=16),
    *each("reorder", map={"0": 1, "1": 3, "2": 0, "3": 2}),
    *blocks(0, 1),
]
"""Tiles of 8 columns of 16 rows, a column contiguous."""
LOAD, STORE = bulk("tv1", 2, 3), bulk("tv2", 2, 3)
MERGED, CUT = [step("tv1", "merge", axis=2)], [step("tv1", "split", axis=2, factor=24)]
CHUNKED = [
    *each("split", "tv2", axis=3, factor=4),
    *each("split", "tv2", axis=2, factor=8),
    *xor(3, 4, "tv2"),
]
"""Rows of 128 bytes in chunks, swizzled, where threads read them."""
VIEWED: Steps = [{"do": "merge", "axis": 2}]
"""A tile as one axis of the allocation."""
PADDED = [False, True]

LEGAL: list[tuple[Document, tuple[int, ...], str]] = [
    (loaded("xor of 2 tiles, halves", (8, 32), tiles(4, 16), xor(0, 1), blocks(0), LOAD, dtype="float16"), (16, 4), ""),
    (loaded("xor of 8 tiles", (32, 64), tiles(4, 8), xor(0, 1), blocks(0), LOAD), (8, 4), ""),
    (loaded("xor of 16 tiles, y by x", (64, 128), tiles(4, 8), xor(1, 0), blocks(0), LOAD), (8, 4), ""),
    (loaded("xor of 4 tiles with edges", (15, 60), tiles(4, 16), xor(0, 1), blocks(0, 1), LOAD), (16, 4), ""),
    (loaded("xor where the tile is made", (16, 64), tiles(4, 16), xor(0, 1, "tv1"), blocks(0), LOAD), (16, 4), ""),
    (loaded("xor of tiles of 64 byte rows, swizzled", (35, 60), tiles(9, 16), xor(0, 1), chunks(4, 4), blocks(0)),
     (16, 9), "64B"),
    (loaded("xor of what threads ask for", (15, 60), tiles(4, 16), xor(0, 1), blocks(0), threads("tv1", 1),
            threads("tv2", 1), LOAD), (16, 4), ""),
    (stored("xor of stored tiles", (15, 56), tiles(4, 16), xor(0, 1), blocks(0), threads("tv1", 3), STORE,
            dtype="float16"), (16, 4), ""),
    (loaded("10 swizzled rows of 128 bytes", (25, 120), tiles(10, 64), chunks(8, 8), blocks(0, 1), dtype="float16"),
     (64, 10), "128B"),
    (loaded("10 swizzled rows of 32 bytes", (23, 20), tiles(10, 8), chunks(4, 2), blocks(0, 1)), (8, 10), "32B"),
    (loaded("13 swizzled rows of doubles", (26, 32), tiles(13, 16), chunks(2, 8), blocks(0), dtype="float64"),
     (16, 13), "128B"),
    (loaded("3 swizzled rows of bytes", (9, 256), tiles(3, 128), chunks(16, 8), blocks(0, 1), dtype="int8"),
     (128, 3), "128B"),
    (loaded("12 swizzled rows that the order alone rounds up", (24, 64), tiles(12, 32), CHUNKED, blocks(0), LOAD,
            laid("tv1", transforms=[{k: v for k, v in s.items() if k != "tv"} for s in CHUNKED])), (32, 12), "128B"),
    (loaded("columns in memory, a pitch", (60, 30), laid("tv0", [1, 0], contiguity=PADDED), BY_COLUMNS, LOAD,
            dtype="float16", **launched("tv0", (60, 30), 1, 80)), (16, 8), ""),
    (loaded("columns in memory, cut", (64, 32), [step("tv0", "split", axis=0, factor=16)], laid("tv0", [2, 0, 1]),
            BY_COLUMNS, LOAD, **launched("tv0", (64, 32), 1, 64)), (16, 8), ""),
    (stored("columns in the output's memory", (60, 32), laid("tv2", [1, 0]), BY_COLUMNS, threads("tv1", 3), STORE),
     (16, 8), ""),
    (stored("columns in the output's memory, a pitch", (60, 30), laid("tv2", [1, 0], contiguity=PADDED), BY_COLUMNS,
            threads("tv1", 3), STORE, **launched("tv2", (60, 30), 1, 64)), (16, 8), ""),
    (loaded("boxes of 8 halves, the last cut", (100,), pieces(32, 8), blocks(0), bulk("tv1", 2), dtype="float16"),
     (8,), ""),
    (loaded("boxes of 48 bytes", (1000,), pieces(144, 48), blocks(0), bulk("tv1", 2), dtype="int8"), (48,), ""),
    (loaded("boxes of 2 by 4", (15, 60), tiles(2, 4), blocks(0), LOAD), (4, 2), ""),
    (loaded("boxes of 2 by 4 in stages", (15, 60), tiles(2, 4), each("split", axis=1, factor=4), blocks(0),
            bulk("tv1", 3, 4), [step("tv1", "inline_at", position=2)],
            [step("tv1", "circular_buffer", stages=3, prefetch=2)]), (4, 2), ""),
    (stored("boxes of 4 out of a row of threads", (100,), each("split", axis=0, factor=16),
            each("split", "tv2", axis=1, factor=4), blocks(0), threads("tv1", 1), bulk("tv2", 2)), (4,), ""),
    (loaded("tile cut after its order was set", (15, 60), tiles(4, 16), blocks(0), laid("tv1"), MERGED, CUT, LOAD),
     (16, 4), ""),
    (loaded("tile cut, no order set", (16, 64), tiles(4, 16), blocks(0), MERGED, CUT, LOAD), (16, 4), ""),
    (loaded("tile cut in an order of no axis of its own", (16, 64), tiles(4, 16), blocks(0), LOAD,
            laid("tv1", transforms=[*VIEWED, {"do": "split", "axis": 2, "factor": 24}])), (16, 4), ""),
    (loaded("tiles in one axis of an order", (16, 64), tiles(2, 4), blocks(0), LOAD,
            laid("tv1", transforms=[*VIEWED, {"do": "merge", "axis": 1}])), (4, 2), ""),
]  # fmt: skip
"""With the box, innermost first, and the swizzle that must be found."""

ILLEGAL: list[tuple[Document, str]] = [
    (loaded("xor of a tile and a row", (16, 64), tiles(4, 16), xor(0, 2), blocks(0), LOAD), "tma_domain_is_a_view"),
    (loaded("xor of a row by a tile, in the order alone", (16, 64), tiles(4, 16), blocks(0), LOAD,
            laid("tv1", transforms=xor(1, 2, "tv1"))), "swizzle_moves_chunks_of_16_bytes"),
    (loaded("xor of 8 and 4 tiles", (32, 64), tiles(4, 16), xor(0, 1), blocks(0), LOAD),
     "swizzled_extents_are_equal_powers_of_two"),
    (loaded("xor inside the tile, as no mode", (16, 64), tiles(4, 16), each("split", axis=3, factor=4), xor(2, 3),
            blocks(0), bulk("tv1", 2, 3, 4)), "swizzled_layout_is_a_hardware_mode"),
    (loaded("columns in memory, a pitch claimed dense", (64, 32), laid("tv0", [1, 0]), BY_COLUMNS, LOAD,
            **launched("tv0", (64, 32), 1, 80)), "strides_are_as_contiguity_says"),
    (loaded("columns in memory, rows bound", (64, 32), laid("tv0", [1, 0]), BY_COLUMNS, LOAD),
     "strides_are_as_contiguity_says"),
    (loaded("columns in memory, a pitch of no 16 bytes", (64, 32), laid("tv0", [1, 0], contiguity=PADDED), BY_COLUMNS,
            LOAD, **launched("tv0", (64, 32), 1, 66)), "tensor_map_strides_are_multiples_of_16_bytes"),
    (loaded("columns in memory, rows in the tile", (64, 32), laid("tv0", [1, 0]), tiles(16, 8), blocks(0, 1), LOAD,
            **launched("tv0", (64, 32), 1, 64)), "tile_is_contiguous_in_shared_memory"),
    (loaded("boxes of 8 bytes", (96,), pieces(16, 2), blocks(0), bulk("tv1", 2)), "tma_moves_multiples_of_16_bytes"),
    (loaded("tile apart in its order, then merged", (16, 64), tiles(4, 16), blocks(0), laid("tv1", [0, 2, 1, 3]),
            MERGED, bulk("tv1", 2)), "tile_is_contiguous_in_shared_memory"),
    (loaded("tile turned in its order, then merged", (16, 64), tiles(4, 16), blocks(0), laid("tv1", [0, 1, 3, 2]),
            MERGED, bulk("tv1", 2)), "tile_is_contiguous_in_shared_memory"),
    (loaded("12 swizzled rows in steps of 4", (24, 32), tiles(12, 16), each("split", axis=3, factor=4),
            each("split", axis=2, factor=4), xor(3, 4), blocks(0, 1), bulk("tv1", 2, 3, 4, 5), laid("tv1")),
     "swizzled_layout_is_a_hardware_mode"),
]  # fmt: skip
"""With the rule that refuses it."""

UNSUPPORTED: list[tuple[Document, str]] = [
    (stored("tiles in the output's memory, one after another", (64, 32), tiles(16, 8), blocks(0, 1), threads("tv1", 3),
            STORE, laid("tv2")), "no one stride"),
]  # fmt: skip
"""Legal, with why there is no kernel."""
