"""What NVRTC makes of CUDA source, with both of its code generators: of sm_90 and of sm_100."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.emulate.ptx.flow import flow
from compiler.emulate.ptx.module import LabelRef, Module, StateSpace
from compiler.emulate.ptx.parser import parse
from compiler.nvrtc import CompilePool

SOURCE = Path(__file__).with_name("kitchen_sink.cu").read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=["sm_90a", "sm_100a"])
def compiled(request: pytest.FixtureRequest, pool: CompilePool) -> Module:
    return parse(pool.submit(SOURCE, request.param, ("-lineinfo",)).result().ptx)


def test_the_module(compiled: Module) -> None:
    k = compiled.functions["k"]
    assert compiled.version >= (8, 0)
    assert {n for n, f in compiled.functions.items() if f.is_entry} == {"k"}
    assert not compiled.functions["vprintf"].is_defined
    assert [p.nbytes for p in k.params] == [8, 8, 4, 16]
    assert k.directives["maxntid"][0] == 128
    assert k.directives["reqnctapercluster"] == (2, 1, 1)
    by_name = {v.name: v for v in compiled.variables}
    assert by_name["table"].initial is not None
    assert by_name["words"].initial == bytes([1, 0, 0, 0, 2]) + bytes(15)
    assert [(at, s.name, s.offset) for at, s in by_name["packed_pointer"].relocations] == [(1, "words", 8)]
    assert [at for at, _ in by_name["functions"].relocations] == [0, 8]
    assert by_name["dynamic"].is_extern
    assert {v.space for v in k.variables} >= {StateSpace.SHARED, StateSpace.LOCAL, StateSpace.PARAM}


def test_the_lines_are_those_of_the_source(compiled: Module) -> None:
    lines = SOURCE.splitlines()
    for opcode, needle in [("trap", "__trap"), ("shfl", "__shfl_xor_sync"), ("cp", "cp.async.bulk.tensor")]:
        (insn,) = (i for i in compiled.functions["k"].instructions if i.opcode == opcode)
        assert insn.source is not None
        assert needle in lines[insn.source.line - 1]


def test_the_waits_branch_within_their_own_scopes(compiled: Module) -> None:
    instructions = compiled.functions["k"].instructions
    waits = [k for k, i in enumerate(instructions) if i.name[:2] == ("mbarrier", "try_wait")]
    assert len(waits) == 2
    for at in waits:
        leave, again = (i.operands[0] for i in instructions[at + 1 : at + 3])
        assert isinstance(leave, LabelRef)
        assert isinstance(again, LabelRef)
        assert (leave.target, again.target) == (at + 3, at)


def test_the_flow(compiled: Module) -> None:
    for function in compiled.functions.values():
        graph = flow(function)
        assert sorted(graph.position) == list(range(len(function.instructions)))
        assert graph.maybe_unassigned == frozenset()
