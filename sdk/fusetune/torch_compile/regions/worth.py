"""Which groups are worth a kernel: several operators, or one that folds or copies."""

from __future__ import annotations

from typing import Any

from fusetune.torch_compile.regions.operators import COPIES, bytes_of, name_of, values_of
from fusetune.torch_compile.regions.region import Region

FOLDS = frozenset(
    {"amax", "amin", "mean", "prod", "sum", "var", "var_mean", "any", "all", "argmax", "argmin", "cumsum"}
)
"""Operators that read much more than they write."""

TAKEN_APART = 9
"""From so many operators of a fusion on, one of torch's is several passes of its own."""


def is_worth_it(region: Region, least_bytes: int) -> bool:
    """Whether a region is proposed: it moves `least_bytes`, and more than a plain operator is in it."""
    if not region.outputs or region.moved_bytes < least_bytes or not _tells_its_numbers(region):
        return False
    if region.operators > 1:
        return True
    head = region.units[0].head
    if name_of(head) in FOLDS:
        return (
            max((bytes_of(x.meta["val"]) for x in region.inputs if hasattr(x.meta.get("val"), "stride")), default=0) > 0
        )
    return name_of(head) in COPIES or _is_several(region)


def _tells_its_numbers(region: Region) -> bool:
    """Whether the open sizes that it reads as numbers follow from those of the tensors that it reads."""
    tensors = [value for node in region.inputs for value in values_of(node)]
    known = {_expression(size) for x in tensors for size in (*x.shape, *x.stride())}
    numbers = {_expression(node.meta.get("val")) for node in region.inputs} - known - {None}
    return all(number.free_symbols <= known for number in numbers)


def _expression(size: Any) -> Any:
    return getattr(getattr(size, "node", None), "expr", None)


def _is_several(region: Region) -> bool:
    """One of torch's operators that torch itself does in several passes, such as a norm's gradient."""
    from fusetune.torch_compile.regions.limits import WRITTEN_AS

    return WRITTEN_AS.get(name_of(region.units[0].head), 0) > TAKEN_APART
