"""Kernels on torch tensors. Importing this module imports torch; nothing else in `fusetune` does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pydantic
import torch

from fusetune.errors import InvalidKernel, NoDevice, WrongArguments
from fusetune.launch.launcher import Launcher
from fusetune.wire.artifact import KernelArtifact, TensorSpec

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
"""Wire names of element types -> torch's."""


class Kernel:
    """A tuned kernel, called like a function: `y = kernel(x, bias)`.

    It runs for the sizes, strides, dtypes and alignment it was tuned for, on any device that can run its code, on the
    current stream, without synchronising; calls may be captured into a CUDA graph. It has no backward pass.
    """

    def __init__(self, artifact: KernelArtifact) -> None:
        self.artifact = artifact
        self._launchers: dict[int, Launcher] = {}
        unknown = {spec.dtype for spec in (*artifact.inputs, *artifact.outputs)} - DTYPES.keys()
        if unknown:
            raise InvalidKernel(
                "tensor dtypes", f"{sorted(unknown)} have no torch dtype", f"Known: {', '.join(DTYPES)}."
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Kernel:
        """Reads what `save` wrote. Raises OSError, and InvalidKernel where the file is not a kernel artifact."""
        text = Path(path).read_bytes()
        try:
            return cls(KernelArtifact.model_validate_json(text))
        except pydantic.ValidationError as error:
            raise InvalidKernel(
                str(path),
                f"it is not a whole fusetune.kernel/1 file: {_first_fault(error)}",
                "Name a kernel that `tune` or `save` wrote.",
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the artifact as JSON; a reader never sees half of it. Raises OSError."""
        target = Path(path)
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        part.write_text(self.artifact.model_dump_json())
        part.replace(target)

    def __call__(
        self, *inputs: torch.Tensor, out: torch.Tensor | Sequence[torch.Tensor] | None = None
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Runs the kernel; returns its output, or a tuple where it has several.

        `out`: tensors to write instead of newly allocated ones; they must not overlap the inputs or each other. Raises
        WrongArguments, GuardFailed, NoDevice, InvalidKernel, LaunchFailed.
        """
        artifact = self.artifact
        device = _check_all("input", inputs, artifact.inputs, device=None)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
            raise WrongArguments(
                "inputs", "a tensor that requires grad", "none: the kernel has no backward pass",
                "Call it under torch.no_grad(), or pass x.detach().",
            )  # fmt: skip
        if out is None:
            outputs = tuple(
                torch.empty_strided(spec.shape, spec.strides, dtype=DTYPES[spec.dtype], device=device)
                for spec in artifact.outputs
            )
        else:
            outputs = (out,) if isinstance(out, torch.Tensor) else tuple(out)
            _check_all("output", outputs, artifact.outputs, device)
            _check_disjoint(inputs, outputs)
        # From the caching allocator, like the outputs: it hands memory to others only in stream order.
        scratch = [_scratch(spec.bytes, spec.align, device) for spec in artifact.scratch]
        self._launcher(device).launch(
            tuple(tensor.data_ptr() for tensor in (*inputs, *outputs)),
            torch.cuda.current_stream(device).cuda_stream,
            tuple(address for _, address in scratch),
        )
        return outputs[0] if len(outputs) == 1 else outputs

    def __repr__(self) -> str:
        artifact = self.artifact
        before, after = (", ".join(map(_shown, specs)) for specs in (artifact.inputs, artifact.outputs))
        facts = [artifact.arch]
        if artifact.timing is not None:
            facts += [artifact.timing.card, f"{artifact.timing.median_us:.1f} us median"]
        facts += [f"correct: {artifact.evidence.correct}", f"time: {artifact.evidence.time}"]
        return f"Kernel({before} -> {after}; {', '.join(facts)})"

    def _launcher(self, device: torch.device) -> Launcher:
        index = device.index
        if index not in self._launchers:
            self._launchers[index] = Launcher(self.artifact, index)
        return self._launchers[index]


def _first_fault(error: pydantic.ValidationError) -> str:
    """The first of pydantic's faults, with its place; in most broken files the others follow from it."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, fault["loc"]))
    return f"{place}: {fault['msg']}" if place else fault["msg"]


def _check_all(
    kind: str, tensors: Sequence[torch.Tensor], specs: tuple[TensorSpec, ...], device: torch.device | None
) -> torch.device:
    """The one CUDA device of all tensors, which must be `device` if that is given. Raises WrongArguments, NoDevice."""
    if len(tensors) != len(specs):
        raise WrongArguments(f"{kind}s", str(len(tensors)), str(len(specs)), "Pass one tensor for each.")
    for position, (tensor, spec) in enumerate(zip(tensors, specs, strict=True)):
        where = f"{kind} {position}"
        if not isinstance(tensor, torch.Tensor):
            raise WrongArguments(where, type(tensor).__name__, "torch.Tensor", "Convert it with torch.as_tensor.")
        if tensor.device.type != "cuda":
            if not torch.cuda.is_available():
                raise NoDevice(
                    "torch sees no CUDA device", "Run on a machine with an NVIDIA GPU and a CUDA build of torch."
                )
            raise WrongArguments(where, f"device {tensor.device}", "a CUDA device", "Move it with .cuda().")
        if device is None:
            device = tensor.device
        elif tensor.device != device:
            raise WrongArguments(where, f"device {tensor.device}", str(device), "Put all tensors on one device.")
        check_tensor(where, tensor, spec)
    if device is None:
        raise WrongArguments(f"{kind}s", "none", "at least one tensor, whose device the kernel runs on", "Pass one.")
    return device


def check_tensor(where: str, tensor: torch.Tensor, spec: TensorSpec) -> None:
    """Raises WrongArguments unless the tensor is what the kernel was built for: dtype, shape, strides, alignment."""
    if tensor.dtype != DTYPES[spec.dtype]:
        raise WrongArguments(where, str(tensor.dtype), str(DTYPES[spec.dtype]), "Convert it, or tune for its dtype.")
    if tuple(tensor.shape) != spec.shape:
        raise WrongArguments(where, f"shape {tuple(tensor.shape)}", f"{spec.shape}", "Tune the fusion for this shape.")
    # The stride of an extent of one is never used, and torch sets it freely.
    strides = tensor.stride()
    if strides != spec.strides and any(
        extent > 1 and have != want for extent, have, want in zip(spec.shape, strides, spec.strides, strict=True)
    ):
        fix = "Call .contiguous(), or tune the fusion for these strides."
        raise WrongArguments(where, f"strides {strides}", f"{spec.strides} (in elements)", fix)
    if tensor.data_ptr() % spec.align:
        fix = "Pass .clone() of it, or tune the fusion for a smaller alignment."
        raise WrongArguments(where, f"address {tensor.data_ptr():#x}", f"a multiple of {spec.align}", fix)


def _check_disjoint(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    """Blocks read inputs while others write outputs: memory that is both gives results that depend on timing."""
    spans = [("input", *_span(tensor)) for tensor in inputs]
    for position, output in enumerate(outputs):
        first, last = _span(output)
        for kind, start, end in spans:
            if first <= end and start <= last:
                fix = "Let the kernel allocate its outputs, or pass separate memory."
                raise WrongArguments(f"output {position}", f"memory shared with an {kind}", "memory of its own", fix)
        spans.append(("output", first, last))


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Addresses of the first and last byte that the tensor reaches."""
    reach = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (reach + 1) * tensor.element_size() - 1


def _scratch(size: int, align: int, device: torch.device) -> tuple[torch.Tensor, int]:
    """A buffer and the aligned address inside it."""
    buffer = torch.empty(size + align, dtype=torch.uint8, device=device)
    return buffer, -(-buffer.data_ptr() // align) * align


def _shown(spec: TensorSpec) -> str:
    return f"{spec.dtype}[{', '.join(map(str, spec.shape))}]"
