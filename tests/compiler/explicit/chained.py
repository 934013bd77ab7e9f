"""Two products chained through registers, the core of attention, as explicit schedules.

    for some columns of the scores: scores = left @ middle, weights = cast(relu(scores)), result += weights @ right

A lane holds of the scores what the second product's instruction takes from it of its rows: nothing is exchanged. Warps
make 16 rows each and load all operands (`chained`), or warp groups 64 of operands in shared memory (`chained_groups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.compiler.explicit.cases import Document, case, op, step, tensor

ROWS, COLUMNS, ALONG = 16, 8, 16
"""Of one instruction: rows and columns of its result, and what it sums along."""


class Axes:
    """The loops of one tensor by name, and the steps that cut and order them."""

    def __init__(self, tv: str, *names: str) -> None:
        self.tv, self.names = tv, list(names)
        self.steps: list[Document] = []

    def split(self, name: str, factor: int, outer: str, inner: str) -> None:
        at = self.names.index(name)
        self.steps.append(step(self.tv, "split", axis=at, factor=factor))
        self.names[at : at + 1] = [outer, inner]

    def order(self, names: Sequence[str]) -> None:
        """These first and in this order, the others behind."""
        wanted = [*names, *(name for name in self.names if name not in names)]
        moves = [[self.names.index(name), new] for new, name in enumerate(wanted)]
        self.steps.append(step(self.tv, "reorder", map=moves))
        self.names = wanted

    def threads(self) -> None:
        """8 lines of 4 lanes each."""
        at = self.names.index("line")
        self.steps.append(step(self.tv, "merge", axis=at))
        self.names[at : at + 2] = ["lane"]

    def types(self, types: Mapping[str, str]) -> None:
        for at, name in enumerate(self.names):
            if name in types:
                self.steps.append(step(self.tv, "parallelize", axis=at, type=types[name]))


def _rows(a: Axes) -> None:
    """Rows of a fragment: two halves of 8 lines."""
    a.split("m", ROWS, "block", "m")
    a.split("m", 8, "half", "line")


def _columns(a: Axes, name: str) -> None:
    """Columns of a result: pieces of 8, of which a lane has a pair."""
    a.split(name, COLUMNS, "piece", name)
    a.split(name, 2, "pair", "side")


def _along(a: Axes, name: str, turn: str) -> None:
    """What an operand is summed along, 16 a turn: a lane has a pair of each half."""
    a.split(name, ALONG, turn, name)
    a.split(name, COLUMNS, "piece", name)
    a.split(name, 2, "pair", "side")


def _result(a: Axes, outer: Sequence[str], inner: Sequence[str], types: Mapping[str, str]) -> None:
    a.order([*outer, "line", "pair", *inner])
    a.threads()
    a.types({"block": "BIDx", "lane": "TIDx", **types})


UNROLLED = dict.fromkeys(("piece", "half", "side", "of_right", "step"), "Unroll")
INSTRUCTION = {"half": "Mma", "side": "Mma"}


def chained(rows: int, middle: int, along: int, columns: int, *, exchanged: bool = False) -> Document:
    """[rows, along] @ [along, middle], relu, @ [middle, columns]; the second operands lie with what is summed
    innermost. `exchanged`: halves and pieces of the weights stand the other way round in registers."""
    made = [
        op("set", "x_r", "x"),
        op("set", "w_r", "w"),
        op("matmul", "scores", "x_r", "w_r"),
        op("relu", "positive", "scores"),
        op("cast", "weights", "positive"),
        op("broadcast", "operand", "weights", broadcast_flags=[False, True, False]),
        op("set", "u_r", "u"),
        op("matmul", "sums", "operand", "u_r"),
        op("set", "y", "sums"),
    ]
    bf16 = {"dtype": "bfloat16"}
    tensors = {
        "x": tensor(rows, middle, along, broadcast_axes=[1], **bf16),
        "w": tensor(rows, middle, along, broadcast_axes=[0], **bf16),
        "u": tensor(rows, columns, middle, broadcast_axes=[0], **bf16),
        "x_r": tensor(rows, middle, along, memory="local", broadcast_axes=[1], **bf16),
        "w_r": tensor(rows, middle, along, memory="local", broadcast_axes=[0], **bf16),
        "scores": tensor(rows, middle, along, memory="local", reduction_axes=[2]),
        "positive": tensor(rows, middle, memory="local"),
        "weights": tensor(rows, middle, memory="local", **bf16),
        "operand": tensor(rows, columns, middle, memory="local", broadcast_axes=[1], **bf16),
        "u_r": tensor(rows, columns, middle, memory="local", broadcast_axes=[0], **bf16),
        "sums": tensor(rows, columns, middle, memory="local", reduction_axes=[2]),
        "y": tensor(rows, columns),
    }
    steps = [s for a in _schedules(exchanged=exchanged) for s in a.steps]
    depths = {"scores": 2, "positive": 2, "weights": 2, "operand": 2, "u_r": 2, "w_r": 3}
    steps += [step(name, "inline_at", position=depth) for name, depth in depths.items()]
    return case("chained products", tensors, made, *steps)


def _schedules(*, exchanged: bool) -> list[Axes]:
    return [
        *_of_results(),
        *_of_operands(),
        *_between(("half", "piece") if exchanged else ("piece", "half")),
    ]


def _of_results() -> list[Axes]:
    """[block, turn, step, lane, pieces, half, side, along] of the products, and what is stored."""
    scores, sums, y = Axes("scores", "m", "n", "k"), Axes("sums", "m", "e", "n"), Axes("y", "m", "e")
    for a in (scores, sums, y):
        _rows(a)
    scores.split("n", ALONG, "turn", "n")
    _columns(scores, "n")
    scores.split("k", ALONG, "step", "k")
    _result(scores, ("block", "turn", "step"), ("piece", "half", "side", "k"), UNROLLED | INSTRUCTION | {"k": "Mma"})
    _columns(sums, "e")
    sums.split("n", ALONG, "turn", "n")
    _result(sums, ("block", "turn"), ("piece", "half", "side", "n"), UNROLLED | INSTRUCTION | {"n": "Mma"})
    _columns(y, "e")
    _result(y, ("block",), ("piece", "half", "side"), UNROLLED | {"side": "Vectorize"})
    return [scores, sums, y]


def _of_operands() -> list[Axes]:
    """Fragments that lanes load from global memory."""
    x, w, u = Axes("x_r", "m", "one", "k"), Axes("w_r", "one", "n", "k"), Axes("u_r", "one", "e", "n")
    loaded = UNROLLED | {"side": "Vectorize"}
    _rows(x)
    _along(x, "k", "step")
    _result(x, ("block", "step"), ("piece", "half", "side"), loaded)
    w.split("one", ROWS, "block", "one")
    w.split("n", ALONG, "turn", "n")
    w.split("n", COLUMNS, "of_right", "line")
    _along(w, "k", "step")
    _result(w, ("block", "turn", "step"), ("of_right", "piece", "side"), loaded)
    u.split("one", ROWS, "block", "one")
    u.split("e", COLUMNS, "of_right", "line")
    _along(u, "n", "turn")
    _result(u, ("block", "turn"), ("of_right", "piece", "side"), loaded)
    return [x, w, u]


def _between(held: tuple[str, str]) -> list[Axes]:
    """What is made of the scores, as these lie, and, where `held` says so, otherwise for the second product."""
    found = []
    for name in ("positive", "weights", "operand"):
        a = Axes(name, "m", "one", "n") if name == "operand" else Axes(name, "m", "n")
        _rows(a)
        _along(a, "n", "turn")
        _result(a, ("block", "turn"), (*(held if name == "operand" else ("piece", "half")), "side"), UNROLLED)
        found.append(a)
    return found


GROUP_ROWS, WARP_ROWS, TILE = 64, 16, 64
"""Of a warp group and of a warp; columns of the scores at a time, one line of 128 bytes of 16-bit elements."""


def chained_groups(rows: int, middle: int, along: int, columns: int, *, exchanged: bool = False) -> Document:
    """The same by warp groups: tiles of all three inputs come by the copy engine, and only the scores are held."""
    made = [
        op("set", "x_s", "x", via="tma"),
        op("set", "w_s", "w", via="tma"),
        op("matmul", "scores", "x_s", "w_s"),
        op("relu", "positive", "scores"),
        op("cast", "weights", "positive"),
        op("broadcast", "operand", "weights", broadcast_flags=[False, True, False]),
        op("set", "u_s", "u", via="tma"),
        op("matmul", "sums", "operand", "u_s"),
        op("set", "y", "sums"),
    ]
    bf16 = {"dtype": "bfloat16"}
    shared = {"memory": "shared", **bf16}
    tensors = {
        "x": tensor(rows, middle, along, broadcast_axes=[1], **bf16),
        "w": tensor(rows, middle, along, broadcast_axes=[0], **bf16),
        "u": tensor(rows, columns, middle, broadcast_axes=[0], **bf16),
        "x_s": tensor(rows, middle, along, broadcast_axes=[1], **shared),
        "w_s": tensor(rows, middle, along, broadcast_axes=[0], **shared),
        "scores": tensor(rows, middle, along, memory="local", reduction_axes=[2]),
        "positive": tensor(rows, middle, memory="local"),
        "weights": tensor(rows, middle, memory="local", **bf16),
        "operand": tensor(rows, columns, middle, memory="local", broadcast_axes=[1], **bf16),
        "u_s": tensor(rows, columns, middle, broadcast_axes=[0], **shared),
        "sums": tensor(rows, columns, middle, memory="local", reduction_axes=[2]),
        "y": tensor(rows, columns),
    }
    held = ("half", "piece") if exchanged else ("piece", "half")
    schedules = [*_of_group_results(), *_of_tiles(), *_held_between(held)]
    steps = [s for a in schedules for s in a.steps]
    depths = {"x_s": 1, "w_s": 2, "scores": 2, "positive": 2, "weights": 2, "operand": 2, "u_s": 2}
    steps += [step(name, "inline_at", position=depth) for name, depth in depths.items()]
    return case("products chained by warp groups", tensors, made, *steps)


def _group_rows(a: Axes) -> None:
    a.split("m", GROUP_ROWS, "block", "m")
    a.split("m", WARP_ROWS, "warp", "m")
    a.split("m", 8, "half", "line")


def _of_group(a: Axes, outer: Sequence[str], inner: Sequence[str], types: Mapping[str, str]) -> None:
    a.order([*outer, "warp", "line", "pair", *inner])
    at = a.names.index("warp")
    a.steps += [step(a.tv, "merge", axis=at)] * 2
    a.names[at : at + 3] = ["lane"]
    a.types({"block": "BIDx", "lane": "TIDx", **types})


def _of_group_results() -> list[Axes]:
    """[block, turn, lane, steps along, pieces, half, side, along] of the products, and what is stored."""
    scores, sums, y = Axes("scores", "m", "n", "k"), Axes("sums", "m", "e", "n"), Axes("y", "m", "e")
    asked = {"step": "Unroll", **dict.fromkeys(("of_right", "piece", "half", "side", "along"), "Mma")}
    for a in (scores, sums, y):
        _group_rows(a)
    scores.split("n", TILE, "turn", "n")
    _along(scores, "n", "of_right")
    scores.split("k", ALONG, "step", "along")
    _of_group(scores, ("block", "turn"), ("step", "of_right", "piece", "half", "side", "along"), asked)
    _columns(sums, "e")
    sums.split("n", TILE, "turn", "n")
    sums.split("n", ALONG, "step", "along")
    _of_group(sums, ("block", "turn"), ("step", "piece", "half", "side", "along"), asked)
    _columns(y, "e")
    _of_group(y, ("block",), ("piece", "half", "side"), UNROLLED | {"side": "Vectorize"})
    return [scores, sums, y]


def _of_tiles() -> list[Axes]:
    """[block, turn, the other's, boxes, rows of a box, line] of what the copy engine brings: swizzled lines."""
    x, w, u = Axes("x_s", "m", "one", "k"), Axes("w_s", "one", "n", "k"), Axes("u_s", "one", "e", "n")
    x.split("m", GROUP_ROWS, "block", "m")
    x.split("k", TILE, "box", "k")
    _swizzled(x, ("block", "one", "box", "m", "k"))
    w.split("one", GROUP_ROWS, "block", "one")
    w.split("n", TILE, "turn", "n")
    w.split("k", TILE, "box", "k")
    _swizzled(w, ("block", "turn", "one", "box", "n", "k"))
    u.split("one", GROUP_ROWS, "block", "one")
    u.split("n", TILE, "turn", "n")
    _swizzled(u, ("block", "turn", "one", "e", "n"))
    return [x, w, u]


def _swizzled(a: Axes, names: Sequence[str], piece: int = 8) -> None:
    """`piece`: elements of 16 bytes."""
    a.order(names)
    a.types({"block": "BIDx", "box": "Unroll", names[-2]: "Bulk", names[-1]: "Bulk"})
    at = len(names) - 2
    transforms = [
        {"do": "split", "axis": at + 1, "factor": piece},
        {"do": "split", "axis": at, "factor": 8},
        {"do": "swizzle", "axes": [at + 1, at + 2]},
    ]
    a.steps.append(step(a.tv, "set_allocation_domain", axes=list(range(at + 2)), transforms=transforms))


def _held_between(held: tuple[str, str]) -> list[Axes]:
    """What is made of the scores, as these lie, and, where `held` says so, otherwise for the second product."""
    found = []
    for name in ("positive", "weights", "operand"):
        a = Axes(name, "m", "one", "n") if name == "operand" else Axes(name, "m", "n")
        _group_rows(a)
        a.split("n", TILE, "turn", "n")
        _along(a, "n", "step")
        pieces = held if name == "operand" else ("piece", "half")
        _of_group(a, ("block", "turn"), ("step", *pieces, "side"), UNROLLED)
        found.append(a)
    return found


def rows_held(dtype: str, nbytes: int, summed: str, *, columns_held: bool = False) -> Document:
    """[64, k] @ [k, 16] by one warp group that loads its rows' fragments itself. `nbytes`: of an element; `summed`:
    what sums are made in. `columns_held`: the columns' operand is in registers too."""
    rows, columns, along = GROUP_ROWS, 16, 128 // nbytes
    of = {"dtype": dtype}
    place = {"memory": "local" if columns_held else "shared"}
    tensors = {
        "x": tensor(rows, columns, along, broadcast_axes=[1], **of),
        "w": tensor(rows, columns, along, broadcast_axes=[0], **of),
        "x_r": tensor(rows, columns, along, memory="shared" if columns_held else "local", broadcast_axes=[1], **of),
        "w_s": tensor(rows, columns, along, broadcast_axes=[0], **place, **of),
        "sums": tensor(rows, columns, along, memory="local", dtype=summed, reduction_axes=[2]),
        "y": tensor(rows, columns, dtype=summed),
    }
    brought = {} if columns_held else {"via": "tma"}
    made = [
        op("set", "x_r", "x"),
        op("set", "w_s", "w", **brought),
        op("matmul", "sums", "x_r", "w_s"),
        op("set", "y", "sums"),
    ]
    x, w = Axes("x_r", "m", "one", "k"), Axes("w_s", "one", "n", "k")
    sums, y = Axes("sums", "m", "n", "k"), Axes("y", "m", "n")
    for a in (x, sums, y):
        _group_rows(a)
    turn = 32 // nbytes
    x.split("k", turn, "step", "k")
    x.split("k", turn // 2, "piece", "k")
    x.split("k", 4 // nbytes, "pair", "side")
    _of_group(x, ("block", "step"), ("piece", "half", "side"), UNROLLED)
    _columns(sums, "n")
    sums.split("k", turn, "step", "along")
    asked = {"step": "Unroll", **dict.fromkeys(("piece", "half", "side", "along"), "Mma")}
    _of_group(sums, ("block",), ("step", "piece", "half", "side", "along"), asked)
    _columns(y, "n")
    _of_group(y, ("block",), ("piece", "half", "side"), UNROLLED | {"side": "Vectorize"})
    w.split("one", GROUP_ROWS, "block", "one")
    if columns_held:
        w.order(["block", "one", "n", "k"])
        w.types({"block": "BIDx", "n": "Unroll", "k": "Unroll"})
    else:
        _swizzled(w, ("block", "one", "n", "k"), 16 // nbytes)
    steps = [s for a in (x, w, sums, y) for s in a.steps]
    steps += [step(name, "inline_at", position=1) for name in ("x_r", "w_s", "sums")]
    return case("rows held by a warp group", tensors, made, *steps)
