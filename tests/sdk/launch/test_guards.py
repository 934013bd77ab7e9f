from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusetune.errors import GuardFailed, InvalidKernel
from fusetune.launch.guards import MAX_GUARD_CHARS, CallFacts, check_guards, parse_guard
from fusetune.wire.artifact import Guard

FACTS = CallFacts(pointers=(4096, 72), sizes=((8192, 4099), (4099,)), strides=((4100, 1), (1,)))


@pytest.mark.parametrize(
    ("expr", "holds"),
    [
        pytest.param("ptr[0] % 16 == 0", True, id="address"),
        pytest.param("ptr[1] % 16 == 0", False, id="address-off-by-8"),
        pytest.param("ptr[1] % 8 == 0 and ptr[0] % 4096 == 0", True, id="and"),
        pytest.param("ptr[1] % 16 == 0 and ptr[0] == 4096", False, id="and-one-fails"),
        pytest.param("ptr[1] % 16 == 0 or ptr[0] == 4096", True, id="or"),
        pytest.param("ptr[1] % 16 == 0 or ptr[0] != 4096", False, id="or-both-fail"),
        pytest.param("ptr[0] == 4096 or ptr[0] == 0 and ptr[0] == 0", True, id="and-binds-tighter"),
        pytest.param("(ptr[0] == 4096 or ptr[0] == 0) and ptr[0] == 0", False, id="parentheses"),
        pytest.param("size[0][1] == 4099", True, id="size"),
        pytest.param("stride[0][0] * 4 % 16 == 0", True, id="stride"),
        pytest.param("size[0][0] // 3 == 2730", True, id="floor-division"),
        pytest.param("(0 - 7) // 2 == -4 and (0 - 7) % 2 == 1", True, id="rounds-towards-minus-infinity"),
        pytest.param("min(size[0][0], size[0][1]) == 4099", True, id="min"),
        pytest.param("max(size[0][0], 5, 9000) == 9000", True, id="max-of-three"),
        pytest.param("0 < size[0][1] <= 4099", True, id="chain"),
        pytest.param("0 < size[0][1] < 4099", False, id="chain-breaks"),
        pytest.param("size[0][0] >= 8192 and size[0][0] > 8191", True, id="greater"),
        pytest.param("2 - 3 - 4 == -5", True, id="left-associative"),
        pytest.param("2 + 3 * 4 == 14", True, id="precedence"),
    ],
)
def test_guard_holds(expr: str, holds: bool) -> None:
    assert parse_guard(expr)(FACTS) is holds


@pytest.mark.parametrize(
    "expr",
    [
        pytest.param("1 + 1", id="a-number-is-no-condition"),
        pytest.param("True", id="a-literal-is-no-condition"),
        pytest.param("1 == True", id="bool-is-no-number"),
        pytest.param("1.5 < 2", id="float"),
        pytest.param("'a' == 'a'", id="string"),
        pytest.param("2 ** 9 == 512", id="power"),
        pytest.param("1 << 4 == 16", id="shift"),
        pytest.param("8 / 2 == 4", id="true-division"),
        pytest.param("not 1 == 2", id="not"),
        pytest.param("1 in ptr", id="in"),
        pytest.param("1 is 1", id="is"),
        pytest.param("x == 1", id="unknown-name"),
        pytest.param("ptr == 0", id="ptr-without-position"),
        pytest.param("ptr[-1] == 72", id="negative-position"),
        pytest.param("ptr[0:1] == 72", id="slice"),
        pytest.param("ptr[0][0] == 0", id="ptr-has-no-dims"),
        pytest.param("size[0] == 8192", id="size-needs-a-dim"),
        pytest.param("size[ptr[0]][0] == 1", id="computed-position"),
        pytest.param("shape[0][0] == 1", id="unknown-fact"),
        pytest.param("min(3) == 3", id="min-of-one"),
        pytest.param("abs(3) == 3", id="other-function"),
        pytest.param("min(1, 2, key=3) == 1", id="keyword"),
        pytest.param("__import__('os').getpid() == 0", id="escape"),
        pytest.param("ptr.__class__ == 1", id="attribute"),
        pytest.param("(lambda: 1)() == 1", id="lambda"),
        pytest.param("[x for x in (1,)] == 1", id="comprehension"),
        pytest.param("(y := 1) == 1", id="assignment"),
        pytest.param("1 == 1; 2 == 2", id="two-statements"),
        pytest.param("1 ==", id="unfinished"),
        pytest.param("", id="empty"),
        pytest.param("\0", id="null-byte"),
        pytest.param("(" * 500 + "1" + ")" * 500 + " == 1", id="deep"),
        pytest.param("1 == " + "1" * MAX_GUARD_CHARS, id="long"),
    ],
)
def test_what_is_not_in_the_grammar_is_refused(expr: str) -> None:
    with pytest.raises(InvalidKernel, match="guard"):
        parse_guard(expr)


@pytest.mark.parametrize(
    "expr", ["ptr[2] == 0", "size[1][1] == 0", "stride[2][0] == 0", "1 % (size[0][0] - 8192) == 0"]
)
def test_what_cannot_be_evaluated_is_an_invalid_kernel_not_a_false_guard(expr: str) -> None:
    with pytest.raises(InvalidKernel):
        parse_guard(expr)(FACTS)


def test_the_first_failing_guard_is_named_with_its_message() -> None:
    guards = (
        Guard(expr="ptr[0] % 16 == 0", message="first"),
        Guard(expr="ptr[1] % 16 == 0", message="second must be aligned"),
        Guard(expr="ptr[1] % 32 == 0", message="third"),
    )
    check_guards(guards[:1], FACTS)
    with pytest.raises(GuardFailed, match="second must be aligned") as caught:
        check_guards(guards, FACTS)
    assert caught.value.expr == "ptr[1] % 16 == 0"


_OPERATORS = st.sampled_from(["+", "-", "*", "//", "%"])


def _numbers() -> st.SearchStrategy[str]:
    leaves = st.one_of(
        st.integers(0, 1 << 40).map(str), st.sampled_from(["ptr[0]", "ptr[1]", "size[0][1]", "stride[0][0]"])
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, _OPERATORS, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
            inner.map(lambda text: f"(-{text})"),
        ),
        max_leaves=8,
    )


@settings(derandomize=True, max_examples=200, deadline=None)
@given(_numbers(), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), _numbers())
def test_guards_mean_what_python_means(left: str, comparison: str, right: str) -> None:
    expr = f"{left} {comparison} {right}"
    names = {"ptr": FACTS.pointers, "size": FACTS.sizes, "stride": FACTS.strides, "min": min, "max": max}
    try:
        expected = eval(expr, {"__builtins__": {}}, names)  # the oracle; the text is ours
    except ZeroDivisionError:
        with pytest.raises(InvalidKernel):
            parse_guard(expr)(FACTS)
    else:
        assert parse_guard(expr)(FACTS) is expected
