"""What in a cubin decides how a kernel runs, as a hash: equal code is timed once, whatever its source looked like.

A cubin is an ELF64 file (System V ABI, "Object Files"; section names as listed by `readelf` and by cuobjdump of the
CUDA Binary Utilities). Names of kernels and symbols are left out of the hash, debug sections too.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from compiler.errors import CompileError

_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_NOBITS = 8

_CODE_SECTIONS = (".text", ".rela.text", ".nv.constant", ".rela.nv.constant", ".nv.global", ".nv.shared", ".nv.info")


@dataclass(frozen=True, slots=True)
class Section:
    """One section: `data` is empty for one that takes memory but no file bytes, `size` is its size in memory."""

    name: str
    kind: int
    size: int
    data: bytes

    @property
    def family(self) -> str:
        """The name without the kernel it belongs to: `.text` of `.text.fusion`."""
        for prefix in _CODE_SECTIONS:
            if self.name.startswith(prefix):
                return self.name[: (self.name + ".").index(".", len(prefix))]
        return self.name


def sections_of(elf: bytes) -> tuple[Section, ...]:
    """Every section of a 64-bit little-endian ELF file, in file order. Raises CompileError where it is not one."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise CompileError(f"The cubin starts with {elf[:6]!r}, expected a 64-bit little-endian ELF file.")
    try:
        header = _ELF_HEADER.unpack_from(elf)
        table, count, names_at = header[6], header[12], header[13]
        headers = [_SECTION_HEADER.unpack_from(elf, table + i * _SECTION_HEADER.size) for i in range(count)]
        names = elf[headers[names_at][4] :]
        return tuple(
            Section(
                name=names[name : names.index(b"\0", name)].decode(),
                kind=kind,
                size=size,
                data=b"" if kind == _NOBITS else elf[offset : offset + size],
            )
            for name, kind, _, _, offset, size, *_ in headers
        )
    except (struct.error, IndexError, ValueError) as error:
        raise CompileError(f"The cubin of {len(elf)} bytes is cut short or damaged: {error}.") from error


def code_hash(cubin: bytes) -> str:
    """sha256 (hex) of machine code, constants, initialised globals, shared-memory sizes and resource attributes."""
    sections = sections_of(cubin)
    symbols = _symbols(sections)
    digest = hashlib.sha256()
    for section in sections:
        if section.name.startswith(_CODE_SECTIONS):
            data = section.data
            if section.family == ".nv.info":
                data = b"".join(_attributes_without_symbols(data))
            elif section.name.startswith(".rela"):
                data = b"".join(_relocations(data, symbols))
            digest.update(f"{section.family}:{section.size}:{len(data)}:".encode())
            digest.update(data)
    return digest.hexdigest()


def _symbols(sections: tuple[Section, ...]) -> list[bytes]:
    """Each symbol as the family of its section and its offset in it: what an address means, without its name."""
    table = next((s.data for s in sections if s.name == ".symtab"), b"")
    places = []
    for _, info, _, index, value, _ in _SYMBOL.iter_unpack(table):
        family = sections[index].family if index < len(sections) else f"special {index}"
        places.append(f"{family}+{value}:{info}".encode())
    return places


def _relocations(data: bytes, symbols: list[bytes]) -> Iterator[bytes]:
    for offset, info, addend in _RELA.iter_unpack(data):
        yield struct.pack("<QIq", offset, info & 0xFFFFFFFF, addend) + symbols[info >> 32]


_SIZED_ATTRIBUTE = 4
_SYMBOL_ATTRIBUTES = frozenset({0x0A, 0x0F, 0x11, 0x12, 0x23, 0x2F})
"""PARAM_CBANK, EXTERNS, FRAME_SIZE, MIN_STACK_SIZE, MAX_STACK_SIZE, REGCOUNT: the payload starts with a symbol's index,
which moves when sections that do not matter here come or go."""


def _attributes_without_symbols(info: bytes) -> Iterator[bytes]:
    """The attributes of a `.nv.info` section: format, attribute, then a 16-bit value or the size of a payload."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        payload = info[at + 4 : at + 4 + value] if form == _SIZED_ATTRIBUTE else b""
        at += 4 + len(payload)
        skipped = 4 if attribute in _SYMBOL_ATTRIBUTES else 0
        yield struct.pack("<BBH", form, attribute, value) + payload[skipped:]
