"""The measuring device of an NVIDIA GPU: the parent's end. Imports neither torch nor CUDA; the child does."""

from __future__ import annotations

from compiler.child import Child
from search.measure.child_device import ChildDevice, Deadlines
from search.measure.early import CUDA_TARGET


class CudaDevice(ChildDevice):
    """The GPU with this index among those that CUDA shows. No other process should use it meanwhile."""

    def __init__(self, index: int = 0, limits: Deadlines | None = None, child: Child | None = None) -> None:
        super().__init__(f"cuda:{index}", CUDA_TARGET, index, limits, child)
