"""Which column of its cluster's clocks each lane has."""

from __future__ import annotations

import numpy as np

from compiler.emulate.order.events import Ints
from compiler.emulate.threads import Threads


class Columns:
    """Which column of its cluster's clocks each lane has, and the key of its cluster: its first block's linear index.

    `keys` has an element a cluster of the batch, `column` and `key` one a lane.
    """

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.per_cluster = threads.cluster_blocks * threads.pitch
        lanes = np.arange(threads.lanes)
        self.keys: Ints = np.array(threads.blocks[:: threads.cluster_blocks], np.int32)
        self.column: Ints = (lanes % self.per_cluster).astype(np.int32)
        self.key: Ints = self.keys[lanes // self.per_cluster]
