"""fusetune: tuned CUDA kernels for fusions of tensor operations. Importing it needs neither torch nor a GPU."""

from importlib import import_module
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
    InvalidLock,
    InvalidPack,
    InvalidRequest,
    KernelError,
    KernelNotFound,
    LaunchFailed,
    NoDevice,
    NoKernel,
    NotCached,
    OutdatedProof,
    PackageMissing,
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
    Untrusted,
    UnusableKey,
    WrongArguments,
)
from fusetune.fusion import ByValue, Fusion, FusionBuilder, Tensor
from fusetune.kernel import EmptyKernel, Kernel
from fusetune.pack import Pack
from fusetune.store import Store
from fusetune.swapping import SwappingKernel
from fusetune.wire.binding import Binding
from fusetune.wire.service import Accept
from fusetune.wire.version import VERSION

if TYPE_CHECKING:
    from fusetune.async_client import AsyncClient
    from fusetune.client import Client
    from fusetune.graph.capture import from_torch
    from fusetune.jitting import assert_cached, jit, sync_point
    from fusetune.running import prepare, read_lock, use_lock, use_pack, wait, write_lock
    from fusetune.torch_compile import regions_of, report

__version__ = VERSION

__all__ = [
    "Accept",
    "AsyncClient",
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
    "InvalidLock",
    "InvalidPack",
    "InvalidRequest",
    "Kernel",
    "KernelError",
    "KernelNotFound",
    "LaunchFailed",
    "NoDevice",
    "NoKernel",
    "NotCached",
    "OutdatedProof",
    "Pack",
    "PackageMissing",
    "ServerBroken",
    "ServerNotReady",
    "ServerRefused",
    "ServerTimedOut",
    "ServerUnreachable",
    "ServiceError",
    "ServiceUnavailable",
    "Store",
    "SwappingKernel",
    "Tensor",
    "TuningCancelled",
    "TuningEnded",
    "TuningFailed",
    "TuningTimedOut",
    "Unauthorized",
    "Untrusted",
    "UnusableKey",
    "WrongArguments",
    "__version__",
    "assert_cached",
    "binding_of",
    "from_torch",
    "jit",
    "prepare",
    "read_lock",
    "regions_of",
    "report",
    "sync_point",
    "use_lock",
    "use_pack",
    "wait",
    "write_lock",
]


_LAZY = {
    "AsyncClient": "fusetune.async_client",
    "Client": "fusetune.client",
    "assert_cached": "fusetune.jitting",
    "from_torch": "fusetune.graph.capture",
    "jit": "fusetune.jitting",
    "prepare": "fusetune.running",
    "read_lock": "fusetune.running",
    "regions_of": "fusetune.torch_compile",
    "report": "fusetune.torch_compile",
    "sync_point": "fusetune.jitting",
    "use_lock": "fusetune.running",
    "use_pack": "fusetune.running",
    "wait": "fusetune.running",
    "write_lock": "fusetune.running",
}
"""Public names whose modules load more than the standard library and pydantic: an HTTP library, or torch."""


def __getattr__(name: str) -> Any:
    """A name of `_LAZY`, once it is asked for. Raises PackageMissing where it wants a torch that is not there."""
    if name in _LAZY:
        try:
            module = import_module(_LAZY[name])
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "torch":
                raise
            raise PackageMissing(f"fusetune.{name} is for torch", "torch", "torch") from None
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
