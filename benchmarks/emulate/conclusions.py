"""What the measurements of `open_points` say, in a sentence each: made of the data, never of what is expected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Found = dict[str, Any]

HEADINGS = {
    1: "Bytes that a box counts where it lies out of bounds",
    2: "Rows narrower than the swizzle's span",
    3: "Swizzled maps whose base is aligned to 16 bytes",
    4: "Swizzles with atoms, strides of zero, overlapping strides",
    5: "Element strides that do not divide the extent",
    6: "Values that a copy converts",
}

_INFINITY, _MAGNITUDE, _SIGN = 0x7F800000, 0x7FFFFFFF, 0x80000000


def conclusion(point: int, found: Sequence[Found]) -> str:
    """One sentence or some about the experiments of a point; those that failed are told apart."""
    failed = [f for f in found if f.get("ran") is False]
    told = _POINTS[point]([f for f in found if f.get("ran") is not False])
    return told + (f" Failed: {_names(failed)}." if failed else "")


def _names(found: Iterable[Found]) -> str:
    return ", ".join(f["name"] for f in found) or "none"


def _counted(found: Sequence[Found]) -> str:
    """The phase completes if and only if the expected bytes are those that count."""
    whole = [f for f in found if f["expected_bytes"] == f["tile_bytes"]]
    fewer = [f for f in found if f["expected_bytes"] not in (f["tile_bytes"], 0)]
    stuck, through = [f for f in whole if not f["completed"]], [f for f in fewer if f["completed"]]
    if not stuck and not through:
        return (
            f"The whole box counts, wherever it lies: all {len(whole)} phases that expected its bytes completed, none "
            f"of the {len(fewer)} that expected fewer."
        )
    return (
        f"Phases that expected the whole box and did not complete: {_names(stuck)}. Phases that expected fewer bytes "
        f"and completed: {_names(through)}."
    )


def _pitch(found: Sequence[Found]) -> str:
    narrow = [f for f in found if not (f["with_dense_rows"] and f["with_rows_of_the_span"])]
    spans = [f for f in narrow if f["with_rows_of_the_span"]]
    dense = [f for f in narrow if f["with_dense_rows"]]
    if len(spans) == len(narrow):
        return f"Rows lie a span of the swizzle apart, in all {len(narrow)} boxes narrower than it."
    if len(dense) == len(narrow):
        return f"Rows lie close together, in all {len(narrow)} boxes narrower than the span."
    rest = [f for f in narrow if f not in spans and f not in dense]
    return f"A span apart: {_names(spans)}. Close together: {_names(dense)}. Otherwise: {_names(rest)}."


def _split(found: Sequence[Found]) -> str:
    """Which encode and arrive as predicted, which encode and do not, which are refused."""
    refused = [f for f in found if not f["encoded"]]
    right = [f for f in found if f["encoded"] and f["completed"] and f["with_rows_of_the_span"]]
    wrong = [f for f in found if f not in refused and f not in right]
    told = []
    if right:
        told.append(f"{'All' if len(right) == len(found) else len(right)} encoded, and what arrived is right")
        told[-1] += "" if len(right) == len(found) else f": {_names(right)}"
    if refused:
        told.append("Refused: " + ", ".join(f"{f['name']} (CUresult {f['status']})" for f in refused))
    if wrong:
        told.append(f"Encoded, but other than predicted: {_names(wrong)}")
    return ". ".join(told) + "."


def _steps(found: Sequence[Found]) -> str:
    loads, rates = [f for f in found if "gigabytes_per_s" not in f], [f for f in found if "gigabytes_per_s" in f]
    told = (
        "Predicted: ceil(box / stride) rows move, and a row outside the tensor is zeros. " + _split(loads)
        if loads
        else ""
    )
    if rates:
        plain = next((f["gigabytes_per_s"] for f in rates if f["element_stride"] == 1), None)
        if plain:
            parts = [
                f"{f['gigabytes_per_s'] / plain:.2f} at {f['element_stride']}" for f in rates if f["element_stride"] > 1
            ]
            told += f" Bytes delivered a second, over those of stride 1: {', '.join(parts)}."
    return told.strip()


def _conversions(found: Sequence[Found]) -> str:
    return " ".join(_converted(f) for f in found)


def _converted(found: Found) -> str:
    """The rules that fit every pair of a class of values."""
    if not found["encoded"]:
        return f"{found['name']}: refused (CUresult {found['status']})."
    pairs = [(int(a), int(b)) for a, b in found["converted"]]
    told = []
    for name, holds in _CLASSES.items():
        of = [(a, b) for a, b in pairs if holds(a & _MAGNITUDE)]
        fitting = [rule for rule, function in _RULES.items() if all(function(a) == b for a, b in of)]
        if of:
            odd = f"no known rule ({of[0][0]:#010x} became {of[0][1]:#010x})"
            told.append(f"{name}: {'kept' if 'kept' in fitting else ' or '.join(fitting) or odd}")
    return f"{found['name']}: {'; '.join(told)}."


_CLASSES: dict[str, Callable[[int], bool]] = {
    "normal numbers": lambda size: 0x00800000 <= size < _INFINITY,
    "subnormal numbers": lambda size: 0 < size < 0x00800000,
    "infinities": lambda size: size == _INFINITY,
    "NaN": lambda size: size > _INFINITY,
}

_RULES: dict[str, Callable[[int], int]] = {
    "kept": lambda x: x,
    "cut off to 10 bits of mantissa": lambda x: x & 0xFFFFE000,
    "rounded to nearest even": lambda x: (x + 0xFFF + (x >> 13 & 1)) & 0xFFFFE000,
    "rounded to nearest, ties away": lambda x: (x + 0x1000) & 0xFFFFE000,
    "made zeros of their sign": lambda x: x & _SIGN,
    "made 0x7fffffff": lambda x: _MAGNITUDE,
    "made 0x7fffe000": lambda x: 0x7FFFE000,
    "quieted": lambda x: x | 0x00400000,
    "cut off and quieted": lambda x: (x | 0x00400000) & 0xFFFFE000,
}

_POINTS: dict[int, Callable[[Sequence[Found]], str]] = {
    1: _counted,
    2: _pitch,
    3: _split,
    4: _split,
    5: _steps,
    6: _conversions,
}
