"""fusetune: tuned CUDA kernels for fusions of tensor operations. Importing it needs neither torch nor a GPU."""

from typing import TYPE_CHECKING, Any

from fusetune.bindings import binding_of
from fusetune.errors import (
    CannotConvert,
    FusetuneError,
    FusetuneWarning,
    GuardFailed,
    IndexOutOfRange,
    InvalidBinding,
    InvalidFusion,
    InvalidKernel,
    InvalidRequest,
    KernelError,
    KernelNotFound,
    LaunchFailed,
    NoDevice,
    NoKernel,
    OutdatedProof,
    ServerBroken,
    ServerNotReady,
    ServerRefused,
    ServerTimedOut,
    ServerUnreachable,
    ServiceError,
    ServiceUnavailable,
    TuningCancelled,
    TuningEnded,
    TuningFailed,
    TuningTimedOut,
    Unauthorized,
    WrongArguments,
)
from fusetune.fusion import ByValue, Fusion, FusionBuilder, Tensor
from fusetune.kernel import EmptyKernel, Kernel
from fusetune.store import Store
from fusetune.wire.binding import Binding
from fusetune.wire.service import Accept

if TYPE_CHECKING:
    from fusetune.client import Client
    from fusetune.graph.capture import from_torch

__all__ = [
    "Accept",
    "Binding",
    "ByValue",
    "CannotConvert",
    "Client",
    "EmptyKernel",
    "FusetuneError",
    "FusetuneWarning",
    "Fusion",
    "FusionBuilder",
    "GuardFailed",
    "IndexOutOfRange",
    "InvalidBinding",
    "InvalidFusion",
    "InvalidKernel",
    "InvalidRequest",
    "Kernel",
    "KernelError",
    "KernelNotFound",
    "LaunchFailed",
    "NoDevice",
    "NoKernel",
    "OutdatedProof",
    "ServerBroken",
    "ServerNotReady",
    "ServerRefused",
    "ServerTimedOut",
    "ServerUnreachable",
    "ServiceError",
    "ServiceUnavailable",
    "Store",
    "Tensor",
    "TuningCancelled",
    "TuningEnded",
    "TuningFailed",
    "TuningTimedOut",
    "Unauthorized",
    "WrongArguments",
    "binding_of",
    "from_torch",
]


def __getattr__(name: str) -> Any:
    """`Client` and `from_torch`, once they are asked for: they load an HTTP library, and torch."""
    if name == "Client":
        from fusetune.client import Client

        return Client
    if name == "from_torch":
        from fusetune.graph.capture import from_torch

        return from_torch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
