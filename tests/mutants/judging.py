"""Whether a mutant is wrong, by fresh inputs and right kernels; and whether the verifier finds it, by its own sets.

Wrong: an integer or a bool is another than all right kernels make; a float is off by more than four times what right
kernels at 20 points spread over, is not the NaN or infinity that all of them make, or is a zero of the other sign where
theirs agree. Of an integer that right kernels do not agree on nothing is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

import numpy as np

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import Kernel
from compiler.reference import FLOAT_FORMATS
from search.proof.verify.arrays import NumpyArrays
from search.proof.verify.compare import compare
from search.proof.verify.expected import Expected, expect
from search.proof.verify.inputs import input_sets, make_inputs
from tests.mutants.fresh import SETS, fresh
from tests.mutants.fusions import fusions
from tests.mutants.machine.lanes import NoKernel
from tests.mutants.machine.numbers import NUMPY, Array
from tests.mutants.points import Point, drawn
from tests.mutants.programs import Outputs

POINTS = 20
"""Right kernels whose results are compared."""

TIMES = 4
"""A float may be off by so many times what right kernels differ by."""

_ARRAYS = NumpyArrays()


class Judgement(StrEnum):
    """What a mutant is. `NO_KERNEL`: it would not compile; `ALIKE`: not wrong."""

    NO_KERNEL = "no kernel"
    ALIKE = "alike"
    FOUND = "found"
    SURVIVED = "survived"


@dataclass(frozen=True)
class Verdict:
    """`sets`: the verifier's sets that show it; `why`: how the first wrong element shows. `is_slight`: wrong by no more
    than roundings of another order make, of elements that 20 right kernels happen to agree on."""

    judgement: Judgement
    sets: tuple[str, ...] = ()
    why: str = ""
    is_slight: bool = False

    @property
    def is_wrong(self) -> bool:
        return self.judgement in (Judgement.FOUND, Judgement.SURVIVED)


@dataclass(frozen=True)
class Range:
    """What right kernels make of each element of an output: [set, element]."""

    dtype: DType
    lowest: Array
    highest: Array
    agreed: Array
    """Which elements all of them have made of the same bits, NaN of any bits alike."""


@dataclass(frozen=True)
class Subject:
    """A fusion with its right kernels, fresh inputs and the verifier's own."""

    fusion: Fusion
    points: tuple[Point, ...]
    inputs: tuple[Array, ...]
    """Fresh sets, then those of the verifier."""
    sets: tuple[str, ...]
    expected: tuple[tuple[Expected, ...], ...]
    right: tuple[Outputs, ...]
    """What each point makes of all inputs."""
    ranges: tuple[Range, ...]

    def judged(self, point: int, launch: int, kernel: Kernel) -> Verdict:
        """The verdict over a mutant of one launch of a point."""
        try:
            have = self.points[point].program.run(self.inputs, launch, kernel)
        except NoKernel as error:
            return Verdict(Judgement.NO_KERNEL, why=str(error))
        why = have.fault or self.unwritten(have)
        if why:
            return Verdict(Judgement.FOUND, self.sets, why)
        why = next(filter(None, (self.wrong(point, n, have) for n in range(len(self.ranges)))), "")
        if not why:
            return Verdict(Judgement.ALIKE)
        found = self.refused(have)
        slight = not found and all(self.is_slight(point, n, have) for n in range(len(self.ranges)))
        return Verdict(Judgement.FOUND if found else Judgement.SURVIVED, found, why, slight)

    def unwritten(self, have: Outputs) -> str:
        """That elements were never written which right kernels write; empty if all were."""
        for number, (ours, theirs) in enumerate(zip(have.written, self.right[0].written, strict=True)):
            if missing := int((theirs & ~ours).sum()):
                return f"output {number}: {missing} elements were never written"
        return ""

    def refused(self, have: Outputs) -> tuple[str, ...]:
        """The sets on which the verifier calls these outputs wrong."""
        return tuple(
            name
            for number, (name, wanted) in enumerate(zip(self.sets, self.expected, strict=True), SETS)
            if any(
                int(compare(want, _stored(storage[number], want.dtype), _ARRAYS).wrong)
                for want, storage in zip(wanted, have.storages, strict=True)
            )
        )

    def is_slight(self, point: int, output: int, have: Outputs) -> bool:
        """Whether what is wrong of an output would not be, were its spread a unit of the last place wider."""
        known = self.ranges[output]
        if not known.dtype.is_float:
            return not self.wrong(point, output, have)
        with np.errstate(all="ignore"):
            unit = np.abs(known.highest) * (2 * FLOAT_FORMATS[known.dtype].unit_roundoff)
            wider = replace(known, highest=known.highest + unit)
        ours, theirs = have.storages[output][:SETS], self.right[point].storages[output][:SETS]
        return not (wrong_elements(wider, ours, theirs) & self.right[0].written[output]).any()

    def wrong(self, point: int, output: int, have: Outputs) -> str:
        """How the first wrong element of an output is wrong on fresh inputs, in words; empty if none is."""
        ours, theirs = have.storages[output][:SETS], self.right[point].storages[output][:SETS]
        bad = wrong_elements(self.ranges[output], ours, theirs) & self.right[0].written[output]
        if not bad.any():
            return ""
        number, element = (int(n) for n in np.argwhere(bad)[0])
        dtype = self.ranges[output].dtype
        found, right = (_ARRAYS.load(_stored(x[number], dtype), dtype)[element] for x in (ours, theirs))
        return f"output {output}: {int(bad.sum())} elements; [{element}] of set {number} is {found!s}, not {right!s}"


def wrong_elements(known: Range, ours: Array, theirs: Array) -> Array:
    """Which elements [set, element] are wrong: `theirs` is what the kernel made before it was changed."""
    if not known.dtype.is_float:
        return np.asarray(known.agreed & (ours != theirs))
    have, right = (np.asarray(_ARRAYS.load(x, known.dtype), np.float64) for x in (ours, theirs))
    with np.errstate(all="ignore"):
        spread = known.highest - known.lowest
        off = np.isfinite(spread) & ~(np.abs(have - right) <= TIMES * spread)
        strange = known.agreed & ~np.isfinite(right)
        other = ~((have == right) | (np.isnan(have) & np.isnan(right)))
        sign = known.agreed & (right == 0) & (have == 0) & (np.signbit(have) != np.signbit(right))
    return np.asarray(off | (strange & other) | sign)


def ranges_of(fusion: Fusion, right: Sequence[Outputs]) -> tuple[Range, ...]:
    """Of each output the range of what right kernels make of fresh inputs."""
    found = []
    for output, dtype in enumerate(fusion.value(name).dtype for name in fusion.outputs):
        storages = [one.storages[output][:SETS] for one in right]
        bits = [_bits(x, dtype) for x in storages]
        agreed = np.logical_and.reduce([(b == bits[0]) for b in bits])
        values = [np.asarray(_ARRAYS.load(x, dtype), np.float64) for x in storages] if dtype.is_float else bits
        found.append(Range(dtype, np.minimum.reduce(values), np.maximum.reduce(values), agreed))
    return tuple(found)


def _bits(storage: Array, dtype: DType) -> Array:
    """Bits as integers, of every NaN the same."""
    bits = storage.view(f"u{storage.dtype.itemsize}")
    if not dtype.is_float:
        return bits
    return np.where(np.isnan(_ARRAYS.load(storage, dtype)), np.iinfo(bits.dtype).max, bits)


def _stored(storage: Array, dtype: DType) -> Array:
    """As the verifier holds it."""
    return np.ascontiguousarray(storage).view(np.bool_ if dtype is DType.BOOL else NUMPY[dtype])


@cache
def subject(name: str) -> Subject:
    """The fusion of that name with all that judging its mutants needs."""
    fusion = fusions()[name]
    points = tuple(drawn(fusion, POINTS))
    sets = input_sets(fusion)
    made = [make_inputs(fusion, one, _ARRAYS) for one in sets]
    inputs = tuple(
        np.concatenate([mine, np.stack([one[n].view(mine.dtype) for one in made])])
        for n, mine in enumerate(fresh(fusion))
    )
    right = tuple(point.program.run(inputs) for point in points)
    expected = tuple(expect(fusion, one, _ARRAYS) for one in made)
    return Subject(fusion, points, inputs, sets, expected, right, ranges_of(fusion, right))
