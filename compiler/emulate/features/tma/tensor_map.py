"""Tensor maps: the 128 opaque bytes, in an encoding of our own, and what the driver would refuse.

The driver keeps its encoding to itself, so kernels can only copy the bytes, replace fields and hand them to the copy
engine: any encoding that lives through that will do. Dimension 0 is the innermost (CUDA driver API,
cuTensorMapEncodeTiled).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from compiler.emulate.features.tma.elements import DTYPES, ELEMENTS, Element
from compiler.emulate.features.tma.swizzle import SWIZZLES, Swizzle
from compiler.emulate.launch import EmulatedTensorMap

MAP_BYTES = 128
MAP_ALIGN = 64
"""CUDA driver API, CUtensorMap."""

MAX_RANK = 5
MAX_SIZE = 1 << 32
MAX_STRIDE = 1 << 40
MAX_BOX = 256
MAX_ELEMENT_STRIDE = 8
UNIT = 16
"""Bytes that addresses, strides and inner boxes are multiples of (CUDA driver API, cuTensorMapEncodeTiled)."""

SWIZZLED_ADDRESS_ALIGN = 16
"""Of the global address of a swizzled map (CUDA driver API, cuTensorMapEncodeTiled). The CUDA guide asks for 128; the
encoder takes 16 with every swizzle, and what is copied is right (measured on an H200, driver 580.159)."""

SPAN_IS_PITCH = True
"""Rows narrower than the swizzle's span lie a span apart in shared memory, whether it has 32, 64 or 128 bytes (measured
on an H200, driver 580.159). The CUDA guide has as much allocated; no manual gives the pitch."""

ATOMS_NEED_CAPABILITY = 100
"""Swizzles with atoms of 32 and 64 bytes: the encoder refuses them on capability 9.0 with CUDA_ERROR_INVALID_VALUE
(measured on an H200, driver 580.159)."""

INTERLEAVES = ("NONE", "16B", "32B")
FILLS = ("zero", "nan")

_MAGIC = b"TMap"
_LAYOUT = struct.Struct("<4s6B5BxQ5Q4Q5I12x")
"""Magic; element, rank, interleave, swizzle span, swizzle atom, fill; element strides; address; sizes; strides; box."""


@dataclass(frozen=True, slots=True)
class DecodedMap:
    """A tensor map as its bytes say, sound or not. Numbers are those of `tensormap.replace` (PTX ISA); lists have
    MAX_RANK entries (strides one fewer: those of dimensions 1 and up), of which the first `rank` count."""

    element: int
    rank: int
    interleave: int
    span: int
    atom: int
    fill: int
    element_strides: tuple[int, ...]
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    @property
    def type(self) -> Element:
        """The element type; the map must be sound."""
        return ELEMENTS[self.element]

    @property
    def swizzle(self) -> Swizzle:
        """The swizzle; the map must be sound."""
        return next(s for s in SWIZZLES.values() if (s.mode, s.atomicity) == (self.span, self.atom))

    @property
    def row_bytes(self) -> int:
        """Bytes of the innermost dimension of the box."""
        return self.box[0] * self.type.nbytes

    @property
    def pitch(self) -> int:
        """Bytes from row to row of a tile in shared memory."""
        return max(self.row_bytes, self.swizzle.span) if SPAN_IS_PITCH else self.row_bytes

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements of a tile by dimension: ceil(box / element stride), all of which count on the mbarrier, also those
        out of bounds; the innermost stride counts as 1 (measured on an H200, driver 580.159, strides that do not divide
        the box or the tensor among them)."""
        outer = zip(self.box[1 : self.rank], self.element_strides[1 : self.rank], strict=True)
        return (self.box[0], *(-(-b // s) for b, s in outer))


def encode(tensor_map: EmulatedTensorMap, address: int) -> bytes:
    """The bytes of a map whose tensor lies at `address` (`offset_bytes` is added).

    Raises ValueError for what has no place in the encoding: names it does not know, lists of differing lengths,
    negative or huge numbers. Everything else is encoded, and `problems` tells what a driver would have refused.
    """
    m = tensor_map
    rank = len(m.dims)
    for what, values, length in (
        ("strides_bytes", m.strides_bytes, max(rank - 1, 0)),
        ("box", m.box, rank),
        ("element_strides", m.element_strides, rank),
    ):
        if len(values) != length:
            raise ValueError(f"{what} has {len(values)} entries; {rank} dims need {length}")
    if rank > MAX_RANK:
        raise ValueError(f"a tensor map has at most {MAX_RANK} dims, not {rank}")
    for what, name, known in (
        ("dtype", m.dtype, DTYPES),
        ("swizzle", m.swizzle, SWIZZLES),
        ("interleave", m.interleave, INTERLEAVES),
        ("oob_fill", m.oob_fill, FILLS),
    ):
        if name not in known:
            raise ValueError(f"{what} is {name!r}; known are {', '.join(known)}")
    swizzle = SWIZZLES[m.swizzle]
    decoded = DecodedMap(
        DTYPES[m.dtype].number,
        rank,
        INTERLEAVES.index(m.interleave),
        swizzle.mode,
        swizzle.atomicity,
        FILLS.index(m.oob_fill),
        _filled(m.element_strides, MAX_RANK, 1),
        address + m.offset_bytes,
        _filled(m.dims, MAX_RANK, 1),
        _filled(m.strides_bytes, MAX_RANK - 1, 0),
        _filled(m.box, MAX_RANK, 1),
    )
    try:
        return pack(decoded)
    except struct.error as error:
        raise ValueError(f"a number of the tensor map is negative or too large to encode: {error}") from error


def _filled(values: Sequence[int], length: int, fill: int) -> tuple[int, ...]:
    return tuple(v for v, _ in zip_longest(values, range(length), fillvalue=fill))


def pack(m: DecodedMap) -> bytes:
    """The 128 bytes. Raises struct.error for numbers that do not fit."""
    return _LAYOUT.pack(
        _MAGIC,
        m.element,
        m.rank,
        m.interleave,
        m.span,
        m.atom,
        m.fill,
        *m.element_strides,
        m.address,
        *m.dims,
        *m.strides,
        *m.box,
    )


def decode(data: bytes) -> DecodedMap | None:
    """The map that 128 bytes hold; None if they are no tensor map."""
    if len(data) != MAP_BYTES:
        return None
    magic, element, rank, interleave, span, atom, fill, *rest = _LAYOUT.unpack(data)
    if magic != _MAGIC:
        return None
    return DecodedMap(
        element,
        rank,
        interleave,
        span,
        atom,
        fill,
        tuple(rest[:5]),
        rest[5],
        tuple(rest[6:11]),
        tuple(rest[11:15]),
        tuple(rest[15:20]),
    )


def problems(m: DecodedMap, capability: int = 90) -> list[str]:
    """What the encoder refuses, a sentence each: which field, found, allowed (CUDA driver API, cuTensorMapEncodeTiled).

    `capability` is 10 * major + minor of the card.
    """
    if not 1 <= m.rank <= MAX_RANK:
        return [f"rank is {m.rank}; allowed are 1 to {MAX_RANK}"]
    if m.element >= len(ELEMENTS):
        return [f"element type has number {m.element}; allowed are 0 to {len(ELEMENTS) - 1}"]
    if not any((s.mode, s.atomicity) == (m.span, m.atom) for s in SWIZZLES.values()):
        return [f"swizzle mode {m.span} with atomicity {m.atom} is none of {', '.join(SWIZZLES)}"]
    if m.interleave >= len(INTERLEAVES):
        return [f"interleave is {m.interleave}; allowed are 0 to {len(INTERLEAVES) - 1}"]
    return [*_global_problems(m), *_box_problems(m), *_swizzle_problems(m, capability)]


def _global_problems(m: DecodedMap) -> list[str]:
    """Of the tensor. Strides may be zero, and so small that rows overlap: such maps encode, and their loads bring what
    the strides say (measured on an H200, driver 580.159)."""
    found = []
    wide = m.interleave == INTERLEAVES.index("32B") or m.type.is_packed_to_16
    unit = 2 * UNIT if wide else UNIT
    align = max(unit, SWIZZLED_ADDRESS_ALIGN) if m.span else unit
    if m.address % align:
        found.append(f"global address is {m.address:#x}; it must be a multiple of {align}")
    for i, size in enumerate(m.dims[: m.rank]):
        if not 1 <= size <= MAX_SIZE:
            found.append(f"dims[{i}] is {size}; allowed are 1 to 2^32")
    for i, stride in enumerate(m.strides[: m.rank - 1]):
        if stride % unit:
            found.append(f"strides_bytes[{i}] is {stride}; it must be a multiple of {unit}")
        if stride >= MAX_STRIDE:
            found.append(f"strides_bytes[{i}] is {stride}; it must be below 2^40")
    if m.interleave and m.rank < 3:
        found.append(f"rank is {m.rank}; an interleaved map has 3 to {MAX_RANK}")
    if m.fill and not m.type.is_float:
        found.append(f"oob_fill is nan for {m.type.name}; only floating-point types have a NaN")
    if m.fill >= len(FILLS):
        found.append(f"oob_fill is {m.fill}; allowed are 0 (zero) and 1 (nan)")
    return found


def _box_problems(m: DecodedMap) -> list[str]:
    found = []
    for i, extent in enumerate(m.box[: m.rank]):
        if not 1 <= extent <= MAX_BOX:
            found.append(f"box[{i}] is {extent}; allowed are 1 to {MAX_BOX}")
    first = 0 if m.interleave else 1
    for i, stride in enumerate(m.element_strides[first : m.rank], first):
        if not 1 <= stride <= MAX_ELEMENT_STRIDE:
            found.append(f"element_strides[{i}] is {stride}; allowed are 1 to {MAX_ELEMENT_STRIDE}")
    if not m.interleave and not m.type.is_packed and m.row_bytes % UNIT:
        found.append(
            f"box[0] is {m.box[0]} elements of {m.type.nbytes} bytes, {m.row_bytes} bytes; "
            f"it must be a multiple of {UNIT} bytes"
        )
    return found


def _swizzle_problems(m: DecodedMap, capability: int) -> list[str]:
    found = []
    swizzle = m.swizzle
    if swizzle.span and not m.interleave and not m.type.is_packed and m.row_bytes > swizzle.span:
        found.append(
            f"box[0] is {m.box[0]} elements of {m.type.nbytes} bytes, {m.row_bytes} bytes; "
            f"swizzle {swizzle.name} allows at most {swizzle.span}"
        )
    if swizzle.atomicity and capability < ATOMS_NEED_CAPABILITY:
        found.append(f"swizzle is {swizzle.name}; capability {capability / 10} has NONE, 32B, 64B and 128B")
    if m.interleave == INTERLEAVES.index("32B") and swizzle.name != "32B":
        found.append(f"swizzle is {swizzle.name}; interleave 32B needs swizzle 32B")
    return found


def unsupported(m: DecodedMap) -> str | None:
    """What of a sound map the emulator does not execute."""
    if m.interleave:
        return f"a tensor map with interleave {INTERLEAVES[m.interleave]}"
    if m.type.is_packed:
        return f"a tensor map of {m.type.name}"
    if m.type.is_rounded and FILLS[m.fill] == "nan":  # nobody has seen with which NaN
        return f"a tensor map of {m.type.name} that fills with NaN"
    return None
