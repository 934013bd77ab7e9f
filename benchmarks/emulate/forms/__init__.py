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
products.py     mma.sync and wgmma, all types, shapes and layouts
whole_products.py  products of matrices with rings, as whole kernels
elements.py     random elements of products
handovers.py    barriers, mbarriers and groups in forms not seen elsewhere
control.py      branches, calls, address conversions, hints, fences
float_atomics.py  floating-point atomics and reductions on special values
tensormaps.py   maps that a kernel changes
programs.py     mathematical functions of CUDA, 128-bit integers
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

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
    products,
    programs,
    tensormaps,
    tensors,
    warps,
    whole_products,
)

_CHOSEN = "families.json"


def choose(folder: Path, families: Sequence[str]) -> tuple[InstructionForm, ...]:
    """The forms of some families, and notes in `folder` that it has these."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _CHOSEN).write_text(json.dumps(list(families)), encoding="utf-8")
    return chosen(folder)


def chosen(folder: Path) -> tuple[InstructionForm, ...]:
    """The forms that were prepared in a folder: all, unless it notes some families. Raises ValueError for others."""
    path = folder / _CHOSEN
    families = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    forms = all_forms()
    unknown = set(families) - {f.family for f in forms}
    if unknown:
        raise ValueError(f"{path}: no form is of the family {min(unknown)}.")
    return tuple(f for f in forms if f.family in families) if families else forms


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
        products,
        whole_products,
        programs,
    )
    forms = tuple(form for module in modules for form in module.forms())
    names = [f.name for f in forms]
    twice = {n for n in names if names.count(n) > 1}
    assert not twice, twice
    return forms
