"""Reads at places that are data, positions and what is counted: embeddings, labels, routing, prefix sums."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn import functional

from fusetune import FusionBuilder, Tensor
from fusetune.functional import clamp, log_softmax, logical_and, logsumexp, softmax
from fusetune.wire.fusion import DTypeName
from tests.search.user_fusions.posted import Given, Posted, between, normal, positive, seldom, unit
from tests.search.user_fusions.spelled import along, halves, joined, kept, last, stacked, wide

IGNORED = -100
CLASSES = 53


def padded_embedding(f: FusionBuilder, index: Tensor, table: Tensor, pad: int) -> Tensor:
    """Rows of zeros where the index is that of padding."""
    rows = f.embedding(index, table)
    shown = f.ne(index, pad)
    return f.where(along(shown, rows, *range(len(index.shape))), rows, 0.0)


def padded_embedding_by_torch(index: Any, table: Any, pad: int) -> Any:
    return functional.embedding(index.long(), table) * (index != pad)[..., None].to(table.dtype)


def summed_embeddings(
    f: FusionBuilder, index: Tensor, table: Tensor, places: Tensor, kinds: Tensor, kind: Tensor
) -> Tensor:
    """BERT's: a word's, a position's, a segment's."""
    words = wide(f.embedding(index, table))
    return words + along(wide(places), words, 1, 2) + wide(f.embedding(kind, kinds))


def scaled_embedding(f: FusionBuilder, index: Tensor, table: Tensor, scale: Any) -> Tensor:
    scaled: Tensor = wide(f.embedding(index, table)) * scale
    return scaled.cast(table.dtype)


def norm_of_embedding(f: FusionBuilder, index: Tensor, table: Tensor, gain: Tensor) -> Tensor:
    x = wide(f.embedding(index, table))
    root = f.rsqrt(f.square(x).mean((last(x),), keepdim=True) + 1e-6)
    return (x * kept(root, x) * along(gain, x, last(x))).cast(table.dtype)


def norm_of_embedding_by_torch(index: Any, table: Any, gain: Any) -> Any:
    x = functional.embedding(index.long(), table).float()
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * gain).to(table.dtype)


def bag(f: FusionBuilder, index: Tensor, table: Tensor) -> Tensor:
    """The mean of the rows that a bag chooses."""
    return f.embedding(index, table).mean((1,))


def from_int8_table(f: FusionBuilder, index: Tensor, table: Tensor, scale: Tensor) -> Tensor:
    rows = f.embedding(index, table).cast("f32")
    return rows * along(f.take(scale, index), rows, *range(len(index.shape)))


def from_fp8_table(f: FusionBuilder, index: Tensor, table: Tensor) -> Tensor:
    return f.embedding(index, table).cast("bf16")


def picked(f: FusionBuilder, x: Tensor, target: Tensor) -> Tensor:
    """Of each row the element that its target says; targets that are not looked at choose the first."""
    safe = clamp(target, 0, CLASSES - 1).reshape((x.shape[0], 1))
    return f.gather(x, 1, safe).reshape((x.shape[0],))


def cross_entropy(f: FusionBuilder, x: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Each row's loss, 0 where the target is ignored, and the mean over the others."""
    lp = log_softmax(wide(x), (1,))
    shown = f.ne(target, IGNORED)
    rows = -picked(f, lp, target)
    if smoothing:
        rows = rows * (1 - smoothing) - lp.mean((1,)) * smoothing
    rows = f.where(shown, rows, 0.0)
    return rows, rows.sum((0,)) / shown.sum((0,), dtype="i64").cast(rows.dtype)


def cross_entropy_by_torch(x: Any, target: Any, smoothing: float) -> Any:
    wider = x if x.dtype == torch.float64 else x.float()
    one = partial(functional.cross_entropy, wider, target.long(), ignore_index=IGNORED, label_smoothing=smoothing)
    return one(reduction="none"), one()


def cross_entropy_gradient(f: FusionBuilder, x: Tensor, target: Tensor) -> Tensor:
    """Of the sum of all rows' losses."""
    p = softmax(wide(x), (1,))
    hit = f.eq(f.iota(x.shape, 1, target.dtype), along(target, x, 0))
    grad = p - hit.cast("f32")
    return f.where(along(f.ne(target, IGNORED), x, 0), grad, 0.0).cast(x.dtype)


def cross_entropy_gradient_by_torch(x: Any, target: Any) -> Any:
    p = x.float().softmax(1)
    safe = target.long().clamp(min=0)
    grad = p - functional.one_hot(safe, x.shape[1]).float()
    return (grad * (target != IGNORED)[:, None]).to(x.dtype)


def soft_labels(f: FusionBuilder, x: Tensor, target: Tensor) -> Tensor:
    """Cross entropy with probabilities as targets."""
    return -(log_softmax(wide(x), (1,)) * wide(target)).sum((1,))


def token_accuracy(f: FusionBuilder, x: Tensor, target: Tensor) -> Tensor:
    """How many rows, of those that count, have their greatest element where the target says."""
    right = f.eq(x.argmax(1), target.cast("i64"))
    return logical_and(right, f.ne(target, IGNORED)).sum((0,), dtype="i64")


def rope(f: FusionBuilder, x: Tensor, place: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Halves turned by the angles of each token's position: [batch, heads, tokens, size], positions [batch, tokens]."""
    c, s = (wide(f.take(table, place)) for table in (cos, sin))
    low, high = halves(wide(x), 3)
    c, s = (along(t, low, 0, 2, 3) for t in (c, s))
    return joined([low * c - high * s, high * c + low * s], 3).cast(x.dtype)


def rope_by_torch(x: Any, place: Any, cos: Any, sin: Any) -> Any:
    c, s = (table[place.long()].float()[:, None] for table in (cos, sin))
    low, high = x.float().chunk(2, -1)
    return torch.cat([low * c - high * s, high * c + low * s], -1).to(x.dtype)


def rope_of_pairs(f: FusionBuilder, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Neighbours turned: [tokens, heads, size]."""
    first, second = (wide(x).slice(2, n, int(x.shape[2]), 2) for n in (0, 1))
    c, s = (along(t, first, 0, 2) for t in (cos, sin))
    return stacked([first * c - second * s, first * s + second * c]).reshape(x.shape).cast(x.dtype)


def rope_of_pairs_by_torch(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x.float()[..., ::2], x.float()[..., 1::2]
    c, s = cos[:, None], sin[:, None]
    return torch.stack([first * c - second * s, first * s + second * c], -1).reshape(x.shape).to(x.dtype)


def top_one(f: FusionBuilder, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A switch router: each token's expert, its share, which is the greatest, and the tokens of each expert."""
    p = softmax(wide(logits), (1,))
    expert = logits.argmax(1)
    hit = f.eq(f.iota(logits.shape, 1, "i64"), along(expert, logits, 0))
    return expert, p.amax((1,), keepdim=True), hit.sum((0,), dtype="i64")


def top_one_by_torch(logits: Any) -> Any:
    p = logits.float().softmax(1)
    expert = logits.argmax(1)
    return expert, p.gather(1, expert[:, None]), torch.bincount(expert, minlength=logits.shape[1])


def places_in_experts(f: FusionBuilder, expert: Tensor, count: int, room: int) -> tuple[Tensor, Tensor]:
    """Which of its expert's tokens a token is, and whether there is room for it."""
    shape = (expert.shape[0], count)
    hit = f.eq(f.iota(shape, 1, expert.dtype), expert.broadcast_to(shape, (0,)))
    before = f.cumsum(hit, 0) - hit.cast("i64")
    place = f.where(hit, before, 0).sum((1,))
    return place, f.lt(place, room)


def places_in_experts_by_torch(expert: Any, count: int, room: int) -> Any:
    hit = functional.one_hot(expert.long(), count)
    place = ((hit.cumsum(0) - hit) * hit).sum(1)
    return place, place < room


def exclusive(f: FusionBuilder, x: Tensor, dim: int) -> Tensor:
    total = f.cumsum(x, dim)
    return total - x.cast(total.dtype)


def exclusive_by_torch(x: Any, dim: int) -> Any:
    return x.cumsum(dim) - x


def shifted_sums(f: FusionBuilder, x: Tensor) -> Tensor:
    """Offsets of rows of these lengths: 0 first, all of them last."""
    zeros = [0] * len(x.shape)
    return f.pad(f.cumsum(x, last(x)), [*zeros[1:], 1], zeros)


def nucleus(f: FusionBuilder, p: Tensor, share: Any) -> Tensor:
    """Of sorted probabilities those that are needed for a share."""
    before = f.cumsum(p, 1) - p
    return f.where(f.lt(before, share), p, 0.0)


def decays(f: FusionBuilder, a: Tensor) -> Tensor:
    """exp(sum of a between two positions), below the diagonal: what state-space models multiply by."""
    total = f.cumsum(a, 1)
    rows, n = int(a.shape[0]), int(a.shape[1])
    shape = (rows, n, n)
    apart = total.broadcast_to(shape, (0, 1)) - total.broadcast_to(shape, (0, 2))
    below = f.ge(f.iota(shape, 1, "i32"), f.iota(shape, 2, "i32"))
    return f.where(below, f.exp(f.where(below, apart, 0.0)), 0.0)


def decays_by_torch(a: Any) -> Any:
    total = a.cumsum(1)
    return (total[:, :, None] - total[:, None]).exp().tril()


def positions_of_tokens(f: FusionBuilder, mask: Tensor) -> Tensor:
    """Positions of a padded batch: padding keeps 1."""
    return f.where(mask, f.cumsum(mask, 1) - 1, 1)


def last_tokens(f: FusionBuilder, x: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence's last hidden state."""
    at = along((lengths - 1).reshape((x.shape[0], 1, 1)), x.slice(1, 0, 1), 0, 1, 2)
    return f.gather(x, 1, at).reshape((x.shape[0], x.shape[2]))


def last_tokens_by_torch(x: Any, lengths: Any) -> Any:
    return x[torch.arange(len(x), device=x.device), lengths.long() - 1]


def windows(f: FusionBuilder, x: Tensor, start: Tensor, size: int) -> Tensor:
    """`size` columns of each row from where it says."""
    shape = (x.shape[0], size)
    return f.gather(x, 1, f.iota(shape, 1, start.dtype) + start.broadcast_to(shape, (0,)))


def windows_by_torch(x: Any, start: Any, size: int) -> Any:
    return x.gather(1, start.long()[:, None] + torch.arange(size, device=x.device))


def nearest(f: FusionBuilder, x: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Vector quantisation of whole numbers: the code at the least distance, and that code."""
    shape = (x.shape[0], codes.shape[0], codes.shape[1])
    apart = x.broadcast_to(shape, (0, 2)).cast("i32") - codes.broadcast_to(shape, (1, 2)).cast("i32")
    best = f.square(apart).sum((2,)).argmin(1)
    return best, f.square(apart).sum((2,)).amin((1,))


def nearest_by_torch(x: Any, codes: Any) -> Any:
    apart = (x.int()[:, None] - codes.int()[None]).square().sum(2)
    return apart.argmin(1), apart.amin(1).int()


def looked_up(f: FusionBuilder, x: Tensor, codes: Tensor, table: Tensor) -> Tensor:
    """The row of a table that belongs to the nearest code."""
    return f.take(table, nearest(f, x, codes)[0])


def greedy(f: FusionBuilder, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The likeliest word of each row, and how likely it is."""
    x = wide(logits)
    best = logits.argmax(1, keepdim=True)
    chosen = f.gather(x, 1, best) - logsumexp(x, (1,), keepdim=True)
    return best.reshape((logits.shape[0],)), chosen.reshape((logits.shape[0],))


def greedy_by_torch(logits: Any) -> Any:
    best = logits.argmax(1)
    return best, logits.float().log_softmax(1).gather(1, best[:, None])[:, 0]


def repetition(f: FusionBuilder, logits: Tensor, seen: Tensor, by: Any) -> Tensor:
    """Logits of words that were said already made less likely."""
    return f.where(seen, f.where(f.lt(logits, 0.0), logits * by, logits / by), logits)


def _embedding(name: str, dtype: DTypeName, by: DTypeName, *shape: int | str) -> Posted:
    return Posted(
        f"padded embedding, {name}",
        partial(padded_embedding, pad=0),
        partial(padded_embedding_by_torch, pad=0),
        (Given(shape, by, seldom(0, 28)), Given((29, 35), dtype)),
    )


def _entropy(dtype: DTypeName, by: DTypeName, smoothing: float) -> Posted:
    return Posted(
        f"cross entropy of {dtype} by {by}, smoothing {smoothing}",
        partial(cross_entropy, smoothing=smoothing),
        partial(cross_entropy_by_torch, smoothing=smoothing),
        (Given(("M", CLASSES), dtype), Given(("M",), by, seldom(IGNORED, CLASSES - 1))),
        slack=2.0,
    )


def _sums(name: str, dtype: DTypeName, dim: int, shape: tuple[int | str, ...], numbers: Any = normal) -> Posted:
    return Posted(
        f"exclusive sums, {name}",
        partial(exclusive, dim=dim),
        partial(exclusive_by_torch, dim=dim),
        (Given(shape, dtype, numbers),),
        slack=2.0,
    )


INDEXED = (
    _embedding("bf16", "bf16", "i32", 3, "M"),
    _embedding("f32 by i64", "f32", "i64", "M"),
    _embedding("f16, rank 3", "f16", "i32", 2, "M", 2),
    Posted(
        "three embeddings summed",
        summed_embeddings,
        lambda index, table, places, kinds, kind: (
            functional.embedding(index.long(), table).float()
            + places.float()
            + functional.embedding(kind.long(), kinds).float()
        ),
        (
            Given(("M", 7), "i32", between(0, 40)),
            Given((41, 24), "bf16"),
            Given((7, 24), "bf16"),
            Given((2, 24), "bf16"),
            Given(("M", 7), "i64", between(0, 1)),
        ),
    ),
    Posted(
        "embedding by a scale of the call",
        scaled_embedding,
        lambda index, table, scale: (functional.embedding(index.long(), table).float() * scale).to(table.dtype),
        (Given(("M",), "i64", between(0, 18)), Given((19, 40), "f16")),
        scalars=(6.325,),
    ),
    Posted(
        "rmsnorm of an embedding",
        norm_of_embedding,
        norm_of_embedding_by_torch,
        (Given(("M",), "i32", between(0, 30)), Given((31, 72), "bf16"), Given((72,), "f32")),
    ),
    Posted(
        "embedding bag",
        bag,
        lambda index, table: functional.embedding(index.long(), table).mean(1),
        (Given(("M", 6), "i64", between(0, 22)), Given((23, 33), "f32")),
    ),
    Posted(
        "embedding of int8 rows",
        from_int8_table,
        lambda index, table, scale: table[index.long()].float() * scale[index.long()][..., None],
        (
            Given(("M", 2), "i32", between(0, 30)),
            Given((31, 36), "i8", between(-128, 127)),
            Given((31,), "f32", positive),
        ),
    ),
    Posted(
        "embedding of f8e4m3",
        from_fp8_table,
        lambda index, table: table.to(torch.bfloat16)[index.long()],
        (Given(("M",), "i64", between(0, 30)), Given((31, 52), "f8e4m3")),
    ),
    _entropy("f32", "i64", 0.0),
    _entropy("bf16", "i32", 0.1),
    _entropy("f16", "i64", 0.0),
    _entropy("f64", "i64", 0.05),
    *(
        Posted(
            f"gradient of cross entropy of {dtype}",
            cross_entropy_gradient,
            cross_entropy_gradient_by_torch,
            (Given(("M", CLASSES), dtype), Given(("M",), "i32", seldom(IGNORED, CLASSES - 1))),
        )
        for dtype in ("f32", "bf16")
    ),
    Posted(
        "cross entropy with soft labels",
        soft_labels,
        lambda x, target: functional.cross_entropy(x.float(), target.float(), reduction="none"),
        (Given(("M", 45), "bf16"), Given(("M", 45), "f16", unit)),
        slack=2.0,
    ),
    Posted(
        "tokens that were foreseen",
        token_accuracy,
        lambda x, target: (x.argmax(1) == target).sum(),
        (Given(("M", CLASSES), "f32"), Given(("M",), "i32", seldom(IGNORED, CLASSES - 1))),
    ),
    *(
        Posted(
            f"rotary embedding of {dtype} by positions",
            rope,
            rope_by_torch,
            (
                Given((2, 3, "M", 10), dtype),
                Given((2, "M"), by, between(0, 62)),
                Given((63, 5), table),
                Given((63, 5), table),
            ),
        )
        for dtype, by, table in (("bf16", "i64", "f32"), ("f32", "i32", "bf16"), ("f16", "i64", "f16"))
    ),
    *(
        Posted(
            f"rotary embedding of pairs of {dtype}",
            rope_of_pairs,
            rope_of_pairs_by_torch,
            (Given(("M", 3, 14), dtype), Given(("M", 7), "f32"), Given(("M", 7), "f32")),
        )
        for dtype in ("bf16", "f32")
    ),
    *(
        Posted(f"top-1 routing of {dtype}", top_one, top_one_by_torch, (Given(("M", experts), dtype),))
        for dtype, experts in (("f32", 11), ("bf16", 8))
    ),
    Posted(
        "places of tokens in experts",
        partial(places_in_experts, count=6, room=5),
        partial(places_in_experts_by_torch, count=6, room=5),
        (Given(("M",), "i64", between(0, 5)),),
    ),
    Posted(
        "places of tokens in 13 experts",
        partial(places_in_experts, count=13, room=9),
        partial(places_in_experts_by_torch, count=13, room=9),
        (Given(("M",), "i32", between(0, 12)),),
    ),
    _sums("i32 rows", "i32", 1, ("M", 23), between(0, 9)),
    _sums("f32 rows", "f32", 1, ("M", 50)),
    _sums("u8 columns", "u8", 0, (45, 14), between(0, 255)),
    _sums("f64, the middle one of three", "f64", 1, (3, 17, 9)),
    Posted(
        "offsets of rows",
        shifted_sums,
        lambda x: functional.pad(x.cumsum(-1), (1, 0)),
        (Given((3, 33), "i64", between(0, 99)),),
    ),
    Posted(
        "nucleus of sorted probabilities",
        nucleus,
        lambda p, share: torch.where(p.cumsum(1) - p < share, p, 0),
        (Given(("M", 30), "f64", unit),),
        scalars=(4.321,),
    ),
    Posted("decays of a state", decays, decays_by_torch, (Given((5, 19), "f32", unit),), slack=4.0),
    Posted(
        "positions of a padded batch",
        positions_of_tokens,
        lambda mask: (mask.long().cumsum(1) - 1).masked_fill(~mask, 1),
        (Given(("M", 26), "bool", between(0, 1)),),
    ),
    Posted(
        "last hidden states",
        last_tokens,
        last_tokens_by_torch,
        (Given(("M", 9, 20), "bf16"), Given(("M",), "i64", between(1, 9))),
    ),
    Posted(
        "windows of rows",
        partial(windows, size=6),
        partial(windows_by_torch, size=6),
        (Given(("M", 40), "f16"), Given(("M",), "i32", between(0, 34))),
    ),
    Posted(
        "nearest codes",
        nearest,
        nearest_by_torch,
        (Given(("M", 6), "i8", between(-9, 9)), Given((12, 6), "i8", between(-9, 9))),
    ),
    Posted(
        "rows of nearest codes",
        looked_up,
        lambda x, codes, table: table[nearest_by_torch(x, codes)[0]],
        (Given(("M", 6), "i8", between(-9, 9)), Given((12, 6), "i8", between(-9, 9)), Given((12, 20), "bf16")),
    ),
    Posted("greedy words and how likely they are", greedy, greedy_by_torch, (Given(("M", 71), "bf16"),), slack=2.0),
    Posted(
        "columns in another order",
        lambda f, x, order: f.take(x, order, 1),
        lambda x, order: x.index_select(1, order),
        (Given(("M", 31), "f32"), Given((31,), "i64", between(0, 30))),
    ),
    Posted(
        "repetition penalty",
        repetition,
        lambda logits, seen, by: torch.where(seen, torch.where(logits < 0, logits * by, logits / by), logits),
        (Given(("M", 61), "f32"), Given(("M", 61), "bool", between(0, 1))),
        scalars=(1.25,),
    ),
)
