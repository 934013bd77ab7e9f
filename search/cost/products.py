"""The time of kernels whose products tensor cores make: a ranking, not a measurement.

    tile = ring or tensor cores or shared memory, whichever is slowest, then what is done with the result
    total = fixed + first stage + turns of tiles, L2 and memory side by side + last store

Two groups that take turns do the one while the other is done; blocks that share a multiprocessor do half of it. The
constants are those of one H100 where not said otherwise. Those that say so are of one H200: 1,109 kernels of 27 sizes
(benchmarks/README.md, "Matrix products"), chosen by leaving one size after the other out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from compiler.arch import SMEM_LINE_BYTES, Card, sms_for_clusters
from search.cost.model import FIXED_US, Prediction

CLOCK_SHARE, COOL_US = 0.80, 80.0
"""Of the highest clock, what tensor cores run at once a kernel has lasted so long: power holds it back. 4096^3 of
random bf16 ran at 1.59 of 1.98 GHz."""

COPY_US = 0.65
"""From the request of a stage to its arrival, under load (595 ns and 5 ns a KB from memory, 217 ns from L2: flash-vla,
unit-mma.md); a ring hides it behind the stages that are there. With two stages of which one is under way nothing does:
4096^3 in stages of 128 along k took 110 us more than in four of 64."""

MULTICAST = 1.2
"""By how much a copy for several blocks takes longer to come: each waits until all of them have a free stage (H200)."""

FILL_US, DRAIN_US = 1.7, 0.6
"""Before the first product of a block: barriers, the first stage (H200); and behind its last one: the store."""

BESIDE = 10.0
"""Of what a kernel takes, of L2 and of memory, which go on side by side, the slowest waits for the others now and then:
the norm of this order of the three, 7 % more where two are equal (H200)."""

ALONE = 1.12
"""By how much a group that has no other beside it is slower where it waits for each of its stages' products (20 to 30 %
of four short ones: flash-vla, unit-mma.md)."""

FEW_WARPS = 1.5
"""By how much products of warps are slower, over the warps that a multiprocessor has: they wait for what they load, and
for each other. 4096^3 took 410, 334 and 303 us of 4, 8 and twice 4 of them; the tensor cores take 265."""

EPILOGUE_CLOCKS, STEP_CLOCKS = 1200.0, 300.0
"""What the end of a tile takes beside its instructions: the last products' way, barriers; and for each step of columns
that waits for the store before it. 16 tiles of 128 x 256 and K 1024 took 2,450 clocks each beside their products in two
steps, 480 more in four."""

LOCKSTEP = 1.03
"""By how much blocks are slower that share a ring, each waiting for the others: pairs that save a third of what comes
from L2 were as fast as blocks by themselves, or 5 % slower."""

STAGE_US, FEW_BYTES_US, AGAIN_US = 0.012, 37.0 * 1024, 0.05
"""What is lost where memory sets the pace: for each stage of a block; over the bytes that a multiprocessor has on
their way; and of the time that L2 takes. 8192 x 8192 bf16 times 8 rows took 47.5 us in 128 stages and 46.7 in 64, both
of 128 KB; times 16 rows 47.2, 47.1 and 46.9 with 64, 96 and 128 KB, and 48.2 in two tiles of 8 that read all of it."""

L2_BYTES_PER_CLOCK = 54.0
"""And multiprocessor: 8192^3 in tiles of 128 x 128 read 17.7 GB in 1,635 us, at least 52. All of L2 gives as many
lines, whoever asks: three long sums in 24 to 40 blocks, whose rows begin inside lines, took 0.45 to 0.63 of what a
share of the lines for each multiprocessor would (H100)."""


HAND_US, CLEAR_US = 1.5, 1.5
"""From the last store of a part to its first load by another block, through L2 with a fence between (H200); and what
clearing the numbers that say so takes before the kernel, not measured by itself."""

SEND_US, SENT_BYTES_PER_CLOCK = 1.0, 14.0
"""The same between blocks of a cluster, and bytes that come to one of them: all multiprocessors of an H100 send each
other 3.3 TB/s (arXiv 2402.13499). 166 kernels with 8 to 128 rows that sum so took 1.02 of what is predicted on an H200,
54 of long sums and thin results 1.24."""


@dataclass(frozen=True, slots=True)
class ProductFeatures:
    """What the model reads of a kernel.

    tensor_clocks, operand_clocks   of a block in its life: of tensor cores, and of shared memory for their operands
    chunks          stages that a block goes through
    tiles           of a block, or of a group that has tiles of its own
    beside_clocks   of a tile, what threads take for its elements; steps: in which they are stored
    groups          of four warps that compute; in_turns: with tiles of their own. warps: that compute by themselves
    stages          of the rings, of so many stage_bytes; in_flight: those whose products are not waited for yet
    places          of results in tensor memory, 0 of those in registers: the next tile is multiplied while one of two
                    is read
    l2_bytes        that SMs read of the operands, dram_bytes those that come from memory, and what else is moved
    line_bytes      the first, where a row that begins inside a line counts with both of its lines
    stored_bytes    that each of the blocks that store does in its life, counted so too; storing: so many blocks
    parts           of a sum, that blocks hand over, of handed_bytes each; sent_bytes: what a block of a cluster gets
    is_multicast    whether copies bring tiles to several blocks
    """

    tensor_clocks: float
    operand_clocks: float
    chunks: float
    tiles: float
    beside_clocks: float
    steps: float
    blocks: int
    resident: int
    cluster: int
    groups: int
    warps: int
    stages: int
    stage_bytes: float
    in_turns: bool
    in_flight: int
    places: int
    l2_bytes: float
    line_bytes: float
    dram_bytes: float
    stored_bytes: float = 0.0
    storing: float = 0.0
    parts: int = 1
    handed_bytes: float = 0.0
    sent_bytes: float = 0.0
    is_multicast: bool = False


def predict_product(card: Card, f: ProductFeatures) -> Prediction:
    """The time of one launch on `card`, operands not in L2."""
    sms = min(sms_for_clusters(card.sm_count, f.cluster), f.blocks)
    turns = math.ceil(f.blocks / (sms * f.resident))
    each = min(f.resident, math.ceil(f.blocks / sms))
    cores = max(f.tensor_clocks, f.operand_clocks) * (LOCKSTEP if f.is_multicast else 1.0)
    if f.warps:
        cores *= 1 + FEW_WARPS / (f.warps * each)
    elif f.groups * each == 1 and not f.in_flight:
        cores *= ALONE
    ahead = f.stages - 1 - f.in_flight
    ring = f.chunks * COPY_US * (MULTICAST if f.is_multicast else 1.0) / max(1, ahead)
    beside = f.tiles * (EPILOGUE_CLOCKS + f.beside_clocks + max(0.0, f.steps - 1) * STEP_CLOCKS)
    beside += f.stored_bytes / (SMEM_LINE_BYTES * (f.groups if f.in_turns else 1))
    clock = float(card.max_sm_clock_mhz)
    for _ in range(3):  # the longer it takes, the slower it runs
        cores_us, beside_us = each * cores / clock, beside / clock
        main_us = max(cores_us, ring) if ahead > 0 else cores_us + ring
        if f.in_turns:
            body_us = max(main_us, main_us / f.groups + beside_us) + beside_us / max(1.0, f.tiles)
        elif f.places > 1:
            body_us = max(main_us, beside_us) + beside_us / max(1.0, f.tiles)
        else:
            body_us = main_us + beside_us * (0.5 if each > 1 else 1.0)
        work_us = turns * (body_us + FILL_US) + DRAIN_US
        share = 1.0 - (1.0 - CLOCK_SHARE) * min(1.0, work_us / COOL_US)
        clock = card.max_sm_clock_mhz * share
    lines = f.line_bytes + f.storing * f.stored_bytes
    l2_us = max(f.l2_bytes / sms, lines / card.sm_count) / (L2_BYTES_PER_CLOCK * clock)
    dram_us = 1e6 * f.dram_bytes / card.dram.best_read
    waits_us = turns * f.chunks * STAGE_US + FEW_BYTES_US / (each * f.stages * f.stage_bytes) + AGAIN_US * l2_us
    handed_us = _handed_us(f, clock)
    total = FIXED_US + _beside(work_us, l2_us + FILL_US, dram_us + waits_us + FILL_US) + handed_us
    terms: Mapping[str, float] = MappingProxyType(
        {
            "fixed": FIXED_US,
            "tensor": turns * each * f.tensor_clocks / clock,
            "operands": turns * each * f.operand_clocks / clock,
            "ring": turns * ring,
            "epilogue": turns * beside_us,
            "fill": turns * FILL_US,
            "l2": l2_us,
            "memory": dram_us,
            **({"handed_on": handed_us} if f.parts > 1 else {}),
        }
    )
    return Prediction(total, terms)


def _beside(*us: float) -> float:
    """What takes so long each and goes on side by side takes together."""
    longest = max(us)
    return longest * math.pow(math.fsum(math.pow(one / longest, BESIDE) for one in us), 1 / BESIDE)


def _handed_us(f: ProductFeatures, clock: float) -> float:
    """All blocks but one store their parts to L2 at once, and that one takes each from there, so that each goes there
    and back; the numbers that say which are there are cleared before."""
    if f.parts == 1:
        return 0.0
    if f.sent_bytes:
        return SEND_US + f.sent_bytes / (SENT_BYTES_PER_CLOCK * clock)
    return CLEAR_US + HAND_US + 2 * f.parts * f.handed_bytes / (L2_BYTES_PER_CLOCK * clock)
