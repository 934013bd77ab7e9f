"""Loads and stores of all widths and spaces, cache operators, atomics and reductions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.emulate.form import FormTolerance, InstructionForm
from benchmarks.emulate.forms.frame import form, kernel, numbers, words

_LETTERS = {8: "h", 16: "h", 32: "r", 64: "l"}
_TYPES = {8: "u16", 16: "u16", 32: "u32", 64: "u64"}
_VECTORS = tuple((c, w) for w in (8, 16, 32, 64) for c in (1, 2, 4) if c * w <= 128)


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    yield from _copies()
    yield from _signs()
    yield from _other_spaces()
    yield from _atomics()
    yield from _vector_reductions()
    yield from _order()


def _copy(name: str, load: str, store: str, count: int, width: int, hint: bool = False) -> InstructionForm:
    """Each thread moves one vector, through the load and the store; `hint` gives both an L2 policy."""
    letter, registers = _LETTERS[width], ", ".join(f"v{k}" for k in range(count))
    vector = f".v{count}" if count > 1 else ""
    policy = (
        '  u64 policy;\n  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));\n'
        if hint
        else ""
    )

    def listed(first: int) -> str:
        items = ", ".join(f"%{first + k}" for k in range(count))
        return f"{{{items}}}" if count > 1 else items

    outs = ", ".join(f'"={letter}"(v{k})' for k in range(count))
    ins = ", ".join(f'"{letter}"(v{k})' for k in range(count))
    last_load, last_store = (f", %{count + 1}", f", %{count + 1}") if hint else ("", "")
    extra = ', "l"(policy)' if hint else ""
    step = count * width // 8
    body = (
        f"  {_TYPES[width]} {registers};\n{policy}"
        f'  asm volatile("{load}{vector}.b{width} {listed(0)}, [%{count}]{last_load};" : {outs} : "l"(x + {step} * '
        f'i){extra} : "memory");\n'
        f'  asm volatile("{store}{vector}.b{width} [%0], {listed(1)}{last_store};" ::"l"(y + {step} * i), '
        f'{ins}{extra} : "memory");'
    )
    source = kernel("const unsigned char* x, unsigned char* y", body)
    return form(name, "memory", source, {"x": words(name, 512 * step, "uint8")}, {"y": 512 * step}, grid=4)


def _copies() -> Iterator[InstructionForm]:
    for count, width in _VECTORS:
        yield _copy(f"ld.global st.global v{count}.b{width}", "ld.global", "st.global", count, width)
        yield _copy(f"ld st generic v{count}.b{width}", "ld", "st", count, width)
    for load in ("ld.global.nc", "ld.global.ca", "ld.global.cg", "ld.global.cs", "ld.global.lu", "ld.global.cv",
                 "ld.volatile.global", "ld.relaxed.gpu.global", "ld.acquire.gpu.global", "ld.weak.global",
                 "ld.global.nc.L1::no_allocate", "ld.global.L1::evict_last", "ld.global.nc.L1::no_allocate.L2::128B",
                 "ld.global.L2::256B", "ld.global.cs.nc", "ldu.global", "ld.relaxed.cta.global",
                 "ld.relaxed.sys.global", "ld.acquire.cta.global", "ld.acquire.cluster.global", "ld.acquire.sys.global",
                 "ld.mmio.relaxed.sys.global", "ld.global.L1::evict_first", "ld.global.L1::evict_normal",
                 "ld.global.L1::evict_unchanged", "ld.global.nc.L2::64B"):  # fmt: skip
        yield _copy(load, load, "st.global", 1, 32)
        if "relaxed" not in load and "acquire" not in load:
            yield _copy(f"{load}.v4", load, "st.global", 4, 32)
    for store in ("st.global.wb", "st.global.cg", "st.global.cs", "st.global.wt", "st.volatile.global",
                  "st.relaxed.gpu.global", "st.release.gpu.global", "st.weak.global",
                  "st.global.L1::no_allocate", "st.global.L1::evict_last", "st.relaxed.cta.global",
                  "st.relaxed.sys.global", "st.release.cta.global", "st.release.cluster.global",
                  "st.release.sys.global", "st.mmio.relaxed.sys.global"):  # fmt: skip
        yield _copy(store, "ld.global", store, 1, 32)
    for count in (1, 2, 4):
        yield _copy(f"L2::cache_hint v{count}", "ld.global.L2::cache_hint", "st.global.L2::cache_hint", count, 32, True)


def _signs() -> Iterator[InstructionForm]:
    """Narrow loads into wider registers."""
    for kind in ("u8", "s8", "u16", "s16", "u32", "s32"):
        for register, letter in ((32, "r"), (64, "l")):
            step = int(kind[1:]) // 8
            body = (
                f"  u{register} d;\n"
                f'  asm volatile("ld.global.{kind} %0, [%1];" : "={letter}"(d) : "l"(x + {step} * i));\n  y[i] = d;'
            )
            name = f"ld.global.{kind} into {register} bits"
            source = kernel("const unsigned char* x, u64* y", body)
            yield form(name, "memory", source, {"x": words(name, 256 * step, "uint8")}, {"y": 2048}, grid=2)


def _other_spaces() -> Iterator[InstructionForm]:
    for count, width in _VECTORS:
        letter, step = _LETTERS[width], count * width // 8
        vector = f".v{count}" if count > 1 else ""
        items = [f"%{k}" for k in range(count)]
        read = f"{{{', '.join(items)}}}" if count > 1 else items[0]
        shifted = [f"%{k + 1}" for k in range(count)]
        write = f"{{{', '.join(shifted)}}}" if count > 1 else shifted[0]
        registers = ", ".join(f"v{k}" for k in range(count))
        outs = ", ".join(f'"={letter}"(v{k})' for k in range(count))
        ins = ", ".join(f'"{letter}"(v{k})' for k in range(count))
        body = (
            f"  __shared__ __align__(16) unsigned char s[128 * {step}];\n  {_TYPES[width]} {registers};\n"
            f"  for (u32 k = 0; k < {step}; ++k) s[{step} * t + k] = x[{step} * i + k];\n  __syncthreads();\n"
            f'  asm volatile("ld.shared{vector}.b{width} {read}, [%{count}];" : {outs} : '
            f'"r"((u32)__cvta_generic_to_shared(s) + {step} * (127 - t)) : "memory");\n'
            "  __syncthreads();\n"
            f'  asm volatile("st.shared{vector}.b{width} [%0], {write};" ::"r"((u32)__cvta_generic_to_shared(s) + '
            f'{step} * t), {ins} : "memory");\n'
            f"  __syncthreads();\n  for (u32 k = 0; k < {step}; ++k) y[{step} * i + k] = s[{step} * t + k];"
        )
        name = f"ld.shared st.shared v{count}.b{width}"
        source = kernel("const unsigned char* x, unsigned char* y", body)
        yield form(name, "memory", source, {"x": words(name, 256 * step, "uint8")}, {"y": 256 * step}, grid=2)
    body = (
        "  u32 a[16];\n#pragma unroll 1\n  for (u32 k = 0; k < 16; ++k) a[k] = x[16 * i + k];\n"
        "  u32 sum = 0;\n#pragma unroll 1\n  for (u32 k = 0; k < 16; ++k) sum = 3 * sum + a[a[k] & 15];\n  y[i] = sum;"
    )
    name = "ld.local st.local"
    yield form(name, "memory", kernel("const u32* x, u32* y", body), {"x": words(name, 4096)}, {"y": 1024}, grid=2)
    constant = "__constant__ u32 ENTRY_table[8] = {3, 141, 59, 26, 535, 89, 79, 323};\n"
    source = constant + kernel("const u32* x, u32* y", "  y[i] = ENTRY_table[x[i] & 7];")
    yield form("ld.const", "memory", source, {"x": words("ld.const", 256)}, {"y": 1024}, grid=2)
    source = kernel("const u32* x, u32* y", "  y[i] = x[255 - i] * 3 + __isGlobal(x) + __isShared(y);")
    yield form("isspacep", "memory", source, {"x": words("isspacep", 256)}, {"y": 1024}, grid=2)


_ATOMICS = (
    ("add", ("u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2")),
    ("min", ("u32", "s32", "u64", "s64", "f16", "bf16", "f16x2", "bf16x2")),
    ("max", ("u32", "s32", "u64", "s64", "f16", "bf16", "f16x2", "bf16x2")),
    ("and", ("b32", "b64")),
    ("or", ("b32", "b64")),
    ("xor", ("b32", "b64")),
    ("inc", ("u32",)),
    ("dec", ("u32",)),
)
_WIDTH = {"f16x2": 32, "bf16x2": 32, "bf16": 16}
_PLAIN = ("add.f16", "add.bf16", "add.f16x2", "add.bf16x2")


def _atomics() -> Iterator[InstructionForm]:
    """Many threads on few places, in shared and global memory: only what no order can change is compared."""
    for op, kinds in _ATOMICS:
        for kind in kinds:
            width = _WIDTH.get(kind, int("".join(c for c in kind if c.isdigit()) or 0))
            suffix = f"{op}.noftz.{kind}" if f"{op}.{kind}" in _PLAIN else f"{op}.{kind}"
            if op in ("min", "max") and kind in ("f16", "bf16", "f16x2", "bf16x2"):
                continue  # on shared and global memory only bulk reductions know these
            yield _reduced(f"red.global.{suffix}", f"red.global.{suffix} [%0], %1;", op, kind, width)
            yield _reduced(
                f"red.relaxed.gpu.global.{suffix}", f"red.relaxed.gpu.global.{suffix} [%0], %1;", op, kind, width
            )
            yield _reduced(f"red.shared.{suffix}", f"red.shared.{suffix} [%0], %1;", op, kind, width, is_shared=True)
            yield _returned(f"atom.global.{suffix}", f"atom.global.{suffix}", kind, width)
            yield _returned(f"atom.shared.{suffix}", f"atom.shared.{suffix}", kind, width, is_shared=True)
            yield _returned(f"atom.{suffix} of shared", f"atom.{suffix}", kind, width, is_shared=True)
    for bits in ("b16", "b32", "b64"):
        yield _returned(f"atom.shared.cas.{bits}", f"atom.shared.cas.{bits}", bits, int(bits[1:]), "cas", True)
    for bits in ("b32", "b64"):
        yield _returned(f"atom.shared.exch.{bits}", f"atom.shared.exch.{bits}", bits, int(bits[1:]), is_shared=True)
    for bits in ("b16", "b32", "b64"):
        yield _returned(f"atom.global.cas.{bits}", f"atom.global.cas.{bits}", bits, int(bits[1:]), "cas")
    for bits in ("b32", "b64"):
        yield _returned(f"atom.global.exch.{bits}", f"atom.global.exch.{bits}", bits, int(bits[1:]))
    yield _returned("atom.acq_rel.gpu.global.add.u32", "atom.acq_rel.gpu.global.add.u32", "u32", 32)
    yield _returned("atom.relaxed.cta.global.max.s32", "atom.relaxed.cta.global.max.s32", "s32", 32)


def _values(name: str, kind: str, width: int, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Whole numbers for floating point, any bits for the rest."""
    if kind in ("f32", "f64", "f16"):
        return numbers(name, count, f"float{width}")
    if kind == "f16x2":
        return numbers(name, 2 * count, "float16").view(np.uint32)
    if kind in ("bf16", "bf16x2"):
        pairs = count if kind == "bf16" else 2 * count
        bits = (numbers(name, pairs).view(np.uint32) >> 16).astype(np.uint16)
        return bits if kind == "bf16" else bits.view(np.uint32)
    return words(name, count, f"uint{width}")


def _reduced(name: str, body: str, op: str, kind: str, width: int, is_shared: bool = False) -> InstructionForm:
    """512 threads on 16 places."""
    letter, word = _LETTERS[width], _TYPES[width]
    values = _values(name, kind, width, 512)
    if op in ("inc", "dec"):
        values = np.full(512, 9, np.uint32)  # one limit: then the order does not matter
    start = np.zeros(16, values.dtype)
    if is_shared:
        text = (
            f"  __shared__ {word} s[16];\n  if (t < 16) s[t] = y[t];\n  __syncthreads();\n"
            f'  asm volatile("{body}" ::"r"((u32)__cvta_generic_to_shared(s + t % 16)), "{letter}"(x[t]) : "memory");\n'
            "  __syncthreads();\n  if (t < 16) y[t] = s[t];"
        )
        grid, block = 1, 512
    else:
        text = f'  asm volatile("{body}" ::"l"(y + i % 16), "{letter}"(x[i]) : "memory");'
        grid, block = 4, 128
    source = kernel(f"const {word}* x, {word}* y", text)
    tolerance = (
        FormTolerance(kind) if kind[0] in "fb" and kind[1] in "f136" and kind not in ("b32", "b64") else FormTolerance()
    )
    return form(
        name,
        "atomic",
        source,
        {"x": values, "y": start},
        {},
        changed=("y",),
        grid=grid,
        block=block,
        tolerance=tolerance,
    )


def _returned(
    name: str, instruction: str, kind: str, width: int, op: str = "", is_shared: bool = False
) -> InstructionForm:
    """Each thread has a place of its own, so that what comes back is known."""
    letter, word = _LETTERS[width], _TYPES[width]
    third = ", %3" if op == "cas" else ""
    more = f', "{letter}"(({word})(x[i] ^ 5))' if op == "cas" else ""
    place = '"l"(z + i)'
    before, after = "", ""
    if is_shared:
        place = '"r"(SMEM(s + t))' if ".shared" in instruction else '"l"(s + t)'
        before, after = f"  __shared__ {word} s[128];\n  s[t] = z[i];\n  __syncthreads();\n", "  z[i] = s[t];\n"
    text = (
        f'{before}  {word} d;\n  asm volatile("{instruction} %0, [%1], %2{third};" : "={letter}"(d) : {place}, '
        f'"{letter}"(x[i]){more} : "memory");\n'
        f"{after}  y[i] = d;"
    )
    source = kernel(f"const {word}* x, {word}* z, {word}* y", text)
    values, there = _values(name, kind, width, 256), _values(name + " there", kind, width, 256).copy()
    if op == "cas":
        there[::3] = values[::3]
    return form(
        name,
        "atomic",
        source,
        {"x": values, "z": there},
        {"y": there.nbytes},
        args=("x", "z", "y"),
        changed=("z",),
        grid=2,
        tolerance=FormTolerance(kind) if kind in ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2") else FormTolerance(),
    )


def _vector_reductions() -> Iterator[InstructionForm]:
    for count in (2, 4):
        regs = ", ".join(f"%{k + 1}" for k in range(count))
        ins = ", ".join(f'"f"(x[{count} * i + {k}])' for k in range(count))
        name = f"red.global.add.v{count}.f32"
        text = (
            f'  asm volatile("red.global.add.v{count}.f32 [%0], {{{regs}}};" ::"l"(y + {count} * (i % 8)), {ins} : '
            '"memory");'
        )
        values = {"x": numbers(name, 256 * count), "y": np.zeros(8 * count, np.float32)}
        yield form(name, "atomic", kernel("const float* x, float* y", text), values, {}, changed=("y",), grid=2)
    for kind in ("f16x2", "bf16x2"):
        for count in (2, 4):
            regs = ", ".join(f"%{k + 1}" for k in range(count))
            ins = ", ".join(f'"r"(x[{count} * i + {k}])' for k in range(count))
            name = f"red.global.add.noftz.v{count}.{kind}"
            text = (
                f'  asm volatile("red.global.add.noftz.v{count}.{kind} [%0], {{{regs}}};" ::"l"(y + {count} * (i % '
                f'8)), {ins} : "memory");'
            )
            values = {"x": _values(name, kind, 32, 256 * count), "y": np.zeros(8 * count, np.uint32)}
            yield form(name, "atomic", kernel("const u32* x, u32* y", text), values, {}, changed=("y",), grid=2)


def _order() -> Iterator[InstructionForm]:
    """Fences have no result: the kernels hand data over by them."""
    for fence in (
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "fence.acq_rel.gpu",
        "fence.sc.gpu",
        "fence.acq_rel.cta",
        "fence.sc.sys",
    ):
        text = (
            "  __shared__ u32 s[128];\n  s[t] = x[i];\n"
            f'  asm volatile("{fence};" ::: "memory");\n  __syncthreads();\n  y[i] = s[127 - t];'
        )
        yield form(fence, "fence", kernel("const u32* x, u32* y", text), {"x": words(fence, 256)}, {"y": 1024}, grid=2)
