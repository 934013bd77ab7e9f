"""Floating point (PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions")."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.emulate.form import FormTolerance, InstructionForm
from benchmarks.emulate.forms.elementwise import elementwise

_form = partial(elementwise, family="float")
_ROUNDINGS = ("rn", "rz", "rm", "rp")


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    yield from _single()
    yield from _double()
    yield from _half()
    yield from _approximate()


def _single() -> Iterator[InstructionForm]:
    for rounding in _ROUNDINGS:
        for flush in ("", ".ftz"):
            for op, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
                for saturate in ("", ".sat"):
                    yield _form(f"{op}.{rounding}{flush}{saturate}.f32", "f32 " * count, "f32")
            yield _form(f"div.{rounding}{flush}.f32", "f32 f32", "f32")
            yield _form(f"rcp.{rounding}{flush}.f32", "f32", "f32")
            yield _form(f"sqrt.{rounding}{flush}.f32", "f32", "f32")
    for flush in ("", ".ftz"):
        for op in ("abs", "neg"):
            yield _form(f"{op}{flush}.f32", "f32", "f32")
        for op in ("min", "max"):
            for nan in ("", ".NaN"):
                for sign in ("", ".xorsign.abs"):
                    yield _form(f"{op}{flush}{nan}{sign}.f32", "f32 f32", "f32")
    for name in ("add.f32", "sub.ftz.f32", "mul.f32", "mul.sat.f32", "add.ftz.sat.f32"):
        yield _form(name, "f32 f32", "f32")
    for rounding in _ROUNDINGS:
        yield _form(f"mad.{rounding}.f32", "f32 f32 f32", "f32")
    yield _form("mad.rn.ftz.sat.f32", "f32 f32 f32", "f32")
    yield _form("copysign.f32", "f32 f32", "f32")
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        for kind in ("f32", "f64"):
            body = f"{{\n.reg .pred p;\ntestp.{test}.{kind} p, %1;\nselp.u32 %0, 1, 0, p;\n}}"
            yield _form(f"testp.{test}.{kind}", kind, "u32", body=body)


def _double() -> Iterator[InstructionForm]:
    for rounding in _ROUNDINGS:
        for op, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)):
            yield _form(f"{op}.{rounding}.f64", "f64 " * count, "f64")
        yield _form(f"mad.{rounding}.f64", "f64 f64 f64", "f64")
    for op in ("add", "sub", "mul"):
        yield _form(f"{op}.f64", "f64 f64", "f64")
    for op, count in (("abs", 1), ("neg", 1), ("min", 2), ("max", 2), ("copysign", 2)):
        yield _form(f"{op}.f64", "f64 " * count, "f64")


def _half() -> Iterator[InstructionForm]:
    for kind in ("f16", "f16x2", "bf16", "bf16x2"):
        of_half = kind.startswith("f16")
        for modifier in ("", ".ftz", ".sat", ".ftz.sat") if of_half else ("",):
            for op in ("add", "sub", "mul"):
                yield _form(f"{op}.rn{modifier}.{kind}", f"{kind} {kind}", kind)
            yield _form(f"fma.rn{modifier}.{kind}", f"{kind} {kind} {kind}", kind)
        for modifier in (".relu", ".ftz.relu", ".oob", ".oob.relu") if of_half else (".relu", ".oob", ".oob.relu"):
            yield _form(f"fma.rn{modifier}.{kind}", f"{kind} {kind} {kind}", kind)
        for op in ("add", "sub", "mul"):
            yield _form(f"{op}.{kind}", f"{kind} {kind}", kind)
        for flush in ("", ".ftz") if of_half else ("",):
            for op in ("abs", "neg"):
                yield _form(f"{op}{flush}.{kind}", kind, kind)
            for op in ("min", "max"):
                for nan in ("", ".NaN"):
                    for sign in ("", ".xorsign.abs"):
                        yield _form(f"{op}{flush}{nan}{sign}.{kind}", f"{kind} {kind}", kind)


def _approximate() -> Iterator[InstructionForm]:
    """Errors as the PTX ISA documents them for each instruction."""
    for flush in ("", ".ftz"):
        yield _approximated(f"div.full{flush}.f32", "f32 moderate", relative=2 * 2.0**-23)
        yield _approximated(f"div.approx{flush}.f32", "f32 moderate", relative=2 * 2.0**-23)
        yield _approximated(f"rcp.approx{flush}.f32", "f32", relative=2.0**-23)
        yield _approximated(f"sqrt.approx{flush}.f32", "f32", relative=2.0**-23)
        yield _approximated(f"rsqrt.approx{flush}.f32", "f32", relative=2.0**-22.9)
        yield _approximated(f"lg2.approx{flush}.f32", "f32", relative=2.0**-22, absolute=2.0**-22)
        yield _approximated(f"ex2.approx{flush}.f32", "moderate", relative=2.0**-22)
        yield _approximated(
            f"ex2.approx{flush}.f32 any", "f32", relative=2.0**-22, body=f"ex2.approx{flush}.f32 %0, %1;"
        )
        for op in ("sin", "cos"):
            yield _approximated(f"{op}.approx{flush}.f32", "moderate", absolute=2.0**-14.7)
    yield _approximated("tanh.approx.f32", "f32", relative=2.0**-11)
    for op in ("rcp", "rsqrt"):
        yield _approximated(f"{op}.approx.ftz.f64", "f64", "f64", relative=2.0**-20)
    yield _approximated("rsqrt.approx.f64", "f64", "f64", relative=2.0**-26.9)
    for kind in ("f16", "f16x2"):
        yield _approximated(f"tanh.approx.{kind}", kind, kind, relative=2.0**-10.987, absolute=2.0**-10.987)
        yield _approximated(f"ex2.approx.{kind}", kind, kind, relative=2.0**-9.9)
    for kind in ("bf16", "bf16x2"):
        yield _approximated(f"tanh.approx.{kind}", kind, kind, relative=2.0**-8, absolute=2.0**-8)
        yield _approximated(f"ex2.approx.ftz.{kind}", kind, kind, relative=2.0**-7)


def _approximated(
    name: str, dtypes: str, result: str = "f32", *, relative: float = 0.0, absolute: float = 0.0, body: str = ""
) -> InstructionForm:
    return _form(name, dtypes, result, body=body, tolerance=FormTolerance(result, relative, absolute))
