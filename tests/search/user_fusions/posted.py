"""A fusion as a user would post it: what builds it, the function of torch that judges it, and its inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch

from compiler.ir.fusion import Fusion
from compiler.wire import bind
from fusetune import FusionBuilder, Tensor
from fusetune.torch import DTYPES
from fusetune.wire import parse_binding, parse_fusion
from fusetune.wire.fusion import DTypeName
from tests.search.random_fusions.cases import Case

Sizes = Mapping[str, int]
Shape = tuple[int | str, ...]
Numbers = Callable[[np.random.Generator, tuple[int, ...]], Any]

SMALL: Sizes = {"M": 37, "N": 41}
"""Sizes at which the emulator takes a second or so."""

LARGE: Sizes = {"M": 3001, "N": 70_001}
"""Sizes that fill a card."""


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.standard_normal(shape)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """From 0.25 to 4."""
    return 2.0 ** rng.uniform(-2, 2, shape)


def unit(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Inside of 0 and 1."""
    return rng.uniform(0.05, 0.95, shape)


def between(low: int, high: int) -> Numbers:
    """Integers from `low` to `high`, both of them drawn."""
    return lambda rng, shape: rng.integers(low, high, shape, endpoint=True)


def seldom(value: int, high: int) -> Numbers:
    """Integers from 0 to `high`, of which a fifth is `value`: padding, or what is not to be looked at."""

    def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return np.where(rng.random(shape) < 0.2, value, rng.integers(0, high, shape, endpoint=True))

    return numbers


@dataclass(frozen=True)
class Given:
    """An input: its sizes, of which names are bound later, and what its numbers are like."""

    shape: Shape
    dtype: str = "f32"
    numbers: Numbers = normal
    strides: tuple[int, ...] | None = None
    is_list: bool = False

    def tensor(self, sizes: Sizes, seed: int, device: str = "cpu") -> torch.Tensor:
        """The same numbers for the same seed, on any device."""
        shape = tuple(sizes[n] if isinstance(n, str) else n for n in self.shape)
        values = torch.from_numpy(np.asarray(self.numbers(np.random.default_rng(seed), shape)))
        made = values.to(DTYPES[self.dtype]).to(device)
        if self.strides is None:
            return made
        laid = torch.empty_strided(shape, self.strides, dtype=made.dtype, device=device)
        return laid.copy_(made)


@dataclass(frozen=True)
class Posted:
    """`build` gives of a builder, inputs and scalars what `by_torch` gives of tensors and numbers.

    `into`: of each output the input that it is written into. `strides`: of each output where its elements lie.
    `slack`: how many times the errors of a few roundings are allowed. `turns`: integers of rounded floats, of which one
    in a thousand may come out one higher or lower.
    """

    name: str
    build: Callable[..., Any]
    by_torch: Callable[..., Any]
    inputs: tuple[Given, ...]
    scalars: tuple[int | float, ...] = ()
    into: Mapping[int, int] = field(default_factory=dict)
    strides: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    slack: float = 1.0
    turns: bool = False

    @property
    def is_of_lists(self) -> bool:
        return any(given.is_list for given in self.inputs)

    def document(self) -> dict[str, Any]:
        """As it is posted."""
        f = FusionBuilder()
        inputs = [
            f.input(
                f"x{n}",
                one.shape,
                cast(DTypeName, one.dtype),
                is_list=one.is_list,
                strides=None if one.strides is None else one.strides,
            )
            for n, one in enumerate(self.inputs)
        ]
        scalars = [f.scalar(f"s{n}", "i64" if isinstance(s, int) else "f64") for n, s in enumerate(self.scalars)]
        made = self.build(f, *inputs, *scalars)
        for n, tensor in enumerate([made] if isinstance(made, Tensor) else made):
            into = inputs[self.into[n]] if n in self.into else None
            f.output(tensor, name=f"y{n}", alias=into, strides=self.strides.get(n))
        return dict(json.loads(f.build().to_json()))

    def case(self, sizes: Sizes) -> Case:
        """The fusion and its binding, for what schedules and proves cases."""
        bound = {} if self.is_of_lists else {name: sizes[name] for name in self.symbols}
        return Case(self.name, self.document(), {"sizes": bound})

    def bound(self, sizes: Sizes) -> Fusion:
        """What a tuner gets. Raises InvalidFusion and Unsupported."""
        return self.case(sizes).bound()

    def as_tensors(self, sizes: Sizes) -> Fusion:
        """What its values are worked out of: over one tensor of each list, every output dense and for itself."""
        document = self.document()
        for one in document["inputs"]:
            one.pop("list", None)
            one.pop("strides", None)
        document["outputs"] = [{"name": one["name"]} for one in document["outputs"]]
        return bind(parse_fusion(document), parse_binding({"sizes": {name: sizes[name] for name in self.symbols}}))

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n for one in self.inputs for n in one.shape if isinstance(n, str)))

    def tensors(self, sizes: Sizes, device: str = "cpu", seed: int = 1) -> list[torch.Tensor]:
        return [one.tensor(sizes, 100 * seed + n, device) for n, one in enumerate(self.inputs)]

    def wanted(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """What torch gives, of copies: some functions write into their arguments."""
        found = self.by_torch(*(x.clone() for x in tensors), *self.scalars)
        return (found,) if isinstance(found, torch.Tensor) else tuple(found)


RELATIVE = {
    torch.float64: 1e-10, torch.float32: 3e-5, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6,
    torch.float8_e4m3fn: 2.0**-3, torch.float8_e5m2: 2.0**-2,
}  # fmt: skip
"""A unit or two in the last place, of f32 and f64 what sums and functions add."""

OF_LARGEST = 1 / 16
"""As much again for this part of the largest element: what cancels keeps the error of what it was made of."""


def differences(one: Posted, found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> str:
    """What is wrong with results, in words; empty if nothing is."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs, where torch gives {len(wanted)}"
    said = (_difference(one, mine, theirs) for mine, theirs in zip(found, wanted, strict=True))
    return "; ".join(f"output {n}: {text}" for n, text in enumerate(said) if text)


def _difference(one: Posted, found: torch.Tensor, wanted: torch.Tensor) -> str:
    if found.shape != wanted.shape:
        return f"shape {tuple(found.shape)}, of torch {tuple(wanted.shape)}"
    if found.dtype != wanted.dtype:
        return f"{found.dtype}, of torch {wanted.dtype}"
    wrong = _wrong(one, found, wanted)
    count = int(wrong.sum())
    if one.turns and not found.dtype.is_floating_point and count <= 1 + found.numel() // 1000:
        far = (found.to(torch.int64) - wanted.to(torch.int64)).abs()
        count = int((far > 1).sum())
    if not count:
        return ""
    at = tuple(int(n) for n in wrong.nonzero()[0])
    return f"{count} of {wrong.numel()} are wrong; at {at} {found[at].item()}, of torch {wanted[at].item()}"


def _wrong(one: Posted, found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    if not found.dtype.is_floating_point:
        return found != wanted
    mine, theirs = found.double(), wanted.double()
    finite = theirs[theirs.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    allowed = one.slack * RELATIVE[found.dtype] * (theirs.abs() + OF_LARGEST * largest)
    same = (mine == theirs) | (mine.isnan() & theirs.isnan()) | ((mine - theirs).abs() <= allowed)
    return ~same
