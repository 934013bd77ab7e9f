"""Elements that a thread loads one by one and that lie in one aligned vector: loaded as one, and no other beside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import Compute, GlobalLoad, If, Loop, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.passes.covered_vectors import load_covered_vectors
from compiler.lower.traversal import walk

TX, K = Var("tx", 32), Var("k", 4)
T = var(TX) * 4
EVEN, ODD = Less(var(K) % 2, const(1)), Less(const(0), var(K) % 2)
ROW = Less(var(TX), const(30))
IN_ORDER = var(K) + T


def load(offset: Expr, *within: Less, guards: tuple[Less, ...] = (), to: str = "a", tensor: str = "i0") -> Loop:
    """a[k] = x[offset] for four k."""
    one = GlobalLoad(Reg(to, DType.BF16, var(K)), tensor, offset, 1, CachePolicy.DEFAULT, guards, within=within)
    return Loop(K, const(4), True, (one,))


def vectors(body: tuple[Stmt, ...]) -> list[tuple[int, str]]:
    return [(s.width, str(s.offset)) for s in walk(body) if isinstance(s, GlobalLoad)]


@pytest.mark.parametrize(
    ("body", "aligned", "loaded"),
    [
        pytest.param((load(IN_ORDER),), 16, [(4, "tx * 4")], id="in order"),
        pytest.param((load(T - var(K) + 3),), 16, [(4, "tx * 4")], id="backwards"),
        pytest.param((load(T + var(K) // 2),), 16, [(2, "tx * 4")], id="each twice"),
        pytest.param((load(T + var(K) // 2 + 2),), 16, [(2, "(tx * 4 + 2)")], id="from the third on"),
        pytest.param((load(T + var(K) // 2 + 1),), 16, [(1, "(tx * 4 + (k / 2) + 1)")], id="across two vectors"),
        pytest.param((load(var(TX) * 6 + var(K) // 2),), 16, [(2, "tx * 6")], id="a pitch of six"),
        pytest.param((load(var(TX) * 3 + var(K) // 2),), 16, [(1, "(tx * 3 + (k / 2))")], id="an odd pitch"),
        pytest.param((load(IN_ORDER),), 4, [(2, "tx * 4"), (2, "(tx * 4 + 2)")], id="a tensor aligned to two"),
        pytest.param((load(IN_ORDER),), 2, [(1, "(tx * 4 + k)")], id="a tensor aligned to one"),
        pytest.param((load(var(K) * 2 + T * 2),), 16, [(1, "(tx * 8 + k * 2)")], id="every other one"),
        pytest.param((load(const(0) + T),), 16, [(1, "tx * 4")], id="the same one"),
        pytest.param((load(IN_ORDER, ODD),), 16, [(1, "(tx * 4 + k)")], id="the odd ones"),
        pytest.param((load(IN_ORDER, ODD), load(IN_ORDER, EVEN, to="b")), 16, [(4, "tx * 4")], id="odd, even"),
        pytest.param(
            (load(IN_ORDER + 1, EVEN), load(IN_ORDER, EVEN, to="b"), load(IN_ORDER - 1, ODD, to="c")),
            16,
            [(4, "tx * 4")],
            id="pairs rotated",
        ),
        pytest.param(
            (load(IN_ORDER, ODD), load(IN_ORDER, EVEN, to="b", tensor="i1")),
            16,
            [(1, "(tx * 4 + k)")] * 2,
            id="of two tensors",
        ),
        pytest.param((load(IN_ORDER, guards=(ROW,)),), 16, [(4, "tx * 4")], id="a guard of all"),
        pytest.param(
            (load(IN_ORDER, ODD, guards=(ROW,)), load(IN_ORDER, EVEN, to="b")),
            16,
            [(1, "(tx * 4 + k)")] * 2,
            id="a guard of some",
        ),
        pytest.param(
            (load(IN_ORDER, guards=(Less(IN_ORDER, const(98)),)),), 16, [(1, "(tx * 4 + k)")], id="a guard of each"
        ),
    ],
)
def test_what_is_loaded_as_one(body: tuple[Stmt, ...], aligned: int, loaded: list[tuple[int, str]]) -> None:
    assert vectors(load_covered_vectors(body, {"i0": aligned, "i1": aligned})) == loaded


def test_a_guard_of_all_elements_is_the_vector_s() -> None:
    (found,) = [s for s in walk(load_covered_vectors((load(IN_ORDER, guards=(ROW,)),), {"i0": 16})) if _is_load(s)]
    assert isinstance(found, GlobalLoad)
    assert found.guards == (ROW,)
    assert found.within == ()


def test_each_element_comes_from_its_place_and_others_are_zero() -> None:
    body = load_covered_vectors((load(IN_ORDER + 1, EVEN), load(IN_ORDER - 1, ODD, to="b")), {"i0": 16})
    assert {name: list(_moved(body, name)) for name in "ab"} == {"a": [1, None, 3, None], "b": [None, 0, None, 2]}


def _is_load(s: Stmt) -> bool:
    return isinstance(s, GlobalLoad)


def _moved(body: tuple[Stmt, ...], name: str) -> Iterator[int | None]:
    """Which element of the vector goes to each element of a register array; None for a zero."""
    for loop in body:
        match loop:
            case Loop(body=(If(conditions=asked, then=(Compute(target=Reg(name=target), operands=(source,)),)),)):
                pass
            case _:
                continue
        assert isinstance(source, Reg)
        for turn in range(4) if target == name else ():
            holds = all(c.left.evaluate({"k": turn}) < c.right.evaluate({"k": turn}) for c in asked)
            yield source.offset.evaluate({"k": turn}) if holds else None
