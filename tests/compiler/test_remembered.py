"""What is remembered across verdicts changes none: not after other schedules, not from several threads at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from compiler.analysis.id.graph import MOST_TENSORS, id_graph
from compiler.ir.domain import ScheduledFusion
from compiler.ir.form import Form, form_of
from compiler.ir.iter_domain import ParallelType
from compiler.ir.remembered import KNOWN, forget
from compiler.schedule.apply import apply
from compiler.schedule.explicit import read_start
from compiler.schedule.steps import Split
from compiler.verdict import Verdict, judge_document
from tests.compiler.documents import CASES, COPY

Document = dict[str, Any]
DTYPES = {"float32": "float16", "float16": "float64", "float64": "float32"}


def variants(case: Document, rng: random.Random) -> Iterator[Document]:
    """The case, and others of the same names that are nearly the same: fewer steps, elements of another size."""
    yield case
    yield {**case, "schedule": case["schedule"][:-1]}
    yield {**case, "schedule": case["schedule"][: rng.randrange(len(case["schedule"]) + 1)]}
    tensors = {
        name: {**t, "dtype": DTYPES.get(t["dtype"], t["dtype"])} if "dtype" in t else t
        for name, t in case["tensors"].items()
    }
    yield {**case, "tensors": tensors}


@pytest.fixture(scope="module")
def judged() -> list[tuple[Document, Verdict]]:
    """Documents in random order, each with its verdict where nothing was known."""
    rng = random.Random(11)
    documents = [v for case in CASES for v in variants(case, rng)]
    rng.shuffle(documents)
    found = []
    for document in documents:
        forget()
        found.append((document, judge_document(document)))
    return found


def test_verdicts_are_those_without_memory(judged: list[tuple[Document, Verdict]]) -> None:
    forget()
    for document, verdict in judged:
        assert judge_document(document) == verdict
    # What was judged last is known best.
    for document, verdict in judged[-40:]:
        assert judge_document(document) == verdict
    assert all(known.cache_info().hits for known in KNOWN if known.cache_info().misses)


def test_verdicts_are_the_same_from_several_threads(judged: list[tuple[Document, Verdict]]) -> None:
    forget()
    chosen = judged[::4]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(judge_document, [document for document, _ in chosen for _ in range(3)]))
    assert found == [verdict for _, verdict in chosen for _ in range(3)]


def test_what_is_known_is_bounded(judged: list[tuple[Document, Verdict]]) -> None:
    for document, _ in judged:
        judge_document(document)
    for known in KNOWN:
        most = known.cache_info().maxsize
        assert most is not None
        assert known.cache_info().currsize <= most <= 1 << 14, known
    forget()
    assert not any(known.cache_info().currsize for known in KNOWN)


def copied() -> ScheduledFusion:
    return read_start(COPY)


def test_a_form_is_how_axes_were_made() -> None:
    t = copied().tensor("tv1")
    assert form_of(replace(t, compute_at=1, types=(ParallelType.BIDX,) * 2)) == form_of(t)
    cut = apply(copied(), Split("tv1", 0, 4)).tensor("tv1")
    assert form_of(cut) != form_of(t)
    assert form_of(t) != Form(t.logical, t.loop, t.exprs, None) == form_of(replace(t, allocation=None))


def test_fusions_whose_axes_were_made_alike_have_one_graph() -> None:
    sf = copied()
    t = sf.tensor("tv1")
    graph = id_graph(sf)
    assert id_graph(sf.with_tensor(replace(t, compute_at=1))) is graph
    other = id_graph(apply(sf, Split("tv1", 0, 4)))
    assert other is not graph
    assert other != graph
    forget()
    assert id_graph(sf) != graph


def test_the_graph_of_a_large_fusion_is_not_kept() -> None:
    names = [f"t{i}" for i in range(MOST_TENSORS + 1)]
    made = {
        "tensors": {name: {"shape": [4], "dtype": "float32", "memory": "global"} for name in names},
        "ops": [{"op": "set", "in": [a], "out": b} for a, b in pairwise(names)],
        "inputs": names[:1],
        "outputs": names[-1:],
    }
    sf = read_start(made)
    assert id_graph(sf) is not id_graph(sf)
