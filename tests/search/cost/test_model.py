from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.arch import Card, card_named, cards
from search.cost.features import KernelFeatures
from search.cost.memory import CROWDED_BYTES, bandwidth_us, latency_us
from search.cost.model import Prediction, in_a_row, predict

H200 = card_named("H200")
KIB = 1024


def copy(bytes_moved: float, in_flight: float = 64 * KIB) -> KernelFeatures:
    """A copy by 256-thread blocks of 8 KiB each, eight resident on an SM, that issue all their loads first."""
    read = bytes_moved / 2
    blocks = max(1, round(read / (8 * KIB)))
    return KernelFeatures(
        dram_read_bytes=read,
        dram_write_bytes=read,
        l2_read_bytes=read,
        bytes_in_flight_per_sm=in_flight,
        blocks=blocks,
        blocks_per_sm=8,
        warp_instructions=read / 512 * 12,
    )


@pytest.mark.parametrize(
    ("case", "features", "measured_us", "within"),
    [
        pytest.param("copy of 537 MB", copy(537e6), 127.0, 0.03, id="copy-537-MB"),
        pytest.param("copy of 6 MB", copy(6.3e6), 3.3, 0.05, id="copy-6-MB"),
        pytest.param(
            "add, 2:1", replace(copy(3221e6), dram_read_bytes=2147e6, dram_write_bytes=1074e6), 736, 0.04, id="add"
        ),
        pytest.param("row sum", replace(copy(537e6), dram_write_bytes=0), 60.3, 0.06, id="read-only"),
    ],
)
def test_measured_times_on_an_h200(case: str, features: KernelFeatures, measured_us: float, within: float) -> None:
    assert predict(H200, features).total_us == pytest.approx(measured_us, rel=within), case


@pytest.mark.parametrize(
    ("in_flight_kib", "loss_percent"),
    [(8, 71), (16, 22), (24, 10), (32, 6), (48, 2.6), (64, 1.5), (96, 0.7)],
)
def test_what_too_few_bytes_in_flight_cost_a_copy(in_flight_kib: int, loss_percent: float) -> None:
    stream = replace(copy(100e9, in_flight_kib * KIB), warp_instructions=0)
    features = replace(stream, tiles=2 * stream.blocks)  # the stream kernels of the fit go over their data in loops
    body = (bandwidth_us(H200, features) ** 2 + latency_us(H200, features) ** 2) ** 0.5
    assert 100 * (body / bandwidth_us(H200, features) - 1) == pytest.approx(loss_percent, rel=0.1, abs=0.1)


def test_blocks_that_come_and_go_cover_each_other() -> None:
    one_shot = replace(copy(403e6, 32 * KIB), blocks=49152, tiles=49152)
    loops = replace(one_shot, tiles=2 * 49152)
    waits = replace(one_shot, syncs_per_tile=1)
    assert predict(H200, one_shot).total_us == pytest.approx(96.3, rel=0.01)
    assert latency_us(H200, one_shot) < latency_us(H200, loops) < latency_us(H200, waits)


@pytest.mark.parametrize(
    ("blocks", "measured_us"), [(524288, 317.7), (458752, 278.5), (917504, 555.1), (262144, 159.7)]
)
def test_blocks_of_little_work_take_80_ns_each(blocks: int, measured_us: float) -> None:
    features = replace(copy(537e6), blocks=blocks, blocks_per_sm=32)
    assert predict(H200, features).total_us == pytest.approx(measured_us, rel=0.02)


@pytest.mark.parametrize(
    ("passes", "is_kept", "measured_us"),
    [
        (38e6, False, 241.0),
        (25e6, False, 217.5),
        (13e6, False, 206.0),
        (0, False, 195.0),
        (38e6, True, 227.7),
        (9e6, True, 198.2),
    ],
)
def test_what_passes_through_l2_displaces_what_is_read_again(passes: float, is_kept: bool, measured_us: float) -> None:
    stream = copy(805e6)
    features = replace(
        stream,
        dram_read_bytes=stream.dram_read_bytes + 12.6e6,
        l2_read_bytes=2 * stream.l2_read_bytes,
        l2_reused_bytes=12.6e6,
        l2_reuse_distance_bytes=passes,
        l2_reuse_is_kept=is_kept,
    )
    assert predict(H200, features).total_us == pytest.approx(measured_us, rel=0.03)


@pytest.mark.parametrize(
    ("reads", "writes", "rate"),
    [(1, 0, 4.59e12), (2, 1, 4.37e12), (1, 1, 4.27e12), (0, 1, 4.69e12)],
)
def test_the_rate_follows_the_mix_of_reads_and_writes(reads: float, writes: float, rate: float) -> None:
    total = 3e9
    features = replace(
        copy(total),
        dram_read_bytes=total * reads / (reads + writes),
        dram_write_bytes=total * writes / (reads + writes),
    )
    assert total / bandwidth_us(H200, features) * 1e6 == pytest.approx(rate, rel=0.001)


@pytest.mark.parametrize(
    ("change", "term", "us"),
    [
        # 132 SMs at 1980 MHz are 261360 clocks a us; 64 warps of an SM fill its four slots by 26.88 of 4 over 30.88.
        pytest.param({"warp_instructions": 4 * 261360 * 50.0}, "issue", 50.0 * (1 + 4 / (0.42 * 64)), id="issue"),
        pytest.param({"mufu_ops": 16 * 261360 * 30.0}, "mufu", 30.0, id="mufu"),
        pytest.param({"smem_wavefronts": 261360 * 20.0}, "smem", 20.0, id="smem"),
        pytest.param({"l2_read_bytes": 37 * 261360 * 900.0}, "bandwidth", 900.0, id="l2-bound"),
        pytest.param(
            {"l2_read_bytes": 31.5 * 261360 * 900.0, "l2_reused_bytes": 0.5 * H200.l2_bytes},
            "bandwidth",
            900.0,
            id="far-l2",
        ),
        pytest.param({"spilled_bytes": 57 * 261360 * 40.0}, "spills", 40.0, id="spills-within-l1"),
        pytest.param(
            {"spilled_bytes": 22 * 261360 * 40.0, "spilled_bytes_per_sm": 500 * KIB}, "spills", 40.0, id="spills-to-l2"
        ),
        pytest.param({"copies": 132 * 8000.0}, "copies", 8000 * 7 / 1980, id="the-copy-engine-is-busy"),
        pytest.param({"copies": 264 * 4000.0, "blocks": 264, "blocks_per_sm": 2}, "copies", 108.0, id="threads-issue"),
        pytest.param(
            {"blocks": 240 * 8, "blocks_per_sm": 8, "cluster": 4, "exchanges": 240 * 8}, "cluster", 1.18, id="clusters"
        ),
        pytest.param(
            {"blocks": 120 * 100, "blocks_per_sm": 100, "cluster": 4, "is_multicast": True},
            "cluster",
            8.15,
            id="a-place-stays-empty-until-all-blocks-of-a-multicast-have-ended",
        ),
        pytest.param(
            {"blocks": 264 * 4, "blocks_per_sm": 8, "cluster": 2, "exchanges": 264 * 4}, "cluster", 0.27, id="pairs"
        ),
        pytest.param({"exchanges": 1000}, "cluster", 0.0, id="no-cluster"),
        pytest.param({"tiles": 13200, "syncs_per_tile": 2, "blocks_per_sm": 1}, "sync", 3.0, id="sync"),
        pytest.param({"blocks": 132, "blocks_per_sm": 1}, "tail", 0.0, id="one-full-wave"),
        pytest.param({"blocks": 66, "blocks_per_sm": 1}, "tail", 0.0, id="half-a-wave-has-no-tail"),
    ],
)
def test_terms(change: dict[str, Any], term: str, us: float) -> None:
    features = replace(copy(537e6), **change)
    assert predict(H200, features).terms[term] == pytest.approx(us)


@pytest.mark.parametrize(
    ("blocks", "tiles", "share"),
    [
        pytest.param(132 * 4, 0, 0.15 / 4, id="blocks that come and go drain"),
        pytest.param(132 * 40, 0, 0.15 / 40, id="small blocks drain sooner"),
        pytest.param(132 * 4, 132 * 8, 0.025 / 4, id="blocks in loops share the work"),
        pytest.param(132 * 4 + 66, 132 * 9, (0.1 * 0.5 + 0.025) / 4.5, id="and begin late where they find no room"),
        pytest.param(132, 132 * 8, 0.0, id="all blocks run at once"),
    ],
)
def test_at_the_end_places_stay_empty(blocks: int, tiles: int, share: float) -> None:
    features = replace(copy(537e6), blocks=blocks, blocks_per_sm=1, tiles=tiles, warp_instructions=0)
    terms = predict(H200, features).terms
    exponent = 2 if tiles > blocks else 6
    memory = (terms["bandwidth"] ** exponent + terms["latency"] ** exponent) ** (1 / exponent)
    assert terms["tail"] == pytest.approx(share * (memory + terms["phases"]))


@pytest.mark.parametrize(
    ("waits", "blocks_per_sm", "share"),
    [
        pytest.param(0, 2, 0.0, id="no thread waits"),
        pytest.param(1, 2, 0.012, id="sixteen warps"),
        pytest.param(1, 4, 0.006, id="thirty-two warps"),
    ],
)
def test_more_warps_cover_more_of_the_phases_of_blocks(waits: int, blocks_per_sm: int, share: float) -> None:
    features = replace(copy(537e6), syncs_per_tile=waits, blocks_per_sm=blocks_per_sm)
    terms = predict(H200, features).terms
    assert terms["phases"] == pytest.approx(share * terms["bandwidth"], rel=0.01)


def transpose_of_odd_rows(blocks: int, resident: int, warps: int, smem_us: float) -> KernelFeatures:
    """Tiles of an int8 transpose with odd rows, 131 MB, whose threads meet once between reading and storing."""
    return KernelFeatures(
        dram_read_bytes=65.5e6,
        dram_write_bytes=65.5e6,
        l2_read_bytes=65.5e6,
        bytes_in_flight_per_sm=36 * KIB * resident,
        blocks=blocks,
        blocks_per_sm=resident,
        warps_per_block=warps,
        syncs_per_tile=1,
        smem_wavefronts=smem_us * 261360,
    )


@pytest.mark.parametrize(
    ("blocks", "resident", "warps", "smem_us", "measured_us"),
    [
        pytest.param(4158, 2, 16, 25.5, 46.7, id="two blocks of sixteen warps"),
        pytest.param(2142, 2, 16, 42.7, 63.0, id="bank conflicts do not hide"),
        pytest.param(8190, 5, 8, 77.2, 92.0, id="nor do they among five blocks"),
    ],
)
def test_blocks_whose_threads_meet_overlap_by_how_many_there_are(
    blocks: int, resident: int, warps: int, smem_us: float, measured_us: float
) -> None:
    features = transpose_of_odd_rows(blocks, resident, warps, smem_us)
    assert predict(H200, features).total_us == pytest.approx(measured_us, rel=0.2)
    alone = replace(features, blocks_per_sm=1, bytes_in_flight_per_sm=36 * KIB)
    assert predict(H200, alone).total_us > predict(H200, features).total_us
    apart = replace(alone, syncs_per_tile=0)
    assert predict(H200, apart).total_us < predict(H200, alone).total_us


def test_a_ring_asks_while_its_threads_work() -> None:
    loop = replace(copy(134e6), dram_write_bytes=0, blocks=128, tiles=128 * 64, blocks_per_sm=1, warp_instructions=1e7)
    ring = replace(loop, is_ring=True)
    assert latency_us(H200, ring) < latency_us(H200, loop)
    assert latency_us(H200, ring) == latency_us(H200, replace(ring, warp_instructions=2e7))


@pytest.mark.parametrize(
    ("hint", "blocks_per_sm", "slower"),
    [
        pytest.param("read_past_l1", 1, 0.06, id="past L1, many waves"),
        pytest.param("read_past_l1", 64, 0.0, id="past L1, all blocks at once"),
        pytest.param("read_streaming", 1, 0.02, id="streaming, many waves"),
        pytest.param("read_streaming", 64, 0.0, id="streaming, all blocks at once"),
    ],
)
def test_hints_cost_what_blocks_come_after(hint: str, blocks_per_sm: int, slower: float) -> None:
    features = replace(copy(64 * 8 * KIB * 132 * 2), blocks=64 * 132, blocks_per_sm=blocks_per_sm)
    named: dict[str, Any] = {hint: 1.0}
    past = replace(features, **named)
    assert bandwidth_us(H200, past) / bandwidth_us(H200, features) - 1 == pytest.approx(slower, rel=0.02)


@pytest.mark.parametrize(
    ("in_flight_kib", "change", "slower"),
    [
        pytest.param(64, {}, 0.0, id="enough"),
        pytest.param(128, {}, 0.01, id="crowded"),
        pytest.param(256, {}, 0.04, id="four times"),
        pytest.param(256, {"tiles": 10**6}, 0.0, id="in a loop"),
        pytest.param(256, {"dram_write_bytes": 0}, 0.0, id="reads alone"),
    ],
)
def test_more_in_flight_than_needed_is_slower_where_blocks_write(
    in_flight_kib: int, change: dict[str, Any], slower: float
) -> None:
    enough = replace(copy(537e6), **change)
    crowded = replace(enough, bytes_in_flight_per_sm=in_flight_kib * KIB)
    assert bandwidth_us(H200, crowded) / bandwidth_us(H200, enough) - 1 == pytest.approx(slower)


def test_what_the_blocks_at_work_read_again_must_fit_l2() -> None:
    once = replace(copy(8e9), dram_write_bytes=0)
    read = [
        replace(
            once,
            l2_read_bytes=1.4 * once.dram_read_bytes,
            l2_reused_bytes=once.dram_read_bytes,
            l2_reused_bytes_per_sm=share * H200.l2_bytes / 132,
        )
        for share in (0.1, 0.6, 1.0, 1.5, 3.0)
    ]
    times = [bandwidth_us(H200, features) for features in (once, *read)]
    assert times == sorted(times)
    assert times[0] == times[2]
    assert times[-1] >= 1.4 * times[0]


@pytest.mark.parametrize(
    ("costs", "slowdown"),
    [
        pytest.param({"read_run_cost": 1.2}, 1.1, id="reads"),
        pytest.param({"write_run_cost": 2.2}, 1.6, id="writes"),
    ],
)
def test_short_runs_cost_time_per_byte(costs: dict[str, Any], slowdown: float) -> None:
    features = replace(copy(537e6), **costs)
    assert bandwidth_us(H200, features) / bandwidth_us(H200, copy(537e6)) == pytest.approx(slowdown, rel=0.06)


GROWING = ["dram_read_bytes", "dram_write_bytes", "l2_read_bytes", "l2_reused_bytes", "warp_instructions", "mufu_ops"]
GROWING += ["smem_wavefronts", "syncs_per_tile", "copies", "spilled_bytes", "exchanges", "read_run_cost"]
GROWING += ["write_run_cost"]
GROWING += ["read_streaming", "write_spread", "read_past_l1"]
SHRINKING = ["bytes_in_flight_per_sm"]

amounts = st.floats(0, 1e9)
kernels = st.builds(
    KernelFeatures,
    dram_read_bytes=amounts,
    dram_write_bytes=amounts,
    l2_read_bytes=amounts,
    l2_reused_bytes=amounts,
    bytes_in_flight_per_sm=st.floats(
        256, CROWDED_BYTES / 50
    ),  # up to what is enough: more is slower where blocks write
    read_streaming=st.floats(0, 0.02),
    write_spread=st.floats(1, 16),
    read_past_l1=st.floats(0, 0.02),
    read_run_cost=st.floats(1, 8),
    write_run_cost=st.floats(1, 8),
    copies=amounts,
    spilled_bytes=amounts,
    exchanges=st.integers(0, 10**6),
    cluster=st.sampled_from((1, 2, 8)),
    warp_instructions=amounts,
    mufu_ops=amounts,
    smem_wavefronts=amounts,
    blocks=st.integers(1, 10**6),
    blocks_per_sm=st.integers(1, 32),
    tiles=st.integers(0, 10**6),
    syncs_per_tile=st.integers(0, 8),
)


@given(st.sampled_from(cards()), kernels, st.sampled_from(GROWING + SHRINKING), st.integers(2, 50))
@settings(derandomize=True, max_examples=400, deadline=None)
def test_more_work_is_never_faster(card: Card, features: KernelFeatures, name: str, times: int) -> None:
    more = replace(features, **{name: getattr(features, name) * times})
    before, after = predict(card, features).total_us, predict(card, more).total_us
    slack = 1 + 1e-9
    if name in GROWING:
        assert after * slack >= before
    else:
        assert after <= before * slack


def test_every_term_is_printed() -> None:
    text = str(predict(H200, copy(537e6)))
    assert text.startswith("12")
    for term in ("fixed 1.9", "bandwidth 125", "latency", "issue", "mufu 0.0", "smem", "sync", "tail"):
        assert term in text


@pytest.mark.parametrize(
    "change",
    [
        {"dram_read_bytes": -1.0},
        {"mufu_ops": float("nan")},
        {"l2_read_bytes": float("inf")},
        {"blocks": 0},
        {"blocks_per_sm": 0},
    ],
)
def test_impossible_features_are_refused(change: dict[str, Any]) -> None:
    (name,) = change
    with pytest.raises(ValueError, match=f"^{name}: found"):
        replace(copy(1e6), **change)


def test_launches_in_a_row_add_up_by_term() -> None:
    together = in_a_row(
        [Prediction(3.0, {"fixed": 1.9, "bandwidth": 1.1}), Prediction(2.5, {"fixed": 1.9, "tail": 0.6})]
    )
    assert together.total_us == 5.5
    assert together.terms == {"fixed": 3.8, "bandwidth": 1.1, "tail": 0.6}
    one = predict(H200, copy(6.3e6))
    assert in_a_row([one]) == one
