"""Calls that could not be put in line (`ptx.inline`): named, so that the report says why the run ends there."""

from __future__ import annotations

from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.ptx.module import PtxInstruction, PtxSymbol
from compiler.emulate.registry import Run, instruction


@instruction("call")
def call(insn: PtxInstruction, binder: Binder) -> Run:
    """Raises UnknownForm: calls are put in line before; recursive ones and those through a pointer cannot be."""
    callee = insn.operands[1]
    if isinstance(callee, PtxSymbol):
        raise UnknownForm(f"how to call {callee.name} here: it is recursive, or has no body in this module")
    raise UnknownForm("calls through a function pointer")
