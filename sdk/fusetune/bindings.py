"""From tensors to a binding, by what they say of themselves; torch itself is not needed."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from fusetune.errors import InvalidBinding, InvalidFusion
from fusetune.fusion import Tensor
from fusetune.wire.binding import Align, Binding, InputBinding
from fusetune.wire.bound import Bound, apply_binding
from fusetune.wire.extent import Extent
from fusetune.wire.fusion import DTypeName, Fusion, Input, show
from fusetune.wire.infer import checked_types, strides_are_dense
from fusetune.wire.parse import parse_binding
from fusetune.wire.problems import InvalidDocument, Problem


class TensorLike(Protocol):
    """What is asked of a tensor. torch's have it; strides are in elements, the address in bytes."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes."""
        ...

    @property
    def dtype(self) -> object:
        """An object whose text is `torch.bfloat16` or the like."""
        ...

    def stride(self) -> Sequence[int]:
        """Strides in elements."""
        ...

    def data_ptr(self) -> int:
        """The address of the first element."""
        ...


BindingLike = Binding | Mapping[str, Any] | str | bytes
"""A Binding, its document (decoded or as JSON text), or just the sizes: `{"M": 8192}`."""

DTYPE_OF: Mapping[str, DTypeName] = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool",
}  # fmt: skip
"""torch's names of element types -> the wire's."""

_ALIGNS: tuple[Align, ...] = (16, 8, 4, 2, 1)
"""What an address is said to be a multiple of: the first that divides it.

A binding may say 128 too, and is then another key of the cache. Nothing is gained by it: no access of a generated
kernel is wider than 16 bytes (compiler.legality.vectorize, MAX_VECTOR_BYTES), and bulk and tensor copies ask 16 of a
global address (compiler.legality.tensor_map, bulk_copy). With 16 as the most, tensors from an allocator and views into
them share one kernel, and with it those bound by sizes alone, whose default is 16.
"""


def binding_of(fusion: Fusion, inputs: Sequence[TensorLike]) -> Binding:
    """Sizes of all symbols, and strides and alignment of every input, read off tensors in the order of `inputs`.

    The scalars of a call may stand after the tensors, and say nothing: a kernel takes any value.
    Raises InvalidBinding with every tensor whose dtype, rank, sizes or strides do not fit, and InvalidFusion.
    """
    try:
        checked_types(fusion)
    except InvalidDocument as error:
        raise InvalidFusion(error.problems) from None
    if not hasattr(inputs, "data_ptr") and len(inputs) == len(fusion.inputs) + len(fusion.numbers):
        inputs = inputs[: len(fusion.inputs)]
    if len(fusion.inputs) != len(inputs) or hasattr(inputs, "data_ptr"):
        found = "a tensor" if hasattr(inputs, "data_ptr") else f"{len(inputs)} tensors"
        names = ", ".join(tensor.name for tensor in fusion.inputs) or "none"
        fix = "Pass a list with one tensor for each input, in order."
        raise InvalidBinding((Problem("inputs", found, f"{len(fusion.inputs)} tensors: {names}", fix),))
    pairs = list(zip(fusion.inputs, inputs, strict=True))
    listed = [(stated, tensors) for stated, tensors in pairs if stated.list]
    problems = [p for stated, tensors in listed for p in _list_problems(stated, tensors)]
    problems += [p for stated, tensor in pairs if not stated.list for p in _type_problems(stated, tensor)]
    if problems:
        raise InvalidBinding(tuple(problems))
    sizes = _sizes([pair for pair in pairs if not pair[0].list])
    layouts = []
    for stated, tensor in pairs:
        if stated.list:
            layouts.append(InputBinding(align=_least_align(tensor)))
            continue
        strides = tuple(map(int, tensor.stride()))
        extents = tuple(Extent.of(int(size)) for size in tensor.shape)
        # Strides that say nothing are left out: the binding reads as its hash means it.
        told = None if stated.strides is None and strides_are_dense(extents, strides) else strides
        align = next(a for a in _ALIGNS if tensor.data_ptr() % a == 0)
        layouts.append(InputBinding(strides=told, align=align))
    return bound_by(fusion, Binding(sizes=sizes, inputs=tuple(layouts)))[0]


def read_binding(fusion: Fusion, binding: BindingLike) -> tuple[Binding, Bound]:
    """The binding in any of the forms that are taken, and the fusion it makes. Raises InvalidBinding."""
    try:
        parsed = binding if isinstance(binding, Binding) else parse_binding(_document(binding))
    except InvalidDocument as error:
        raise InvalidBinding(error.problems) from None
    return bound_by(fusion, parsed)


def bound_by(fusion: Fusion, binding: Binding) -> tuple[Binding, Bound]:
    """The binding, held against the valid `fusion`, and both together. Raises InvalidBinding."""
    try:
        return binding, apply_binding(fusion, binding)
    except InvalidDocument as error:
        raise InvalidBinding(tuple(_named(fusion, problem) for problem in error.problems)) from None


def _document(binding: object) -> Mapping[str, Any] | str | bytes:
    """The document that `binding` is or stands for."""
    if isinstance(binding, str | bytes):
        return binding
    if not isinstance(binding, Mapping):
        expected, fix = "sizes by symbol, or a Binding", 'Write it like {"M": 8192}.'
        raise InvalidBinding((Problem("binding", show(binding), expected, fix),))
    # A symbol may be called `sizes` or `inputs`, but its value is a number.
    if isinstance(binding.get("sizes"), Mapping) or isinstance(binding.get("inputs"), list | tuple):
        return binding
    return {"sizes": {name: _whole(size) for name, size in binding.items()}}


def _whole(size: object) -> object:
    """An integer of another library as Python's own; what is none goes on, to be refused by its place."""
    return operator.index(size) if hasattr(size, "__index__") and not isinstance(size, bool) else size


def _list_problems(stated: Input, tensors: object) -> Iterator[Problem]:
    """What is wrong with the tensors of a list; their sizes are nobody's business but the call's."""
    where = f"input {stated.name!r}"
    if not isinstance(tensors, list | tuple):
        found = f"a {type(tensors).__name__}"
        yield Problem(where, found, "a list of torch tensors", "Pass a list: the fusion has one there.")
        return
    for n, tensor in enumerate(tensors):
        alone = stated
        if stated.shape:
            alone = stated.model_copy(update={"shape": tuple(getattr(tensor, "shape", ()))})
        yield from (Problem(f"{where}[{n}]", p.found, p.expected, p.fix) for p in _type_problems(alone, tensor))


def _least_align(tensors: Any) -> Any:
    """The alignment that all tensors of a list have, as the wire's literal type."""
    return min(next(a for a in _ALIGNS if tensor.data_ptr() % a == 0) for tensor in tensors) if tensors else 16


def _type_problems(stated: Input, tensor: TensorLike) -> Iterator[Problem]:
    where = f"input {stated.name!r}"
    if not all(callable(getattr(tensor, name, None)) for name in ("stride", "data_ptr")):
        given: object = tensor
        if isinstance(given, Tensor):
            fix = "Pass the torch tensors that the kernel is for, or their sizes as the binding."
            yield Problem(where, "a Tensor of a FusionBuilder, which has no data", "a torch tensor", fix)
        else:
            yield Problem(where, f"a {type(tensor).__name__}", "a torch tensor", "Convert it with torch.as_tensor.")
        return
    dtype = DTYPE_OF.get(str(tensor.dtype).rpartition(".")[2])
    if dtype != stated.dtype:
        fix = f"Convert it to {stated.dtype}, or write {dtype} into the fusion." if dtype else "Convert it."
        yield Problem(where, f"dtype {tensor.dtype}", f"{stated.dtype}, as the fusion says", fix)
    shape = tuple(map(int, tensor.shape))
    if len(shape) != len(stated.shape):
        expected = f"rank {len(stated.shape)}: {_shape_text(stated)}"
        yield Problem(where, f"rank {len(shape)}: {show(shape)}", expected, "Reshape it, or change the fusion.")
        return
    for dim, (size, wanted) in enumerate(zip(shape, stated.shape, strict=True)):
        if isinstance(wanted, int) and size != wanted:
            expected = f"{wanted}, as the fusion says: {_shape_text(stated)}"
            fix = "Pass a tensor of that shape, or write a symbol there in the fusion."
            yield Problem(f"{where}, dimension {dim}", f"size {size}", expected, fix)


def _sizes(pairs: Sequence[tuple[Input, TensorLike]]) -> dict[str, int]:
    """The value of every symbol. Raises InvalidBinding where two sizes would be one symbol."""
    sizes: dict[str, int] = {}
    told_by: dict[str, str] = {}
    problems = []
    for stated, tensor in pairs:
        for dim, (symbol, found) in enumerate(zip(stated.shape, tensor.shape, strict=True)):
            if not isinstance(symbol, str):
                continue
            where, size = f"input {stated.name!r}, dimension {dim}", int(found)
            if sizes.setdefault(symbol, size) != size:
                expected = f"{symbol} = {sizes[symbol]}, as {told_by[symbol]} has"
                problems.append(Problem(where, f"size {size}", expected, "One symbol has one size."))
            told_by.setdefault(symbol, where)
    if problems:
        raise InvalidBinding(tuple(problems))
    return _stride_symbols(pairs, sizes)


def _stride_symbols(pairs: Sequence[tuple[Input, TensorLike]], sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes` and the symbols that stand in strides alone; what contradicts them is found when the binding is applied.

    The stride of a size of 1 is free, so it is asked last.
    """
    found = dict(sizes)
    for last in (False, True):
        for stated, tensor in pairs:
            for symbol, size, stride in zip(stated.strides or (), tensor.shape, tensor.stride(), strict=False):
                if isinstance(symbol, str) and (size > 1) is not last:
                    found.setdefault(symbol, int(stride))
    return found


_PLACE = re.compile(r"binding\.inputs\[(\d+)\]")


def _named(fusion: Fusion, problem: Problem) -> Problem:
    """The problem with an input's name where its position stood."""

    def name(match: re.Match[str]) -> str:
        return f"input {fusion.inputs[int(match[1])].name!r}"

    return Problem(_PLACE.sub(name, problem.where), problem.found, problem.expected, problem.fix)


def _shape_text(stated: Input) -> str:
    return f"({', '.join(map(str, stated.shape))})"
