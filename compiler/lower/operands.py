"""What the statements of kernel IR name: parameters, places in registers and in shared memory, and conditions."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var


@dataclass(frozen=True, slots=True)
class Less:
    """left < right."""

    left: Expr
    right: Expr

    @property
    def unsigned(self) -> tuple[Expr, Expr]:
        """Both sides with what is subtracted on the other side, where one may be negative: kernels count unsigned."""
        if self.left.lo >= 0 and self.right.lo >= 0:
            return self.left, self.right
        (more, less), (most, least) = _signs(self.left), _signs(self.right)
        return more + least, most + less

    def __str__(self) -> str:
        return f"{self.left} < {self.right}"


def _signs(e: Expr) -> tuple[Expr, Expr]:
    """e = first - second, each without a negative coefficient."""
    first = Expr(tuple((a, c) for a, c in e.terms if c > 0), max(e.const, 0))
    return first, first - e


@dataclass(frozen=True, slots=True)
class Pointer:
    """A kernel parameter: the address of a global tensor. `position` counts inputs, then outputs.

    `is_alias`: another parameter has the same address, an output that lies in an input.
    """

    name: str
    dtype: DType
    position: int
    written: bool
    is_alias: bool = False


@dataclass(frozen=True, slots=True)
class NumberParameter:
    """A kernel parameter: a number that a call tells, scalar `position` of the fusion, in one of its types."""

    name: str
    dtype: DType
    position: int


@dataclass(frozen=True, slots=True)
class ListTable:
    """A kernel parameter: the tensors of lists, a row of at most `rows` for one of each list.

    `pointers`: the kernel's own that are lists, each with its slot; `slots`: the inputs and outputs whose memory they
    are. A block works on a chunk of `chunk` elements; `step`: the elements of an aligned word. `single`: the positions
    of inputs that have one element beside each tensor, which all of the tensor's blocks read.
    """

    pointers: tuple[tuple[str, int], ...]
    slots: tuple[str, ...]
    rows: int
    chunk: int
    step: int
    single: tuple[int, ...] = ()


TF32 = "tf32"
"""The type of a tensor map that rounds f32."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A kernel parameter: a 128-byte tensor map, innermost dimension first (cuTensorMapEncodeTiled).

    `box` counts the elements that a copy passes over, of which it moves every `element_strides`-th: `tile`.
    `rounds_to_tf32`: what f32 arrives as (CU_TENSOR_MAP_DATA_TYPE_TFLOAT32).
    """

    name: str
    dtype: DType
    position: int
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: int
    rounds_to_tf32: bool = False

    @property
    def element(self) -> str:
        """The element type, in words."""
        return TF32 if self.rounds_to_tf32 else self.dtype.value

    @property
    def tile(self) -> tuple[int, ...]:
        """Elements that a copy moves (CUDA driver API, cuTensorMapEncodeTiled: elementStrides)."""
        return tuple(-(-b // e) for b, e in zip(self.box, self.element_strides, strict=True))


@dataclass(frozen=True, slots=True)
class Reg:
    """Element `offset` of the register array `name`."""

    name: str
    dtype: DType
    offset: Expr


@dataclass(frozen=True, slots=True)
class ChosenRow:
    """An index that is data: `var` stands for what the register `index` holds. The kernel stops where that is none
    of `extent` places. `number`: which of the indices it is, which no code needs and the cost model counts."""

    var: Var
    index: Reg
    extent: int
    number: Expr


@dataclass(frozen=True, slots=True)
class Shared:
    """A place in dynamic shared memory, in bytes from its start."""

    tensor: str
    dtype: DType
    byte_offset: Expr


@dataclass(frozen=True, slots=True)
class Tmem:
    """A place in tensor memory: a lane, and a column of 4 bytes of the block's allocation."""

    tensor: str
    lane: Expr
    column: Expr


@dataclass(frozen=True, slots=True)
class Barrier:
    """The mbarrier at `byte_offset` of dynamic shared memory. For people alone: of several with one `name` that at
    `place`."""

    byte_offset: Expr
    name: str = field(default="", compare=False)
    place: Expr = field(default_factory=Expr, compare=False)
