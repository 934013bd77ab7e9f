"""Cases of the suites: selection, inputs, and the functions a torch user would write for them.

A case is a dict as a suite file holds it. Its `torch` lines are executed: read suites from trusted files only.
"""

from __future__ import annotations

import fnmatch
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from fusetune.torch import DTYPES

SUITE = Path(__file__).parents[1] / "suite" / "suite_public.json"

Case = dict[str, Any]
Tensors = Sequence[Any]
"""What a call takes or gives: tensors, lists of them where the case has lists, and, taken, numbers by value."""

Implementation = Callable[..., Tensors]


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
    """Fewest bytes read and written: each distinct input element once (stride 0 repeats), each output element once.

    An input of which only some elements are read says how many (`read`); lists have all their tensors.
    """
    read = sum(_elems(case, t) * DTYPES[t["dtype"]].itemsize for t in case["inputs"])
    written = sum(_elems(case, t) * DTYPES[t["dtype"]].itemsize for t in case["outputs"])
    return read, written


def matmul_flops(case: Case) -> int:
    """Multiplications and additions of the case's matmuls; 0 for the small form, whose work nobody counts."""
    return int(case["mm_flops"]) if bytes_moved(case) == (case["bytes_read"], case["bytes_written"]) else 0


def multiplies_in_tf32(case: Case) -> bool:
    """Whether products of f32 may be less than exact."""
    return any(op.get("precision") == "tf32" for op in case["ops"])


@contextmanager
def as_allowed(case: Case) -> Iterator[None]:
    """Torch's libraries may multiply for the while what the case allows."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if multiplies_in_tf32(case) else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def make_inputs(case: Case, device: str, seed: int) -> list[Any]:
    """One set of random inputs, filled as the case says, with its strides; then its numbers by value."""
    generator = torch.Generator(device).manual_seed(seed)
    return [_make_input(case, spec, device, generator) for spec in case["inputs"]] + numbers(case)


def numbers(case: Case) -> list[float]:
    """What the case passes by value, in the order of its scalars."""
    return [case["values"][scalar["name"]] for scalar in case.get("scalars", ())]


def fresh(case: Case, inputs: Tensors) -> list[Any]:
    """The inputs with copies of those that a call changes in place."""
    names = [spec["name"] for spec in case["inputs"]]
    changed = {names.index(spec["alias"]) for spec in case["outputs"] if "alias" in spec}
    return [_copied(x) if place in changed else x for place, x in enumerate(inputs)]


def idiom(case: Case) -> Implementation:
    """The case's `torch` lines as a function that returns contiguous outputs, new ones where they are not in place."""
    return finished(case, plain(case, case["torch"]))


def peers(case: Case) -> Mapping[str, Implementation]:
    """Implementations that the case has beside its torch lines, or in their place (`eager`)."""
    found = case.get("peers", {})
    return {name: finished(case, plain(case, peer["lines"], peer["setup"])) for name, peer in found.items()}


def plain(case: Case, lines: Sequence[str], setup: Sequence[str] = ()) -> Implementation:
    """The lines as a function of the case's inputs, whose results are as the lines give them, but dense.

    `setup` runs before the first call, with the inputs of that call.
    """
    names = [t["name"] for t in (*case["inputs"], *case.get("scalars", ()))]
    body = "\n".join(f"    {line}" for line in lines)
    scope: dict[str, Any] = {"torch": torch, "F": functional}
    exec(compile(f"def written({', '.join(names)}):\n{body}\n", f"<{case['id']}>", "exec"), scope)
    written: Callable[..., Any] = scope["written"]
    waiting = ["\n".join(setup)] if setup else []

    def run(*inputs: Any) -> Tensors:
        if waiting:
            _set_up(waiting.pop(), scope, dict(zip(names, inputs, strict=True)))
        result = written(*inputs)
        outputs = (result,) if isinstance(result, torch.Tensor) else result
        return tuple(out.contiguous() if isinstance(out, torch.Tensor) else out for out in outputs)

    return run


def finished(case: Case, call: Implementation) -> Implementation:
    """The call, followed by the gradients of its only result where the case asks for them."""
    wanted = [place for place, spec in enumerate(case["inputs"]) if spec["name"] in case.get("grad", ())]
    if not wanted:
        return call

    def run(*inputs: Any) -> Tensors:
        leaves = [x.detach().requires_grad_(place in wanted) for place, x in enumerate(inputs)]
        with torch.enable_grad():
            (result,) = call(*leaves)
            return (result.detach(), *torch.autograd.grad(result, [leaves[place] for place in wanted]))

    return run


def _set_up(text: str, scope: dict[str, Any], inputs: Mapping[str, Any]) -> None:
    """Runs lines once: what they define is seen by the function of `scope`, the inputs by them alone."""
    made = dict(scope) | dict(inputs)
    exec(compile(text, "<setup>", "exec"), made)
    scope.update({name: value for name, value in made.items() if name not in inputs})


def _copied(x: Any) -> Any:
    return [one.clone() for one in x] if isinstance(x, list) else x.clone()


def _make_input(case: Case, spec: Case, device: str, generator: torch.Generator) -> Any:
    if spec.get("list"):
        return [_filled(spec, math.prod(shape), device, generator).view(shape) for shape in case["tensors"]]
    shape, strides = spec["shape"], spec["strides"]
    elems = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    return _filled(spec, elems, device, generator).as_strided(shape, strides)


def _filled(spec: Case, elems: int, device: str, generator: torch.Generator) -> torch.Tensor:
    init = spec["init"]
    flat = torch.empty(elems, dtype=DTYPES[spec["dtype"]], device=device)
    match init["dist"]:
        case "normal":
            return flat.normal_(init["mean"], init["std"], generator=generator)
        case "uniform":
            return flat.uniform_(init["low"], init["high"], generator=generator)
        case "int":
            return flat.random_(init["low"], init["high"], generator=generator)
        case "distinct":
            every = torch.randperm(init["high"] - init["low"], device=device, generator=generator)
            return flat.copy_(every[:elems] + init["low"])
        case other:
            raise ValueError(f"{spec['name']}: init.dist is {other!r}, expected normal, uniform, int or distinct.")


def _elems(case: Case, spec: Case) -> int:
    """Distinct elements that are read or written of a tensor, or of all tensors of a list."""
    if spec["shape"] == ["N"]:
        return sum(map(math.prod, case["tensors"]))
    strides = spec.get("strides") or [1] * len(spec["shape"])
    distinct = math.prod(extent for extent, stride in zip(spec["shape"], strides, strict=True) if stride)
    return int(spec.get("read", distinct))
