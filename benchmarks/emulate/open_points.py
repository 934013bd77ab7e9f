"""Measures what the documents leave open about tensor copies: `python -m benchmarks.emulate.open_points --json FILE`.

1. The bytes that a box counts on its mbarrier when it is partly or wholly out of bounds.
2. Where the rows of a box lie in shared memory when they are shorter than the swizzle's span.
3. Whether the encoder takes a swizzled map whose base is aligned to 16 bytes only, and whether the copy is right.
4. Whether swizzles with 32- and 64-byte atoms, strides of zero and overlapping strides encode and run.
5. Element strides: bandwidth beside stride 1, and what is copied where a stride does not divide the extent.
6. What maps of the types tf32, and those that flush, do to f32 values on the way.

Each point ends in a line that says what was seen, made of the measurements alone.

Every experiment runs in a process of its own: one that faults or hangs takes its CUDA context with it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.emulate.card import Bytes, Refused, card_name, loaded, run
from benchmarks.emulate.compiling import compile_source
from benchmarks.emulate.conclusions import HEADINGS, conclusion
from benchmarks.emulate.form import ARCH
from benchmarks.emulate.timing import bandwidth
from benchmarks.emulate.values import specials
from compiler.emulate.launch import EmulatedTensor, EmulatedTensorMap, Launch, TensorArgument, ValueArgument
from fusetune.errors import KernelError

CONVERTING = ("TFLOAT32", "TFLOAT32_FTZ", "FLOAT32_FTZ")
"""Element types under which a copy may change what it brings."""

_HANG_S = 20.0
_TILE = 8192
"""Bytes of shared memory that are shown, filled with 0xEE beforehand."""

_BYTES = {"u8": 1, "u16": 2, "u32": 4, "f32": 4, "f64": 8, "bf16": 2, **dict.fromkeys(CONVERTING, 4)}

_DUMP = """
extern "C" __global__ void dump(
    const __grid_constant__ TensorMap x, unsigned char* y, u32* status, int c0, int c1, int expected) {
  extern __shared__ __align__(1024) unsigned char s[];
  __shared__ u64 bar;
  u32 t = threadIdx.x;
  for (u32 k = t; k < TILE; k += 128) s[k] = 0xEE;
  if (t == 0) { MBAR_INIT(bar, 1); MBAR_FENCE(); }
  FENCE_ASYNC();
  __syncthreads();
  u32 done = 0;
  if (t == 0) {
    MBAR_EXPECT(bar, expected);
    TMA_LOAD_2D(s, x, bar, c0, c1);
    long long start = clock64();
    while (!done && clock64() - start < 20000000) {
      MBAR_TEST(done, bar, 0);
    }
    status[0] = done;
  }
  __syncthreads();
  for (u32 k = t; k < TILE; k += 128) y[k] = s[k];
}
"""


@dataclass(frozen=True)
class Experiment:
    """A load of one box, and the question it answers. `expected`: bytes that are expected on the mbarrier. `words`:
    what the tensor holds; without, it counts up from 1."""

    point: int
    name: str
    map: EmulatedTensorMap
    at: tuple[int, int]
    expected: int
    elements: int
    words: tuple[int, ...] = ()

    @property
    def tile_bytes(self) -> int:
        """Of the whole box."""
        counts = [-(-b // s) for b, s in zip(self.map.box, self.map.element_strides, strict=True)]
        return prod(counts) * _BYTES[self.map.dtype]


def _map(
    dims: tuple[int, ...],
    box: tuple[int, ...],
    *,
    dtype: str = "u32",
    swizzle: str = "NONE",
    strides: tuple[int, ...] | None = None,
    steps: tuple[int, ...] | None = None,
    offset: int = 0,
) -> EmulatedTensorMap:
    row = (dims[0] * _BYTES[dtype] + 15) // 16 * 16
    return EmulatedTensorMap(
        "x",
        dtype,
        dims,
        ((row,) if len(dims) == 2 else ()) if strides is None else strides,
        box,
        (1,) * len(dims) if steps is None else steps,
        swizzle,
        offset_bytes=offset,
    )


def experiments() -> Iterator[Experiment]:
    """All loads of points 1 to 5."""
    inside = _map((64, 40), (16, 8))
    for name, at in (("inside", (16, 8)), ("half outside", (56, 8)), ("corner outside", (56, 36)), ("before", (-8, -4)),
                     ("wholly outside", (64, 40)), ("far outside", (4096, 4096))):  # fmt: skip
        for what, expected in (("whole tile", 512), ("bytes in bounds", _in_bounds(inside, at)), ("16 fewer", 496)):
            yield Experiment(1, f"{name}, {what} expected", inside, at, expected, 64 * 40)
    spans = {"32B": 32, "64B": 64, "128B": 128}
    for swizzle, span in spans.items():
        for inner in range(16, span + 1, 16):
            tensor = _map((64, 40), (inner // 4, 16), swizzle=swizzle)
            yield Experiment(2, f"{swizzle}, rows of {inner} bytes", tensor, (16, 3), inner * 16, 64 * 40)
    for swizzle in ("NONE", *spans):
        for offset in (16, 32, 64, 128):
            inner = spans.get(swizzle, 128)
            tensor = _map((64, 30), (inner // 4, 8), swizzle=swizzle, offset=offset)
            yield Experiment(3, f"{swizzle}, base at {offset} mod 256", tensor, (16, 3), inner * 8, 64 * 40)
    for swizzle in ("128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"):
        yield Experiment(4, swizzle, _map((64, 40), (32, 16), swizzle=swizzle), (16, 3), 2048, 64 * 40)
    for name, stride in (("stride 0", 0), ("overlapping stride 16", 16), ("overlapping stride 128", 128)):
        yield Experiment(4, name, _map((64, 40), (16, 8), strides=(stride,)), (16, 3), 512, 64 * 40)
    for step in (2, 3, 4, 8):
        for name, at in (("inside", (16, 5)), ("over the end", (16, 30)), ("before the start", (16, -5))):
            tensor = _map((64, 37), (16, 16), steps=(1, step))
            counted = 16 * -(-16 // step) * 4
            yield Experiment(5, f"element stride {step}, {name}", tensor, at, counted, 64 * 37)
    yield Experiment(5, "element stride 2 innermost", _map((64, 37), (16, 8), steps=(2, 1)), (16, 5), 512, 64 * 37)
    values = tuple(int(v) for v in specials("f32>tf32"))
    for kind in CONVERTING:
        shape = (64, 64)
        words = (values * (64 * 64 // len(values) + 1))[: 64 * 64]
        yield Experiment(6, f"{kind} of special values", _map(shape, (16, 64), dtype=kind), (0, 0), 4096, 4096, words)


def _in_bounds(tensor: EmulatedTensorMap, at: tuple[int, int]) -> int:
    counts = [
        max(0, min(start + size, whole) - max(start, 0))
        for start, size, whole in zip(at, tensor.box, tensor.dims, strict=True)
    ]
    return prod(counts) * _BYTES[tensor.dtype]


def launch(experiment: Experiment) -> Launch:
    """The load of an experiment, over a tensor that counts up."""
    values = np.array(experiment.words or range(1, experiment.elements + 1), np.uint32)
    pad = np.zeros(1024, np.uint8)
    data = np.concatenate([values.view(np.uint8), pad])
    if experiment.map.offset_bytes:
        data = np.concatenate([pad[: experiment.map.offset_bytes], data])
    tensors = {
        "x": EmulatedTensor("x", "u8", data.shape, data),
        "y": EmulatedTensor("y", "u8", (_TILE,), np.zeros(_TILE, np.uint8)),
        "status": EmulatedTensor("status", "u8", (16,), np.zeros(16, np.uint8)),
    }
    numbers = (*experiment.at, experiment.expected)
    arguments = (experiment.map, TensorArgument("y"), TensorArgument("status"))
    scalars = tuple(ValueArgument(int(n & 0xFFFFFFFF).to_bytes(4, "little")) for n in numbers)
    return Launch("dump", ARCH, (1, 1, 1), (128, 1, 1), (*arguments, *scalars), tensors, dynamic_smem=_TILE)


def source() -> str:
    """The kernel that loads a box and shows shared memory."""
    device = (Path(__file__).parent / "device.cuh").read_text(encoding="utf-8")
    return device + _DUMP.replace("TILE", str(_TILE))


def measured(experiment: Experiment) -> dict[str, Any]:
    """Runs one load on the card: whether it encoded, whether its phase completed, what lies where."""
    compiled = compile_source(source())
    told: dict[str, Any] = {"point": experiment.point, "name": experiment.name, "map": asdict(experiment.map)}
    told |= {"at": experiment.at, "expected_bytes": experiment.expected, "tile_bytes": experiment.tile_bytes}
    try:
        with loaded(compiled.cubin) as module:
            found = run(module, launch(experiment))
    except Refused as error:
        return told | {"encoded": False, "status": error.status}
    except KernelError as error:
        return told | {"encoded": True, "ran": False, "error": str(error)}
    told |= {"encoded": True, "ran": True, "completed": bool(found["status"].view(np.uint32)[0])}
    return told | (converted(experiment, found["y"]) if experiment.words else placed(experiment, found["y"]))


def converted(experiment: Experiment, shown: Bytes) -> dict[str, Any]:
    """What became of each word of the box: pairs of what the tensor holds and what arrived, each once."""
    columns, rows = experiment.map.box
    arrived = shown.view(np.uint32)[: columns * rows].tolist()
    held = [_value(experiment, k % columns, k // columns) for k in range(columns * rows)]
    return {"converted": sorted(set(zip(held, arrived, strict=True)))}


def placed(experiment: Experiment, shown: Bytes) -> dict[str, Any]:
    """Where the words of the box lie: offsets of the first word of each row, and whether the tile is as predicted."""
    words = shown.view(np.uint32)
    touched = np.flatnonzero(words != 0xEEEEEEEE)
    rows = -(-experiment.map.box[-1] // experiment.map.element_strides[-1])
    firsts = []
    for row in range(min(rows, 16)):
        value = _value(experiment, 0, row)
        where = np.flatnonzero(words == value) if value else np.array([], np.intp)
        firsts.append(int(where[0]) * 4 if len(where) else None)
    return {
        "first_word_of_each_row_at": firsts,
        "bytes_touched": len(touched) * 4,
        "touched_up_to": int(touched[-1] + 1) * 4 if len(touched) else 0,
        "with_dense_rows": bool(np.array_equal(shown, predicted(experiment, experiment.map.box[0] * 4))),
        "with_rows_of_the_span": bool(np.array_equal(shown, predicted(experiment, _span(experiment)))),
    }


def _value(experiment: Experiment, column: int, row: int) -> int:
    """The value of the tensor at a place of the box; 0 outside."""
    tensor = experiment.map
    x, y = experiment.at[0] + column, experiment.at[1] + row * tensor.element_strides[-1]
    if not (0 <= x < tensor.dims[0] and 0 <= y < tensor.dims[1]):
        return 0
    place = x + y * tensor.strides_bytes[0] // 4
    if place >= experiment.elements:
        return 0
    return experiment.words[place] if experiment.words else place + 1


_XOR = {"NONE": (0, 0), "32B": (3, 0x10), "64B": (3, 0x30), "128B": (3, 0x70), "128B_ATOM_32B": (2, 0x60),
        "128B_ATOM_32B_FLIP_8B": (2, 0x60), "128B_ATOM_64B": (1, 0x40)}  # fmt: skip


def _span(experiment: Experiment) -> int:
    """Bytes of the swizzle's pattern, or of a row where there is none."""
    swizzle = experiment.map.swizzle
    return experiment.map.box[0] * 4 if swizzle == "NONE" else int(swizzle.split("B")[0])


def predicted(experiment: Experiment, pitch: int) -> npt.NDArray[np.uint8]:
    """The tile with rows `pitch` bytes apart, swizzled by address bits (PTX ISA, "Tensor Copy Swizzling Modes")."""
    shown = np.full(_TILE // 4, 0xEEEEEEEE, np.uint32)
    rows = -(-experiment.map.box[-1] // experiment.map.element_strides[-1])
    shift, mask = _XOR[experiment.map.swizzle]
    for row in range(rows):
        for column in range(experiment.map.box[0]):
            address = row * pitch + 4 * column
            address ^= address >> shift & mask
            if experiment.map.swizzle.endswith("FLIP_8B"):
                address ^= address >> 4 & 8
            shown[address // 4] = _value(experiment, column, row)
    return shown.view(np.uint8)


def in_child(argument: str) -> dict[str, Any]:
    """Runs one experiment in a process of its own; one that hangs or dies is told as such."""
    command = [sys.executable, "-m", "benchmarks.emulate.open_points", "--only", argument]
    try:
        ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=3 * _HANG_S)
    except subprocess.TimeoutExpired:
        return {"name": argument, "ran": False, "error": "no answer: it hangs"}
    lines = ended.stdout.strip().splitlines()
    if ended.returncode or not lines:
        return {"name": argument, "ran": False, "error": ended.stderr[-400:]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def bandwidths() -> list[dict[str, Any]]:
    """Point 5: bytes delivered to shared memory a second by boxes of equal bytes, with element strides 1, 2, 4, 8."""
    return [{"point": 5, "name": f"bandwidth, element stride {s}", **bandwidth(s)} for s in (1, 2, 4, 8)]


def markdown(found: list[dict[str, Any]], card: str = "") -> str:
    """A section a point: what was seen in one line, then a line an experiment."""
    lines = [f"Measured on {card}." if card else "Measured."]
    for point, heading in HEADINGS.items():
        of = [f for f in found if f.get("point") == point]
        if not of:
            continue
        lines += ["", f"## {point}. {heading}", "", conclusion(point, of), ""]
        lines += _rates([f for f in of if "gigabytes_per_s" in f])
        lines += _loads([f for f in of if "gigabytes_per_s" not in f and "converted" not in f])
    lost = [f for f in found if "point" not in f]
    if lost:
        lines += ["", "## Experiments that gave nothing", ""]
        lines += [f"- {f['name']}: {str(f.get('error', ''))[-200:]}" for f in lost]
    return "\n".join(lines) + "\n"


def _loads(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return []
    heads = ("load", "encoded", "phase complete", "rows begin at", "as with dense rows", "as with rows a span apart")
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for f in found:
        rows = ", ".join("-" if r is None else str(r) for r in f.get("first_word_of_each_row_at", [])[:6])
        state = f.get("completed", f.get("error", f"refused: {f.get('status')}"))
        ends = (f.get("with_dense_rows", ""), f.get("with_rows_of_the_span", ""))
        cells = (f["name"], f.get("encoded", ""), str(state)[:80], rows, *ends)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _rates(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return []
    lines = ["| element stride | GB/s delivered | GB/s of the tensor, holes included |", "| --- | --- | --- |"]
    lines += [
        f"| {f['element_stride']} | {f['gigabytes_per_s']:.0f} | {f['span_gigabytes_per_s']:.0f} |" for f in found
    ]
    return [*lines, ""]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulate.open_points", description=__doc__)
    parser.add_argument("--json", type=Path, help="write all measurements there")
    parser.add_argument("--markdown", type=Path, help="write the table there")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    given = parser.parse_args()
    named = {f"{e.point}: {e.name}": e for e in experiments()}
    if given.only == "bandwidth":
        print(json.dumps({"name": "bandwidth", "all": bandwidths()}))
        return 0
    if given.only == "card":
        print(json.dumps({"name": card_name()}))
        return 0
    if given.only:
        print(json.dumps(measured(named[given.only])))
        return 0
    found = [in_child(name) for name in named]
    timed = in_child("bandwidth")
    found += timed.get("all", [timed])
    table = markdown(found, in_child("card")["name"])
    print(table)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    if given.markdown:
        given.markdown.write_text(table, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
