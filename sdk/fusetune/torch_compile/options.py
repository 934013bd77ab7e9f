"""What `torch.compile(..., backend="fusetune", options={...})` may say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal, get_args

import torch

from fusetune.errors import InvalidRequest
from fusetune.torch_compile.choosing import Engine
from fusetune.wire.problems import Problem

Waiting = Literal["background", "block", "cached"]
Drawing = Literal["fused", "eager"]
Swapping = Literal["step", "sync_point"]


@dataclass(frozen=True)
class CompileOptions:
    """`engine`: who runs what no kernel does, eager or Inductor; "auto" is Inductor on CUDA, where it was measured the
    faster host of the two (benchmarks/README.md). `inductor`: options for it, or one of its modes. `mode`: kernels are
    asked for in the background, waited for (for `budget_s` seconds at most), or only taken from what is kept. `rng`:
    whether dropout is part of regions; eager's numbers are drawn outside of them; beside Inductor they are Inductor's.
    `strict`: what fails raises, instead of running otherwise. `least_bytes`: regions that move less are left alone.
    `swap`: kernels are taken over before a step, or in `fusetune.sync_point()` alone. `share_gpu`: kernels may be tuned
    on the GPU that this process runs on (FUSETUNE_SHARE_GPU for all of a process).
    """

    engine: Literal["auto", "eager", "inductor"] = "auto"
    mode: Waiting = "background"
    budget_s: float = 60.0
    rng: Drawing = "fused"
    strict: bool = False
    least_bytes: int = 1 << 16
    swap: Swapping = "step"
    share_gpu: bool = False
    inductor: str | Mapping[str, Any] = field(default_factory=dict)

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
        if given.get("inductor") and given.get("engine") != "inductor":
            fix = 'Add "engine": "inductor".'
            problems.append(Problem("options['inductor']", "given", "nothing but where Inductor is asked for", fix))
        if problems:
            raise InvalidRequest(tuple(problems))
        return cls(**given)

    @property
    def host(self) -> Engine:
        """The engine on this machine."""
        if self.engine != "auto":
            return self.engine
        return "inductor" if torch.cuda.is_available() and find_spec("triton") is not None else "eager"

    @property
    def patches(self) -> dict[str, Any]:
        """What is changed of Inductor's configuration."""
        if isinstance(self.inductor, str):
            return dict(_modes()[self.inductor])
        return {str(name).replace("-", "_"): value for name, value in self.inductor.items()}


_CHOICES: dict[str, tuple[str, ...]] = {
    "engine": ("auto", *get_args(Engine)), "mode": get_args(Waiting), "rng": get_args(Drawing),
    "swap": get_args(Swapping),
}  # fmt: skip


def _wrong(name: str, value: Any) -> list[Problem]:
    where = f"options[{name!r}]"
    if name in _CHOICES:
        expected, fits = f"one of {', '.join(_CHOICES[name])}", value in _CHOICES[name]
    elif name in ("strict", "share_gpu"):
        expected, fits = "True or False", isinstance(value, bool)
    elif name == "inductor":
        return _unknown_to_inductor(value)
    else:
        expected = "a number that is not negative"
        fits = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return [] if fits else [Problem(where, repr(value), expected, "Correct it.")]


def _unknown_to_inductor(value: Any) -> list[Problem]:
    where = "options['inductor']"
    if isinstance(value, str):
        expected = f"one of {', '.join(_modes())}, or options by name"
        return [] if value in _modes() else [Problem(where, repr(value), expected, "Correct it.")]
    if not isinstance(value, Mapping):
        return [Problem(where, repr(value), "a mode, or options by name", 'Write {"max_autotune": True}, say.')]
    if not value:
        return []
    import torch._inductor

    known = torch._inductor.list_options()
    fix = "torch._inductor.list_options() has the names."
    return [
        Problem(f"{where}[{name!r}]", "an unknown option", "an option of Inductor", fix)
        for name in value
        if str(name).replace("-", "_") not in known
    ]


def _modes() -> dict[str, Mapping[str, Any]]:
    import torch._inductor

    found: dict[str, Mapping[str, Any]] = torch._inductor.list_mode_options()
    return found
