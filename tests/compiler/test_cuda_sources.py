"""CUDA that others wrote: line information, several kernels, templates, and headers with and without a toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cuda_sources import HOST_HEADERS, CudaSource, header_dirs, ptx_now, ptx_of, toolkit_roots
from compiler.errors import CompileError
from compiler.nvrtc import nvrtc_version

KERNEL = 'extern "C" __global__ void k(float* x) { x[0] = 1; }\n'


def compiled(text: str, *include_dirs: Path, kernel: str = "", arch: str = "sm_90a") -> str:
    source = CudaSource(text, "/there/mine.cu", arch, tuple(map(str, include_dirs)), kernel)
    made = ptx_now(source)
    return made.entry or made.ptx


def test_the_child_answers_with_lines_of_the_source() -> None:
    made = ptx_of(CudaSource(f"\n\n{KERNEL}", "/there/mine.cu", "sm_90a"))
    assert (made.entry, ".visible .entry k(" in made.ptx, '"/there/mine.cu"' in made.ptx) == ("", True, True)
    assert "\t.loc\t1 3 " in made.ptx


def test_a_source_may_have_several_kernels_and_targets() -> None:
    ptx = compiled(KERNEL + KERNEL.replace(" k(", " other("), arch="sm_80")
    assert (ptx.count(".entry"), ".target sm_80" in ptx) == (2, True)


def test_a_template_is_instantiated_by_its_name() -> None:
    template = "namespace a { template <int N> __global__ void k(float* x) { x[0] = N; } }"
    assert compiled(template, kernel="a::k<3>") == "_ZN1a1kILi3EEEvPf"
    with pytest.raises(CompileError, match="refused"):
        compiled(template, kernel="a::q<3>")


@pytest.mark.parametrize("header", [*HOST_HEADERS, "cuda.h", "cuda_runtime.h"])
def test_headers_that_kernels_include_need_no_toolkit(header: str) -> None:
    assert ".entry k(" in compiled(f"#include <{header}>\n{KERNEL}")


def test_the_types_and_constants_of_those_headers() -> None:
    text = """
    #include <cstdint>
    #include <stdint.h>
    #include <climits>
    #include <cfloat>
    #include <cmath>
    #include <cuda.h>
    static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) == 64, "");
    static_assert(sizeof(std::int64_t) == 8 && sizeof(uintptr_t) == 8 && UINT64_MAX == ~0ull && INT8_MIN == -128, "");
    static_assert(INT_MAX == 0x7fffffff && CHAR_BIT == 8 && FLT_EPSILON == 0x1p-23f && DBL_EPSILON == 0x1p-52, "");
    extern "C" __global__ void k(float* x, std::uint32_t n) { x[n] = INFINITY; x[1] = NAN; assert(n > 2); }
    """
    assert str(0x7F800000) in compiled(text)


def test_what_cuda_declares_without_a_header() -> None:
    text = """
    extern "C" __global__ void k(float* x, cudaTextureObject_t t) {
        x[0] = tex2D<float>(t, 1, 2);
        x[1] = static_cast<float>(cudaErrorInvalidValue);
    }
    """
    assert "tex.2d" in compiled(text)


def test_a_header_beside_the_source_is_found(tmp_path: Path) -> None:
    (tmp_path / "mine.cuh").write_text("#define N 7\n")
    assert str(0x40E00000) in compiled(f'#include "mine.cuh"\n{KERNEL.replace("= 1", "= N")}', tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("__global__ void k( {", "/there/mine.cu(1): error", id="syntax"),
        pytest.param("#include <cuda_bf16.h>\n", "Install the CUDA headers, or name the toolkit", id="no-toolkit"),
        pytest.param('__global__ void k() { asm("nonsense;"); }', "nonsense", id="ptxas"),
    ],
)
def test_a_source_that_does_not_compile(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as error:
        compiled(text, tmp_path)
    assert says in str(error.value)


def toolkit(root: Path, *, cccl: bool) -> Path:
    (root / "include").mkdir(parents=True)
    (root / "include" / "cuda_fp16.h").write_text("")
    if cccl:
        (root / "include" / "cccl").mkdir()
    return root


def test_the_first_toolkit_counts(tmp_path: Path) -> None:
    first, second = toolkit(tmp_path / "first", cccl=False), toolkit(tmp_path / "second", cccl=True)
    empty = tmp_path / "empty"
    assert header_dirs({}, (empty, first, second)) == (str(first / "include"),)
    assert header_dirs({"CUDA_HOME": str(second)}, (first,)) == (
        str(second / "include"),
        str(second / "include" / "cccl"),
    )
    assert header_dirs({"CUDA_PATH": str(second), "CUDA_HOME": ""}, ())[0] == str(second / "include")
    assert header_dirs({"CUDA_HOME": str(empty)}, (first,)) == (str(first / "include"),)
    assert header_dirs({}, (empty,)) == ()


def test_packages_come_before_the_machine_and_nvrtcs_release_before_others(tmp_path: Path) -> None:
    roots = toolkit_roots(tmp_path)
    assert roots[0] == tmp_path / "nvidia" / f"cu{nvrtc_version().partition('.')[0]}"
    assert roots.index(Path("/usr/local") / f"cuda-{nvrtc_version()}") < roots.index(Path("/usr/local/cuda"))
