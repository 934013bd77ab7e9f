"""Mutants of order: whether one is wrong, by the interpreter of kernel IR; whether it is found, by the emulator.

The interpreter knows who touched each byte and lets copies come as late as they may; it shares nothing with the
emulator, which runs the PTX that NVRTC makes of the mutant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from compiler.emulate.memory.build import BadLaunch
from compiler.emulate.ptx.errors import PtxError
from compiler.emulate.ptx.parser import parse
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import Kernel
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.arrays import NumpyArrays
from search.proof.verify.inputs import RANDOM, make_inputs
from tests.compiler.lower.interpreted_values import BITS, KernelFault
from tests.compiler.lower.interpreter import run
from tests.mutants.building import building
from tests.mutants.fusions import fusions
from tests.mutants.kinds.kind import Kind
from tests.mutants.points import Point, drawn
from tests.search.random_fusions.building import InThisProcess

_ARRAYS = NumpyArrays()

NAMES = (
    *("copy_padded", "bias_gelu_rows", "inner_broadcast", "two_outputs", "many_inputs", "square_plus"),
    *("transpose_odd", "transpose_halves_odd", "transpose_padded", "transpose_narrowing", "transpose_itself"),
    *("row_sum", "row_softmax_odd", "row_layer_norm", "column_column_sum_odd", "row_rms_norm_of_sum_3d"),
)
"""Fusions that the interpreter runs, with copies of every way among their points."""

POINTS = 24


@dataclass(frozen=True)
class Ordered:
    """A mutant of order. `rule` is what the interpreter says, `found` what the emulator does; empty where nothing."""

    kind: str
    fusion: str
    point: int
    site: int
    rule: str
    found: str


def rule_broken(fusion: Fusion, kernel: Kernel) -> str | None:
    """The rule of the machine that a kernel breaks; empty if none. None where the interpreter does not run it."""
    storages = [s.view(BITS[v.dtype]) for s, v in zip(_inputs(fusion), map(fusion.value, fusion.inputs), strict=True)]
    try:
        run(kernel, fusion, storages)
    except KernelFault as fault:
        return None if fault.rule in _NOT_RUN else fault.rule
    except KeyError:
        return None
    return ""


_NOT_RUN = frozenset({"blocks_run_one_after_another", "one_thread_loads", "dtype_is_interpreted"})


def _inputs(fusion: Fusion) -> list[np.ndarray]:
    return make_inputs(fusion, RANDOM, _ARRAYS)


def found_by_emulator(point: Point, fusion: Fusion, kernel: Kernel) -> str | None:
    """What the emulator says of it on random inputs, in the orders of a verification; empty if nothing. None where it
    does not run it."""
    compiled = building(point, 0, kernel, InThisProcess()).artifact()
    if compiled is None:
        return None
    try:
        return run_set(fusion, compiled, parse(compiled.ptx), RANDOM, ORDERS).fault
    except (Unsupported, PtxError):
        return None
    except BadLaunch as error:
        return str(error)


def ordered_of(kind: Kind, count: int, seed: int = 0) -> Iterator[Ordered]:
    """Up to `count` mutants of a kind that the interpreter calls wrong, each run in the emulator."""
    random, known = Random(f"{kind.name}:{seed}"), fusions()
    left = count
    for name in random.sample(NAMES, len(NAMES)):
        for number, point in enumerate(drawn(known[name], POINTS, seed)):
            sites = kind.sites(point.program.kernels[0])
            if not left or not sites or len(point.program.kernels) > 1 or point.program.kernels[0].cluster > 1:
                continue
            site = random.randrange(len(sites))
            kernel = sites[site]()
            if rule_broken(known[name], point.program.kernels[0]) != "" or not (
                rule := rule_broken(known[name], kernel)
            ):
                continue
            if (found := found_by_emulator(point, known[name], kernel)) is None:
                continue
            left -= 1
            yield Ordered(kind.name, name, number, site, rule, found)
            break
        if not left:
            return
