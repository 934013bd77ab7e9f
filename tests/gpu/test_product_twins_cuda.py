"""The clean twins of kernels with planted faults compute on a card what they do in the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.emulate.card import loaded, run
from compiler.emulate.ptx.parser import parse
from compiler.emulate.spec import fit, read_spec
from tests.emulate.kernels import of_products
from tests.emulate.kernels.compiled import machine_code

pytestmark = pytest.mark.gpu

FAMILIES = ("wgmma", "wgmma_operands", "register_counts")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_clean_twins_are_right(family: str) -> None:
    cubin, text = machine_code(family, "sm_90a")
    ptx = parse(text)
    cases = [case for case in of_products.CASES if case.family == family]
    assert cases
    with loaded(cubin) as module:
        for case in cases:
            spec = read_spec(case.spec, Path())
            before = {name: layout.dense(spec.tensors[name].data) for name, layout in spec.layouts.items()}
            after = run(module, fit(spec.launches[0], ptx))
            for name, values in case.expected(before).items():
                found = spec.layouts[name].dense(after[name])
                np.testing.assert_array_equal(found, values, err_msg=case.entry)
