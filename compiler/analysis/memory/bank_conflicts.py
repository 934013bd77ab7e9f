"""Shared-memory wavefronts of one warp access, from its 32 addresses.

Model: shared memory has 32 banks of 4 bytes and serves one wavefront a cycle. Lanes that read the same word share it;
two different words of one bank need two wavefronts. An access of 8 bytes a lane is served in two phases of 16 lanes,
one of 16 bytes in four phases of 8 lanes, so only lanes of one phase conflict (CUDA C++ programming guide, "Shared
Memory", for banks and broadcast; the phases are long-standing microbenchmark results).
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arch import BANK_BYTES, BANKS, WARP_THREADS, WORD_BYTES


def wavefronts(addresses: Sequence[int], width_bytes: int) -> int:
    """Wavefronts of a warp whose lane i touches `width_bytes` bytes at byte address `addresses[i]`.

    A warp with fewer lanes than 32 has fewer addresses. Raises ValueError for none or more than 32, a width no
    instruction has, or an address that is not a multiple of the width (PTX ISA, "Addresses as Operands": natural
    alignment).
    """
    _check(addresses, width_bytes)
    lanes = WARP_THREADS // ideal_wavefronts(width_bytes)
    return sum(
        _wavefronts_of_phase(addresses[first : first + lanes], width_bytes) for first in range(0, len(addresses), lanes)
    )


def ideal_wavefronts(width_bytes: int) -> int:
    """Wavefronts of a warp access without conflicts: 1 up to 4 bytes a lane, 2 for 8, 4 for 16."""
    return max(1, width_bytes * WARP_THREADS // (BANKS * BANK_BYTES))


def _wavefronts_of_phase(addresses: Sequence[int], width_bytes: int) -> int:
    words: list[set[int]] = [set() for _ in range(BANKS)]
    for address in addresses:
        for word in range(address // BANK_BYTES, (address + width_bytes - 1) // BANK_BYTES + 1):
            words[word % BANKS].add(word)
    return max(map(len, words))


def _check(addresses: Sequence[int], width_bytes: int) -> None:
    if width_bytes not in WORD_BYTES:
        raise ValueError(f"width_bytes: found {width_bytes}, expected one of {WORD_BYTES}.")
    if not 1 <= len(addresses) <= WARP_THREADS:
        raise ValueError(f"addresses: found {len(addresses)}, expected 1 to {WARP_THREADS}, one a lane.")
    for lane, address in enumerate(addresses):
        if address < 0 or address % width_bytes:
            raise ValueError(f"addresses[{lane}]: found {address}, expected a multiple of {width_bytes}, from 0.")
