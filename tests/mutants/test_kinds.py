"""Kinds of mutants: many, told apart by their names, and each changes a kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compiler.lower.kernel_ir import Kernel
from tests.mutants.fast import NAMES
from tests.mutants.judging import subject
from tests.mutants.kinds import order
from tests.mutants.kinds.kind import Kind
from tests.mutants.kinds.table import KINDS
from tests.shares import shared

EVERY = (*KINDS, *order.KINDS)


def test_there_are_many_kinds_and_each_has_a_name_of_its_own() -> None:
    assert len(KINDS) >= 40
    assert len({kind.name for kind in EVERY}) == len(EVERY)
    assert len({kind.says for kind in EVERY}) == len(EVERY)


def kernels() -> Iterator[Kernel]:
    return (kernel for name in NAMES for point in subject(name).points for kernel in point.program.kernels)


@pytest.mark.parametrize("kind", shared(EVERY, 2), ids=lambda kind: str(kind.name))
def test_a_kind_changes_a_kernel_wherever_it_has_a_site(kind: Kind) -> None:
    tried = 0
    for kernel in kernels():
        for make in kind.sites(kernel)[:1]:
            assert make() != kernel
            tried += 1
        if tried == 3:
            return
    assert tried, "no kernel has a site"
