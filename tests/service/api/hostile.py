"""Bodies that nobody means well: documents that were right before something was done to them, and bytes."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.service.api.world import ADD, BINDING, REQUEST

CHAIN = [{"op": "exp", "in": ["x" if n == 0 else f"t{n - 1}"], "out": f"t{n}"} for n in range(255)]
DOUBLING = [
    {"op": "cat", "in": ["x" if n == 0 else f"t{n - 1}"] * 2, "dim": 0, "out": f"t{n}"} for n in range(60)
]  # fmt: skip


def _fusion(ops: list[dict[str, Any]], out: str, shape: Sequence[int | str] = ("M", 64)) -> dict[str, Any]:
    return {
        "format": "fusetune.fusion/1", "inputs": [{"name": "x", "shape": list(shape), "dtype": "f32"}], "ops": ops,
        "outputs": [{"name": out}],
    }  # fmt: skip


SCHEDULES: list[dict[str, Any]] = [
    {
        "name": "copy",
        "tensors": [{"name": "T0", "shape": [1024], "dtype": "f32"}],
        "steps": [{"op": "split", "tensor": "T0", "axis": 0, "factor": 128}],
    }
]

GOOD: dict[str, list[Any]] = {
    "/v1/tunings": [
        REQUEST,
        {**REQUEST, "accept": {"correct": ["verified_on_gpu"], "time": ["measured"]}, "budget_s": 5, "trials": 3},
        {"fusion": _fusion(CHAIN, "t254"), "binding": BINDING},
        {"fusion": _fusion(DOUBLING, "t59"), "binding": BINDING},
        {"fusion": _fusion([{"op": "sum", "in": ["x"], "dims": [1], "out": "s"}], "s"), "binding": BINDING},
        {
            "fusion": _fusion([{"op": "reshape", "in": ["x"], "shape": [-1, 8], "out": "r"}], "r"),
            "binding": {"sizes": {"M": 128}, "inputs": [{"strides": [64, 1], "align": 16}]},
        },
    ],
    "/v1/spaces": [REQUEST, {**REQUEST, "samples": 3, "seed": 1}],
    "/v1/kernels/lookup": [{"keys": [{"fingerprint": "0" * 64, "binding": "1" * 64, "card": "H200"}] * 3}],
    "/v1/schedules/check": [SCHEDULES, {"cases": SCHEDULES}, ADD],
}
"""For each path documents to begin with; not all of them are right, but each is near to it."""

SCALARS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 10**30, 10**400, 0.1, -0.0, 1e308, 5e-324,
    "", "x", "M", "M*M", "M" * 5000, "\u0000", "\u202e", "é" * 300, "__class__", "{{7*7}}", "${jndi:x}", "../../etc",
    "'; DROP TABLE tunings; --", "f32", "nan", "inf", [], {}, [[]], [None], {"": {}}, [1] * 2000, ["x"] * 300,
)  # fmt: skip


def _places(document: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a document, its root last."""
    inner: list[tuple[str | int, ...]] = []
    if isinstance(document, dict):
        inner = [place for key, value in document.items() for place in _places(value, (*at, key))]
    elif isinstance(document, list):
        inner = [place for n, value in enumerate(document[:40]) for place in _places(value, (*at, n))]
    return [*inner, at]


def _in(document: Any, place: tuple[str | int, ...]) -> Any:
    for step in place:
        document = document[step]
    return document


def _scalar(draw: random.Random) -> Any:
    return copy.deepcopy(draw.choice(SCALARS))  # what is done to it afterwards is done to this document alone


def _set(draw: random.Random, document: Any) -> Any:
    """Some place holds something else."""
    place = draw.choice(_places(document))
    if not place:
        return _scalar(draw)
    _in(document, place[:-1])[place[-1]] = _scalar(draw)
    return document


def _exchanged(draw: random.Random, document: Any) -> Any:
    """One part stands where another belongs."""
    places = _places(document)
    part, place = json.loads(json.dumps(_in(document, draw.choice(places)))), draw.choice(places)
    if not place:
        return [part]
    _in(document, place[:-1])[place[-1]] = part
    return document


def _without(draw: random.Random, document: Any) -> Any:
    """A field or an element is gone."""
    place = draw.choice(_places(document))
    if place:
        del _in(document, place[:-1])[place[-1]]
    return document


def _more(draw: random.Random, document: Any) -> Any:
    """A field more, or an element again, many times perhaps."""
    holders = [place for place in _places(document) if isinstance(_in(document, place), dict | list)]
    if not holders:
        return [document]
    holder = _in(document, draw.choice(holders))
    if isinstance(holder, dict):
        holder[draw.choice(["extra", "op", "shape", "__proto__", "", "é"])] = _scalar(draw)
    elif holder:
        holder.extend(copy.deepcopy(draw.choice(holder)) for _ in range(draw.choice([1, 2, 64, 500])))
    return document


CHANGES: tuple[Callable[[random.Random, Any], Any], ...] = (_set, _set, _set, _exchanged, _without, _more)


def _deep(depth: int) -> bytes:
    return b'{"fusion":' * depth + b"1" + b"}" * depth


def _repeated(draw: random.Random, text: str) -> bytes:
    """A field that stands twice, the second time with something else."""
    at = text.find("{") + 1
    return f'{text[:at]}"fusion": {json.dumps(_scalar(draw))}, {text[at:]}'.encode()


def _flipped(draw: random.Random, content: bytes) -> bytes:
    """A few bytes are others."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def _spoiled(draw: random.Random, text: str) -> bytes:
    """What is no JSON any more, or no text."""
    content = text.encode()
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: content[: draw.randrange(len(content))],
        lambda: _flipped(draw, content),
        lambda: _repeated(draw, text),
        lambda: content + content,
        lambda: b"\xef\xbb\xbf" + content,
        lambda: text.encode("utf-16"),
        lambda: gzip.compress(content, mtime=0),
        lambda: _deep(draw.choice([30, 300, 30_000])),
        lambda: draw.randbytes(draw.randint(1, 400)),
        lambda: text.replace("1", draw.choice(["NaN", "-Infinity", "1e999", "0x1", "01", "1" * 5000])).encode(),
        lambda: text.replace('"f32"', '"\\ud800"').encode(),
    )
    return draw.choice(ways)()


def body(seed: int) -> tuple[str, bytes]:
    """A path, and a body for it."""
    draw = random.Random(seed)
    path = draw.choice(list(GOOD))
    document = json.loads(json.dumps(draw.choice(GOOD[path])))
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        document = draw.choice(CHANGES)(draw, document)
    text = json.dumps(document, allow_nan=True)
    return path, _spoiled(draw, text) if draw.random() < 0.25 else text.encode()
