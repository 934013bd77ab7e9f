"""Checking one kernel on one input set: two poisoned runs between guard zones, one synchronisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from compiler.ir.fusion import Fusion, dense_strides
from fusetune.wire.artifact import KernelArtifact
from search.proof.verify.arrays import Array, TorchArrays
from search.proof.verify.compare import changed_holes, compare, differing, elements, first_fault, poisoned_holes
from search.proof.verify.decided import best_shares
from search.proof.verify.expected import Expected, expect, widened
from search.proof.verify.inputs import RANDOM, input_sets, make_inputs
from search.proof.verify.scalars import in_set, numbers_in
from search.proof.verify.zones import POISONS, buffer, disturbed_bytes, fill_guards, lay_out, poison


class Launchable(Protocol):
    """What is checked: `fusetune.launch.Launcher`, or a stand-in for it."""

    artifact: KernelArtifact

    def launch(
        self,
        pointers: tuple[int, ...],
        stream: int,
        scratch: tuple[int, ...] = (),
        numbers: tuple[int | float, ...] = (),
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class CardVerdict:
    """`fault` is empty for a right kernel. `max_error` is relative to the element, as `tolerance` is."""

    fault: str
    max_error: float = 0.0
    tolerance: float = 0.0
    deterministic: bool = True


@dataclass(frozen=True, slots=True)
class _Case:
    """An input set: pristine inputs, what the outputs must be, and the numbers of scalars."""

    storages: list[Array]
    expected: tuple[Expected, ...]
    numbers: tuple[int | float, ...]

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        ends = (end for one in self.expected for end in (one.lower, *([] if one.upper is one.lower else [one.upper])))
        return sum(int(array.numel() * array.element_size()) for array in (*self.storages, *ends))


class CheckBench:
    """The memory in which kernels of one fusion are checked. The `random` set stays; the others stay as far as there is
    room for them (`keep_within`), and may be made ahead (`prepare`), or else come and go."""

    def __init__(self, fusion: Fusion, arrays: TorchArrays) -> None:
        self._fusion = fusion
        self._arrays = arrays
        self._values = tuple(fusion.value(name) for name in (*fusion.inputs, *fusion.outputs))
        self._zones = lay_out(
            tuple(v.storage_bytes for v in self._values), tuple(max(v.align, v.dtype.nbytes) for v in self._values)
        )
        self._into = fusion.alias_places
        self._memory = arrays.xp.empty(self._zones.total_bytes, dtype=arrays.xp.uint8, device=arrays.device)
        self._random = self._case(RANDOM)
        self._loaded: _Case | None = None
        self._kept: dict[str, _Case] = {}
        self._room_bytes = 0
        self.decided = best_shares(
            fusion, arrays, lambda name: (self._random if name == RANDOM else self._case(name)).expected
        )
        """Of each output, the share that the best of the input sets decides."""

    @property
    def random_storages(self) -> list[Array]:
        """The inputs of the `random` set, flat: what kernels are timed on."""
        return self._random.storages

    def check(self, launcher: Launchable, set_name: str) -> CardVerdict:
        """Runs the kernel twice. Raises KernelError as the launcher does, and torch's RuntimeError on a CUDA error."""
        case = self._known(set_name)
        self._load(case)
        arrays, outputs = self._arrays, range(len(case.expected))
        first: list[Array] = []
        fill_guards(self._memory, self._zones)
        scratch = _Scratch(launcher, arrays)
        for run in range(len(POISONS)):
            scratch.poison(run)
            for output in outputs:
                poison(self._memory, self._zones, len(case.storages) + output, run)
            self._restore(case)
            launcher.launch(self._pointers(), arrays.stream(), scratch.addresses, case.numbers)
            if run == 0:
                first = [arrays.copy(self._output(case, output)) for output in outputs]
        second = [self._output(case, output) for output in outputs]
        comparisons = [compare(want, have, arrays) for want, have in zip(case.expected, second, strict=True)]
        numbers = [
            disturbed_bytes(self._memory, self._zones) + scratch.disturbed(),
            sum(self._changed_inputs(case), arrays.xp.zeros((), dtype=arrays.xp.int64, device=arrays.device)),
            *(self._holes(case, output, second[output]) for output in outputs),
            *(comparison.wrong for comparison in comparisons),
            *(self._unstable(*run) for run in zip(case.expected, first, second, strict=True)),
            *(comparison.worst_share for comparison in comparisons),
        ]
        read = iter(arrays.to_host(numbers))
        outside, inputs = int(next(read)), int(next(read))
        holes, wrong, unstable = ([int(next(read)) for _ in outputs] for _ in range(3))
        shares = list(read)
        if self._into:
            self._loaded = None  # outputs lie in the inputs
        if outside or inputs or any(holes) or any(wrong) or any(unstable):
            self._loaded = None  # the inputs may have been overwritten
            fault = self._fault(case, first, second, outside, inputs, holes, wrong, unstable)
            return CardVerdict(f"{set_name} inputs: {fault}", deterministic=not any(unstable))
        rtols = [want.tolerance.rtol if want.tolerance else 0.0 for want in case.expected]
        errors = [share * rtol for share, rtol in zip(shares, rtols, strict=True)]
        worst = max(outputs, key=lambda output: shares[output])
        return CardVerdict("", errors[worst], rtols[worst])

    def fault_of(self, outputs: Sequence[Array], allowances: Sequence[float]) -> str:
        """What is wrong with dense outputs that were computed from the `random` set; empty if nothing is.

        `allowances`, one an output: how many times as far from the reference as a kernel's it may be.
        """
        for output, have in enumerate(outputs):
            want = widened(self._random.expected[output], allowances[output], self._arrays)
            want = replace(want, strides=dense_strides(want.shape))
            found = first_fault(want, have.reshape(-1), self._arrays)
            if found is not None:
                return f"{RANDOM} inputs: output {output}: {found}"
        return ""

    def keep_within(self, nbytes: int) -> None:
        """Input sets but the `random` one are kept in so much memory, from now on; 0 gives back what they have."""
        self._room_bytes = nbytes
        if not self._has_room(0):
            self._kept.clear()
            self._loaded = None

    @property
    def kept_bytes(self) -> int:
        """What input sets take that are kept beside the `random` one."""
        return len(self._kept) * self._random.nbytes

    def prepare(self) -> bool:
        """Makes one of the input sets that are not there yet, if there is room for it; whether it did."""
        missing = next((name for name in input_sets(self._fusion) if name != RANDOM and name not in self._kept), None)
        if missing is None or not self._has_room(1):
            return False
        self._known(missing)
        return True

    def _has_room(self, more: int) -> bool:
        """For so many sets beside those that are kept: all take as much."""
        return self.kept_bytes + more * self._random.nbytes <= self._room_bytes

    def _known(self, set_name: str) -> _Case:
        if set_name == RANDOM:
            return self._random
        case = self._kept.get(set_name) or self._case(set_name)
        if set_name not in self._kept and self._has_room(1):
            self._kept[set_name] = case
        return case

    def _case(self, set_name: str) -> _Case:
        fusion = in_set(self._fusion, set_name)
        storages = make_inputs(fusion, set_name, self._arrays)
        return _Case(storages, expect(fusion, storages, self._arrays), numbers_in(self._fusion, set_name))

    def _load(self, case: _Case) -> None:
        if self._loaded is not case:
            for index, storage in enumerate(case.storages):
                buffer(self._memory, self._zones, index).copy_(self._arrays.bytes_of(storage))
            self._loaded = case

    def _restore(self, case: _Case) -> None:
        """Inputs that outputs are written into, as they were before the run."""
        for position in self._into.values():
            storage = self._arrays.bytes_of(case.storages[position])
            buffer(self._memory, self._zones, position).copy_(storage)

    def _place(self, output: int) -> int:
        """The number of the buffer that an output lies in."""
        return self._into.get(output, len(self._fusion.inputs) + output)

    def _pointers(self) -> tuple[int, ...]:
        base = self._memory.data_ptr()
        places = (*range(len(self._fusion.inputs)), *map(self._place, range(len(self._fusion.outputs))))
        return tuple(base + self._zones.starts[place] for place in places)

    def _output(self, case: _Case, output: int) -> Array:
        flat_bytes = buffer(self._memory, self._zones, self._place(output))
        return self._arrays.reinterpret(flat_bytes, case.expected[output].dtype)

    def _holes(self, case: _Case, output: int, have: Array) -> Array | int:
        """How many bytes between the elements of an output were written."""
        if output not in self._into:
            return poisoned_holes(case.expected[output], have, self._arrays)
        return changed_holes(case.expected[output], have, case.storages[self._into[output]], self._arrays)

    def _changed_inputs(self, case: _Case) -> list[Any]:
        dtypes = [value.dtype for value in self._values]
        return [
            differing(self._arrays.reinterpret(buffer(self._memory, self._zones, i), dtypes[i]), storage, self._arrays)
            for i, storage in enumerate(case.storages)
            if i not in self._into.values()
        ]

    def _fault(
        self,
        case: _Case,
        first: list[Array],
        second: list[Array],
        outside: int,
        inputs: int,
        holes: list[int],
        wrong: list[int],
        unstable: list[int],
    ) -> str:
        """The plainest description of what is wrong: memory first, then chance, since they explain wrong values."""
        if outside:
            return f"{outside} bytes outside the buffers were written"
        if inputs:
            return f"{inputs} elements of the inputs were overwritten"
        for output, want in enumerate(case.expected):
            where = f"output {output}"
            if holes[output]:
                return f"{where}: {holes[output]} bytes between its elements were written"
            if unstable[output]:
                missing = self._unwritten(want, first[output], second[output])
                if missing:
                    return f"{where}: {missing} of {len(want.lower)} elements were never written"
            if unstable[output]:
                return f"{where}: {unstable[output]} elements differ between two runs on the same inputs"
            if wrong[output]:
                fault = first_fault(want, second[output], self._arrays)
                return f"{where}: {wrong[output]} of {len(want.lower)} elements are wrong; {fault}"
        raise AssertionError("a fault was counted and none is there")

    def _unstable(self, want: Expected, first: Array, second: Array) -> Array:
        """Elements that differ between the runs; what lies between elements has the poison of each."""
        arrays = self._arrays
        return differing(elements(want, first, arrays), elements(want, second, arrays), arrays)

    def _unwritten(self, want: Expected, first: Array, second: Array) -> int:
        arrays = self._arrays
        runs = [elements(want, run, arrays) for run in (first, second)]
        kept = [arrays.bytes_of(run).view(len(run), -1) == mark for run, mark in zip(runs, POISONS, strict=True)]
        return int((kept[0].all(dim=1) & kept[1].all(dim=1)).sum())


class _Scratch:
    """Scratch buffers of a call between guard zones, filled with the run's poison: a kernel must not count on what it
    finds there. What is to be zero is cleared by the launcher."""

    def __init__(self, launcher: Launchable, arrays: TorchArrays) -> None:
        specs = launcher.artifact.scratch
        self._arrays = arrays
        self._zones = lay_out(tuple(spec.bytes for spec in specs), tuple(spec.align for spec in specs))
        total = self._zones.total_bytes if specs else 0
        self._memory = arrays.xp.empty(total, dtype=arrays.xp.uint8, device=arrays.device)
        if specs:
            fill_guards(self._memory, self._zones)
        base = self._memory.data_ptr() if specs else 0
        self.addresses = tuple(base + start for start in self._zones.starts)

    def poison(self, run: int) -> None:
        """Fills every buffer with the poison of run 0 or 1."""
        for index in range(len(self.addresses)):
            poison(self._memory, self._zones, index, run)

    def disturbed(self) -> Array:
        """How many guard bytes have changed, as a zero-dimensional array."""
        if self.addresses:
            return disturbed_bytes(self._memory, self._zones)
        return self._arrays.xp.zeros((), dtype=self._arrays.xp.int64, device=self._arrays.device)
