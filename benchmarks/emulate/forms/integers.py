"""Integer arithmetic, logic, shifts and comparisons (PTX ISA, "Integer Arithmetic Instructions" and those after it)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.emulate.form import InstructionForm
from benchmarks.emulate.forms.elementwise import elementwise

_form = partial(elementwise, family="integer")
_INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    yield from _arithmetic()
    yield from _products()
    yield from _carries()
    yield from _bits()
    yield from _comparisons()


def _arithmetic() -> Iterator[InstructionForm]:
    for kind in _INTEGERS:
        for op in ("add", "sub", "min", "max"):
            yield _form(f"{op}.{kind}", f"{kind} {kind}", kind)
        yield _form(f"sad.{kind}", f"{kind} {kind} {kind}", kind)
        for op in ("div", "rem"):  # by zero too: PTX leaves it open, the assembler's code does not
            yield _form(f"{op}.{kind}", f"{kind} {kind}", kind)
        if kind[0] == "s":
            yield _form(f"abs.{kind}", kind, kind)
            yield _form(f"neg.{kind}", kind, kind)
    for op in ("add", "sub"):
        yield _form(f"{op}.sat.s32", "s32 s32", "s32")
    for kind in ("u16x2", "s16x2"):
        for op in ("add", "min", "max"):
            yield _form(f"{op}.{kind}", f"{kind} {kind}", kind)
    for op in ("min", "max"):
        yield _form(f"{op}.relu.s16x2", "s16x2 s16x2", "s16x2")
        yield _form(f"{op}.relu.s32", "s32 s32", "s32")


def _products() -> Iterator[InstructionForm]:
    for kind in _INTEGERS:
        for half in ("lo", "hi"):
            yield _form(f"mul.{half}.{kind}", f"{kind} {kind}", kind)
            yield _form(f"mad.{half}.{kind}", f"{kind} {kind} {kind}", kind)
        if kind in _WIDER:
            wide = _WIDER[kind]
            yield _form(f"mul.wide.{kind}", f"{kind} {kind}", wide)
            yield _form(f"mad.wide.{kind}", f"{kind} {kind} {wide}", wide)
    yield _form("mad.hi.sat.s32", "s32 s32 s32", "s32")
    for kind in ("u32", "s32"):
        for half in ("lo", "hi"):
            yield _form(f"mul24.{half}.{kind}", f"{kind} {kind}", kind)
            yield _form(f"mad24.{half}.{kind}", f"{kind} {kind} {kind}", kind)
    yield _form("mad24.hi.sat.s32", "s32 s32 s32", "s32")
    for a in ("u32", "s32"):
        for b in ("u32", "s32"):
            yield _form(f"dp4a.{a}.{b}", "b32 b32 b32", "b32")
            for half in ("lo", "hi"):
                yield _form(f"dp2a.{half}.{a}.{b}", "b32 b32 b32", "b32")


def _carries() -> Iterator[InstructionForm]:
    """Two instructions: the carry has no other way out."""
    for kind in ("u32", "s32", "u64", "s64"):
        width = kind[1:]
        zero = f".reg .b{width} z;\nmov.b{width} z, 0;\n"
        for first, second in (("add.cc", "addc"), ("sub.cc", "subc")):
            body = f"{{\n{zero}{first}.{kind} %0, %1, %2;\n{second}.{kind} %0, z, z;\n}}"
            yield _form(f"{first}.{kind} {second}", f"{kind} {kind}", kind, body=body)
            both = f"{{\n{zero}{first}.{kind} z, %1, %2;\n{second}.cc.{kind} %0, %1, %3;\n}}"
            yield _form(f"{first}.{kind} {second}.cc", f"{kind} {kind} {kind}", kind, body=both)
        for half in ("lo", "hi"):
            body = f"{{\n{zero}mad.{half}.cc.{kind} %0, %1, %2, %3;\naddc.{kind} %0, %0, z;\n}}"
            yield _form(f"mad.{half}.cc.{kind} addc", f"{kind} {kind} {kind}", kind, body=body)
            body = f"{{\n{zero}add.cc.{kind} z, %1, %2;\nmadc.{half}.{kind} %0, %1, %2, %3;\n}}"
            yield _form(f"madc.{half}.{kind}", f"{kind} {kind} {kind}", kind, body=body)
            chain = f"add.cc.{kind} z, %1, %2;\nmadc.{half}.cc.{kind} z, %1, %2, %3;\naddc.{kind} %0, %3, 0;\n"
            yield _form(f"madc.{half}.cc.{kind} addc", f"{kind} {kind} {kind}", kind, body=f"{{\n{zero}{chain}}}")
        for name, chain in (
            (f"mad.lo.cc.{kind} madc.hi", "mad.lo.cc.T z, %1, %2, %3;\nmadc.hi.T %0, %1, %2, 0;\n"),
            (
                f"add.cc.{kind} addc.cc addc.cc addc",
                "add.cc.T z, %1, %2;\naddc.cc.T z, %2, %3;\naddc.cc.T %0, z, %1;\naddc.T %0, %0, 0;\n",
            ),
            (f"sub.cc.{kind} subc.cc subc", "sub.cc.T z, %1, %2;\nsubc.cc.T z, %2, %3;\nsubc.T %0, z, %1;\n"),
        ):
            body = f"{{\n{zero}{chain.replace('.T ', f'.{kind} ')}}}"
            yield _form(name, f"{kind} {kind} {kind}", kind, body=body)


def _bits() -> Iterator[InstructionForm]:
    for width in ("b16", "b32", "b64"):
        for op in ("and", "or", "xor"):
            yield _form(f"{op}.{width}", f"{width} {width}", width)
        for op in ("not", "cnot"):
            yield _form(f"{op}.{width}", width, width)
        yield _form(f"shl.{width}", f"{width} shift", width)
    for kind in _INTEGERS:
        yield _form(f"shr.{kind}", f"{kind} shift", kind)
    for width in ("b32", "b64"):
        for op in ("popc", "clz"):
            yield _form(f"{op}.{width}", width, "u32")
        yield _form(f"brev.{width}", width, width)
    for kind in ("u32", "s32", "u64", "s64"):
        yield _form(f"bfind.{kind}", kind, "u32")
        yield _form(f"bfind.shiftamt.{kind}", kind, "u32")
        yield _form(f"bfe.{kind}", f"{kind} field field", kind)
    for width in ("b32", "b64"):
        body = f"bfi.{width} %0, %1, %2, %3, 9;"
        yield _form(f"bfi.{width} length 9", f"{width} {width} field", width, body=body)
        body = f"bfi.{width} %0, %1, %2, 5, %3;"
        yield _form(f"bfi.{width} position 5", f"{width} {width} field", width, body=body)
        for shift, mask in ((7, 127), (9, 511)):
            parts = f".reg .b32 p, n;\nand.b32 p, %3, {mask};\nshr.u32 n, %3, {shift};\nand.b32 n, n, {mask};\n"
            body = f"{{\n{parts}bfi.{width} %0, %1, %2, p, n;\n}}"
            yield _form(f"bfi.{width} counts of {shift} bits", f"{width} {width} b32", width, body=body)
    for mode in ("clamp", "wrap"):
        yield _form(f"bmsk.{mode}.b32", "shift shift", "b32")
        for kind in ("u32", "s32"):
            yield _form(f"szext.{mode}.{kind}", f"{kind} shift", kind)
        for way in ("l", "r"):
            yield _form(f"shf.{way}.{mode}.b32", "b32 b32 shift", "b32")
    for table in (0x00, 0x1B, 0x80, 0x96, 0xE8, 0xFE):
        name = f"lop3.b32 {table:#04x}"
        yield _form(name, "b32 b32 b32", "b32", body=f"lop3.b32 %0, %1, %2, %3, {table};")
    for logic in ("or", "and"):
        body = (
            "{\n.reg .pred p, q;\nsetp.gt.s32 q, %3, 0;\n"
            f"lop3.{logic}.b32 %0|p, %1, %2, %3, 0x40, q;\n@p xor.b32 %0, %0, 1;\n}}"
        )
        yield _form(f"lop3.{logic}.b32 d|p", "b32 b32 b32", "b32", body=body)
    for op in ("and", "or", "xor"):
        body = (
            "{\n.reg .pred p, q;\nsetp.gt.s32 p, %1, 0;\nsetp.gt.s32 q, %2, 0;\n"
            f"{op}.pred p, p, q;\nnot.pred q, p;\nselp.u32 %0, 5, 0, p;\n@q or.b32 %0, %0, 2;\n}}"
        )
        yield _form(f"{op}.pred not.pred", "b32 b32", "u32", body=body)
    yield _form("prmt.b32", "b32 b32 b32", "b32")
    for selection in ("0x3210", "0x5410", "0xba98", "0x7362", "0x8d1f"):
        yield _form(f"prmt.b32 {selection}", "b32 b32", "b32", body=f"prmt.b32 %0, %1, %2, {selection};")
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield _form(f"prmt.b32.{mode}", "b32 b32 b32", "b32")


def _comparisons() -> Iterator[InstructionForm]:
    signed, unsigned = ("eq", "ne", "lt", "le", "gt", "ge"), ("lo", "ls", "hi", "hs")
    ordered = (*signed, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
    table = [
        *((k, signed) for k in ("s16", "s32", "s64")),
        *((k, (*signed, *unsigned)) for k in ("u16", "u32", "u64")),
        *((k, ("eq", "ne")) for k in ("b16", "b32", "b64")),
        *((k, ordered) for k in ("f32", "f64", "f16", "bf16")),
    ]
    for kind, comparisons in table:
        for how in comparisons:
            body = f"{{\n.reg .pred p;\nsetp.{how}.{kind} p, %1, %2;\nselp.u32 %0, 1, 0, p;\n}}"
            yield _form(f"setp.{how}.{kind}", f"{kind} {kind}", "u32", body=body)
    for how in ("lt", "ne"):
        for logic in ("and", "or", "xor"):
            body = (
                "{\n.reg .pred p, q, r;\nsetp.gt.s32 r, %3, 0;\n"
                f"setp.{how}.{logic}.s32 p|q, %1, %2, r;\nselp.u32 %0, 2, 0, p;\n@q or.b32 %0, %0, 1;\n}}"
            )
            yield _form(f"setp.{how}.{logic}.s32 p|q", "s32 s32 s32", "u32", body=body)
    for kind in ("f32", "f16"):
        for how in ("lt", "equ", "ge"):
            body = f"{{\n.reg .pred p;\nsetp.{how}.ftz.{kind} p, %1, %2;\nselp.u32 %0, 1, 0, p;\n}}"
            yield _form(f"setp.{how}.ftz.{kind}", f"{kind} {kind}", "u32", body=body)
    for kind in ("f16x2", "ftz.f16x2", "bf16x2"):
        operand = kind.removeprefix("ftz.")
        body = f"{{\n.reg .pred p, q;\nsetp.ge.{kind} p|q, %1, %2;\nselp.u32 %0, 2, 0, p;\n@q or.b32 %0, %0, 1;\n}}"
        yield _form(f"setp.ge.{kind}", f"{operand} {operand}", "u32", body=body)
    for result in ("u32", "s32", "f32"):
        for kind in ("s32", "u32", "f32", "u64", "f64"):
            yield _form(f"set.le.{result}.{kind}", f"{kind} {kind}", result)
    yield _form("set.gtu.f16.f16", "f16 f16", "f16")
    yield _form("set.num.bf16.bf16", "bf16 bf16", "bf16")
    yield _form("set.le.ftz.u32.f32", "f32 f32", "u32")
    yield _form("set.eq.u16.f16", "f16 f16", "u16")
    for logic in ("and", "or", "xor"):
        body = f"{{\n.reg .pred r;\nsetp.gt.s32 r, %3, 0;\nset.lt.{logic}.u32.s32 %0, %1, %2, r;\n}}"
        yield _form(f"set.lt.{logic}.u32.s32", "s32 s32 s32", "u32", body=body)
    yield _form("set.lt.f16x2.f16x2", "f16x2 f16x2", "f16x2")
    yield _form("set.geu.bf16x2.bf16x2", "bf16x2 bf16x2", "bf16x2")
    yield _form("set.neu.ftz.u32.f16x2", "f16x2 f16x2", "u32")
    yield _form("slct.ftz.b32.f32", "b32 b32 f32", "b32")
    for kind in ("b16", "b32", "b64", "f32", "f64"):
        body = f"{{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\nselp.{kind} %0, %1, %2, p;\n}}"
        yield _form(f"selp.{kind}", f"{kind} {kind} lane", kind, body=body)
        yield _form(f"slct.{kind}.s32", f"{kind} {kind} s32", kind)
        yield _form(f"slct.{kind}.f32", f"{kind} {kind} f32", kind)
