"""Every row of operators: what it says is what eager torch computes on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fusetune import CannotConvert
from fusetune.graph import from_torch
from tests.sdk.graph.against_eager import check


def floats(*shape: int, dtype: torch.dtype = torch.float32, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    made = torch.Generator().manual_seed(sum(shape) + 7)
    return (torch.rand(shape, generator=made) * (high - low) + low).to(dtype)


def whole(*shape: int, low: int = -5, high: int = 6, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    made = torch.Generator().manual_seed(sum(shape) + 11)
    return torch.randint(low, high, shape, generator=made).to(dtype)


X, Y, ROW = floats(4, 6), floats(6, 4).t(), floats(6)
H, POS, INT, BOOL = floats(4, 6, dtype=torch.bfloat16), floats(4, 6, low=0.1), whole(4, 6), whole(4, 6) > 0
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, torch.inf, -torch.inf, torch.nan, 0.5])
BOX = floats(2, 3, 4, 4)
FEW, PLACES, MASK = whole(6, low=0, high=4), whole(4, 6, low=0, high=6), INT[:, 0] > 0

_UNARY = [
    "neg",
    "exp",
    "tanh",
    "sigmoid",
    "relu",
    "sign",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "erf",
    "abs",
    "floor",
    "ceil",
    "trunc",
    "round",
    "square",
    "isnan",
    "isinf",
    "isfinite",
    "logical_not",
]
_POSITIVE = ["log", "sqrt", "rsqrt", "reciprocal", "log2", "log1p"]

CASES: dict[str, tuple[Any, ...]] = {
    **{f"torch.{name}": (getattr(torch, name), X) for name in _UNARY},
    **{f"torch.{name}": (getattr(torch, name), POS) for name in _POSITIVE},
    **{f"torch.{name} of bf16": (getattr(torch, name), H) for name in ("exp", "tanh", "sigmoid", "relu", "neg")},
    **{f"torch.{name} of integers": (getattr(torch, name), INT) for name in ("exp", "abs", "sign", "neg", "relu")},
    **{f"torch.{name} of integers": (getattr(torch, name), INT) for name in ("floor", "bitwise_not", "square")},
    **{f"F.{name}": (getattr(F, name), X)
       for name in ["silu", "gelu", "mish", "softplus", "elu", "selu", "leaky_relu", "hardswish"]},
    **{f"F.{name}": (getattr(F, name), X) for name in ["hardtanh", "hardsigmoid", "relu6", "logsigmoid", "softsign"]},
    **{f"F.{name} of bf16": (getattr(F, name), H) for name in ["silu", "gelu", "mish", "softplus", "elu"]},
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "glu": (F.glu, X),
    "add": (torch.add, X, Y),
    "add a row": (torch.add, X, ROW),
    "add alpha": (lambda x, y: torch.add(x, y, alpha=2.5), X, Y),
    "add alpha of bf16": (lambda x, y: torch.add(x, y, alpha=2.5), H, H),
    "sub alpha": (lambda x, y: torch.sub(x, y, alpha=3), INT, INT),
    "rsub": (lambda x: 1 - x, X),
    "rsub alpha": (lambda x, y: torch.rsub(x, y, alpha=2), X, ROW),
    "a number and integers": (lambda x: x + 2.5, INT),
    "a number and bools": (lambda x: x + 1, BOOL),
    "add alpha of bools": (lambda x, y: (torch.add(x, y, alpha=2), torch.add(x, y, alpha=0)), BOOL, BOOL.flip(0)),
    "bools are or and and": (lambda x, y: ((x + y), (x * y)), BOOL, BOOL.flip(0)),
    "bf16 times f32": (torch.mul, H, ROW),
    "bf16 times f32 without dimensions": (torch.mul, H, torch.tensor(0.1)),
    "bf16 times a number": (lambda x: x * (1 / 3), H),
    "i32 and i64": (torch.add, INT.int(), INT),
    "f16 and bf16": (torch.add, H, H.half()),
    "div": (torch.div, X, POS),
    "div of integers": (lambda x, y: x / y, INT, INT.abs() + 1),
    "div by a number": (lambda x: x / 3, INT),
    "div floor of integers": (lambda x, y: x // y, INT, INT.abs() + 1),
    "div trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), X, POS),
    "div floor": (lambda x, y: (x // 0.5, x // -0.3, 3 // x, x // y), X, Y.contiguous()),
    "div floor of special numbers": (lambda x, y: (x // y, x % y, torch.fmod(x, y)), SPECIAL, SPECIAL.flip(0)),
    "fmod of floats": (lambda x, y: (torch.fmod(x, y), torch.fmod(x, -0.75)), X, Y),
    "remainder of integers": (torch.remainder, INT, INT.abs() + 1),
    "remainder of floats": (lambda x, y: (x % 2, x % -3, x % y, 2.5 % x), X * 5, Y),
    "remainder of bf16": (lambda x: x % 0.3, H),
    "maximum": (torch.maximum, SPECIAL, SPECIAL.flip(0)),
    "minimum of bf16 and f32": (torch.minimum, H, X),
    "round to decimals": (lambda x: (x.round(decimals=2), (x * 100).round(decimals=-1)), X),
    "integers rounded to zero": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), INT, whole(4, 6, low=1)),
    "the first power by a larger tensor": (lambda x: torch.pow(x, torch.ones(2, 6)), ROW),
    "integers rounded to zero by a number": (lambda x: torch.div(x, -3, rounding_mode="trunc"), INT),
    "fmod of integers": (lambda x, y: (torch.fmod(x, y), torch.fmod(x, 3)), INT, whole(4, 6, low=1)),
    "bitwise": (lambda x, y: (x & y, x | y, x ^ y, x << 2, x >> 1), INT, INT.flip(0)),
    "bitwise of bools": (lambda x, y: (x & y, x | y, x ^ y, ~x), BOOL, BOOL.flip(0)),
    "logical": (lambda x, y: (torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y)), INT, X),
    **{f"to the power {p}": (lambda x, p=p: x**p, POS) for p in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.7)},
    **{f"bf16 to the power {p}": (lambda x, p=p: x**p, POS.bfloat16()) for p in (2, 3, -2)},
    **{f"integers to the power {p}": (lambda x, p=p: x**p, INT) for p in (0, 1, 2, 3, 5)},
    "a number to a power": (lambda x: 2.0**x, X),
    "power of tensors": (torch.pow, POS, X),
    "power of tensors of integers": (torch.pow, whole(4, 6, low=-3, high=4), INT),
    "integers to a float": (lambda x: (x.abs() + 1) ** 0.5, INT),
    **{f"compare {n}": (getattr(torch, n), SPECIAL, SPECIAL.flip(0)) for n in ("eq", "ne", "lt", "le", "gt", "ge")},
    "compare with a literal that bf16 rounds": (lambda x: (x > 0.1, x == 0.1), torch.tensor([0.1]).bfloat16()),
    "compare f32 with a literal": (lambda x: (x > 0.1, x == 0.1), torch.tensor([0.1])),
    "compare integers with a float": (lambda x: x > 0.5, INT),
    "compare bf16 with f32": (torch.lt, H, X),
    "compare bools": (lambda x, y: x < y, BOOL, BOOL.flip(0)),
    "where": (torch.where, BOOL, X, H),
    "where of a number": (lambda c, x: torch.where(c, x, 0.0), BOOL, X),
    "where of numbers": (lambda c: torch.where(c, 1.5, 2.0), BOOL),
    "where of integers and a number": (lambda c, x: torch.where(c, x, 0), BOOL, INT),
    "masked_fill": (lambda x, c: x.masked_fill(c, -torch.inf), X, BOOL),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), X),
    "clamp below": (lambda x: x.clamp(min=-0.5), SPECIAL),
    "clamp above by a tensor": (lambda x, y: torch.clamp(x, max=y), X, ROW),
    "clamp integers by a float": (lambda x: x.clamp(0.5, 2), INT),
    "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=0.5), X, Y, X),
    "addcdiv": (lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), X, Y, POS),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), X, Y),
    "casts": (lambda x: (x.half(), x.double(), x.int(), x.bool(), x.bfloat16().float()), X),
    "fp8": (lambda x: x.to(torch.float8_e5m2).float(), X),
    "fp8 beyond its largest number": (
        lambda x: [y.to(torch.float8_e4m3fn).float() for y in (x, x.bfloat16(), x.double(), torch.full((2,), 480.0))],
        torch.tensor([448.0, 463.9, 464.0, 464.1, 480.0, 1e30, -500.0, math.inf, -math.inf, math.nan, 0.0]),
    ),
    "fp8 of integers": (lambda x: (x * 300).to(torch.float8_e4m3fn).float(), INT),
    # Views
    "view": (lambda x: x.view(2, 12) + 1, X),
    "reshape of a transposed": (lambda x: x.t().reshape(-1) + 1, X),
    "expand": (lambda x: x[:, None].expand(6, 3) * 2, ROW),
    "permute": (lambda x: x.permute(2, 0, 1, 3) * 2, BOX),
    "transpose": (lambda x: x.transpose(-1, 1).contiguous(), BOX),
    "squeeze": (lambda x: x.unsqueeze(0).unsqueeze(-1).squeeze() + 1, X),
    "select": (lambda x: x[:, -1] + x[:, 2], X),
    "slices": (lambda x: x[1:3, ::2] + x[-2:, 1::2], X),
    "slice past the end": (lambda x: x[1:100] * 2, X),
    "as_strided that is a view": (lambda x: x.as_strided((2, 6), (12, 1)) + 1, X),
    "as_strided with an offset": (lambda x: x.as_strided((4, 2), (6, 2), 1) + 1, X),
    "as_strided that transposes": (lambda x: x.as_strided((6, 4), (1, 6)) + 1, X),
    "as_strided that repeats": (lambda x: x.as_strided((3, 6), (0, 1)) + 1, X),
    "flip": (lambda x: x.flip(0, 1), X),
    "cat": (lambda x, y: torch.cat([x, y, x], 1), X, Y),
    "cat of two dtypes": (lambda x, y: torch.cat([x, y]), X, H),
    "cat with nothing": (lambda x, y: torch.cat([x, y]), X, torch.empty(0)),
    "stack": (lambda x, y: torch.stack([x, y], -1), X, Y),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 3), value=2.0), X),
    "pad by less than nothing": (lambda x: F.pad(x, (-1, 2)), X),
    "split": (lambda x: [part * 2 for part in x.split(4, 1)], X),
    "chunk and unbind": (lambda x: (x.chunk(2, 1)[1] + 1, x.unbind(0)[2] * 2), X),
    "roll": (lambda x: x.roll(2, 1), X),
    "repeat": (lambda x: x.repeat(2, 3), X),
    "windows side by side": (lambda x: x.unfold(0, 2, 2).unfold(1, 3, 3), X),
    "windows, and a rest": (lambda x: x.unfold(-1, 4, 4) + 1, X),
    "windows that overlap": (lambda x: x.unfold(1, 3, 2) * 2, X),
    "windows that lie apart": (lambda x: x.unfold(0, 1, 3) * 2, X),
    "repeat of one dimension of six": (lambda x: x.repeat(1, 1, 3, 1, 2, 1, 1), X[None, None, :, None, :, None]),
    "padding of what is taken away": (lambda x: F.pad(x[:, :1] + 1, [-1, 2], value=3), X),
    "padding of bools": (lambda x: F.pad(x > 0, [1, 1], value=-1), X),
    "deviation of one number": (lambda x: (x * 2).std([], correction=0, keepdim=True), torch.tensor(2.0)),
    "any of bytes": (lambda x: ((x > 0).to(torch.uint8) + 1).any(0), X),
    "all of bytes": (lambda x: (x > 0).to(torch.uint8).all(), X),
    "repeat of nothing": (lambda x: x.repeat(1, 1) + 1, X),
    "tril": (torch.tril, X),
    "nearest upsampling": (lambda x: F.interpolate(x, scale_factor=2) + 1, BOX),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2) * 2, floats(1, 8, 2, 3)),
    # Folds
    "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, 1), keepdim=True)), X),
    "sum of bools": (lambda x: (x.sum(), x.sum(0)), BOOL),
    "sum of i32": (lambda x: x.sum(-1), INT.int()),
    "sum with a dtype": (lambda x: x.sum(1, dtype=torch.float32), H),
    "mean": (lambda x: (x.mean(), x.mean(0, keepdim=True)), X),
    "mean with a dtype": (lambda x: x.mean(0, dtype=torch.float32), INT),
    "amax and amin": (lambda x: (x.amax(1), x.amin((0, 1)), x.max(), x.min()), X),
    "max along a dimension": (lambda x: (*x.max(1), *x.min(0, keepdim=True)), X),
    "aminmax": (lambda x: torch.aminmax(x, dim=1), X),
    "prod": (lambda x: (x.prod(), x.prod(1)), X),
    "prod of integers": (lambda x: x.prod(1), INT.int()),
    "any and all": (lambda x: (x.any(), x.all(1), x.any(0, keepdim=True)), INT),
    "argmax and argmin": (lambda x: (x.argmax(), x.argmin(1), x.argmax(0, keepdim=True)), INT),
    "cumsum": (lambda x: (x.cumsum(1), x.cumsum(0)), X),
    "cumsum of bools": (lambda x: x.cumsum(1), BOOL),
    "var": (lambda x: (x.var(1), x.var(correction=0), x.std(0), *torch.var_mean(x, 1, keepdim=True)), X),
    "var of bf16": (lambda x: torch.var_mean(x, 1), H),
    "softmax": (lambda x: (x.softmax(1), x.log_softmax(0)), X),
    "softmax of bf16 in f32": (lambda x: x.softmax(1, dtype=torch.float32), H),
    "logsumexp": (lambda x: x.logsumexp(1), X),
    "norm": (lambda x: (x.norm(), x.norm(dim=1), F.normalize(x)), X),
    "layer_norm": (lambda x, g: F.layer_norm(x, (6,), g, g), X, ROW),
    "rms_norm": (lambda x, g: F.rms_norm(x, (6,), g), X, ROW),
    "group_norm": (lambda x: F.group_norm(x, 3), BOX),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), BOX),
    "no dimensions": (lambda x: (x.sum(), x.mean(), x.amax(), x.cumsum(0), x.argmax()), torch.tensor(2.5)),
    "nothing to fold": (lambda x: (x.sum(1), x.prod(1), x.any(1), x.all(1)), torch.empty(3, 0)),
    # Sources
    "full": (lambda x: (torch.full_like(x, 2.5), torch.zeros(3), torch.ones(2, dtype=torch.int32) + 1), X),
    "arange": (lambda x: x + torch.arange(6), X),
    "arange with a step": (lambda x: x + torch.arange(1, 13, 2), X),
    "arange of floats": (lambda x: x + torch.arange(0, 3, 0.5), X),
    "a tensor of a number": (lambda x: x * torch.tensor(0.5), H),
    "eye": (lambda x: x + torch.eye(4, 6), X),
    "one_hot by comparing": (lambda i: (i[:, None] == torch.arange(5)).float(), whole(4, low=0, high=5)),
    "lists of tensors": (
        lambda x, y: [
            *torch._foreach_add([x, y], [y, x], alpha=2), *torch._foreach_mul([x, y], 0.5),
            *torch._foreach_sqrt([x.abs()]), *torch._foreach_addcmul([x], [y], [y], 0.1),
            *torch._foreach_lerp([x], [y], 0.3), *torch._foreach_norm([x, y]),
            *torch._foreach_pow([x.abs()], 3), *torch._foreach_clamp_min([x], 0.1), *torch._foreach_div([x], [y.exp()]),
            *torch._foreach_maximum([x], [y]), *torch._foreach_sub([x], [0.3]),
        ],
        X,
        Y,
    ),
    # Choices
    "embedding": (lambda i, t: F.embedding(i, t) * 2, whole(3, 2, low=0, high=4), X),
    "index_select": (lambda x, i: x.index_select(1, i), X, whole(3, low=0, high=6)),
    "index": (lambda x, i: x[i] + 1, X, whole(3, low=-4, high=4)),
    "index behind": (lambda x, i: x[:, i], X, whole(2, 2, low=-6, high=6)),
    "gather": (lambda x, i: x.gather(1, i), X, whole(4, 2, low=0, high=6)),
    "gather of a computed row": (lambda x, i: x.exp().gather(1, i), X, whole(4, 1, low=0, high=6)),
    "cross_entropy": (F.cross_entropy, X, whole(4, low=0, high=6)),
    "cross_entropy with smoothing": (
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, ignore_index=2, reduction="none"),
        X,
        whole(4, low=0, high=6),
    ),
    "a mask's places": (lambda x, m: x.index_put((m,), torch.tensor(2.5)), X, BOOL),
    "a mask's rows": (lambda x, m: x.index_put((m,), torch.tensor(2.5)), X, MASK),
    "a row at a mask's rows": (lambda x, m, row: x.index_put((m,), row), X, MASK, ROW),
    "one number of a tensor": (lambda x, m, row: x.index_put((m,), row[:1]), X, BOOL, ROW),
    "a mask's places in halves": (lambda x, m: x.index_put((m,), torch.tensor(0.1, dtype=x.dtype)), H, BOOL),
    "a mask's places of integers": (lambda x, m: x.index_put((m,), torch.tensor(7)), INT, BOOL),
    "isclose": (lambda x: torch.isclose(x, x + 1e-7), SPECIAL),
    "scatter a number": (lambda x, i: x.scatter(1, i, 2.0), X, whole(4, 1, low=0, high=6)),
    "scatter a column": (lambda x, i: x.scatter(1, i, x[:, :1]), X, whole(4, 1, low=0, high=6)),
    "scatter_add": (lambda x, i: x.scatter_add(1, i, x[:, :1]), X, whole(4, 1, low=0, high=6)),
    "losses": (lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y)), X, Y),
    "binary losses": (lambda x: F.binary_cross_entropy_with_logits(x, x.sigmoid()), X),
    "kl_div": (lambda x, y: F.kl_div(x, y, reduction="batchmean"), X, POS),
    "product": (lambda x, y: x @ y.t(), X, Y),
    "product of halves": (lambda x: x @ x.t(), H),
    "product of bytes": (torch._int_mm, whole(32, 16, dtype=torch.int8), whole(16, 8, dtype=torch.int8)),
    "product of nothing": (lambda x: x[:, :0] @ x[:, :0].t(), X),
    "linear with gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"), H, H[:3], H[0, :3]),
    "linear of three dimensions": (lambda x, w: F.silu(F.linear(x, w)), BOX, floats(5, 4)),
    "gate and up": (lambda x, w: F.silu(x @ w[:2].t()) * (x @ w[2:].t()), X, Y),
    "addmm": (lambda b, x, y: torch.addmm(b, x, y.t(), beta=0.5, alpha=2.0), floats(4), X, Y),
    "addmm without its term": (lambda b, x: torch.addmm(b, x, x.t(), beta=0.0), torch.full((4, 4), torch.nan), X),
    "batches": (torch.bmm, floats(3, 4, 2), floats(3, 2, 5)),
    "batches and a term": (torch.baddbmm, floats(4), floats(3, 2, 5), floats(3, 5, 4)),
    "scores of attention": (lambda q: torch.einsum("bhsd,bhtd->bhst", q, q) * 0.25, BOX),
    "addmm and an activation": (lambda b, x: torch._addmm_activation(b, x, x.t()), floats(4), X),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_row_says_what_eager_computes(name: str) -> None:
    fn, *args = CASES[name]
    check(fn, *args)


def test_a_refusal_ends_with_one_full_stop() -> None:
    """What the wire says of it is a sentence already."""
    with pytest.raises(CannotConvert) as refused:
        from_torch(lambda x: torch.div(x, -3, rounding_mode="trunc"))(whole(4, low=0, dtype=torch.uint8))
    assert "correct the number.\n  at " in str(refused.value)
    assert ".." not in str(refused.value).partition("\n")[0]


REFUSED: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "sort": (lambda x: x.sort(1)[0], X, "aten.sort"),
    "product of doubles": (lambda x: x.double() @ x.double().t(), X, "Leave it to torch, or cast"),
    "scaled product": (
        lambda x: torch._scaled_mm(x, x.t(), torch.ones(()), torch.ones(())),
        floats(16, 16).to(torch.float8_e4m3fn),
        "Leave the matrix product to torch",
    ),
    "nonzero": (lambda x: x.nonzero(), X, "data"),
    "a branch on data": (lambda x: x + 1 if x.sum() > 0 else x, X, "torch.where"),
    "an item": (lambda x: x * x[0, 0].item(), X, "Keep it a tensor"),
    "complex": (lambda x: torch.view_as_complex(x.view(4, 3, 2)).abs(), X, "complex"),
    "two indices": (lambda x: x[FEW, FEW], X, "one dimension"),
    "a mask as an index": (lambda x: x[MASK], X, "Leave it outside"),
    "windows that overlap": (lambda x: x.as_strided((3, 3), (1, 1)) + 1, X, "as_strided"),
    "values one after another": (lambda x: x.index_put((BOOL,), floats(int(BOOL.sum()))), X, "one after another"),
    "adding where a mask holds": (lambda x: x.index_put((MASK,), ROW, accumulate=True), X, "that indices choose"),
    "writing to rows": (lambda x: x.index_put((PLACES[0, :2],), ROW), X, "that indices choose"),
    "scattering to several places": (lambda x: x.scatter(1, PLACES, 1.0), X, "more than one place"),
    "tan": (lambda x: torch.tan(x), X, "sin and cos"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_is_refused_by_name_with_the_line(name: str) -> None:
    fn, x, said = REFUSED[name]
    with pytest.raises(CannotConvert) as caught:
        from_torch(fn)(x)
    assert said in str(caught.value)
    assert __file__ in caught.value.line
