"""What is said of a proof in the emulator, and of a kernel that stays."""

from __future__ import annotations

import pytest

from fusetune.wire.artifact import Verification
from service.db.models import KernelRow
from service.jobs.proving import proof_in_words
from service.jobs.settle import note_on
from tests.service.dashboard.seed import EMULATED


def verified(*sets: str, **changes: object) -> Verification:
    return Verification(
        device="emulator",
        input_sets=sets,
        max_error=0.0,
        tolerance=1e-3,
        deterministic=True,
        emulated=EMULATED.model_copy(update=changes),
    )


@pytest.mark.parametrize(
    ("found", "says"),
    [
        pytest.param(
            verified("random", "large", "tiny"),
            "right on every input set in the emulator; not timed",
            id="its-class-at-small-sizes",
        ),
        pytest.param(
            verified("random", shapes=(), strides=(), served_blocks=(0, 1, 271), served_blocks_of=1272),
            "right in the emulator on random inputs, in 3 of its 1,272 blocks; not timed",
            id="blocks-of-the-served-code-alone",
        ),
    ],
)
def test_no_more_is_said_than_was_run(found: Verification, says: str) -> None:
    assert proof_in_words(found) == says


@pytest.mark.parametrize(
    ("kept", "new", "says"),
    [
        pytest.param(("a", "predicted"), ("a", "predicted"), "", id="the-one-that-was-found"),
        pytest.param(("a", "predicted"), ("b", "predicted"), "is not predicted to be faster", id="a-better-prediction"),
        pytest.param(("a", "measured"), ("b", "measured"), "is no faster (12.00 us)", id="a-faster-one"),
    ],
)
def test_which_kernel_stays_is_said_as_it_is_known(kept: tuple[str, str], new: tuple[str, str], says: str) -> None:
    rows = [
        KernelRow(id=id, correct="verified_emulated", time=time, median_us=12.0 if time == "measured" else None)
        for id, time in (kept, new)
    ]
    assert says in note_on(rows[0], rows[1])
    assert bool(says) is bool(note_on(rows[0], rows[1]))
