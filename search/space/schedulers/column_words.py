"""Columns whose rows begin at any element, loaded in words that straddle two aligned ones.

No shift of the columns aligns them: each row would need another one. So a thread takes for each row the two aligned
words that hold its columns, and moves them together in registers. Rows that are a multiple of a word's elements apart
begin alike: how far a thread moves them it then computes once. Neighbours in a warp share all but the last word, which
the L1 cache serves twice.
"""

from __future__ import annotations

from compiler.ir.domain import ScheduledFusion
from compiler.ir.ops import MOVES
from search.space.constraints import Constraint
from search.space.expressions import looked_up
from search.space.groups import LEAST_WORD_ELEMS, WORDS, widest_word
from search.space.schedulers.column_form import ColumnAccess, ColumnForm


def straddling(form: ColumnForm, sf: ScheduledFusion, which: str, vector: int) -> tuple[str, ...]:
    """The register tensors that come in such words of `vector` elements, `which` as in `ColumnForm.columns`; none where
    what is stored in every row would leave element by element, each in a sector of its own."""
    if vector < LEAST_WORD_ELEMS or any(
        form.width(a, which, vector) < widest_word(a.nbytes, vector) for a in form.stores
    ):
        return ()
    return tuple(a.first for a in form.loads if _straddles(form, sf, which, a, vector))


def _straddles(form: ColumnForm, sf: ScheduledFusion, which: str, a: ColumnAccess, vector: int) -> bool:
    op = sf.producer(a.first)
    if op is None or op.kind not in MOVES or op.within or None in a.strides or vector > widest_word(a.nbytes, vector):
        return False
    return form.width(a, which, vector) < vector and form.is_run(a, which)


def word_constraints(form: ColumnForm, sf: ScheduledFusion) -> list[Constraint]:
    """Which vectors come in words, and when."""

    def found(name: str, elems: int) -> bool:
        return bool(straddling(form, sf, name, elems))

    return [
        Constraint(
            "redundant_load",
            ("load", "columns", "vector"),
            lambda load, which, vector: (load != WORDS) | looked_up("words_straddle", found, which, vector),
            "Words that straddle aligned ones bring vectors of 4 elements or more that are not aligned themselves.",
        )
    ]
