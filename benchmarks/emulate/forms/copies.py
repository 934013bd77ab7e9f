"""cp.async, bulk copies, mbarrier results, clusters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.emulate.form import FormTolerance, InstructionForm
from benchmarks.emulate.forms.frame import Array, form, kernel, numbers, words

START = """  __shared__ u64 bar;
  if (t == 0) { MBAR_INIT(bar, 1); MBAR_FENCE(); }
  __syncthreads();
"""


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    yield from _cp_async()
    yield from _bulk()
    yield from _bulk_reductions()
    yield from _mbarriers()
    yield from _clusters()


def _cp_async() -> Iterator[InstructionForm]:
    table = [("ca", size, hint) for size in (4, 8, 16) for hint in ("", ".L2::128B")]
    table += [("cg", 16, hint) for hint in ("", ".L2::64B", ".L2::256B")]
    for cache, size, hint in table:
        for source_size in (None, 0, 1, 3, size // 2, size):
            third = "" if source_size is None else f", {source_size}"
            name = f"cp.async.{cache}.shared.global{hint} {size}{third}"
            text = (
                f"  __shared__ __align__(16) unsigned char s[128 * {size}];\n"
                f'  asm volatile("cp.async.{cache}.shared.global{hint} [%0], [%1], '
                f'{size}{third};\\ncp.async.commit_group;\\ncp.async.wait_group 0;" ::"r"(SMEM(s + {size} * t)), '
                f'"l"(x + {size} * i) : "memory");\n'
                f"  __syncthreads();\n  for (u32 k = 0; k < {size}; ++k) y[{size} * i + k] = s[{size} * (127 - t) + k];"
            )
            source = kernel("const unsigned char* x, unsigned char* y", text)
            yield form(name, "cp.async", source, {"x": words(name, 256 * size, "uint8")}, {"y": 256 * size}, grid=2)


def _bulk() -> Iterator[InstructionForm]:
    for target in ("shared::cluster", "shared::cta"):
        for hint in ("", ".L2::cache_hint"):
            for size in (16, 48, 2048):
                name = f"cp.async.bulk.{target}.global{hint} {size}"
                policy = (
                    '  u64 policy;\n  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : '
                    '"=l"(policy));\n'
                )
                text = f"  __shared__ __align__(16) u32 s[512];\n{START}{policy if hint else ''}  if (t == 0) {{\n"
                last, extra = (", %4", ', "l"(policy)') if hint else ("", "")
                text += (
                    f"    MBAR_EXPECT(bar, {size});\n"
                    f'    asm volatile("cp.async.bulk.{target}.global.mbarrier::complete_tx::bytes{hint} [%0], [%1], '
                    f'%2, [%3]{last};" ::"r"(SMEM(s)), "l"(x), "r"({size}), "r"(SMEM(&bar)){extra} : "memory");\n'
                    "  }\n  MBAR_WAIT(bar, 0);\n"
                    f"  for (u32 k = t; k < {size // 4}; k += 128) y[k] = s[k];"
                )
                yield form(name, "bulk", kernel("const u32* x, u32* y", text), {"x": words(name, 512)}, {"y": size})
    for hint in ("", ".L2::cache_hint"):
        name = f"cp.async.bulk.global.shared::cta{hint}"
        policy = (
            '  u64 policy;\n  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));\n'
        )
        last, extra = (", %3", ', "l"(policy)') if hint else ("", "")
        text = (
            "  __shared__ __align__(16) u32 s[128];\n  s[t] = x[i] + 1;\n  FENCE_ASYNC();\n  __syncthreads();\n"
            f"{policy if hint else ''}  if (t == 0) {{\n"
            f'    asm volatile("cp.async.bulk.global.shared::cta.bulk_group{hint} [%0], [%1], %2{last};" ::"l"(y + '
            f'128 * blockIdx.x), "r"(SMEM(s)), "r"(512){extra} : "memory");\n'
            "    BULK_COMMIT();\n    BULK_WAIT(0);\n  }"
        )
        yield form(name, "bulk", kernel("const u32* x, u32* y", text), {"x": words(name, 256)}, {"y": 1024}, grid=2)
    text = (
        '  if (t == 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], 512;" ::"l"(x) : "memory");\n  y[i] = x[i];'
    )
    name = "cp.async.bulk.prefetch.L2.global"
    yield form(name, "bulk", kernel("const u32* x, u32* y", text), {"x": words(name, 128)}, {"y": 512})


_REDUCTIONS = (
    *((f"add.{k}", k) for k in ("u32", "s32", "u64", "f32", "f64")),
    ("add.noftz.f16", "f16"),
    ("add.noftz.bf16", "bf16"),
    *((f"{op}.{k}", k) for op in ("min", "max") for k in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    *((f"{op}.{k}", k) for op in ("and", "or", "xor") for k in ("b32", "b64")),
    ("inc.u32", "u32"),
    ("dec.u32", "u32"),
)


def _elements(name: str, kind: str, count: int) -> Array:
    if kind in ("f16", "f32", "f64"):
        return numbers(name, count, f"float{kind[1:]}")
    if kind == "bf16":
        return (numbers(name, count).view(np.uint32) >> 16).astype(np.uint16)
    return words(name, count, f"uint{kind[1:]}")


def _bulk_reductions() -> Iterator[InstructionForm]:
    for suffix, kind in _REDUCTIONS:
        name = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{suffix}"
        text = (
            "  __shared__ __align__(16) u32 s[128];\n  s[t] = x[t];\n  FENCE_ASYNC();\n  __syncthreads();\n  if (t "
            "== 0) {\n"
            f'    asm volatile("{name} [%0], [%1], %2;" ::"l"(y), "r"(SMEM(s)), "r"(512) : "memory");\n'
            "    BULK_COMMIT();\n    BULK_WAIT(0);\n  }"
        )
        count = 512 // np.dtype(_elements(name, kind, 1).dtype).itemsize
        values = {"x": _elements(name, kind, count), "y": _elements(name + " there", kind, count)}
        tolerance = FormTolerance(kind) if kind in ("f16", "bf16", "f32", "f64") else FormTolerance()
        yield form(
            name, "bulk reduce", kernel("const u32* x, u32* y", text), values, {}, changed=("y",), tolerance=tolerance
        )


def _mbarriers() -> Iterator[InstructionForm]:
    """What mbarrier instructions return, in a kernel of one warp so that the order is fixed."""
    steps = (
        ("test_wait.parity", "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;"),
        ("try_wait.parity", "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"),
        ("try_wait.parity.acquire.cta", "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;"),
        ("try_wait.parity with time", "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 100;"),
    )
    for name, instruction in steps:
        asked = (
            f'asm volatile("{{\\n.reg .pred p;\\n{instruction}\\nselp.u32 %0, 1, 0, p;\\n}}"'
            ' : "=r"(d) : "r"(SMEM(&bar)), "r"(k / 3 & 1) : "memory");'
        )
        text = (
            "  __shared__ u64 bar;\n  if (t == 0) {\n    MBAR_INIT(bar, 3);\n    for (u32 k = 0; k < 9; ++k) {\n     "
            " u32 d;\n"
            f"      {asked}\n      y[2 * k] = d;\n      MBAR_ARRIVE(bar);\n      {asked}\n      y[2 * k + 1] = d;\n  "
            f"  }}\n  }}"
        )
        yield form(f"mbarrier.{name}", "mbarrier", kernel("u32* y", text), {}, {"y": 72}, block=32)
    text = (
        "  __shared__ u64 bar;\n  if (t == 0) {\n    MBAR_INIT(bar, 4);\n    u64 state;\n    u32 d;\n"
        "    for (u32 k = 0; k < 6; ++k) {\n"
        '      asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], 2;" : "=l"(state) : "r"(SMEM(&bar)) : '
        '"memory");\n'
        '      asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(d) : "l"(state));\n      y[2 * k] = d;\n'
        '      asm volatile("{\\n.reg .pred p;\\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\\nselp.u32 %0, 1, '
        '0, p;\\n}" : "=r"(d) : "r"(SMEM(&bar)), "l"(state) : "memory");\n'
        "      y[2 * k + 1] = d;\n    }\n  }"
    )
    yield form("mbarrier.arrive pending_count test_wait", "mbarrier", kernel("u32* y", text), {}, {"y": 48}, block=32)
    text = (
        "  __shared__ u64 bar;\n  if (t == 0) {\n    MBAR_INIT(bar, 2);\n    u32 d;\n"
        '    asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" ::"r"(SMEM(&bar)) : "memory");\n    '
        "MBAR_ARRIVE(bar);\n"
        "    for (u32 k = 0; k < 4; ++k) {\n"
        '      asm volatile("{\\n.reg .pred p;\\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\\n'
        'selp.u32 %0, 1, 0, p;\\n}" : "=r"(d) : "r"(SMEM(&bar)), "r"(k & 1) : "memory");\n'
        "      y[k] = d;\n      MBAR_ARRIVE(bar);\n    }\n  }"
    )
    yield form("mbarrier.arrive_drop", "mbarrier", kernel("u32* y", text), {}, {"y": 16}, block=32)


_RANK = '  u32 rank, remote, remote_bar;\n  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));\n'


def _mapped(of: str, into: str) -> str:
    return f'  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"({into}) : "r"(SMEM({of})), "r"(rank ^ 1));\n'


def _cluster(name: str, text: str, nbytes: int = 1024) -> InstructionForm:
    source = kernel("const u32* x, u32* y", text)
    return form(name, "cluster", source, {"x": words(name, 256)}, {"y": nbytes}, grid=4, block=64, cluster=2)


def _clusters() -> Iterator[InstructionForm]:
    read = (
        '  u32 d;\n  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(d) : "r"(remote) : "memory");\n  y[i] = '
        "d;\n  CLUSTER_SYNC();"
    )
    start = f"  __shared__ u32 s[64];\n{_RANK}  s[t] = x[i];\n  CLUSTER_SYNC();\n"
    yield _cluster("ld.shared::cluster", start + _mapped("s + 63 - t", "remote") + read)
    write = (
        '  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote), "r"(x[i]) : "memory");\n  '
        "CLUSTER_SYNC();\n  y[i] = s[t];"
    )
    yield _cluster(
        "st.shared::cluster", start.replace("s[t] = x[i]", "s[t] = 0") + _mapped("s + 63 - t", "remote") + write
    )
    add = (
        '  asm volatile("red.shared::cluster.add.u32 [%0], %1;" ::"r"(remote), "r"(x[i]) : "memory");\n  '
        "CLUSTER_SYNC();\n  y[i] = s[t];"
    )
    yield _cluster("red.shared::cluster.add.u32", start + _mapped("s + t % 8", "remote") + add)
    ranks = (
        f"  __shared__ u32 s[64];\n{_RANK}{_mapped('s + t', 'remote')}  u32 d;\n"
        '  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(d) : "r"(remote));\n  s[t] = d;\n  y[i] = d '
        "+ 16 * s[t];"
    )
    yield _cluster("getctarank.shared::cluster", ranks)
    init = "  __shared__ u64 bar;\n  if (t == 0) { MBAR_INIT(bar, COUNT); MBAR_FENCE(); EXPECT }\n  CLUSTER_SYNC();\n"
    wait = "  MBAR_WAIT_CLUSTER(bar, 0);\n  y[i] = s[t];\n  CLUSTER_SYNC();"
    arrive = (
        '  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote), "r"(x[i]) : "memory");\n  asm '
        'volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote_bar) : "memory");\n'
    )
    both = _mapped("s + 63 - t", "remote") + _mapped("&bar", "remote_bar")
    head = f"  __shared__ __align__(16) u32 s[64];\n{_RANK}"
    yield _cluster(
        "mbarrier.arrive.release.cluster.shared::cluster",
        head + init.replace("COUNT", "64").replace("EXPECT", "") + both + arrive + wait,
    )
    expecting = init.replace("COUNT", "1").replace("EXPECT", "MBAR_EXPECT(bar, 256);")
    for vector, count in (("", 1), (".v2", 2), (".v4", 4)):
        regs = "%1" if count == 1 else "{" + ", ".join(f"%{k + 1}" for k in range(count)) + "}"
        ins = ", ".join(f'"r"(x[64 * blockIdx.x + {count} * t + {k}])' for k in range(count))
        st_async = (
            f"  if (t < {64 // count}) {{\n  {_mapped(f's + {count} * t', 'remote')}"
            f'    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vector}.b32 [%0], {regs}, '
            f'[%{count + 1}];" ::"r"(remote), {ins}, "r"(remote_bar) : "memory");\n  }}\n'
        )
        yield _cluster(f"st.async{vector}.b32", head + expecting + _mapped("&bar", "remote_bar") + st_async + wait)
    red_async = (
        '  asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, '
        '[%2];" ::"r"(remote), "r"(x[i]), "r"(remote_bar) : "memory");\n'
    )
    zeroed = head + "  s[t] = t;\n" + expecting
    yield _cluster(
        "red.async.add.u32", zeroed + _mapped("s + t % 4", "remote") + _mapped("&bar", "remote_bar") + red_async + wait
    )
    dsmem = (
        "  __shared__ __align__(16) u32 from[64];\n  from[t] = x[i];\n  "
        f"FENCE_ASYNC();\n{expecting}{_mapped('s', 'remote')}{_mapped('&bar', 'remote_bar')}"
        '  if (t == 0) asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], '
        '[%1], 256, [%2];" ::"r"(remote), "r"(SMEM(from)), "r"(remote_bar) : "memory");\n'
    )
    yield _cluster("cp.async.bulk.shared::cluster.shared::cta", head + dsmem + wait)
    multicast = (
        "  if (t == 0 && rank == 1) asm "
        'volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], '
        '256, [%2], %3;" ::"r"(SMEM(s)), "l"(x), "r"(SMEM(&bar)), "h"((u16)3) : "memory");\n'
    )
    yield _cluster("cp.async.bulk multicast", head + expecting + multicast + wait)
