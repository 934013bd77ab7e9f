"""Addresses between spaces, and hints to the caches (PTX ISA, "cvta", "isspacep", "prefetch", "createpolicy")."""

from __future__ import annotations

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import elementwise, spread
from compiler.emulate.memory.windows import (
    CLUSTER_RANK_SHIFT,
    CONST_WINDOW,
    LOCAL_WINDOW,
    LOW_32_BITS,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW_BITS,
)
from compiler.emulate.ptx.module import Address, PtxInstruction
from compiler.emulate.registry import Run, instruction

_WINDOWS = {
    "shared": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW,
    "const": CONST_WINDOW,
}


def _space(insn: PtxInstruction) -> str:
    """The space that the name tells, without its scope (`shared::cta` is shared). Raises UnknownForm if none."""
    for word in insn.name[1:]:
        space = word.partition("::")[0]
        if space == "global" or space in _WINDOWS:
            return space
    raise UnknownForm(f"the form {'.'.join(insn.name)}")


@instruction("cvta")
def build_cvta(insn: PtxInstruction, binder: Binder) -> Run:
    """`cvta`: an address of a space as a generic one; `cvta.to`: the other way. Global addresses are the same."""
    space, word = _space(insn), np.dtype(f"u{4 if insn.name[-1] == 'u32' else 8}")
    if space == "global" or word.itemsize == 4:
        return elementwise(insn, binder, np.asarray, word, word)
    if insn.has("to"):
        return elementwise(insn, binder, lambda a: a & LOW_32_BITS, word, word)
    window = _WINDOWS[space]
    return elementwise(insn, binder, lambda a: (a & LOW_32_BITS) | window, word, word)


@instruction("isspacep")
def build_isspacep(insn: PtxInstruction, binder: Binder) -> Run:
    """`isspacep`: whether a generic address lies in the window of a space.

    `shared::cta` is the memory of the own block only, also where a `mapa` address names it by its rank.
    """
    space, own_only = _space(insn), insn.has("shared::cta")
    address = binder.reader(insn.operands[1], np.uint64, insn)
    write = binder.writer(insn.operands[0], np.bool_, insn)
    windows = np.array(sorted(_WINDOWS.values()), np.uint64) >> WINDOW_BITS

    def run(active: Active) -> None:
        addresses = address(active)
        number = addresses >> WINDOW_BITS
        if space == "global":
            write(active, ~np.isin(number, windows))
            return
        inside = number == _WINDOWS[space] >> WINDOW_BITS
        if own_only:
            rank = (addresses & LOW_32_BITS) >> CLUSTER_RANK_SHIFT
            own = (active.slots % active.machine.threads.cluster_blocks).astype(np.uint64) + np.uint64(1)
            inside = inside & ((rank == 0) | (rank == own))
        write(active, spread(np.asarray(inside), active))

    return run


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def build_hint(insn: PtxInstruction, binder: Binder) -> Run:
    """Hints to the caches: the address is read, nothing is done with it.

    `discard` lets the memory forget what it held; reading it afterwards is the kernel's risk, which is not modelled.
    """
    (place,) = (o for o in insn.operands if isinstance(o, Address))
    address = binder.address(place, insn)

    def run(active: Active) -> None:
        address(active)

    return run


@instruction("createpolicy")
def build_policy(insn: PtxInstruction, binder: Binder) -> Run:
    """`createpolicy`: an opaque word for the caches."""
    write = binder.writer(insn.operands[0], np.uint64, insn)
    return lambda active: write(active, np.zeros((), np.uint64))
