"""The suite of what models say beside plain arithmetic. `python -m benchmarks.suite.language` writes it.

Optimizers over lists of tensors, losses over a vocabulary, row quantisation, dropout, embeddings, exact GELU; each with
the torch lines a user would write, and a small form. A case has what those of the other suites have, and, where needed:

- `tensors`: the shapes of the tensors of each list;
- `scalars` and `values`: numbers by value, and what they are here;
- `alias` of an output: the input that is changed in place. Calls are repeated on what the last one left;
- `grad`: the torch lines are a loss; the gradients by these inputs follow its value among the outputs;
- `peers`: lines of other implementations by name, `eager` where it is not the torch lines; `setup` runs once;
- `keeps`: which elements an implementation has kept that draws numbers of its own, by its outputs (`drawn`);
- `read` of an input: elements that have to be read of it, where the rest stays untouched;
- `floor_case`: the case whose best time is the floor of this one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from math import pi, sqrt
from pathlib import Path
from typing import Any

from benchmarks.suite.forms import NORMAL, Form, Init, case, form
from fusetune import FusionBuilder, functional
from fusetune.fusion import Tensor
from fusetune.wire.fusion import DTypeName

SUITE = Path(__file__).with_name("suite_language.json")

SCALE: Init = {"dist": "normal", "mean": 1.0, "std": 0.1}
SQUARES: Init = {"dist": "uniform", "low": 1e-3, "high": 1.0}

BETA1, BETA2, EPS, DECAY, LR = 0.9, 0.999, 1e-8, 0.01, 1e-3
SMOOTHING = 0.1
DROPPED = 0.1
LAYERS = 11


def cases() -> list[dict[str, Any]]:
    """All cases, each with its small form as `tiny`."""
    return [*_optimizers(), *_losses(), *_quantised(), *_normalized(), *_embedded(), *_gelus()]


def parameters() -> list[list[int]]:
    """A hundred tensors of a billion elements, as of a small language model: matrices, and vectors of its norms."""
    layer = [[2048, 2048], [512, 2048], [512, 2048], [2048, 2048], *[[8960, 2048]] * 2, [2048, 8960], [2048], [2048]]
    return [[136003, 2048], *layer * LAYERS]


def _optimizers() -> list[dict[str, Any]]:
    small = [[5, 3], [7], [1], [40, 33], [2051]]
    note = "one step over a hundred tensors, in place; calls go on from what the last one left"
    return [
        case("adamw_f32_1b", "optimizer", note, _adamw, ("f32", parameters()), ("f32", small)),
        case(
            "adamw_bf16_1b", "optimizer", f"{note}; parameters in bf16, moments in f32",
            _adamw, ("bf16", parameters()), ("bf16", small),
        ),
    ]  # fmt: skip


def _adamw(dtype: DTypeName, tensors: list[list[int]]) -> Form:
    f = FusionBuilder()
    p, g, m, v = (f.input(x, ("N",), dtype if x in "pg" else "f32", is_list=True) for x in "pgmv")
    kept, step, root = (f.scalar(name) for name in ("kept", "step", "root"))
    slope, weight = (x if dtype == "f32" else x.cast("f32") for x in (g, p))
    m1 = m + (slope - m) * (1 - BETA1)
    v1 = v * BETA2 + slope * slope * (1 - BETA2)
    p1 = weight * kept - m1 / (f.sqrt(v1) / root + EPS) * step
    f.output(p1 if dtype == "f32" else p1.cast(dtype), "p1", alias=p)
    f.output(m1, "m1", alias=m)
    f.output(v1, "v1", alias=v)
    values = {"kept": 1 - LR * DECAY, "step": LR / (1 - BETA1), "root": sqrt(1 - BETA2)}
    lines = [
        f"torch._foreach_lerp_(m, g, {1 - BETA1})",
        f"torch._foreach_mul_(v, {BETA2})",
        f"torch._foreach_addcmul_(v, g, g, {1 - BETA2})",
        "d = torch._foreach_sqrt(v)",
        "torch._foreach_div_(d, root)",
        f"torch._foreach_add_(d, {EPS})",
        "torch._foreach_mul_(p, kept)",
        "torch._foreach_addcdiv_(p, m, d, -step)",
        "return p, m, v",
    ]
    peers = {}
    if dtype == "f32":
        peers = {"eager": _torch_step("foreach", "cpu"), "fused": _torch_step("fused", "device")}
    else:
        lines = ["w, p = p, [x.float() for x in p]", "g = [x.float() for x in g]", *lines[:-1]]
        lines += ["torch._foreach_copy_(w, p)", "return w, m, v"]
    fills = {"p": NORMAL, "g": NORMAL, "m": NORMAL, "v": SQUARES}
    return form(f.build(), fills, lines, tensors=tensors, values=values, **({"peers": peers} if peers else {}))


def _torch_step(form: str, where: str) -> dict[str, list[str]]:
    """torch.optim.AdamW's own step, always its first one: the count of steps starts anew."""
    place = "'cpu'" if where == "cpu" else "p[0].device"
    return {
        "setup": [
            "from torch.optim.adamw import adamw",
            f"steps = [torch.zeros((), device={place}) for _ in p]",
        ],
        "lines": [
            "torch._foreach_zero_(steps)",
            f"adamw(p, g, m, v, [], steps, {form}=True, amsgrad=False, beta1={BETA1}, beta2={BETA2}, lr={LR}, "
            f"weight_decay={DECAY}, eps={EPS}, maximize=False)",
            "return p, m, v",
        ],
    }


def _losses() -> list[dict[str, Any]]:
    found = []
    for words in (131072, 128256):
        size = f"bf16_8192x{words}"
        full, tiny = (8192, words), (6, 320)
        note = "label smoothing, mean over rows; computed in f32, as Hugging Face's losses are"
        found += [
            case(f"cross_entropy_{size}", "loss", note, _cross_entropy, (*full, False), (*tiny, False)),
            case(
                f"cross_entropy_grad_{size}", "loss", f"{note}; with the gradient by the logits",
                _cross_entropy, (*full, True), (*tiny, True),
            ),
        ]  # fmt: skip
    return found


def _cross_entropy(rows: int, words: int, with_gradient: bool) -> Form:
    f = FusionBuilder()
    x = f.input("x", (rows, words), "bf16")
    target = f.input("target", (rows,), "i64")
    wide = x.cast("f32")
    total = functional.logsumexp(wide, dims=(1,))
    chosen = f.gather(x, 1, target.reshape((rows, 1))).cast("f32").reshape((rows,))
    loss = total - chosen * (1 - SMOOTHING) - wide.sum((1,)) * (SMOOTHING / words)
    f.output(loss.mean((0,)), "loss")
    if with_gradient:
        every = (rows, words)
        share = f.exp(wide - total.broadcast_to(every, dims=(0,))) - SMOOTHING / words
        is_target = f.eq(f.iota(every, 1, "i64"), target.broadcast_to(every, dims=(0,)))
        f.output((f.where(is_target, share - (1 - SMOOTHING), share) / rows).cast("bf16"), "dx")
    fills = {"x": NORMAL, "target": {"dist": "int", "low": 0, "high": words}}
    more = {"grad": ["x"]} if with_gradient else {}
    return form(f.build(), fills, [f"return F.cross_entropy(x.float(), target, label_smoothing={SMOOTHING})"], **more)


def _quantised() -> list[dict[str, Any]]:
    tiny, note = (6, 48), "each row by its own largest magnitude; the quotients and the scale"
    return [
        case(
            f"quantize_{dtype}_bf16_{rows}x{cols}", "quantisation", note,
            _quantize, (dtype, rows, cols), (dtype, *tiny),
        )
        for dtype in ("i8", "f8e4m3")
        for rows, cols in ((8192, 4096), (16384, 8192))
    ]  # fmt: skip


def _quantize(dtype: DTypeName, rows: int, cols: int) -> Form:
    f = FusionBuilder()
    largest = {"i8": 127.0, "f8e4m3": 448.0}[dtype]
    x = f.input("x", (rows, cols), "bf16").cast("f32")
    scale = f.maximum(f.abs(x).amax((1,), keepdim=True), 1e-12) / largest
    q = x / scale.broadcast_to((rows, cols), dims=(0, 1))
    q = functional.clamp(f.round(q), -128.0, 127.0) if dtype == "i8" else functional.clamp(q, -largest, largest)
    f.output(q.cast(dtype), "q")
    f.output(scale, "scale")
    lines = [
        "x = x.float()",
        f"scale = x.abs().amax(1, keepdim=True).clamp(min=1e-12) / {largest}",
        "return (x / scale).round().clamp(-128, 127).to(torch.int8), scale"
        if dtype == "i8"
        else f"return (x / scale).clamp(-{largest}, {largest}).to(torch.float8_e4m3fn), scale",
    ]
    return form(f.build(), {"x": NORMAL}, lines)


def _normalized() -> list[dict[str, Any]]:
    note = "both outputs; seed and offset are what the backward needs of the mask. Torch draws numbers of its own"
    return [
        case(
            "dropout_residual_layernorm_bf16_16384x4096", "normalization", note,
            _dropout_norm, (16384, 4096), (8, 64),
        )
    ]  # fmt: skip


def _dropout_norm(rows: int, cols: int) -> Form:
    f = FusionBuilder()
    x, r = (f.input(name, (rows, cols), "bf16") for name in "xr")
    w, b = (f.input(name, (cols,), "bf16").cast("f32").broadcast_to((rows, cols), dims=(1,)) for name in "wb")
    seed, offset = (f.input(name, (), "i64") for name in ("seed", "offset"))
    h = r.cast("f32") + f.dropout(x.cast("f32"), DROPPED, seed, offset)
    centred = h - _over(h.mean((1,), keepdim=True), h)
    y = centred * _over(f.rsqrt(f.square(centred).mean((1,), keepdim=True) + 1e-5), h) * w + b
    f.output(y.cast("bf16"), "y")
    f.output(h.cast("bf16"), "h")
    lines = [
        f"h = r + F.dropout(x, {DROPPED}, training=True)",
        f"return F.layer_norm(h, ({cols},), w, b, 1e-5), h",
    ]
    counter = {"dist": "int", "low": 0, "high": 1 << 40}
    fills = {"x": NORMAL, "r": NORMAL, "w": SCALE, "b": NORMAL, "seed": counter, "offset": counter}
    kept = f"r.double() + x.double() / {1 - DROPPED}"
    keeps = {
        "of": next(op.out for op in f.build().ops if op.op == "rand"),
        "share": 1 - DROPPED,
        "kept": f"(h.double() - ({kept})).abs() <= (h.double() - r.double()).abs()",
        "told_apart": "x.abs() > 0.25",
    }
    return form(f.build(), fills, lines, keeps=keeps)


def _over(folded: Tensor, x: Tensor) -> Tensor:
    return folded.broadcast_to(x.shape, dims=(0, 1))


def _embedded() -> list[dict[str, Any]]:
    full, tiny = (4, 4096, 32, 128, 128256), (2, 3, 2, 8, 16)
    plain = "embedding_bf16_16384x4096"
    return [
        case(plain, "embedding", "rows of a table, each chosen once", _embedding, (*full, False), (*tiny, False)),
        case(
            "embedding_rope_bf16_4x4096x32x128", "embedding", "rows of a table, turned by their position in halves",
            lambda *sizes: _embedding(*sizes) | {"floor_case": plain}, (*full, True), (*tiny, True),
        ),
    ]  # fmt: skip


def _embedding(batch: int, tokens: int, heads: int, wide: int, words: int, turned: bool) -> Form:
    f = FusionBuilder()
    table = f.input("table", (words, heads * wide), "bf16")
    index = f.input("index", (batch, tokens), "i64")
    chosen = f.embedding(index, table)
    taken = batch * tokens * heads * wide
    fills: dict[str, Init] = {
        "table": {"init": NORMAL, "read": taken},
        "index": {"dist": "distinct", "low": 0, "high": words},
    }
    if not turned:
        f.output(f.copy(chosen), "y")
        return form(f.build(), fills, ["return F.embedding(index, table)"])
    half, every = wide // 2, (batch, tokens, heads, wide // 2)
    c, s = (f.input(name, (tokens, half), "f32").broadcast_to(every, dims=(1, 3)) for name in ("cos", "sin"))
    x = chosen.cast("f32").reshape((batch, tokens, heads, wide))
    a, b = x.slice(3, 0, half), x.slice(3, half, wide)
    f.output(f.cat((a * c - b * s, b * c + a * s), dim=3).cast("bf16"), "y")
    angles = {"dist": "uniform", "low": -1.0, "high": 1.0}
    lines = [
        f"x = F.embedding(index, table).view({batch}, {tokens}, {heads}, {wide}).float()",
        "a, b = x.chunk(2, -1)",
        "c, s = cos[None, :, None], sin[None, :, None]",
        "return torch.cat((a * c - b * s, b * c + a * s), -1).to(table.dtype)",
    ]
    return form(f.build(), fills | {"cos": angles, "sin": angles}, lines)


def _gelus() -> list[dict[str, Any]]:
    full, tiny = (8192, 12288), (6, 48)
    return [
        case("gelu_erf_bf16_8192x12288", "pointwise", "torch's default GELU", _gelu, full, tiny),
        case("gelu_erf_backward_bf16_8192x12288", "pointwise", "what autograd calls", _gelu_backward, full, tiny),
    ]


def _gelu(rows: int, cols: int) -> Form:
    f = FusionBuilder()
    f.output(f.gelu(f.input("x", (rows, cols), "bf16").cast("f32"), approximate="none").cast("bf16"), "y")
    return form(f.build(), {"x": NORMAL}, ["return F.gelu(x)"])


def _gelu_backward(rows: int, cols: int) -> Form:
    f = FusionBuilder()
    dy, x = (f.input(name, (rows, cols), "bf16").cast("f32") for name in ("dy", "x"))
    below = (f.erf(x * sqrt(0.5)) + 1.0) * 0.5
    density = f.exp(f.square(x) * -0.5) * (1 / sqrt(2 * pi))
    f.output((dy * (below + x * density)).cast("bf16"), "dx")
    return form(f.build(), {"dy": NORMAL, "x": NORMAL}, ["return torch.ops.aten.gelu_backward(dy, x)"])


def to_text() -> str:
    """The suite as JSON."""
    return json.dumps({"format": 1, "suite": "language", "cases": cases()}, indent=1) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the suite anew."""
    argparse.ArgumentParser(prog="python -m benchmarks.suite.language", description=__doc__).parse_args(argv)
    SUITE.write_text(to_text())
    print(f"{len(cases())} cases in {SUITE}")


if __name__ == "__main__":
    main()
