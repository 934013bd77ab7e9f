"""What accesses check: bounds, alignment, what was written, holes; and the memory that is filled on first touch."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.launch import EmulatedTensor, Launch, Options, TensorArgument
from compiler.emulate.memory.region import PAGE, MemoryRegion
from compiler.emulate.ptx.module import StateSpace
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from tests.emulate.machine.kernels import HEAD, KERNEL, run

SHARED = ".shared .align 4 .b8 buffer[128];"
TO_SHARED = "mov.u32 %r10, buffer;\nshl.b32 %r11, %r1, 2;\nadd.u32 %r10, %r10, %r11;\n"

CASES = [
    pytest.param("st.global.u32 [%rd5], %r1;", None, id="inside"),
    pytest.param("st.global.u32 [%rd5+4], %r1;", ("out_of_bounds", "y", 31), id="one past the end"),
    pytest.param("ld.global.u32 %r6, [%rd4+-4];", ("out_of_bounds", "x", 0), id="one before the start"),
    pytest.param("ld.global.v2.u32 {%r6, %r7}, [%rd4];", ("misaligned", "x", 1), id="a pair at odd words"),
    pytest.param("ld.global.u16 %r6, [%rd4+1];", ("misaligned", "x", 0), id="two bytes at an odd byte"),
    pytest.param("ld.global.u8 %r6, [%rd4+1];", None, id="one byte anywhere"),
    pytest.param("ld.global.u32 %r6, [%rd5];", ("uninitialized_read", "y", 0), id="a poisoned output"),
    pytest.param("mov.u64 %rd6, 64;\nld.u32 %r6, [%rd6];", ("out_of_bounds", "x", 0), id="next to null"),
    pytest.param(f"{TO_SHARED}ld.shared.u32 %r6, [%r10];", ("uninitialized_read", "shared memory", 0), id="shared"),
    pytest.param(f"{TO_SHARED}st.shared.u32 [%r10+4], %r1;", ("out_of_bounds", "shared memory", 31), id="past shared"),
    pytest.param(f"{TO_SHARED}st.shared.u32 [%r10], %r1;\nld.shared.u32 %r6, [%r10];", None, id="shared, written"),
    pytest.param(
        f"{TO_SHARED}st.shared.u16 [%r10], %r1;\nld.shared.u32 %r6, [%r10];",
        ("uninitialized_read", "shared memory", 0),
        id="half of it written",
    ),
]


@pytest.mark.parametrize(("body", "fault"), CASES)
def test_each_access_is_checked(body: str, fault: tuple[str, str, int] | None) -> None:
    last = "" if body.startswith("st.global") else "st.global.u32 [%rd5], %r1;"
    ran = run(f"{body}\n{last}\nret;", variables=SHARED)
    if fault is None:
        assert ran.outcome.faults == ()
    else:
        (found,) = ran.outcome.faults
        assert found.thread is not None
        assert (str(found.kind), found.tensor, found.thread[0]) == fault
        assert found.instruction in " ".join(body.split())


def test_a_store_out_of_bounds_is_dropped_and_a_load_gives_zero() -> None:
    ran = run("add.u64 %rd5, %rd5, 64;\nld.global.u32 %r6, [%rd4+64];\nst.global.u32 [%rd5], %r6;\nret;")
    assert ran.y.tolist() == [0] * 16 + list(range(16, 32))
    assert ran.kinds == ["out_of_bounds", "out_of_bounds"]


def test_a_report_lists_a_hundred_faults_and_counts_the_others() -> None:
    stores = "\n".join(f"st.global.u32 [%rd5+{4096 + 4 * i}], %r1;" for i in range(103))
    outcome = run(stores + "\nret;").outcome
    assert (len(outcome.faults), outcome.unlisted) == (100, 3 * 32)


def test_shared_memory_is_the_blocks_own() -> None:
    ran = run(
        f"{TO_SHARED}add.u32 %r6, %r4, 1000;\nst.shared.u32 [%r10], %r6;\nld.shared.u32 %r7, [%r10];\n"
        "st.global.u32 [%rd5], %r7;\nret;",
        variables=SHARED,
        blocks=5,
    )
    assert ran.kinds == []
    assert (ran.y == np.arange(160) + 1000).all()


def test_generic_addresses_find_their_space() -> None:
    ran = run(
        f"{TO_SHARED}cvt.u64.u32 %rd6, %r10;\ncvta.shared.u64 %rd6, %rd6;\nst.u32 [%rd6], %r4;\n"
        "ld.shared.u32 %r7, [%r10];\nst.u32 [%rd5], %r7;\nret;",
        variables=SHARED,
    )
    assert ran.kinds == []
    assert (ran.y == np.arange(32)).all()


def test_a_store_into_the_padding_of_a_row_is_out_of_bounds() -> None:
    body = "st.global.u32 [%rd5], %r1;\nret;"
    valid = np.ones(128, np.bool_)
    valid[20 * 4 : 24 * 4] = False
    y = np.zeros(128, np.uint8)
    tensors = {
        "x": EmulatedTensor("x", "u32", (32,), np.zeros(128, np.uint8)),
        "y": EmulatedTensor("y", "u32", (28,), y, np.zeros(128, np.bool_), valid),
    }
    module = parse(HEAD + KERNEL.format(body=body, variables=""))
    launch = Launch("k", "sm_90a", (1, 1, 1), (32, 1, 1), (TensorArgument("x"), TensorArgument("y")), tensors)
    (fault,) = emulate(module, launch).faults
    assert (str(fault.kind), fault.thread, fault.count) == ("out_of_bounds", (20, 0, 0), 4)


@pytest.mark.parametrize("align", [256, 16, 4])
def test_an_address_is_aligned_to_what_is_promised_and_no_more(align: int) -> None:
    body = "ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd1];\nst.global.u32 [%rd5], %r9;\nret;"
    tensors = {
        "x": EmulatedTensor("x", "u32", (4,), np.arange(4, dtype=np.uint32).view(np.uint8), align=align),
        "y": EmulatedTensor("y", "u32", (32,), np.zeros(128, np.uint8)),
    }
    module = parse(HEAD + KERNEL.format(body=body, variables=""))
    launch = Launch("k", "sm_90a", (1, 1, 1), (32, 1, 1), (TensorArgument("x"), TensorArgument("y")), tensors)
    faults = emulate(module, launch).faults
    assert [str(f.kind) for f in faults] == ([] if align >= 16 else ["misaligned"])


def test_memory_that_is_filled_on_first_touch_is_filled_where_it_is_touched_only() -> None:
    asked = []

    def fill(start: int, stop: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        asked.append((start, stop))
        return np.arange(start // 4, stop // 4, dtype=np.uint32).view(np.uint8)

    size = 1 << 28
    tensors = {
        "x": EmulatedTensor("x", "u32", (size // 4,), np.zeros(size, np.uint8), fill=fill),
        "y": EmulatedTensor(
            "y", "u32", (size // 4,), np.zeros(size, np.uint8), np.zeros(size, np.bool_), fill=_nothing
        ),
    }
    body = "ld.global.u32 %r6, [%rd4];\nst.global.u32 [%rd5], %r6;\nret;"
    module = parse(HEAD + KERNEL.format(body=body, variables=""))
    blocks = size // 4 // 1024
    launch = Launch("k", "sm_90a", (blocks, 1, 1), (1024, 1, 1), (TensorArgument("x"), TensorArgument("y")), tensors)
    outcome = emulate(module, launch, Options(blocks=(0, blocks - 1)))
    assert outcome.faults == ()
    assert asked == [(0, PAGE), (size - PAGE, size)]
    y = tensors["y"].data.view(np.uint32)
    assert (y[:1024] == np.arange(1024)).all()
    assert (y[-1024:] == np.arange(size // 4 - 1024, size // 4)).all()
    assert int(outcome.written["y"].sum()) == 8192


@pytest.mark.parametrize("start", [0, 1, PAGE - 16, 2 * PAGE - 1])
@pytest.mark.parametrize("nbytes", [1, PAGE - 1, PAGE, PAGE + 15, 2 * PAGE, 3 * PAGE + 1])
def test_every_page_of_a_long_copy_is_filled(start: int, nbytes: int) -> None:
    """One bulk copy may begin near the end of a page and go over several others."""
    size = 8 * PAGE
    filled: list[int] = []

    def fill(begin: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        filled.append(begin // PAGE)
        return np.ones(end - begin, np.uint8)

    region = MemoryRegion("x", StateSpace.GLOBAL, 0, size, np.zeros(size, np.uint8), 0, fill=fill)
    region.touch(np.array([start], np.int64), nbytes)
    assert sorted(filled) == list(range(start // PAGE, (start + nbytes - 1) // PAGE + 1))
    assert region.data[start : start + nbytes].all()


def _nothing(start: int, stop: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.zeros(stop - start, np.uint8)
