"""fusetune: tuned CUDA kernels for fusions of tensor operations. Importing it needs neither torch nor a GPU."""

from fusetune.errors import FusetuneError, InvalidFusion
from fusetune.fusion import Fusion, FusionBuilder, Tensor

__all__ = ["FusetuneError", "Fusion", "FusionBuilder", "InvalidFusion", "Tensor"]
