"""Random matrix products with what surrounds them: sizes, layouts, batches, operands' prologues, epilogues."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from fusetune import FusionBuilder
from fusetune.fusion import Tensor
from fusetune.wire.fusion import DTypeName, Precision


@dataclass(frozen=True)
class ProductLimits:
    """`sizes`: of rows, columns and what is summed along; `most_work`: products of all three and the batch;
    `most_elems`: of any tensor; `in_tf32`: f32 alone, all of it so."""

    sizes: tuple[int, ...]
    most_work: int
    most_elems: int
    in_tf32: bool = False


PRODUCTS = {
    "products": ProductLimits((1, 2, 3, 8, 15, 16, 17, 24, 31, 32, 64, 65, 96, 128, 130, 192, 264), 1 << 21, 1 << 15),
    "large_products": ProductLimits(
        (1, 3, 8, 16, 31, 64, 65, 100, 127, 128, 129, 256, 257, 512, 768, 1000, 1001, 1024, 2048, 2049, 3000, 4096),
        1 << 33,
        1 << 24,
    ),
}
PRODUCTS |= {f"{name}_in_tf32": replace(limits, in_tf32=True) for name, limits in PRODUCTS.items()}

_DTYPES: tuple[tuple[DTypeName, int], ...] = (
    ("bf16", 8),
    ("f16", 5),
    ("i8", 3),
    ("f32", 3),
    ("f8e4m3", 2),
    ("f8e5m2", 1),
)
_IN_TF32 = 0.6
"""Share of products of f32."""

_EDGE = 0.03
"""Share of products summed along one place."""


def is_product(name: str) -> bool:
    """Whether a case of that name is a random product."""
    return name.partition(":")[0] in PRODUCTS


def random_product(seed: int, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fusion document and the binding document of a seed, within the limits of that name."""
    return _Drawn(Random(f"{name}:{seed}"), PRODUCTS[name]).drawn()


class _Drawn:
    def __init__(self, random: Random, limits: ProductLimits) -> None:
        self.random = random
        self.limits = limits
        self.f = FusionBuilder()
        self.layouts: list[dict[str, Any]] = []
        dtypes, weights = zip(*_DTYPES, strict=True)
        self.dtype: DTypeName = "f32"
        if not limits.in_tf32:
            (self.dtype,) = random.choices(dtypes, weights)
        is_so = limits.in_tf32 or (self.dtype == "f32" and self.chance(_IN_TF32))
        self.precision: Precision | None = "tf32" if is_so else None
        self.result: DTypeName = "i32" if self.dtype == "i8" else "f32"
        self.batch, self.m, self.n, self.k = self.sizes()

    def drawn(self) -> tuple[dict[str, Any], dict[str, Any]]:
        left = self.operand(self.m, self.k)
        made = self.product(left)
        if self.result == "f32" and self.chance(0.12):
            made = self.f.silu(made) * self.product(left)
        if self.chance(0.1):  # two states, each by weights of its own, as cells of recurrent models add them
            made = made + self.product(self.operand(self.m, self.k))
        if self.result == "i32" and self.chance(0.6):
            made = made.cast("f32") * 2.0**-10
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            made = self.random.choice(self.moves(made))(made)
        self.output(made)
        return json.loads(self.f.build().to_json()), {"sizes": {}, "inputs": self.layouts}

    # Sizes and operands ----------------------------------------------------------------------------------------------

    def sizes(self) -> tuple[tuple[int, ...], int, int, int]:
        """Batch dimensions, rows, columns, and what is summed along."""
        random, limits = self.random, self.limits
        while True:
            batch = tuple(random.choice((1, 2, 3, 5)) for _ in range(random.choice((0, 0, 0, 1, 2))))
            m, n, k = (self.size() for _ in range(3))
            k = 1 if random.random() < _EDGE else k
            count = 1
            for size in batch:
                count *= size
            if count * m * n * k <= limits.most_work and count * max(m * n, m * k, n * k) <= limits.most_elems:
                return batch, m, n, k

    def size(self) -> int:
        """More often than not one that tensor maps can bring."""
        sizes = self.limits.sizes
        return self.random.choice([n for n in sizes if n % 16 == 0] if self.chance(0.6) else sizes)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def input(self, shape: tuple[int, ...], dtype: DTypeName, *, pitched: bool = False) -> Tensor:
        """A new input. `pitched`: its rows may be longer in memory than they are."""
        layout: dict[str, Any] = {}
        if pitched and self.chance(0.15) and len(shape) >= 2:
            strides, step = [1], shape[-1] + self.random.choice((1, 3, 8, 16))
            for size in reversed(shape[1:-1]):
                strides.append(step)
                step *= size
            layout["strides"] = [*reversed([*strides, step])]
        if self.chance(0.07):
            layout["align"] = self.random.choice((4, 8))
        self.layouts.append(layout)
        return self.f.input(f"x{len(self.layouts)}", shape, dtype)

    def operand(self, rows: int, columns: int) -> Tensor:
        """A matrix a batch, in one of its layouts, with what is done to its elements."""
        batch, dtype = self.batch, self.dtype
        computed = dtype in ("bf16", "f16", "f32")
        narrow = computed and self.chance(0.12)
        wide: DTypeName = "bf16" if dtype == "f32" else "f32"
        stored: DTypeName = "i8" if narrow else wide if computed and self.chance(0.05) else dtype
        is_shared = bool(batch) and self.chance(0.25)
        shape = (rows, columns) if is_shared else (*batch, rows, columns)
        if self.chance(0.5):
            turned = (*shape[:-2], shape[-1], shape[-2])
            rank = len(shape)
            x = self.input(turned, stored, pitched=True).permute((*range(rank - 2), rank - 1, rank - 2))
        elif len(batch) == 2 and not is_shared and self.chance(0.4):  # heads between rows and columns
            x = self.input((shape[0], rows, shape[1], columns), stored).permute((0, 2, 1, 3))
        else:
            x = self.input(shape, stored, pitched=True)
        if is_shared:
            x = x.broadcast_to((*batch, rows, columns), dims=(len(batch), len(batch) + 1))
        if stored != dtype:
            x = x.cast(dtype)
        return self.prologue(x) if computed and self.chance(0.15) else x

    def prologue(self, x: Tensor) -> Tensor:
        """What a model does to an operand: an activation, or a scale of each row or column."""
        if self.chance(0.4):
            return self.f.relu(x)
        along = self.random.choice((len(self.batch), len(self.batch) + 1))
        scale = self.input((int(x.shape[along]),), self.dtype).broadcast_to(x.shape, dims=(along,))
        return x * scale

    def product(self, left: Tensor) -> Tensor:
        right = self.operand(self.k, self.n)
        return self.f.matmul(left, right, dtype=self.result, precision=self.precision)

    # Behind the product ----------------------------------------------------------------------------------------------

    def moves(self, x: Tensor) -> list[Callable[[Tensor], Tensor]]:
        """What may be done to a result."""
        if x.dtype == "i32":
            return [self.shifted, self.biased, lambda x: self.f.maximum(x, 0)]
        f = self.f
        curves: list[Callable[[Tensor], Tensor]] = [f.relu, f.gelu, f.silu, f.tanh, f.sigmoid]
        plain = [self.biased, self.biased, self.residual, self.gated, self.scaled]
        return [*plain, self.random.choice(curves)]

    def shifted(self, x: Tensor) -> Tensor:
        return x + 3

    def biased(self, x: Tensor) -> Tensor:
        """One number for each column or row."""
        along = len(self.batch) + self.random.choice((0, 1, 1))
        dtype: DTypeName = "i32" if x.dtype == "i32" else self.random.choice(("bf16", "f32"))
        bias = self.input((int(x.shape[along]),), dtype)
        wide = bias if dtype == x.dtype else bias.cast(x.dtype)
        return x + wide.broadcast_to(x.shape, dims=(along,))

    def residual(self, x: Tensor) -> Tensor:
        return x * 0.5 + self.input(tuple(map(int, x.shape)), "bf16").cast("f32")

    def gated(self, x: Tensor) -> Tensor:
        return x * self.f.sigmoid(self.input(tuple(map(int, x.shape)), "f16", pitched=True).cast("f32"))

    def scaled(self, x: Tensor) -> Tensor:
        return x * self.random.choice((0.25, 0.125, -2.0, 0.3))

    def output(self, x: Tensor) -> None:
        """Stored in some dtype, as it is or with its last two dimensions exchanged; now and then twice."""
        dtypes: tuple[DTypeName, ...] = ("bf16", "bf16", "f16", "f32") if x.dtype == "f32" else ("i32",)
        stored = self.random.choice(dtypes)
        y = x if stored == x.dtype else x.cast(stored)
        rank = len(x.shape)
        if self.chance(0.15):
            y = y.permute((*range(rank - 2), rank - 1, rank - 2))
        self.f.output(y, "y")
        if x.dtype == "f32" and self.chance(0.1):
            self.f.output(self.f.relu(x).cast("bf16"), "z")
        elif x.dtype == "f32" and self.chance(0.15):
            self.f.output(self.folded(x, rank - self.random.choice((1, 1, 1, 2))), "z")

    def folded(self, x: Tensor, dim: int) -> Tensor:
        """What a norm or a quantisation behind it needs of each row, or column."""
        match self.random.randrange(4):
            case 0:
                return self.f.square(x).sum((dim,))
            case 1:
                return self.f.abs(x).amax((dim,)).cast("bf16")
            case 2:
                return x.mean((dim,))
            case _:
                return x.amin((dim,))
