"""The emulator, which runs the PTX of a mutant, finds those that are found here and no others."""

from __future__ import annotations

import pytest

from compiler.emulate.ptx.parser import parse
from search.proof.emulated.running import ORDERS, run_set
from tests.mutants.building import building
from tests.mutants.choosing import made, wrong_of
from tests.mutants.fast import NAMES
from tests.mutants.judging import Judgement, subject
from tests.mutants.kinds.kind import Kind
from tests.mutants.kinds.table import KINDS
from tests.search.random_fusions.building import InThisProcess

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_the_emulator_finds_the_same_mutants(kind: Kind) -> None:
    (one,) = wrong_of(kind, NAMES, 1)
    mutant, s = one.mutant, subject(one.mutant.fusion)
    built = building(s.points[mutant.point], mutant.launch, made(mutant, kind), InThisProcess()).artifact()
    assert built is not None
    module = parse(built.ptx)
    faults = (run_set(s.fusion, built, module, name, ORDERS[:1]).fault for name in s.sets)
    fault = next(filter(None, faults), "")
    assert bool(fault) is (one.verdict.judgement is Judgement.FOUND), f"{mutant}: {one.verdict.why}; {fault}"
