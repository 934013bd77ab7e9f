"""Many kernels to a module: CUDA source to cubin and PTX, a folder of them on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cuda.bindings import nvrtc

from benchmarks.emulate.form import ARCH, InstructionForm

KERNELS_A_MODULE = 48
"""Enough that the cost of starting a compile is spread, few enough that modules go to both cores."""

OPTIONS = (
    "--std=c++17",
    "--device-as-default-execution-space",
    "--device-int128",
    "-lineinfo",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
)

DEVICE = (Path(__file__).parent / "device.cuh").read_text(encoding="utf-8")
"""What kernels of the benchmarks begin with: types, and the instructions around the one that is looked at."""

_INDEX = "index.json"


class CompileFailed(Exception):
    """NVRTC's log for a source that it refused."""


@dataclass(frozen=True)
class CompiledForms:
    """The machine code of a module and the PTX that it was made of."""

    cubin: bytes
    ptx: str


def compile_source(source: str, arch: str = ARCH) -> CompiledForms:
    """Compiles in this process. Raises CompileFailed."""
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"forms.cu", 0, [], [])
    options = [o.encode() for o in (f"--gpu-architecture={arch}", *OPTIONS)]
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileFailed(_fetched(program, "ProgramLog").rstrip(b"\0 \n").decode())
        return CompiledForms(_fetched(program, "CUBIN"), _fetched(program, "PTX").rstrip(b"\0").decode())
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _fetched(program: object, what: str) -> bytes:
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    text = bytes(size)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text


def modules(forms: Sequence[InstructionForm]) -> Iterator[tuple[str, Sequence[InstructionForm]]]:
    """The source of each module and the forms in it; form k of a module has the entry `entry(k)`."""
    for start in range(0, len(forms), KERNELS_A_MODULE):
        group = forms[start : start + KERNELS_A_MODULE]
        yield DEVICE + "".join(f.kernel.replace("ENTRY", entry(k)) for k, f in enumerate(group)), group


def entry(index: int) -> str:
    """The name of a module's kernel."""
    return f"form{index}"


def prepare_forms(forms: Sequence[InstructionForm], folder: Path, workers: int = 2) -> None:
    """Compiles every form into `folder`: m0.cubin, m0.ptx, …, and an index of sources. Raises CompileFailed."""
    folder.mkdir(parents=True, exist_ok=True)
    groups = list(modules(forms))
    with ThreadPoolExecutor(workers) as threads:  # NVRTC lets go of the interpreter while it compiles
        for number, compiled in enumerate(threads.map(lambda g: compile_source(g[0]), groups)):
            (folder / f"m{number}.cubin").write_bytes(compiled.cubin)
            (folder / f"m{number}.ptx").write_text(compiled.ptx, encoding="utf-8")
    index = [_digest(source) for source, _ in groups]
    (folder / _INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def prepared_forms(
    forms: Sequence[InstructionForm], folder: Path
) -> list[tuple[CompiledForms, Sequence[InstructionForm]]]:
    """What `prepare_forms` left, beside the forms. Raises ValueError where the folder is of another set of forms."""
    index = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
    found = []
    for number, (source, group) in enumerate(modules(forms)):
        if number >= len(index) or index[number] != _digest(source):
            raise ValueError(f"{folder}: module {number} was prepared from other forms. Prepare it again.")
        cubin = (folder / f"m{number}.cubin").read_bytes()
        found.append((CompiledForms(cubin, (folder / f"m{number}.ptx").read_text(encoding="utf-8")), group))
    return found
