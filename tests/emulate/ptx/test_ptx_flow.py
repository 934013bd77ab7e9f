"""Control flow: the order of positions, blocks, registers without a value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.emulate.ptx import nesting
from compiler.emulate.ptx.assignment import computes, copies, destinations, sources
from compiler.emulate.ptx.flow import flow
from tests.emulate.ptx.pieces import instruction, kernel

IF_ELSE = "@%p1 bra ELSE; mov.b32 %r1, 1; bra JOIN; ELSE: mov.b32 %r1, 2; JOIN: ret;"
LOOP_BELOW_ITS_EXIT = "bra HEAD; OUT: ret; HEAD: @%p1 bra OUT; mov.b32 %r1, 1; bra HEAD;"
CONTINUE = "HEAD: @%p1 bra NEXT; mov.b32 %r1, 1; @%p2 bra OUT; NEXT: @%p3 bra HEAD; OUT: ret;"
IRREDUCIBLE = "@%p1 bra B; A: mov.b32 %r1, 1; @%p2 bra OUT; B: mov.b32 %r1, 2; bra A; OUT: ret;"
SWITCH = "T: .branchtargets ONE, TWO, OUT; brx.idx %r1, T; TWO: mov.b32 %r1, 2; bra OUT; ONE: mov.b32 %r1, 1; OUT: ret;"
SPIN = "WAIT: @%p1 bra DONE; bra WAIT; DONE: ret;"


@pytest.mark.parametrize(
    ("body", "in_order"),
    [
        ("mov.b32 %r1, 1; ret;", [0, 1]),
        (IF_ELSE, [0, 1, 2, 3, 4]),
        (LOOP_BELOW_ITS_EXIT, [0, 2, 3, 4, 1]),
        (CONTINUE, [0, 1, 2, 3, 4]),
        (IRREDUCIBLE, [0, 1, 2, 3, 4, 5]),
        (SWITCH, [0, 1, 2, 3, 4]),
        (SPIN, [0, 1, 2]),
        ("bra OUT; mov.b32 %r1, 1; OUT: ret;", [0, 1, 2]),
    ],
)
def test_the_order_in_which_lanes_run(body: str, in_order: list[int]) -> None:
    position = flow(kernel(body)).position
    assert sorted(range(len(position)), key=position.__getitem__) == in_order


@pytest.mark.parametrize(
    ("body", "leaders", "successors"),
    [
        (IF_ELSE, [0, 1, 3, 4], [(1, 2), (3,), (3,), ()]),
        (SWITCH, [0, 1, 3, 4], [(2, 1, 3), (3,), (3,), ()]),
        (SPIN, [0, 1, 2], [(1, 2), (0,), ()]),
        ("@%p1 ret; @%p2 trap; exit; mov.b32 %r1, 1; ret;", [0, 1, 2, 3], [(1,), (2,), (), ()]),
        ("T: .branchtargets OUT, OUT; @%p1 brx.idx %r1, T; bar.sync 0; OUT: ret;", [0, 1, 2], [(1, 2), (2,), ()]),
    ],
)
def test_blocks(body: str, leaders: list[int], successors: list[tuple[int, ...]]) -> None:
    graph = flow(kernel(body))
    assert sorted(graph.leaders) == [b.start for b in graph.blocks] == leaders
    assert list(graph.successors) == successors


GRAPHS = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3, unique=True), min_size=n, max_size=n)
)


def reach(graph: list[list[int]], start: int, within: set[int]) -> set[int]:
    """The nodes that a path of at least one edge leads to from `start`, through nodes of `within`."""
    found: set[int] = set()
    work = [start]
    while work:
        for node in graph[work.pop()]:
            if node in within and node not in found:
                found.add(node)
                work.append(node)
    return found


@given(GRAPHS)
def test_edges_go_forward_unless_they_close_a_loop(graph: list[list[int]]) -> None:
    order = nesting.order(graph)
    assert sorted(order) == list(range(len(graph)))
    rank = {node: k for k, node in enumerate(order)}
    for node, successors in enumerate(graph):
        for successor in successors:
            if rank[successor] <= rank[node]:
                # Its target is the header of a loop: it leads to its source through what comes after the header.
                assert node == successor or node in reach(graph, successor, set(order[rank[successor] :]))


@given(GRAPHS)
def test_outermost_loops_are_contiguous_and_come_before_what_they_lead_to(graph: list[list[int]]) -> None:
    order = nesting.order(graph)
    rank = {node: k for k, node in enumerate(order)}
    everything = set(range(len(graph)))
    reached = [reach(graph, node, everything) for node in range(len(graph))]
    for node in everything:
        loop = {n for n in reached[node] if node in reached[n]} | {node}
        ranks = sorted(rank[n] for n in loop)
        assert ranks == list(range(ranks[0], ranks[0] + len(loop)))
        assert all(rank[n] > ranks[-1] for n in reached[node] - loop)


@given(st.lists(st.sampled_from(["@%p1 bra L{};", "bra L{};", "mov.b32 %r1, 1;", "ret;", "L{}:"]), max_size=14))
def test_positions_are_a_permutation(pieces: list[str]) -> None:
    labels = sum(p.startswith("L") for p in pieces)
    lines, label = [], 0
    for k, piece in enumerate(pieces):
        if piece.startswith("L"):
            lines.append(piece.format(label))
            label += 1
        elif "bra" not in piece:
            lines.append(piece)
        elif labels:
            lines.append(piece.format(k % labels))
    function = kernel(" ".join(lines))
    graph = flow(function)
    assert sorted(graph.position) == list(range(len(function.instructions)))
    assert [k for block in graph.blocks for k in block] == list(range(len(function.instructions)))


def test_a_deep_nest_of_loops_is_ordered_without_recursion() -> None:
    depth = 300
    body = "".join(f"L{k}: " for k in range(depth)) + "mov.b32 %r1, 1; "
    body += "".join(f"@%p1 bra L{depth - 1 - k}; M{k}: " for k in range(depth)) + "ret;"
    position = flow(kernel(body)).position
    assert list(position) == list(range(depth + 2))


@pytest.mark.parametrize(
    ("written", "writes", "reads"),
    [
        ("add.s32 %r1, %r2, %r3", "%r1", "%r2 %r3"),
        ("@!q add.s32 %r1, %r1, 4", "%r1", "q %r1"),
        ("ld.global.v2.b32 {%r1, _}, [%rd1+4]", "%r1", "%rd1"),
        ("st.global.b32 [%rd1], %r1", "", "%rd1 %r1"),
        ("red.global.add.u32 [%rd1], %r1", "", "%rd1 %r1"),
        (
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%r1], %r2, [%r3]",
            "",
            "%r1 %r2 %r3",
        ),
        ("redux.sync.add.s32 %r1, %r2, -1", "%r1", "%r2"),
        ("atom.global.add.u32 %r1, [%rd1], %r2", "%r1", "%rd1 %r2"),
        ("shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1", "%r1 %p1", "%r2"),
        ("mov.b64 {%r1, %r2}, %rd1", "%r1 %r2", "%rd1"),
        ("setp.lt.and.s32 %p1|%p2, %r1, 0, !q", "%p1 %p2", "%r1 q"),
        ("bar.sync %r1, %r2", "", "%r1 %r2"),
        ("barrier.cta.red.popc.u32 %r1, 0, q", "%r1", "q"),
        ("bar.warp.sync %r1", "", "%r1"),
        ("nanosleep.u32 %r1", "", "%r1"),
        ("cp.async.bulk.commit_group", "", ""),
        ("cp.async.wait_group 0", "", ""),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2", "", "%r1 %rd1 %r2"),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], [%r3]", "", "%rd1 %r1 %r2 %r3"),
        ("mbarrier.init.shared::cta.b64 [%r1], %r2", "", "%r1 %r2"),
        ("mbarrier.arrive.shared::cta.b64 %rd1, [%r1]", "%rd1", "%r1"),
        ("mbarrier.arrive.shared::cluster.b64 _, [%r1]", "", "%r1"),
        ("mbarrier.try_wait.parity.shared::cta.b64 q, [%r1], %r2", "q", "%r1 %r2"),
        ("elect.sync %r1|q, -1", "%r1 q", ""),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3]", "%r1 %r2", "%r3"),
        ("tcgen05.st.sync.aligned.32x32b.x2.b32 [%r3], {%r1, %r2}", "", "%r3 %r1 %r2"),
        ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, %r2", "", "%r1 %r2"),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1}, %rd1, %rd2, q, 1, 1, 0, 0",
            "%f0 %f1",
            "%f0 %f1 %rd1 %rd2 q",
        ),
        ("wgmma.wait_group.sync.aligned 0", "", ""),
        ("setmaxnreg.inc.sync.aligned.u32 %r1", "", "%r1"),
        ("call (tile), tile, (%r1)", "", "%r1"),
    ],
)
def test_what_an_instruction_writes_and_reads(written: str, writes: str, reads: str) -> None:
    insn = instruction(f"{written};")
    assert " ".join(r.name for r in destinations(insn)) == writes
    assert " ".join(r.name for r in sources(insn)) == reads


@pytest.mark.parametrize(
    ("name", "expected"),
    [("mov.b32 %r1, %r2", "copies"), ("selp.b32 %r1, %r2, 0, q", "copies"), ("add.s32 %r1, %r2, 0", "computes"),
     ("ld.global.b32 %r1, [%rd1]", ""), ("shfl.sync.idx.b32 %r1, %r2, 0, 31, -1", ""), ("bar.sync 0", "")],
)  # fmt: skip
def test_instructions_that_only_compute(name: str, expected: str) -> None:
    insn = instruction(f"{name};")
    assert (computes(insn), copies(insn)) == (expected != "", expected == "copies")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mov.b32 %r1, 1; st.shared.b32 [tile], %r1;", ""),
        ("st.shared.b32 [tile], %r1;", "%r1"),
        ("st.shared.b32 [%r1], %r2;", "%r1 %r2"),
        ("@%p1 bra L; L: ret;", "%p1"),
        ("mov.b32 a, 1; @%p1 bra L; mov.b32 %r1, 1; L: st.shared.b32 [a], %r1;", "%p1 %r1"),
        ("mov.b32 a, 1; @%p1 bra L; mov.b32 %r1, 1; bra M; L: mov.b32 %r1, 2; M: st.shared.b32 [a], %r1;", "%p1"),
        ("setp.eq.s32 q, 1, 1; @q mov.b32 a, 1; st.shared.b32 [tile], a;", "a"),
        ("setp.eq.s32 q, 1, 1; mov.b32 a, 0; @q mov.b32 a, 1; st.shared.b32 [tile], a;", ""),
        # before the first round of a loop, and not after it
        ("setp.eq.s32 q, 1, 1; L: st.shared.b32 [tile], a; mov.b32 a, 1; @q bra L;", "a"),
        ("setp.eq.s32 q, 1, 1; L: mov.b32 a, 1; @q bra L; st.shared.b32 [tile], a;", ""),
        # what has no value goes on through instructions that compute
        ("mov.b32 a, %r1; add.s32 %r2, a, 1; st.shared.b32 [tile], %r2;", "%r1 a %r2"),
        ("ld.shared.b32 a, [%r1]; st.shared.b32 [tile], a;", "%r1"),
        ("mov.b32 a, 1; mov.b32 a, %r1; st.shared.b32 [tile], a;", "a %r1"),
        ("mov.b32 a, %r1; mov.b32 a, 1; st.shared.b32 [tile], a;", "%r1"),
        ("setp.eq.s32 q, 1, 1; mov.b32 a, 1; @q mov.b32 a, %r1; st.shared.b32 [tile], a;", "a %r1"),
        # nothing reaches it
        ("bra L; st.shared.b32 [tile], a; L: ret;", ""),
    ],
)
def test_registers_that_may_have_no_value(body: str, expected: str) -> None:
    function = kernel(body)
    found = flow(function).maybe_unassigned
    assert {r.name for r in function.registers if r.index in found} == set(expected.split())
