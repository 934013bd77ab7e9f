"""The machine that runs mutants agrees with the interpreter bit by bit, and what it does not run it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import Unsupported
from compiler.lower.kernel_ir import CopyAsync, MatrixStore, RemoteStore, SharedLoad, Shuffle, TmaLoad, TmaStore
from compiler.lower.sync_ir import SyncPart
from compiler.lower.traversal import walk
from search.proof.verify.arrays import NumpyArrays
from search.proof.verify.inputs import RANDOM, make_inputs
from tests.compiler.lower.interpreted_values import BITS
from tests.compiler.lower.interpreter import run
from tests.mutants.fast import NAMES
from tests.mutants.fusions import fusions
from tests.mutants.judging import subject
from tests.mutants.machine.executor import refuse
from tests.mutants.points import drawn

ARRAYS = NumpyArrays()
SAME_BITS = ("copy_padded", "transpose_halves_odd", "permute_outer", "square_plus", "inner_broadcast", "many_inputs")
"""Fusions of exact operators, which the interpreter runs."""


@pytest.mark.parametrize("name", SAME_BITS)
def test_the_machine_agrees_with_the_interpreter(name: str) -> None:
    fusion = fusions()[name]
    storages = make_inputs(fusion, RANDOM, ARRAYS)
    values = list(map(fusion.value, fusion.inputs))
    for point in drawn(fusion, 4):
        (kernel,) = point.program.kernels
        want = run(kernel, fusion, [s.view(BITS[v.dtype]) for s, v in zip(storages, values, strict=True)])
        have = point.program.run([s[None, :] for s in storages])
        assert have.fault == ""
        for output, bits, storage in zip(fusion.outputs, want, have.storages, strict=True):
            found = storage[0].view(BITS[fusion.value(output).dtype])
            np.testing.assert_array_equal(found, bits.reshape(-1), err_msg=str(point.candidate))


def test_kernels_of_every_way_are_run() -> None:
    met = {type(s) for name in NAMES for p in subject(name).points for k in p.program.kernels for s in walk(k.body)}
    assert {CopyAsync, MatrixStore, RemoteStore, SharedLoad, Shuffle, TmaLoad, TmaStore} <= met
    assert any(len(p.program.kernels) > 1 for name in NAMES for p in subject(name).points)


def test_parts_of_a_block_are_refused() -> None:
    (kernel,) = subject("row_sum_f64").points[0].program.kernels
    with pytest.raises(Unsupported):
        refuse(replace(kernel, body=(*kernel.body, SyncPart(1, 32))))
