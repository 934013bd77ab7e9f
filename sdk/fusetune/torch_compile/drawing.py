"""The random numbers of a region, the same by its kernel and in eager.

A kernel's numbers are a function of a seed, an offset and an element's place (docs/contracts.md, "Random numbers").
Each call draws both of torch's own generator: so torch's seed and state say what is drawn, whoever draws; a checkpoint
that restores them draws again what it drew; and a captured call draws anew wherever it is replayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from string import Template
from typing import Any

import torch
from torch import fx

from fusetune.torch_compile.program import Call, calls_of
from fusetune.torch_compile.regions.operators import name_of

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = (1 << 32) - 1
"""Philox 4x32-10, as kernels have it; `tests/sdk/torch_compile/test_drawing.py` holds the two against each other."""

_AT_ONCE = 1 << 21
"""Calls of four numbers at a time: what lies between has eight bytes for each."""


def start(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """A seed and an offset, i64 tensors without dimensions on the device, each aligned as new tensors are."""
    words = torch.empty(4, dtype=torch.int64, device=device).random_()
    return words[0], words[2]


def drawing_nodes(nodes: Sequence[fx.Node]) -> list[fx.Node]:
    """Those that draw, in the order in which a fusion's draws are counted."""
    return [node for node in nodes if name_of(node) in _DRAWN and not _is_idle(node)]


def drawing_calls(nodes: Sequence[fx.Node], seed: fx.Node, offset: fx.Node) -> list[Call]:
    """The nodes as they stand in their graph, drawing what a kernel would draw of `seed` and `offset`."""
    number = {node: n for n, node in enumerate(drawing_nodes(nodes))}
    return [
        Call((node,), _DRAWN[name_of(node)], (seed, offset, number[node], *node.args), node.kwargs)
        if node in number
        else call
        for node, call in zip(nodes, calls_of(nodes), strict=True)
    ]


def uniform(seed: torch.Tensor, offset: torch.Tensor, count: int) -> torch.Tensor:
    """The numbers of `count` elements in f32: multiples of 2^-24 in [0, 1)."""
    made = torch.empty(count, dtype=torch.float32, device=seed.device)
    for first, calls in _in_parts(count, seed.device):
        words = torch.stack(_words(calls, seed, offset), dim=-1).view(-1)
        some = made[first : first + words.numel()]
        torch.mul(words[: some.numel()] >> 8, 2.0**-24, out=some)
    return made


def at_least(p: float, seed: torch.Tensor, offset: torch.Tensor, count: int) -> torch.Tensor:
    """Whether the number of each of `count` elements is `p`, as f32 holds it, or more."""
    made = torch.empty(-(-count // 4), dtype=torch.int32, device=seed.device)
    least = torch.full((), math.ceil(_as_f32(p) * 2.0**24), dtype=torch.int32, device=seed.device)
    packed = _packed_on(seed.device.type)
    for first, calls in _in_parts(count, seed.device):
        made[first // 4 : first // 4 + calls.numel()] = packed(calls, *_halves_of(seed), *_halves_of(offset), least)
    return made.view(torch.bool)[:count]


def _in_parts(count: int, device: torch.device) -> Iterator[tuple[int, torch.Tensor]]:
    """The first element of each part, and the numbers of its calls, each of which gives four elements."""
    total = -(-count // 4)
    for first in range(0, total, _AT_ONCE):
        last = min(first + _AT_ONCE, total)
        yield 4 * first, torch.arange(first, last, dtype=torch.int32, device=device)


def _as_f32(number: float) -> float:
    return float(torch.tensor(number, dtype=torch.float32))


def _halves_of(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both halves of an i64 without dimensions, the low one first."""
    low, high = x.view(1).view(torch.int32).unbind()
    return low, high


def _is_idle(node: fx.Node) -> bool:
    return name_of(node) == "native_dropout" and len(node.args) > 2 and node.args[2] is False


def _dropout(
    seed: torch.Tensor, offset: torch.Tensor, number: int, x: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    kept = _laid_like(x, at_least(p, seed, offset + number, x.numel()))
    return torch.where(kept, x, 0.0).mul_(1.0 / (1.0 - p) if p < 1 else 0.0), kept


def _rand(
    seed: torch.Tensor, offset: torch.Tensor, number: int, size: Sequence[int], dtype: Any = None, **_: Any
) -> torch.Tensor:
    count = torch.Size(size).numel()
    found = uniform(seed, offset + number, count).view(size)
    return found.to(torch.get_default_dtype() if dtype is None else dtype)


def _rand_like(
    seed: torch.Tensor, offset: torch.Tensor, number: int, x: torch.Tensor, dtype: Any = None, **_: Any
) -> torch.Tensor:
    found = _laid_like(x, uniform(seed, offset + number, x.numel()))
    return found.to(x.dtype if dtype is None else dtype)


def _bernoulli(
    seed: torch.Tensor, offset: torch.Tensor, number: int, x: torch.Tensor, p: float, **_: Any
) -> torch.Tensor:
    return _laid_like(x, at_least(p, seed, offset + number, x.numel())).logical_not_().to(x.dtype)


def _laid_like(x: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """What was drawn for the elements of `x` in row-major order, in memory that is laid as that of `x`."""
    found = found.view(x.shape)
    laid = torch.empty_like(x, dtype=found.dtype, device="meta").stride()
    return found if laid == found.stride() else torch.empty_like(x, dtype=found.dtype).copy_(found)


_DRAWN: Mapping[str, Callable[..., Any]] = {
    "native_dropout": _dropout, "rand": _rand, "rand_like": _rand_like, "bernoulli": _bernoulli,
}  # fmt: skip
"""Operators that fusions draw for, by how eager does the same."""


def _words(calls: torch.Tensor, seed: torch.Tensor, offset: torch.Tensor) -> list[torch.Tensor]:
    """The four words of each call, in operators of torch."""
    counter, key = [*_halves(calls.long()), *_halves(offset)], _halves(seed)
    for _ in range(_ROUNDS):
        high_a, low_a = _product(counter[0], _MULTIPLIERS[0])
        high_b, low_b = _product(counter[2], _MULTIPLIERS[1])
        counter = [high_b ^ counter[1] ^ key[0], low_b, high_a ^ counter[3] ^ key[1], low_a]
        key = [(word + step) & _WORD for word, step in zip(key, _KEY_STEPS, strict=True)]
    return counter


def _halves(x: torch.Tensor) -> list[torch.Tensor]:
    return [x & _WORD, (x >> 32) & _WORD]


def _product(x: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Both words of a product of words; in two parts, since 64 bits and a sign do not fit."""
    low, high = x * (factor & 0xFFFF), x * (factor >> 16)
    carried = low + ((high & 0xFFFF) << 16)
    return (high >> 16) + (carried >> 32), carried & _WORD


def _packed_on_host(
    calls: torch.Tensor,
    seed_low: torch.Tensor,
    seed_high: torch.Tensor,
    offset_low: torch.Tensor,
    offset_high: torch.Tensor,
    least: torch.Tensor,
) -> torch.Tensor:
    """Four answers of `at_least` a call, a byte each."""
    seed, offset = ((high.long() << 32) | (low.long() & _WORD) for low, high in (
        (seed_low, seed_high), (offset_low, offset_high)
    ))  # fmt: skip
    words = torch.stack(_words(calls, seed, offset), dim=-1) >> 8
    return words.ge(least).view(torch.int32)[:, 0]


_ON_CUDA = Template("""
template <typename T> T fusetune_packed(T call, T seed_low, T seed_high, T offset_low, T offset_high, T least) {
  unsigned int c0 = (unsigned int)call, c1 = 0u, c2 = (unsigned int)offset_low, c3 = (unsigned int)offset_high;
  unsigned int k0 = (unsigned int)seed_low, k1 = (unsigned int)seed_high;
  for (int n = 0; n < $rounds; ++n) {
    unsigned long long a = ((unsigned long long)c0) * ${multiplier_a}ull;
    unsigned long long b = ((unsigned long long)c2) * ${multiplier_b}ull;
    c0 = ((unsigned int)(b >> 32)) ^ c1 ^ k0;
    c1 = (unsigned int)b;
    c2 = ((unsigned int)(a >> 32)) ^ c3 ^ k1;
    c3 = (unsigned int)a;
    k0 += ${step_a}u;
    k1 += ${step_b}u;
  }
  unsigned int low = ((c0 >> 8) >= (unsigned int)least ? 1u : 0u) | ((c1 >> 8) >= (unsigned int)least ? 256u : 0u);
  unsigned int high = ((c2 >> 8) >= (unsigned int)least ? 1u : 0u) | ((c3 >> 8) >= (unsigned int)least ? 256u : 0u);
  return (T)(low | (high << 16));
}
""")


@cache
def _packed_on(device: str) -> Callable[..., torch.Tensor]:
    """`_packed_on_host`, in one kernel where torch can compile one."""
    if device != "cuda":
        return _packed_on_host
    (multiplier_a, multiplier_b), (step_a, step_b) = _MULTIPLIERS, _KEY_STEPS
    source = _ON_CUDA.substitute(
        rounds=_ROUNDS, multiplier_a=multiplier_a, multiplier_b=multiplier_b, step_a=step_a, step_b=step_b
    )
    try:
        made = torch.cuda.jiterator._create_jit_fn(source)
        made(*(torch.zeros(1, dtype=torch.int32, device=device) for _ in range(6)))
    except (AttributeError, RuntimeError):  # a torch without its run-time compiler
        return _packed_on_host
    found: Callable[..., torch.Tensor] = made
    return found
