"""CUDA C++ that others wrote, to PTX with line information.

The source may have several kernels, templates among them, and include the headers of the CUDA toolkit where they are
installed. NVRTC knows no headers of the host's compiler; of those, what kernels use is given to it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler.child import Child
from compiler.errors import CompileError
from compiler.nvrtc import OPTIONS, answered, nvrtc_version, program

TIME_LIMIT_S = 120.0
"""Of one compile: headers such as <cuda/barrier> take seconds."""

MEMORY_LIMIT_BYTES = 6 * 1024**3

_OPTIONS = tuple(o for o in OPTIONS if o != "--minimal" and not o.startswith("--ptxas-options"))
"""Others may name all that CUDA declares."""


@dataclass(frozen=True, slots=True)
class CudaSource:
    """A source to compile for target `arch`. `name` stands in messages and in the line information.

    `kernel`: a kernel's name in C++ if it must be instantiated (`k<128>`), else empty.
    """

    text: str
    name: str
    arch: str
    include_dirs: tuple[str, ...] = ()
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class PtxOfSource:
    """What came of it; `entry` is the symbol of the kernel that was asked for by name, else empty."""

    ptx: str
    entry: str


def ptx_of(source: CudaSource) -> PtxOfSource:
    """Compiles in a child process. Raises CompileTimeout, or CompileError with NVRTC's log."""
    child = Child("compiler.cuda_sources:handler", memory_limit_bytes=MEMORY_LIMIT_BYTES, name="nvrtc-lineinfo")
    with child:
        try:
            made: PtxOfSource = answered(child, source, TIME_LIMIT_S, MEMORY_LIMIT_BYTES)
        except CompileError as error:
            raise type(error)(*error.args) from None  # without the child's traceback: the fault is in the source
        return made


def handler(_: None) -> Callable[[CudaSource], PtxOfSource]:
    """Runs in the child: the function that answers its requests."""
    return ptx_now


def ptx_now(source: CudaSource) -> PtxOfSource:
    """Compiles in this process, machine code included: ptxas finds faults of inline PTX. Raises CompileError."""
    options = (
        f"--gpu-architecture={source.arch}",
        *_OPTIONS,
        "--generate-line-info",
        *(f"--include-path={directory}" for directory in source.include_dirs),
    )
    absent = {n: t for n, t in TOOLKIT_HEADERS.items() if not any((Path(d) / n).exists() for d in source.include_dirs)}
    with program(source.text, source.name, HOST_HEADERS | absent) as made:
        if source.kernel:
            made.add_name(source.kernel)
        try:
            made.compile(options, source.arch)
        except CompileError as error:
            raise _with_advice(error, source.include_dirs) from None
        entry = made.lowered(source.kernel) if source.kernel else ""
        return PtxOfSource(made.fetched("PTX").rstrip(b"\0").decode(), entry)


def _with_advice(error: CompileError, include_dirs: tuple[str, ...]) -> CompileError:
    """A refusal for a header that is not found says where was looked."""
    if "open source file" not in error.log:
        return error
    looked = ", ".join(include_dirs) or "nowhere: no CUDA toolkit was found"
    advice = f"Headers were looked for in {looked}. Install the CUDA headers, or name the toolkit in $CUDA_HOME."
    return CompileError(error.reason, f"{error.log}\n{advice}")


def header_dirs(environment: Mapping[str, str], roots: tuple[Path, ...]) -> tuple[str, ...]:
    """Folders with the headers of the CUDA toolkit, the best first: `cuda_fp16.h` and so on, and CCCL's `cuda/std`.

    Looked for in $CUDA_HOME and $CUDA_PATH, then in `roots` and in `include` below them. Only the first toolkit counts:
    headers of two releases do not mix.
    """
    named = [Path(environment[name]) for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    for root in (*named, *roots):
        include = root / "include"
        if (include / "cuda_fp16.h").is_file():
            folders = (include, include / "cccl")
            return tuple(str(folder) for folder in folders if folder.is_dir())
    return ()


def toolkit_roots(site: Path) -> tuple[Path, ...]:
    """Where toolkits lie: the packages of `site`, then /usr/local; one of NVRTC's own release before others."""
    release = nvrtc_version()
    major = release.partition(".")[0]
    local = Path("/usr/local")
    others = sorted(local.glob(f"cuda-{major}.*"), reverse=True)
    return (
        site / "nvidia" / f"cu{major}",
        site / "nvidia" / "cuda_runtime",
        local / f"cuda-{release}",
        local / "cuda",
        *others,
    )


_INTEGERS = """\
#pragma once
#if __has_include(<cuda/std/cstdint>)
#include <cuda/std/cstdint>
#else
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT64_MAX 9223372036854775807ll
#define UINT64_MAX 18446744073709551615ull
#endif
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t; using ::intptr_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t; using ::uintptr_t;
}
"""

_LIMITS = """\
#pragma once
#if __has_include(<cuda/std/climits>)
#include <cuda/std/climits>
#else
#define CHAR_BIT 8
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295u
#define LONG_MIN (-9223372036854775807l - 1)
#define LONG_MAX 9223372036854775807l
#define ULONG_MAX 18446744073709551615ul
#define LLONG_MIN (-9223372036854775807ll - 1)
#define LLONG_MAX 9223372036854775807ll
#define ULLONG_MAX 18446744073709551615ull
#endif
"""

_FLOATS = """\
#pragma once
#if __has_include(<cuda/std/cfloat>)
#include <cuda/std/cfloat>
#else
#define FLT_MAX 3.40282346638528859812e+38f
#define FLT_MIN 1.17549435082228750797e-38f
#define FLT_EPSILON 1.1920928955078125e-7f
#define DBL_MAX 1.79769313486231570815e+308
#define DBL_MIN 2.22507385850720138309e-308
#define DBL_EPSILON 2.22044604925031308085e-16
#endif
"""

_MATH = """\
#pragma once
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
"""

_TEXTS = {
    "stdint.h cstdint": _INTEGERS,
    "limits.h climits": _LIMITS,
    "float.h cfloat": _FLOATS,
    "math.h cmath": _MATH,
    "stddef.h cstddef stdlib.h cstdlib stdio.h cstdio string.h cstring assert.h cassert stdbool.h": "#pragma once\n",
}

HOST_HEADERS = {name: text for names, text in _TEXTS.items() for name in names.split()}
"""Headers of the host's C and C++ library that kernels include: types and constants.

The functions in them (`printf`, `assert`, `memcpy`, mathematics) and `size_t` are built into NVRTC (NVRTC
documentation, "Supported C++ Constructs"). Types and limits are CCCL's where it is installed, so that both may be
included.
"""

_TENSOR_MAP = """\
#pragma once
typedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;
"""

TOOLKIT_HEADERS = {
    "cuda.h": _TENSOR_MAP,
    "cuda_runtime.h": "#pragma once\n",
    "cuda_runtime_api.h": "#pragma once\n",
    "device_launch_parameters.h": "#pragma once\n",
}
"""What stands in for headers of the toolkit where it is not installed: what a kernel needs of these is the type of a
tensor map (CUDA driver API, "CUtensorMap"); the rest is built into NVRTC."""
