"""How far two results lie apart: bit for bit, or within a documented error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.emulate.form import FormTolerance

Bytes = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ValueAgreement:
    """Of `cases` values `mismatches` lie too far apart; `first` shows one. `worst` is the largest error seen, in units
    of what is allowed (1 is the bound), 0 where equality is asked. `bits` counts the values whose bits differ."""

    cases: int
    mismatches: int
    bits: int
    worst: float = 0.0
    first: str = ""


_NUMPY = {"f16": np.float16, "f32": np.float32, "tf32": np.float32, "f64": np.float64}
_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "tf32": 23, "f64": 52}
_TINY = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "tf32": 2.0**-149, "f64": 2.0**-1074}
_NORMAL = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "tf32": 2.0**-126, "f64": 2.0**-1022}


def compare(card: Bytes, emulated: Bytes, tolerance: FormTolerance, slot: int = 0) -> ValueAgreement:
    """Compares the bytes of two tensors. `slot`: bytes of a value where it is wider than its type, else 0."""
    kind = tolerance.dtype
    if kind == "bits":
        width = slot or 1
        differ = (card.reshape(-1, width) != emulated.reshape(-1, width)).any(axis=1)
        return ValueAgreement(
            len(differ), int(differ.sum()), int(differ.sum()), first=_shown(card, emulated, differ, width)
        )
    ours, theirs = _decoded(emulated, kind, slot), _decoded(card, kind, slot)
    raw = _raw(card, kind, slot) != _raw(emulated, kind, slot)
    same = ~raw | (np.isnan(ours) & np.isnan(theirs))
    if tolerance.is_exact:
        wrong = raw if tolerance.with_nan_bits else ~same
        return ValueAgreement(
            len(raw), int(wrong.sum()), int(raw.sum()), first=_bits(card, emulated, kind, slot, wrong)
        )
    base = kind.removesuffix("x2")
    size = np.maximum(np.abs(theirs), _NORMAL[base])
    allowed = np.maximum(tolerance.relative * np.abs(theirs), tolerance.absolute)
    allowed = allowed + size * 2.0 ** -_MANTISSA[base] + _TINY[base]
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.abs(ours - theirs) / allowed
    error[same | (ours == theirs)] = 0.0
    error[np.isnan(error)] = np.inf
    # A result under the smallest normal may be flushed by one side of an approximate instruction.
    error[(np.abs(ours) <= _NORMAL[base]) & (np.abs(theirs) <= _NORMAL[base])] = 0.0
    wrong = error > 1.0
    worst = float(error[np.isfinite(error)].max(initial=0.0))
    return ValueAgreement(len(raw), int(wrong.sum()), int(raw.sum()), worst, _pair(ours, theirs, wrong))


def _raw(data: Bytes, kind: str, slot: int) -> npt.NDArray[Any]:
    """The bits of each value, halves of pairs apart."""
    base = kind.removesuffix("x2")
    width = {"f16": 2, "bf16": 2, "f32": 4, "tf32": 4, "f64": 8}[base]
    whole = 2 * width if kind.endswith("x2") else width
    if slot > whole:
        data = data.reshape(-1, slot)[:, :whole].reshape(-1)
    return np.ascontiguousarray(data).view(f"u{width}")


def _decoded(data: Bytes, kind: str, slot: int) -> Values:
    bits = _raw(data, kind, slot)
    base = kind.removesuffix("x2")
    with np.errstate(invalid="ignore"):  # signalling NaNs
        if base == "bf16":
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return bits.view(_NUMPY[base]).astype(np.float64)


def _pair(ours: Values, theirs: Values, wrong: npt.NDArray[np.bool_]) -> str:
    if not wrong.any():
        return ""
    k = int(np.flatnonzero(wrong)[0])
    return f"value {k}: card {float(theirs[k])!r}, emulator {float(ours[k])!r}"


def _bits(card: Bytes, emulated: Bytes, kind: str, slot: int, wrong: npt.NDArray[np.bool_]) -> str:
    """The first wrong value of a floating type: as a number, and its bits."""
    if not wrong.any():
        return ""
    k = int(np.flatnonzero(wrong)[0])
    told = []
    for data in (card, emulated):
        bits = _raw(data, kind, slot)[k]
        told.append(f"{float(_decoded(data, kind, slot)[k])!r} (0x{int(bits):0{2 * bits.itemsize}x})")
    return f"value {k}: card {told[0]}, emulator {told[1]}"


def _shown(card: Bytes, emulated: Bytes, differ: npt.NDArray[np.bool_], width: int) -> str:
    if not differ.any():
        return ""
    k = int(np.flatnonzero(differ)[0])
    there, here = (d[k * width : (k + 1) * width][::-1].tobytes().hex() for d in (card, emulated))
    return f"value {k}: card {there}, emulator {here}"
