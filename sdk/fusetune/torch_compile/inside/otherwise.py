"""What runs without a kernel: Inductor's own code for a region, to be timed beside it, and where a kernel fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from fusetune.errors import FusetuneError, WrongArguments
from fusetune.torch_compile.inside.beside import beside_the_program
from fusetune.torch_compile.inside.compiling import Compile, Run, code_maker
from fusetune.torch_compile.inside.regions import PortableRegion, forward_of
from fusetune.torch_ops.outputs import own_outputs

ROOM = 3.0
"""A region's bytes that have to be free for it to be timed: what it reads, and what each of the two makes."""


def by_inductor(region: PortableRegion, device: torch.device, patches: Mapping[str, Any], inner: Compile | None) -> Run:
    """The region as Inductor compiles it alone: a function of its inputs."""
    from torch._inductor.compile_fx import compile_fx

    mode = FakeTensorMode()
    with beside_the_program(), torch.no_grad():
        with mode:
            fakes = [form.empty(device) for form in region.inputs]
            gm = make_fx(forward_of(region.program, device))(*fakes)
        return cast(Run, compile_fx(gm, fakes, inner_compile=code_maker(inner), config_patches=dict(patches)))


class RegionTrial:
    """The two ways to compute a region, on tensors that are made for it."""

    def __init__(self, region: PortableRegion, device: torch.device, otherwise: Run) -> None:
        self.region, self.device, self.run = region, device, otherwise

    def has_room(self) -> bool:
        """Whether it can be run without taking memory that the program may need."""
        if self.device.type != "cuda":
            return True
        free, _ = torch.cuda.mem_get_info(self.device)
        cached = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return free + cached >= ROOM * self.region.moved_bytes

    def both(self, kernel: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """Inductor's code and the kernel, on the same tensors."""
        tensors = self._tensors()
        read = [tensors[n] for n in self.region.reads]

        def otherwise() -> Any:
            with torch.no_grad():
                return self.run(*tensors)

        return otherwise, lambda: kernel(*read)

    def _tensors(self) -> list[torch.Tensor]:
        """Numbers around zero; indices and flags are zeros. The program's own random numbers are left alone."""
        generator = torch.Generator(self.device)
        generator.manual_seed(0)
        found = [form.empty(self.device) for form in self.region.inputs]
        for x in found:
            if x.dtype.is_floating_point and x.dtype.itemsize > 1:
                x.normal_(generator=generator)
            else:
                x.zero_()
        return found


class Instead:
    """What `fusetune::run` gives for a region whose kernel fails. `failed` is told."""

    def __init__(
        self, region: PortableRegion, device: torch.device, failed: Callable[[Exception], None], strict: bool
    ) -> None:
        self.region, self.device, self.failed, self.strict = region, device, failed, strict

    def __call__(self, tensors: list[torch.Tensor], kernel: Any, error: FusetuneError) -> list[torch.Tensor]:
        """Raises the error with `strict`."""
        if isinstance(error, WrongArguments) and (moved := _aligned(tensors, kernel)) is not None:
            return own_outputs(kernel, kernel(*moved))
        if self.strict:
            raise error
        self.failed(error)
        found: list[torch.Tensor] = self.region.otherwise(self.device)(tensors, kernel.artifact.outputs)
        return found


def _aligned(tensors: Sequence[torch.Tensor], kernel: Any) -> list[torch.Tensor] | None:
    """The tensors, copied where they lie at an address that the kernel does not take; None if all of them do not."""
    specs = kernel.artifact.inputs
    if not any(x.data_ptr() % spec.align for x, spec in zip(tensors, specs, strict=True)):
        return None
    return [x.clone() if x.data_ptr() % spec.align else x for x, spec in zip(tensors, specs, strict=True)]
