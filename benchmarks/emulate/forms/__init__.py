"""Single-instruction kernels, one module a group of instructions; `all_forms` has them all.

elementwise.py  the frame of the kernels that map operands to one result
integers.py     integer arithmetic, logic, shifts, comparisons
floats.py       f32, f64 and 16-bit floating point, exact and approximate
conversions.py  cvt between all types
warps.py        shuffles, votes, redux, match, barriers with a result
memory.py       loads, stores, cache operators, atomics, reductions
copies.py       cp.async, bulk copies, mbarrier results, clusters
tensors.py      tensor copies, stores, reductions
matrices.py     ldmatrix, stmatrix, movmatrix
handovers.py    barriers, mbarriers and groups in forms not seen elsewhere
control.py      branches, calls, address conversions, hints, fences
float_atomics.py  floating-point atomics and reductions on special values
tensormaps.py   maps that a kernel changes
programs.py     mathematical functions of CUDA, 128-bit integers
"""

from __future__ import annotations

from benchmarks.emulate.form import InstructionForm
from benchmarks.emulate.forms import (
    control,
    conversions,
    copies,
    float_atomics,
    floats,
    handovers,
    integers,
    matrices,
    memory,
    programs,
    tensormaps,
    tensors,
    warps,
)


def all_forms() -> tuple[InstructionForm, ...]:
    """Every form, names unique."""
    modules = (
        integers,
        floats,
        conversions,
        warps,
        handovers,
        control,
        memory,
        float_atomics,
        copies,
        tensors,
        tensormaps,
        matrices,
        programs,
    )
    forms = tuple(form for module in modules for form in module.forms())
    names = [f.name for f in forms]
    twice = {n for n in names if names.count(n) > 1}
    assert not twice, twice
    return forms
