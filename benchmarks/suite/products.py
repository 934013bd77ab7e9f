"""The suite of matrix products with what surrounds them. `python -m benchmarks.suite.products` writes it.

Those of the public suite are here, too, so that one run compares all: large products, products of few rows as in
decoding, MLPs of transformers, and sizes that no vector divides. `w` is as torch's linear layers keep it, [N, K], where
not said otherwise.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.suite.forms import NORMAL, Form, Init, case, form
from fusetune import FusionBuilder
from fusetune.fusion import Tensor

SUITE = Path(__file__).with_name("suite_products.json")
PUBLIC = Path(__file__).with_name("suite_public.json")

DIT_MLP = "mm_mlp_dit_bf16_32768x1152x4608"
CONVNEXT_MLP = "mm_mlp_convnext_bf16_50176x384x1536"
"""Rows, width, and width between the two products, as the models of this benchmark have them."""


def _library(*lines: str) -> dict[str, Any]:
    return {"peers": {"fused": {"setup": [], "lines": list(lines)}}}


PEERS: dict[str, dict[str, Any]] = {
    "mm_bias_gelu_bf16_8192x16384x4096": _library("return torch._addmm_activation(b, a, w.t(), use_gelu=True)"),
    DIT_MLP: _library(
        "h = torch._addmm_activation(b1, x, w1.t(), use_gelu=True)",
        "return F.linear(h, w2, b2)",
    ),
}
"""What cuBLASLt has of a case's epilogue."""

FEW_ROWS = (1, 8, 16, 32, 64, 128)
TINY = (5, 16, 32)
"""Rows, columns, and how many are summed, of small forms."""


def cases() -> list[dict[str, Any]]:
    """All cases, each with its small form as `tiny`."""
    public = [c for c in json.loads(PUBLIC.read_text())["cases"] if c["id"].startswith("mm_")]
    return [c | PEERS.get(c["id"], {}) for c in (*public, *_few_rows(), *_around(), *_odd(), *_mlps(), *_in_tf32())]


def _few_rows() -> list[dict[str, Any]]:
    note = "as many rows as requests are decoded together"
    return [
        case(f"mm_bf16_m{m}_n8192_k8192", "matmul", note, _linear, (m, 8192, 8192), TINY) for m in FEW_ROWS if m != 16
    ]


def _around() -> list[dict[str, Any]]:
    def size(m: int, n: int, k: int) -> str:
        return f"bf16_{m}x{n}x{k}"

    gated, square, few = (4096, 14336, 4096), (8192, 4096, 4096), (16, 8192, 8192)
    return [
        case(f"mm_swiglu_{size(*gated)}", "matmul_epilogue", "gate and up of a Llama MLP", _swiglu, gated, TINY),
        case(f"mm_bias_residual_{size(*square)}", "matmul_epilogue", "the end of a block", _residual, square, TINY),
        case(
            f"mm_scaled_i8_{size(*few)}", "matmul_prologue", "weights of 8 bits, a scale a column", _scaled, few, TINY
        ),
        case(f"mm_turned_{size(*square)}", "matmul_epilogue", "the result transposed", _turned, square, TINY),
        case(
            f"mm_squares_{size(*square)}", "matmul_epilogue", "and what a norm behind it needs", _squares, square, TINY
        ),
    ]


def _odd() -> list[dict[str, Any]]:
    note = "no row of w begins at a multiple of 16 bytes; w is [K, N]"
    sizes = ((4096, 4095, 4096), (2049, 1001, 3001))
    return [case(f"mm_bf16_{m}x{n}x{k}", "matmul", note, _plain, (m, n, k), (5, 9, 17)) for m, n, k in sizes]


def _mlps() -> list[dict[str, Any]]:
    dit, convnext = (32768, 1152, 4608), (50176, 384, 1536)
    return [
        case(DIT_MLP, "matmul_epilogue", "the MLP of a DiT-XL block", _dit_mlp, dit, TINY),
        case(CONVNEXT_MLP, "matmul_epilogue", "the MLP of a ConvNeXt block", _convnext_mlp, convnext, TINY),
    ]


def _in_tf32() -> list[dict[str, Any]]:
    square = (4096, 4096, 4096)
    return [
        case("mm_tf32_4096", "matmul", "f32, multiplied as tf32", _linear_in_tf32, square, TINY),
        case("mm_tf32_4096_n", "matmul", "the same; w is [K, N]", _plain_in_tf32, square, TINY),
        *(
            case(f"mm_tf32_{m}x{n}x{k}", "matmul", note, _linear_in_tf32, (m, n, k), TINY)
            for m, n, k, note in ((128, 8192, 8192, "few rows"), (5824, 488, 2792, "a thin result"))
        ),
        case(
            "mm_tf32_2049x1001x3001", "matmul", "odd rows; w is [K, N]", _plain_in_tf32, (2049, 1001, 3001), (5, 9, 17)
        ),
    ]


def _plain_in_tf32(m: int, n: int, k: int) -> Form:
    f = FusionBuilder()
    a, w = f.input("a", (m, k), "f32"), f.input("w", (k, n), "f32")
    f.output(f.matmul(a, w, precision="tf32"), "out")
    return _made(f, (m, n, k), {"a": NORMAL, "w": _share(k)}, ["return torch.matmul(a, w)"])


def _linear_in_tf32(m: int, n: int, k: int) -> Form:
    f = FusionBuilder()
    a, w = f.input("a", (m, k), "f32"), f.input("w", (n, k), "f32")
    f.output(f.matmul(a, w.permute((1, 0)), precision="tf32"), "out")
    return _made(f, (m, n, k), {"a": NORMAL, "w": _share(k)}, ["return F.linear(a, w)"])


def _plain(m: int, n: int, k: int) -> Form:
    f = FusionBuilder()
    a, w = f.input("a", (m, k), "bf16"), f.input("w", (k, n), "bf16")
    f.output(f.matmul(a, w, dtype="f32").cast("bf16"), "out")
    return _made(f, (m, n, k), {"a": NORMAL, "w": _share(k)}, ["return torch.matmul(a, w)"])


def _linear(m: int, n: int, k: int) -> Form:
    f = FusionBuilder()
    f.output(_product(f, m, n, k).cast("bf16"), "out")
    return _made(f, (m, n, k), {"a": NORMAL, "w": _share(k)}, ["return F.linear(a, w)"])


def _swiglu(m: int, n: int, k: int) -> Form:
    f = FusionBuilder()
    x = f.input("x", (m, k), "bf16")
    gate, up = (f.matmul(x, f.input(w, (n, k), "bf16").permute((1, 0)), dtype="f32") for w in ("wg", "wu"))
    f.output((f.silu(gate) * up).cast("bf16"), "out")
    fills = {"x": NORMAL, "wg": _share(k), "wu": _share(k)}
    return _made(f, (m, 2 * n, k), fills, ["return F.silu(F.linear(x, wg)) * F.linear(x, wu)"])


def _residual(m: int, n: int, k: int) -> Form:
    f = FusionBuilder()
    made = _product(f, m, n, k) + f.input("b", (n,), "bf16").cast("f32").broadcast_to((m, n), dims=(1,))
    f.output((made + f.input("r", (m, n), "bf16").cast("f32")).cast("bf16"), "out")
    fills = {"a": NORMAL, "w": _share(k), "b": NORMAL, "r": NORMAL}
    return _made(f, (m, n, k), fills, ["return F.linear(a, w, b) + r"])


def _scaled(m: int, n: int, k: int) -> Form:
    f = FusionBuilder()
    a, w = f.input("a", (m, k), "bf16"), f.input("w", (n, k), "i8").cast("bf16")
    scale = f.input("s", (n,), "f32").broadcast_to((m, n), dims=(1,))
    f.output((f.matmul(a, w.permute((1, 0)), dtype="f32") * scale).cast("bf16"), "out")
    fills = {
        "a": NORMAL,
        "w": {"dist": "int", "low": -127, "high": 128},
        "s": {"dist": "uniform", "low": 1e-5, "high": 1e-4},
    }
    return _made(f, (m, n, k), fills, ["return (F.linear(a, w.to(a.dtype)) * s).to(a.dtype)"])


def _turned(m: int, n: int, k: int) -> Form:
    f = FusionBuilder()
    f.output(_product(f, m, n, k).permute((1, 0)).cast("bf16"), "out")
    return _made(f, (m, n, k), {"a": NORMAL, "w": _share(k)}, ["return F.linear(a, w).t().contiguous()"])


def _squares(m: int, n: int, k: int) -> Form:
    f = FusionBuilder()
    made = _product(f, m, n, k)
    f.output(made.cast("bf16"), "out")
    f.output((made * made).sum(dims=(1,)).cast("bf16"), "squares")
    lines = ["y = F.linear(a, w)", "return y, y.float().square().sum(1).to(y.dtype)"]
    return _made(f, (m, n, k), {"a": NORMAL, "w": _share(k)}, lines)


def _dit_mlp(rows: int, width: int, inner: int) -> Form:
    f = FusionBuilder()
    x = f.input("x", (rows, width), "bf16")
    h = f.gelu(_biased(f, x, 1, inner)).cast("bf16")
    f.output(_biased(f, h, 2, width).cast("bf16"), "out")
    lines = ["h = F.gelu(F.linear(x, w1, b1), approximate='tanh')", "return F.linear(h, w2, b2)"]
    return _made(f, (2 * rows, inner, width), _mlp_fills(width, inner), lines)


def _convnext_mlp(rows: int, width: int, inner: int) -> Form:
    f = FusionBuilder()
    x = f.input("x", (rows, width), "bf16")
    h = f.gelu_erf(_biased(f, x, 1, inner)).cast("bf16")
    scale = f.input("s", (width,), "bf16").cast("f32").broadcast_to((rows, width), dims=(1,))
    r = f.input("r", (rows, width), "bf16").cast("f32")
    f.output((_biased(f, h, 2, width) * scale + r).cast("bf16"), "out")
    lines = ["h = F.gelu(F.linear(x, w1, b1))", "return r + s * F.linear(h, w2, b2)"]
    return _made(f, (2 * rows, inner, width), _mlp_fills(width, inner) | {"s": NORMAL, "r": NORMAL}, lines)


def _biased(f: FusionBuilder, x: Tensor, number: int, n: int) -> Tensor:
    """x @ w.T + b, in f32, with w of n rows."""
    m, k = (int(size) for size in x.shape)
    w, b = f.input(f"w{number}", (n, k), "bf16"), f.input(f"b{number}", (n,), "bf16")
    return f.matmul(x, w.permute((1, 0)), dtype="f32") + b.cast("f32").broadcast_to((m, n), dims=(1,))


def _mlp_fills(width: int, inner: int) -> dict[str, Init]:
    return {"x": NORMAL, "w1": _share(width), "b1": NORMAL, "w2": _share(inner), "b2": NORMAL}


def _product(f: FusionBuilder, m: int, n: int, k: int) -> Tensor:
    a, w = f.input("a", (m, k), "bf16"), f.input("w", (n, k), "bf16")
    return f.matmul(a, w.permute((1, 0)), dtype="f32")


def _share(k: int) -> Init:
    """So that results are about as large as one operand's elements."""
    return {"dist": "normal", "mean": 0.0, "std": round(k**-0.5, 6)}


def _made(f: FusionBuilder, sizes: tuple[int, int, int], fills: dict[str, Init], lines: Sequence[str]) -> Form:
    m, n, k = sizes
    return form(f.build(), fills, lines, mm_flops=2 * m * n * k)


def to_text() -> str:
    """The suite as JSON."""
    return json.dumps({"format": 1, "suite": "products", "cases": cases()}, indent=1) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the suite anew."""
    argparse.ArgumentParser(prog="python -m benchmarks.suite.products", description=__doc__).parse_args(argv)
    SUITE.write_text(to_text())
    print(f"{len(cases())} cases in {SUITE}")


if __name__ == "__main__":
    main()
