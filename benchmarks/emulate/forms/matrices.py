"""Matrices of shared memory: ldmatrix, stmatrix, movmatrix."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.emulate.form import InstructionForm
from benchmarks.emulate.forms.frame import form, kernel, words


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    for count in (1, 2, 4):
        regs = ", ".join(f"%{k}" for k in range(count))
        for trans in ("", ".trans"):
            name = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16"
            outs = ", ".join(f'"=r"(d[{k}])' for k in range(count))
            text = (
                f"  __shared__ __align__(16) u32 s[128];\n  u32 d[{count}];\n"
                "  for (u32 k = t; k < 128; k += 32) s[k] = x[128 * blockIdx.x + k];\n  __syncwarp();\n"
                f'  asm volatile("{name} {{{regs}}}, [%{count}];" : {outs} : "r"((u32)__cvta_generic_to_shared(s + 4 '
                '* (t * 5 % 32))) : "memory");\n'
                f"  for (u32 k = 0; k < {count}; ++k) y[{count} * i + k] = d[k];"
            )
            source = kernel("const u32* x, u32* y", text)
            yield form(name, "matrix", source, {"x": words(name, 512)}, {"y": 512 * count}, grid=4, block=32)
            name = f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16"
            stored = ", ".join(f"%{k + 1}" for k in range(count))
            ins = ", ".join(f'"r"(x[{count} * i + {k}])' for k in range(count))
            text = (
                "  __shared__ __align__(16) u32 s[128];\n"
                "  for (u32 k = t; k < 128; k += 32) s[k] = k;\n  __syncwarp();\n"
                f'  asm volatile("{name} [%0], {{{stored}}};" ::"r"((u32)__cvta_generic_to_shared(s + 4 * (t * 11 % '
                f'32))), {ins} : "memory");\n'
                "  __syncwarp();\n  for (u32 k = t; k < 128; k += 32) y[128 * blockIdx.x + k] = s[k];"
            )
            source = kernel("const u32* x, u32* y", text)
            yield form(name, "matrix", source, {"x": words(name, 128 * count)}, {"y": 2048}, grid=4, block=32)
    name = "movmatrix.sync.aligned.m8n8.trans.b16"
    text = f'  u32 d;\n  asm volatile("{name} %0, %1;" : "=r"(d) : "r"(x[i]));\n  y[i] = d;'
    yield form(
        name, "matrix", kernel("const u32* x, u32* y", text), {"x": words(name, 128)}, {"y": 512}, grid=4, block=32
    )
