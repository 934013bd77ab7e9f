"""CUDA C++ to cubin and PTX, by NVRTC in child processes that may crash, hang or eat memory without harm.

NVRTC runs ptxas inside the calling process and some sources crash it, so only children call `compile_now`. NVRTC itself
is imported on first use: the rest of the compiler works where it is not installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import re
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, astuple, dataclass, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from compiler.child import Child, ChildDied, ChildTimedOut, HandlerFailed
from compiler.cubin import code_hash
from compiler.errors import CompileError, CompileTimeout

SOURCE_NAME = "kernel.cu"
"""The file name that stands in NVRTC's messages."""

OPTIONS = (
    "--std=c++17",
    "--device-as-default-execution-space",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--ptxas-options=-v",
    "--no-cache",
    "--minimal",
)
"""Options of every compile. No fast-math: approximate forms are chosen one by one in the source. No line info: it makes
cubins several times larger, and the machine code is the same. NVRTC's own cache is off: its answers have no log.
Minimal: types and functions of the CUDA runtime, of textures and surfaces are not declared before each kernel, which
names none of them. That takes 4 ms of 50 from a compile."""

_LOG_LIMIT_CHARS = 4000


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What one kernel uses, per thread unless said, from ptxas's log; shared memory without the system's 1 KiB."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_smem_bytes: int
    barriers: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """Compiled kernels: one, or those of several launches.

    `entry` is the first by name, `entries` all of them where there are several; `resources` are the most that any of
    them uses. `code_hash` is equal for equal machine code; `seconds` is the compiler's own wall time, `cpu_seconds` its
    processor's.
    """

    entry: str
    arch: str
    cubin: bytes
    ptx: str
    log: str
    resources: KernelResources
    code_hash: str
    nvrtc_version: str
    seconds: float
    from_cache: bool = False
    entries: tuple[str, ...] = ()
    cpu_seconds: float = 0.0


def compile_now(source: str, arch: str, extra: tuple[str, ...] = ()) -> Compiled:
    """Compiles `source`, which has at least one kernel, in this process: call it in a child.

    `arch` is a target such as `sm_90a`, `extra` more NVRTC options. Raises CompileError with NVRTC's log.
    """
    options = (f"--gpu-architecture={arch}", *OPTIONS, *extra)
    started, cpu = time.perf_counter(), time.process_time()
    with program(source, SOURCE_NAME) as made:
        log = made.compile(options, arch)
        cubin, ptx = made.fetched("CUBIN"), made.fetched("PTX")
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    kernels = parse_resources(log)
    if not kernels:
        raise CompileError("The source has kernels: none; expected at least one. Mark one function __global__.", log)
    entries = tuple(sorted(kernels, key=_numbered))
    resources = most(kernels.values())
    return Compiled(
        entry=entries[0],
        arch=arch,
        cubin=cubin,
        ptx=ptx.rstrip(b"\0").decode(),
        log=log,
        resources=resources,
        code_hash=code_hash(cubin),
        nvrtc_version=nvrtc_version(),
        seconds=seconds,
        entries=entries if len(entries) > 1 else (),
        cpu_seconds=cpu_seconds,
    )


def most(each: Iterable[KernelResources]) -> KernelResources:
    """The most of each resource that any of these kernels uses."""
    return KernelResources(*(max(numbers) for numbers in zip(*map(astuple, each), strict=True)))


def _numbered(entry: str) -> tuple[str, int]:
    """Sorts `kernel_10` after `kernel_9`."""
    stem, _, number = entry.rpartition("_")
    return (stem, int(number)) if number.isdigit() else (entry, -1)


@cache
def nvrtc_version() -> str:
    """`major.minor` of the NVRTC that this process loads."""
    status, major, minor = _nvrtc().nvrtcVersion()
    _expect_success(status, "tell its version")
    return f"{major}.{minor}"


def _nvrtc() -> Any:
    from cuda.bindings import nvrtc

    return nvrtc


def _expect_success(status: Any, action: str) -> None:
    if status != _nvrtc().nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC could not {action} ({status.name}).")


class NvrtcProgram:
    """A program of NVRTC, made and destroyed by `program`."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def compile(self, options: Sequence[str], arch: str) -> str:
        """Compiles with these options and returns the log. Raises CompileError with the log where NVRTC refuses."""
        nvrtc = _nvrtc()
        (status,) = nvrtc.nvrtcCompileProgram(self._handle, len(options), [option.encode() for option in options])
        log = self.fetched("ProgramLog").rstrip(b"\0 \n").decode(errors="replace")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(f"NVRTC refused the source for {arch} ({status.name}).", trimmed(log))
        return log

    def fetched(self, what: str) -> bytes:
        """A product by NVRTC's name for it: CUBIN, PTX, ProgramLog."""
        nvrtc = _nvrtc()
        status, size = getattr(nvrtc, f"nvrtcGet{what}Size")(self._handle)
        _expect_success(status, f"size its {what}")
        text = bytes(size)
        (status,) = getattr(nvrtc, f"nvrtcGet{what}")(self._handle, text)
        _expect_success(status, f"return its {what}")
        return text

    def add_name(self, expression: str) -> None:
        """Asks for a kernel by its name in C++, `k<128>`: a template is instantiated. Before the compile."""
        (status,) = _nvrtc().nvrtcAddNameExpression(self._handle, expression.encode())
        _expect_success(status, f"take the name {expression!r}")

    def lowered(self, expression: str) -> str:
        """The symbol of a kernel asked for by `add_name`, after the compile."""
        status, name = _nvrtc().nvrtcGetLoweredName(self._handle, expression.encode())
        _expect_success(status, f"tell the symbol of {expression!r}")
        return str(name.decode())


@contextlib.contextmanager
def program(source: str, name: str, headers: Mapping[str, str] | None = None) -> Iterator[NvrtcProgram]:
    """A program of the source, called `name` in messages and line information, in this process: a child's.

    `headers` are texts by the name that `#include` uses.
    """
    given = headers or {}
    texts, names = [text.encode() for text in given.values()], [header.encode() for header in given]
    nvrtc = _nvrtc()
    created, handle = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), len(given), texts, names)
    _expect_success(created, "create a program")
    try:
        yield NvrtcProgram(handle)
    finally:
        nvrtc.nvrtcDestroyProgram(handle)


_ENTRY = re.compile(r"Compiling entry function '(?P<entry>[^']+)'")
_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers(?P<rest>.*)")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SMEM = re.compile(r"(\d+) bytes smem")


_SERIALIZED = re.compile(r"\(C75(1[0-9]|20)\)")
"""Messages of ptxas on wgmma.mma_async, C7510 to C7520."""


def parse_resources(log: str) -> dict[str, KernelResources]:
    """Resources of each kernel in the output of `--ptxas-options=-v`, by entry name.

    A kernel that calls functions reports their frames too; the entry's own frame, the first after its name, counts.
    """
    found: dict[str, KernelResources] = {}
    entry, frame = "", None
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, frame = match["entry"], None
        elif frame is None and (match := _FRAME.search(line)):
            frame = match
        elif entry and (match := _USED.search(line)):
            found[entry] = KernelResources(
                registers=int(match["registers"]),
                spill_store_bytes=int(frame["stores"]) if frame else 0,
                spill_load_bytes=int(frame["loads"]) if frame else 0,
                stack_bytes=int(frame["stack"]) if frame else 0,
                static_smem_bytes=_first_int(_SMEM, match["rest"]),
                barriers=_first_int(_BARRIERS, match["rest"]),
            )
    return found


def serialized_products(log: str) -> tuple[str, ...]:
    """What ptxas says of products that wait for one another, each of its lines once: their registers are read or
    written between them, or control flow is in the way. They take three times as long."""
    return tuple(dict.fromkeys(line.strip() for line in log.splitlines() if _SERIALIZED.search(line)))


def _first_int(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return int(match[1]) if match else 0


def trimmed(log: str) -> str:
    """The log's start: the first error is the one to mend, the rest often follows from it."""
    if len(log) <= _LOG_LIMIT_CHARS:
        return log
    return f"{log[:_LOG_LIMIT_CHARS]}\n… {len(log) - _LOG_LIMIT_CHARS} more characters"


Request = tuple[str, str, tuple[str, ...]]


class CompileCache:
    """Compiled kernels in a directory, one file each, named by a hash of source, target, options and NVRTC version."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def get(self, request: Request) -> Compiled | None:
        """The kernel of an earlier compile. A file that is damaged counts as absent and is written again."""
        try:
            fields = json.loads(self._path(request).read_text(encoding="utf-8"))
            fields["cubin"] = b64decode(fields["cubin"], validate=True)
            fields["resources"] = KernelResources(**fields["resources"])
            fields["entries"] = tuple(fields.get("entries", ()))
            found = Compiled(**fields)
            intact = code_hash(found.cubin) == found.code_hash
        except (OSError, ValueError, KeyError, TypeError, CompileError):
            return None
        return replace(found, from_cache=True) if intact else None

    def put(self, request: Request, compiled: Compiled) -> None:
        """Keeps `compiled`; a reader sees the whole file or none. Raises OSError (a full disk), leaving nothing."""
        fields = asdict(compiled) | {"cubin": b64encode(compiled.cubin).decode()}
        handle, name = tempfile.mkstemp(dir=self._directory, suffix=".partial")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(fields, file)
            Path(name).replace(self._path(request))
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise

    def _path(self, request: Request) -> Path:
        source, arch, extra = request
        key = json.dumps([source, arch, OPTIONS, extra, nvrtc_version()])
        return self._directory / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def compile_handler(cache_directory: str | None) -> Callable[[Request], Compiled]:
    """Runs in a child: the function that answers its requests."""
    cache = None if cache_directory is None else CompileCache(Path(cache_directory))
    with contextlib.suppress(Exception):  # loads it before the first request, which meets again what is wrong
        nvrtc_version()

    def answer(request: Request) -> Compiled:
        if cache is not None and (found := cache.get(request)) is not None:
            return found
        compiled = compile_now(*request)
        if cache is not None:
            with contextlib.suppress(OSError):  # a full disk costs the next run a compile, not this one its kernel
                cache.put(request, compiled)
        return compiled

    return answer


class CompilePool:
    """`workers` compiler processes behind futures. Each request may take `time_limit_s`; a process that breaks or
    overruns is replaced. `memory_limit_bytes` bounds a process's address space. Close it, or use it in a `with`.
    """

    def __init__(
        self,
        workers: int,
        time_limit_s: float = 20.0,
        memory_limit_bytes: int = 2 * 1024**3,
        cache_directory: Path | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers: found {workers}, expected at least 1.")
        self._time_limit_s = time_limit_s
        self._memory_limit_bytes = memory_limit_bytes
        self._children = [
            Child(
                target="compiler.nvrtc:compile_handler",
                init=None if cache_directory is None else str(cache_directory),
                memory_limit_bytes=memory_limit_bytes,
                name=f"nvrtc-{number}",
            )
            for number in range(workers)
        ]
        self._idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="nvrtc")

    def start(self) -> None:
        """Starts every process now rather than at its first request, without waiting for any."""
        for child in self._children:
            self._threads.submit(child.start)

    def submit(self, source: str, arch: str, extra: tuple[str, ...] = ()) -> Future[Compiled]:
        """Queues a compile of `source`, which has at least one kernel, for target `arch` with more NVRTC options.

        The future raises CompileTimeout where the process ran past its time, CompileError where NVRTC refused the
        source, or died of it.
        """
        return self._threads.submit(self._compile, (source, arch, extra))

    def abandon(self) -> None:
        """Drops what is queued and kills the processes, whatever they compile: nobody waits for it any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self._children:
            child.kill()

    def close(self) -> None:
        """Drops what is queued, waits for what is running (at most the time limit), ends the processes."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for child in self._children:
            child.close()

    def __enter__(self) -> CompilePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _compile(self, request: Request) -> Compiled:
        child = self._idle.get()
        try:
            compiled: Compiled = answered(child, request, self._time_limit_s, self._memory_limit_bytes)
            return compiled
        finally:
            self._idle.put(child)


def answered(child: Child, request: Any, time_limit_s: float, memory_limit_bytes: int) -> Any:
    """What a compiler process answers; asked twice if somebody killed it, for that may not have been the source.

    Raises CompileTimeout where the process ran past its time, CompileError where NVRTC refused the source, or the
    process died of it.
    """
    try:
        try:
            return child.request(request, time_limit_s)
        except ChildDied as death:
            if not death.is_killed:
                raise
            return child.request(request, time_limit_s)
    except ChildTimedOut as late:
        raise CompileTimeout(
            f"The compile took more than {time_limit_s:g} s and its process was killed. Unroll less."
        ) from late
    except ChildDied as death:
        raise CompileError(
            f"The compiler process died ({death.ended_by}): the source crashed it, or it needed more than "
            f"{memory_limit_bytes / 1024**2:.0f} MiB.",
            trimmed(death.stderr),
        ) from death
    except HandlerFailed as failure:
        raise CompileError("The compiler process failed.", trimmed(str(failure))) from failure
    except MemoryError as error:
        raise CompileError(f"The compiler needed more than {memory_limit_bytes / 1024**2:.0f} MiB.") from error
