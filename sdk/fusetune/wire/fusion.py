"""`fusetune.fusion/1`: a small graph of tensor operations, as it travels (docs/contracts.md, "Fusion").

The models hold the grammar only: fields, types, spelling. What the graph means (names, shapes, dtypes) is checked by
`fusetune.wire.infer`. Documents from outside come in through `fusetune.wire.parse`, which does both.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from fusetune.wire.artifact import Wire

FORMAT = "fusetune.fusion/1"

DTypeName = Literal[
    "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", "i32", "i16", "i8", "u8", "bool"
]  # fmt: skip
UnaryName = Literal[
    "neg", "abs", "exp", "log", "tanh", "sigmoid", "relu", "gelu", "silu", "sqrt", "rsqrt", "reciprocal", "square",
    "sign", "round", "floor", "ceil", "trunc", "exp2", "expm1", "log2", "log1p", "sin", "cos", "erf", "gelu_erf",
    "bitwise_not",
]  # fmt: skip
ScalarName = Literal["f64", "i64"]
BinaryName = Literal[
    "add", "sub", "mul", "div", "maximum", "minimum", "pow", "floor_divide", "remainder",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
]  # fmt: skip
CompareName = Literal["eq", "ne", "lt", "le", "gt", "ge"]
ReduceName = Literal["sum", "prod", "mean", "amax", "amin"]
TruthName = Literal["any", "all"]
ArgName = Literal["argmax", "argmin"]
Precision = Literal["tf32"]
FLOAT_ONLY = frozenset({
    "exp", "log", "tanh", "sigmoid", "gelu", "silu", "sqrt", "rsqrt", "reciprocal", "div", "fma", "mean",
    "round", "floor", "ceil", "trunc", "exp2", "expm1", "log2", "log1p", "sin", "cos", "erf", "gelu_erf",
})  # fmt: skip
"""Operators without a meaning on integers: `div` is for floats (docs/contracts.md, "Fusion"); others give floats."""

INTEGER_ONLY = frozenset({
    "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
})  # fmt: skip
"""Operators without a meaning on floats."""

TAKES_BOOL = frozenset({
    "maximum", "minimum", "amax", "amin", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor",
})  # fmt: skip
"""Arithmetic that keeps its meaning on bool (or, and, any, all); the rest asks for a cast first."""

TAKES_FP8 = frozenset({"eq", "ne"})
"""Arithmetic and comparisons of 8-bit floats, as torch has them on CUDA; the rest asks for a cast first."""

TYPED_FOLDS = frozenset({"sum", "prod"})
"""Folds whose result may be given a dtype."""

Memory = Literal["register", "tmem", "global"]

NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""Numbers that JSON cannot write, under their wire spelling; no tensor may have these names."""

MAX_SIZE = 2**63 - 1
"""No size or stride is larger (own limit: they are 64-bit integers in torch and CUDA)."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def _fault(kind: str, value: Any, expected: str, fix: str) -> PydanticCustomError:
    context = {"found": show(value), "expected": expected, "fix": fix}
    return PydanticCustomError(kind, "found {found}, expected {expected}. {fix}", context)


def show(value: Any) -> str:
    """A value as an error quotes it: JSON-like and never long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def is_identifier(text: str) -> bool:
    """A letter or underscore, then letters, digits and underscores; at most 64 characters."""
    return _IDENTIFIER.fullmatch(text) is not None


def _check_name(value: Any) -> Any:
    if not isinstance(value, str) or not is_identifier(value) or value in NON_FINITE:
        raise _fault(
            "name",
            value,
            "a name: letters, digits and underscores, no digit first, at most 64 characters, not inf or nan",
            "Rename it.",
        )
    return value


def _check_size(value: Any) -> Any:
    if isinstance(value, str):
        if is_identifier(value):
            return value
        raise _fault("size", value, "a symbol: letters, digits and underscores, no digit first", "Rename the symbol.")
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _fault("size", value, "an integer >= 0 or a symbol", 'Write a size such as 4096 or a symbol such as "M".')
    if value > MAX_SIZE:
        raise _fault("size", value, "a size of at most 64 bits, sign included", "Correct the size.")
    return value


def _check_reshape_size(value: Any) -> Any:
    return value if type(value) is int and value == -1 else _check_size(value)


def _check_pad(value: Any) -> Any:
    if type(value) is int and value < 0:
        raise _fault("pad", value, "a size of 0 or more", "Take elements away by slice(x): pads only add some.")
    return _check_size(value)


def _check_number(value: Any) -> Any:
    if isinstance(value, str) and value not in NON_FINITE:
        raise _fault("number", value, 'a number, "inf", "-inf" or "nan"', "Write the number.")
    return _check_operand(value)


def _check_operand(value: Any) -> Any:
    if isinstance(value, str):
        if value in NON_FINITE or is_identifier(value):
            return value
        raise _fault("operand", value, 'the name of a tensor, a number, "inf", "-inf" or "nan"', "Correct the operand.")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fault(
            "operand",
            value,
            'the name of a tensor, a number, "inf", "-inf" or "nan"',
            "Write 0 or 1 for a truth value." if isinstance(value, bool) else "Name a tensor or write a number.",
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise _fault("operand", value, "a finite number", 'Write "inf", "-inf" or "nan", in quotes.')
    return value


def _as_tuple(value: Any) -> Any:
    """JSON arrays arrive as lists when another library has parsed the text; strict tuples would refuse them."""
    return tuple(value) if isinstance(value, list) else value


T = TypeVar("T")
Seq = Annotated[tuple[T, ...], BeforeValidator(_as_tuple)]
Name = Annotated[str, BeforeValidator(_check_name)]
Size = Annotated[int | str, BeforeValidator(_check_size)]
ReshapeSize = Annotated[int | str, BeforeValidator(_check_reshape_size)]
PadSize = Annotated[int | str, BeforeValidator(_check_pad)]
Operand = Annotated[int | float | str, BeforeValidator(_check_operand)]
Number = Annotated[int | float | str, BeforeValidator(_check_number)]


class Input(Wire):
    """A tensor that the caller passes. `strides` in elements; without, it is dense unless a binding says more.

    `list`: a list of dense tensors of any shapes, whose elements are as many as the symbol that is its one size;
    without a dimension, a list of single elements, one beside each tensor.
    """

    name: Name
    shape: Seq[Size]
    dtype: DTypeName
    strides: Seq[Size] | None = None
    list: Literal[True] | None = None


class ScalarInput(Wire):
    """A number that the caller passes by value at each call. It stands where a number may: beside a tensor."""

    name: Name
    dtype: ScalarName


class Output(Wire):
    """A result: a new tensor or, with `alias`, written into the memory of the input of that name.

    `strides` in elements say where its elements lie; without, it is dense unless a binding says more. Shape and dtype
    are redundant and must agree with inference.
    """

    name: Name
    shape: Seq[Size] | None = None
    dtype: DTypeName | None = None
    strides: Seq[Size] | None = None
    alias: Name | None = None


class OpBase(Wire):
    """`out = op(in)`. The JSON field `in` is the attribute `ins`. `arity`: how many operands; None for one or more."""

    model_config = ConfigDict(serialize_by_alias=True)
    arity: ClassVar[int | None] = 1

    ins: Seq[Operand] = Field(alias="in")
    out: Name


class Copy(OpBase):
    """The same values; `memory` asks for a stop in that memory on the way."""

    op: Literal["copy"]
    memory: Memory | None = None


class Cast(OpBase):
    """Values in another dtype. Float to integer truncates."""

    op: Literal["cast"]
    dtype: DTypeName


class Unary(OpBase):
    """A function of one element; `gelu` is the tanh form, `gelu_erf` torch's default one."""

    op: UnaryName


class Binary(OpBase):
    """A function of two elements; one of them may be a number, which takes the other's dtype."""

    arity = 2
    op: BinaryName


class Compare(OpBase):
    """A comparison of two elements; the result is bool."""

    arity = 2
    op: CompareName


class Where(OpBase):
    """`in[1]` where the bool `in[0]` holds, else `in[2]`. `dtype`: the result's, of two numbers alone."""

    arity = 3
    op: Literal["where"]
    dtype: DTypeName | None = None


class Fma(OpBase):
    """`in[0] * in[1] + in[2]`, rounded once; floats, of which at least one is a tensor."""

    arity = 3
    op: Literal["fma"]


class BroadcastTo(OpBase):
    """Input dimension i is output dimension `dims[i]`; a size of 1 expands, dimensions not named are new."""

    op: Literal["broadcast_to"]
    shape: Seq[Size]
    dims: Seq[int]


class Permute(OpBase):
    """Output dimension i is input dimension `dims[i]`."""

    op: Literal["permute"]
    dims: Seq[int]


class Reshape(OpBase):
    """The same elements in row-major order under another shape, which may hold one -1."""

    op: Literal["reshape"]
    shape: Seq[ReshapeSize]


class Slice(OpBase):
    """Elements `start` up to, not including, `stop` of dimension `dim`; with a `step`, every so manyth of them."""

    op: Literal["slice"]
    dim: int
    start: Size
    stop: Size
    step: Annotated[int, Field(ge=1, le=MAX_SIZE)] | None = None


class Flip(OpBase):
    """The same elements, the last one first along each of `dims`."""

    op: Literal["flip"]
    dims: Seq[int]


class Pad(OpBase):
    """`low[i]` places before dimension i and `high[i]` behind it, which hold `value`."""

    op: Literal["pad"]
    low: Seq[PadSize]
    high: Seq[PadSize]
    value: Number = 0


class Cat(OpBase):
    """Operands one after the other along `dim`."""

    arity = None
    op: Literal["cat"]
    dim: int


class Iota(OpBase):
    """No operands: the position along `dim`."""

    arity = 0
    op: Literal["iota"]
    shape: Seq[Size]
    dim: int
    dtype: DTypeName


class Rand(OpBase):
    """Numbers of [0, 1) for a seed and an offset, i64 tensors without dimensions: the same for the same three of seed,
    offset and position, by Philox 4x32-10 (docs/contracts.md, "Random numbers")."""

    arity = 2
    op: Literal["rand"]
    shape: Seq[Size]
    dtype: Literal["f32"] = "f32"


class Filled(OpBase):
    """No operands: `value` everywhere, in `dtype`."""

    arity = 0
    op: Literal["full"]
    shape: Seq[Size]
    value: Number
    dtype: DTypeName


class Take(OpBase):
    """`in[0]` where the integers of `in[1]` choose along `dim`, whose place the dimensions of `in[1]` take."""

    arity = 2
    op: Literal["take"]
    dim: int = 0


class Gather(OpBase):
    """Of `in[0]` the element at the own position but for `dim`, along which the integers of `in[1]` choose."""

    arity = 2
    op: Literal["gather"]
    dim: int


class Reduce(OpBase):
    """One element from all along `dims`; the dtype is kept, sums accumulate in f32 (f64 for f64, i64 for integers).

    `dtype`, of sums and products: elements are cast to it first, and the result has it. Without it a product of
    integers or bools is i64, as torch's is.
    """

    op: ReduceName
    dims: Seq[int]
    keepdim: bool = False
    dtype: DTypeName | None = None


class Truth(OpBase):
    """Whether any, or all, elements along `dims` are other than 0; NaN is. The result is bool."""

    op: TruthName
    dims: Seq[int]
    keepdim: bool = False


class Arg(OpBase):
    """The index, in i64, of the first of the greatest or least elements along `dim`, or of the first NaN; without
    `dim`, in row-major order over all elements."""

    op: ArgName
    dim: int | None = None
    keepdim: bool = False


class PrefixSum(OpBase):
    """Sums of the elements up to each one along `dim`. `dtype` as of a sum; without it floats keep theirs, and integers
    and bools give i64. `exclusive`: of those before it."""

    op: Literal["cumsum"]
    dim: int
    dtype: DTypeName | None = None
    exclusive: bool = False


class Matmul(OpBase):
    """`(..., m, k)` by `(..., k, n)`, leading dimensions equal. `dtype`: the result's, by default the operands'; 8-bit
    floats need a wider one. `precision`, of f32: what a kernel may multiply in place of it; without, all bits."""

    arity = 2
    op: Literal["matmul"]
    dtype: DTypeName | None = None
    precision: Precision | None = None


Op = (
    Copy
    | Cast
    | Unary
    | Binary
    | Compare
    | Where
    | Fma
    | BroadcastTo
    | Permute
    | Reshape
    | Slice
    | Flip
    | Pad
    | Cat
    | Iota
    | Rand
    | Filled
    | Take
    | Gather
    | Reduce
    | Truth
    | Arg
    | PrefixSum
    | Matmul
)

MODEL_OF_OP: dict[str, type[OpBase]] = {
    name: model for model in get_args(Op) for name in get_args(model.model_fields["op"].annotation)
}
"""Every operator name of the format and the model that holds its attributes."""


class Fusion(Wire):
    """A graph: inputs, operators in order (each uses only what stands before it), outputs.

    `scalars`: numbers that a call passes after the tensors; left out where there are none.
    """

    format: Literal["fusetune.fusion/1"]
    inputs: Seq[Input]
    scalars: Seq[ScalarInput] | None = None
    ops: Seq[Annotated[Op, Field(discriminator="op")]]
    outputs: Seq[Output]

    @property
    def numbers(self) -> tuple[ScalarInput, ...]:
        """The scalars, if there are any."""
        return self.scalars or ()

    @property
    def list_size(self) -> int | str | None:
        """The size of the lists, a symbol until it is bound; None where no input is a list."""
        return next((tensor.shape[0] for tensor in self.inputs if tensor.list and tensor.shape), None)

    def to_json(self) -> str:
        """The document as compact JSON text; what is not set is left out."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


def literal_value(operand: int | float | str) -> int | float | None:
    """The number an operand stands for, or None if it names a tensor."""
    return NON_FINITE.get(operand) if isinstance(operand, str) else operand
