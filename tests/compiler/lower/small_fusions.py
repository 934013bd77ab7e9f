"""Small bound fusions on which generated kernels are run: every kind of operand, odd sizes beside whole tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.ir.fusion import Fusion
from fusetune.fusion import FusionBuilder, Tensor
from fusetune.wire.fusion import DTypeName
from tests.bound import dense

Write = Callable[[FusionBuilder], Sequence[Tensor]]


def _copy(shape: Sequence[int], dtype: DTypeName, strides: Sequence[int] | None = None) -> Write:
    return lambda f: [f.copy(f.input("x", shape, dtype, strides=strides))]


def _permute(
    shape: Sequence[int],
    dims: Sequence[int],
    dtype: DTypeName,
    strides: Sequence[int] | None = None,
    to: DTypeName | None = None,
) -> Write:
    def write(f: FusionBuilder) -> Sequence[Tensor]:
        y = f.input("x", shape, dtype, strides=strides).permute(dims)
        return [y if to is None else y.cast(to)]

    return write


def _bias_gelu(rows: int, columns: int, dtype: DTypeName, along: int) -> Write:
    def write(f: FusionBuilder) -> Sequence[Tensor]:
        x = f.input("x", (rows, columns), dtype)
        b = f.input("b", ((rows, columns)[along],), dtype).cast("f32").broadcast_to((rows, columns), (along,))
        return [f.gelu(x.cast("f32") + b).cast(dtype)]

    return write


def _channel_scale(f: FusionBuilder) -> Sequence[Tensor]:
    shape = (2, 3, 5, 8)
    x, s, b = f.input("x", shape, "bf16"), f.input("s", (3,), "bf16"), f.input("b", (3,), "f32")
    scaled = x.cast("f32") * s.cast("f32").broadcast_to(shape, (1,)) + b.broadcast_to(shape, (1,))
    return [f.relu(scaled).cast("bf16")]


def _leading_broadcast(f: FusionBuilder) -> Sequence[Tensor]:
    shape = (3, 4, 5, 16)
    x = f.input("x", shape[1:], "f32")
    return [x.broadcast_to(shape, (1, 2, 3)) + f.input("y", shape, "f32", strides=(512, 128, 16, 1))]


def _broadcast_cast(f: FusionBuilder) -> Sequence[Tensor]:
    """What is converted repeats along the lanes of what is stored."""
    return [f.exp(f.input("x", (3, 32), "f32")).cast("bf16").broadcast_to((3, 32, 2), (0, 1))]


def _inner_broadcast(f: FusionBuilder) -> Sequence[Tensor]:
    shape = (9, 6, 20)
    x, y = f.input("x", shape, "f16"), f.input("y", (9, 1, 20), "f16")
    return [x * y.broadcast_to(shape, (0, 1, 2)) - f.input("z", (9, 6), "f16").broadcast_to(shape, (0, 1))]


def _outer_product(f: FusionBuilder) -> Sequence[Tensor]:
    x, y = f.input("x", (17, 1), "f32"), f.input("y", (1, 44), "f32")
    return [x.broadcast_to((17, 44), (0, 1)) * y.broadcast_to((17, 44), (0, 1))]


def _two_outputs(f: FusionBuilder) -> Sequence[Tensor]:
    x, r = f.input("x", (21, 48), "bf16"), f.input("r", (21, 48), "bf16")
    total = x.cast("f32") + r.cast("f32")
    return [total.cast("bf16"), f.silu(total).cast("f16")]


def _output_used_inside(f: FusionBuilder) -> Sequence[Tensor]:
    x, y = f.input("x", (7, 40), "f32"), f.input("y", (7, 40), "f32")
    z = f.maximum(x, y)
    return [z, f.exp(z) / 3.0]


def _many_inputs(f: FusionBuilder) -> Sequence[Tensor]:
    a, b = f.input("a", (15, 64), "f32"), f.input("b", (15, 64), "bf16", strides=(72, 1))
    c, d = f.input("c", (15, 64), "f16"), f.input("d", (64,), "f32")
    return [(a + b.cast("f32") * c.cast("f32") - d.broadcast_to((15, 64), (1,))).cast("f16")]


def _square_plus(f: FusionBuilder) -> Sequence[Tensor]:
    x = f.input("x", (16, 128), "f32")
    return [f.square(x) + x]


def _functions(f: FusionBuilder) -> Sequence[Tensor]:
    x = abs(f.input("x", (5, 51), "f16")).cast("f32") + 0.25
    return [(f.rsqrt(x) + f.sqrt(x) * f.tanh(x) - f.sigmoid(f.log(x)) + f.minimum(f.reciprocal(x), 2.0)).cast("f16")]


def _transpose_bias(shape: tuple[int, int], along: int, to: DTypeName) -> Write:
    def write(f: FusionBuilder) -> Sequence[Tensor]:
        rows, columns = shape
        x = f.input("x", shape, "bf16").cast("f32").permute((1, 0))
        b = f.input("b", ((columns, rows)[along],), "bf16").cast("f32").broadcast_to((columns, rows), (along,))
        y = f.relu(x + b)
        return [y if to == "f32" else y.cast(to)]

    return write


def _transpose_add(f: FusionBuilder) -> Sequence[Tensor]:
    x, r = f.input("x", (56, 88), "bf16").permute((1, 0)), f.input("r", (88, 56), "bf16")
    return [(x.cast("f32") + r.cast("f32") * 0.5).cast("bf16")]


def _transpose_two(f: FusionBuilder) -> Sequence[Tensor]:
    return [f.input("x", (40, 72), "f32").permute((1, 0)) * f.input("y", (40, 72), "f32").permute((1, 0))]


def _transpose_itself(f: FusionBuilder) -> Sequence[Tensor]:
    x = f.input("x", (48, 48), "f32")
    return [x - x.permute((1, 0))]


def _transpose_mixed(f: FusionBuilder) -> Sequence[Tensor]:
    shape = (3, 35, 44)
    x, y = f.input("x", (3, 44, 35), "bf16").permute((0, 2, 1)), f.input("y", (44, 35), "f32").permute((1, 0))
    return [x.cast("f32") + y.broadcast_to(shape, (1, 2)) * f.input("z", (35,), "f32").broadcast_to(shape, (1,))]


def _transpose_two_outputs(f: FusionBuilder) -> Sequence[Tensor]:
    x = f.input("x", (45, 64), "f32").permute((1, 0))
    return [f.exp(x), x.cast("bf16")]


def _permuted_operand(f: FusionBuilder) -> Sequence[Tensor]:
    x, y = f.input("x", (5, 7, 32), "f32").permute((1, 0, 2)), f.input("y", (7, 5, 32), "f32")
    return [x - y]


_WRITTEN: dict[str, Write] = {
    "copy_one": _copy((1,), "f32"),
    "copy_odd": _copy((299,), "bf16"),
    "copy_line": _copy((1024,), "bf16"),
    "copy_boxes": _copy((4096,), "f32"),
    "copy_tiles": _copy((24, 128), "f32"),
    "copy_padded": _copy((12, 64), "bf16", (72, 1)),
    "copy_padded_odd": _copy((7, 33), "f32", (37, 1)),
    "copy_columns": _copy((24, 40), "f16", (1, 24)),
    "copy_repeated": _copy((10, 32), "f32", (0, 1)),
    "copy_rank_4": _copy((2, 3, 4, 20), "f16", (320, 96, 24, 1)),
    "bias_gelu": _bias_gelu(14, 136, "bf16", 1),
    "bias_gelu_boxes": _bias_gelu(5, 600, "bf16", 1),
    "bias_gelu_rows": _bias_gelu(21, 35, "f16", 0),
    "channel_scale": _channel_scale,
    "leading_broadcast": _leading_broadcast,
    "inner_broadcast": _inner_broadcast,
    "broadcast_cast": _broadcast_cast,
    "outer_product": _outer_product,
    "two_outputs": _two_outputs,
    "output_used_inside": _output_used_inside,
    "many_inputs": _many_inputs,
    "square_plus": _square_plus,
    "functions": _functions,
    "permuted_operand": _permuted_operand,
    "permute_outer": _permute((4, 6, 24), (1, 0, 2), "bf16"),
    "transpose": _permute((96, 136), (1, 0), "f32"),
    "transpose_odd": _permute((67, 45), (1, 0), "f32"),
    "transpose_odd_long": _permute((163, 45), (1, 0), "f32"),
    "transpose_odd_source": _permute((160, 45), (1, 0), "f32"),
    "transpose_halves": _permute((72, 200), (1, 0), "bf16"),
    "transpose_halves_odd": _permute((35, 131), (1, 0), "bf16"),
    "transpose_padded": _permute((48, 64), (1, 0), "f32", (80, 1)),
    "transpose_narrowing": _permute((64, 72), (1, 0), "f32", to="bf16"),
    "transpose_widening": _permute((40, 65), (1, 0), "f16", to="f32"),
    "transpose_batch": _permute((5, 33, 40), (0, 2, 1), "f16"),
    "channels_last": _permute((3, 24, 6, 8), (0, 2, 3, 1), "bf16"),
    "reversed": _permute((40, 3, 2, 36), (3, 2, 1, 0), "f32"),
    "transpose_add": _transpose_add,
    "transpose_two": _transpose_two,
    "transpose_itself": _transpose_itself,
    "transpose_mixed": _transpose_mixed,
    "transpose_two_outputs": _transpose_two_outputs,
    "channels_of_three": _permute((2, 3, 9, 11), (0, 2, 3, 1), "f16"),
    "three_channels": _permute((2, 9, 11, 3), (0, 3, 1, 2), "f32"),
    "transpose_bias": _transpose_bias((64, 104), 1, "bf16"),
    "transpose_bias_rows": _transpose_bias((50, 48), 0, "f32"),
}


def _bound(write: Write) -> Fusion:
    f = FusionBuilder()
    for tensor in write(f):
        f.output(tensor)
    return dense(f)


SMALL_FUSIONS: dict[str, Fusion] = {name: _bound(write) for name, write in _WRITTEN.items()}
"""By what is particular of each."""
