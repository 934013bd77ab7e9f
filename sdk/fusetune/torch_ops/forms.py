"""Arguments of a call that is traced, without their numbers: sizes that the trace leaves open are open in them too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

LEAST_OPEN = 2
"""Torch takes an open size to be no smaller; one that may be is a number for us."""


@dataclass(frozen=True)
class CallTensor:
    """Of one tensor. `open`: its dimensions whose sizes are open; `shape` and `strides` have examples there."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: str
    needs: bool
    open: tuple[int, ...] = ()

    @classmethod
    def of(cls, x: torch.Tensor) -> CallTensor:
        """Of a tensor of a call."""
        shape, strides = (tuple(map(example, side)) for side in (x.shape, x.stride()))
        opened = tuple(d for d, n in enumerate(x.shape) if is_open(n) and shape[d] >= LEAST_OPEN)
        return cls(shape, strides, x.dtype, str(x.device), x.requires_grad, opened)

    @property
    def key(self) -> object:
        """What a trace burns in: no sizes that are open, and of strides that come of them their order alone."""
        if not self.open:
            return self
        sizes = tuple(None if d in self.open else n for d, n in enumerate(self.shape))
        order = tuple(sorted(range(len(self.strides)), key=lambda d: (self.strides[d], d)))
        zeros = tuple(n == 0 for n in self.strides)
        return sizes, order, zeros, self.dtype, self.device, self.needs

    def fits(self, x: torch.Tensor) -> bool:
        """Whether a tensor has this form, its open sizes aside."""
        sizes = enumerate(zip(x.shape, self.shape, strict=False))
        return x.dim() == len(self.shape) and all(d in self.open or n == m for d, (n, m) in sizes)

    def stand_in(self, mode: FakeTensorMode, env: ShapeEnv, number: int) -> torch.Tensor:
        """A tensor of this form without memory; open sizes are symbols of `env`, each of its own."""
        like = torch.empty_strided(self.shape, self.strides, device="meta")
        kinds = [DimDynamic.DYNAMIC if d in self.open else DimDynamic.STATIC for d in range(len(self.shape))]
        sizes, strides, _ = env.create_symbolic_sizes_strides_storage_offset(
            like, ConstantSource(f"x{number}"), symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds)
        )
        with mode:
            return torch.empty_strided(sizes, strides, dtype=self.dtype, device=self.device).requires_grad_(self.needs)


Leaf = CallTensor | int | float | str | None


def example(n: Any) -> int:
    """A size's number, where it is open that of the call that is traced."""
    return int(n.node.hint) if isinstance(n, torch.SymInt) else int(n)


@dataclass(frozen=True)
class StandIns:
    """Arguments without memory. Open sizes are symbols of `env`: `symbols` has the tensor and the dimension of each."""

    leaves: list[Any]
    env: ShapeEnv | None = None
    symbols: Mapping[Any, tuple[int, int]] = field(default_factory=dict)


def is_open(n: object) -> bool:
    """Whether a trace has left this number open."""
    return isinstance(n, torch.SymInt)


def said(n: Any) -> Any:
    """A number as the trace says it: an expression, where it is open."""
    return n.node.expr if is_open(n) else n


def stand_ins(leaves: Sequence[Any]) -> StandIns:
    """Arguments like `leaves`, whose tensors are forms."""
    if not any(isinstance(x, CallTensor) and x.open for x in leaves):
        with FakeTensorMode():
            return StandIns([_static(x) if isinstance(x, CallTensor) else x for x in leaves])
    env = ShapeEnv(duck_shape=False)
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    made = [x.stand_in(mode, env, n) if isinstance(x, CallTensor) else x for n, x in enumerate(leaves)]
    tensors = [x for x in made if isinstance(x, torch.Tensor)]
    # Asked before anything is traced: what a trace finds equal to another, or to a number, is said by that.
    symbols = {said(n): (place, d) for place, x in enumerate(tensors) for d, n in enumerate(x.shape) if is_open(n)}
    return StandIns(made, env, symbols)


def _static(x: CallTensor) -> torch.Tensor:
    found = torch.empty_strided(x.shape, x.strides, dtype=x.dtype, device=x.device)
    return found.requires_grad_(x.needs)


class SizeConditions:
    """What a trace has found out about open sizes as it went: it is of calls alone for which that holds."""

    def __init__(self, env: ShapeEnv, symbols: Mapping[Any, tuple[int, int]]) -> None:
        self.expressions = tuple(guard.expr for guard in env.guards)
        self.symbols = symbols

    def hold_by_example(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether they do for the numbers of the call that is traced; nothing is asked of the trace."""
        values = {symbol: example(tensors[place].shape[d]) for symbol, (place, d) in self.symbols.items()}
        return all(bool(_replaced(one, values)) for one in self.expressions)

    def demand(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Makes them conditions of the trace that is under way, too; whether they hold."""
        sizes: dict[Any, Any] = {symbol: tensors[place].shape[d] for symbol, (place, d) in self.symbols.items()}
        env = next((n.node.shape_env for n in sizes.values() if is_open(n)), None)
        if not all(bool(n >= LEAST_OPEN) for n in sizes.values()):
            return False
        values = {symbol: said(n) for symbol, n in sizes.items()}
        return all(_demanded(env, _replaced(one, values)) for one in self.expressions)


def _replaced(expression: Any, values: Mapping[Any, Any]) -> Any:
    return expression.xreplace(values)


def _demanded(env: Any, condition: Any) -> bool:
    if getattr(condition, "free_symbols", None):
        return bool(env.create_symboolnode(condition))
    return bool(condition)


def written(leaves: Sequence[Any]) -> str | None:
    """The arguments as text, which `read` takes back; None for what has none, such as a dtype."""
    rows: list[Any] = []
    for x in leaves:
        if isinstance(x, CallTensor):
            rows.append([x.shape, x.strides, str(x.dtype).removeprefix("torch."), x.device, x.needs, x.open])
        elif isinstance(x, bool | int | str | None):
            rows.append({"is": x})
        elif isinstance(x, float):
            rows.append({"float": x.hex()})
        else:
            return None
    return json.dumps(rows, separators=(",", ":"))


def read(text: str) -> list[Leaf]:
    """Raises ValueError for what is no such text."""
    found: list[Leaf] = []
    for row in json.loads(text):
        if isinstance(row, dict):
            found.append(float.fromhex(row["float"]) if "float" in row else row["is"])
        else:
            shape, strides, dtype, device, needs, opened = row
            form = CallTensor(tuple(shape), tuple(strides), getattr(torch, dtype), device, needs, tuple(opened))
            found.append(form)
    return found
