"""Cases of asynchronous copies: mbarriers, bulk and tensor copies, cp.async, clusters, tensor memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from tests.emulate.kernels.case import Array, Case, box, given, matrix, number, output

_mbarrier = partial(Case, "mbarriers")
_bulk = partial(Case, "bulk")
_tensor = partial(Case, "tensors")
_cp = partial(Case, "cp_async")
_cluster = partial(Case, "clusters", block=64, grid=4, cluster=2)
_tmem = partial(Case, "tensor_memory", block=128, expected=lambda t: {"y": t["x"]})

_ROUND = (given("x", 64), output("y", 64))
_PRODUCED = (given("x", 32), output("y", 32))

MBARRIERS = (
    _mbarrier("load_without_wait", 64, _ROUND, lambda t: {"y": t["x"]}),
    _mbarrier("wait_of_one_thread", 64, _ROUND, lambda t: {"y": t["x"]}),
    _mbarrier("parity_of_the_first_phase", 64, _ROUND, lambda t: {"y": t["x"]}),
    _mbarrier("parity_not_flipped", 64, (given("x", 192), output("y", 192)), lambda t: {"y": t["x"]}),
    _mbarrier("too_many_bytes_expected", 64, _ROUND, lambda t: {"y": t["x"]}),
    _mbarrier("too_few_bytes_expected", 64, _ROUND, lambda t: {"y": t["x"]}),
    _mbarrier("bytes_of_one_copy_of_two", 64, _ROUND, lambda t: {"y": t["x"]}),
    _mbarrier("missing_arrive", 64, _PRODUCED, lambda t: {"y": t["x"][::-1]}),
    _mbarrier("count_of_a_warp_for_a_thread", 64, _PRODUCED, lambda t: {"y": t["x"][::-1]}),
    _mbarrier("more_arrivals_than_pending", 64, _PRODUCED, lambda t: {"y": t["x"][::-1]}),
    _mbarrier("used_before_init", 64, _PRODUCED, lambda t: {"y": t["x"][::-1]}),
    _mbarrier("init_without_barrier", 64, _PRODUCED, lambda t: {"y": t["x"][::-1]}),
    _mbarrier(
        "init_again",
        64,
        (given("x", 128), output("y", 128)),
        lambda t: {"y": t["x"].reshape(2, 64)[:, ::-1].reshape(-1)},
    ),
    _mbarrier("memory_of_a_live_barrier", 32, _PRODUCED, lambda t: {"y": t["x"][::-1]}),
    _mbarrier("count_of_zero", 32, (*_PRODUCED, number(0)), lambda t: {"y": t["x"][::-1]}),
    _mbarrier("missing_fence_of_init", 64, _ROUND, lambda t: {"y": t["x"]}),
)

BULK = (
    _bulk("size_not_of_16", 64, (*_ROUND, number(250)), lambda t: {"y": t["x"]}),
    _bulk("shared_side_misaligned", 64, _ROUND, lambda t: {"y": t["x"]}),
    _bulk("global_side_misaligned", 64, (given("x", 68), output("y", 64)), lambda t: {"y": t["x"][4:]}),
    _bulk("load_past_the_tensor", 64, (given("x", 128), output("y", 64)), lambda t: {"y": t["x"][64:]}),
    _bulk(
        "load_past_the_buffer", 64, (given("x", 128), output("y", 64)), lambda t: {"y": t["x"][:64]}, dynamic_smem=256
    ),
    _bulk("store_without_proxy_fence", 64, _ROUND, lambda t: {"y": 3 * t["x"]}),
    _bulk("fence_of_one_thread", 64, _ROUND, lambda t: {"y": 3 * t["x"]}),
    _bulk("store_without_barrier", 64, _ROUND, lambda t: {"y": 3 * t["x"]}),
    _bulk("source_reused", 64, (given("x", 128), output("y", 128)), lambda t: {"y": t["x"] + np.arange(128) // 64}),
    _bulk(
        "source_reused_a_stage_early",
        64,
        (given("x", 256), output("y", 256)),
        lambda t: {"y": t["x"] - np.arange(256) // 64},
    ),
    _bulk("wait_by_another_thread", 64, _ROUND, lambda t: {"y": t["x"]}),
    _bulk("store_in_flight", 64, _ROUND, lambda t: {"y": t["x"]}),
    _bulk("store_not_committed", 64, _ROUND, lambda t: {"y": t["x"]}),
    _bulk("load_in_flight", 64, _ROUND, lambda t: {"y": t["x"]}),
    _bulk("result_read_too_early", 64, (*_ROUND, output("z", 1)), lambda t: {"y": t["x"], "z": t["x"][5:6]}),
)

_TILES = (matrix("x"), output("y", 1024))


def _ring(t: Mapping[str, Array]) -> Mapping[str, Array]:
    places = [(16 * (i & 1), 16 * (i // 2)) for i in range(4)]
    return {"y": np.concatenate([box(t["x"], *place) for place in places])}


def _two_tiles(t: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.concatenate([box(t["x"], 0, 0), box(t["x"], 16, 0)])}


TENSORS = (
    _tensor("tile_misaligned", 64, (matrix("x"), output("y", 256)), lambda t: {"y": box(t["x"], 0, 0)}),
    _tensor("innermost_coordinate", 64, (matrix("x"), output("y", 256)), lambda t: {"y": box(t["x"], 4, 1)}),
    _tensor("map_in_local_memory", 64, (matrix("x"), output("y", 256)), lambda t: {"y": box(t["x"], 0, 0)}),
    _tensor("dimensions_of_another_map", 64, (matrix("x"), output("y", 256)), lambda t: {"y": box(t["x"], 0, 0)}),
    _tensor("bytes_without_the_fill", 64, (matrix("x"), output("y", 256)), lambda t: {"y": box(t["x"], 24, 24)}),
    _tensor(
        "tile_store_without_proxy_fence",
        64,
        (given("x", 256), matrix("y", "zeros")),
        lambda t: {"y": np.pad(t["x"].reshape(16, 16), (0, 16))},
    ),
    _tensor(
        "changed_in_place",
        64,
        (matrix("x"), matrix("y", "zeros")),
        lambda t: {"y": np.pad(t["x"][16:, 16:] + 7, (16, 0))},
    ),
    _tensor(
        "tile_reused_by_next_load",
        64,
        (matrix("x"), output("y", 512)),
        _two_tiles,
    ),
    _tensor("tile_reused_without_fence", 64, (matrix("x"), output("y", 512)), _two_tiles),
    _tensor("ring_without_empty_wait", 96, _TILES, _ring),
    _tensor("ring_with_wrong_empty_parity", 96, _TILES, _ring),
    _tensor("ring_freed_too_early", 96, _TILES, _ring),
    _tensor("ring_freed_without_fence", 96, _TILES, _ring),
    _tensor("ring_freed_by_warps_half_fenced", 96, _TILES, _ring),
    _tensor("ring_fenced_by_its_producer", 96, _TILES, _ring),
    _tensor(
        "tile_store_in_flight",
        64,
        (given("x", 256), matrix("y", "zeros")),
        lambda t: {"y": np.pad(t["x"].reshape(16, 16), (0, 16))},
    ),
    _tensor(
        "tile_reduce_in_flight",
        64,
        (given("x", 256), matrix("y")),
        lambda t: {"y": t["y"] + np.pad(t["x"].reshape(16, 16), (0, 16))},
    ),
)

CP_ASYNC = (
    _cp("no_wait", 32, (given("x", 128), output("y", 32)), lambda t: {"y": t["x"][0::4] + t["x"][3::4]}),
    _cp("no_commit", 32, (given("x", 128), output("y", 32)), lambda t: {"y": t["x"][0::4] + t["x"][3::4]}),
    _cp("no_barrier", 64, (given("x", 256), output("y", 64)), lambda t: {"y": t["x"][0::4][::-1]}),
    _cp("wait_after_barrier", 64, (given("x", 256), output("y", 64)), lambda t: {"y": t["x"][0::4][::-1]}),
    _cp(
        "pipeline_waits_for_too_few",
        64,
        (given("x", 384), output("y", 384)),
        lambda t: {"y": t["x"].reshape(6, 64)[:, ::-1].reshape(-1)},
    ),
    _cp(
        "stage_overwritten",
        64,
        (given("x", 192), output("y", 192)),
        lambda t: {"y": t["x"].reshape(3, 64)[:, ::-1].reshape(-1)},
    ),
    _cp("misaligned_copy", 32, (given("x", 132), output("y", 32)), lambda t: {"y": t["x"][4::4]}),
    _cp(
        "copy_past_the_end",
        64,
        (given("x", 50), output("y", 64), number(50)),
        lambda t: {"y": np.append(t["x"], np.zeros(14, np.int32))},
    ),
    _cp("arrive_before_copies", 64, _ROUND, lambda t: {"y": t["x"][::-1]}),
)


def _neighbour(t: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": t["x"].reshape(2, 2, 64)[:, ::-1].reshape(-1)}


def _first_words(t: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.tile(t["x"][:64], 4)}


_PAIRS = (given("x", 256), output("y", 256))

CLUSTERS = (
    _cluster("remote_read_without_cluster_barrier", args=_PAIRS, expected=_neighbour),
    _cluster("remote_write_without_cluster_barrier", args=_PAIRS, expected=_neighbour),
    _cluster("block_leaves_early", args=_PAIRS, expected=_neighbour),
    _cluster("rank_outside_of_cluster", args=_PAIRS, expected=_neighbour),
    _cluster("multicast_before_init", args=_PAIRS, expected=_first_words),
    _cluster("multicast_awaited_by_its_issuer", args=_PAIRS, expected=_first_words),
    _cluster("remote_arrive_missing", args=_PAIRS, expected=_neighbour),
)

_WORDS = (given("x", 128, "u32"), output("y", 128, "u32"))

TENSOR_MEMORY = (
    _tmem("lanes_of_another_warp", args=_WORDS),
    _tmem("column_past_the_allocation", args=_WORDS),
    _tmem(
        "vector_past_the_allocation",
        args=_WORDS,
        expected=lambda t: {"y": t["x"] + 3 * np.arange(128, dtype=np.uint32) + 3},
    ),
    _tmem("used_after_free", args=_WORDS),
    _tmem("never_freed", args=_WORDS),
    _tmem("columns_not_a_power_of_two", args=(*_WORDS, number(48, "u32"))),
    _tmem("load_not_waited_for", args=_WORDS),
    _tmem("store_not_waited_for", args=_WORDS),
    _tmem("columns_never_stored", args=_WORDS),
)

CASES = (*MBARRIERS, *BULK, *TENSORS, *CP_ASYNC, *CLUSTERS, *TENSOR_MEMORY)
