"""A fusion as several launches: which values are stored between them, at the least cost."""

from __future__ import annotations

from compiler.schedule.scratch import Buffer, scratch_buffers
from search.launches.apart_writes import apart_writes
from search.launches.cheapest import Allowance, cheapest_cut
from search.launches.cut import Cut, LaunchPart, cut_at, part_of, program_trace
from search.launches.inner_outer import group_counts, in_groups
from search.launches.merged_dims import merged_dims
from search.launches.nested_folds import nested_folds
from search.launches.pitched_products import pitched_products
from search.launches.raised_permutes import raise_permutes
from search.launches.short_runs import runs_last
from search.launches.split_factors import merging_helps, split_factors
from search.launches.split_products import product_factors, split_products
from search.launches.split_reductions import split_reductions
from search.launches.tile_sums import in_tiles, tile_widths

__all__ = [
    "Allowance",
    "Buffer",
    "Cut",
    "LaunchPart",
    "apart_writes",
    "cheapest_cut",
    "cut_at",
    "group_counts",
    "in_groups",
    "in_tiles",
    "merged_dims",
    "merging_helps",
    "nested_folds",
    "part_of",
    "pitched_products",
    "product_factors",
    "program_trace",
    "raise_permutes",
    "runs_last",
    "scratch_buffers",
    "split_factors",
    "split_products",
    "split_reductions",
    "tile_widths",
]
