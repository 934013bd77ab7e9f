"""A whole SPEC, and the launches of an artifact, which are read by the same functions.

A SPEC is the `LaunchSpec` of a kernel artifact plus `tensors`. Both ways to write an argument are understood:
`{"tensor": "x"}`, by name, and `{"kind": "tensor", "position": 0}`, by its place among the tensors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TypeVar

from compiler.arch import arch_named
from compiler.emulate.launch import EmulatedTensor, Launch
from compiler.emulate.spec.arguments import declare_inline, read_argument
from compiler.emulate.spec.fields import InvalidSpec, Node, invalid
from compiler.emulate.spec.initial import SpecLayout
from compiler.emulate.spec.tensors import TensorTable
from compiler.errors import Problem

_LIMITS = arch_named("sm_90a")
"""Of a launch: threads, blocks and clusters have the same on every target that has them."""

_TARGET = re.compile(r"sm_\d+[af]?")
_REQUIRED = ("grid", "block", "args")
_OPTIONAL = ("entry", "arch", "cluster", "dynamic_smem", "dynamic_smem_bytes")

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Spec:
    """What is run: `launches` in order over the same `tensors`. `layouts`: those that are reported; scratch is not.

    `entry` and `arch` of a launch are empty where the document leaves them to the PTX (`fitting.fit`).
    """

    launches: tuple[Launch, ...]
    tensors: Mapping[str, EmulatedTensor]
    layouts: Mapping[str, SpecLayout]


def read_spec(document: object, folder: Path) -> Spec:
    """The launch of a SPEC; files that it names are looked up in `folder`. Raises InvalidSpec with every problem."""
    whole = Node(document, "$")
    fields = whole.fields(_REQUIRED, (*_OPTIONAL, "tensors", "scratch"))
    launch = Node({k: v for k, v in whole.value.items() if k not in ("tensors", "scratch")}, "$")
    tensors, scratch = fields.get("tensors", Node({}, "$.tensors")), fields.get("scratch", Node([], "$.scratch"))
    return _read((launch,), tensors, scratch, folder)


def read_launches(launches: Sequence[object], tensors: Mapping[str, object], scratch: Sequence[object]) -> Spec:
    """Several launches over the same tensors and scratch buffers, in the order in which they run. Raises InvalidSpec.

    Each launch is a SPEC without `tensors` and `scratch`, which are given once, in the same form.
    """
    if not launches:
        raise invalid("$.launches", "none", "at least one launch", "Take the artifact anew.")
    given = tuple(Node(launch, f"$.launches[{i}]") for i, launch in enumerate(launches))
    return _read(given, Node(tensors, "$.tensors"), Node(scratch, "$.scratch"), Path())


def _read(launches: tuple[Node, ...], tensors: Node, scratch: Node, folder: Path) -> Spec:
    table = TensorTable(folder)
    every = [launch.fields(_REQUIRED, _OPTIONAL) for launch in launches]
    arguments = [fields["args"].items("arguments") for fields in every]
    inline = [argument for items in arguments for argument in items]
    _each(lambda one: table.declare(Node(one[0], one[1].where), one[1]), tensors.members("tensors").items())
    _each(lambda argument: declare_inline(argument, table), inline)
    _each(table.add_scratch, scratch.items("scratch buffers"))
    made = _each(lambda one: _launch(*one, table), zip(every, arguments, strict=True))
    return Spec(tuple(made), table.tensors, table.layouts)


def _launch(fields: Mapping[str, Node], arguments: tuple[Node, ...], table: TensorTable) -> Launch:
    args = _each(lambda argument: read_argument(argument, table), arguments)
    grid, block = _sizes(fields["grid"], _LIMITS.max_grid), _sizes(fields["block"], _LIMITS.max_block)
    if prod(block) > _LIMITS.max_threads_per_block:
        expected = f"at most {_LIMITS.max_threads_per_block} threads, not {prod(block)}"
        raise fields["block"].fault(expected, "Use smaller blocks and more of them.")
    return Launch(
        entry=fields["entry"].text("the name of a kernel") if "entry" in fields else "",
        arch=_arch(fields["arch"]) if "arch" in fields else "",
        grid=grid,
        block=block,
        args=tuple(args),
        tensors=table.tensors,
        cluster=_cluster(fields["cluster"], grid) if "cluster" in fields else (1, 1, 1),
        dynamic_smem=_dynamic_smem(fields),
    )


def _sizes(node: Node, most: tuple[int, int, int]) -> tuple[int, int, int]:
    items = node.items("integers")
    if len(items) != 3:
        raise node.fault("3 integers: x, y, z", "Write 1 for a dimension that is not used.")
    x, y, z = (item.integer(1, high) for item, high in zip(items, most, strict=True))
    return x, y, z


def _cluster(node: Node, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    cluster = _sizes(node, (_LIMITS.max_cluster,) * 3)
    if prod(cluster) > _LIMITS.max_cluster:
        raise node.fault(f"at most {_LIMITS.max_cluster} blocks, not {prod(cluster)}", "Use smaller clusters.")
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise node.fault(f"sizes that divide the grid {list(grid)}", "Make the grid a multiple of the cluster.")
    return cluster


def _dynamic_smem(fields: Mapping[str, Node]) -> int:
    given = [fields[name] for name in ("dynamic_smem", "dynamic_smem_bytes") if name in fields]
    if len(given) == 2:
        raise given[1].fault("dynamic_smem or dynamic_smem_bytes, not both", "Remove one: they mean the same.")
    return given[0].integer(0, 2**31 - 1) if given else 0


def _arch(node: Node) -> str:
    name = node.text("a compile target").strip().lower()
    if not _TARGET.fullmatch(name):
        raise node.fault("a compile target such as sm_90a or sm_100a", "Correct the name.")
    return name


def _each(read: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """What `read` makes of every item. Raises the problems of all that fail, not only of the first."""
    found: list[T] = []
    problems: list[Problem] = []
    for item in items:
        try:
            found.append(read(item))
        except InvalidSpec as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidSpec(tuple(problems))
    return found
