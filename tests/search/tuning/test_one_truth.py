"""What a ranking reads of a point is what the point's kernel has, judged and made by itself: there is one truth.

A ranking asks no rule, and takes what it has found of one point for the next. Neither may change what is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from compiler.arch import card_or_default
from compiler.ir.fusion import Fusion
from compiler.ir.remembered import forget
from compiler.pipeline import Generated
from fusetune.fusion import FusionBuilder, Tensor
from search.cost.features import KernelFeatures
from search.cost.predicting import features_of, predictor
from search.cost.product_features import has_products, product_features
from search.cost.products import ProductFeatures
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import Draft, Drafting
from search.tuning.candidates.plan import Plan
from tests.bound import dense
from tests.search.schedulers.column_fusions import softmax as softmax_of_columns
from tests.search.schedulers.fusions import permute, silu_of_sum
from tests.search.schedulers.inner_outer_fusions import row_and_column_sums
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.row_fusions import softmax

CARD = card_or_default(None)


def built(write: Callable[[FusionBuilder], Tensor]) -> Fusion:
    f = FusionBuilder()
    f.output(write(f), "y")
    return dense(f)


def product_of(rows: int, inner: int, columns: int, dtype: Literal["bf16", "f32"]) -> Fusion:
    return built(lambda f: f.matmul(f.input("a", (rows, inner), dtype), f.input("b", (inner, columns), dtype)))


TAKEN: dict[str, Callable[[], Fusion]] = {
    "flat": lambda: silu_of_sum((96, 200), (1,), "bf16"),
    "tile2d": lambda: permute((130, 72), (1, 0), "f32"),
    "row": lambda: softmax((64, 512), (1,), "bf16"),
    "column": lambda: softmax_of_columns((256, 96), 0, "f32"),
    "launches-groups128-inner_outer+column": lambda: row_and_column_sums((512, 256), (1,), (0,)),
    "launches-column+row": lambda: row_and_column_sums((512, 256), (1,), (0,)),
    "chunks": lambda: permuted((900, 17, 31), (0, 2, 1)),
    "scan": lambda: built(lambda f: f.input("x", (3, 200), "bf16").cumsum(1)),
    "product": lambda: product_of(256, 256, 256, "bf16"),
    "warp_product": lambda: product_of(256, 256, 256, "bf16"),
    "thread_product": lambda: product_of(3, 5, 7, "f32"),
}
"""A fusion that each scheduler takes."""


def facts_of(made: Generated) -> list[KernelFeatures | ProductFeatures]:
    """What the model reads of each launch."""
    return [product_features(one, CARD) if has_products(one) else features_of(one) for one in made.launches]


def check(scheduler: str, count: int, seed: int) -> None:
    plan = Plan.of(TAKEN[scheduler](), CARD)
    subject, predict = plan.subject(CARD), predictor(CARD)
    candidates = [Candidate.of(scheduler, point) for point in plan.searchable[scheduler].sample(count, seed)]
    assert candidates
    forget()
    drafting = Drafting(subject, predict)
    ranked = {one: drafting.times(one) for one in candidates}
    drafted = {one: drafting.draft(one) for one in candidates}
    forget()
    for one in reversed(candidates):  # in another order: another was before each
        draft, alone = drafted[one], subject.generated(one)
        assert isinstance(draft, Draft), f"{one}: {draft}"
        assert isinstance(draft.generated, Generated)
        assert facts_of(draft.generated) == facts_of(alone), str(one)
        assert ranked[one] == [predict(launch).total_us for launch in alone.launches], str(one)
        assert draft.generated.source == alone.source, str(one)


@pytest.mark.parametrize("scheduler", TAKEN)
def test_what_is_ranked_is_what_is_made(scheduler: str) -> None:
    check(scheduler, 3, seed=3)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("scheduler", TAKEN)
def test_what_is_ranked_is_what_is_made_at_many_points(scheduler: str, part: int) -> None:
    check(scheduler, 250, seed=100 + part)
