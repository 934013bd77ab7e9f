from compiler.arch import arch_named
from compiler.ir.tensor import BufferKind, CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, parallel, schedule, through_shared, unary

SMEM = {name: arch_named(name).smem_per_block_optin_bytes for name in ("sm_80", "sm_90a")}


def launched(shape: tuple[int, ...], *types: P, cap: int | None = None) -> Schedule:
    """i0 -> r -> v0, one element a thread: one parallel type for each dimension."""
    loops = [s for tv in ("r", "v0") for s in parallel(tv, *types)]
    caps = [st.CapRegisters(cap)] if cap is not None else []
    return schedule(unary(shape), [st.CacheInput("i0", "r", LOCAL), *loops, st.InlineAt("r", len(shape)), *caps])


def staged(elems: int, arch: str = "sm_90a") -> Schedule:
    """One block that keeps all elements in shared memory."""
    return schedule(unary((elems,)), through_shared(elems, 32, 1), arch)


def loaded_apart(x: int, y: int, on: P, registers: tuple[int, int] | None = None) -> Schedule:
    """Tiles of x by y elements in a ring that warps of their own fill, which are appended to dimension `on`."""
    loops = [s for tv in ("r", "v0") for s in parallel(tv, P.SERIAL, P.TIDY, P.TIDX)]
    ring = st.CircularBuffer("s", 2, kind=BufferKind.WARP_SPECIALIZED, on=on, registers=registers)
    steps: list[st.Step] = [
        st.CacheInput("i0", "s", SHARED, CopyVia.BULK1D),
        st.CacheInput("s", "r", LOCAL),
        *loops,
        st.Merge("s", 1),
        st.Parallelize("s", 1, P.BULK),
        st.InlineAt("s", 1),
        st.InlineAt("r", 3),
        ring,
    ]
    return schedule(unary((4, y, x)), steps)


CASES = (
    Case(
        "threads that load among those of a block",
        lambda: loaded_apart(896, 1, P.TIDX),
        lambda: loaded_apart(1024, 1, P.TIDX),
        (
            ("block_fits_the_architecture", "block", 1152, 1024),
            ("block_fits_the_architecture", "block.x", 1152, 1024),
        ),
    ),
    Case(
        "warps of both parts of a block",
        lambda: loaded_apart(16, 8, P.TIDY),
        lambda: loaded_apart(16, 8, P.TIDX),
        (
            (
                "parts_of_a_block_are_whole_warps",
                "block, warps appended to TIDx",
                "16 threads that compute beside 16 that load",
                "multiples of 32",
            ),
        ),
    ),
    Case(
        "warp groups of both parts of a block that share registers",
        lambda: loaded_apart(256, 2, P.TIDX),
        lambda: loaded_apart(256, 2, P.TIDX, (24, 80)),
        (
            (
                "parts_of_a_block_are_whole_warps",
                "block, warps appended to TIDx",
                "256 threads that compute beside 64 that load",
                "multiples of 128",
            ),
        ),
    ),
    Case(
        "threads of a block",
        lambda: launched((512, 2), P.TIDX, P.TIDY),
        lambda: launched((513, 2), P.TIDX, P.TIDY),
        (("block_fits_the_architecture", "block", 1026, 1024),),
    ),
    Case(
        "x of a block",
        lambda: launched((1024,), P.TIDX),
        lambda: launched((1025,), P.TIDX),
        (
            ("block_fits_the_architecture", "block", 1025, 1024),
            ("block_fits_the_architecture", "block.x", 1025, 1024),
        ),
    ),
    Case(
        "z of a block",
        lambda: launched((64,), P.TIDZ),
        lambda: launched((65,), P.TIDZ),
        (("block_fits_the_architecture", "block.z", 65, 64),),
    ),
    Case(
        "x of a grid",
        lambda: launched((2**31 - 1,), P.BIDX),
        lambda: launched((2**31,), P.BIDX),
        (("grid_fits_the_architecture", "grid.x", 2**31, 2**31 - 1),),
    ),
    Case(
        "y of a grid",
        lambda: launched((65535,), P.BIDY),
        lambda: launched((65536,), P.BIDY),
        (("grid_fits_the_architecture", "grid.y", 65536, 65535),),
    ),
    Case(
        "shared memory on Hopper",
        lambda: staged(SMEM["sm_90a"] // 4),
        lambda: staged(SMEM["sm_90a"] // 4 + 32),
        (("shared_memory_fits_the_block", "shared memory", SMEM["sm_90a"] + 128, SMEM["sm_90a"]),),
    ),
    Case(
        "shared memory on Ampere",
        lambda: staged(SMEM["sm_80"] // 4, "sm_80"),
        lambda: staged(SMEM["sm_80"] // 4 + 32, "sm_80"),
        (("shared_memory_fits_the_block", "shared memory", SMEM["sm_80"] + 128, SMEM["sm_80"]),),
    ),
    Case(
        "registers of a block",
        lambda: launched((1024,), P.TIDX, cap=64),
        lambda: launched((1024,), P.TIDX, cap=72),
        (("threads_times_registers_fit", "block", 73728, 65536),),
    ),
    Case(
        "registers of a block, whose warps are spread evenly over four sub-partitions",
        lambda: launched((640,), P.TIDX, cap=96),
        lambda: launched((641,), P.TIDX, cap=96),
        (("threads_times_registers_fit", "block", 73728, 65536),),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
