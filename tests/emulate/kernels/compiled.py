"""The PTX of the kernels' files: every file is one NVRTC program, with its faults and without."""

from __future__ import annotations

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


def compile_clean(family: str, arch: str) -> str:
    """The PTX of a file without faults."""
    return _ptx(family, arch, False)


def accepted(family: str, arch: str) -> str:
    """What the assembler says of a file without faults, which it takes: warnings, mostly none."""
    source = (FOLDER / f"{family}.cu").read_bytes()
    _, program = nvrtc.nvrtcCreateProgram(source, f"{family}.cu".encode(), 0, [], [])
    options = [f"--gpu-architecture={arch}", *_OPTIONS]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    log = _fetched(program, "ProgramLog")
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, f"{family}.cu: {log}"
    nvrtc.nvrtcDestroyProgram(program)
    return log


def _ptx(family: str, arch: str, is_faulty: bool) -> str:
    """Compiles to PTX only: for a virtual architecture NVRTC does not go on to machine code."""
    source = (FOLDER / f"{family}.cu").read_bytes()
    target = arch.replace("sm_", "compute_")
    options = [f"--gpu-architecture={target}", *_OPTIONS, *(("-DFAULT",) if is_faulty else ())]
    _, program = nvrtc.nvrtcCreateProgram(source, f"{family}.cu".encode(), 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, f"{family}.cu: {_fetched(program, 'ProgramLog')}"
    text = _fetched(program, "PTX")
    nvrtc.nvrtcDestroyProgram(program)
    return text


def _fetched(program: object, what: str) -> str:
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    text = bytes(size)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.rstrip(b"\0").decode()
