"""The random numbers of a region, the same by its kernel and in eager.

A kernel's numbers are a function of a seed, an offset and an element's place (docs/contracts.md, "Random numbers").
Each call draws both of torch's own generator: so torch's seed and state say what is drawn, whoever draws; a checkpoint
that restores them draws again what it drew; and a captured call draws anew wherever it is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

_AT_ONCE = 1 << 22
"""Elements whose numbers are drawn at a time: what lies between has eight bytes for each."""


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
    for first in range(0, count, _AT_ONCE):
        some = made[first : first + _AT_ONCE]
        places = torch.arange(first, first + some.numel(), device=seed.device)
        torch.mul(_places_on(seed.device.type)(places, seed, offset), 2.0**-24, out=some)
    return made


def _is_idle(node: fx.Node) -> bool:
    return name_of(node) == "native_dropout" and len(node.args) > 2 and node.args[2] is False


def _dropout(
    seed: torch.Tensor, offset: torch.Tensor, number: int, x: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    kept = _drawn_like(x, seed, offset, number).ge(p)
    out = x * (1.0 / (1.0 - p) if p < 1 else 0.0)
    return out.masked_fill_(kept.logical_not(), 0.0), kept


def _rand(
    seed: torch.Tensor, offset: torch.Tensor, number: int, size: Sequence[int], dtype: Any = None, **_: Any
) -> torch.Tensor:
    count = torch.Size(size).numel()
    found = uniform(seed, offset + number, count).view(size)
    return found.to(torch.get_default_dtype() if dtype is None else dtype)


def _rand_like(
    seed: torch.Tensor, offset: torch.Tensor, number: int, x: torch.Tensor, dtype: Any = None, **_: Any
) -> torch.Tensor:
    return _drawn_like(x, seed, offset, number).to(x.dtype if dtype is None else dtype)


def _bernoulli(
    seed: torch.Tensor, offset: torch.Tensor, number: int, x: torch.Tensor, p: float, **_: Any
) -> torch.Tensor:
    return _drawn_like(x, seed, offset, number).lt(p).to(x.dtype)


def _drawn_like(x: torch.Tensor, seed: torch.Tensor, offset: torch.Tensor, number: int) -> torch.Tensor:
    """A number for each element, counted in row-major order, in memory that is laid as that of `x`."""
    found = uniform(seed, offset + number, x.numel()).view(x.shape)
    laid = torch.empty_like(x, dtype=torch.float32)
    return found if laid.stride() == found.stride() else laid.copy_(found)


_DRAWN: Mapping[str, Callable[..., Any]] = {
    "native_dropout": _dropout, "rand": _rand, "rand_like": _rand_like, "bernoulli": _bernoulli,
}  # fmt: skip
"""Operators that fusions draw for, by how eager does the same."""


def _on_host(places: torch.Tensor, seed: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """The upper 24 bits of each place's word, in operators of torch."""
    counter, key = [*_halves(places >> 2), *_halves(offset)], _halves(seed)
    for _ in range(_ROUNDS):
        high_a, low_a = _product(counter[0], _MULTIPLIERS[0])
        high_b, low_b = _product(counter[2], _MULTIPLIERS[1])
        counter = [high_b ^ counter[1] ^ key[0], low_b, high_a ^ counter[3] ^ key[1], low_a]
        key = [(word + step) & _WORD for word, step in zip(key, _KEY_STEPS, strict=True)]
    return torch.stack([word.expand_as(places) for word in counter]).gather(0, (places & 3)[None])[0] >> 8


def _halves(x: torch.Tensor) -> list[torch.Tensor]:
    return [x & _WORD, (x >> 32) & _WORD]


def _product(x: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Both words of a product of words; in two parts, since 64 bits and a sign do not fit."""
    low, high = x * (factor & 0xFFFF), x * (factor >> 16)
    carried = low + ((high & 0xFFFF) << 16)
    return (high >> 16) + (carried >> 32), carried & _WORD


_ON_CUDA = Template("""
template <typename T> T fusetune_places(T place, T seed, T offset) {
  unsigned long long group = ((unsigned long long)place) >> 2;
  unsigned int c0 = (unsigned int)group, c1 = (unsigned int)(group >> 32);
  unsigned int c2 = (unsigned int)offset, c3 = (unsigned int)(((unsigned long long)offset) >> 32);
  unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(((unsigned long long)seed) >> 32);
  for (int n = 0; n < $rounds; ++n) {
    unsigned long long a = ((unsigned long long)c0) * ${multiplier_a}ull;
    unsigned long long b = ((unsigned long long)c2) * ${multiplier_b}ull;
    unsigned int from1 = c1, from3 = c3;
    c0 = ((unsigned int)(b >> 32)) ^ from1 ^ k0;
    c1 = (unsigned int)b;
    c2 = ((unsigned int)(a >> 32)) ^ from3 ^ k1;
    c3 = (unsigned int)a;
    k0 += ${step_a}u;
    k1 += ${step_b}u;
  }
  unsigned int word = (place & 2) ? ((place & 1) ? c3 : c2) : ((place & 1) ? c1 : c0);
  return (T)(word >> 8);
}
""")


@cache
def _places_on(device: str) -> Callable[..., torch.Tensor]:
    """`_on_host`, in one kernel where torch can compile one."""
    if device != "cuda":
        return _on_host
    (multiplier_a, multiplier_b), (step_a, step_b) = _MULTIPLIERS, _KEY_STEPS
    source = _ON_CUDA.substitute(
        rounds=_ROUNDS, multiplier_a=multiplier_a, multiplier_b=multiplier_b, step_a=step_a, step_b=step_b
    )
    try:
        made = torch.cuda.jiterator._create_jit_fn(source)
        made(*(torch.zeros(1, dtype=torch.int64, device=device) for _ in range(3)))
    except (AttributeError, RuntimeError):  # a torch without its run-time compiler
        return _on_host
    found: Callable[..., torch.Tensor] = made
    return found
