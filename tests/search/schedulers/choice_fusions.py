"""Fusions that read where indices say: embeddings and what follows them, labels of a cross-entropy, gathers."""

from __future__ import annotations

from collections.abc import Callable

from compiler.ir.fusion import Fusion
from fusetune.fusion import FusionBuilder, Tensor
from fusetune.wire.fusion import DTypeName
from tests.bound import dense

Write = Callable[[FusionBuilder], Tensor]


def bound(write: Write) -> Fusion:
    """The fusion of one output."""
    f = FusionBuilder()
    f.output(write(f))
    return dense(f)


def take(
    table: tuple[int, ...], index: tuple[int, ...], dtype: DTypeName, by: DTypeName = "i64", dim: int = 0
) -> Fusion:
    """What an index chooses along one dimension, and nothing else."""
    return bound(lambda f: f.take(f.input("t", table, dtype), f.input("i", index, by), dim))


def gather(
    source: tuple[int, ...], index: tuple[int, ...], dtype: DTypeName, by: DTypeName = "i64", dim: int = -1
) -> Fusion:
    return bound(lambda f: f.gather(f.input("x", source, dtype), dim, f.input("i", index, by)))


def scaled_rows(rows: int, columns: int, count: int, dtype: DTypeName = "f32", by: DTypeName = "i64") -> Fusion:
    """Rows of a table, times two."""
    return bound(lambda f: f.take(f.input("t", (rows, columns), dtype), f.input("i", (count,), by)) * 2.0)


def embedding_norm(
    vocabulary: int, batch: int, length: int, width: int, dtype: DTypeName = "bf16", by: DTypeName = "i64"
) -> Fusion:
    """Embeddings of tokens and positions, normalized: the first layers of BERT."""
    shape = (batch, length, width)

    def write(f: FusionBuilder) -> Tensor:
        tokens = f.embedding(f.input("i", (batch, length), by), f.input("t", (vocabulary, width), dtype))
        positions = f.input("p", (length, width), dtype).broadcast_to(shape, (1, 2))
        x = tokens.cast("f32") + positions.cast("f32")
        centred = x - x.mean((2,), keepdim=True).broadcast_to(shape, (0, 1, 2))
        variance = f.square(centred).mean((2,), keepdim=True)
        normal = centred * f.rsqrt(variance + 1e-5).broadcast_to(shape, (0, 1, 2))
        scale, shift = (f.input(n, (width,), "f32").broadcast_to(shape, (2,)) for n in ("w", "b"))
        return (normal * scale + shift).cast(dtype)

    return bound(write)


def embedding_rope(vocabulary: int, length: int, heads: int, width: int, dtype: DTypeName = "bf16") -> Fusion:
    """Embeddings rotated by their positions, whose sines and cosines are rows of tables too."""
    half, shape = width // 2, (length, heads, width // 2)

    def write(f: FusionBuilder) -> Tensor:
        x = f.embedding(f.input("i", (length,), "i64"), f.input("t", (vocabulary, heads * width), dtype))
        x = x.cast("f32").reshape((length, heads, width))
        at = f.input("at", (length,), "i32")
        cos, sin = (f.take(f.input(n, (64, half), "f32"), at).broadcast_to(shape, (0, 2)) for n in ("cos", "sin"))
        first, second = x.slice(2, 0, half), x.slice(2, half, width)
        return f.cat([first * cos - second * sin, second * cos + first * sin], 2).cast(dtype)

    return bound(write)


def cross_entropy(rows: int, classes: int, dtype: DTypeName, by: DTypeName = "i64", smoothing: float = 0.0) -> Fusion:
    """The loss of each row: logsumexp(x) - x[label], with some of the weight spread over all classes."""

    def write(f: FusionBuilder) -> Tensor:
        logits = f.input("x", (rows, classes), dtype)
        x = logits if dtype == "f32" else logits.cast("f32")
        label = f.gather(logits, 1, f.input("label", (rows,), by).reshape((rows, 1))).cast("f32")
        top = x.amax((1,), keepdim=True)
        total = f.exp(x - top.broadcast_to((rows, classes), (0, 1))).sum((1,), keepdim=True)
        whole = f.log(total) + top
        loss = whole - label
        if smoothing:
            loss = loss * (1 - smoothing) + (whole - x.mean((1,), keepdim=True)) * smoothing
        return loss.reshape((rows,))

    return bound(write)


def clamped(rows: int, columns: int, count: int) -> Fusion:
    """Rows at an index that is moved and kept in range."""

    def write(f: FusionBuilder) -> Tensor:
        at = f.minimum(f.maximum(f.input("i", (count,), "i32") - 7, 0), rows - 1)
        return f.take(f.input("t", (rows, columns), "f16"), at) * 2.0

    return bound(write)


def of_computed(rows: int, columns: int, count: int) -> Fusion:
    """Rows of what is computed of two tables."""

    def write(f: FusionBuilder) -> Tensor:
        x, y = (f.input(name, (rows, columns), "f32") for name in ("x", "y"))
        return f.take(f.exp(x) * y, f.input("i", (count,), "i64"))

    return bound(write)


def of_sums(rows: int, folded: int, columns: int, count: int) -> Fusion:
    """Rows of what sums leave: a launch of its own."""
    return bound(
        lambda f: f.take(f.input("x", (rows, folded, columns), "f32").sum((1,)), f.input("i", (count,), "i64")) * 0.5
    )


def chained(rows: int, columns: int, count: int) -> Fusion:
    """Rows at indices that another index chooses."""

    def write(f: FusionBuilder) -> Tensor:
        at = f.take(f.input("map", (20,), "i32"), f.input("i", (count,), "i64"))
        return f.take(f.input("t", (rows, columns), "bf16"), at).cast("f32")

    return bound(write)


CHOICES: dict[str, Callable[[], Fusion]] = {
    "rows": lambda: scaled_rows(50, 96, 13),
    "odd rows": lambda: scaled_rows(23, 33, 11, "bf16", "i32"),
    "rows of a batch": lambda: take((17, 40), (3, 5), "f16", "i32"),
    "rows of rank 4": lambda: take((3, 9, 2, 8), (2, 3), "i8", dim=1),
    "elements": lambda: take((31,), (2, 3, 7), "f64", "i32"),
    "one row": lambda: take((9, 24), (), "f32"),
    "of one row": lambda: take((1, 24), (5,), "f32"),
    "columns": lambda: take((5, 33), (20,), "bool", "i32", 1),
    "inner gather": lambda: gather((6, 33), (6, 9), "f32"),
    "outer gather": lambda: gather((7, 40), (4, 33), "bf16", "i32", 0),
    "clamped": lambda: clamped(50, 32, 9),
    "of computed": lambda: of_computed(19, 64, 12),
    "chained": lambda: chained(40, 48, 10),
    "embedding and norm": lambda: embedding_norm(37, 2, 5, 96),
    "embedding and rope": lambda: embedding_rope(40, 6, 2, 16),
    "cross-entropy": lambda: cross_entropy(5, 1000, "f32"),
    "smoothed cross-entropy": lambda: cross_entropy(5, 1000, "bf16", "i32", 0.1),
    "of sums": lambda: of_sums(10, 6, 32, 7),
}
