"""The measuring device of an NVIDIA GPU: the parent's end. Imports neither torch nor CUDA; the child does."""

from __future__ import annotations

from search.measure.child_device import ChildDevice, Deadlines


class CudaDevice(ChildDevice):
    """The GPU with this index among those that CUDA shows. No other process should use it meanwhile."""

    def __init__(self, index: int = 0, limits: Deadlines | None = None) -> None:
        super().__init__(f"cuda:{index}", "search.measure.cuda_child:serve", index, limits)
