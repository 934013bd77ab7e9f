"""An explicit schedule run in the emulator under all its checks, and compared with what its operators mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.emit.cuda import ENTRY
from compiler.emulate.launch import EmulatedOutcome, EmulatedTensor, Launch, Options, TensorArgument
from compiler.emulate.launch import EmulatedTensorMap as MapArgument
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.explicit.elements import elements, inputs_of, places, storage_elems, stored
from compiler.explicit.expected import expected
from compiler.explicit.generate import GeneratedExplicit
from compiler.nvrtc import CompilePool

POISON = 0xA5
"""What every byte of an output holds before it is written."""


@dataclass(frozen=True, slots=True)
class ComparedOutput:
    """One output beside its reference. `missing`: elements that nobody wrote, of those that were to be; `wrong`: those
    further off than `allowed`; `first` is one of them, with what was found and expected; `max_error` is the largest."""

    tensor: str
    count: int
    missing: int
    wrong: int
    max_error: float
    first: str = ""

    @property
    def is_right(self) -> bool:
        return not self.missing and not self.wrong

    def __str__(self) -> str:
        if self.is_right:
            return f"{self.tensor}: {self.count} elements right, largest error {self.max_error:g}"
        return f"{self.tensor}: {self.wrong} of {self.count} elements wrong, {self.missing} not written; {self.first}"


@dataclass(frozen=True)
class EmulatedExplicit:
    """A run: what the emulator found, and each output's comparison. `blocks`: those that ran, None for all."""

    generated: GeneratedExplicit
    launch: Launch
    options: Options
    outcome: EmulatedOutcome
    compared: tuple[ComparedOutput, ...]
    ptx: str

    @property
    def is_right(self) -> bool:
        return not self.outcome.faults and all(c.is_right for c in self.compared)


def run_explicit(
    generated: GeneratedExplicit, options: Options | None = None, pool: CompilePool | None = None
) -> EmulatedExplicit:
    """Compiles (in `pool`, if there is one) and runs a case on inputs made for it. Raises CompileError, PtxError,
    BadLaunch, Unsupported."""
    options = options or Options()
    if pool is None:
        with CompilePool(workers=1, time_limit_s=60.0) as own:
            return run_explicit(generated, options, own)
    ptx = pool.submit(generated.source, generated.arch.name).result().ptx
    fusion = generated.fusion
    given = {name: inputs_of(fusion.value(name), i) for i, name in enumerate(fusion.inputs)}
    launch = launch_of(generated, given)
    outcome = emulate(parse(ptx), launch, options)
    wanted = expected(fusion, given)
    compared = []
    for name in fusion.outputs:
        value = fusion.value(name)
        flags = outcome.written[name]
        found = elements(launch.tensors[name].data, value)
        if value.dtype.nbytes > 1:
            flags = np.asarray(flags.reshape(-1, value.dtype.nbytes).all(axis=1))
        written = _flags(flags, value.shape, value.strides)
        compared.append(_compare(name, found, wanted[name].values, wanted[name].allowed, written, options))
    return EmulatedExplicit(generated, launch, options, outcome, tuple(compared), ptx)


def launch_of(generated: GeneratedExplicit, given: Mapping[str, Any]) -> Launch:
    """The launch of a generated case over those inputs and outputs that nobody has written."""
    fusion, kernel = generated.fusion, generated.kernel
    tensors: dict[str, EmulatedTensor] = {}
    for name in (*fusion.inputs, *fusion.outputs):
        value = fusion.value(name)
        is_input = name in fusion.inputs
        count = storage_elems(value) * value.dtype.nbytes
        data = stored(given[name], value) if is_input else np.full(count, POISON, np.uint8)
        held = places(value)
        valid = None if is_input or held.all() else held
        initialized = None if is_input else np.zeros(count, np.bool_)
        align = max(min(value.align, 256), value.dtype.nbytes)
        tensors[name] = EmulatedTensor(name, value.dtype.value, value.shape, data, initialized, valid, align)
    names = (*fusion.inputs, *fusion.outputs)
    pointers = tuple(TensorArgument(names[p.position]) for p in kernel.pointers)
    maps = tuple(
        MapArgument(
            names[m.position],
            m.dtype.value,
            m.dims,
            m.strides_bytes,
            m.box,
            m.element_strides,
            f"{m.swizzle}B" if m.swizzle else "NONE",
        )
        for m in kernel.tensor_maps
    )
    return Launch(
        ENTRY,
        generated.arch.name,
        kernel.grid,
        kernel.block,
        (*pointers, *maps),
        tensors,
        dynamic_smem=kernel.smem_bytes,
        cluster=(kernel.cluster, 1, 1),
    )


def _flags(flags: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    return np.lib.stride_tricks.as_strided(flags, shape, tuple(s * flags.strides[0] for s in strides))


def _compare(name: str, found: Any, wanted: Any, allowed: Any, written: Any, options: Options) -> ComparedOutput:
    """Compares what was written; where all blocks ran, all must have been."""
    error = np.abs(np.asarray(found, wanted.dtype) - wanted) if wanted.dtype != np.bool_ else found != wanted
    bad = written & ~(error <= allowed)
    missing = 0 if options.blocks is not None else int((~written).sum())
    count = int(written.sum())
    first = ""
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        first = f"at {list(at)} found {found[at]!s}, expected {wanted[at]!s}"
    largest = float(error[written].max()) if count else 0.0
    return ComparedOutput(name, count, missing, int(bad.sum()), largest, first)
