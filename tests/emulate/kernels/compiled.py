"""The PTX of the kernels' files: every file is one NVRTC program, with its faults and without."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from cuda.bindings import nvrtc

from tests.emulate.kernels.case import FOLDER

_OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "-lineinfo", f"--include-path={FOLDER}")


def compile_families(wanted: set[tuple[str, str]]) -> dict[tuple[str, bool], str]:
    """PTX by (family, is_faulty) of the (family, arch) wanted. NVRTC frees the interpreter: two threads, two cores."""
    jobs = [(family, arch, is_faulty) for family, arch in sorted(wanted) for is_faulty in (False, True)]
    with ThreadPoolExecutor(2) as threads:
        texts = threads.map(lambda job: _ptx(*job), jobs)
    return {(family, is_faulty): text for (family, _, is_faulty), text in zip(jobs, texts, strict=True)}


def compile_text(text: str, arch: str) -> tuple[str, str]:
    """The PTX of a source, and what the compiler says of it. For sm_… the assembler takes it too, for compute_… not."""
    return _compiled(text.encode(), "text.cu", [f"--gpu-architecture={arch}", *_OPTIONS])


def machine_code(family: str, arch: str) -> tuple[bytes, str]:
    """The cubin of a file without faults, and the PTX that it was made of."""
    options = [f"--gpu-architecture={arch}", *_OPTIONS]
    cubin, ptx = _made((FOLDER / f"{family}.cu").read_bytes(), f"{family}.cu", options, ("CUBIN", "PTX"))
    return cubin, ptx.rstrip(b"\0").decode()


def _ptx(family: str, arch: str, is_faulty: bool) -> str:
    """Compiles to PTX only: for a virtual architecture NVRTC does not go on to machine code."""
    source = (FOLDER / f"{family}.cu").read_bytes()
    target = arch.replace("sm_", "compute_")
    options = [f"--gpu-architecture={target}", *_OPTIONS, *(("-DFAULT",) if is_faulty else ())]
    return _compiled(source, f"{family}.cu", options)[0]


def _compiled(source: bytes, name: str, options: list[str]) -> tuple[str, str]:
    """PTX and log."""
    ptx, log = _made(source, name, options, ("PTX", "ProgramLog"))
    return ptx.rstrip(b"\0").decode(), log.rstrip(b"\0").decode()


def _made(source: bytes, name: str, options: list[str], wanted: Sequence[str]) -> list[bytes]:
    _, program = nvrtc.nvrtcCreateProgram(source, name.encode(), 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, f"{name}: {_fetched(program, 'ProgramLog').decode()}"
    found = [_fetched(program, what) for what in wanted]
    nvrtc.nvrtcDestroyProgram(program)
    return found


def _fetched(program: object, what: str) -> bytes:
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    text = bytes(size)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text
