"""`RegionCall`: what stands in a program for a region. The kernel where that is taken, eager's operators else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fusetune.errors import FusetuneError, WrongArguments
from fusetune.graph import OutputForm
from fusetune.jitting.clocks import Clock
from fusetune.jitting.last_call import LastCall
from fusetune.kernel import Kernel
from fusetune.torch import is_capturing
from fusetune.torch_compile.choosing import KernelChoice
from fusetune.torch_compile.drawing import start
from fusetune.torch_compile.lowering import Lowered
from fusetune.torch_compile.program import Boxed

log = logging.getLogger("fusetune.torch_compile")

Bind = Callable[[Sequence[Any]], KernelChoice]
"""Of tensors, and lists of tensors where the fusion has lists."""

CLONED_SHARE = 0.25
"""Of what a region moves, a tensor at an odd address may be so much for a copy of it to be worth while."""


class RegionCall:
    """Takes its arguments in a list, which it empties. What it runs changes in `settle` alone, between steps.

    `eager` takes a seed and an offset behind the region's tensors where the fusion draws: a call draws both once, and
    whoever runs it has the same random numbers.

    `bind` makes the choice for the tensors of a call, once for each of their forms; where sizes are known when the
    graph is compiled there is one.
    """

    def __init__(self, lowered: Lowered, eager: Boxed, bind: Bind, clock: Clock, strict: bool) -> None:
        self.lowered, self.eager, self.bind, self.clock = lowered, eager, bind, clock
        self.strict = strict
        self.draws_on = _drawing_device(lowered)
        self.choices: dict[object, KernelChoice] = {}
        self._active: dict[object, Kernel] = {}
        self._due: set[object] = set()
        self._positions = _positions(lowered)
        self._written = _written_positions(lowered)
        self._numbers = _numbers(lowered)
        forms = {form.node: form for form in lowered.converted.outputs}
        self._results = [forms[node] for node in lowered.captured.outputs]
        self._are_outputs = _are_outputs(self._results, lowered.converted.outputs)
        self._last: tuple[Any, Any, Any] = None, None, None
        self.is_static = not lowered.converted.symbols

    def settle(self) -> None:
        """Takes over what the choices have come to."""
        for form, choice in self.choices.items():
            if choice.is_taken and choice.kernel is not None:
                self._active[form] = choice.kernel
            else:
                self._active.pop(form, None)
            if choice.state == "arrived":
                self._due.add(form)
            else:
                self._due.discard(form)

    def __call__(self, args: list[Any]) -> Any:
        """The region's outputs, as a tuple."""
        form = () if self.is_static else self._form(args)
        if self.draws_on is not None:
            args += start(self.draws_on)
        kernel = self._active.get(form)
        if kernel is not None:
            return self._kernel_or_eager(kernel, form, args)
        if form in self._due and not is_capturing():
            self._time(form, args)
        return self.eager(args)

    def choose(self, args: Sequence[Any]) -> KernelChoice:
        """The choice for tensors like these, which may be fake."""
        form = () if self.is_static else self._form(args)
        if form not in self.choices:
            self.choices[form] = self.bind(self._tensors(args))
        return self.choices[form]

    def _form(self, args: Sequence[Any]) -> object:
        form = tuple((tuple(x.shape), x.stride()) for x in self._tensors(args))
        if form not in self.choices and not is_capturing():
            self.choices[form] = self.bind(self._tensors(args))
        return form

    def _tensors(self, args: Sequence[Any]) -> list[Any]:
        """The tensors of the fusion, in its order, without those that random numbers start from."""
        return [args[n] for n in self._positions if n >= 0]

    def _kernel_or_eager(self, kernel: Kernel, form: object, args: list[Any]) -> Any:
        try:
            found = self.launch(kernel, args)
        except WrongArguments as error:  # this call's tensors, not the kernel
            return self._in_eager(error, args)
        except FusetuneError as error:
            self.choices[form].fail(error)
            del self._active[form]
            log.warning("a kernel failed, its region runs in eager from now on: %s", error)
            return self._in_eager(error, args)
        args.clear()
        return found

    def _in_eager(self, error: FusetuneError, args: list[Any]) -> Any:
        if self.strict:
            raise error
        return self.eager(args)

    def launch(self, kernel: Kernel, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """The region's outputs by the kernel. Raises KernelError."""
        converted = self.lowered.converted
        tensors = [args[n] for n in self._positions]
        sizes = {} if self.is_static else converted.binding(tensors).sizes
        scalars: list[Any] = []
        if self._numbers:
            scalars = [args[at] if at is not None else converted.number(x, sizes) for x, at in self._numbers]
        made = self._called(kernel, tensors, scalars)
        outputs: tuple[torch.Tensor, ...] = made if isinstance(made, tuple) else (made,)
        if self._are_outputs:
            return outputs
        return tuple([form.value(tensors, outputs, converted.symbols, sizes) for form in self._results])

    def _called(self, kernel: Kernel, tensors: Sequence[torch.Tensor], scalars: Sequence[Any]) -> Any:
        """What the kernel gives; of tensors like those of the last call nothing is looked at again."""
        known_kernel, last, call = self._last
        if known_kernel is kernel and last.is_of_like(tensors):
            return call(tensors)
        made = kernel(*_aligned(kernel, tensors), *scalars)
        call = None if scalars else getattr(kernel, "known", None)
        if call is not None and (found := LastCall.of(tuple(tensors))) is not None:
            self._last = kernel, found, call
        return made

    def _time(self, form: object, args: list[Any]) -> None:
        self._due.discard(form)
        choice = self.choices[form]
        if choice.state != "arrived" or choice.kernel is None:
            return
        kernel, held = choice.kernel, list(args)
        for n in self._written:  # the runs that are timed must not change what the step changes once
            held[n] = held[n].clone()
        try:
            choice.time(self.clock, lambda: self.eager(list(held)), lambda: self.launch(kernel, held))
        except FusetuneError as error:
            choice.fail(error)
            log.warning("a kernel failed, its region stays in eager: %s", error)
            if self.strict:
                raise


_STARTS = {"seed": -2, "offset": -1}
"""What random numbers start from, and where it stands among a call's arguments: behind all others."""


def _drawing_device(lowered: Lowered) -> torch.device | None:
    """Where the region's random numbers are drawn; None where it draws none."""
    if not lowered.converted.draws:
        return None
    device: torch.device = lowered.converted.outputs[0].node.meta["val"].device
    return device


def _positions(lowered: Lowered) -> list[int]:
    """For each tensor of the fusion the argument that it is."""
    at: dict[Any, int] = dict(zip(lowered.captured.placeholders, lowered.captured.arguments, strict=True))
    return [(at | _STARTS)[x] for x in lowered.converted.inputs]


def _written_positions(lowered: Lowered) -> list[int]:
    """The arguments that a call changes."""
    positions = _positions(lowered)
    return [positions[output.alias] for output in lowered.converted.outputs if output.alias is not None]


def _are_outputs(results: Sequence[OutputForm], every: Sequence[OutputForm]) -> bool:
    """Whether the results are what a kernel gives, as it gives it."""
    count = len({form.position for form in every if form.of == "output"})
    places = [form.position for form in results if form.of == "output" and form.view is None]
    return places == list(range(count)) and len(results) == count


def _numbers(lowered: Lowered) -> list[tuple[Any, int | None]]:
    """The fusion's numbers, each with the argument that it is; None for one that is worked out of sizes."""
    at = dict(zip(lowered.captured.placeholders, lowered.captured.arguments, strict=True))
    return [(x, at.get(x)) for x in lowered.converted.scalars]


def _aligned(kernel: Kernel, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors; small ones at addresses that the kernel does not take are copied, large ones are left to fail."""
    specs = kernel.artifact.inputs
    if not any(x.data_ptr() % spec.align for x, spec in zip(tensors, specs, strict=False)):
        return list(tensors)
    total = sum(x.numel() * x.element_size() for x in tensors)
    return [
        x.clone() if x.data_ptr() % spec.align and x.numel() * x.element_size() <= CLONED_SHARE * total else x
        for x, spec in zip(tensors, specs, strict=True)
    ]
