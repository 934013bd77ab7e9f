"""Instructions of a warp, and barriers that give a result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.emulate.form import InstructionForm
from benchmarks.emulate.forms.frame import form, kernel, words

_FULL = "0xffffffff"


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    for mode in ("up", "down", "bfly", "idx"):
        for clamp in ("0", "31", "0x0800", "0x181f", "0x1c07", "0x1e1f"):
            body = (
                "{\\n.reg .pred p;\\n"
                f"shfl.sync.{mode}.b32 %0|p, %2, %3, {clamp}, {_FULL};\\nselp.u32 %1, 1, 0, p;\\n}}"
            )
            yield _two_results(f"shfl.sync.{mode}.b32 c={clamp}", body)
    for mode in ("all", "any", "uni"):
        body = (
            f"{{\\n.reg .pred p, q;\\nsetp.lt.u32 p, %2, %3;\\nvote.sync.{mode}.pred q, p, {_FULL};\\nselp.u32 %0, "
            f"1, 0, q;\\nmov.u32 %1, 0;\\n}}"
        )
        yield _two_results(f"vote.sync.{mode}.pred", body)
    body = (
        f"{{\\n.reg .pred p;\\nsetp.lt.u32 p, %2, %3;\\nvote.sync.ballot.b32 %0, p, {_FULL};\\nactivemask.b32 %1;\\n}}"
    )
    yield _two_results("vote.sync.ballot.b32", body)
    for op, kinds in (("add", ("u32", "s32")), ("min", ("u32", "s32")), ("max", ("u32", "s32"))):
        for kind in kinds:
            yield _two_results(f"redux.sync.{op}.{kind}", f"redux.sync.{op}.{kind} %0, %2, {_FULL};\\nmov.u32 %1, %3;")
    for op in ("and", "or", "xor"):
        yield _two_results(f"redux.sync.{op}.b32", f"redux.sync.{op}.b32 %0, %2, {_FULL};\\nmov.u32 %1, %3;")
    body = f"match.any.sync.b32 %0, %3, {_FULL};\\nmov.u32 %1, 0;"
    yield _two_results("match.any.sync.b32", body)
    body = f"{{\\n.reg .pred p;\\nmatch.all.sync.b32 %0|p, %3, {_FULL};\\nselp.u32 %1, 1, 0, p;\\n}}"
    yield _two_results("match.all.sync.b32", body)
    body = f"{{\\n.reg .b64 w;\\nmov.b64 w, {{%3, %3}};\\nmatch.any.sync.b64 %0, w, {_FULL};\\nmov.u32 %1, 0;\\n}}"
    yield _two_results("match.any.sync.b64", body)
    body = f"{{\\n.reg .pred p;\\nelect.sync %0|p, {_FULL};\\nselp.u32 %1, 1, 0, p;\\n}}"
    yield _two_results("elect.sync", body)
    some = _asm("{\\n.reg .pred p;\\nelect.sync %0|p, 0xf0f0;\\nselp.u32 %1, 1, 0, p;\\n}")
    yield _two_results("elect.sync of some lanes", "", f"  if (t / 4 % 2 == 1 && t % 32 < 16) {{ {some} }}")
    yield from _masked()
    yield from _barriers()
    yield from _registers()


def _asm(body: str) -> str:
    return f'asm volatile("{body}" : "=r"(d), "=r"(e) : "r"(v), "r"(w));'


def _two_results(name: str, body: str, statement: str = "") -> InstructionForm:
    """The operands are any bits, and small numbers that often agree."""
    text = "  u32 v = x[i], w = z[i] & 31, d = 0, e = 0;\n" + (statement or "  " + _asm(body))
    text += "\n  y[2 * i] = d; y[2 * i + 1] = e;"
    source = kernel("const u32* x, const u32* z, u32* y", text)
    small = words(name + " z", 512) % 4 if "match" in name else words(name + " z", 512) % 32
    return form(name, "warp", source, {"x": words(name, 512), "z": small}, {"y": 4096}, grid=4)


def _masked() -> Iterator[InstructionForm]:
    """Some lanes only, by mask and branch."""
    for name, text in (
        ("shfl.sync.bfly of 12 lanes", "if (lane >= 20) d = __shfl_xor_sync(0xfff00000u, v, 3);"),
        ("vote of even lanes", "if (lane % 2 == 0) d = __ballot_sync(0x55555555u, v & 4);"),
        ("redux of a third", "if (lane % 3 == 0) d = __reduce_add_sync(0x49249249u, v);"),
        ("match of lower half", "if (lane < 16) d = __match_any_sync(0xffffu, v & 3);"),
    ):
        body = f"  u32 v = x[i], lane = t % 32, d = 7;\n  {text}\n  y[i] = d;"
        yield form(name, "warp", kernel("const u32* x, u32* y", body), {"x": words(name, 256)}, {"y": 1024}, grid=2)


def _barriers() -> Iterator[InstructionForm]:
    for spelling in ("barrier.cta.red", "bar.red", "barrier.red"):
        for op in ("popc", "and", "or"):
            suffix = "popc.u32 %0, 2, 96, p;" if op == "popc" else f"{op}.pred q, 2, 96, p;"
            aligned = "" if spelling == "bar.red" else ".aligned"
            take = "" if op == "popc" else "selp.u32 %0, 1, 0, q;\\n"
            body = f"{{\\n.reg .pred p, q;\\nsetp.gt.s32 p, %1, 0;\\n{spelling}{aligned}.{suffix}\\n{take}}}"
            text = f'  u32 d = 9;\n  if (t < 96) asm volatile("{body}" : "=r"(d) : "r"(x[i]) : "memory");\n  y[i] = d;'
            name = f"{spelling}.{op}"
            yield form(
                name, "barrier", kernel("const u32* x, u32* y", text), {"x": words(name, 512)}, {"y": 2048}, grid=4
            )


def _registers() -> Iterator[InstructionForm]:
    """Special registers whose values the launch alone decides."""
    for name in ("tid.x", "ntid.x", "ctaid.x", "nctaid.x", "laneid", "lanemask_lt", "lanemask_le", "lanemask_gt",
                 "lanemask_ge", "lanemask_eq", "cluster_ctarank", "cluster_nctarank", "clusterid.x", "nclusterid.x",
                 "cluster_ctaid.x", "cluster_nctaid.x", "dynamic_smem_size", "is_explicit_cluster"):  # fmt: skip
        cluster = 2 if "cluster" in name else 1
        move = f"mov.u32 %0, %%{name};"
        if name.startswith("is_"):
            move = f"{{\\n.reg .pred p;\\nmov.pred p, %%{name};\\nselp.u32 %0, 1, 0, p;\\n}}"
        text = f'  u32 d;\n  asm volatile("{move}" : "=r"(d));\n  y[i] = d;'
        yield form(f"mov %{name}", "special", kernel("u32* y", text), {}, {"y": 2048}, grid=4, cluster=cluster)
    yield from _sizes()
    yield from _volumes()


def _sizes() -> Iterator[InstructionForm]:
    """Registers that tell of the machine and of the block's shared memory."""
    for name in ("nwarpid", "nsmid", "total_smem_size", "aggr_smem_size", "dynamic_smem_size",
                 "reserved_smem_offset_begin", "reserved_smem_offset_cap"):  # fmt: skip
        text = (
            "  extern __shared__ u32 more[];\n  __shared__ u32 s[100];\n  if (t < 100) s[t] = t;\n  more[t] = t;\n"
            f'  __syncthreads();\n  u32 d;\n  asm volatile("mov.u32 %0, %%{name};" : "=r"(d));\n'
            "  if (d == 0xffffffff) y[0] = s[t % 99] + more[127 - t];\n  y[i] = d;"
        )
        source = kernel("u32* y", text)
        yield form(f"mov %{name} of 1424 bytes", "special", source, {}, {"y": 1024}, grid=2, dynamic_smem=1024)


def _volumes() -> Iterator[InstructionForm]:
    """Registers of blocks, clusters and grids with three dimensions."""
    names = [f"{of}.{axis}" for of in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid",
                                       "cluster_nctaid") for axis in "xyz"]  # fmt: skip
    for name in (*names, "cluster_ctarank", "cluster_nctarank", "laneid", "is_explicit_cluster"):
        move = f"mov.u32 %0, %%{name};"
        if name.startswith("is_"):
            move = f"{{\\n.reg .pred p;\\nmov.pred p, %%{name};\\nselp.u32 %0, 1, 0, p;\\n}}"
        text = (
            "  u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
            "  u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
            f'  u32 d;\n  asm volatile("{move}" : "=r"(d));\n  y[60 * block + thread] = d;'
        )
        flat = form(f"mov %{name} in three dimensions", "special", kernel("u32* y", text), {}, {"y": 24 * 240})
        yield replace(flat, grid=(4, 3, 2), block=(5, 4, 3), cluster=(2, 1, 2))
