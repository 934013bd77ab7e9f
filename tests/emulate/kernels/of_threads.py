"""Cases of threads, warps, blocks and their memory: barriers, collectives, bounds, unwritten memory, global memory."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.emulate.kernels.case import Case, given, number, output, zeros

_T32, _T64 = np.arange(32), np.arange(64)

_barrier = partial(Case, "barriers")
_warp = partial(Case, "warps", block=32, args=(given("x", 32), output("y", 32)))
_bound = partial(Case, "bounds")
_unwritten = partial(Case, "unwritten")
_block = partial(Case, "blocks")
_matrix = partial(Case, "matrix", block=32)


BARRIERS = (
    _barrier("read_after_write", 128, (given("x", 128), output("y", 128)), lambda t: {"y": t["x"][::-1]}),
    _barrier(
        "write_after_read",
        128,
        (given("x", 384), output("y", 384)),
        lambda t: {"y": t["x"].reshape(3, 128)[:, ::-1].reshape(-1)},
    ),
    _barrier("write_after_write", 64, (output("y", 64),), lambda t: {"y": 3 * (32 + _T64 % 32)}),
    _barrier("tree_in_lockstep", 64, (given("x", 64), output("y", 1)), lambda t: {"y": t["x"].sum(keepdims=True)}),
    _barrier("exchange_in_warp", 32, (given("x", 32), output("y", 32)), lambda t: {"y": t["x"][_T32 ^ 1]}),
    _barrier("syncwarp_of_half", 32, (given("x", 32), output("y", 32)), lambda t: {"y": t["x"][::-1]}),
    _barrier("named_barrier_of_too_many", 96, (given("x", 32), output("y", 64)), lambda t: {"y": np.tile(t["x"], 2)}),
    _barrier("named_barrier_of_another_name", 64, (given("x", 32), output("y", 32)), lambda t: {"y": t["x"]}),
    _barrier(
        "named_barrier_of_one_warp",
        128,
        (given("x", 128), output("y", 128)),
        lambda t: {"y": t["x"].reshape(2, 64)[:, ::-1].reshape(-1)},
    ),
    _barrier("barrier_in_branch", 64, (given("x", 64), output("y", 64)), lambda t: {"y": (t["x"] + t["x"] % 2)[::-1]}),
    _barrier(
        "barrier_in_uneven_loop",
        64,
        (given("x", 64), output("y", 64)),
        lambda t: {"y": (4 * t["x"][_T64 ^ 32] + 6)[::-1]},
    ),
)

WARPS = (
    _warp(
        "shuffle_with_lanes_missing",
        expected=lambda t: {"y": np.where(_T32 < 24, t["x"] + t["x"][_T32 ^ 1], t["x"])},
    ),
    _warp(
        "vote_with_lanes_missing",
        expected=lambda t: {"y": np.where(t["x"] % 3 == 0, ((t["x"] % 3 == 0) & (t["x"] > 5)).sum(), t["x"])},
    ),
    _warp("redux_with_lanes_missing", expected=lambda t: {"y": np.where(_T32 < 8, t["x"], t["x"][8:].sum())}),
    _warp(
        "shuffle_outside_of_its_mask",
        expected=lambda t: {"y": t["x"] + t["x"][np.where(_T32 % 16 < 15, _T32 + 1, _T32) % 32]},
    ),
    _warp(
        "shuffle_in_both_branches",
        expected=lambda t: {"y": np.where(_T32 < 16, t["x"][_T32 ^ 3] + 7, t["x"][_T32 ^ 1])},
    ),
)

BOUNDS = (
    _bound(
        "load_past_the_end",
        32,
        (given("x", 100), output("y", 100), number(100)),
        lambda t: {"y": t["x"] + np.append(t["x"][1:], 0)},
        grid=4,
    ),
    _bound(
        "store_past_the_end", 32, (given("x", 100), output("y", 100), number(100)), lambda t: {"y": 2 * t["x"]}, grid=4
    ),
    _bound(
        "load_before_the_start",
        64,
        (given("x", 64), output("y", 64)),
        lambda t: {"y": t["x"][np.maximum(_T64 - 1, 0)]},
    ),
    _bound(
        "missing_tail_guard",
        32,
        (given("x", 101, "f32"), given("y", 101, "f32", "zeros"), number(101)),
        lambda t: {"y": np.where(np.arange(101) < 100, t["x"] + (np.arange(101) % 4 == 0), 0).astype(np.float32)},
    ),
    _bound("null_pointer", 32, (given("x", 32), output("y", 32), number(0, "u64")), lambda t: {"y": t["x"]}),
    _bound("shared_past_the_end", 64, (given("x", 64), output("y", 64)), lambda t: {"y": np.roll(t["x"], -1)}),
    _bound(
        "dynamic_shared_past_the_end",
        64,
        (given("x", 64), output("y", 64)),
        lambda t: {"y": t["x"]},
        dynamic_smem=256,
    ),
    _bound(
        "local_past_the_end",
        32,
        (given("x", 256), output("y", 32)),
        lambda t: {"y": t["x"].reshape(32, 8)[_T32, t["x"][:32] % 8]},
    ),
    _bound(
        "misaligned_vector_load",
        32,
        (given("x", 132), output("y", 32)),
        lambda t: {"y": t["x"][4:].reshape(32, 4).sum(axis=1)},
    ),
    _bound(
        "misaligned_vector_store",
        32,
        (given("x", 32), given("y", 66, "i32", "zeros")),
        lambda t: {"y": np.append(np.stack([t["x"], _T32], axis=1).reshape(-1), [0, 0])},
    ),
    _bound(
        "misaligned_shared_load",
        32,
        (given("x", 132), output("y", 32)),
        lambda t: {"y": t["x"][4:].reshape(32, 4).sum(axis=1)},
    ),
)

UNWRITTEN = (
    _unwritten("shared_half_written", 128, (given("x", 128), output("y", 128)), lambda t: {"y": t["x"][::-1]}),
    _unwritten("accumulate_into_output", 64, (given("x", 64), output("y", 64)), lambda t: {"y": t["x"]}),
    _unwritten("atomic_on_unwritten_shared", 64, (given("x", 64), output("y", 1)), lambda t: {"y": np.array([2016])}),
    _unwritten("register_on_one_path", 64, (given("x", 64), output("y", 64)), lambda t: {"y": t["x"] + 17}),
    _unwritten(
        "local_element_left_out",
        32,
        (given("x", 256), output("y", 32)),
        lambda t: {"y": t["x"].reshape(32, 8)[_T32, t["x"][:32] % 8]},
    ),
    _unwritten(
        "scratch_of_another_kernel",
        64,
        (given("x", 64), output("scratch", 64), output("y", 64)),
        lambda t: {"y": (t["x"] ** 2)[::-1]},
    ),
    _unwritten("bulk_store_of_unwritten", 64, (given("x", 64), output("y", 64)), lambda t: {"y": t["x"]}),
)

BLOCKS = (
    _block(
        "counter_without_atomic", 64, (given("x", 256), zeros("bins", 8)), lambda t: {"bins": 0 * t["bins"] + 32}, 4
    ),
    _block("all_blocks_write_one_place", 32, (output("y", 1),), lambda t: {"y": np.array([0])}, 3),
    _block("lock_without_fence", 32, (zeros("lock", 1), zeros("total", 1)), lambda t: {"total": np.array([21])}, 6),
    _block(
        "last_block_without_fence",
        32,
        (given("x", 256), output("partial", 8), zeros("tickets", 1), output("y", 1)),
        lambda t: {"y": t["x"].sum(keepdims=True)},
        8,
    ),
    _block(
        "flag_without_release",
        32,
        (given("x", 32), output("data", 32), zeros("flag", 1), output("y", 32)),
        lambda t: {"y": 5 * t["x"][::-1]},
        2,
    ),
    _block(
        "flag_of_plain_accesses",
        1,
        (given("x", 1), output("data", 1), zeros("flag", 1), output("y", 1)),
        lambda t: {"y": 5 * t["x"]},
        2,
    ),
    _block(
        "flag_that_nobody_sets",
        32,
        (given("x", 32), zeros("flag", 1), output("y", 32)),
        lambda t: {"y": t["x"]},
        2,
    ),
    _block("each_waits_for_the_other", 64, (output("y", 2),), lambda t: {"y": np.ones(2)}),
)

MATRIX = (
    _matrix(
        "product_of_f64",
        args=(given("x", 32, "u32"), output("y", 32, "f32")),
        expected=lambda t: {"y": t["x"].view(np.float32)},
    ),
    _matrix(
        "matrix_row_misaligned", args=(given("x", 32, "u32"), output("y", 32, "u32")), expected=lambda t: {"y": t["x"]}
    ),
    _matrix(
        "matrix_read_before_written",
        args=(given("x", 32, "u32"), output("y", 32, "u32")),
        expected=lambda t: {"y": t["x"]},
    ),
    _matrix(
        "matrix_by_half_a_warp", args=(given("x", 32, "u32"), output("y", 32, "u32")), expected=lambda t: {"y": t["x"]}
    ),
)

CASES = (*BARRIERS, *WARPS, *BOUNDS, *UNWRITTEN, *BLOCKS, *MATRIX)
