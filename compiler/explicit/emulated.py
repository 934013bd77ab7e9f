"""An explicit schedule run in the emulator under all its checks, and compared with what its operators mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from compiler.arch import ALLOCATION_ALIGN
from compiler.emit.cuda import ENTRY
from compiler.emulate.launch import EmulatedOutcome, Launch, Options
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import input_tensor, launched, output_tensor
from compiler.explicit.elements import elements, inputs_of, stored
from compiler.explicit.expected import expected
from compiler.explicit.generate import GeneratedExplicit
from compiler.ir.fusion import Value
from compiler.nvrtc import CompilePool
from compiler.wire.artifacts import Launched, launch_spec


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
    fusion = generated.fusion
    values = [_at_an_allocation(fusion.value(name)) for name in (*fusion.inputs, *fusion.outputs)]
    count = len(fusion.inputs)
    tensors = [input_tensor(value, stored(given[value.name], value)) for value in values[:count]]
    tensors += [output_tensor(value) for value in values[count:]]
    places = tuple(range(len(values)))
    spec = launch_spec(Launched(generated.kernel, places), ENTRY, len(values))
    return launched(spec, generated.arch.name, tensors)


def _at_an_allocation(value: Value) -> Value:
    """The value with no more known of its address than an allocator gives."""
    return replace(value, align=min(value.align, ALLOCATION_ALIGN))


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
