"""Conversions between all types (PTX ISA, "Data Movement and Conversion Instructions: cvt")."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.emulate.form import InstructionForm
from benchmarks.emulate.forms.elementwise import elementwise

_form = partial(elementwise, family="cvt")
_INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_FLOATS = ("f16", "bf16", "f32", "f64")
_TO_INTEGER = ("rni", "rzi", "rmi", "rpi")
_TO_FLOAT = ("rn", "rz", "rm", "rp")


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    yield from _integers()
    yield from _mixed()
    yield from _floats()
    yield from _packed()
    yield from _moves()


def _integers() -> Iterator[InstructionForm]:
    for to in _INTEGERS:
        for of in _INTEGERS:
            if to != of:
                yield _form(f"cvt.{to}.{of}", of, _slot(to))
                if not _holds(to, of):
                    yield _form(f"cvt.sat.{to}.{of}", of, _slot(to))


def _mixed() -> Iterator[InstructionForm]:
    for integer in _INTEGERS:
        for real in _FLOATS:
            if real != "bf16" or integer not in ("u8", "s8"):
                for rounding in _TO_FLOAT:
                    yield _form(f"cvt.{rounding}.{real}.{integer}", integer, real)
                for rounding in _TO_INTEGER:
                    yield _form(f"cvt.{rounding}.{integer}.{real}", f"{real}>int", _slot(integer))
    for integer in _INTEGERS:
        yield _form(f"cvt.rzi.ftz.{integer}.f32", "f32>int", _slot(integer))
        yield _form(f"cvt.rpi.ftz.{integer}.f32", "f32>int", _slot(integer))
        yield _form(f"cvt.rzi.sat.{integer}.f32", "f32>int", _slot(integer))
        yield _form(f"cvt.rni.sat.{integer}.f64", "f64>int", _slot(integer))
        yield _form(f"cvt.rmi.sat.{integer}.f16", "f16>int", _slot(integer))
        for real in ("f16", "f32", "f64"):
            yield _form(f"cvt.rn.sat.{real}.{integer}", integer, real)


def _floats() -> Iterator[InstructionForm]:
    for rounding in _TO_FLOAT:
        for modifier in ("", ".ftz", ".sat", ".ftz.sat"):
            yield _form(f"cvt.{rounding}{modifier}.f32.f64", "f64>f32", "f32")
        for half in ("f16", "bf16"):
            yield _form(f"cvt.{rounding}.{half}.f64", f"f64>{half}", half)
        yield _form(f"cvt.{rounding}.sat.f16.f64", "f64>f16", "f16")
    for rounding in ("rm", "rp"):
        yield _form(f"cvt.{rounding}.f16.f32", "f32>f16", "f16")
    for rounding in ("rn", "rz"):
        for half in ("f16", "bf16"):
            for modifier in ("", ".relu", ".satfinite", ".relu.satfinite"):
                yield _form(f"cvt.{rounding}{modifier}.{half}.f32", f"f32>{half}", half)
    for rounding in _TO_FLOAT:
        yield _form(f"cvt.{rounding}.sat.f16.f32", "f32>f16", "f16")
        yield _form(f"cvt.{rounding}.bf16.f16", "f16>bf16", "bf16")
        yield _form(f"cvt.{rounding}.f16.bf16", "bf16>f16", "f16")
    for to, of in (("f32", "f16"), ("f32", "bf16"), ("f64", "f32"), ("f64", "f16"), ("f64", "bf16")):
        yield _form(f"cvt.{to}.{of}", of, to)
    yield _form("cvt.ftz.f32.f16", "f16", "f32")
    yield _form("cvt.sat.f32.f16", "f16", "f32")
    yield _form("cvt.ftz.f64.f32", "f32", "f64")
    yield _form("cvt.sat.f64.f32", "f32", "f64")
    for modifier in ("rna", "rn", "rz", "rn.relu", "rz.relu"):
        yield _form(f"cvt.{modifier}.tf32.f32", "f32>tf32", "f32")
    for kind in _FLOATS:
        for rounding in _TO_INTEGER:
            yield _form(f"cvt.{rounding}.{kind}.{kind}", f"{kind}>int", kind)
            if kind in ("f16", "f32", "f64"):
                yield _form(f"cvt.{rounding}.sat.{kind}.{kind}", f"{kind}>int", kind)
    for kind in ("f16", "f32", "f64"):
        yield _form(f"cvt.sat.{kind}.{kind}", kind, kind)
    yield _form("cvt.rni.ftz.f32.f32", "f32>int", "f32")
    yield _form("cvt.rpi.ftz.sat.f32.f32", "f32>int", "f32")
    yield _form("cvt.ftz.f32.f32", "f32", "f32")
    yield _form("cvt.ftz.sat.f32.f32", "f32", "f32")


def _packed() -> Iterator[InstructionForm]:
    for kind in ("f16x2", "bf16x2"):
        for rounding in ("rn", "rz"):
            for relu in ("", ".relu", ".satfinite", ".relu.satfinite"):
                half = kind.removesuffix("x2")
                yield _form(f"cvt.{rounding}{relu}.{kind}.f32", f"f32>{half} f32>{half}", kind)
    for eight in ("e4m3x2", "e5m2x2"):
        of = f"f32>{eight.removesuffix('x2')}"
        for relu in ("", ".relu"):
            yield _form(f"cvt.rn.satfinite{relu}.{eight}.f32", f"{of} {of}", eight)
            yield _form(f"cvt.rn.satfinite{relu}.{eight}.f16x2", "f16x2", eight)
            yield _form(f"cvt.rn{relu}.f16x2.{eight}", eight, "f16x2")
    for kind in ("u16", "s16"):
        yield _form(f"cvt.pack.sat.{kind}.s32", "s32 s32", "b32")
    for kind in ("u8", "s8", "u4", "s4", "u2", "s2"):
        yield _form(f"cvt.pack.sat.{kind}.s32.b32", "s32 s32 b32", "b32")


def _moves() -> Iterator[InstructionForm]:
    """Packing and unpacking of registers."""
    yield _form("mov.b64 pack", "b32 b32", "b64", body="mov.b64 %0, {%1, %2};")
    yield _form("mov.b32 pack", "b16 b16", "b32", body="mov.b32 %0, {%1, %2};")
    body = "{\n.reg .b32 e;\nmov.b64 {%0, e}, %1;\nxor.b32 %0, %0, e;\n}"
    yield _form("mov.b64 unpack", "b64", "b32", body=body)
    body = "{\n.reg .b16 e, f;\nmov.b32 {e, f}, %1;\nmov.b32 %0, {f, e};\n}"
    yield _form("mov.b32 unpack", "b32", "b32", body=body)
    for kind in ("b16", "b32", "b64", "f32", "f64", "u32", "s64"):
        yield _form(f"mov.{kind}", kind, kind)
    body = "{\n.reg .b16 e, f, g, h;\nmov.b64 {e, f, g, h}, %1;\nmov.b64 %0, {h, f, e, g};\n}"
    yield _form("mov.b64 unpack in four", "b64", "b64", body=body)


def _holds(to: str, of: str) -> bool:
    """Whether every value of one integer type is one of the other: then there is no `.sat`."""
    if to[0] == of[0]:
        return int(to[1:]) >= int(of[1:])
    return to[0] == "s" and int(to[1:]) > int(of[1:])


def _slot(kind: str) -> str:
    """8-bit results stand in 16-bit registers, extended."""
    return {"u8": "u16", "s8": "s16"}.get(kind, kind)
