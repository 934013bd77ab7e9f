"""Cases of the suite: selection, inputs, and the functions a torch user would write for them.

A case is a dict as `suite_public.json` holds it. Its `torch` lines are executed: read suites from trusted files only.
"""

from __future__ import annotations

import fnmatch
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

SUITE = Path(__file__).parents[1] / "suite" / "suite_public.json"

Case = dict[str, Any]
Tensors = Sequence[torch.Tensor]
Implementation = Callable[..., Tensors]

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}


def load(patterns: Sequence[str], *, tiny: bool, path: Path = SUITE) -> list[Case]:
    """Timed cases whose id fits one of the globs, in the suite's order; `tiny` takes the small form of each.

    Raises ValueError for a pattern that fits no case.
    """
    cases = [case for case in json.loads(path.read_text())["cases"] if not case.get("compile_only")]
    for pattern in patterns:
        if not fnmatch.filter([case["id"] for case in cases], pattern):
            raise ValueError(f"--cases: no timed case fits {pattern!r}. The ids are in {path.name}.")
    chosen = [case for case in cases if any(fnmatch.fnmatchcase(case["id"], p) for p in patterns)]
    return [case | case["tiny"] for case in chosen] if tiny else chosen


def bytes_moved(case: Case) -> tuple[int, int]:
    """Fewest bytes read and written: each distinct input element once (stride 0 repeats), each output element once."""
    read = sum(_distinct(t["shape"], t["strides"]) * DTYPES[t["dtype"]].itemsize for t in case["inputs"])
    written = sum(math.prod(t["shape"]) * DTYPES[t["dtype"]].itemsize for t in case["outputs"])
    return read, written


def matmul_flops(case: Case) -> int:
    """Multiplications and additions of the case's matmuls; 0 for the small form, whose work nobody counts."""
    return int(case["mm_flops"]) if bytes_moved(case) == (case["bytes_read"], case["bytes_written"]) else 0


def make_inputs(case: Case, device: str, seed: int) -> list[torch.Tensor]:
    """One set of random inputs, filled as the case says, with its strides."""
    generator = torch.Generator(device).manual_seed(seed)
    return [_make_input(spec, device, generator) for spec in case["inputs"]]


def idiom(case: Case) -> Implementation:
    """The case's `torch` lines as a function that returns new, contiguous outputs."""
    names = ", ".join(t["name"] for t in case["inputs"])
    body = "\n".join(f"    {line}" for line in case["torch"])
    scope: dict[str, Any] = {"torch": torch, "F": functional}
    exec(compile(f"def written({names}):\n{body}\n", f"<{case['id']}>", "exec"), scope)
    written: Callable[..., torch.Tensor | Tensors] = scope["written"]

    def run(*inputs: torch.Tensor) -> Tensors:
        result = written(*inputs)
        outputs = (result,) if isinstance(result, torch.Tensor) else result
        return tuple(out.contiguous() for out in outputs)

    return run


def _make_input(spec: Case, device: str, generator: torch.Generator) -> torch.Tensor:
    shape, strides, init = spec["shape"], spec["strides"], spec["init"]
    elems = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    flat = torch.empty(elems, dtype=DTYPES[spec["dtype"]], device=device)
    match init["dist"]:
        case "normal":
            flat.normal_(init["mean"], init["std"], generator=generator)
        case "uniform":
            flat.uniform_(init["low"], init["high"], generator=generator)
        case "int":
            flat.random_(init["low"], init["high"], generator=generator)
        case other:
            raise ValueError(f"{spec['name']}: init.dist is {other!r}, expected normal, uniform or int.")
    return flat.as_strided(shape, strides)


def _distinct(shape: Sequence[int], strides: Sequence[int]) -> int:
    return math.prod(extent for extent, stride in zip(shape, strides, strict=True) if stride)
