"""Reading explicit schedules: what documents may say, and what is refused with its place."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from compiler.ir.fusion import Literal
from compiler.ir.iter_domain import IterKind, MemoryType
from compiler.ir.size import Size
from compiler.schedule.explicit import MalformedCase, read_case
from compiler.schedule.replay import replay_document
from compiler.verdict import judge_document
from tests.compiler.schedule.documents_of_steps import (
    Json,
    after,
    chain,
    do,
    document,
    merge,
    op,
    refusal,
    split,
    tensor,
)

COPY = chain((4, 8))


def changed(path: str, value: object, data: Json = COPY) -> Json:
    """The document with another value at a path such as `tensors.a.shape`; `...` takes the field away."""
    data = copy.deepcopy(data)
    *way, last = path.split(".")
    holder: Any = data
    for key in way:
        holder = holder[int(key)] if isinstance(holder, list) else holder[key]
    if value is ...:
        del holder[last]
    elif isinstance(holder, list):
        holder[int(last)] = value
    else:
        holder[last] = value
    return data


MALFORMED = [
    pytest.param([], "case", "an object", id="no-object"),
    pytest.param({"format": "fusetune.trace/1"}, "case.format", "an explicit schedule", id="another-document"),
    pytest.param(changed("tensors", ...), "case.tensors", "this field", id="no-tensors"),
    pytest.param(changed("tensors.a", 3), "case.tensors.a", "an object", id="tensor-is-a-number"),
    pytest.param(changed("tensors.a.shape", [4, 0]), "case.tensors.a.shape[1]", "an integer from 1", id="no-extent"),
    pytest.param(changed("tensors.a.shape", [4.0]), "case.tensors.a.shape[0]", "an integer", id="float-extent"),
    pytest.param(changed("tensors.a.shape", [1] * 65), "case.tensors.a.shape", "at most 64", id="rank"),
    pytest.param(changed("tensors.a.shape", [1 << 62, 2]), "case.tensors.a.shape", "elements", id="elements"),
    pytest.param(changed("tensors.a.shape", [10**5000]), "case.tensors.a.shape[0]", "an integer", id="huge-extent"),
    pytest.param(changed("tensors.a.dtype", "float12"), "case.tensors.a.dtype", "one of float64", id="dtype"),
    pytest.param(changed("tensors.t0.memory", "texture"), "case.tensors.t0.memory", "one of global", id="memory"),
    pytest.param(changed("tensors.a.contiguity", [True]), "case.tensors.a.contiguity", "2 flags", id="flags"),
    pytest.param(changed("tensors.a.symbolic", [True]), "case.tensors.a.symbolic", "2 flags", id="symbolic"),
    pytest.param(changed("tensors.a.broadcast_axes", [2]), "case.tensors.a.broadcast_axes[0]", "to 1", id="axis"),
    pytest.param(changed("tensors.t0.shape", [4, 9]), "case.tensors.t0.shape", "extent 8 in axis 1", id="extents"),
    pytest.param(changed("tensors.t0.shape", [4]), "case.tensors.t0.shape", "2 axes, as a has", id="rank-of-result"),
    pytest.param(
        changed("tensors.t0.broadcast_axes", [1]),
        "case.tensors.t0.broadcast_axes",
        "axes along which nothing is read",
        id="a-broadcast-of-elements",
    ),
    pytest.param(
        changed("tensors.t0.shape", [4, 9], changed("tensors.a.broadcast_axes", [1])),
        "case.tensors.t0.shape",
        "extent 8 in axis 1",
        id="expanded-otherwise",
    ),
    pytest.param(changed("ops.0.op", "fft"), "case.ops[0].op", "one of set", id="op"),
    pytest.param(changed("ops.0.in", []), "case.ops[0].in", "a tensor among them", id="no-operand"),
    pytest.param(changed("ops.0.in", ["a", "a"]), "case.ops[0].in", "1 operand of copy", id="operands"),
    pytest.param(changed("ops.0.in", ["b"]), "case.tensors.b", "this field", id="unknown-operand"),
    pytest.param(changed("ops.0.in", ["z"]), "case.ops: t0", "an earlier result", id="cycle"),
    pytest.param(changed("ops.0.in", ["t0"]), "case.ops: t0", "an earlier result", id="itself"),
    pytest.param(changed("ops.1.out", "t0"), "case.tensors.t0", "one operator", id="made-twice"),
    pytest.param(changed("ops.1.out", "a"), "case.tensors.a", "and no input", id="an-input-is-made"),
    pytest.param(changed("ops.0.via", "bus"), "case.ops[0].via", "one of plain", id="via"),
    pytest.param(changed("ops.0.scalar", [1]), "case.ops[0].scalar", "an integer", id="scalar"),
    pytest.param(changed("inputs", ["a", "a"]), "case.inputs", "each input once", id="input-twice"),
    pytest.param(changed("inputs", ["t0"]), "case.tensors.t0", "and no input", id="input-is-made"),
    pytest.param(changed("outputs", ["b"]), "case.outputs", "results of operators", id="output-is-not-made"),
    pytest.param(
        COPY | {"runtime_inputs": {"a": {"strides": [1]}}}, "case.runtime_inputs.a.strides", "2 strides", id="strides"
    ),
    pytest.param(
        COPY | {"runtime_inputs": {"a": {"shape": [0, 8]}}}, "case.runtime_inputs.a.shape[0]", "from 1", id="empty"
    ),
    pytest.param(
        COPY | {"managed": {"tmem_regions": [["q"]]}}, "case.managed.tmem_regions[0]", "tensors of", id="region"
    ),
    pytest.param(COPY | {"schedule": 1}, "case.schedule", "a list", id="no-steps"),
    pytest.param(COPY | {"schedule": [{}] * 4097}, "case.schedule", "at most 4096", id="too-many-steps"),
    pytest.param(COPY | {"scalars": {"n": "4"}}, "case.scalars.n", "an integer", id="scalar-value"),
    pytest.param(COPY | {"scalars": {"n": {}}}, "case.scalars.n.value", "this field", id="scalar-without-a-value"),
    pytest.param(COPY | {"scalars": [{"value": 4}]}, "case.scalars[0].name", "this field", id="scalar-without-a-name"),
    pytest.param(
        chain((4, 8), split("z", 0, {"scalar": "n"})) | {"scalars": {"n": 1.5}},
        "scalars.n",
        "an integer",
        id="float-factor-by-name",
    ),
    pytest.param(changed("inputs", ["a", "n"]), "case.tensors.n", "this field", id="an-input-that-is-nothing"),
    pytest.param(chain((4, 8), 7), "case.schedule[0]", "an object", id="step-is-a-number"),  # type: ignore[arg-type]  # that is the case
    pytest.param(chain((4, 8), {"op": "split", "tv": "z"}), "schedule[0].do", "one of split", id="step-without-do"),
    pytest.param(chain((4, 8), do("fuse", "z")), "schedule[0].do", "one of split", id="step"),
    pytest.param(chain((4, 8), do("split", "q")), "schedule[0].tv", "one of the tensors a, t0, z", id="tensor"),
    pytest.param(chain((4, 8), do("split", "z", axis=0)), "schedule[0].factor", "this field", id="no-factor"),
    pytest.param(chain((4, 8), split("z", 0, 2.0)), "schedule[0].factor", "an integer", id="float-factor"),
    pytest.param(chain((4, 8), split("z", 0, {"scalar": "n"})), "schedule[0].factor", "scalars (none)", id="no-scalar"),
    pytest.param(chain((4, 8), split("z", "0", 2)), "schedule[0].axis", "an integer", id="axis-is-a-text"),  # type: ignore[arg-type]  # as a document may have it
    pytest.param(changed("options", 3), "case.options", "an object", id="options"),
    pytest.param(changed("options", [3]), "case.options[0]", "a text", id="option"),
    pytest.param(chain((4, 8), do("reorder", "z", map=[[0]])), "schedule[0].map[0]", "an old and a new", id="pair"),
    pytest.param(chain((4, 8), do("reorder", "z", map=[[0, 1], 1])), "schedule[0].map[1]", "a list", id="no-pair"),
    pytest.param(chain((4, 8), do("reorder", "z", map={"x": 0})), "schedule[0].map.x", "an integer", id="map"),
    pytest.param(chain((4, 8), do("swizzle", "z", axes=[0])), "schedule[0].axes", "two axes", id="swizzle-axes"),
    pytest.param(chain((4, 8), do("swizzle", "z", axes=[0, 1], kind="add")), "schedule[0].kind", "xor", id="kind"),
    pytest.param(
        chain((4, 8), do("set_allocation_domain", "z", axes="loop", transforms=[{"do": "inline_at"}])),
        "schedule[0].transforms[0].do",
        "one of split",
        id="transform",
    ),
    pytest.param(chain((4, 8), do("compute_at", "t0", consumer="q")), "schedule[0].consumer", "one of", id="consumer"),
    pytest.param(
        chain((4, 8), do("circular_buffer", "t0", stages=2, registers=[1])), "schedule[0].registers", "two", id="pair"
    ),
    pytest.param(
        chain((4, 8), do("check_domain_equivalence", "z", ids=[[1, 0]])),
        "schedule[0].ids[0][0]",
        "0 steps",
        id="before",
    ),
    pytest.param(chain((4, 8), do("check_domain_equivalence", "z", ids=[2])), "schedule[0].ids[0]", "0 to 1", id="ids"),
]


@pytest.mark.parametrize(("data", "where", "expected"), MALFORMED)
def test_what_is_no_explicit_schedule_is_named(data: object, where: str, expected: str) -> None:
    with pytest.raises(MalformedCase) as caught:
        replay_document(data)
    assert caught.value.where == where
    assert expected in caught.value.expected
    verdict = judge_document(data)
    assert (verdict.legal, verdict.error) == (None, str(caught.value))


def test_the_nearest_document_is_one() -> None:
    case = read_case(COPY)
    assert [t.name for t in case.start.tensors] == ["a", "t0", "z"]
    assert case.start.tensor("t0").memory is MemoryType.LOCAL


def test_a_found_value_is_told_in_a_few_words_whatever_it_is() -> None:
    deep: Any = []
    for _ in range(3000):
        deep = [deep]
    for value, found in ((deep, "a list of 1"), (10**5000, "an integer of 16610 bits"), ("x" * 99, "x" * 50)):
        with pytest.raises(MalformedCase) as caught:
            read_case(COPY | {"name": value} if not isinstance(value, str) else COPY | {"schedule": value})
        assert found in caught.value.found
        assert len(str(caught.value)) < 200


# Tensors -------------------------------------------------------------------------------------------------------------


def test_kinds_of_axes() -> None:
    tensors = {
        "a": tensor([4, 1, 8], "global"),
        "b": tensor([4, 3, 8], "global", contiguity=[True, None, True]),
        "c": tensor([4, 3, 8], "global", broadcast_axes=[0], reduction_axes=[2]),
        "z": tensor([4, 3, 8], "global"),
    }
    start = read_case(document(tensors, [op("add", "a b", "z")], "a b c", "z")).start
    assert [[str(a)[0] for a in start.tensor(n).logical] for n in "abcz"] == [
        ["i", "b", "i"],
        ["i", "b", "i"],
        ["b", "i", "r"],
        ["i", "b", "i"],
    ]
    assert {a.kind for a in start.tensor("c").logical} == set(IterKind)


@pytest.mark.parametrize(
    ("read", "made"),
    [
        pytest.param(tensor([4, 8], "global", broadcast_axes=[1]), [4, 8], id="as it is read"),
        pytest.param(tensor([4, 1], "global"), [4, 9], id="expanded where it is made"),
    ],
)
def test_a_result_is_broadcast_where_nothing_is_read(read: Json, made: list[int]) -> None:
    """Named or not: the nearest documents to those that are malformed."""
    for more in ({}, {"broadcast_axes": [1]}):
        tensors = {"a": read, "z": tensor(made, "global", **more)}
        start = read_case(document(tensors, [op("set", "a", "z")], "a", "z")).start
        assert [a.kind for a in start.tensor("z").logical] == [IterKind.ITERATION, IterKind.BROADCAST]


def test_a_sum_may_name_its_axis_or_leave_it_out_of_its_shape() -> None:
    for shape in ([4, 8], [4]):
        tensors = {"a": tensor([4, 8], "global"), "s": tensor(shape), "z": tensor([4], "global")}
        data = document(tensors, [op("sum", "a", "s", axes=[-1]), op("set", "s", "z")], "a", "z")
        assert [str(a) for a in read_case(data).start.tensor("s").logical] == ["is.0{4}", "rs.1{8}"]


def test_a_reduction_axis_is_counted_by_steps_and_not_seen_by_consumers() -> None:
    tensors = {"a": tensor([4, 8], "global"), "s": tensor([4, 8], reduction_axes=[1]), "z": tensor([4], "global")}
    ops = [op("sum", "a", "s", axes=[1]), op("set", "s", "z")]
    assert [str(a) for a in after(document(tensors, ops, "a", "z", split("s", 1, 2))).tensor("s").loop] == [
        "is.0{4}",
        "rs.2{4}",
        "rs.3{2}",
    ]


def test_unknown_extents_are_named_as_guards_name_them_and_handed_on() -> None:
    data = chain((4, 8), split("z", 1, 3))
    data["tensors"]["a"]["symbolic"] = [False, True]
    sf = after(data | {"runtime_inputs": {"a": {"shape": [4, 10]}}})
    assert [str(a.size) for a in sf.tensor("z").loop] == ["4", "((size[0][1] + 3 - 1) // 3)", "3"]
    assert [a.extent for a in sf.tensor("z").loop] == [4, 4, 3]


def test_an_extent_is_known_where_any_operand_knows_it() -> None:
    tensors = {"a": tensor([4], "global", symbolic=True), "b": tensor([4], "global"), "z": tensor([4], "global")}
    sf = after(document(tensors, [op("add", "a b", "z")], "a b", "z"))
    assert sf.tensor("z").logical[0].symbolic is None


def test_run_time_strides_and_addresses() -> None:
    bound = [{"strides": [16, 2], "byte_offset": 24}]
    t = after(COPY | {"runtime_inputs": bound}).tensor("a")
    assert (t.runtime_strides, t.align) == ((16, 2), 8)
    assert t.allocation is not None
    assert t.allocation.contiguity == (True, False), "where nothing is declared, the strides say what is contiguous"
    assert after(COPY | {"runtime_inputs": [None]}).tensor("a").align == 256


def test_a_launch_may_bind_outputs_too() -> None:
    t = after(COPY | {"runtime_inputs": {"z": {"strides": [16, 1], "byte_offset": 24}}}).tensor("z")
    assert (t.runtime_strides, t.align) == ((16, 1), 8)
    between = after(COPY | {"runtime_inputs": {"t0": {"byte_offset": 24}}}).tensor("t0")
    assert between.align == 256, "what is neither is the kernel's own"


@pytest.mark.parametrize(
    ("allocation", "strides"),
    [
        ({"axes": [1, 0]}, (1, 4)),
        ({"axes": [1, 0], "transforms": [{"do": "split", "axis": 0, "factor": 2}]}, (1, 4)),
        ({"axes": [0, 1], "transforms": [{"do": "merge", "axis": 0}]}, (8, 1)),
        ({"shape": [32], "transforms": [{"do": "split", "axis": 0, "factor": 8}]}, (8, 1)),
    ],
)
def test_a_declared_allocation_is_the_layout(allocation: object, strides: tuple[int, ...]) -> None:
    assert after(viewed(allocation)).tensor("a").runtime_strides == strides
    given = viewed(allocation) | {"runtime_inputs": {"a": {"strides": [9, 1]}}}
    assert after(given).tensor("a").runtime_strides == (9, 1)


def test_a_scalar_operand_is_a_number_or_the_name_of_one() -> None:
    tensors = {"a": tensor([4], "global"), "z": tensor([4], "global")}
    for scalar, value in ((2.5, 2.5), (3, 3.0), ("n", 0.0), ("m", 1.5), ({"scalar": "m"}, 1.5)):
        sf = after(document(tensors, [op("mul", "a", "z", scalar=scalar)], "a", "z", scalars={"m": 1.5}))
        assert sf.ops[0].inputs == ("a", Literal(value))
    sf = after(document(tensors, [op("mul", "m a", "z")], "a m", "z", scalars={"m": 1.5}))
    assert sf.ops[0].inputs == (Literal(1.5), "a")


@pytest.mark.parametrize("scalars", [{"n": 3}, {"n": {"value": 3, "dtype": "int64"}}, [{"name": "n", "value": 3}]])
@pytest.mark.parametrize(
    "runtime", [{}, {"n": 3, "a": {"byte_offset": 8}}, [3, {"byte_offset": 8}], [{"byte_offset": 8}]]
)
def test_scalars_may_stand_among_the_inputs(scalars: object, runtime: object) -> None:
    data = chain((4, 8), split("z", 1, {"scalar": "n"})) | {"scalars": scalars, "runtime_inputs": runtime}
    for inputs in (["n", "a"], ["a", "n"], ["a"]) if isinstance(runtime, dict) else (["n", "a"],):
        sf = after(data | {"inputs": inputs})
        assert sf.inputs == ("a",)
        assert sf.tensor("z").loop[2].size == Size.symbol("n", 3)
        assert sf.tensor("a").align == (8 if runtime else 256)


# Allocations of inputs -----------------------------------------------------------------------------------------------


def viewed(allocation: object, shape: tuple[int, ...] = (4, 8)) -> Json:
    data = chain(shape)
    data["tensors"]["a"]["allocation"] = allocation
    return data


def test_logical_axes_may_be_pieces_of_allocation_axes() -> None:
    given = {"shape": [32], "transforms": [{"do": "split", "axis": 0, "factor": 8}]}
    found = after(viewed(given)).tensor("a").allocation
    assert found is not None
    assert found.is_source
    assert [a.extent for a in found.axes] == [32]
    assert [tuple(str(a) for a in e.outputs) for e in found.exprs] == [("ia.0{4}", "ia.1{8}")]


def test_allocation_axes_may_be_logical_ones() -> None:
    turned = {"shape": [8, 4], "transforms": [{"do": "reorder", "map": [1, 0]}]}
    t = after(viewed(turned)).tensor("a")
    assert t.allocation is not None
    assert [str(a) for a in t.allocation.axes] == ["ia.1{8}", "ia.0{4}"]
    assert t.runtime_strides == (1, 4)
    cut = {"shape": [4, 2, 4], "transforms": [{"do": "merge", "axis": 1}]}
    found = after(viewed(cut)).tensor("a").allocation
    assert found is not None
    assert [str(a) for a in found.axes] == ["ia.0{4}", "ia.a1{2}", "ia.a2{4}"]


def test_allocation_axes_may_be_pieces_of_logical_axes_in_any_order() -> None:
    given = {"axes": [1, 0], "transforms": [{"do": "split", "axis": 0, "factor": 2}], "contiguity": [True, False, True]}
    found = after(viewed(given)).tensor("a").allocation
    assert found is not None
    assert [a.extent for a in found.axes] == [4, 2, 4]
    assert (found.is_source, found.contiguity) == (False, (True, False, True))
    short = after(viewed([1, 0])).tensor("a").allocation
    assert short is not None
    assert [str(a) for a in short.axes] == ["ia.1{8}", "ia.0{4}"]


@pytest.mark.parametrize(
    "allocation",
    [
        pytest.param(
            {"shape": [31], "transforms": [{"do": "split", "axis": 0, "factor": 8}]} | {"shape": [33]}, id="size"
        ),
        pytest.param({"shape": [32], "transforms": [{"do": "split", "axis": 1, "factor": 8}]}, id="no-such-axis"),
        pytest.param({"shape": [32], "transforms": [{"do": "parallelize", "axis": 0}]}, id="no-transform"),
        pytest.param({"axes": [0, 0]}, id="axis-twice"),
        pytest.param({}, id="empty"),
        pytest.param("loop", id="a-text"),
    ],
)
def test_allocations_that_do_not_fit(allocation: object) -> None:
    with pytest.raises(MalformedCase, match=r"case\.tensors\.a\.allocation"):
        replay_document(viewed(allocation))


# Steps ---------------------------------------------------------------------------------------------------------------


def test_axes_count_from_the_end_at_the_moment_of_the_step() -> None:
    steps = [
        split("z", -1, 4),
        merge("z", 0),
        do("reorder", "z", map={"-1": 0}),
        do("parallelize", "z", axis=-2, type="TIDx"),
    ]
    t = after(chain((4, 8), *steps)).tensor("z")
    assert [a.extent for a in t.loop] == [4, 8]
    assert [str(p) for p in t.types] == ["TIDx", "Serial"]


@pytest.mark.parametrize("moves", [[2, 0, 1], [[0, 2], [1, 0], [2, 1]], [[0, -1]], {"0": 2}])
def test_a_reorder_may_be_a_list_of_new_positions_or_of_pairs(moves: object) -> None:
    assert [a.extent for a in after(chain((2, 3, 5), do("reorder", "z", map=moves))).tensor("z").loop] == [3, 5, 2]


@pytest.mark.parametrize("given", [["index_hoist"], {"index_hoist": True}])
def test_options_are_named_or_given_values(given: object) -> None:
    assert read_case(COPY | {"options": given}).options == {"index_hoist": True}


def test_a_split_factor_may_be_a_scalar_of_the_launch() -> None:
    data = chain((4, 8), split("z", 1, {"scalar": "n"})) | {"scalars": {"n": 3}}
    outer, inner = after(data).tensor("z").loop[1:]
    assert (inner.size, inner.extent, outer.extent) == (Size.symbol("n", 3), 3, 3)
    assert refusal(data | {"scalars": {"n": 0}}).rule == "split_factors_are_positive"


def test_transforms_of_an_allocation_count_its_own_axes() -> None:
    transforms = [
        {"do": "split", "axis": -1, "factor": 4},
        {"do": "swizzle", "axes": [0, -1]},
        {"do": "merge", "axis": 1},
    ]
    step = do("set_allocation_domain", "t0", axes=[0, 1], transforms=transforms, contiguity=False)
    found = after(chain((4, 8), step)).tensor("t0").allocation
    assert found is not None
    assert [a.extent for a in found.axes] == [4, 8]
    assert found.contiguity == (False, False)


def test_global_tensors_have_allocation_domains_too() -> None:
    steps = [do("set_allocation_domain", tv, axes=[1, 0]) for tv in ("a", "z")]
    for t in after(chain((4, 8), *steps)).tensors[::2]:
        assert t.allocation is not None
        assert [a.extent for a in t.allocation.axes] == [8, 4]


def test_one_flag_of_contiguity_is_of_the_axes_that_hold_data() -> None:
    step = do("set_allocation_domain", "t0", axes="loop", contiguity=False)
    found = after(chain((4, 1), step)).tensor("t0").allocation
    assert found is not None
    assert found.contiguity == (False, None)


@pytest.mark.parametrize(("position", "kept"), [(0, 0), (2, 2), (-1, 2), (-2, 1), (-3, 0)])
def test_separators_count_from_the_end(position: int, kept: int) -> None:
    data = chain((4, 8), do("tmem_dimsep", "t0", position=position), middle=("tensor",))
    assert after(data).tensor("t0").dimsep == kept


@pytest.mark.parametrize(
    ("ids", "equivalent"),
    [
        pytest.param([0, 1, 2], True, id="all-loops"),
        pytest.param([1, 2], False, id="a-piece-is-missing"),
        pytest.param([[2, 0], 2], True, id="what-the-pieces-were-made-from"),
        pytest.param([[2, 0], 0, 1, 2], False, id="an-axis-and-its-pieces"),
        pytest.param([[0, 0], [0, 1]], True, id="the-logical-axes"),
        pytest.param([[1, 0], [1, 1], 2], True, id="pieces-of-before"),
        pytest.param([[1, 0], 2], False, id="one-piece-of-before"),
    ],
)
def test_the_question_whether_axes_are_a_domain(ids: list[Any], equivalent: bool) -> None:
    elsewhere = split("t0", 0, 2)
    steps = [split("z", 0, 4), elsewhere, merge("z", 0), split("z", 0, 3)]
    verdict = judge_document(chain((12, 5), *steps, do("check_domain_equivalence", "z", ids=ids)))
    assert verdict.legal is equivalent
    if not equivalent:
        assert [v.rule for v in verdict.violations] == ["listed_axes_are_equivalent_to_the_logical_domain"]
        assert str(verdict.stage) == "schedule"


def test_more_steps_than_the_tensor_has_are_steps_of_the_schedule() -> None:
    steps = [split("t0", 0, 4), split("t0", 0, 1), split("z", 0, 4), merge("z", 0), split("z", 0, 3)]
    asked = do("check_domain_equivalence", "z", ids=[[4, 0], 2])
    assert judge_document(chain((12, 5), *steps, asked)).legal


def test_broadcast_axes_may_be_left_out_of_a_domain() -> None:
    asked = {"do": "check_domain_equivalence", "ids": [0, 1]}
    assert judge_document(chain((12, 1), split("z", 1, 4), asked)).legal
