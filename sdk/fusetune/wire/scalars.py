"""Numbers that a call passes by value: what a kernel's parameter holds of one, and artifacts with their numbers put in.

Conversions are torch's, of a number of Python beside a tensor: one rounding to nearest, infinite past the largest.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Literal

from fusetune.wire.artifact import Arg, KernelArtifact, LaunchSpec, ScalarArg, ScalarInputArg

ParameterType = Literal["f64", "f32", "i64"]

_F64_BITS = 53


def held(value: int | float, dtype: ParameterType) -> int | float:
    """What a parameter of this type holds of `value`, an integer where the type is i64."""
    if dtype == "i64":
        return int(value)
    if dtype == "f64":
        return float(value)
    (nearest,) = struct.unpack("<f", f32_bytes(value))
    return float(nearest)


def f32_bytes(value: int | float) -> bytes:
    """The f32 nearest to `value`, in memory order."""
    wide = _with_odd_end(value) if isinstance(value, int) else value
    try:
        return struct.pack("<f", wide)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, wide))


def _with_odd_end(value: int) -> float:
    """An integer in f64, its last bit set where bits are lost: rounding that to f32 is then the only rounding."""
    lost = abs(value).bit_length() - _F64_BITS
    if lost <= 0:
        return float(value)
    kept, rest = divmod(abs(value), 1 << lost)
    return math.copysign(float((kept | bool(rest)) << lost), value)


def with_numbers(artifact: KernelArtifact, values: Sequence[int | float]) -> KernelArtifact:
    """The artifact with `values` in the place of its scalars, as numbers that every call passes."""
    if not artifact.scalars:
        return artifact
    launches = tuple(_told(launch, values) for launch in artifact.launches)
    return artifact.model_copy(update={"launches": launches, "scalars": ()})


def _told(launch: LaunchSpec, values: Sequence[int | float]) -> LaunchSpec:
    def told(arg: Arg) -> Arg:
        if not isinstance(arg, ScalarInputArg):
            return arg
        return ScalarArg(dtype=arg.dtype, value=held(values[arg.position], arg.dtype))

    return launch.model_copy(update={"args": tuple(map(told, launch.args))})
