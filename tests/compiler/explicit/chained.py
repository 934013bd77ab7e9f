"""Two products chained through registers, the core of attention, as an explicit schedule: warps make 16 rows each.

    for 16 columns of the scores: scores = left @ middle, weights = cast(relu(scores)), result += weights @ right

A lane holds of the scores what the second product's instruction takes from it of its rows: nothing is exchanged.
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
