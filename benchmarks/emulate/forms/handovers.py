"""Threads that hand data to each other by barriers, mbarriers and groups of cp.async, in forms not seen elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.emulate.form import InstructionForm
from benchmarks.emulate.forms.copies import START
from benchmarks.emulate.forms.frame import form, kernel, words

_COPY = '    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(SMEM(s + t)), "l"(x + i) : "memory");\n'


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    yield from _barriers()
    yield from _cp_async()
    yield from _mbarriers()
    yield from _others()


def _form(name: str, family: str, text: str, attributes: str = "") -> InstructionForm:
    source = kernel("const u32* x, u32* y", text, attributes)
    return form(name, family, source, {"x": words(name, 256)}, {"y": 1024}, grid=2)


def _barriers() -> Iterator[InstructionForm]:
    """All threads, half of them, and one half that only arrives."""
    for sync in ("bar.sync 3;", "bar.sync 3, 128;", "barrier.sync 3, 128;", "barrier.sync.aligned 3;",
                 "bar.cta.sync 3;", "barrier.cta.sync 3;", "barrier.cta.sync.aligned 3, 128;"):  # fmt: skip
        text = f'  __shared__ u32 s[128];\n  s[t] = x[i];\n  asm volatile("{sync}" ::: "memory");\n  y[i] = s[127 - t];'
        yield _form(sync.rstrip(";"), "barrier", text)
    for family in ("bar", "barrier", "bar.cta", "barrier.cta"):
        text = (
            "  __shared__ u32 s[64];\n  if (t < 64) {\n    s[t] = x[i];\n"
            f'    asm volatile("{family}.arrive 2, 128;" ::: "memory");\n    y[i] = 1;\n  }} else {{\n'
            f'    asm volatile("{family}.sync 2, 128;" ::: "memory");\n    y[i] = s[127 - t];\n  }}'
        )
        yield _form(f"{family}.arrive {family}.sync", "barrier", text)
    half = (
        "  __shared__ u32 s[128];\n  s[t] = x[i];\n"
        '  asm volatile("barrier.sync %0, 64;" ::"r"(1 + t / 64) : "memory");\n  y[i] = s[t ^ 63];'
    )
    yield _form("barrier.sync of halves, numbered by a register", "barrier", half)
    warp = "  __shared__ u32 s[128];\n  s[t] = x[i];\n  __syncwarp();\n  y[i] = s[t ^ 31];"
    yield _form("bar.warp.sync", "barrier", warp)
    some = (
        "  __shared__ u32 s[128];\n  y[i] = 2;\n  if (t % 32 < 20) {\n    s[t] = x[i];\n    __syncwarp(0xfffff);\n"
        "    y[i] = s[t - t % 32 + 19 - t % 32];\n  }"
    )
    yield _form("bar.warp.sync of 20 lanes", "barrier", some)


def _cp_async() -> Iterator[InstructionForm]:
    all_of_them = (
        f'  __shared__ u32 s[128];\n{_COPY}    asm volatile("cp.async.wait_all;" ::: "memory");\n'
        "  __syncthreads();\n  y[i] = s[127 - t];"
    )
    yield _form("cp.async.wait_all", "cp.async", all_of_them)
    groups = (
        "  __shared__ u32 s[3][128];\n  for (u32 k = 0; k < 3; ++k)\n"
        '    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\\ncp.async.commit_group;" ::"r"(SMEM(&s[k][t])), '
        '"l"(x + 128 * blockIdx.x + (t + k) % 128) : "memory");\n  u32 d = 0;\n'
    )
    for k in (2, 1, 0):
        groups += (
            f'  asm volatile("cp.async.wait_group {k};" ::: "memory");\n  __syncthreads();\n'
            f"  d = 3 * d + s[{2 - k}][127 - t];\n"
        )
    yield _form("cp.async.wait_group 2, 1, 0", "cp.async", groups + "  y[i] = d;")
    for noinc, count, more in ((".noinc", 128, ""), ("", 128, "  MBAR_ARRIVE(bar);\n")):
        text = (
            "  __shared__ u32 s[128];\n  __shared__ u64 bar;\n"
            f"  if (t == 0) {{ MBAR_INIT(bar, {count}); MBAR_FENCE(); }}\n  __syncthreads();\n{_COPY}"
            f'  asm volatile("cp.async.mbarrier.arrive{noinc}.shared.b64 [%0];" ::"r"(SMEM(&bar)) : "memory");\n'
            f"{more}  MBAR_WAIT(bar, 0);\n  y[i] = s[127 - t];"
        )
        yield _form(f"cp.async.mbarrier.arrive{noinc}", "cp.async", text)


def _mbarriers() -> Iterator[InstructionForm]:
    again = (
        f"{START}  __shared__ u32 s[128];\n  s[t] = x[i];\n  if (t == 0) MBAR_ARRIVE(bar);\n  MBAR_WAIT(bar, 0);\n"
        '  __syncthreads();\n  if (t == 0) {\n    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(SMEM(&bar))'
        ' : "memory");\n    MBAR_INIT(bar, 128);\n  }\n  __syncthreads();\n  MBAR_ARRIVE(bar);\n  MBAR_WAIT(bar, 0);\n'
        "  y[i] = s[127 - t];"
    )
    yield _form("mbarrier.inval and init anew", "mbarrier", again)
    apart = (
        f"  __shared__ __align__(16) u32 s[128];\n{START}  if (t == 0) {{\n"
        '    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 512;" ::"r"(SMEM(&bar)) : "memory");\n'
        '    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" '
        '::"r"(SMEM(s)), "l"(x + 128 * blockIdx.x), "r"(SMEM(&bar)) : "memory");\n    MBAR_ARRIVE(bar);\n  }\n'
        "  MBAR_WAIT(bar, 0);\n  y[i] = s[127 - t];"
    )
    yield _form("mbarrier.expect_tx apart from the arrival", "mbarrier", apart)
    ring = (
        "  __shared__ u32 s[2][32];\n  __shared__ u64 full[2], empty[2];\n"
        "  if (t == 0) for (u32 k = 0; k < 2; ++k) { MBAR_INIT(full[k], 32); MBAR_INIT(empty[k], 32); }\n"
        "  __syncthreads();\n  u32 sum = 0;\n"
        "  for (u32 k = 0; k < 9; ++k) {\n    u32 stage = k & 1, phase = k >> 1 & 1;\n    if (t < 32) {\n"
        "      MBAR_WAIT(empty[stage], phase ^ 1);\n      s[stage][t] = x[128 * blockIdx.x + (t + 7 * k) % 128];\n"
        "      MBAR_ARRIVE(full[stage]);\n    } else if (t < 64) {\n      MBAR_WAIT(full[stage], phase);\n"
        "      sum = 5 * sum + s[stage][63 - t];\n      MBAR_ARRIVE(empty[stage]);\n    }\n  }\n  y[i] = sum;"
    )
    yield _form("ring of two stages between warps", "mbarrier", ring)


def _others() -> Iterator[InstructionForm]:
    registers = (
        '  if (t < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");\n'
        '  else asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");\n  y[i] = x[i] + t;'
    )
    source = kernel("const u32* x, u32* y", registers, "__launch_bounds__(384, 1)")
    name = "setmaxnreg"
    yield form(name, "barrier", source, {"x": words(name, 768)}, {"y": 3072}, grid=2, block=384)
    discard = (
        '  if (t % 32 == 0) asm volatile("discard.global.L2 [%0], 128;" ::"l"(y + i) : "memory");\n  __syncwarp();\n'
        "  y[i] = x[i];"
    )
    yield _form("discard.global.L2", "hint", discard)
