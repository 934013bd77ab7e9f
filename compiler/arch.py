"""What the hardware is: limits of an architecture (`Arch`) and facts of one GPU model (`Card`).

Architectures are a table in this file; cards are data in `cards.json`, each figure with the document it comes from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from compiler.errors import UnknownArch, UnknownCard, Unsupported

DEFAULT_CARD = "H200"
"""The card assumed when none is named and none is attached (docs/contracts.md, "Key")."""

_CARDS_FILE = Path(__file__).with_name("cards.json")
_KIB = 1024

# What all architectures have in common. "PTX" is the PTX ISA, "CUDA" the CUDA C++ programming guide, "driver" the CUDA
# driver API.

PARAMETER_BYTES = 4096
"""Of a kernel's parameters, what every card and driver takes (CUDA guide, function parameters)."""

WARP_THREADS = 32
WARPGROUP_WARPS = 4
"""Warps that change their registers, and multiply matrices, together (PTX, setmaxnreg: warpgroup)."""
WARPGROUP_THREADS = WARPGROUP_WARPS * WARP_THREADS

REGISTER_BYTES = 4
"""Of one register of one thread (CUDA, technical specifications: 32-bit registers)."""
REGISTERS_PER_SM = 65536
"""Of every target, and what one block may have (CUDA, technical specifications per compute capability)."""
MAX_REGISTERS = 255
"""Of a thread (CUDA, technical specifications)."""
REGISTER_UNIT = 8
"""Registers of a thread are given out so many at once: those of a warp in units of 256 (cuda_occupancy.h; PTX,
setmaxnreg)."""
MAX_REGISTER_CAP = MAX_REGISTERS // REGISTER_UNIT * REGISTER_UNIT
SETMAXNREG_LEAST, SETMAXNREG_MOST = 24, 256
"""Registers a thread that a warp may ask for, in units of `REGISTER_UNIT` (PTX, setmaxnreg)."""

WORD_BYTES = (1, 2, 4, 8, 16)
"""Bytes of one load or store of a thread (PTX, ld and st; the 32 of capability 10 are for global memory alone)."""
MAX_WORD_BYTES = WORD_BYTES[-1]
MAX_LOCAL_BYTES = 512 * 1024
"""Local memory of a thread (CUDA guide, technical specifications per compute capability)."""
WARP_STORE_BYTES = WARP_THREADS * MAX_WORD_BYTES
"""What a warp stores at once: a shorter run of memory breaks its store up, on any card."""
WIDE_WORD_BYTES = 32
"""Of a word between global memory and registers from capability 10.0 on (PTX, ld and st)."""
CP_ASYNC_BYTES = (4, 8, 16)
"""Bytes that one cp.async of a thread moves, between addresses that are multiples of them (PTX, cp.async)."""
ALLOCATION_ALIGN = 256
"""Bytes that divide the address of whatever an allocator gives (CUDA, device memory accesses)."""

SECTOR_BYTES = 32
"""Global memory is read and written in sectors (CUDA best practices, "Coalesced Access to Global Memory")."""
LINE_BYTES = 128
"""Of a line of L1 and L2: four sectors (CUDA best practices, as above)."""

BANKS = 32
BANK_BYTES = 4
"""Shared memory serves a word of each bank at a time (CUDA, shared memory)."""
SMEM_LINE_BYTES = BANKS * BANK_BYTES
"""All banks once: what a row of swizzled chunks covers (nvFuser, TMA: "Data swizzle")."""
BARRIER_BYTES = 8
"""An mbarrier object is 64 bits (PTX, mbarrier)."""

BULK_BYTES = 16
"""Bulk copies move multiples of 16 bytes between addresses that are multiples of 16; so are the strides of a tensor map
and the bytes of an inner box (PTX, cp.async.bulk; driver, cuTensorMapEncodeTiled)."""
BULK_SMEM_ALIGN = 128
"""Divides the address in shared memory of what a tensor map copies (PTX, cp.async.bulk.tensor)."""
SWIZZLE_SPANS = (32, 64, 128)
"""Bytes of the swizzle modes (PTX, tensor-copy swizzle modes)."""
SWIZZLE_CHUNK_BYTES = 16
"""What a swizzle moves as a whole (PTX, tensor-copy swizzle modes)."""
TENSOR_MAP_RANK = 5
TENSOR_MAP_BOX = 256
TENSOR_MAP_SIZE = 1 << 32
TENSOR_MAP_STRIDE_BYTES = 1 << 40
TENSOR_MAP_ELEMENT_STRIDE = 8
"""The most that a tensor map takes: dimensions, extent of a box, of the tensor, bytes of a stride, element stride
(driver, cuTensorMapEncodeTiled)."""
TENSOR_MAP_COORDINATE = (1 << 31) - 1
"""Coordinates are signed 32-bit integers (PTX, cp.async.bulk.tensor)."""

MATRIX_ROWS = 8
"""Of a matrix (PTX, ldmatrix: .m8n8)."""
MATRIX_ROW_BYTES = 16
MATRIX_ELEMENT_BYTES = 2
"""Of what the instruction takes for an element (PTX, ldmatrix: .b16)."""
MATRIX_NBITS = (8, 16, 32)
"""Bits of the elements that ldmatrix and stmatrix can move: of the instruction's own, of bytes, two in place of one, or
of words, one in place of two (PTX, ldmatrix: .b16)."""
MATRIX_BYTES = (4, 8, 16)
"""That a lane holds of one, two or four 8 x 8 matrices: two elements of each (PTX, ldmatrix: .x1, .x2, .x4)."""
STMATRIX_CAPABILITY = (9, 0)
"""The first that has stmatrix (PTX, stmatrix: target architecture)."""

MMA_K_BYTES = 32
"""Of the dimension that is summed along, what one dense instruction of the tensor cores takes (PTX ISA, shapes of
wgmma.mma_async, mma.sync and tcgen05.mma)."""

WGMMA_ROWS = 64
MMA_SYNC_ROWS, MMA_SYNC_COLUMNS = 16, 8
"""Of the result of one instruction (PTX ISA, shapes of wgmma.mma_async, mma.m16n8k16)."""

FRAGMENT_COLUMNS, FRAGMENT_LANES = 8, 4
"""Of every so many columns of a result in registers, so many lanes have a pair of neighbours each (PTX ISA, wgmma:
register fragments of D; mma: matrix fragments of C)."""

TCGEN05_ROWS, TCGEN05_HALF_ROWS, TCGEN05_COLUMNS = 128, 64, 16
"""Of the result of tcgen05.mma of one block: rows in all lanes of tensor memory, or in 16 of each 32, and what its
columns are a multiple of (PTX ISA, "Data Path Layout Organization": layouts D and F; "Kinds of matrix-multiply")."""

TMEM_LANES = 128
TMEM_COLUMNS = 512
TMEM_COLUMN_BITS = 32
"""Tensor memory of an SM (PTX, tensor memory addressing)."""
TMEM_LEAST_COLUMNS = 32
"""The smallest number of columns that can be allocated (PTX, tcgen05.alloc)."""
TMEM_SUBPARTITIONS = 4
"""Warp w of a block reaches lanes 32 * (w % 4) to 32 * (w % 4) + 31 (PTX, tcgen05 data access restrictions)."""
TMEM_SHIFT_ROWS, TMEM_SHIFT_BYTES, TMEM_SHIFT_LANES = 31, 32, 1
"""Rows of a subpartition that a shift moves, bytes of each, and lanes that they move by (PTX, tcgen05.shift: .down,
.31x256b). Which way down is no figure of the manual says: `benchmarks.blackwell.first_day` asks a card."""
TMEM_ACCESS_REGISTERS = 128
"""Registers of a thread in one access (PTX, tcgen05.ld)."""
TMEM_ACCESS_SPARE_REGISTERS, TMEM_ACCESS_FEW_REGISTERS = 18, 4
"""Registers that ptxas (CUDA 13.0, sm_100a, sm_103a) wants beside those of an access, of ld and st and all shapes: of
16 words "Insufficient registers (32) to compile instruction ... Try to compile with register target of 34 or higher";
26, 50, 82 and 146 of 8, 32, 64 and 128. Accesses of few words are taken under every cap."""

_CLUSTER_SMS = ((2, 1.0), (8, 10 / 11), (16, 28 / 33))
"""Share of the multiprocessors that clusters of at most so many blocks find room on, one block an SM. A cluster lies in
one GPC, and GPCs are not of equal size (16 or 18 SMs on Hopper, fewer where some are switched off). H200, by
cuOccupancyMaxActiveClusters: 30 clusters of 4 and 15 of 8 on 132 SMs, all of 2. Of 16 blocks a GPC that has room for
two clusters of 8 holds one: of 15 those are 7 pairs, which is 112 SMs (worked out, not asked of a card)."""


def sms_for_clusters(sm_count: int, cluster: int) -> int:
    """Multiprocessors of a card with `sm_count` that clusters of so many blocks can use together, one block an SM.

    An estimate on the safe side, in whole clusters; the card itself says it where the kernel is loaded.
    """
    share = next((share for most, share in _CLUSTER_SMS if cluster <= most), _CLUSTER_SMS[-1][1])
    return max(1, int(sm_count * share + 1e-9) // cluster) * cluster if cluster > 2 else sm_count


@dataclass(frozen=True, slots=True)
class Arch:
    """Limits of one compile target.

    Sources: CUDA C++ programming guide, table "Technical Specifications per Compute Capability" (threads, blocks,
    registers, shared memory, grid); cuda_occupancy.h 13.0 (allocation units, carve-outs); tuning guides of Hopper and
    Blackwell (clusters); PTX ISA, `ld` (256-bit vectors), `cp.async.bulk.tensor` (TMA), `tcgen05` (tensor memory).
    """

    name: str
    capability: tuple[int, int]
    smem_carveouts_bytes: tuple[int, ...]
    max_cluster: int
    max_cluster_portable: int
    max_vector_bytes: int = MAX_WORD_BYTES
    has_tma: bool = True
    has_tmem: bool = False
    max_threads_per_sm: int = 2048
    max_blocks_per_sm: int = 32
    warp_threads: int = WARP_THREADS
    max_threads_per_block: int = 1024
    registers_per_sm: int = REGISTERS_PER_SM
    registers_per_block: int = REGISTERS_PER_SM
    max_registers_per_thread: int = MAX_REGISTERS
    register_unit_per_warp: int = 256
    subpartitions_per_sm: int = 4
    smem_per_block_default_bytes: int = 48 * _KIB
    smem_reserved_per_block_bytes: int = 1 * _KIB
    smem_unit_bytes: int = 128
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    max_block: tuple[int, int, int] = (1024, 1024, 64)

    @property
    def smem_per_sm_bytes(self) -> int:
        """Shared memory of one SM: the largest carve-out."""
        return self.smem_carveouts_bytes[-1]

    @property
    def smem_per_block_optin_bytes(self) -> int:
        """The most that a kernel may ask for one block: all of an SM but what the system keeps."""
        return self.smem_per_sm_bytes - self.smem_reserved_per_block_bytes

    @property
    def max_warps_per_sm(self) -> int:
        """Resident warps of one SM."""
        return self.max_threads_per_sm // self.warp_threads


def _kib(*sizes: int) -> tuple[int, ...]:
    return tuple(size * _KIB for size in sizes)


_AMPERE = Arch(
    name="sm_80",
    capability=(8, 0),
    smem_carveouts_bytes=_kib(0, 8, 16, 32, 64, 100, 132, 164),
    max_cluster=1,
    max_cluster_portable=1,
    has_tma=False,
)
_HOPPER = Arch(
    name="sm_90a",
    capability=(9, 0),
    smem_carveouts_bytes=_kib(0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
    max_cluster=16,
    max_cluster_portable=8,
)
_BLACKWELL = replace(_HOPPER, name="sm_100a", capability=(10, 0), max_vector_bytes=WIDE_WORD_BYTES, has_tmem=True)

_ARCHS = {
    arch.name: arch
    for arch in (
        _AMPERE,
        _HOPPER,
        _BLACKWELL,
        replace(_BLACKWELL, name="sm_103a", capability=(10, 3)),
        Arch(
            name="sm_120a",
            capability=(12, 0),
            max_threads_per_sm=1536,
            max_blocks_per_sm=24,
            smem_carveouts_bytes=_kib(0, 8, 16, 32, 64, 100),
            max_cluster=8,
            max_cluster_portable=8,
            max_vector_bytes=WIDE_WORD_BYTES,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class DramRates:
    """Bytes per second of device memory; `theoretical` from clock and bus, the others measured, None where not known.

    `copy` counts bytes read plus bytes written.
    """

    theoretical: float
    copy: float | None
    read: float | None
    write: float | None

    @property
    def best_copy(self) -> float:
        """The measured copy rate, else an estimate: the share of the theoretical rate that measured cards reach."""
        return self.copy if self.copy is not None else _REACHED_SHARE * self.theoretical

    @property
    def best_read(self) -> float:
        """The measured read rate, else the estimate of `best_copy`."""
        return self.read if self.read is not None else self.best_copy

    @property
    def best_write(self) -> float:
        """The measured write rate, else the estimate of `best_copy`."""
        return self.write if self.write is not None else self.best_copy


_REACHED_SHARE = 0.88
"""Copy over theoretical rate: 0.87 on H200 (4.27 of 4.92 TB/s) and 0.89 on H100 (3.0 of 3.35 TB/s)."""


@dataclass(frozen=True, slots=True)
class Card:
    """Facts of one GPU model. `sources` maps a field, or `dram.<rate>`, to the document its figure comes from.

    `empty_launch_us`: what an empty kernel takes in a CUDA graph of nothing else; None where nobody has measured it.
    """

    name: str
    aliases: tuple[str, ...]
    arch: Arch
    sm_count: int
    max_sm_clock_mhz: int
    max_memory_clock_mhz: int
    memory_bytes: int
    l2_bytes: int
    power_w: int
    empty_launch_us: float | None
    dram: DramRates
    sources: Mapping[str, str] = field(compare=False)

    @property
    def least_launch_us(self) -> float:
        """`empty_launch_us`; where it was not measured, the least of the cards on which it was."""
        if self.empty_launch_us is not None:
            return self.empty_launch_us
        return min(card.empty_launch_us for card in cards() if card.empty_launch_us is not None)

    @property
    def key(self) -> str:
        """The card's part of a cache key (docs/contracts.md, "Key"): all that makes two cards time alike."""
        major, minor = self.arch.capability
        return (
            f"{self.name}, {self.sm_count} SMs, {self.max_sm_clock_mhz}/{self.max_memory_clock_mhz} MHz, "
            f"{self.memory_bytes} B, L2 {self.l2_bytes} B, {self.power_w} W, {major}.{minor}"
        )


def arch_named(name: str) -> Arch:
    """The architecture of compile target `name`, such as `sm_90a`. Raises UnknownArch."""
    try:
        return _ARCHS[name.strip().lower()]
    except KeyError:
        raise UnknownArch(name, tuple(_ARCHS)) from None


def arch_names() -> tuple[str, ...]:
    """Every compile target, oldest first."""
    return tuple(_ARCHS)


def card_named(name: str) -> Card:
    """The card called `name` or with that alias, case ignored. Raises UnknownCard."""
    try:
        return _cards_by_name()[_folded(name)]
    except KeyError:
        raise UnknownCard(name, tuple(card.name for card in cards())) from None


def card_or_default(name: str | None) -> Card:
    """The card called `name`, the default one without a name. Raises UnknownCard."""
    return card_named(name or DEFAULT_CARD)


def card_like(name: str, capability: tuple[int, int], read: Mapping[str, int]) -> Card:
    """The card called `name` with what was `read` off it: some of `READ_FACTS`, by name.

    A card that the table lacks takes the rest from one of its architecture. Raises Unsupported if there is none.
    """
    try:
        card = card_named(name)
    except UnknownCard:
        alike = [card for card in cards() if card.arch.capability == capability]
        if not alike:
            major, minor = capability
            raise Unsupported(f"{name} (compute capability {major}.{minor})", "Name a card that is known.") from None
        card = replace(alike[0], name=name, aliases=())
    return replace(card, **dict[str, Any](read))


@cache
def cards() -> tuple[Card, ...]:
    """Every card of `cards.json`, in file order."""
    return load_cards(_CARDS_FILE)


def least_sm_count(arch: Arch) -> int:
    """Multiprocessors of the smallest card of an architecture that `cards.json` has."""
    return min(card.sm_count for card in cards() if card.arch == arch)


def load_cards(path: Path) -> tuple[Card, ...]:
    """The cards of a JSON file. Raises ValueError, naming card and field, for anything missing, unknown or mistyped."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entries, list):
        raise ValueError(f"{path.name}: found {type(entries).__name__}, expected a list of cards.")
    loaded = tuple(_card(entry, f"{path.name}[{position}]") for position, entry in enumerate(entries))
    _index(loaded)
    return loaded


@cache
def _cards_by_name() -> dict[str, Card]:
    return _index(cards())


def _index(loaded: tuple[Card, ...]) -> dict[str, Card]:
    index: dict[str, Card] = {}
    for card in loaded:
        for name in {_folded(n) for n in (card.name, *card.aliases)}:
            if name in index:
                raise ValueError(f"{card.name}: the name {name!r} is also one of {index[name].name}. Drop one of them.")
            index[name] = card
    return index


def _folded(name: str) -> str:
    return " ".join(name.lower().replace("-", " ").replace("_", " ").split())


READ_FACTS = (
    "sm_count",
    "max_sm_clock_mhz",
    "max_memory_clock_mhz",
    "memory_bytes",
    "l2_bytes",
    "power_w",
)
"""Fields of a card that are read off an attached one, and that its key has beside name and capability."""

_OTHER_FIELDS = ("name", "aliases", "arch", "empty_launch_us", "dram_bytes_per_s", "sources")
_RATES = ("theoretical", "copy", "read", "write")


def _card(entry: object, where: str) -> Card:
    fields = _object(entry, where, {*READ_FACTS, *_OTHER_FIELDS})
    where = f"{where} ({fields['name']})"
    rates = _object(fields["dram_bytes_per_s"], f"{where}.dram_bytes_per_s", set(_RATES))
    theoretical, copy, read, write = (_rate(rates[rate], f"{where}.dram_bytes_per_s.{rate}") for rate in _RATES)
    if theoretical is None:
        raise ValueError(
            f"{where}.dram_bytes_per_s.theoretical: found null, expected a rate. Compute clock x bus width."
        )
    empty_launch_us = _rate(fields["empty_launch_us"], f"{where}.empty_launch_us")
    measured = () if empty_launch_us is None else ("empty_launch_us",)
    known = {"arch", *READ_FACTS, *measured, *(f"dram.{rate}" for rate in _RATES if rates[rate] is not None)}
    sources = _object(fields["sources"], f"{where}.sources", known)
    if not isinstance(fields["aliases"], list):
        raise ValueError(f"{where}.aliases: found {fields['aliases']!r}, expected a list of names.")
    return Card(
        name=_text(fields["name"], f"{where}.name"),
        aliases=tuple(_text(alias, f"{where}.aliases") for alias in fields["aliases"]),
        arch=arch_named(_text(fields["arch"], f"{where}.arch")),
        empty_launch_us=empty_launch_us,
        dram=DramRates(theoretical, copy, read, write),
        sources={name: _text(source, f"{where}.sources.{name}") for name, source in sources.items()},
        **{name: _positive(fields[name], f"{where}.{name}") for name in READ_FACTS},
    )


def _object(value: object, where: str, keys: set[str]) -> dict[str, object]:
    """`value` as an object with exactly `keys`."""
    if not isinstance(value, dict):
        raise ValueError(f"{where}: found {type(value).__name__}, expected an object.")
    missing, unknown = sorted(keys - value.keys()), sorted(value.keys() - keys)
    if missing or unknown:
        raise ValueError(f"{where}: missing {missing}, unknown {unknown}. Expected exactly {sorted(keys)}.")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where}: found {value!r}, expected a non-empty string.")
    return value


def _positive(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{where}: found {value!r}, expected a positive integer.")
    return value


def _rate(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ValueError(f"{where}: found {value!r}, expected a number above 0 or null.")
    return float(value)
