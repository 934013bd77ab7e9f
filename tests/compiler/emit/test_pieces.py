import re

import pytest

from compiler.arch import arch_named
from compiler.emit.pieces import piece_names, pieces
from compiler.nvrtc import CompilePool

ARCHS = ("sm_80", "sm_90a", "sm_100a")
NEEDS_TMA = {"tma", "mbarrier"}


def kernel(body: str) -> str:
    return f'extern "C" __global__ void fusion(const char* x, char* y, int n) {{\n{body}\n}}\n'


def ptx_of(pool: CompilePool, names: list[str], body: str, arch: str) -> str:
    """PTX of a kernel with that body; its registers must all have stayed registers."""
    compiled = pool.submit(pieces(names) + kernel(body), arch).result()
    assert compiled.resources.stack_bytes == 0
    assert compiled.resources.spill_store_bytes == 0
    return compiled.ptx


def asm_lines(ptx: str) -> list[str]:
    """The instructions of the inline assembly, operands blanked."""
    blocks = re.findall(r"// begin inline asm\n\s*(.*?)\s*// end inline asm", ptx, re.DOTALL)
    return [re.sub(r"%\w+", "%", block) for block in blocks]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", piece_names())
def test_every_piece_compiles_alone_where_it_exists(pool: CompilePool, name: str, arch: str) -> None:
    if name not in NEEDS_TMA or arch_named(arch).has_tma:
        ptx_of(pool, [name], "", arch)


def test_needs_come_first_and_once() -> None:
    text = pieces(["global", "tma", "global", "types"])
    assert "#include" not in text
    assert "#pragma once" not in text
    definitions = [
        "typedef unsigned int u32;",
        "u64 ft_policy_evict_first()",
        "void ft_load_global(",
        "void ft_tma_load_1d(",
    ]
    assert [text.count(definition) for definition in definitions] == [1, 1, 1, 1]
    places = [text.index(definition) for definition in definitions]
    assert places == sorted(places)


def test_an_unknown_piece_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'cuda_bf16'.*" + ", ".join(piece_names())):
        pieces(["cuda_bf16"])


def test_no_piece_needs_a_header() -> None:
    text = pieces(piece_names())
    assert not re.search(r"#\s*include", text)
    defined = re.findall(r"^FT_INLINE \w+ (\w+)\(|^FT_INLINE void (\w+)\(", text, re.MULTILINE)
    assert all((one or other).startswith("ft_") for one, other in defined)


WIDTHS = {16: ".v4.b32", 8: ".v2.b32", 4: ".b32", 2: ".b16", 1: ".b8"}
LOADS = [
    "ld.global.nc",
    "ld.global.nc.L1::no_allocate",
    "ld.global.cs.nc",
    "ld.global.nc.L1::no_allocate.L2::cache_hint",
]
STORES = ["st.global", "st.global.L1::no_allocate", "st.global.cs", "st.global.L1::no_allocate.L2::cache_hint"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("cache", range(4))
def test_global_accesses_are_the_instructions_they_are_called(pool: CompilePool, cache: int, arch: str) -> None:
    body = "".join(
        f"{{ char r[{n}];\n"
        f"  ft_load_global<{n}, {cache}>(r, x + {i * 16}); ft_store_global<{n}, {cache}>(y + {i * 16}, r); }}\n"
        for i, n in enumerate(WIDTHS)
    )
    lines = [line for line in asm_lines(ptx_of(pool, ["global"], body, arch)) if not line.startswith("createpolicy")]
    expected = [op + width for width in WIDTHS.values() for op in (LOADS[cache], STORES[cache])]
    assert [line.split(" ")[0] for line in lines] == expected
    assert all((", %;" in line) == (cache == 3) for line in lines if line.startswith("ld.global"))


def test_loads_keep_their_order_and_their_registers(pool: CompilePool) -> None:
    body = """u16 a[8], b[8]; float f[8], g[8];
      ft_load_global<16, 0>(a, x + n * 16); ft_load_global<16, 0>(b, x + n * 32);
      ft_widen_bf16<8>(f, a); ft_widen_bf16<8>(g, b);
      #pragma unroll
      for (int i = 0; i < 8; ++i) f[i] += g[i];
      ft_narrow_bf16<8>(a, f);
      ft_store_global<16, 0>(y + n * 16, a);"""
    opcodes = [line.split(" ")[0] for line in asm_lines(ptx_of(pool, ["global", "convert"], body, "sm_90a"))]
    assert opcodes == ["ld.global.nc.v4.b32"] * 2 + ["cvt.rn.bf16x2.f32"] * 4 + ["st.global.v4.b32"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["f8e4m3", "f8e5m2"])
def test_floats_of_8_bits_stay_in_registers(pool: CompilePool, dtype: str, count: int, arch: str) -> None:
    body = f"""\
      alignas(16) u8 a[{count}];
      float f[{count}];
      ft_load_global<{count}, 0>(a, x + n * {count});
      ft_widen_{dtype}<{count}>(f, a);
      #pragma unroll
      for (int i = 0; i < {count}; ++i) f[i] *= 3.0f;
      ft_narrow_{dtype}<{count}>(a, f);
      ft_store_global<{count}, 0>(y + n * {count}, a);"""
    lines = asm_lines(ptx_of(pool, ["global", "fp8"], body, arch))
    packed = sum("x2.f32" in line for line in lines)
    assert packed == (0 if arch == "sm_80" else -(-count // 2))


@pytest.mark.parametrize("arch", ARCHS)
def test_shared_accesses_are_the_instructions_they_are_called(pool: CompilePool, arch: str) -> None:
    body = "extern __shared__ char smem[]; u32 base = ft_shared_address(smem);\n" + "".join(
        f"{{ char r[{n}]; ft_load_shared<{n}>(r, base + n); ft_store_shared<{n}>(base + 4096 + n, r); }}\n"
        for n in WIDTHS
    )
    lines = asm_lines(ptx_of(pool, ["shared"], body, arch))
    expected = [f"{op}.shared{width}" for width in WIDTHS.values() for op in ("ld", "st")]
    assert [line.split(" ")[0] for line in lines] == expected


@pytest.mark.parametrize("arch", ARCHS)
def test_matrices_are_moved_as_they_are_called(pool: CompilePool, arch: str) -> None:
    """stmatrix is of Hopper and later (PTX ISA, stmatrix)."""
    has_stores = arch_named(arch).has_tma
    moves = [(name, count) for name in ("matrices", "matrices_transposed") for count in (1, 2, 4)]
    body = "extern __shared__ char smem[]; u32 base = ft_shared_address(smem) + n;\n" + "".join(
        f"{{ u32 r[{count}]; ft_load_{name}<{count}>(r, base);\n"
        + (
            f"  ft_store_{name}<{count}>(base, r); }}\n"
            if has_stores
            else f"  ft_store_shared<{4 * count}>(base, r); }}\n"
        )
        for name, count in moves
    )
    lines = asm_lines(ptx_of(pool, ["matrix", "shared"], body, arch))
    found = [line.split(" ")[0] for line in lines if "matrix" in line]
    forms = [f"matrix.sync.aligned.m8n8.x{n}{'.trans' if 'trans' in name else ''}.shared.b16" for name, n in moves]
    assert found == [op + form for form in forms for op in (("ld", "st") if has_stores else ("ld",))]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("cache", "hint"), [(0, ""), (1, ""), (2, ".L2::cache_hint"), (4, ".L2::cache_hint")])
def test_copies_past_the_registers(pool: CompilePool, cache: int, hint: str, arch: str) -> None:
    """16 bytes past L1, fewer through it (PTX ISA, cp.async); a hint is that of L2."""
    body = "extern __shared__ char smem[]; u32 base = ft_shared_address(smem);\n" + "".join(
        f"  ft_copy_async<{n}, {cache}>(base, x); ft_copy_async_if<{n}, {cache}>(n > 3, base + 64, x + 64);\n"
        for n in (4, 8, 16)
    )
    body += "ft_copy_commit(); ft_copy_wait<2>(); ft_copy_wait<0>();"
    lines = [
        x for x in asm_lines(ptx_of(pool, ["copy_async", "shared"], body, arch)) if not x.startswith("createpolicy")
    ]
    tail = ", %" if hint else ""
    copies = [
        f"cp.async.{'cg' if n == 16 else 'ca'}.shared.global{hint} [%], [%], {n}{part}{tail};"
        for n in (4, 8, 16)
        for part in ("", ", %")
    ]
    assert lines == [*copies, "cp.async.commit_group;", "cp.async.wait_group 2;", "cp.async.wait_all;"]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("rank", range(1, 6))
def test_tensor_copies_take_one_coordinate_a_dimension(pool: CompilePool, rank: int, arch: str) -> None:
    coords = ", ".join(f"n + {d}" for d in range(rank))
    body = f"""u64 policy = ft_policy_evict_first();
      ft_tma_load_{rank}d(n, x, n + 8, {coords}); ft_tma_load_{rank}d_hint(n, x, n + 8, {coords}, policy);
      ft_tma_store_{rank}d(x, n, {coords}); ft_tma_store_{rank}d_hint(x, n, {coords}, policy);"""
    lines = asm_lines(ptx_of(pool, ["tma", "policy"], body, arch))[1:]
    place = "[%, {" + ", ".join("%" * rank) + "}]"
    load = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    store = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    assert lines == [
        f"{load} [%], {place}, [%];",
        f"{load}.L2::cache_hint [%], {place}, [%], %;",
        f"{store} {place}, [%];",
        f"{store}.L2::cache_hint {place}, [%], %;",
    ]


def test_a_bulk_ring_is_made_of_the_instructions_it_names(pool: CompilePool) -> None:
    body = """extern __shared__ char smem[]; u32 tile = ft_shared_address(smem), bar = tile + 4096;
      ft_mbarrier_init(bar, 1); ft_fence_mbarrier_init(); __syncthreads();
      ft_prefetch_tensor_map(x);
      ft_mbarrier_expect_tx(bar, 4096); ft_bulk_load(tile, x, 4096, bar); ft_bulk_load_hint(tile, x, 4096, bar, 0);
      ft_mbarrier_arrive(bar);
      ft_mbarrier_wait(bar, 0);
      ft_fence_async_shared(); __syncthreads();
      ft_bulk_store(y, tile, 4096); ft_bulk_store_hint(y, tile, 4096, 0); ft_bulk_commit();
      ft_bulk_wait_read<1>(); ft_bulk_wait<0>(); ft_mbarrier_inval(bar);"""
    lines = asm_lines(ptx_of(pool, ["tma", "mbarrier", "shared"], body, "sm_90a"))
    wait = next(line for line in lines if "try_wait" in line)
    assert "mbarrier.try_wait.parity.shared::cta.b64 complete, [%], %;" in wait
    assert [line.split(" ")[0].rstrip(";") for line in lines if line != wait] == [
        "mbarrier.init.shared::cta.b64",
        "fence.mbarrier_init.release.cluster",
        "prefetch.tensormap",
        "mbarrier.arrive.expect_tx.shared::cta.b64",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint",
        "mbarrier.arrive.shared::cta.b64",
        "fence.proxy.async.shared::cta",
        "cp.async.bulk.global.shared::cta.bulk_group",
        "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint",
        "cp.async.bulk.commit_group",
        "cp.async.bulk.wait_group.read",
        "cp.async.bulk.wait_group",
        "mbarrier.inval.shared::cta.b64",
    ]


@pytest.mark.parametrize(
    ("function", "instructions"),
    [
        ("ft_widen_bf16<2>(f, b)", []),
        ("ft_widen_f16<2>(f, b)", ["cvt.f32.f16"] * 2),
        ("ft_narrow_bf16<2>(b, f)", ["cvt.rn.bf16x2.f32"]),
        ("ft_narrow_f16<2>(b, f)", ["cvt.rn.f16x2.f32"]),
        ("ft_narrow_bf16<1>(b, f)", ["cvt.rn.bf16.f32"]),
        ("ft_narrow_f16<1>(b, f)", ["cvt.rn.f16.f32"]),
    ],
)
def test_conversions(pool: CompilePool, function: str, instructions: list[str]) -> None:
    body = f"""u16 b[2]; float f[2]; memcpy(b, x + 4 * n, 4); memcpy(f, x + 8 * n, 8);
      {function}; memcpy(y, b, 4); memcpy(y + 8, f, 8);"""
    lines = asm_lines(ptx_of(pool, ["convert"], body, "sm_80"))
    assert [line.split(" ")[0] for line in lines] == instructions


def test_the_first_of_a_pair_is_the_lower_half(pool: CompilePool) -> None:
    body = "u32 p = ft_pack_bf16x2(__int_as_float(n), 1.0f); memcpy(y, &p, 4);"
    ptx = ptx_of(pool, ["convert"], body, "sm_90a")
    one = next(line for line in ptx.splitlines() if "0f3F800000" in line).split()[1].rstrip(",")
    assert re.search(rf"cvt\.rn\.bf16x2\.f32 %r\d+, {one}, %f\d+;", ptx)
