"""What `torch.compile(..., backend="fusetune", options={...})` may say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fusetune.errors import InvalidRequest
from fusetune.wire.problems import Problem

Waiting = Literal["background", "block", "cached"]
Drawing = Literal["fused", "eager"]


@dataclass(frozen=True)
class CompileOptions:
    """`mode`: kernels are asked for in the background, waited for at compile time (for `budget_s` seconds at most), or
    only taken from what is kept. `rng`: whether dropout is part of regions; eager's numbers are drawn outside of them.
    `strict`: what fails raises, instead of running in eager. `least_bytes`: regions that move less are left to eager.
    """

    mode: Waiting = "background"
    budget_s: float = 60.0
    rng: Drawing = "fused"
    strict: bool = False
    least_bytes: int = 1 << 16

    @classmethod
    def read(cls, options: Mapping[str, Any] | None, mode: str | None) -> CompileOptions:
        """The options of a call of `torch.compile`. Raises InvalidRequest with every one that is unknown or wrong."""
        given = {**({} if mode is None else {"mode": mode}), **(options or {})}
        fields = {field.name: field for field in dataclasses.fields(cls)}
        problems = [
            Problem(f"options[{name!r}]", "an unknown option", f"one of {', '.join(fields)}", "Correct its name.")
            for name in given
            if name not in fields
        ]
        problems += [p for name, value in given.items() if name in fields for p in _wrong(name, value)]
        if problems:
            raise InvalidRequest(tuple(problems))
        return cls(**given)


_CHOICES: dict[str, tuple[str, ...]] = {"mode": get_args(Waiting), "rng": get_args(Drawing)}


def _wrong(name: str, value: Any) -> list[Problem]:
    where = f"options[{name!r}]"
    if name in _CHOICES:
        expected, fits = f"one of {', '.join(_CHOICES[name])}", value in _CHOICES[name]
    elif name == "strict":
        expected, fits = "True or False", isinstance(value, bool)
    else:
        expected = "a number that is not negative"
        fits = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return [] if fits else [Problem(where, repr(value), expected, "Correct it.")]
