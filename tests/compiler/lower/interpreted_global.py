"""Global memory of the interpreter: the storages of tensors, and boxes of them through tensor maps.

Every access is held against the ends of its storage, so guard zones would find nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.dtypes import DType
from compiler.ir.fusion import Value
from compiler.lower.kernel_ir import CopyAsync, GlobalLoad, GlobalStore
from compiler.lower.operands import Less, TensorMap
from tests.compiler.lower.interpreted_values import BITS, WORDS, Array, KernelFault


class GlobalTensor:
    """The storage of one tensor, in elements; poisoned with NaN where nothing was stored.

    Its address is an odd multiple of the alignment that the binding promises, so an access that needs more is found.
    """

    def __init__(self, value: Value, contents: Array | None) -> None:
        self.name = value.name
        self.dtype = value.dtype
        self.shape = value.shape
        self.strides = value.strides
        self.elems = storage_elems(value.shape, value.strides)
        self.align = value.align
        self.is_output = contents is None
        bits = BITS[value.dtype]
        self.data = np.full(self.elems, np.iinfo(bits).max, bits) if contents is None else contents.astype(bits)
        self.writer = np.full(self.elems, -1, np.int64)
        """The thread of the grid that stored each element, or -1."""

    def load(self, offsets: Array, width: int) -> Array:
        """Bits [lane, thread] of `width` elements from each offset."""
        if self.is_output:
            raise KernelFault("outputs_are_not_read", self.name)
        return self.data[self._places(offsets, width, "load")]

    def load_straddling(self, offsets: Array, width: int, skipped: Array | None) -> Array:
        """The same from any element on, of the two aligned words that hold them; `skipped`: the elements of the first
        word that are left out, where the kernel says how many."""
        nbytes = self.dtype.nbytes
        phase = (self.align + offsets * nbytes) % (width * nbytes) // nbytes
        if skipped is not None and (skipped != phase).any():
            raise KernelFault("skipped_elements_are_those_before", f"{self.name}: {skipped} where {phase} are")
        words = np.zeros((2 * width, len(offsets)), self.data.dtype)
        words[:width] = self.load(offsets - phase, width)
        both = phase > 0
        words[width:, both] = self.load((offsets - phase)[both] + width, width)
        return np.asarray(np.take_along_axis(words, phase[None, :] + np.arange(width)[:, None], axis=0))

    def store(self, offsets: Array, bits: Array, threads: Array) -> None:
        """Stores bits [lane, thread] from each offset on; `threads` number the threads of the whole grid."""
        if not self.is_output:
            raise KernelFault("inputs_are_not_written", self.name)
        at = self._places(offsets, len(bits), "store")
        if (self.writer[at] >= 0).any():
            first = int(at[self.writer[at] >= 0][0])
            raise KernelFault("elements_are_stored_once", f"{self.name}[{first}] is stored twice")
        who = np.broadcast_to(threads, at.shape)
        self.writer[at] = who
        if (self.writer[at] != who).any():
            raise KernelFault("elements_are_stored_once", f"{self.name}: two threads store one element at once")
        self.data[at] = bits

    def logical(self) -> Array:
        """The elements in logical order, of the tensor's shape."""
        return logical(self.data, self.shape, self.strides)

    def _places(self, offsets: Array, width: int, what: str) -> Array:
        nbytes = width * self.dtype.nbytes
        if nbytes not in WORDS:
            raise KernelFault("accesses_are_one_instruction", f"{what} of {nbytes} bytes of {self.name}")
        if ((offsets < 0) | (offsets + width > self.elems)).any():
            bad = int(offsets[(offsets < 0) | (offsets + width > self.elems)][0])
            raise KernelFault(
                "global_access_is_inside", f"{what} of {width} at {self.name}[{bad}], which has {self.elems} elements"
            )
        if ((self.align + offsets * self.dtype.nbytes) % nbytes).any():
            raise KernelFault(
                "global_access_is_aligned", f"{what} of {nbytes} bytes of {self.name}, aligned to {self.align}"
            )
        return offsets[None, :] + np.arange(width)[:, None]


@dataclass(frozen=True, slots=True)
class Box:
    """Elements of a box that are moved, in the order of the tile, innermost first.

    `offsets` into the storage and `inside`, for the elements that the map's bounds keep.
    """

    offsets: Array
    inside: Array


class MappedTensor:
    """A global tensor seen through a tensor map (cuTensorMapEncodeTiled; PTX ISA, cp.async.bulk.tensor)."""

    def __init__(self, tensor_map: TensorMap, tensor: GlobalTensor) -> None:
        self.map = tensor_map
        self.tensor = tensor
        self.nbytes = tensor_map.dtype.nbytes
        for bad, message in (
            (tensor.align % 16, f"address aligned to {tensor.align}"),
            (tensor_map.box[0] * self.nbytes % 16, f"inner box of {tensor_map.box[0]} elements"),
            (any(s % 16 for s in tensor_map.strides_bytes), f"strides of {tensor_map.strides_bytes} bytes"),
            (not all(1 <= b <= 256 for b in tensor_map.box), f"box {tensor_map.box}"),
            (
                tensor_map.element_strides[0] != 1 or not all(1 <= e <= 8 for e in tensor_map.element_strides),
                f"element strides {tensor_map.element_strides}",
            ),
            (not 1 <= len(tensor_map.dims) <= 5, f"rank {len(tensor_map.dims)}"),
            (tensor_map.dtype is not tensor.dtype, f"{tensor_map.dtype} over {tensor.dtype}"),
            (
                tensor_map.swizzle and tensor_map.swizzle != tensor_map.box[0] * self.nbytes,
                f"swizzle {tensor_map.swizzle} of rows of {tensor_map.box[0] * self.nbytes} bytes",
            ),
        ):
            if bad:
                raise KernelFault("tensor_map_is_encodable", f"{tensor_map.name}: {message}")
        steps = np.cumprod([1, *tensor_map.tile])
        linear = np.arange(steps[-1])
        every = zip(steps[:-1], tensor_map.tile, tensor_map.element_strides, strict=True)
        self._within = [linear // step % size * e for step, size, e in every]
        self._strides = [1, *(s // self.nbytes for s in tensor_map.strides_bytes)]

    @property
    def tile_elems(self) -> int:
        """Elements of a box that are moved."""
        return len(self._within[0])

    def box(self, coordinates: tuple[int, ...], *, is_store: bool) -> Box:
        """The box at `coordinates`, innermost first. Outside of the map loads bring zeros and stores are dropped.

        A store clips the innermost dimension at whole 16 bytes only: it writes on to their end (seen on an H200;
        legality rule `tma_store_rows_are_multiples_of_16_bytes`). An unaligned innermost coordinate faulted there.
        """
        if len(coordinates) != len(self.map.dims):
            raise KernelFault("tma_coordinates_match_the_rank", f"{self.map.name}: {coordinates}")
        if coordinates[0] * self.nbytes % 16:
            raise KernelFault("tma_inner_coordinate_is_aligned", f"{self.map.name}: {coordinates}")
        offsets = np.zeros(self.tile_elems, np.int64)
        inside = np.ones(self.tile_elems, np.bool_)
        chunk = 16 // self.nbytes
        for d, start in enumerate(coordinates):
            at = self._within[d] + start
            limit = self.map.dims[d]
            if d == 0 and is_store:
                limit = -(-limit // chunk) * chunk
            inside &= (at >= 0) & (at < limit)
            offsets += at * self._strides[d]
        return Box(offsets, inside)


def storage_elems(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last of a strided tensor."""
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def logical(storage: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """A flat storage as an array of the tensor's shape."""
    steps = tuple(s * storage.itemsize for s in strides)
    return np.lib.stride_tricks.as_strided(storage, shape, steps)


def swizzled(address: Array, span: int) -> Array:
    """Where byte `address` (absolute, in shared memory) of a tile goes under a swizzle of `span` bytes.

    CUDA guide, "TMA swizzle": the 16-byte chunk of an address is xored with the 128-byte line it lies in; the narrower
    modes use fewer bits.
    """
    found: Array = address ^ ((address >> 3) & {0: 0x00, 32: 0x10, 64: 0x30, 128: 0x70}[span])
    return found


def bits_of(raw: Array, dtype: DType) -> Array:
    """Bytes [thread, byte] as elements [lane, thread]."""
    return np.ascontiguousarray(raw).view(BITS[dtype]).T


Access = GlobalLoad | GlobalStore | CopyAsync


def shared_guards(s: Access) -> tuple[Less, ...]:
    """Conditions that all lanes of an access share."""
    return s.guards if isinstance(s, GlobalStore) else (*s.guards, *s.within)
