"""Branches, calls, address conversions, hints and what else leaves no value of its own."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.emulate.form import InstructionForm
from benchmarks.emulate.forms.frame import form, kernel, words

_SHARED = "  __shared__ u32 s[128];\n  s[t] = x[i];\n  __syncthreads();\n"
_TEST = 'asm volatile("{{\\n.reg .pred p;\\nisspacep.{0} p, %1;\\nselp.u32 %0, 1, 0, p;\\n}}" : "=r"(d) : "l"({1}));'


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    yield from _branches()
    yield from _spaces()
    yield from _hints()


def _form(name: str, family: str, text: str, before: str = "") -> InstructionForm:
    source = before + kernel("const u32* x, u32* y", text)
    return form(name, family, source, {"x": words(name, 256)}, {"y": 1024}, grid=2)


def _branches() -> Iterator[InstructionForm]:
    """Lanes that part and meet again, calls, jump tables."""
    loop = (
        "  u32 v = x[i], d = 0;\n#pragma unroll 1\n  for (u32 k = 0; k < v % 37; ++k) {\n"
        "    if ((v >> (k & 31)) & 1) { d += k; continue; }\n    if (d > 300) break;\n    d = 3 * d + 1;\n  }\n"
        "  y[i] = d;"
    )
    yield _form("bra in a loop of differing trips", "control", loop)
    cases = "".join(f"    case {k}: d = {3 * k + 1} * v ^ {k}; break;\n" for k in range(12))
    table = f"  u32 v = x[i], d = 5;\n  switch (v % 13) {{\n{cases}    default: d = ~v;\n  }}\n  y[i] = d;"
    yield _form("jump table of 12 cases", "control", table)
    body = "{\\nTABLE: .branchtargets A, B, C, D;\\nbrx.idx %1, TABLE;\\n"
    body += "".join(f"{label}: mov.u32 %0, {7 * (k + 1)};\\nbra E;\\n" for k, label in enumerate("ABCD")) + "E:\\n}"
    jump = f'  u32 d;\n  asm volatile("{body}" : "=r"(d) : "r"(x[i] & 3));\n  y[i] = d;'
    yield _form("brx.idx", "control", jump)
    callee = "__noinline__ __device__ u32 ENTRY_mix(u32 a, u32 b, u32* c) { *c = a ^ (b << 3); return a * 3 + b; }\n"
    call = "  u32 c = 0, d = x[i];\n  if (t % 3) d = ENTRY_mix(d, t, &c);\n  y[i] = d + c;"
    yield _form("call of a function with a pointer", "control", call, callee)
    early = "  u32 v = x[i];\n  y[i] = 1;\n  if (v & 1) return;\n  __syncwarp(__activemask());\n  y[i] = v;"
    yield _form("ret of some lanes", "control", early)
    leave = 'asm volatile("{\\n.reg .pred p;\\nsetp.gt.s32 p, %0, 0;\\n@p exit;\\n}" ::"r"(x[i]));'
    exits = f"  y[i] = 3;\n  {leave}\n  y[i] = x[i];"
    yield _form("exit of some lanes", "control", exits)


def _spaces() -> Iterator[InstructionForm]:
    """Generic addresses of every space."""
    places = (
        ("global", "x + t"),
        ("shared", "s + t"),
        ("local", "a + (t & 3)"),
        ("const", "ENTRY_table + (t & 7)"),
    )
    table = "__constant__ u32 ENTRY_table[8] = {3, 141, 59, 26, 535, 89, 79, 323};\n"
    for space in ("global", "shared", "shared::cta", "shared::cluster", "local", "const"):
        tests = "".join(f"  {_TEST.format(space, place)}\n  e = 2 * e + d;\n" for _, place in places)
        text = f"{_SHARED}  u32 a[4] = {{t, 1, 2, 3}}, d, e = 0;\n{tests}  y[i] = e;"
        yield _form(f"isspacep.{space}", "address", text, table)
    for space, place in places:
        text = (
            f"{_SHARED}  u32 a[4] = {{x[i], 1, 2, 3}}, d;\n"
            f'  asm volatile("ld.u32 %0, [%1];" : "=r"(d) : "l"({place}) : "memory");\n  y[i] = d;'
        )
        yield _form(f"ld generic of {space}", "address", text, table)
    back = (
        f"{_SHARED}  u64 p;\n  u32 d;\n"
        '  asm volatile("{\\n.reg .b64 q;\\ncvta.to.shared.u64 q, %1;\\nld.shared.u32 %0, [q];\\n}" : "=r"(d) : '
        '"l"(s + 127 - t) : "memory");\n'
        '  asm volatile("{\\n.reg .b64 q;\\ncvta.to.global.u64 q, %1;\\ncvta.global.u64 %0, q;\\n}" : "=l"(p) : '
        '"l"(x + i));\n'
        "  y[i] = d + *(const u32*)p;"
    )
    yield _form("cvta.to.shared cvta.to.global cvta.global", "address", back)
    wide = (
        '  asm volatile("{\\n.reg .b128 q;\\nld.global.b128 q, [%0];\\nst.global.b128 [%1], q;\\n}" ::"l"(x + 4 * i), '
        '"l"(y + 4 * i) : "memory");'
    )
    parts = (
        '  u64 a, b;\n  asm volatile("{\\n.reg .b128 q;\\nmov.b128 q, {%3, %2};\\nmov.b128 {%0, %1}, q;\\n}" : '
        '"=l"(a), "=l"(b) : "l"(((const u64*)x)[2 * i]), "l"(((const u64*)x)[2 * i + 1]));\n'
        "  ((u64*)y)[2 * i] = a; ((u64*)y)[2 * i + 1] = b;"
    )
    for name, text in (("ld.global.b128 st.global.b128", wide), ("mov.b128", parts)):
        yield form(name, "address", kernel("const u32* x, u32* y", text), {"x": words(name, 512)}, {"y": 2048})


_HINTS = (
    "prefetch.global.L1 [%0];",
    "prefetch.global.L2 [%0];",
    "prefetch.L1 [%0];",
    "prefetch.global.L2::evict_last [%0];",
    "prefetch.global.L2::evict_normal [%0];",
    "prefetchu.L1 [%0];",
    "applypriority.global.L2::evict_normal [%0], 128;",
)
_ORDERS = (
    "fence.acq_rel.cluster;",
    "fence.sc.cluster;",
    "fence.acquire.gpu;",
    "fence.release.sys;",
    "fence.proxy.alias;",
    "fence.proxy.async;",
    "fence.proxy.async.global;",
    "fence.proxy.async.shared::cta;",
    "fence.proxy.async.shared::cluster;",
    "fence.proxy.tensormap::generic.release.gpu;",
    "nanosleep.u32 20;",
    "griddepcontrol.launch_dependents;",
    "griddepcontrol.wait;",
    "pmevent 3;",
)


def _hints() -> Iterator[InstructionForm]:
    """Nothing must change."""
    for hint in _HINTS:
        text = f'  asm volatile("{hint}" ::"l"(x + (i & ~31)) : "memory");\n  y[i] = x[i] + 1;'
        yield _form(hint.split(" [")[0], "hint", text)
    for order in _ORDERS:
        text = f'{_SHARED}  asm volatile("{order}" ::: "memory");\n  __syncthreads();\n  y[i] = s[127 - t];'
        yield _form(order.split(";")[0], "fence", text)
