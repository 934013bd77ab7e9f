"""Products at many sizes: 30 that a seeded generator draws, and few rows at all sizes of the layers of language models.

`python -m benchmarks.suite.shapes` writes the suite. The seed is part of it: a drawn case stays what it is, whether a
kernel is fast there or not. Of each of five kinds there are six: square, thin, batched, short and long along k.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, log
from pathlib import Path
from random import Random
from typing import Any, Literal

from benchmarks.suite.forms import NORMAL, Form, case, form
from fusetune import FusionBuilder

SUITE = Path(__file__).with_name("suite_shapes.json")

Half = Literal["bf16", "f16"]

SEED = 21
_HALVES: tuple[Half, ...] = ("bf16", "bf16", "f16")
"""In these shares."""
EACH = 6
"""Drawn cases of each kind."""

MOST_FLOPS = 1 << 40
MOST_BYTES = 1 << 29
"""Of a drawn case: milliseconds on a card, and buffers that rotate in its memory."""

FEW_ROWS = (1, 8, 16, 32, 64, 128)
LAYERS = (4096, 8192, 14336)
"""Rows of a batch that is decoded, and widths of layers that they go through. 8192 by 8192 stands in the suite of
products."""


@dataclass(frozen=True, slots=True)
class ProductSize:
    """[batch] of [m, k] @ [k, n]; 0 for no batch. `right`: what of w lies side by side, "k" or "n"."""

    kind: str
    dtype: Half
    batch: int
    m: int
    n: int
    k: int
    right: str

    @property
    def name(self) -> str:
        batch = f"{self.batch}x" if self.batch else ""
        return f"mm_{self.kind}_{self.dtype}_{batch}{self.m}x{self.n}x{self.k}_{self.right}"

    @property
    def is_small(self) -> bool:
        """Within what a run can take."""
        many = max(1, self.batch)
        elems = many * (self.m * self.k + self.k * self.n + self.m * self.n)
        return 2 * many * self.m * self.n * self.k <= MOST_FLOPS and 2 * elems <= MOST_BYTES


def _between(random: Random, low: int, high: int, step: int = 8) -> int:
    """As often in each octave, a multiple of `step`."""
    drawn = exp(random.uniform(log(low), log(high)))
    return max(step, round(drawn / step) * step)


def _square(random: Random) -> tuple[int, int, int, int]:
    side = _between(random, 512, 6144, 64)
    return 0, side, side, side


def _thin(random: Random) -> tuple[int, int, int, int]:
    narrow, wide = _between(random, 130, 1024), _between(random, 2048, 16384)
    m, n = random.choice(((narrow, wide), (wide, narrow)))
    return 0, m, n, _between(random, 1024, 8192)


def _batched(random: Random) -> tuple[int, int, int, int]:
    m, n, k = (_between(random, 64, 1024) for _ in range(3))
    return _between(random, 4, 64, 1), m, n, k


def _short(random: Random) -> tuple[int, int, int, int]:
    return 0, _between(random, 1024, 8192), _between(random, 1024, 8192), _between(random, 32, 512)


def _long(random: Random) -> tuple[int, int, int, int]:
    return 0, _between(random, 64, 1024), _between(random, 64, 1024), _between(random, 8192, 60_000)


KINDS: dict[str, Callable[[Random], tuple[int, int, int, int]]] = {
    "square": _square,
    "thin": _thin,
    "batched": _batched,
    "short": _short,
    "long": _long,
}


def drawn(seed: int = SEED) -> list[ProductSize]:
    """The shapes of a seed, kind by kind."""
    return [shape for kind in KINDS for shape in _drawn(kind, Random(f"{seed} {kind}"))]


def _drawn(kind: str, random: Random) -> list[ProductSize]:
    found: dict[str, ProductSize] = {}
    while len(found) < EACH:
        shape = ProductSize(kind, random.choice(_HALVES), *KINDS[kind](random), random.choice(("k", "n")))
        if shape.is_small:
            found[shape.name] = shape
    return list(found.values())


def few_rows() -> Iterator[ProductSize]:
    """w as torch's linear layers keep it."""
    for (n, k), m in product(product(LAYERS, repeat=2), FEW_ROWS):
        if (n, k) != (8192, 8192):
            yield ProductSize("rows", "bf16", 0, m, n, k, "k")


def cases() -> list[dict[str, Any]]:
    """All cases, each with its small form as `tiny`."""
    made = [*drawn(), *few_rows()]
    return [case(s.name, "matmul", _note(s), _form, (s,), (_tiny(s),)) for s in made]


def _note(shape: ProductSize) -> str:
    return "few rows of a layer" if shape.kind == "rows" else f"{shape.kind}, drawn with seed {SEED}"


def _tiny(shape: ProductSize) -> ProductSize:
    return ProductSize(shape.kind, shape.dtype, 2 if shape.batch else 0, 5, 16, 32, shape.right)


def _form(s: ProductSize) -> Form:
    f = FusionBuilder()
    outer = (s.batch,) if s.batch else ()
    a = f.input("a", (*outer, s.m, s.k), s.dtype)
    w = f.input("w", (*outer, s.n, s.k) if s.right == "k" else (*outer, s.k, s.n), s.dtype)
    turned = w.permute((*range(len(outer)), len(outer) + 1, len(outer))) if s.right == "k" else w
    f.output(f.matmul(a, turned, dtype="f32").cast(s.dtype), "out")
    fills = {"a": NORMAL, "w": {"dist": "normal", "mean": 0.0, "std": round(s.k**-0.5, 6)}}
    called = "return torch.matmul(a, w.mT)" if s.right == "k" else "return torch.matmul(a, w)"
    return form(f.build(), fills, [called], mm_flops=2 * max(1, s.batch) * s.m * s.n * s.k)


def to_text() -> str:
    """The suite as JSON, a case a line."""
    lines = ",\n".join(json.dumps(one) for one in cases())
    return f'{{"format": 1, "suite": "shapes", "cases": [\n{lines}\n]}}\n'


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the suite anew."""
    argparse.ArgumentParser(prog="python -m benchmarks.suite.shapes", description=__doc__).parse_args(argv)
    SUITE.write_text(to_text())
    print(f"{len(cases())} cases in {SUITE}")


if __name__ == "__main__":
    main()
