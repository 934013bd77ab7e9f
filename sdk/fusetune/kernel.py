"""`Kernel`: what a tuning gives, called like a function. Torch is needed by a call only."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import pydantic

from fusetune.errors import InvalidBinding, InvalidKernel, NoDevice, OutdatedProof, PackageMissing
from fusetune.signing import Trust, process_trust
from fusetune.whole import written_whole
from fusetune.wire.artifact import VERIFIER, KernelArtifact, ScalarSpec, TensorSpec
from fusetune.wire.bound import Bound
from fusetune.wire.op_check import ITEM_BYTES
from fusetune.wire.printing import html_table
from fusetune.wire.problems import Problem
from fusetune.wire.service import KernelView

if TYPE_CHECKING:
    from fusetune.torch import Runner, TorchTensor

Origin = Literal["service", "store", "pack", "file"]
"""Where a kernel came from: a service's answer, the store on disk in place of one, a pack, or a file or object of
yours."""


class Kernel:
    """A tuned kernel, called like a function: `y = kernel(x, bias)`.

    It runs for the sizes, strides, dtypes and alignment it was tuned for, on any device that can run its code, on the
    current stream, without synchronising; calls may be captured into a CUDA graph. It has no backward pass.

    `info` is what the service knows of it beside its code, if it came from one. One that an older verifier proved is
    refused with OutdatedProof, wherever it comes from.
    """

    def __init__(
        self,
        artifact: KernelArtifact,
        *,
        info: KernelView | None = None,
        origin: Origin = "file",
        where: str = "kernel",
    ) -> None:
        self.artifact = artifact
        self.info = info
        self.origin = origin
        self._runner: Runner | None = None
        unknown = {spec.dtype for spec in (*artifact.inputs, *artifact.outputs)} - ITEM_BYTES.keys()
        if unknown:
            raise InvalidKernel(
                "tensor dtypes", f"{sorted(unknown)} have no torch dtype", f"Known: {', '.join(ITEM_BYTES)}."
            )
        if artifact.verification is not None and artifact.is_outdated:
            raise OutdatedProof(where, artifact.verification.verifier, VERIFIER)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Kernel:
        """Reads what `save` wrote. Raises OSError, OutdatedProof, InvalidKernel if it is no kernel."""
        return cls.from_json(Path(path).read_bytes(), where=str(path))

    @classmethod
    def from_json(
        cls,
        text: str | bytes,
        *,
        where: str = "kernel",
        info: KernelView | None = None,
        origin: Origin = "file",
        trust: Trust | None = None,
        is_vouched: bool = False,
    ) -> Kernel:
        """The kernel in a `fusetune.kernel/1` document; `where` names it in errors.

        `trust`: the keys of which one must have signed it, those of FUSETUNE_TRUST by default; signatures are those of
        `info`. `is_vouched`: that was looked at already, of the whole pack that it is in.
        Raises InvalidKernel, OutdatedProof, Untrusted.
        """
        keys = trust if trust is not None else process_trust()
        if keys is not None and not is_vouched:
            content = text.encode() if isinstance(text, str) else text
            keys.check_kernel(where, content, () if info is None else info.signatures)
        try:
            artifact = KernelArtifact.model_validate_json(text)
        except pydantic.ValidationError as error:
            raise InvalidKernel(
                where,
                f"it is not a whole fusetune.kernel/1 file: {_first_fault(error)}",
                "Name a kernel that `tune` or `save` wrote.",
            ) from error
        return cls(artifact, info=info, origin=origin, where=where)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the artifact as JSON; a reader never sees half of it. Raises OSError."""
        with written_whole(path) as part:
            part.write_text(self.artifact.model_dump_json())

    def __call__(
        self,
        *inputs: TorchTensor | Sequence[TorchTensor] | float,
        out: TorchTensor | Sequence[TorchTensor] | None = None,
    ) -> TorchTensor | tuple[TorchTensor, ...]:
        """Runs the kernel; returns its output, or a tuple where it has several. A kernel over lists takes lists of
        dense tensors of any shapes, alike from list to list, and each of its outputs is a list.

        Scalars of the fusion come after its tensors: numbers of Python, or tensors without dimensions on the host. They
        are read during the call, so a CUDA graph that captures it replays with these.

        `out`: tensors to write instead of newly allocated ones; they must not overlap the inputs or each other. An
        output with an alias is that input itself, changed: the tensor that was passed is returned, its version counted
        up, and no other tensor of the call may share its memory. Raises WrongArguments, GuardFailed, NoDevice,
        InvalidKernel, LaunchFailed; IndexOutOfRange at the first call after one whose kernel has met an index that is
        (`wait` tells at once).
        """
        if self._runner is None:
            self._runner = _torch_calls().Runner(self.artifact)  # here first: holding a kernel needs no torch
        try:
            return self._runner(inputs, out)
        except NoDevice as error:
            raise self._detached(error) if error.is_absent else error from None

    @property
    def known(self) -> Callable[[Sequence[TorchTensor]], Any] | None:
        """The call of tensors like those of one before it: of their dtypes, shapes, strides, device, alignment and need
        of gradients nothing is checked again. None where every call has to be. `fusetune.jit`, whose keys hold all of
        that, calls this."""
        return self._runner.of_known if self._runner is not None and self._runner.takes_known else None

    @property
    def known_lists(self) -> Callable[[Sequence[Any]], Any] | None:
        """The same for a kernel that writes its lists in place: gives None, and does nothing, for tensors at other
        addresses than those of the last call."""
        return self._runner.of_known_lists if self._runner is not None and self._runner.takes_known_lists else None

    def wait(self) -> None:
        """Waits until the calls on the current stream are done: errors of a kernel are told late.

        Raises LaunchFailed; IndexOutOfRange where an index that tells it where to read was out of range.
        """
        if self._runner is not None:
            self._runner.wait()

    def _detached(self, error: NoDevice) -> NoDevice:
        """The error, which also says which card the kernel is for: one named by hand may be no card of this machine."""
        timing = self.artifact.timing
        card = self.info.card.name if self.info is not None else timing.card if timing is not None else None
        arch = self.artifact.arch
        wanted = f"a card of {arch}" if card is None else f"the {card} ({arch})"
        return NoDevice(f"{error.reason}; this kernel is for {wanted}, and no such card is attached", error.fix, True)

    def __repr__(self) -> str:
        artifact = self.artifact
        facts = ", ".join([artifact.arch, *self._facts()])
        return f"Kernel({_signature(artifact.inputs, artifact.scalars, artifact.outputs)}; {facts})"

    def _repr_html_(self) -> str:
        """As a notebook shows it: what it takes and gives, what is known of it, and its source, folded away."""
        artifact = self.artifact
        sides = (("takes", artifact.inputs), ("gives", artifact.outputs))
        rows = [(word, _shown(spec), f"strides {spec.strides}") for word, specs in sides for spec in specs]
        rows += [("takes", spec.dtype, "by value") for spec in artifact.scalars]
        facts = escape(", ".join([artifact.arch, *self._facts()]))
        source = f"<details><summary>CUDA C++</summary><pre>{escape(artifact.source)}</pre></details>"
        return f"<p><b>Kernel</b>: {facts}</p>{html_table((), rows)}{source if artifact.source else ''}"

    def _facts(self) -> list[str]:
        """Card, time and evidence, in words."""
        artifact, info = self.artifact, self.info
        facts = [] if info is None else [info.card.name]
        if artifact.timing is not None:
            facts += [] if info is not None else [artifact.timing.card]
            facts += [f"{artifact.timing.median_us:.1f} us median"]
            # A share of the floor is told of measured times alone: of a predicted one it would be a guess of a guess.
            if info is not None and info.floor_us is not None and artifact.evidence.time == "measured":
                facts.append(f"{info.floor_us / artifact.timing.median_us:.0%} of the card's limit")
        facts += [f"correct: {artifact.evidence.correct}", f"time: {artifact.evidence.time}"]
        if info is not None and info.stale:
            facts.append(f"stale: {info.stale_reason or 'made under other conditions'}")
        if info is not None and info.provisional is not None:
            at_most = info.provisional.at_most
            facts.append(
                "provisional" if at_most is None else f"provisional: the best takes at most {at_most:.0%} less"
            )
        if self.origin == "store":
            facts.append("from the store")
        return facts


class EmptyKernel:
    """Stands in for a kernel where every output has no elements: called alike, it launches nothing.

    So a loop that meets an empty batch needs no case of its own. It takes tensors of any one device.
    """

    info: None = None
    origin: Literal["empty"] = "empty"

    def __init__(
        self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], scalars: tuple[ScalarSpec, ...] = ()
    ) -> None:
        self.inputs = inputs
        self.scalars = scalars
        self.outputs = outputs

    def __call__(
        self, *inputs: TorchTensor | float, out: TorchTensor | Sequence[TorchTensor] | None = None
    ) -> TorchTensor | tuple[TorchTensor, ...]:
        """Empty tensors on the inputs' device, or `out` as it is. Raises WrongArguments, as Kernel does."""
        calls: Any = _torch_calls()
        found: TorchTensor | tuple[TorchTensor, ...] = calls.run_empty(
            self.inputs, self.scalars, self.outputs, inputs, out
        )
        return found

    def __repr__(self) -> str:
        return f"EmptyKernel({_signature(self.inputs, self.scalars, self.outputs)}; nothing to compute)"


def _torch_calls() -> ModuleType:
    """`fusetune.torch`. Raises PackageMissing."""
    try:
        import fusetune.torch as calls
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "fusetune":
            raise
        raise PackageMissing("a kernel is called on tensors of torch", str(error.name), "torch") from None
    return calls


def empty_kernel(bound: Bound) -> EmptyKernel | None:
    """The stand-in where `bound` has no elements to compute; None if it has no size of 0.

    Raises InvalidBinding where a value is empty and an output is not: no kernel is made of that (the compiler refuses
    sizes of 0), and its outputs are not nothing.
    """
    sizes = {name: tuple(extent.constant or 0 for extent in found.shape) for name, found in bound.types.items()}
    if not any(0 in shape for shape in sizes.values()):
        return None
    full = [output.name for output in bound.fusion.outputs if 0 not in sizes[output.name]]
    if full:
        empty = next(name for name, shape in sizes.items() if 0 in shape)
        expected = f"sizes of 1 or more, as output {full[0]!r} has elements"
        fix = "Compute it without a kernel: call the plain operations for this size."
        raise InvalidBinding((Problem(f"the shape of {empty!r}", str(list(sizes[empty])), expected, fix),))
    inputs = tuple(
        TensorSpec(shape=sizes[tensor.name], strides=layout.strides, dtype=tensor.dtype, align=layout.align)
        for tensor, layout in zip(bound.fusion.inputs, bound.inputs, strict=True)
    )
    outputs = tuple(_dense(sizes[output.name], bound.types[output.name].dtype) for output in bound.fusion.outputs)
    return EmptyKernel(inputs, outputs, tuple(ScalarSpec(dtype=x.dtype) for x in bound.fusion.numbers))


def _dense(shape: tuple[int, ...], dtype: str) -> TensorSpec:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= max(size, 1)
    return TensorSpec(shape=shape, strides=tuple(strides), dtype=dtype, align=ITEM_BYTES[dtype])


def _first_fault(error: pydantic.ValidationError) -> str:
    """The first of pydantic's faults, with its place; in most broken files the others follow from it."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, fault["loc"]))
    return f"{place}: {fault['msg']}" if place else fault["msg"]


def _signature(inputs: Sequence[TensorSpec], scalars: Sequence[ScalarSpec], outputs: Sequence[TensorSpec]) -> str:
    before, after = [*map(_shown, inputs), *(f"{x.dtype} by value" for x in scalars)], map(_shown, outputs)
    return f"{', '.join(before)} -> {', '.join(after)}"


def _shown(spec: TensorSpec) -> str:
    return f"{spec.dtype}[{', '.join(map(str, spec.shape))}]"
