"""Where the kernel `k` of a source runs on arrays: in the emulator, or on the card of this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.launch import EmulatedTensor, Launch, TensorArgument
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.nvrtc import CompilePool

Array = npt.NDArray[Any]

Machine = Callable[[str, dict[str, Array], int, int], None]
"""Runs a source on arrays, in the order of the parameters of its kernel, in blocks of so many threads: how many."""

MACHINES = [
    "sm_90a",
    pytest.param("sm_80", id="sm_80"),
    pytest.param("card", marks=pytest.mark.gpu),
]
"""An architecture to emulate, or the card."""


def machine_of(pool: CompilePool, name: str) -> Machine:
    """The machine of this name, one of `MACHINES`."""
    return partial(_on_the_card, pool) if name == "card" else partial(_in_the_emulator, pool, name)


def _in_the_emulator(
    pool: CompilePool, arch: str, source: str, arrays: dict[str, Array], threads: int, blocks: int = 1
) -> None:
    tensors = {name: EmulatedTensor(name, "u8", (x.nbytes,), x.view(np.uint8)) for name, x in arrays.items()}
    args = tuple(TensorArgument(name) for name in tensors)
    module = parse(pool.submit(source, arch).result().ptx)
    outcome = emulate(module, Launch("k", arch, (blocks, 1, 1), (threads, 1, 1), args, tensors))
    assert outcome.faults == ()


def _on_the_card(pool: CompilePool, source: str, arrays: dict[str, Array], threads: int, blocks: int = 1) -> None:
    torch = pytest.importorskip("torch")
    from cuda.bindings import driver

    major, minor = torch.cuda.get_device_capability()
    compiled = pool.submit(source, f"sm_{major}{minor}" + ("a" if major >= 9 else "")).result()
    on_card = [torch.from_numpy(x.view(np.uint8)).cuda() for x in arrays.values()]
    status, module = driver.cuModuleLoadData(compiled.cubin)
    assert status == driver.CUresult.CUDA_SUCCESS
    status, kernel = driver.cuModuleGetFunction(module, b"k")
    assert status == driver.CUresult.CUDA_SUCCESS
    values, types = tuple(x.data_ptr() for x in on_card), (ctypes.c_void_p,) * len(on_card)
    stream = torch.cuda.current_stream().cuda_stream
    (status,) = driver.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, (values, types), 0)
    assert status == driver.CUresult.CUDA_SUCCESS
    for x, found in zip(arrays.values(), on_card, strict=True):
        x.view(np.uint8)[:] = found.cpu().numpy()
