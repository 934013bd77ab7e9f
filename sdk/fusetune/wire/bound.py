"""A fusion and a binding put together: every size, stride and alignment known, and checked again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from fusetune.wire.advice import nearest
from fusetune.wire.binding import Binding, InputBinding, OutputBinding
from fusetune.wire.extent import Extent
from fusetune.wire.fusion import Fusion
from fusetune.wire.infer import MAX_PROBLEMS, MAX_TENSOR_BYTES, checked_types, infer, strides_are_dense
from fusetune.wire.lists import LIST_ELEMS
from fusetune.wire.op_check import ITEM_BYTES, TensorType
from fusetune.wire.problems import InvalidDocument, Problem
from fusetune.wire.recent import recent
from fusetune.wire.symbols import substitute, symbols_of

MAX_STRIDE_BYTES = 2**40
"""Strides stay below this (CUDA driver API, cuTensorMapEncodeTiled: global strides are less than 2^40 bytes)."""


@dataclass(frozen=True, slots=True)
class BoundInput:
    """Strides in elements, those of sizes of 1 set as if contiguous; bytes that divide the address."""

    strides: tuple[int, ...]
    align: int


@dataclass(frozen=True, slots=True)
class Bound:
    """`fusion` without symbols, the types of its values, a layout for each input, and strides for each output."""

    fusion: Fusion
    types: Mapping[str, TensorType]
    inputs: tuple[BoundInput, ...]
    outputs: tuple[tuple[int, ...], ...] = ()

    @property
    def aliases(self) -> tuple[int | None, ...]:
        """For each output, the position of the input that it is written into, if it is."""
        places = {tensor.name: i for i, tensor in enumerate(self.fusion.inputs)}
        return tuple(None if output.alias is None else places[output.alias] for output in self.fusion.outputs)


def apply_binding(fusion: Fusion, binding: Binding) -> Bound:
    """Put `binding` into `fusion`. Raises InvalidDocument with every fault of the fusion, else of the binding."""
    return _applied(fusion, binding, tuple(binding.sizes.items()))


@recent
def _applied(fusion: Fusion, binding: Binding, _sizes: tuple[tuple[str, int], ...]) -> Bound:
    """`_sizes`: those of the binding as they are now; of all that a document has, a dict alone can change."""
    checked_types(fusion)
    if isinstance(fusion.list_size, str) and fusion.list_size not in binding.sizes:
        sizes = {**binding.sizes, fusion.list_size: LIST_ELEMS}
        binding = binding.model_copy(update={"sizes": sizes})
    problems = list(islice(_size_problems(fusion, binding), MAX_PROBLEMS)) + list(_count_problems(fusion, binding))
    if problems:
        raise InvalidDocument(tuple(problems))
    concrete = substitute(fusion, binding.sizes)
    inference = infer(concrete)
    layouts = binding.inputs or tuple(InputBinding() for _ in fusion.inputs)
    inputs: list[BoundInput] = []
    problems.extend(inference.problems)
    for i, (tensor, layout) in enumerate(zip(concrete.inputs, layouts, strict=True)):
        shape = tuple(int(size) for size in tensor.shape)
        stated = None if tensor.strides is None else tuple(int(stride) for stride in tensor.strides)
        strides = _agreed_strides(shape, stated, layout.strides)
        nbytes = ITEM_BYTES[tensor.dtype]
        problems.extend(_layout_problems(f"binding.inputs[{i}]", shape, stated, strides, layout.align, nbytes))
        if len(strides) == len(shape):
            inputs.append(BoundInput(_with_units_contiguous(shape, strides), layout.align))
    if problems:
        raise InvalidDocument(tuple(problems))
    bound = Bound(concrete, inference.types, tuple(inputs))
    problems = list(_repeated_aliases(bound))
    bound = replace(bound, outputs=tuple(_output_strides(bound, binding, problems)))
    if problems:
        raise InvalidDocument(tuple(problems))
    return bound


def _output_strides(bound: Bound, binding: Binding, problems: list[Problem]) -> Iterator[tuple[int, ...]]:
    """The strides of every output: those of the input it lies in, else of the binding, else of the fusion, or dense."""
    layouts = binding.outputs or tuple(OutputBinding() for _ in bound.fusion.outputs)
    for i, (output, layout, position) in enumerate(zip(bound.fusion.outputs, layouts, bound.aliases, strict=True)):
        where, found = f"binding.outputs[{i}]", bound.types[output.name]
        shape = tuple(n.constant or 0 for n in found.shape)
        stated = None if output.strides is None else tuple(int(stride) for stride in output.strides)
        strides = _agreed_strides(shape, stated, layout.strides)
        if position is not None:
            own = bound.inputs[position].strides
            if layout.strides is not None and not _same_layout(shape, own, layout.strides):
                fix = "Leave them out: the output has the strides of the input that it is written into."
                problems.append(Problem(f"{where}.strides", str(list(strides)), str(list(own)), fix))
            yield own
            continue
        before = len(problems)
        nbytes = ITEM_BYTES[found.dtype]
        problems.extend(_layout_problems(where, shape, stated, strides, nbytes, nbytes))
        if any(stride == 0 and size > 1 for size, stride in zip(shape, strides, strict=False)):
            fix = "Give the dimension a stride of its own."
            expected = "strides of 1 or more: each element has an address of its own"
            problems.append(Problem(f"{where}.strides", str(list(strides)), expected, fix))
        if len(problems) == before:
            yield _with_units_contiguous(shape, strides)


def _repeated_aliases(bound: Bound) -> Iterator[Problem]:
    """Outputs that are written into an input of which several elements have one address."""
    for i, position in enumerate(bound.aliases):
        if position is None:
            continue
        tensor, strides = bound.fusion.inputs[position], bound.inputs[position].strides
        if any(stride == 0 and size != 1 for size, stride in zip(tensor.shape, strides, strict=True)):
            found = f"input {tensor.name!r} with strides {list(strides)}"
            expected = "an input each element of which has an address of its own"
            yield Problem(f"outputs[{i}].alias", found, expected, "Pass a copy of the input, or leave the alias out.")


def _size_problems(fusion: Fusion, binding: Binding) -> Iterator[Problem]:
    symbols = symbols_of(fusion)
    for symbol in symbols:
        if symbol not in binding.sizes:
            fix = f'Give it a size, such as {{"sizes": {{"{symbol}": 4096}}}}; on a command line, --bind {symbol}=4096.'
            yield Problem(f"binding.sizes.{symbol}", "nothing", f"a size for symbol {symbol!r} of the fusion", fix)
    for name in binding.sizes:
        if name not in symbols:
            known = ", ".join(symbols) or "none"
            fix = f"{nearest(name, list(symbols))}Remove it."
            yield Problem(f"binding.sizes.{name}", "an unknown symbol", f"a symbol of the fusion ({known})", fix)


def _count_problems(fusion: Fusion, binding: Binding) -> Iterator[Problem]:
    if binding.outputs and len(binding.outputs) != len(fusion.outputs):
        expected = f"{len(fusion.outputs)}, one for each output of the fusion, or none at all"
        found = f"{len(binding.outputs)} entries"
        yield Problem("binding.outputs", found, expected, "Correct the list or leave it out.")
    if binding.inputs and len(binding.inputs) != len(fusion.inputs):
        expected = f"{len(fusion.inputs)}, one for each input of the fusion, or none at all"
        yield Problem("binding.inputs", f"{len(binding.inputs)} entries", expected, "Correct the list or leave it out.")


def _concrete_dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _agreed_strides(
    shape: tuple[int, ...], stated: tuple[int, ...] | None, bound: tuple[int, ...] | None
) -> tuple[int, ...]:
    """The binding's strides, else the fusion's, else dense ones."""
    if bound is not None:
        return bound
    return stated if stated is not None else _concrete_dense(shape)


def _layout_problems(
    where: str,
    shape: tuple[int, ...],
    stated: tuple[int, ...] | None,
    strides: tuple[int, ...],
    align: int,
    item_bytes: int,
) -> Iterator[Problem]:
    at = f"{where}.strides"
    if align % item_bytes:
        expected = f"a multiple of {item_bytes}, the bytes of an element"
        yield Problem(f"{where}.align", str(align), expected, "Copy the tensor to an aligned address.")
    if len(strides) != len(shape):
        yield Problem(at, f"{len(strides)} strides", f"{len(shape)}, one for each dimension", "Correct the strides.")
        return
    for dim, stride in enumerate(strides):
        if stride < 0:
            yield Problem(f"{at}[{dim}]", str(stride), "0 or more", "Copy the tensor: torch has no negative strides.")
        elif stride * item_bytes >= MAX_STRIDE_BYTES and shape[dim] > 1:
            found, expected = f"{stride * item_bytes} bytes", f"less than {MAX_STRIDE_BYTES}"
            yield Problem(f"{at}[{dim}]", found, expected, "Copy the tensor to a dense one.")
    if stated is not None and not _same_layout(shape, stated, strides):
        extents = tuple(map(Extent.of, shape))
        if not strides_are_dense(extents, stated):
            expected = f"{list(stated)}, as the fusion states"
            yield Problem(at, str(list(strides)), expected, "Correct it, or leave the strides out of the fusion.")
    if any(stride < 0 for stride in strides):
        return
    span_bytes = item_bytes * (1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)))
    if span_bytes >= MAX_TENSOR_BYTES:
        yield Problem(at, f"a span of {span_bytes} bytes", f"less than {MAX_TENSOR_BYTES}", "Copy the tensor.")
    if _overlaps(shape, strides):
        found = f"{list(strides)} for shape {list(shape)}: two elements share an address"
        yield Problem(at, found, "strides of 0, or strides that step over the dimensions inside", "Copy the tensor.")


def _same_layout(shape: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    return all(size == 1 or a == b for size, a, b in zip(shape, left, right, strict=True))


def _overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether a dimension may step into those inside it. A stride of 0 is a broadcast and does not count.

    Sorted by stride, each must be larger than the last offset of all smaller ones. Layouts that interleave without
    meeting are counted as overlapping; no torch view makes one without as_strided.
    """
    last_offset = 0
    if 0 in shape:
        return False
    for stride, size in sorted(
        (stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1 and stride
    ):
        if stride <= last_offset:
            return True
        last_offset += stride * (size - 1)
    return False


def _with_units_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The stride of a size of 1 is free: set it to what contiguity asks for, so that equal layouts are equal values."""
    result: list[int] = []
    following = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        result.append(following if size == 1 else stride)
        following = result[-1] * max(size, 1)
    return tuple(reversed(result))
