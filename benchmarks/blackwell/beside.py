"""What runs beside the threads: tcgen05.shift and .cp; allocations that wait and are reused; waits and fences."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.blackwell.code import COLUMNS, PRELUDE, block, by_one_thread, declared, fill, load, program, show, store
from benchmarks.blackwell.fragments import LANES, WARP, cells, contents
from benchmarks.blackwell.question import ENTRY, HardwareQuestion, Words

_BAR = "__shared__ __align__(8) u64 bar;"


def questions() -> Iterator[HardwareQuestion]:
    """All of this module."""
    yield _shift()
    for shape in TILES:
        yield _copy(shape, swizzled=False)
    yield _copy("128x256b", swizzled=True)
    yield _waiting()
    yield _reused()
    yield _same_warp()
    yield _handed_over()


def _shift() -> HardwareQuestion:
    x = contents(6)
    before = cells(x)
    down, up = before.copy(), before.copy()
    down[33:64, 4:12], up[32:63, 4:12] = before[32:63, 4:12], before[33:64, 4:12]
    answers = {"rows move to the next lane, the first stays": down, "rows move to the lane before, the last stays": up}
    shift = by_one_thread("tcgen05.shift.cta_group::1.down [%0];", ['"r"(base + (32u << 16) + 4)'])
    source = program(block(fill()) + shift + block(show()), _BAR)
    return HardwareQuestion("direction of shift.down", "where tcgen05.shift.down moves its rows", source, x, answers)


_CHUNK_WORDS = 4
"""Of 16 bytes, which lie together in shared memory."""

TILES: dict[str, tuple[int, int, Callable[[int], list[int]]]] = {
    "128x256b": (128, 2, lambda r: [r]),
    "128x128b": (128, 1, lambda r: [r]),
    "4x256b": (4, 2, lambda r: [32 * r]),
    "64x128b.warpx2::02_13": (64, 1, lambda r: [r, r + 64]),
    "64x128b.warpx2::01_23": (64, 1, lambda r: [r + 32 * (r // 32), r + 32 * (r // 32) + 32]),
    "32x128b.warpx4": (32, 1, lambda r: [r, r + 32, r + 64, r + 96]),
}
"""By shape: rows, chunks of 16 bytes, and the lanes that a row is copied to (PTX ISA, "tcgen05.cp")."""

_OTHER_LANES: dict[str, tuple[str, Callable[[int], list[int]]]] = {
    "4x256b": ("rows to lanes 0 to 3 of every quarter", lambda r: [r, r + 32, r + 64, r + 96]),
    "64x128b.warpx2::02_13": ("as 01_23", TILES["64x128b.warpx2::01_23"][2]),
    "64x128b.warpx2::01_23": ("as 02_13", TILES["64x128b.warpx2::02_13"][2]),
}


def _copy(shape: str, swizzled: bool) -> HardwareQuestion:
    """Without a swizzle 8 rows of 16 bytes lie together, chunk after chunk; with one, rows are 128 bytes apart and
    their chunks xored with the row's number."""
    rows, chunks, lanes = TILES[shape]
    pitch, chunk, group, mode = (128, 16, 1024, 2) if swizzled else (16, 128, 256, 0)
    tile_words = group * 16 // 4
    x = contents(7, tile_words)
    tile = x[LANES * COLUMNS :]

    def copied(to: Callable[[int], list[int]]) -> Words:
        after = cells(x).copy()
        for row in range(rows):
            for c in range(chunks):
                place = row // 8 * group + row % 8 * pitch + c * chunk
                place ^= (place >> 7 & 7) << 4 if swizzled else 0
                for lane in to(row):
                    at = slice(_CHUNK_WORDS * c, _CHUNK_WORDS * (c + 1))
                    after[lane, at] = tile[place // 4 : place // 4 + _CHUNK_WORDS]
        return after

    answers = {"rows to the lanes of the manual": copied(lanes)}
    if shape in _OTHER_LANES:
        name, other = _OTHER_LANES[shape]
        answers[name] = copied(other)
    if swizzled:
        answers = {"chunks xored with the row's number modulo 8": answers["rows to the lanes of the manual"]}
    shared = f"__shared__ __align__(1024) u32 tile[{tile_words}]; {_BAR}"
    brought = f"  for (u32 k = t; k < {tile_words}; k += {LANES}) tile[k] = x[{LANES * COLUMNS} + k];\n"
    brought += f"  u64 matrix = (SMEM(tile) >> 4 & 0x3FFF) | {chunk >> 4}ull << 16 | {group >> 4}ull << 32 | 1ull << 46"
    brought += f" | {mode}ull << 61;\n"
    copy = by_one_thread(f"tcgen05.cp.cta_group::1.{shape} [%0], %1;", ['"r"(base)', '"l"(matrix)'])
    source = program(brought + block(fill()) + copy + block(show()), shared)
    name = f"cp {shape}" + (", 128-byte swizzle" if swizzled else "")
    return HardwareQuestion(name, "which row of shared memory tcgen05.cp brings to which lane", source, x, answers)


def _waiting() -> HardwareQuestion:
    source = f"""{PRELUDE}
extern "C" __global__ void {ENTRY}(const u32* x, u32* y) {{
  __shared__ u32 first, second, is_free;
  u32 t = threadIdx.x, w = t / 32;
  if (t == 0) is_free = 0;
  if (w == 0) ALLOC(first, 512);
  __syncthreads();
  if (w == 0) {{
    __nanosleep(1000000);
    if (t == 0) atomicExch(&is_free, 1);
    __syncwarp();
    FREE(first, 512);
  }} else {{
    ALLOC(second, 512);
    y[t - 32] = atomicAdd(&is_free, 0) + x[0];
    FREE(second, 512);
  }}
}}
"""
    answers = {
        "it waits until they are freed": np.ones(WARP, np.uint32),
        "it goes on at once": np.zeros(WARP, np.uint32),
    }
    asks = "what an allocation of columns does that another warp of the block still has"
    return HardwareQuestion("allocation that waits", asks, source, np.zeros(1, np.uint32), answers, threads=2 * WARP)


def _reused() -> HardwareQuestion:
    source = f"""{PRELUDE}
extern "C" __global__ void {ENTRY}(const u32* x, u32* y) {{
  __shared__ u32 a, b, c;
  ALLOC(a, 128);
  ALLOC(b, 128);
  __syncthreads();
  FREE(a, 128);
  ALLOC(c, 128);
  __syncthreads();
  if (threadIdx.x == 0) y[0] = a + x[0], y[1] = b, y[2] = c;
  FREE(b, 128);
  FREE(c, 128);
}}
"""
    answers = {
        "the freed columns are given again": np.array([0, 128, 0], np.uint32),
        "columns that were never used are given first": np.array([0, 128, 256], np.uint32),
    }
    asks = "which columns are allocated after others were freed"
    return HardwareQuestion("columns after dealloc", asks, source, np.zeros(1, np.uint32), answers, threads=WARP)


def _same_warp() -> HardwareQuestion:
    x = contents(8)
    body = block(fill() + load("16x64b", 16, 16, "mine") + store("16x64b", 16, 16, "mine + (16u << 16)"), show())
    after = cells(x).copy()
    for quarter in range(4):
        after[32 * quarter + 16 : 32 * quarter + 32] = cells(x)[32 * quarter : 32 * quarter + 16]
    asks = "whether wait::st and wait::ld order what one warp stores, loads and stores again"
    answers = {"each sees what came before its wait": after}
    return HardwareQuestion("order within a warp", asks, program(body), x, answers)


def _handed_over() -> HardwareQuestion:
    x = contents(9)
    out = declared(COLUMNS) + load("32x32b", COLUMNS, COLUMNS, "mine")
    out += f"  for (int k = 0; k < {COLUMNS}; ++k) y[{COLUMNS} * (t - {LANES}) + k] = r[k];\n"
    body = f"  if (w < 4) {block(fill())}  BEFORE();\n  __syncthreads();\n  AFTER();\n  if (w >= 4) {block(out)}"
    asks = "whether wait, fence, barrier and fence hand tensor memory to other warps"
    answers = {"the loading warps see what was stored": cells(x)}
    return HardwareQuestion("order between warps", asks, program(body), x, answers, threads=2 * LANES)
