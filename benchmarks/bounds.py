"""How far device functions are from the exact result, over every f32 there is: what the rows of operators promise.

    python -m benchmarks.bounds --out benchmarks/results/bounds.json

Every function of one operand, of each grade, runs on the attached GPU for all 2^32 bit patterns, beside its row's
reference in f64. `share` is the largest error as a share of what the row allows (compiler.ir.ops.row.ErrorBound, and
half a unit in the last place for the rounding to f32): more than 1 breaks the row. Operands whose result f32 cannot
hold must give infinity, those of a NaN a NaN; `disagree` counts those that do not.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from compiler.dtypes import DType
from compiler.emit.functions import call, pieces_for
from compiler.emit.pieces import pieces
from compiler.ir.ops import ErrorBound, MathForm, MathGrade, OpClass, OpKind
from compiler.nvrtc import compile_now
from fusetune.launch.driver import check, driver

AT_ONCE = 1 << 26
"""Bit patterns that are looked at together: 512 MiB of f64."""

PATTERNS = 1 << 32
SLACK = 1e-6
"""Of a share: what the reference's own rounding to f64 may add."""

THREADS = 256
ENTRY = "bounds"


@dataclass(frozen=True, slots=True)
class Measured:
    """A function over all operands: its largest error as a share of what is allowed, at `worst`; the largest relative
    error in units of 2^-23 of a normal result; operands whose NaN or infinity is another's."""

    operator: str
    grade: str
    share: float
    worst: float
    ulp: float
    disagree: int
    disagree_at: str | None


ROUNDED = MathForm(ErrorBound(), "the exact result, rounded")


def forms() -> Iterator[tuple[OpKind, MathGrade, MathForm]]:
    """Every form in f32 of a function of one operand."""
    for kind in OpKind:
        if kind.row.cls is OpClass.UNARY and DType.F32 in kind.row.takes:
            by_grade = {
                MathGrade.EXACT: kind.row.exact or ROUNDED,
                MathGrade.APPROX: kind.row.approx,
                MathGrade.COARSE: kind.row.coarse,
            }
            yield from ((kind, grade, form) for grade, form in by_grade.items() if form is not None)


def source(kind: OpKind, grade: MathGrade) -> str:
    """A kernel that writes the function of the bit patterns from `first` on."""
    return (
        f"{pieces(('approx', *sorted(pieces_for([DType.F32], [kind]))))}\n"
        f'extern "C" __global__ void {ENTRY}(float* out, unsigned first) {{\n'
        f"  const unsigned i = blockIdx.x * {THREADS}u + threadIdx.x;\n"
        f"  const float x = __uint_as_float(first + i);\n"
        f"  out[i] = {call(kind, grade, DType.F32, ['x'])};\n"
        "}\n"
    )


class Worst:
    """The largest errors so far of one form."""

    def __init__(self, kind: OpKind, grade: MathGrade, form: MathForm) -> None:
        self.kind, self.grade, self.form = kind, grade, form
        self.share = self.worst = self.ulp = 0.0
        self.disagree = 0
        self.disagree_at: str | None = None

    def look(self, x: torch.Tensor, found: torch.Tensor) -> None:
        """Takes in the operands `x`, as f64, and what the kernel gave for them."""
        assert self.kind.row.reference is not None, "functions with forms have a reference"
        exact = self.kind.row.reference(torch, x)
        held = exact.float()
        near_the_end = exact.abs() * (1 + self._relative(x)) > torch.finfo(torch.float32).max
        wrong = torch.where(
            held.isnan() | found.isnan(),
            held.isnan() != found.isnan(),
            (held.isinf() != found.isinf()) & ~near_the_end,
        )
        count = int(wrong.sum())
        if count and not self.disagree:
            self.disagree_at = repr(float(x[wrong][0]))
        self.disagree += count
        both = held.isfinite() & found.isfinite()
        error = torch.where(both, (found.double() - exact).abs(), 0.0)
        size = exact.abs()
        allowed = self._allowed(x, size) + torch.maximum(size * 2.0**-24, torch.full_like(size, 2.0**-150))
        share = torch.where(both, error / allowed, 0.0)
        at = int(share.argmax())
        if float(share[at]) > self.share:
            self.share, self.worst = float(share[at]), float(x[at])
        normal = both & (size >= 2.0**-126)
        self.ulp = max(self.ulp, float(torch.where(normal, error / size, 0.0).max()) * 2.0**23)

    def _relative(self, x: torch.Tensor) -> Any:
        return self.form.error.relative + self.form.error.argument * torch.nan_to_num(x.abs(), posinf=0.0)

    def _allowed(self, x: torch.Tensor, size: torch.Tensor) -> Any:
        bound = self.form.error
        return self._relative(x) * size + bound.absolute + bound.of_operand * x.abs()

    def measured(self) -> Measured:
        return Measured(
            self.kind.value, self.grade.value, self.share, self.worst, self.ulp, self.disagree, self.disagree_at
        )


def measure(kind: OpKind, grade: MathGrade, form: MathForm) -> Measured:
    """One form over all bit patterns, on the current device of torch."""
    cuda = driver()
    torch.zeros(1, device="cuda")  # makes the context that the driver's calls need
    major, minor = torch.cuda.get_device_capability()
    compiled = compile_now(source(kind, grade), f"sm_{major}{minor}{'a' if major >= 9 else ''}")
    module = check("cuModuleLoadData", cuda.cuModuleLoadData(compiled.cubin))
    function = check("cuModuleGetFunction", cuda.cuModuleGetFunction(module, ENTRY.encode()))
    found = torch.empty(AT_ONCE, device="cuda")
    worst = Worst(kind, grade, form)
    for first in range(0, PATTERNS, AT_ONCE):
        arguments = ((found.data_ptr(), first), (ctypes.c_void_p, ctypes.c_uint))
        stream = torch.cuda.current_stream().cuda_stream
        check(
            "cuLaunchKernel",
            cuda.cuLaunchKernel(function, AT_ONCE // THREADS, 1, 1, THREADS, 1, 1, 0, stream, arguments, 0),
        )
        patterns = torch.arange(first, first + AT_ONCE, device="cuda").int()
        worst.look(patterns.view(torch.float32).double(), found)
    check("cuModuleUnload", cuda.cuModuleUnload(module))
    return worst.measured()


def main(argv: Sequence[str] | None = None) -> None:
    """Measures every form and writes a report; exits with 1 if one breaks its row."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounds", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="Where the report is written (JSON).")
    options = parser.parse_args(argv)
    rows = []
    for kind, grade, form in forms():
        rows.append(measure(kind, grade, form))
        print(json.dumps(asdict(rows[-1])), flush=True)
    report = {
        "format": "fusetune.bounds/1",
        "card": torch.cuda.get_device_name(),
        "operands": PATTERNS,
        "forms": [asdict(row) for row in rows],
    }
    options.out.write_text(f"{json.dumps(report, indent=1)}\n")
    raise SystemExit(any(row.share > 1 + SLACK or row.disagree for row in rows))


if __name__ == "__main__":
    main()
