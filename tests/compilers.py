"""Pools of compilers for all tests of a process, in which a source is compiled once."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from hashlib import sha256

from compiler.child import Child
from compiler.nvrtc import OPTIONS, SOURCE_NAME, Compiled, CompilePool, KernelResources, Request, nvrtc_version, program

_MOST_KEPT = 512
_ENTRY = re.compile(r"^\.visible \.entry (\w+)\(", re.MULTILINE)


class SharedPool(CompilePool):
    """Answers as the compiler did, the last few hundred times that it was asked in this process: tests ask for a kernel
    that others have asked for. What fails to compile is not kept."""

    def __init__(self) -> None:
        super().__init__(workers=1, time_limit_s=120.0)
        self._made: OrderedDict[bytes, Future[Compiled]] = OrderedDict()

    def submit(self, source: str, arch: str, extra: tuple[str, ...] = ()) -> Future[Compiled]:
        key = sha256("\0".join((source, arch, *extra)).encode()).digest()
        made = self._made.get(key)
        if made is None or made.cancelled() or (made.done() and made.exception() is not None):
            made = self._made[key] = super().submit(source, arch, extra)
        self._made.move_to_end(key)
        if len(self._made) > _MOST_KEPT:
            self._made.popitem(last=False)
        return made


class PtxPool(SharedPool):
    """Compiles to PTX, which is what the emulator runs, and leaves out ptxas, which takes as long again: a kernel of it
    has no machine code, and resources of nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._children = [Child(target="tests.compilers:ptx_handler", memory_limit_bytes=2 * 1024**3, name="ptx")]
        self._idle.get()
        self._idle.put(self._children[0])


def ptx_handler(init: None) -> Callable[[Request], Compiled]:
    """Runs in a child: the function that answers its requests."""
    return ptx_of


def ptx_of(request: Request) -> Compiled:
    """The PTX of a source, as a compile to machine code makes it. Raises CompileError with NVRTC's log."""
    source, arch, extra = request
    options = [option for option in OPTIONS if "ptxas" not in option]
    with program(source, SOURCE_NAME) as made:
        log = made.compile([f"--gpu-architecture={arch.replace('sm_', 'compute_')}", *options, *extra], arch)
        ptx = made.fetched("PTX").rstrip(b"\0").decode()
    entries = tuple(_ENTRY.findall(ptx))
    return Compiled(
        entry=entries[0],
        arch=arch,
        cubin=b"",
        ptx=ptx,
        log=log,
        resources=KernelResources(0, 0, 0, 0, 0, 0),
        code_hash=sha256(ptx.encode()).hexdigest(),
        nvrtc_version=nvrtc_version(),
        seconds=0.0,
        entries=entries if len(entries) > 1 else (),
    )
