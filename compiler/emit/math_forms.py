"""Which device function computes an elementwise operator on f32, how exactly, and how wrong it may be.

Functions are those of `device/math.cuh`. Errors are bounds over all finite inputs whose result is a normal f32, derived
from the instruction errors that the PTX ISA documents ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "tanh", "div"). A result
under 2^-126, of silu and gelu one under |x| 2^-126, may become 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from compiler.ir.ops import OpKind


class ErrorOf(StrEnum):
    """What an error bound is a share of."""

    RESULT = "result"
    ONE = "one"
    INPUT = "input"


@dataclass(frozen=True, slots=True)
class MathForm:
    """A device function whose absolute error is at most `error` times what `of` names; `source` says why."""

    function: str
    error: float
    of: ErrorOf
    source: str


@dataclass(frozen=True, slots=True)
class MathForms:
    """The grades of one operator.

    exact: IEEE operations and the library's functions, a few ulp. approx: approximate instructions that keep nearly all
    bits of f32. coarse: `tanh.approx`, for results stored in 16 bits only. None where there is no such form.
    """

    exact: str
    approx: MathForm | None = None
    coarse: MathForm | None = None


_TANH = 2.0**-11
_EXPONENT = 7.3e-8
"""Relative error of x·log2(e) in f32: a rounding (2^-24) and that of the constant (1.33e-8)."""

_EXP = 2.0**-22 + 88.8 * _EXPONENT
"""2^y of an f32 y = x·log2(e): ex2.approx's own error and y's, which grows with |x| up to 88.8, where exp overflows."""


def _coarse(name: str, error: float, of: ErrorOf) -> MathForm:
    return MathForm(f"ft_{name}_coarse", error, of, "tanh.approx.f32: relative error 2^-11")


MATH_FORMS: dict[OpKind, MathForms] = {
    OpKind.NEG: MathForms("ft_neg"),
    OpKind.ABS: MathForms("ft_abs"),
    OpKind.SQUARE: MathForms("ft_square"),
    OpKind.ADD: MathForms("ft_add"),
    OpKind.SUB: MathForms("ft_sub"),
    OpKind.MUL: MathForms("ft_mul"),
    OpKind.MAXIMUM: MathForms("ft_maximum"),
    OpKind.MINIMUM: MathForms("ft_minimum"),
    OpKind.RELU: MathForms("ft_relu"),
    OpKind.DIV: MathForms(
        "ft_div",
        MathForm("ft_div_approx", 2.0**-21, ErrorOf.RESULT, "div.approx.f32 of 1, 2 ulp, and a product"),
    ),
    OpKind.RECIPROCAL: MathForms(
        "ft_reciprocal",
        MathForm("ft_reciprocal_approx", 2.0**-23, ErrorOf.RESULT, "rcp.approx.f32: 1 ulp"),
    ),
    OpKind.SQRT: MathForms(
        "ft_sqrt",
        MathForm("ft_sqrt_approx", 2.0**-23, ErrorOf.RESULT, "sqrt.approx.f32: relative error 2^-23"),
    ),
    OpKind.RSQRT: MathForms(
        "ft_rsqrt",
        MathForm("ft_rsqrt_approx", 2.0**-22.9, ErrorOf.RESULT, "rsqrt.approx.f32: relative error 2^-22.9"),
    ),
    OpKind.EXP: MathForms(
        "ft_exp",
        MathForm(
            "ft_exp_approx", _EXP, ErrorOf.RESULT, "ex2.approx.ftz.f32: relative error 2^-22; argument rounded to f32"
        ),
    ),
    OpKind.LOG: MathForms(
        "ft_log",
        MathForm(
            "ft_log_approx", 2.0**-21, ErrorOf.RESULT, "lg2.approx.f32: 2^-22, in (0.5, 2) of one instead of the result"
        ),
    ),
    OpKind.TANH: MathForms("ft_tanh", coarse=_coarse("tanh", _TANH, ErrorOf.RESULT)),
    OpKind.SIGMOID: MathForms(
        "ft_sigmoid",
        MathForm("ft_sigmoid_approx", _EXP + 2.0**-22, ErrorOf.RESULT, "as exp; rcp.approx.ftz.f32: 1 ulp"),
        _coarse("sigmoid", _TANH / 2 + 2.0**-23, ErrorOf.ONE),
    ),
    OpKind.SILU: MathForms(
        "ft_silu",
        MathForm("ft_silu_approx", _EXP + 2.0**-21.5, ErrorOf.RESULT, "as sigmoid, and a product"),
        _coarse("silu", _TANH / 2 + 2.0**-23, ErrorOf.INPUT),
    ),
    OpKind.GELU: MathForms(
        "ft_gelu",
        MathForm("ft_gelu_approx", 4 * _EXP, ErrorOf.RESULT, "as silu; the argument is a polynomial of four roundings"),
        _coarse("gelu", _TANH / 2 + 2.0**-22, ErrorOf.INPUT),
    ),
}
"""Every operator that computes. Copies, casts and views do not."""
