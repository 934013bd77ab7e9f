"""Small PTX modules for the tests of the front end."""

from __future__ import annotations

from compiler.emulate.ptx.module import Function, PtxInstruction
from compiler.emulate.ptx.parser import parse

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"

DECLARED = """
.reg .pred %p<4>, q;
.reg .b16 %rs<4>;
.reg .b32 %r<16>, a;
.reg .f32 %f<4>;
.reg .b64 %rd<8>;
.reg .v4 .f32 v;
.shared .align 16 .b8 tile[64];
"""


def kernel(body: str, declared: str = DECLARED) -> Function:
    """A kernel `k` of one parameter, `k_param_0`, with the registers of DECLARED."""
    text = f"{HEAD}.visible .entry k(.param .u64 k_param_0)\n{{{declared}{body}\n}}\n"
    return parse(text).functions["k"]


def instruction(text: str) -> PtxInstruction:
    """The first instruction of a kernel."""
    return kernel(text).instructions[0]
