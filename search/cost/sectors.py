"""Sectors of memory that warps fill only in part, where the rows of an output begin at any address.

What one warp leaves of a sector another stores later, in the same block or the next. Runs that begin and end on sectors
have no such ends: whole rows of a whole number of sectors, and tiles with a halo.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compiler.arch import SECTOR_BYTES
from compiler.ir.fusion import Fusion
from compiler.ir.touched import written_bytes
from compiler.lower import kernel_ir as k
from search.cost.sites import StatementSite
from search.cost.warps import WARPS, some_warps

PARTIAL_BYTES = 20.0
"""What a warp's store of part of a sector costs beside the bytes that it stores. A fit to the 2,000 candidates of 18
fusions with such rows, measured on an H200: with any one of these left out it lies between 16 and 24."""


def partial_sector_bytes(sites: list[StatementSite], kernel: k.Kernel, fusion: Fusion) -> float:
    """Bytes that parts of sectors cost beside what is stored, over the launch."""
    written = written_bytes(fusion)
    outputs = {p.name: fusion.outputs[p.position - len(fusion.inputs)] for p in kernel.pointers if p.written}
    found: dict[str, NDArray[np.float64]] = {}
    for site in sites:
        if isinstance(site.statement, k.GlobalStore) and site.statement.tensor in outputs:
            each = site.per_tile * site.tiles * _of_warps(site.statement, site, kernel)
            found[site.statement.tensor] = found.get(site.statement.tensor, np.zeros(2)) + each
    return sum(
        PARTIAL_BYTES * written[outputs[name]] * float(partial / nbytes)
        for name, (nbytes, partial) in found.items()
        if nbytes
    )


def _of_warps(s: k.GlobalStore, site: StatementSite, kernel: k.Kernel) -> NDArray[np.float64]:
    """Bytes that some warps store at a time, and sectors of which they fill a part. Where no sector is filled, runs are
    shorter than one wherever they begin: those count as short runs (`search.cost.runs`)."""
    item = s.source.dtype.nbytes
    conditions = (*site.conditions, *s.guards, *s.ends)
    expressions = [s.offset, *(side for c in conditions for side in (c.left, c.right))]
    values = some_warps(kernel, expressions)
    shape = values["tx"].shape
    starts = np.broadcast_to(s.offset.evaluate(values) * item, shape)
    stores = np.ones(shape, dtype=np.bool_)
    for c in conditions:
        stores &= np.broadcast_to(c.left.evaluate(values) < c.right.evaluate(values), shape)
    warp = np.broadcast_to(np.arange(WARPS)[:, None] << 48, shape)
    keys = (warp + starts // SECTOR_BYTES)[stores]  # a vector lies in one sector: it is aligned to its size
    filled = np.unique(keys, return_counts=True)[1] * item * s.width
    if not len(filled) or filled.max() < SECTOR_BYTES:
        return np.array([filled.sum(), 0], dtype=np.float64)
    return np.array([filled.sum(), np.count_nonzero(filled < SECTOR_BYTES)], dtype=np.float64)
