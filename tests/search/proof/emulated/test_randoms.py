"""Random numbers in kernels: proven in the emulator, one set of numbers for every schedule."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.launch import Completion
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import input_tensor, launches_of, output_tensor, written_by
from compiler.ir.fusion import Fusion
from compiler.ir.ops.philox import uniform
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from search.proof.emulated.running import ARRAYS, options
from search.proof.verify.arrays import Array
from tests.search.proof.emulated.kernels import body, kernels_of, proven
from tests.search.randoms import drawn, dropout, dropout_backward, residual_norm, turned

FUSIONS = {
    "numbers": drawn(40, 1000), "one": drawn(), "odd": dropout(37, 101), "dropout": dropout(64, 512),
    "wide": dropout(64, 512, dtype="f32"), "turned": turned(96, 160), "backward": dropout_backward(64, 520),
    "norm": residual_norm(48, 768),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSIONS)
def test_kernels_that_draw_are_proven(name: str, pool: CompilePool) -> None:
    made = list(kernels_of(FUSIONS[name], seed=5))
    assert made
    for one in made:
        found = proven(one, pool)
        assert (found.fault, found.undone) == ("", ""), one.trace
