"""The wire's table of operators, which the client has without the compiler, says what the rows say."""

from __future__ import annotations

from typing import get_args

import pytest

from compiler.dtypes import DType
from compiler.ir.ops import (
    ARITHMETIC,
    BINARY,
    BITS,
    COMPARE,
    COMPILED,
    FLOATS,
    FOLDS,
    STORED,
    UNARY,
    OpKind,
)
from compiler.wire.composed import COMPOSED
from fusetune.wire.fusion import (
    FLOAT_ONLY,
    INTEGER_ONLY,
    MODEL_OF_OP,
    TAKES_BOOL,
    TAKES_FP8,
    BinaryName,
    CompareName,
    ReduceName,
    UnaryName,
)


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        pytest.param(get_args(UnaryName), UNARY, id="unary"),
        pytest.param(get_args(BinaryName), BINARY, id="binary"),
        pytest.param(get_args(CompareName), COMPARE, id="comparisons"),
        pytest.param(get_args(ReduceName), FOLDS, id="folds"),
        pytest.param(MODEL_OF_OP.keys() - COMPOSED.keys(), COMPILED, id="all"),
        pytest.param(FLOAT_ONLY, {k for k in ARITHMETIC | FOLDS if k.row.takes == FLOATS}, id="of-floats"),
        pytest.param(INTEGER_ONLY, {k for k in ARITHMETIC | FOLDS if k.row.takes <= BITS}, id="of-integers"),
        pytest.param(TAKES_FP8, {k for k in ARITHMETIC | COMPARE | FOLDS if k.row.takes == STORED}, id="of-fp8"),
        pytest.param(TAKES_BOOL, {k for k in ARITHMETIC | FOLDS if DType.BOOL in k.row.takes}, id="of-bools"),
    ],
)
def test_names_are_those_of_the_rows(names: frozenset[str], kinds: frozenset[OpKind]) -> None:
    assert sorted(names) == sorted(kinds)


def test_operators_are_written_out_that_have_no_row() -> None:
    assert COMPOSED.keys() <= MODEL_OF_OP.keys()
    assert not COMPOSED.keys() & COMPILED


@pytest.mark.parametrize("kind", sorted(COMPILED))
def test_operators_take_as_many_operands(kind: OpKind) -> None:
    assert MODEL_OF_OP[kind].arity == kind.row.arity
