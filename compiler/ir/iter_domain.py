"""The IterDomain: one axis of iteration, and what it can be mapped to."""

from __future__ import annotations

from enum import Enum, StrEnum

from compiler.ir.interned import Keeping, interned
from compiler.ir.remembered import remembered
from compiler.ir.size import Size


class IterKind(Enum):
    """What an axis stands for (nvFuser, IterDomains). A value does not vary along a BROADCAST axis; a REDUCTION axis is
    summed over, so that the tensor has no element along it."""

    ITERATION = "iteration"
    BROADCAST = "broadcast"
    REDUCTION = "reduction"

    __hash__ = object.__hash__  # as below


class ParallelType(StrEnum):
    """How a loop axis is carried out; the value is its name in explicit schedules.

    CLUSTER: the blocks of one thread-block cluster, neighbours in x (CUDA guide, thread block clusters); what they fold
    together they exchange through distributed shared memory. DIDX, DIDY, DIDZ: devices, each of which has all of its
    memories to itself (nvFuser, parallel types). MMA: one instruction of the tensor cores takes the whole axis.
    """

    SERIAL = "Serial"
    UNROLL = "Unroll"
    UNSWITCH = "Unswitch"
    VECTORIZE = "Vectorize"
    BULK = "Bulk"
    MMA = "Mma"
    BIDX = "BIDx"
    BIDY = "BIDy"
    BIDZ = "BIDz"
    CLUSTER = "Cluster"
    TIDX = "TIDx"
    TIDY = "TIDy"
    TIDZ = "TIDz"
    DIDX = "DIDx"
    DIDY = "DIDy"
    DIDZ = "DIDz"

    __hash__ = str.__hash__  # That of Enum is a call to Python; rules ask for the types of every axis.

    @property
    def is_block(self) -> bool:
        return self in _BLOCK

    @property
    def is_thread(self) -> bool:
        return self in _THREAD

    @property
    def is_device(self) -> bool:
        return self in _DEVICE

    @property
    def is_loop(self) -> bool:
        """True where a loop statement carries the axis."""
        return self in _LOOP


_BLOCK = (ParallelType.BIDX, ParallelType.BIDY, ParallelType.BIDZ, ParallelType.CLUSTER)
_THREAD = (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ)
_DEVICE = (ParallelType.DIDX, ParallelType.DIDY, ParallelType.DIDZ)
_LOOP = (ParallelType.SERIAL, ParallelType.UNROLL, ParallelType.UNSWITCH)


class MemoryType(StrEnum):
    """Where a tensor lives."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    TENSOR = "tensor"

    __hash__ = str.__hash__  # as above


@interned
class AxisShape:
    """An axis without the name of its tensor; `place` is what else is in its name."""

    place: str
    extent: int
    kind: IterKind
    symbolic: Size | None

    def of(self, tensor: str) -> IterDomain:
        """The axis of a tensor of that name."""
        return _axis_of(self, tensor)


@remembered(1 << 14)
def _axis_of(shape: AxisShape, tensor: str) -> IterDomain:
    return IterDomain(f"{tensor}.{shape.place}", shape.extent, shape.kind, shape.symbolic)


class _AxisFacts(Keeping):
    """What follows from an axis. `size`: the extent as a form, a constant one where nothing is unknown; `is_trivial`:
    the extent is one, whatever is bound. `shape`: the axis without the name of its tensor."""

    __slots__ = ("is_broadcast", "is_reduction", "is_trivial", "shape", "size")

    is_broadcast: bool
    is_reduction: bool
    is_trivial: bool
    shape: AxisShape
    size: Size


@interned
class IterDomain(_AxisFacts):
    """An axis. `name` is its identity: two axes of extent 4 are different axes.

    `extent` is its value at the binding; `symbolic` is its form where the kernel must serve other values too.
    """

    name: str
    extent: int
    kind: IterKind = IterKind.ITERATION
    symbolic: Size | None = None

    def _find_is_broadcast(self) -> bool:
        return self.kind is IterKind.BROADCAST

    def _find_is_reduction(self) -> bool:
        return self.kind is IterKind.REDUCTION

    def _find_size(self) -> Size:
        return self.symbolic if self.symbolic is not None else Size(self.extent)

    def _find_is_trivial(self) -> bool:
        return self.extent == 1 and self.symbolic is None

    def _find_shape(self) -> AxisShape:
        return AxisShape(self.name.rpartition(".")[2], self.extent, self.kind, self.symbolic)

    def __str__(self) -> str:
        return f"{_LETTER[self.kind]}{self.name}{{{self.extent}}}"


_LETTER = {IterKind.ITERATION: "i", IterKind.BROADCAST: "b", IterKind.REDUCTION: "r"}


def axis(name: str, size: Size, kind: IterKind = IterKind.ITERATION) -> IterDomain:
    """An axis of that size; its form is kept only where something in it is unknown."""
    return IterDomain(name, size.value, kind, None if size.is_constant else size)
