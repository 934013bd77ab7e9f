"""fusetune: tuned CUDA kernels for fusions of tensor operations. Importing it needs neither torch nor a GPU."""

from fusetune.errors import (
    FusetuneError,
    GuardFailed,
    InvalidFusion,
    InvalidKernel,
    KernelError,
    LaunchFailed,
    NoDevice,
    WrongArguments,
)
from fusetune.fusion import Fusion, FusionBuilder, Tensor

__all__ = [
    "FusetuneError",
    "Fusion",
    "FusionBuilder",
    "GuardFailed",
    "InvalidFusion",
    "InvalidKernel",
    "KernelError",
    "LaunchFailed",
    "NoDevice",
    "Tensor",
    "WrongArguments",
]
