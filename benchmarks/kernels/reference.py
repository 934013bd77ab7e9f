"""What a case's outputs should be: its op list run in f64, and how far an implementation may be from that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.kernels.cases import Case, Tensors, multiplies_in_tf32
from compiler.ir.ops.philox import uniform
from fusetune.torch import DTYPES

TOLERANCE = {
    torch.float8_e4m3fn: (2e-2, 8e-2),
    torch.bfloat16: (1e-2, 2e-2),
    torch.float16: (2e-3, 5e-3),
    torch.float32: (1e-4, 1e-3),
    torch.float64: (1e-10, 1e-9),
}
"""Relative L2 error, and largest error over the largest value, by output dtype. Of 8-bit floats the reference is
rounded, too: a few quotients may round the other way."""

IN_TF32 = TOLERANCE[torch.float16]
"""Of f32 that is made of products in tf32, which has as many bits as f16."""

OFF_BY_ONE = 0.01
"""Share of quantised integers that may be the next one: quotients in f32 that lie half way between two."""

CHUNK_ELEMS = 1 << 26
"""Elements compared at a time: f64 copies of whole outputs would not fit beside the timed buffers."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an implementation's outputs compare with the reference; `why` is empty when they pass."""

    rel_l2: float
    rel_max: float
    why: str = ""

    @property
    def ok(self) -> bool:
        return not self.why


def reference(case: Case, inputs: Tensors, given: Mapping[str, torch.Tensor] | None = None) -> list[torch.Tensor]:
    """The outputs of the op list, every float held in f64; integers and booleans stay exact. Of lists: for one tensor
    of each. `given`: values that are taken as they are."""
    names = [spec["name"] for spec in (*case["inputs"], *case.get("scalars", ()))]
    values = {name: _wide(x) if isinstance(x, torch.Tensor) else x for name, x in zip(names, inputs, strict=True)}
    last_use = {name: i for i, op in enumerate(case["ops"]) for name in op.get("in", []) if isinstance(name, str)}
    kept = {spec["name"] for spec in case["outputs"]}
    device = next(x.device for x in inputs if isinstance(x, torch.Tensor))
    for i, op in enumerate(case["ops"]):
        values[op["out"]] = given[op["out"]] if given and op["out"] in given else _apply(op, values, device)
        for name in op.get("in", []):
            if isinstance(name, str) and last_use[name] == i and name not in kept:
                values.pop(name, None)
    return [values[spec["name"]] for spec in case["outputs"]]


def compare(case: Case, outputs: Tensors, expected: Tensors) -> Agreement:
    """Holds shape, dtype and density exactly, integers exactly, floats to `TOLERANCE`."""
    if len(outputs) != len(expected):
        return Agreement(math.inf, math.inf, f"{len(outputs)} outputs, expected {len(expected)}")
    worst = Agreement(0.0, 0.0)
    for spec, out, want in zip(case["outputs"], outputs, expected, strict=True):
        dtype, shape = DTYPES[spec["dtype"]], list(want.shape)
        if list(out.shape) != shape or out.dtype != dtype or not out.is_contiguous():
            found = f"{tuple(out.shape)} {out.dtype} strides {out.stride()}"
            return Agreement(math.inf, math.inf, f"{spec['name']}: {found}, expected dense {shape} {dtype}")
        allowed = IN_TF32 if multiplies_in_tf32(case) and dtype is torch.float32 else TOLERANCE.get(dtype, (0.0, 0.0))
        worst = _worse(worst, _compare_one(spec["name"], out.reshape(-1), want.reshape(-1), allowed))
    return worst


def _compare_one(name: str, out: torch.Tensor, want: torch.Tensor, allowed: tuple[float, float]) -> Agreement:
    if not out.is_floating_point():
        return _compare_integers(name, out, want)
    error2 = want2 = error_max = want_max = 0.0
    for start in range(0, out.numel(), CHUNK_ELEMS):
        expected = _held(want[start : start + CHUNK_ELEMS], out.dtype).double()
        error = out[start : start + CHUNK_ELEMS].double() - expected
        error2 += float(error.square().sum())
        want2 += float(expected.square().sum())
        error_max = max(error_max, float(error.abs().max()))
        want_max = max(want_max, float(expected.abs().max()))
    rel_l2 = _ratio(math.sqrt(error2), math.sqrt(want2))
    rel_max = _ratio(error_max, want_max)
    allowed_l2, allowed_max = allowed
    if rel_l2 <= allowed_l2 and rel_max <= allowed_max:
        return Agreement(rel_l2, rel_max)
    return Agreement(rel_l2, rel_max, f"{name}: relative L2 error {rel_l2:.2e}, largest {rel_max:.2e}")


def _compare_integers(name: str, out: torch.Tensor, want: torch.Tensor) -> Agreement:
    """Equal where integers are counted or moved; of floats that were rounded, a few may be the next one."""
    if torch.equal(out, want.to(out.dtype)):
        return Agreement(0.0, 0.0)
    if want.is_floating_point():
        distance = (out.double() - want).abs()
        if float(distance.max()) <= 1.0 and float((distance > 0).double().mean()) <= OFF_BY_ONE:
            return Agreement(0.0, 0.0)
    return Agreement(math.inf, math.inf, f"{name}: integers differ")


def _held(want: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As an output of 8 bits holds it; others are compared with what is not rounded."""
    return want.float().to(dtype) if dtype.itemsize == 1 else want


def _ratio(error: float, scale: float) -> float:
    if math.isnan(error) or math.isnan(scale):
        return math.inf
    return error / scale if scale else (0.0 if error == 0.0 else math.inf)


def _worse(a: Agreement, b: Agreement) -> Agreement:
    return Agreement(max(a.rel_l2, b.rel_l2), max(a.rel_max, b.rel_max), a.why or b.why)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.is_floating_point() else x


def _gelu(x: torch.Tensor) -> torch.Tensor:
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1.0 + torch.tanh(inner))


ELEMENTWISE: Mapping[str, Callable[..., torch.Tensor]] = {
    "copy": torch.clone,
    "neg": torch.neg,
    "abs": torch.abs,
    "exp": torch.exp,
    "log": torch.log,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": _gelu,
    "silu": lambda x: x / (1.0 + torch.exp(-x)),
    "sqrt": torch.sqrt,
    "rsqrt": lambda x: 1.0 / torch.sqrt(x),
    "reciprocal": torch.reciprocal,
    "square": torch.square,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "where": torch.where,
    "round": torch.round,
    "erf": torch.erf,
    "gelu_erf": torch.nn.functional.gelu,
    "matmul": torch.matmul,
}


def _operand(of: Any, values: Mapping[str, torch.Tensor]) -> torch.Tensor | Any:
    """A value of the graph, or a number: "inf" and "-inf" are numbers too."""
    if not isinstance(of, str):
        return of
    return values[of] if of in values else float(of)


def _apply(op: Case, values: Mapping[str, torch.Tensor], device: torch.device) -> torch.Tensor:
    args = [_operand(x, values) for x in op.get("in", [])]
    kind = op["op"]
    if kind in ("maximum", "minimum"):  # torch takes no number here
        like = next(a for a in args if isinstance(a, torch.Tensor))
        args = [a if isinstance(a, torch.Tensor) else torch.full_like(like, a) for a in args]
    if kind in ELEMENTWISE:
        return ELEMENTWISE[kind](*args)
    match kind:
        case "cast":
            dtype = DTYPES[op["dtype"]]
            if not args[0].is_floating_point() or dtype is torch.bool:
                return _wide(args[0].to(torch.float64 if dtype.is_floating_point else dtype))
            held: torch.Tensor = args[0]
            return held if dtype.is_floating_point else held.trunc()  # what was rounded is known by its type
        case "rand":
            elems = torch.arange(math.prod(op["shape"]), device=device).reshape(op["shape"])
            seed, offset = args
            return torch.as_tensor(uniform(torch, seed, offset, elems))
        case "take":
            return (
                args[0]
                .index_select(op.get("dim", 0), args[1].reshape(-1))
                .reshape((*args[0].shape[: op.get("dim", 0)], *args[1].shape, *args[0].shape[op.get("dim", 0) + 1 :]))
            )
        case "gather":
            return torch.gather(args[0], op["dim"], args[1])
        case "broadcast_to":
            view = [1] * len(op["shape"])
            for extent, dim in zip(args[0].shape, op["dims"], strict=True):
                view[dim] = extent
            return args[0].reshape(view).expand(op["shape"])
        case "permute":
            return args[0].permute(op["dims"])
        case "reshape":
            return args[0].reshape(op["shape"])
        case "slice":
            return args[0].narrow(op["dim"], op["start"], op["stop"] - op["start"])
        case "cat":
            return torch.cat(args, dim=op["dim"])
        case "iota":
            view = [1] * len(op["shape"])
            view[op["dim"]] = -1
            counted = torch.arange(op["shape"][op["dim"]], dtype=DTYPES[op["dtype"]], device=device)
            return _wide(counted.reshape(view).expand(op["shape"]))
        case "sum":
            return args[0].sum(op["dims"], keepdim=op["keepdim"])
        case "mean":
            return args[0].mean(op["dims"], keepdim=op["keepdim"])
        case "amax":
            return args[0].amax(op["dims"], keepdim=op["keepdim"])
        case "amin":
            return args[0].amin(op["dims"], keepdim=op["keepdim"])
        case _:
            raise ValueError(f"{op['out']}: unknown op {kind!r} in the suite.")
