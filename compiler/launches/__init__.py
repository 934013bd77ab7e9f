"""A fusion as several launches: which values are stored between them, at the least cost."""

from __future__ import annotations

from compiler.launches.cheapest import cheapest_cut
from compiler.launches.cost import launch_us, moved_bytes
from compiler.launches.cut import Cut, Part, cut_at, part_of, program_trace
from compiler.launches.inner_outer import group_counts, in_groups
from compiler.launches.merged_dims import merged_dims
from compiler.launches.nested_folds import nested_folds
from compiler.launches.raised_permutes import raise_permutes
from compiler.launches.scratch import Buffer, scratch_buffers
from compiler.launches.short_runs import runs_last
from compiler.launches.split_factors import merging_helps, split_factors
from compiler.launches.split_reductions import split_reductions

__all__ = [
    "Buffer",
    "Cut",
    "Part",
    "cheapest_cut",
    "cut_at",
    "group_counts",
    "in_groups",
    "launch_us",
    "merged_dims",
    "merging_helps",
    "moved_bytes",
    "nested_folds",
    "part_of",
    "program_trace",
    "raise_permutes",
    "runs_last",
    "scratch_buffers",
    "split_factors",
    "split_reductions",
]
