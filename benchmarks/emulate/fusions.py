"""Random small fusions and some schedules of each, compiled: what both the card and the emulator run.

Pointwise operators, casts, broadcasts and permutes over shapes of 1 to 4 dimensions with sizes of one, primes, odd
ones and powers of two; dense and padded inputs in f32, bf16 and f16. Points are drawn from the spaces of every
scheduler that takes the fusion.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.emulate.form import ARCH
from compiler.arch import arch_named, card_or_default
from compiler.emulate.launch import Argument, EmulatedTensor, EmulatedTensorMap, Launch, TensorArgument, ValueArgument
from compiler.errors import CompileError, IllegalSchedule, Unsupported
from compiler.ir import fusion as ir
from compiler.nvrtc import Compiled, CompilePool
from compiler.pipeline import artifact, generate
from compiler.wire import bind
from fusetune.fusion import FusionBuilder
from fusetune.fusion import Tensor as Value
from fusetune.wire import parse_binding
from fusetune.wire.artifact import KernelArtifact, ScalarArg, TensorArg, TensorMapArg
from fusetune.wire.fusion import DTypeName
from search.space.schedulers import schedulers_for

Generator = np.random.Generator

POINTS = 2
"""Schedules of each fusion and scheduler."""

MOST_ELEMENTS = 8192
"""Of a fusion's largest tensor: a kernel of it runs in well under a second in the emulator."""

_SIZES = (1, 1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 32, 33, 40, 64, 96, 127, 128, 200, 256)
_WIDE = (17, 19, 24, 31, 32, 33, 40, 64, 96, 127, 128, 200)
_SHORT = (2, 3, 4, 5, 7, 8)
_DTYPES: tuple[DTypeName, ...] = ("f32", "bf16", "f16")
_UNARY = (
    "neg",
    "abs",
    "relu",
    "square",
    "exp",
    "tanh",
    "sigmoid",
    "gelu",
    "silu",
    "reciprocal",
    "sqrt",
    "rsqrt",
    "log",
)
_EXACT = ("neg", "abs", "relu")
_BINARY = ("add", "sub", "mul", "maximum", "minimum", "div")
_SMS = 4
"""Multiprocessors that persistent grids are sized for: few, so that their blocks have several tiles each."""

_STORAGE = {"f32": np.float32, "bf16": np.uint16, "f16": np.float16, "f64": np.float64}


@dataclass(frozen=True)
class FusionKernel:
    """One kernel: the artifact to launch and the PTX of its cubin."""

    name: str
    artifact: KernelArtifact
    ptx: str

    @property
    def is_exact(self) -> bool:
        """Whether the PTX leaves no freedom: no approximate instruction, and no product and sum that the assembler may
        contract (PTX ISA, "mul", "add": without a rounding modifier)."""
        text = self.ptx
        contracts = "mul.f32" in text and ("add.f32" in text or "sub.f32" in text)
        return not any(word in text for word in (".approx", ".full.")) and not contracts


def random_fusion(rng: Generator) -> ir.Fusion:
    """A fusion that this version compiles: one in three has one transposed input and one output, a few permute short
    dimensions inside runs of memory."""
    if rng.random() < 0.05:
        return _inside_runs(rng)
    f = FusionBuilder()
    is_transposed = rng.random() < 0.35
    shape = _shape(rng, _WIDE if is_transposed else _SIZES, 2 if is_transposed else 1)
    count = int(rng.integers(1, 4))
    values = [_transposed(f, rng, shape)] if is_transposed else [_operand(f, rng, shape, 0)]
    values += [_operand(f, rng, shape, k, may_permute=not is_transposed) for k in range(1, count)]
    is_exact = rng.random() < 0.4
    for _ in range(int(rng.integers(0, 5))):
        values.append(_applied(f, rng, values, is_exact))
    result = values[-1]
    for other in values[:-1]:
        if rng.random() < 0.5 or other is values[0]:
            result = f.add(result, other) if rng.random() < 0.7 else f.maximum(result, other)
    if not is_transposed and rng.random() < 0.25 and len(shape) > 1:
        result = result.permute([int(d) for d in rng.permutation(len(shape))])
    to = _DTYPES[rng.integers(3)]
    f.output(f.copy(result) if to == "f32" else result.cast(to))
    if not is_transposed and rng.random() < 0.2:
        f.output(f.maximum(values[0], 0.25).cast(_DTYPES[1 + rng.integers(2)]))
    return bind(f.build(), parse_binding({}))


def _inside_runs(rng: Generator) -> ir.Fusion:
    """A batch of small matrices, transposed each."""
    f = FusionBuilder()
    batch, rows, columns = int(rng.choice(_WIDE)), int(rng.choice(_SHORT)), int(rng.choice(_SHORT))
    x = f.input("x0", (batch, rows, columns), _DTYPES[rng.integers(3)])
    f.output(f.abs(x).permute((0, 2, 1)))
    return bind(f.build(), parse_binding({}))


def _shape(rng: Generator, sizes: tuple[int, ...], least: int) -> tuple[int, ...]:
    """At least `least` dimensions; of few elements."""
    while True:
        shape = tuple(int(rng.choice(sizes)) for _ in range(int(rng.integers(least, 5))))
        if prod(shape) <= MOST_ELEMENTS:
            return shape


def _transposed(f: FusionBuilder, rng: Generator, shape: tuple[int, ...]) -> Value:
    """An input of the shape whose innermost dimension is another one; widened to f32."""
    rank = len(shape)
    order = list(range(rank))
    other = int(rng.integers(rank - 1))
    order[other], order[-1] = order[-1], order[other]
    dtype = _DTYPES[rng.integers(3)]
    source = tuple(shape[d] for d in order)
    value = f.input("x0", source, dtype, strides=_padded(rng, source)).permute(order)
    return value if dtype == "f32" else value.cast("f32")


def _operand(f: FusionBuilder, rng: Generator, shape: tuple[int, ...], number: int, may_permute: bool = True) -> Value:
    """An input that has the shape: as it is, permuted, or broadcast; widened to f32."""
    dtype = _DTYPES[rng.integers(3)]
    name, rank, draw = f"x{number}", len(shape), rng.random()
    if number > 0 and draw < 0.35:  # a broadcast: some dimensions only, in order
        kept = [d for d in range(rank) if rng.random() < 0.5] or [rank - 1]
        sizes = tuple(1 if rng.random() < 0.2 else shape[d] for d in kept)
        value = f.input(name, sizes, dtype).broadcast_to(shape, kept)
    elif may_permute and draw < 0.65 and rank > 1:
        order = [int(d) for d in rng.permutation(rank)]
        source = [0] * rank
        for to, of in enumerate(order):
            source[of] = shape[to]
        value = f.input(name, tuple(source), dtype, strides=_padded(rng, tuple(source))).permute(order)
    else:
        value = f.input(name, shape, dtype, strides=_padded(rng, shape))
    return value if dtype == "f32" else value.cast("f32")


def _padded(rng: Generator, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides with room after each row, sometimes; None is dense."""
    if rng.random() < 0.75 or len(shape) < 2:
        return None
    strides, step = [1], shape[-1] + int(rng.choice((1, 8)))
    for size in reversed(shape[:-1]):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _applied(f: FusionBuilder, rng: Generator, values: list[Value], is_exact: bool) -> Value:
    x = values[rng.integers(len(values))]
    if rng.random() < 0.5:
        name = str(rng.choice(_EXACT if is_exact else _UNARY))
        if name in ("sqrt", "rsqrt", "log", "reciprocal"):
            x = f.add(f.abs(x), 0.5)
        found: Value = getattr(f, name)(x)
        return found
    name = str(rng.choice(("maximum", "minimum", "add") if is_exact else _BINARY))
    y: Value | float = values[rng.integers(len(values))] if rng.random() < 0.7 else round(float(rng.normal()), 2)
    if name == "div":
        y = f.add(f.abs(y), 0.5) if isinstance(y, Value) else 1.5
    result: Value = getattr(f, name)(x, y)
    return result


def candidates(count: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Generated kernels of `count` fusions, by name; fusions that no scheduler takes are replaced."""
    arch = arch_named(ARCH)
    card = replace(card_or_default(None), arch=arch, sm_count=_SMS)
    made = 0
    number = 0
    while made < count:
        rng = np.random.default_rng((seed, number))
        number += 1
        fusion = random_fusion(rng)
        found = False
        for scheduler in schedulers_for(fusion, card):
            for k, point in enumerate(scheduler.space(fusion, arch).sample(POINTS, seed + number)):
                try:
                    kernel = generate(scheduler.trace(fusion, point), arch)
                except (IllegalSchedule, Unsupported):
                    continue  # the whole model refuses what the space allowed
                if len(kernel.launches) == 1:  # a launch is what is compared
                    yield f"fusion{number}-{scheduler.name}-{k}", kernel
                    found = True
        made += found


def prepare_fusions(folder: Path, count: int, seed: int, workers: int = 2) -> int:
    """Compiles the kernels of `count` random fusions into `folder`, one JSON file each. Returns how many kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    with CompilePool(workers) as pool:
        running: list[tuple[str, Any, Future[Compiled]]] = [
            (name, made, pool.submit(made.source, made.arch.name)) for name, made in candidates(count, seed)
        ]
        written = 0
        for name, made, future in running:
            try:
                compiled = future.result()
            except CompileError as error:
                raise CompileError(f"{name}: {error}") from error
            document = {
                "name": name,
                "artifact": artifact(made, compiled).model_dump_json(),
                "ptx": b64encode(compiled.ptx.encode()).decode(),
            }
            (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
            written += 1
    return written


def prepared_fusions(folder: Path) -> list[FusionKernel]:
    """What `prepare_fusions` left, in the order of the names."""
    found = []
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        kernel = KernelArtifact.model_validate_json(document["artifact"])
        found.append(FusionKernel(document["name"], kernel, b64decode(document["ptx"]).decode()))
    return found


def launch_of(candidate: FusionKernel) -> Launch:
    """The candidate's launch over random inputs of standard normal numbers; outputs are poison."""
    kernel = candidate.artifact
    (spec,) = kernel.launches
    names = [f"in{k}" for k in range(len(kernel.inputs))] + [f"out{k}" for k in range(len(kernel.outputs))]
    tensors = {}
    for k, (name, described) in enumerate(zip(names, (*kernel.inputs, *kernel.outputs), strict=True)):
        is_input = k < len(kernel.inputs)
        extent = 1 + sum((n - 1) * s for n, s in zip(described.shape, described.strides, strict=True))
        width = np.dtype(_STORAGE[described.dtype]).itemsize
        data = _random(described.dtype, extent, k) if is_input else np.full(extent * width, 0xA5, np.uint8)
        initialized = None if is_input else np.zeros(extent * width, np.bool_)
        tensors[name] = EmulatedTensor(name, described.dtype, described.shape, data, initialized, align=256)
    arguments = tuple(_argument(a, names) for a in spec.args)
    return Launch(spec.entry, ARCH, spec.grid, spec.block, arguments, tensors, spec.cluster, spec.dynamic_smem_bytes)


def _argument(argument: Any, names: list[str]) -> Argument:
    match argument:
        case TensorArg(position=position):
            return TensorArgument(names[position])
        case TensorMapArg():
            return EmulatedTensorMap(
                names[argument.position],
                {"bool": "u8", "i8": "u8"}.get(argument.dtype, argument.dtype),
                argument.dims,
                argument.strides_bytes,
                argument.box,
                argument.element_strides,
                f"{argument.swizzle}B" if argument.swizzle else "NONE",
                l2_promotion=argument.l2_promotion,
            )
        case ScalarArg(dtype=dtype, value=value):
            return ValueArgument(np.array(value, {"i32": "<i4", "i64": "<i8", "f32": "<f4"}[dtype]).tobytes())
        case _:
            raise ValueError(f"a pointwise kernel has no argument {argument}")


def _random(dtype: str, extent: int, seed: int) -> npt.NDArray[np.uint8]:
    values = np.random.default_rng(seed).standard_normal(extent).astype(np.float32)
    if dtype == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return values.astype(_STORAGE[dtype]).view(np.uint8)
