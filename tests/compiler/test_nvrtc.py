import dataclasses
import errno
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from compiler import nvrtc
from compiler.arch import arch_named
from compiler.child import Child, ChildDied
from compiler.cubin import code_hash, sections_of
from compiler.errors import CompileError, CompileTimeout
from compiler.nvrtc import Compiled, CompilePool, KernelResources, parse_resources, serialized_products, trimmed
from compiler.pipeline import generate
from tests.compiler.products import Groups, by_warp_groups, product

SCALE = """\
extern "C" __global__ void __launch_bounds__(128) fusion(const float* __restrict__ x, float* __restrict__ y) {
  __shared__ float tile[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  tile[threadIdx.x] = x[i] * FACTOR;
  __syncthreads();
  y[i] = tile[127 - threadIdx.x];
}
"""
TWICE = SCALE.replace("FACTOR", "2.0f")

CRASH = """\
extern "C" __global__ void fusion(const void* x, unsigned short* y) {
  unsigned short a, b, c, d, e, f, g, h;
  asm volatile("ld.global.v8.b16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
               : "=h"(a), "=h"(b), "=h"(c), "=h"(d), "=h"(e), "=h"(f), "=h"(g), "=h"(h) : "l"(x));
  y[0] = a + b + c + d + e + f + g + h;
}
"""

ENDLESS = "\n".join(
    (
        'extern "C" __global__ void fusion(float* x) {',
        "  float s = x[0];",
        *(f"  s = s * x[{i * 7919 % 65536}] + x[{i}];" for i in range(20000)),
        "  x[0] = s;\n}",
    )
)

ONE_GIB_OF_DATA = """\
__device__ int table[1 << 28] = {1};
extern "C" __global__ void fusion(int* y) { y[0] = table[y[1]]; }
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilePool]:
    with CompilePool(workers=1) as pool:
        yield pool


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120a"])
def test_a_kernel_becomes_cubin_and_ptx(pool: CompilePool, arch: str) -> None:
    compiled = pool.submit(TWICE, arch).result()
    assert compiled.entry == "fusion"
    assert compiled.arch == arch
    assert f".target {arch}" in compiled.ptx
    assert any(section.name == ".text.fusion" for section in sections_of(compiled.cubin))
    assert compiled.resources.static_smem_bytes == 512
    assert compiled.resources.barriers == 1
    assert 4 <= compiled.resources.registers <= 64
    assert compiled.resources.spill_store_bytes == compiled.resources.stack_bytes == 0
    assert compiled.nvrtc_version.count(".") == 1
    assert not compiled.from_cache


def test_a_bad_source_is_refused_with_its_line(pool: CompilePool) -> None:
    with pytest.raises(
        CompileError, match=r"(?s)NVRTC refused the source for sm_90a.*kernel\.cu\(4\): error"
    ) as caught:
        pool.submit(TWICE.replace("x[i]", "nowhere[i]"), "sm_90a").result()
    assert "nowhere" in caught.value.log
    assert not isinstance(caught.value, CompileTimeout)


def test_an_unknown_option_is_refused(pool: CompilePool) -> None:
    with pytest.raises(CompileError, match="NVRTC_ERROR_INVALID_OPTION"):
        pool.submit(TWICE, "sm_90a", ("--no-such-option",)).result()


def test_extra_options_reach_the_compiler(pool: CompilePool) -> None:
    assert (
        pool.submit("#ifndef FACTOR\n#error\n#endif\n" + SCALE, "sm_90a", ("-DFACTOR=2.0f",)).result().entry == "fusion"
    )


def test_a_source_has_a_kernel(pool: CompilePool) -> None:
    with pytest.raises(CompileError, match=r"kernels: none; expected at least one"):
        pool.submit("__device__ int x;", "sm_90a").result()


def test_kernels_of_several_launches_are_one_compile(pool: CompilePool) -> None:
    """Entries by number, and the most that any kernel uses of each resource."""
    source = "".join(TWICE.replace("fusion(", f"fusion_{n}(") for n in (10, 9))
    both, one = (pool.submit(text, "sm_90a").result() for text in (source, TWICE))
    assert (both.entries, both.entry) == (("fusion_9", "fusion_10"), "fusion_9")
    assert (one.entries, one.entry) == ((), "fusion")
    assert both.resources == one.resources
    assert both.code_hash != one.code_hash


def test_a_crash_costs_one_candidate(pool: CompilePool) -> None:
    with pytest.raises(CompileError, match="compiler process died") as caught:
        pool.submit(CRASH, "sm_90a").result()
    assert not isinstance(caught.value, CompileTimeout)
    assert pool.submit(TWICE, "sm_90a").result().entry == "fusion"


@pytest.mark.parametrize(
    ("ends", "requests", "compiles"),
    [
        pytest.param([-signal.SIGKILL], 2, True, id="killed-once"),
        pytest.param([-signal.SIGTERM], 2, True, id="told-to-stop"),
        pytest.param([-signal.SIGKILL] * 2, 2, False, id="killed-again"),
        pytest.param([-signal.SIGSEGV], 1, False, id="broke-by-itself"),
        pytest.param([3], 1, False, id="ended-by-itself"),
    ],
)
def test_a_source_whose_compiler_somebody_killed_gets_another_chance(
    monkeypatch: pytest.MonkeyPatch, ends: list[int], requests: int, compiles: bool
) -> None:
    made = []

    def request(child: Child, payload: object, timeout_s: float) -> object:
        made.append(payload)
        if len(made) <= len(ends):
            raise ChildDied(child.name, ends[len(made) - 1])
        return "compiled"

    monkeypatch.setattr(Child, "request", request)
    with CompilePool(workers=1) as pool:
        future = pool.submit(TWICE, "sm_90a")
        if compiles:
            assert str(future.result()) == "compiled"
        else:
            with pytest.raises(CompileError, match="compiler process died"):
                future.result()
    assert len(made) == requests


def test_a_slow_compile_is_killed_at_its_time_limit() -> None:
    with CompilePool(workers=1, time_limit_s=1.0) as pool:
        with pytest.raises(CompileTimeout, match="more than 1 s"):
            pool.submit(ENDLESS, "sm_90a").result()
        assert pool.submit(TWICE, "sm_90a").result().entry == "fusion"


def test_a_compile_that_eats_memory_costs_one_candidate() -> None:
    with CompilePool(workers=1, memory_limit_bytes=1024**3) as pool:
        with pytest.raises(CompileError, match="more than 1024 MiB"):
            pool.submit(ONE_GIB_OF_DATA, "sm_90a").result()
        assert pool.submit(TWICE, "sm_90a").result().entry == "fusion"


def test_closing_drops_what_is_queued() -> None:
    pool = CompilePool(workers=1)
    futures = [pool.submit(TWICE, "sm_90a") for _ in range(50)]
    futures[0].result()
    pool.close()
    assert all(future.done() for future in futures)
    assert futures[-1].cancelled()


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param("// a comment\n\n" + TWICE.replace("float* y", "float*   y"), True, id="comments-and-blanks"),
        pytest.param(TWICE.replace("tile", "buffer"), True, id="a-renamed-variable"),
        pytest.param(TWICE.replace("fusion", "another"), True, id="a-renamed-kernel"),
        pytest.param(SCALE.replace("FACTOR", "3.0f"), False, id="another-immediate"),
        pytest.param(TWICE.replace("127 -", "126 ^"), False, id="other-arithmetic"),
        pytest.param(
            TWICE.replace("__launch_bounds__(128)", "__launch_bounds__(256)"), False, id="other-launch-bounds"
        ),
        pytest.param(TWICE.replace("tile[128]", "tile[129]"), False, id="more-shared-memory"),
    ],
)
def test_equal_machine_code_has_an_equal_hash(pool: CompilePool, other: str, same: bool) -> None:
    assert (pool.submit(TWICE, "sm_90a").result().code_hash == pool.submit(other, "sm_90a").result().code_hash) == same


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_constant_tables_count(pool: CompilePool, arch: str) -> None:
    def hash_of(table: str) -> str:
        source = f"""__constant__ float table[4] = {{{table}}};
        extern "C" __global__ void fusion(float* y) {{ y[threadIdx.x] = table[threadIdx.x & 3]; }}"""
        return pool.submit(source, arch).result().code_hash

    assert hash_of("1, 2, 3, 4") == hash_of("1.0f, 2.0f,3, 4") != hash_of("1, 2, 3, 5")


def test_line_info_does_not_change_the_hash(pool: CompilePool) -> None:
    plain, lined = (pool.submit(TWICE, "sm_90a", extra).result() for extra in ((), ("-lineinfo",)))
    assert len(lined.cubin) > len(plain.cubin)
    assert lined.code_hash == plain.code_hash


@pytest.mark.parametrize("damage", [b"", b"\x7fELF\x02\x01", b"MZ" * 100])
def test_what_is_no_cubin_is_refused(damage: bytes) -> None:
    with pytest.raises(CompileError, match="cubin"):
        code_hash(damage)


FRAME = "ptxas         .     {} bytes stack frame, {} bytes spill stores, {} bytes spill loads\n"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param(
            "ptxas info    : Compiling entry function 'k' for 'sm_90a'\nptxas info    : Function properties for k\n"
            + FRAME.format(0, 0, 0)
            + "ptxas info    : Used 12 registers, used 0 barriers\n",
            {"k": KernelResources(12, 0, 0, 0, 0, 0)},
            id="plain",
        ),
        pytest.param(
            "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
            + FRAME.format(176, 24, 40)
            + "ptxas info    : Used 255 registers, used 2 barriers, 176 bytes cumulative stack size, 4096 bytes smem, "
            "400 bytes cmem[0]\n",
            {"k": KernelResources(255, 24, 40, 176, 4096, 2)},
            id="spills-and-shared",
        ),
        pytest.param(
            "ptxas info    : Compiling entry function 'a' for 'sm_80'\n"
            + FRAME.format(8, 0, 0)
            + "ptxas info    : Function properties for helper\n"
            + FRAME.format(64, 1, 2)
            + "ptxas info    : Used 20 registers, 360 bytes cmem[0]\n"
            "ptxas info    : Compiling entry function 'b' for 'sm_80'\n"
            + FRAME.format(0, 0, 0)
            + "ptxas info    : Used 9 registers, used 1 barriers, 16 bytes smem\n",
            {"a": KernelResources(20, 0, 0, 8, 0, 0), "b": KernelResources(9, 0, 0, 0, 16, 1)},
            id="two-kernels-and-a-helper",
        ),
    ],
)
def test_resources_are_read_from_the_log(log: str, expected: dict[str, KernelResources]) -> None:
    assert parse_resources(log) == expected


def test_spills_are_reported(pool: CompilePool) -> None:
    source = """extern "C" __global__ void fusion(float* x) {
      float v[64];
      for (int i = 0; i < 64; ++i) v[i] = x[i * 32 + threadIdx.x];
      __syncthreads();
      for (int i = 0; i < 64; ++i) x[i * 32 + threadIdx.x] = v[63 - i] * v[i];
    }"""
    resources = pool.submit(source, "sm_90a", ("--maxrregcount=32",)).result().resources
    assert resources.registers <= 32
    assert resources.spill_store_bytes > 0
    assert resources.spill_load_bytes > 0


@pytest.mark.parametrize(("chars", "expected"), [(4000, 4000), (4001, 4020)])
def test_long_logs_keep_their_start(chars: int, expected: int) -> None:
    assert len(trimmed("e" * chars)) == expected


class TestCache:
    def test_the_second_compile_is_read_from_disk(self, tmp_path: Path) -> None:
        with CompilePool(workers=1, cache_directory=tmp_path) as pool:
            first = pool.submit(TWICE, "sm_90a").result()
            second = pool.submit(TWICE, "sm_90a").result()
            other = pool.submit(TWICE, "sm_90a", ("--maxrregcount=64",)).result()
        assert not first.from_cache
        assert second == dataclasses.replace(first, from_cache=True)
        assert not other.from_cache

    def test_a_damaged_entry_is_compiled_again(self, tmp_path: Path) -> None:
        with CompilePool(workers=1, cache_directory=tmp_path) as pool:
            pool.submit(TWICE, "sm_90a").result()
            (entry,) = tmp_path.iterdir()
            entry.write_text(entry.read_text()[:-100])
            assert not pool.submit(TWICE, "sm_90a").result().from_cache
            assert pool.submit(TWICE, "sm_90a").result().from_cache

    def test_a_full_disk_does_not_cost_the_kernel(
        self, pool: CompilePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        compiled = pool.submit(TWICE, "sm_90a").result()
        monkeypatch.setattr(nvrtc, "compile_now", lambda *_: compiled)
        monkeypatch.setattr(json, "dump", full)
        assert nvrtc.compile_handler(str(tmp_path))((TWICE, "sm_90a", ())) == compiled
        assert list(tmp_path.iterdir()) == []


def test_requests_from_many_threads_get_their_own_answers() -> None:
    factors = [f"{n}.5f" for n in range(6)]

    def compile_one(pool: CompilePool, factor: str) -> Compiled:
        return pool.submit(SCALE.replace("FACTOR", factor), "sm_90a").result()

    with CompilePool(workers=2) as pool, ThreadPoolExecutor(6) as threads:
        hashes = {compiled.code_hash for compiled in threads.map(partial(compile_one, pool), factors)}
    assert len(hashes) == len(factors)


@pytest.mark.parametrize(("code", "is_told"), [(7509, False), (7510, True), (7518, True), (7520, True), (7521, False)])
def test_messages_of_products_that_wait_for_one_another(code: int, is_told: bool) -> None:
    line = f"ptxas info    : (C{code}) Potential Performance Loss: wgmma.mma_async instructions are serialized"
    log = f"ptxas info    : 0 bytes gmem\n{line} due to …\n{line} due to …\n"
    assert serialized_products(log) == ((f"{line} due to …",) if is_told else ())


def test_ptxas_tells_of_products_that_wait_for_one_another(pool: CompilePool) -> None:
    """A register of a result is written while the instructions are under way."""
    made = generate(by_warp_groups(product(128, 64, 256), Groups(columns=64, in_flight=1)), arch_named("sm_90a"))
    assert serialized_products(pool.submit(made.source, "sm_90a").result().log) == ()
    planted = made.source.replace("ft_mma_commit();", "ft_mma_commit(); v1_matmul[3] += 1.0f;").replace(
        "ft_mma_hold<32>(&v1_matmul[0]);", ""
    )
    assert serialized_products(pool.submit(planted, "sm_90a").result().log)
