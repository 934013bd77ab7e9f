"""Kernels on torch tensors. Importing this module imports torch; `fusetune` does it at the first call of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import torch

from fusetune.errors import NoDevice, WrongArguments
from fusetune.launch.launcher import Launcher, ListTable
from fusetune.scalars import numbers_of
from fusetune.wire.artifact import KernelArtifact, ListArg, ScalarSpec, TensorSpec
from fusetune.wire.lists import ListRow

TorchTensor = torch.Tensor
"""What a kernel takes and gives; modules that must not import torch name it by this word."""

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
"""Wire names of element types -> torch's."""


@dataclass
class _ListCall:
    """A call over lists: where its tensors were, and the tables of its launches, made when it comes again."""

    device: torch.device
    pointers: tuple[int, ...]
    rows: Sequence[ListRow]
    beside: Mapping[int, int]
    tables: tuple[ListTable, ...] | None = None


class Runner:
    """One artifact on every device it is called on. Behind `Kernel`, which says how to call it."""

    def __init__(self, artifact: KernelArtifact) -> None:
        self.artifact = artifact
        self._launchers: dict[int, Launcher] = {}
        self._made = tuple((x.shape, x.strides, DTYPES[x.dtype]) for x in artifact.outputs)
        is_plain = not artifact.scalars and artifact.lists is None
        is_in_place = all(spec.alias is not None for spec in artifact.outputs)
        self.takes_known_lists = is_in_place and artifact.lists is not None and not artifact.scalars
        self._last_lists: _ListCall | None = None
        self.takes_known = is_plain and all(spec.alias is None for spec in artifact.outputs)

    def __call__(
        self, arguments: tuple[object, ...], out: torch.Tensor | Sequence[torch.Tensor] | None
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Checks, allocates, launches. Raises WrongArguments, GuardFailed, NoDevice, InvalidKernel, LaunchFailed."""
        artifact = self.artifact
        if artifact.lists is not None:
            found: torch.Tensor | tuple[torch.Tensor, ...] = self._over_lists(arguments, artifact.lists, out)
            return found
        inputs, numbers = _apart(arguments, artifact.inputs, artifact.scalars)
        device = _check_all("input", inputs, artifact.inputs, device=None)
        _check_no_grad(inputs)
        if out is None:
            outputs = tuple(
                inputs[spec.alias]
                if spec.alias is not None
                else torch.empty_strided(spec.shape, spec.strides, dtype=DTYPES[spec.dtype], device=device)
                for spec in artifact.outputs
            )
        else:
            outputs = (out,) if isinstance(out, torch.Tensor) else tuple(out)
            _check_all("output", outputs, artifact.outputs, device)
        aliases = tuple(spec.alias for spec in artifact.outputs)
        if out is not None or any(position is not None for position in aliases):
            _check_disjoint(inputs, outputs, aliases)
        # From the caching allocator, like the outputs: it hands memory to others only in stream order.
        scratch = [_scratch(spec.bytes, spec.align, device) for spec in artifact.scratch]
        self._launcher(device).launch(
            tuple(tensor.data_ptr() for tensor in (*inputs, *outputs)),
            _stream_of(device.index),
            tuple(address for _, address in scratch),
            numbers,
        )
        for output, position in zip(outputs, aliases, strict=True):
            if position is not None:
                torch.autograd.graph.increment_version(output)
        return outputs[0] if len(outputs) == 1 else outputs

    def of_known(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The same of tensors like those of a call before: dtype, shape, strides, device, alignment, gradients. Nothing
        of that is looked at again. Only where `takes_known`."""
        index = inputs[0].get_device()
        launcher = self._launchers.get(index)
        if launcher is None or index != _current_index():
            return self._of_known_elsewhere(inputs)
        result: torch.Tensor | tuple[torch.Tensor, ...]
        if len(self._made) == 1:
            result = _new(*self._made[0])
            pointers = (*[x.data_ptr() for x in inputs], result.data_ptr())
        else:
            result = tuple([_new(*one) for one in self._made])
            pointers = tuple([x.data_ptr() for x in (*inputs, *result)])
        stream = _stream_of(index)
        if self.artifact.scratch:
            self._launch_with_scratch(launcher, pointers, inputs[0].device)
            return result
        # Torch keeps the context current of the device that is its current one.
        if not launcher.launch_again(pointers, stream):
            launcher.launch(pointers, stream)
        return result

    def _of_known_elsewhere(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The same on a device that is not torch's current one."""
        device = inputs[0].device
        outputs = tuple([torch.empty_strided(x, y, dtype=z, device=device) for x, y, z in self._made])
        pointers = tuple([x.data_ptr() for x in (*inputs, *outputs)])
        self._launch_with_scratch(self._launcher(device), pointers, device)
        return outputs[0] if len(outputs) == 1 else outputs

    def _launch_with_scratch(self, launcher: Launcher, pointers: tuple[int, ...], device: torch.device) -> None:
        # From the caching allocator, like the outputs: it hands memory to others only in stream order.
        scratch = [_scratch(spec.bytes, spec.align, device) for spec in self.artifact.scratch]
        launcher.launch(pointers, _stream_of(device.index), tuple([address for _, address in scratch]))

    def _over_lists(self, arguments: tuple[object, ...], lists: ListArg, out: object) -> Any:
        """The same over lists of tensors, in as few launches as take them all; results are lists, too."""
        artifact, count = self.artifact, len(self.artifact.inputs)
        if out is not None:
            raise WrongArguments(
                "out", "given", "nothing: results over lists are new tensors, or aliases", "Leave it out."
            )
        if len(arguments) != count + len(artifact.scalars):
            expected = f"{count} lists and tensors, then {len(artifact.scalars)} scalars"
            raise WrongArguments("arguments", str(len(arguments)), expected, "Pass one for each, in order.")
        numbers = numbers_of(artifact.scalars, arguments[count:])
        given = [
            _listed(f"input {n}", x, spec, is_list=bool(spec.shape) or n in lists.single)
            for n, (x, spec) in enumerate(zip(arguments, artifact.inputs, strict=False))
        ]
        flat = [tensor for tensors in given for tensor in tensors]
        device = _one_cuda_device(flat)
        _check_no_grad(flat)
        like = next(given[n] for n, spec in enumerate(artifact.inputs) if spec.shape)
        for n, (tensors, spec) in enumerate(zip(given, artifact.inputs, strict=True)):
            if spec.shape:
                _check_alike(n, tensors, like)
            elif n in lists.single:
                _check_as_many(n, tensors, like)
        outputs = [
            given[spec.alias]
            if spec.alias is not None
            else [torch.empty_strided(x.shape, x.stride(), dtype=DTYPES[spec.dtype], device=device) for x in like]
            for spec in artifact.outputs
        ]
        written = {spec.alias for spec in artifact.outputs if spec.alias is not None}
        _check_lists_disjoint(given, written)
        every = [*given, *outputs]
        rows = [
            ListRow(tuple(every[position][n].data_ptr() for position in lists.positions), x.numel())
            for n, x in enumerate(like)
            if x.numel()
        ]
        beside = {
            n: given[n][0].data_ptr()
            for n, spec in enumerate(artifact.inputs)
            if not spec.shape and n not in lists.single
        }
        self._launcher(device).launch_lists(rows, beside, _stream_of(device.index), numbers)
        for position in written:
            for tensor in given[position]:
                torch.autograd.graph.increment_version(tensor)
        if self.takes_known_lists:
            self._last_lists = _ListCall(device, tuple([x.data_ptr() for x in flat]), rows, beside)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def of_known_lists(self, given: Sequence[Any]) -> Any:
        """The same of tensors like those of the last call, and at the same addresses: nothing of that is looked at
        again, and the tables of its launches are kept. None where they are elsewhere, and nothing was done. Only where
        `takes_known_lists`."""
        last = self._last_lists
        if last is None:
            return None
        flat = [x for one in given for x in (one if isinstance(one, list) else (one,))]
        if last.pointers != tuple([x.data_ptr() for x in flat]):
            return None
        launcher = self._launcher(last.device)
        if last.tables is None:
            last.tables = launcher.tables(last.rows, last.beside)
        launcher.launch_tables(last.tables, _stream_of(last.device.index))
        outputs = [given[spec.alias] for spec in self.artifact.outputs if spec.alias is not None]
        torch.autograd.graph.increment_version([x for tensors in outputs for x in tensors])
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def wait(self) -> None:
        """Until what was called on the current streams is done. Raises LaunchFailed, IndexOutOfRange."""
        for index, launcher in self._launchers.items():
            launcher.wait(_stream_of(index))

    def _launcher(self, device: torch.device) -> Launcher:
        index = device.index
        if index not in self._launchers:
            self._launchers[index] = Launcher(self.artifact, index)
        return self._launchers[index]


_stream_of: Callable[[int], int] = getattr(
    torch._C, "_cuda_getCurrentRawStream", lambda index: int(torch.cuda.current_stream(index).cuda_stream)
)
"""The current stream of a device, as a number; torch's own compilers ask by the first way, without an object."""

_current_index: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: torch.cuda.current_device())
"""Torch's current device, where it has one already."""


def _found_new() -> Callable[..., torch.Tensor]:
    with suppress(ImportError):
        from torch._C._dynamo import guards

        found: Callable[..., torch.Tensor] | None = getattr(guards, "_empty_strided_cuda", None)
        if found is not None:
            return found
    return lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device="cuda")


_new = _found_new()
"""A new tensor on the current device, of a size, strides and a dtype, in less than half the time: what Inductor's code
calls."""


def is_capturing() -> bool:
    """Whether the current stream is captured into a CUDA graph."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def run_empty(
    input_specs: tuple[TensorSpec, ...],
    scalar_specs: tuple[ScalarSpec, ...],
    output_specs: tuple[TensorSpec, ...],
    arguments: tuple[object, ...],
    out: torch.Tensor | Sequence[torch.Tensor] | None,
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Outputs without elements. Nothing is read or written, so layouts and addresses do not matter, types do."""
    inputs, _ = _apart(arguments, input_specs, scalar_specs)
    device = _check_types("input", inputs, input_specs, device=None)
    _check_no_grad(inputs)
    if out is None:
        outputs = tuple(torch.empty(s.shape, dtype=DTYPES[s.dtype], device=device) for s in output_specs)
    else:
        outputs = (out,) if isinstance(out, torch.Tensor) else tuple(out)
        _check_types("output", outputs, output_specs, device)
    return outputs[0] if len(outputs) == 1 else outputs


def _apart(
    arguments: tuple[object, ...], tensors: tuple[TensorSpec, ...], scalars: tuple[ScalarSpec, ...]
) -> tuple[tuple[torch.Tensor, ...], tuple[int | float, ...]]:
    """The tensors of a call, which are still to be checked, and the numbers after them. Raises WrongArguments."""
    if len(arguments) != len(tensors) + len(scalars) and scalars:
        expected = f"{len(tensors)} tensors and then {len(scalars)} scalars"
        raise WrongArguments("arguments", f"{len(arguments)}", expected, "Pass one for each, in order.")
    count = len(tensors) if scalars else len(arguments)
    inputs = arguments[:count]
    _check_are_tensors("input", inputs, tensors)
    return cast(tuple[torch.Tensor, ...], inputs), numbers_of(scalars, arguments[count:])


def _check_all(
    kind: str, tensors: Sequence[torch.Tensor], specs: tuple[TensorSpec, ...], device: torch.device | None
) -> torch.device:
    """The one CUDA device of all tensors, which must be `device` if that is given. Raises WrongArguments, NoDevice."""
    _check_are_tensors(kind, tensors, specs)
    device = _one_device(kind, tensors, device)
    if device.type != "cuda":
        _refuse_host(device, kind)
    for position, (tensor, spec) in enumerate(zip(tensors, specs, strict=True)):
        check_tensor(f"{kind} {position}", tensor, spec)
    return device


def _refuse_host(device: torch.device, kind: str = "input") -> NoReturn:
    if not torch.cuda.is_available():
        raise NoDevice(
            "torch sees no CUDA device", "Run on a machine with an NVIDIA GPU and a CUDA build of torch.", True
        )
    raise WrongArguments(f"{kind} 0", f"device {device}", "a CUDA device", "Move it with .cuda().")


def _listed(where: str, given: object, spec: TensorSpec, is_list: bool) -> list[torch.Tensor]:
    """The tensors of a list, or the one that stands beside lists. Raises WrongArguments."""
    tensors = [given] if isinstance(given, torch.Tensor) and not is_list else given
    if not isinstance(tensors, list | tuple) or not all(isinstance(x, torch.Tensor) for x in tensors):
        expected = "a list of tensors" if is_list else "a tensor without dimensions"
        raise WrongArguments(where, type(given).__name__, expected, "Pass lists where the fusion has lists.")
    for n, tensor in enumerate(tensors):
        at = f"{where}[{n}]" if is_list else where
        if spec.shape and tensor.dtype != DTYPES[spec.dtype]:
            raise WrongArguments(at, str(tensor.dtype), str(DTYPES[spec.dtype]), "Convert it, or tune for its dtype.")
        if not spec.shape:
            check_tensor(at, tensor, spec)
        first, last = _span(tensor)
        if tensor.numel() and last - first + 1 != tensor.numel() * tensor.element_size():
            raise WrongArguments(at, f"strides {tensor.stride()}", "a dense tensor", "Call .contiguous().")
    return list(tensors)


def _check_alike(position: int, tensors: list[torch.Tensor], like: list[torch.Tensor]) -> None:
    """Lists are as long as one another, and their tensors have elements at the same places. Raises WrongArguments."""
    _check_as_many(position, tensors, like)
    for n, (tensor, first) in enumerate(zip(tensors, like, strict=True)):
        if tensor.shape != first.shape or (tensor.stride() != first.stride() and tensor.numel() > 1):
            found, expected = (f"shape {tuple(x.shape)}, strides {x.stride()}" for x in (tensor, first))
            raise WrongArguments(
                f"input {position}[{n}]", found, f"{expected}, as in the first list", "Copy it to that."
            )


def _check_as_many(position: int, tensors: list[torch.Tensor], like: list[torch.Tensor]) -> None:
    """Raises WrongArguments."""
    if len(tensors) != len(like):
        fix = "Pass one tensor for each of the first list."
        raise WrongArguments(f"input {position}", f"{len(tensors)} tensors", str(len(like)), fix)


def _one_cuda_device(tensors: Sequence[torch.Tensor]) -> torch.device:
    """Raises WrongArguments, NoDevice."""
    device = _one_device("input", tensors, None)
    if device.type != "cuda":
        _refuse_host(device)
    return device


def _check_lists_disjoint(given: Sequence[Sequence[torch.Tensor]], written: Collection[int]) -> None:
    """What is written is nobody else's memory (`_check_disjoint`). Raises WrongArguments."""
    spans = sorted(
        (*_span(x), position, n) for position, tensors in enumerate(given) for n, x in enumerate(tensors) if x.numel()
    )
    reached = reached_writing = -1
    for first, last, position, n in spans:
        if first <= (reached if position in written else reached_writing):
            fix = "Pass a copy of one of them: what is written is read by nobody else."
            raise WrongArguments(
                f"input {position}[{n}]", "memory shared with another tensor", "memory of its own", fix
            )
        reached = max(reached, last)
        reached_writing = max(reached_writing, last) if position in written else reached_writing


def _check_types(
    kind: str, tensors: Sequence[torch.Tensor], specs: tuple[TensorSpec, ...], device: torch.device | None
) -> torch.device:
    """The one device of all tensors, of any kind. Raises WrongArguments."""
    _check_are_tensors(kind, tensors, specs)
    for position, (tensor, spec) in enumerate(zip(tensors, specs, strict=True)):
        _check_type(f"{kind} {position}", tensor, spec)
    return _one_device(kind, tensors, device)


def _check_are_tensors(kind: str, tensors: Sequence[object], specs: tuple[TensorSpec, ...]) -> None:
    if len(tensors) != len(specs):
        raise WrongArguments(f"{kind}s", str(len(tensors)), str(len(specs)), "Pass one tensor for each.")
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor):
            found = type(tensor).__name__
            raise WrongArguments(f"{kind} {position}", found, "torch.Tensor", "Convert it with torch.as_tensor.")


def _one_device(kind: str, tensors: Sequence[torch.Tensor], device: torch.device | None) -> torch.device:
    for position, tensor in enumerate(tensors):
        if device is None:
            device = tensor.device
        elif tensor.device != device:
            found = f"device {tensor.device}"
            raise WrongArguments(f"{kind} {position}", found, str(device), "Put all tensors on one device.")
    if device is None:
        raise WrongArguments(f"{kind}s", "none", "at least one tensor, whose device the kernel runs on", "Pass one.")
    return device


def _check_no_grad(inputs: Sequence[torch.Tensor]) -> None:
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        raise WrongArguments(
            "inputs", "a tensor that requires grad", "none: the kernel has no backward pass",
            "Call it under torch.no_grad(), or pass x.detach().",
        )  # fmt: skip


def check_tensor(where: str, tensor: torch.Tensor, spec: TensorSpec) -> None:
    """Raises WrongArguments unless the tensor is what the kernel was built for: dtype, shape, strides, alignment."""
    _check_type(where, tensor, spec)
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


def _check_type(where: str, tensor: torch.Tensor, spec: TensorSpec) -> None:
    if tensor.dtype != DTYPES[spec.dtype]:
        raise WrongArguments(where, str(tensor.dtype), str(DTYPES[spec.dtype]), "Convert it, or tune for its dtype.")
    if tuple(tensor.shape) != spec.shape:
        raise WrongArguments(where, f"shape {tuple(tensor.shape)}", f"{spec.shape}", "Tune the fusion for this shape.")


def _check_disjoint(
    inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], aliases: Sequence[int | None] = ()
) -> None:
    """Blocks read inputs while others write outputs: memory that is both gives results that depend on timing.

    `aliases`: for each output, the position of the input in whose memory it must lie, if it has an alias.
    """
    spans = [("input", *_span(tensor)) for tensor in inputs]
    for position, (output, alias) in enumerate(zip(outputs, aliases or (None,) * len(outputs), strict=True)):
        first, last = _span(output)
        if alias is not None and output.data_ptr() != inputs[alias].data_ptr():
            fix = f"Pass input {alias} itself, or leave `out` away: the kernel writes into it."
            raise WrongArguments(f"output {position}", "memory of its own", f"that of input {alias}", fix)
        for place, (kind, start, end) in enumerate(spans):
            if place != alias and first <= end and start <= last:
                fix = "Let the kernel allocate its outputs, or pass separate memory."
                if alias is not None:
                    fix = f"Pass a copy of what shares its memory with input {alias}, which the kernel writes."
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
