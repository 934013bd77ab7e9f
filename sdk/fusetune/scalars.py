"""Numbers as callers give them: of Python, of another library, or a tensor without dimensions in the host's memory."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsFloat, SupportsIndex, cast

from fusetune.errors import WrongArguments
from fusetune.wire.artifact import ScalarSpec
from fusetune.wire.fusion import show

_CONVERT = "Pass a number of Python."


def numbers_of(specs: Sequence[ScalarSpec], given: Sequence[object]) -> tuple[int | float, ...]:
    """The values of a call's scalars. Raises WrongArguments, which names the one that is none and says what it is."""
    if len(given) != len(specs):
        raise WrongArguments("scalars", str(len(given)), str(len(specs)), "Pass one number for each, in order.")
    return tuple(_number(f"scalar {i}", spec, x) for i, (spec, x) in enumerate(zip(specs, given, strict=True)))


def _number(where: str, spec: ScalarSpec, given: object) -> int | float:
    if hasattr(given, "data_ptr"):
        given = _item(where, given)
    if isinstance(given, bool) or not isinstance(given, SupportsIndex | SupportsFloat):
        raise WrongArguments(where, f"{_kind(given)}", f"a number, as {_wanted(spec)}", _CONVERT)
    if spec.dtype == "f64":
        return _float(where, given)
    if not isinstance(given, SupportsIndex):
        fix = "Round it to an integer before the call, or declare the scalar as f64."
        raise WrongArguments(where, _kind(given), f"an integer, as {_wanted(spec)}", fix)
    value = operator.index(given)
    if (spec.low is not None and value < spec.low) or (spec.high is not None and value > spec.high):
        expected = f"{spec.low} to {spec.high}, which the integers that it stands beside can hold"
        raise WrongArguments(
            where, str(value), expected, "Pass another value, or use the scalar beside wider integers."
        )
    return value


def _float(where: str, given: SupportsIndex | SupportsFloat) -> float:
    try:
        value = operator.index(given) if isinstance(given, SupportsIndex) else given
        return float(value)
    except OverflowError:
        raise WrongArguments(where, "an integer over 1.8e308", "a number that f64 can hold", _CONVERT) from None


def _item(where: str, tensor: object) -> object:
    """What a tensor without dimensions holds; reading one of a GPU would wait for it."""
    shape, device = tuple(getattr(tensor, "shape", ())), str(getattr(tensor, "device", "cpu"))
    if shape:
        fix = "Pass one number, or make the scalar an input of the fusion."
        raise WrongArguments(where, f"a tensor of shape {shape}", "a number, or a tensor without dimensions", fix)
    if device != "cpu":
        fix = "Read it once with .item(), or make it an input of the fusion, without dimensions."
        raise WrongArguments(where, f"a tensor on {device}", "a number in the host's memory", fix)
    return cast(Any, tensor).item()


def _kind(given: object) -> str:
    return f"{show(given)}, of type {type(given).__name__}"


def _wanted(spec: ScalarSpec) -> str:
    return f"the kernel takes an {spec.dtype} there"
