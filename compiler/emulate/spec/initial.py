"""Tensors before a run: where their elements lie, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import Bytes
from compiler.emulate.memory.region import POISON
from compiler.emulate.spec.elements import ELEMENTS, Array, SpecElement
from compiler.emulate.spec.fields import Node

INITS = ("random", "arange", "zeros", "ones", "poison")
"""The values of `init` that are words."""


@dataclass(frozen=True)
class SpecLayout:
    """Where the elements of a tensor lie: `strides` in elements, not negative, the first element at byte 0."""

    element: SpecElement
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """From the first byte of the first element to the last of the last; holes count."""
        if self.count == 0:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.element.nbytes

    def view(self, data: Bytes) -> Array:
        """The elements in `data`, which holds at least `nbytes` bytes, as an array that shares its memory."""
        step = self.element.nbytes
        flat = data[: self.nbytes].view(self.element.storage)
        return np.lib.stride_tricks.as_strided(flat, self.shape, tuple(s * step for s in self.strides))

    def dense(self, data: Bytes) -> Array:
        """The elements in row-major order, copied."""
        return np.array(self.view(data), order="C")

    def valid(self) -> npt.NDArray[np.bool_] | None:
        """A flag a byte: whether it belongs to an element. None if every byte does."""
        step = self.element.nbytes
        flags = np.zeros(self.nbytes // step, np.bool_)
        np.lib.stride_tricks.as_strided(flags, self.shape, self.strides)[...] = True
        return None if flags.all() else np.repeat(flags, step)

    def touched(self, flags: npt.NDArray[np.bool_]) -> int:
        """How many elements have a byte whose flag is set."""
        by_element = flags[: self.nbytes].reshape(-1, self.element.nbytes).any(axis=1)
        return int(np.lib.stride_tricks.as_strided(by_element, self.shape, self.strides).sum())


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def fill(layout: SpecLayout, init: Node, seed: int, folder: Path) -> tuple[Bytes, npt.NDArray[np.bool_] | None]:
    """The bytes of a tensor, and its flags of what is initialised (None: all).

    `init` is one of INITS, `{"values": [...]}` or `{"file": "x.npy"}`, looked up in `folder`. Holes between strided
    elements hold poison and do not count as initialised. Raises InvalidSpec.
    """
    data = np.full(layout.nbytes, POISON, np.uint8)
    if init.value == "poison":
        return data, np.zeros(layout.nbytes, np.bool_)
    values = _values(layout, init, seed, folder)
    np.copyto(layout.view(data), values)
    return data, layout.valid()


def _values(layout: SpecLayout, init: Node, seed: int, folder: Path) -> Array:
    element, shape = layout.element, layout.shape
    if isinstance(init.value, dict):
        return _given(layout, init, folder)
    match init.choice(*INITS):
        case "random":
            return element.random(shape, seed)
        case "arange":
            return element.of(np.arange(layout.count, dtype=np.int64).reshape(shape))
        case "ones":
            return element.of(np.ones(shape, np.int64))
        case _:
            return np.zeros(shape, element.storage)


def _given(layout: SpecLayout, init: Node, folder: Path) -> Array:
    if len(init.value) != 1:
        raise init.fault("one of values, file", "Give one of them.")
    fields = init.fields((), ("values", "file"))
    if "file" in fields:
        return _loaded(layout, fields["file"], folder)
    flat = [scalar_bytes(layout.element, leaf) for leaf in _leaves(fields["values"], layout.shape)]
    return np.frombuffer(b"".join(flat), layout.element.storage).reshape(layout.shape)


def _leaves(values: Node, shape: tuple[int, ...]) -> list[Node]:
    """The numbers of a list, nested as the shape is, or flat in row-major order."""
    items = values.items("numbers") if isinstance(values.value, list) else (values,)
    if len(shape) != 1 and len(items) == prod(shape) and not any(isinstance(i.value, list) for i in items):
        return list(items)
    if not shape:
        raise values.fault("one number", "Give the value of the only element.")
    if len(items) != shape[0] or not isinstance(values.value, list):
        raise values.fault(f"a list of {shape[0]} items", f"The shape is {list(shape)}; give as many values.")
    if len(shape) == 1:
        return list(items)
    return [leaf for item in items for leaf in _leaves(item, shape[1:])]


def _loaded(layout: SpecLayout, file: Node, folder: Path) -> Array:
    path = folder / file.text("the name of a .npy file")
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no .npy file"
        raise file.fault(f"a .npy file ({path}: {reason})", "Write it with numpy.save.") from None
    storage = layout.element.storage
    if not isinstance(array, np.ndarray) or array.dtype != storage or array.shape != layout.shape:
        found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        wanted = f"an array {storage} {layout.shape} for {layout.element.name}, not {found}"
        raise file.fault(wanted, "Save the array in that type and shape.")
    return array


_WORDS = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}
"""Numbers that JSON cannot write."""


def scalar_bytes(element: SpecElement, number: Node) -> bytes:
    """The bytes of one number. Raises InvalidSpec for what the type cannot hold."""
    value = number.value
    if element.storage.kind == "b":
        if value not in (0, 1) or isinstance(value, float):
            raise number.fault("true or false", "Give a truth value.")
    elif element.is_float:
        value = _WORDS.get(value, value) if isinstance(value, str) else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise number.fault(f"a number of type {element.name}", 'Give a number, or "inf", "-inf", "nan".')
        try:
            value = float(value)
        except OverflowError:
            raise number.fault(f"a number of type {element.name}", 'Write "inf" for infinity.') from None
    else:
        bounds = np.iinfo(element.storage)
        value = number.integer(int(bounds.min), int(bounds.max))
    return element.of(np.array(value)).tobytes()


def element_named(name: Node) -> SpecElement:
    """The element type that a node names. Raises InvalidSpec."""
    return ELEMENTS[name.choice(*ELEMENTS)]
