"""How fast boxes with element strides are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.emulate.card import launch_only, loaded
from benchmarks.emulate.compiling import compile_source
from benchmarks.emulate.form import ARCH
from compiler.emulate.launch import EmulatedTensorMap, Launch, TensorArgument, ValueArgument
from fusetune.launch.driver import check, current_context, driver

_COLUMNS = 4096
_BOX = (32, 32)
"""Elements of a box in shared memory: 4 KiB, whatever the stride."""

_STAGES = 8
_ROUNDS = 7
_BLOCKS = 264
"""Two for each of 132 multiprocessors."""

_DELIVERED = 1 << 30
"""Bytes that one launch brings to shared memory, so that the launch itself does not count."""

_STREAM = """
extern "C" __global__ void stream(const __grid_constant__ TensorMap x, u32* y, int columns, int rows, int step) {
  extern __shared__ __align__(1024) unsigned char s[];
  __shared__ u64 full[STAGES];
  if (threadIdx.x == 0) {
    for (u32 k = 0; k < STAGES; ++k) MBAR_INIT(full[k], 1);
    MBAR_FENCE();
    int boxes = columns * rows;
    int mine = (boxes - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    for (int k = 0; k < mine + STAGES; ++k) {
      int stage = k % STAGES;
      if (k >= STAGES) MBAR_WAIT(full[stage], ((k - STAGES) / STAGES) & 1);
      if (k < mine) {
        int box = blockIdx.x + k * gridDim.x;
        MBAR_EXPECT(full[stage], 4096);
        TMA_LOAD_2D(s + 4096 * stage, x, full[stage], box % columns * 32, box / columns * 32 * step);
      }
    }
    y[blockIdx.x] = s[0];
  }
}
"""


def bandwidth(step: int) -> dict[str, Any]:
    """The best of several launches that load a tensor once, every `step`-th row of it."""
    device = (Path(__file__).parent / "device.cuh").read_text(encoding="utf-8")
    compiled = compile_source(device + _STREAM.replace("STAGES", str(_STAGES)))
    rows = _DELIVERED // (4 * _COLUMNS) * step
    tensor = EmulatedTensorMap("x", "f32", (_COLUMNS, rows), (4 * _COLUMNS,), (_BOX[0], _BOX[1] * step), (1, step))
    counts = (_COLUMNS // _BOX[0], rows // (_BOX[1] * step), step)
    scalars = tuple(ValueArgument(n.to_bytes(4, "little")) for n in counts)
    launch = Launch(
        "stream",
        ARCH,
        (_BLOCKS, 1, 1),
        (32, 1, 1),
        (tensor, TensorArgument("y"), *scalars),
        {},
        dynamic_smem=4096 * _STAGES,
    )
    cuda = driver()
    with loaded(compiled.cubin) as module, current_context(0):
        addresses = {
            "x": int(check("cuMemAlloc", cuda.cuMemAlloc(4 * _COLUMNS * rows))),
            "y": int(check("cuMemAlloc", cuda.cuMemAlloc(4 * _BLOCKS))),
        }
        start, end = (check("cuEventCreate", cuda.cuEventCreate(0)) for _ in range(2))
        best = float("inf")
        for _ in range(_ROUNDS):
            check("cuEventRecord", cuda.cuEventRecord(start, 0))
            launch_only(module, launch, addresses)
            check("cuEventRecord", cuda.cuEventRecord(end, 0))
            check("cuEventSynchronize", cuda.cuEventSynchronize(end))
            best = min(best, float(check("cuEventElapsedTime", cuda.cuEventElapsedTime(start, end))))
        for address in addresses.values():
            cuda.cuMemFree(address)
    delivered = _DELIVERED / best / 1e6
    return {
        "element_stride": step,
        "milliseconds": best,
        "gigabytes_per_s": delivered,
        "span_gigabytes_per_s": delivered * step,
    }
