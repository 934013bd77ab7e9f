"""Every form of operand, as written and as data."""

from __future__ import annotations

import struct

import pytest

from compiler.emulate.ptx.errors import PtxError
from compiler.emulate.ptx.module import (
    Address,
    Immediate,
    LabelRef,
    Negated,
    Operand,
    Pair,
    PtxSymbol,
    Register,
    Sink,
    Special,
    Vector,
)
from tests.emulate.ptx.pieces import instruction, kernel

TENSOR_COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
ONE_AND_A_HALF = struct.unpack("<Q", struct.pack("<d", 1.5))[0]


def shown(operand: Operand) -> str:
    """An operand in a notation of its own, so that a table of cases stays readable."""
    match operand:
        case Register(name, type_):
            return f"{name}:{type_}"
        case Immediate(value, kind):
            return str(value) if kind == "int" else f"{kind}:{value:x}"
        case Special(name):
            return f"special {name}"
        case PtxSymbol(name, offset):
            return f"symbol {name}{offset:+}"
        case LabelRef(name, target):
            return f"label {name}@{target}"
        case Negated(register):
            return f"not {register.name}"
        case Sink():
            return "sink"
        case Vector(items):
            return "{" + " ".join(map(shown, items)) + "}"
        case Pair(first, second):
            return f"{shown(first)} | {shown(second)}"
        case Address(base, offset, coordinates, extra):
            more = "".join(f" ({' '.join(map(shown, part))})" for part in (coordinates, extra) if part)
            return f"at {shown(base)}{offset:+}{more}"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("%r1", "%r1:b32"),
        (" a ", "a:b32"),
        ("12", "12"),
        ("-7", "-7"),
        ("0x1F", "31"),
        ("-0x80000000", "-2147483648"),
        ("0XffU", "255"),
        ("5U", "5"),
        ("017", "15"),
        ("0b101", "5"),
        ("0", "0"),
        ("WARP_SZ", "32"),
        ("WARP_SZ - 1", "31"),
        ("(1 << 4) | 3", "19"),
        ("-7 / 2", "-3"),
        ("-7 % 4", "-3"),
        ("2 + 3 * 4", "14"),
        ("1 < 2 ? 10 : 20", "10"),
        ("~0", "-1"),
        ("(.u64)-1", "18446744073709551615"),
        ("0f3F800000", "f32:3f800000"),
        ("0F3f800000", "f32:3f800000"),
        ("-0f3F800000", "f32:bf800000"),
        ("0d3FF8000000000000", "f64:3ff8000000000000"),
        ("1.5", f"f64:{ONE_AND_A_HALF:x}"),
        ("15e-1", f"f64:{ONE_AND_A_HALF:x}"),
        ("%tid.x", "special %tid.x"),
        ("%clock64", "special %clock64"),
        ("%cluster_ctarank", "special %cluster_ctarank"),
        ("tile", "symbol tile+0"),
        ("tile+4", "symbol tile+4"),
        ("tile - 4", "symbol tile-4"),
        ("!%p1", "not %p1"),
        ("_", "sink"),
        ("{%r1, %r2}", "{%r1:b32 %r2:b32}"),
        ("{_, 1}", "{sink 1}"),
        ("{%r1}", "{%r1:b32}"),
        ("%r1|%p1", "%r1:b32 | %p1:pred"),
        ("_|%p1", "sink | %p1:pred"),
        ("%p1 | %p2", "%p1:pred | %p2:pred"),
        ("v", "{v.x:f32 v.y:f32 v.z:f32 v.w:f32}"),
        ("v.y", "v.y:f32"),
        ("v.b", "v.z:f32"),
        ("[%rd1]", "at %rd1:b64+0"),
        ("[ %rd1 + 8 ]", "at %rd1:b64+8"),
        ("[%rd1+-8]", "at %rd1:b64-8"),
        ("[%rd1-8]", "at %rd1:b64-8"),
        ("[%rd1+0x10]", "at %rd1:b64+16"),
        ("[%rd1+4*4]", "at %rd1:b64+16"),
        ("[tile]", "at symbol tile+0+0"),
        ("[tile+12]", "at symbol tile+0+12"),
        ("[k_param_0]", "at symbol k_param_0+0+0"),
        ("[1024]", "at 1024+0"),
        ("[1024+8]", "at 1032+0"),
        ("[%rd1, {%r1, %r2}]", "at %rd1:b64+0 (%r1:b32 %r2:b32)"),
        ("[%rd1, {%r1,%r2,0}, {%rs1}]", "at %rd1:b64+0 (%r1:b32 %r2:b32 0) (%rs1:b16)"),
    ],
)
def test_an_operand(written: str, expected: str) -> None:
    insn = instruction(f"mov.b32 {written};")
    assert [shown(o) for o in insn.operands] == [expected]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            f"{TENSOR_COPY}.tile [%r1], [%rd1, {{%r2,%r3}}], [%r4]",
            ["at %r1:b32+0", "at %rd1:b64+0 (%r2:b32 %r3:b32)", "at %r4:b32+0"],
        ),
        (
            f"{TENSOR_COPY}.im2col [%r1], [%rd1, {{0,0,0}}], [%r4], {{%rs1}}",
            ["at %r1:b32+0", "at %rd1:b64+0 (0 0 0)", "at %r4:b32+0", "{%rs1:b16}"],
        ),
        ("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1", ["%r1:b32 | %p1:pred", "%r2:b32", "1", "31", "-1"]),
        (
            "st.global.v4.f32 [%rd1+16], {%f0, %f1, 0f00000000, %f2}",
            ["at %rd1:b64+16", "{%f0:f32 %f1:f32 f32:0 %f2:f32}"],
        ),
        ("setp.eq.and.s32 %p1|%p2, %r1, 0, !q", ["%p1:pred | %p2:pred", "%r1:b32", "0", "not q"]),
        ("bar.sync 0", ["0"]),
        ("ret", []),
    ],
)
def test_an_instruction(written: str, expected: list[str]) -> None:
    insn = instruction(f"{written};")
    assert [shown(o) for o in insn.operands] == expected
    assert insn.text == written
    assert insn.name == tuple(written.split()[0].split("."))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("call.uni (tile), k, (tile, %r1), q", "{symbol tile+0} / symbol k+0 / {symbol tile+0 %r1:b32} / q:pred"),
        ("call (tile), \n %rd1, \n (\n)", "{symbol tile+0} / %rd1:b64 / {}"),
        ("call k, (tile)", "{} / symbol k+0 / {symbol tile+0}"),
        ("call k", "{} / symbol k+0 / {}"),
    ],
)
def test_a_call(written: str, expected: str) -> None:
    assert " / ".join(shown(o) for o in instruction(f".shared .b32 k; {written};").operands) == expected


@pytest.mark.parametrize(
    ("guard", "register", "negated"), [("@%p1", "%p1", False), ("@!%p1", "%p1", True), ("@ ! q", "q", True)]
)
def test_a_guard(guard: str, register: str, negated: bool) -> None:
    insn = instruction(f"{guard} mov.b32 %r1, 2;")
    assert insn.guard is not None
    assert (insn.guard.name, insn.guard_negated, insn.text) == (register, negated, "mov.b32 %r1, 2;"[:-1])


@pytest.mark.parametrize(
    "written",
    [
        "mov.b32 %r1, ;",
        "mov.b32 , %r1;",
        "mov.b32 %r1,, %r2;",
        "mov.b32 %r1 %r2;",
        "mov.b32 %r16, 0;",  # the range ends at %r15
        "mov.b32 %r01, 0;",
        "mov.b32 %x1, 0;",
        "mov.b32 nobody, 0;",
        "mov.b32 %tid.q, 0;",
        "mov.b32 {%r1, %r2, 0;",
        "ld.global.b32 %r1, [%rd1;",
        "ld.global.b32 %r1, [];",
        "ld.global.b32 %r1, [%rd1+%rd2];",
        "ld.global.b32 %r1, [0f3F800000];",
        "mov.b32 %r1, 09;",
        "mov.b32 %r1, 0x;",
        "mov.b64 %rd1, 0x10000000000000000;",
        "mov.b32 %r1, 1 / 0;",
        "mov.b32 %r1, v.q;",
        "mov.b32 %r1, %r2.x;",
        "mov.b32 %r1|%r2|%r3, 0;",
        "@%r1 mov.b32 %r1, 0;",
        "@%p9 mov.b32 %r1, 0;",
        "call (tile, k;",
        "call;",
        "mov.b32 %r1, 0\nmov.b32 %r2, 0;",
    ],
)
def test_what_is_no_instruction_is_refused_at_its_line(written: str) -> None:
    with pytest.raises(PtxError) as caught:
        kernel(
            "mov.b32 %r1, 0;\n" + written,
            declared=" .reg .b32 %r<16>; .reg .pred %p<4>; .reg .b64 %rd<8>; .reg .v4 .f32 v; .shared .b8 tile[4];",
        )
    assert caught.value.line == 6
    assert caught.value.fix.endswith(".")
