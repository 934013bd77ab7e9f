"""A kernel with a planted fault and its clean twin: how it is launched, what it computes, what is marked in its source.

A source file is compiled twice, with FAULT defined and without. The lines at fault carry `// fault: KIND or KIND`: one
of them must be reported, with one of its kinds. `// also: KIND…` names what may be reported besides, as a consequence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FOLDER = Path(__file__).parent

Array = npt.NDArray[Any]
Expected = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""From the tensors before the run, by name, to those after it that are checked."""

_KERNEL = re.compile(r"^KERNEL (\w+)\(", re.MULTILINE)
_FAULT = re.compile(r"// fault: (.*)$", re.MULTILINE)
_ALSO = re.compile(r"// also: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Argument:
    """An argument of a SPEC and the tensor that it needs, if any."""

    spec: Mapping[str, Any]
    name: str = ""
    tensor: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One kernel of `family`.cu."""

    family: str
    entry: str
    block: int
    args: tuple[Argument, ...]
    expected: Expected
    grid: int = 1
    cluster: int = 1
    dynamic_smem: int = 0

    @property
    def arch(self) -> str:
        """The target it is compiled for."""
        return "sm_100a" if self.family.startswith("tensor_") else "sm_90a"

    @property
    def spec(self) -> dict[str, Any]:
        """The launch as a SPEC document."""
        return {
            "entry": self.entry,
            "arch": self.arch,
            "grid": [self.grid, 1, 1],
            "block": [self.block, 1, 1],
            "cluster": [self.cluster, 1, 1],
            "dynamic_smem": self.dynamic_smem,
            "args": [dict(a.spec) for a in self.args],
            "tensors": {a.name: dict(a.tensor) for a in self.args if a.name},
        }


@dataclass(frozen=True)
class Marks:
    """What the source of a kernel says about its fault: kinds by line, and the kinds of consequences."""

    faults: Mapping[int, frozenset[str]]
    also: frozenset[str]


def marks(family: str) -> dict[str, Marks]:
    """The marks of each kernel of a family, by name."""
    text = (FOLDER / f"{family}.cu").read_text(encoding="utf-8")
    starts = [(m.start(), m[1]) for m in _KERNEL.finditer(text)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    found = {}
    for (start, name), end in zip(starts, ends, strict=True):
        faults = {
            text.count("\n", 0, m.start()) + 1: frozenset(m[1].split(" or ")) for m in _FAULT.finditer(text, start, end)
        }
        also = frozenset(kind for m in _ALSO.finditer(text, start, end) for kind in m[1].split())
        found[name] = Marks(faults, also)
    return found


def given(name: str, count: int, dtype: str = "i32", init: Any = "arange") -> Argument:
    """A tensor of `count` elements that the kernel reads."""
    return Argument({"tensor": name}, name, {"shape": [count], "dtype": dtype, "init": init})


def output(name: str, count: int, dtype: str = "i32") -> Argument:
    """A tensor of `count` elements that nobody has written."""
    return given(name, count, dtype, "poison")


def zeros(name: str, count: int) -> Argument:
    """A tensor of zeros that the kernel changes."""
    return given(name, count, "i32", "zeros")


def number(value: int, dtype: str = "i32") -> Argument:
    """A number."""
    return Argument({"scalar": value, "dtype": dtype})


def matrix(name: str, init: str = "arange") -> Argument:
    """A tensor of 32 x 32 ints behind a tensor map with boxes of 16 x 16."""
    tensor_map = {"tensor": name, "dims": [32, 32], "strides_bytes": [128], "box": [16, 16], "element_strides": [1, 1]}
    return Argument({"tensor_map": tensor_map}, name, {"shape": [32, 32], "dtype": "i32", "init": init})


def box(x: Array, column: int, row: int) -> Array:
    """The box of 16 x 16 at a place of such a tensor, zeros outside, flat."""
    padded = np.zeros((64, 64), x.dtype)
    padded[: x.shape[0], : x.shape[1]] = x
    return padded[row : row + 16, column : column + 16].reshape(-1)
