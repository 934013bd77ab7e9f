"""Products in tensor memory, their schedules written by hand, compiled for sm_100a and run in the emulator: no card."""

from __future__ import annotations

import pytest

from compiler.arch import arch_named
from compiler.emulate.launch import Completion, Options
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.explicit.elements import inputs_of
from compiler.explicit.emulated import launch_of
from compiler.ir.fusion import Fusion
from compiler.lower.mma_ir import TensorMma
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import generate
from tests.compiler.products import TURNED, product
from tests.compiler.tensor_products import Ask, by_one_thread
from tests.compiler.test_products import is_right
from tests.compiler.tmem.left_out import not_needed
from tests.compiler.tmem.traces import of_trace

ARCH = "sm_100a"


STRUCTURES: dict[str, tuple[Fusion, Ask]] = {
    "a tile a block": (product(256, 128, 192), Ask()),
    "blocks that stay": (product(384, 64, 128), Ask(blocks=1)),
    "two accumulators": (product(384, 128, 192), Ask(blocks=2, accumulators=2)),
    "three accumulators of more turns": (product(640, 32, 64), Ask(columns=32, blocks=1, accumulators=3)),
    "64 rows": (product(192, 64, 192), Ask(rows=64, columns=32, blocks=2, accumulators=2)),
    "one stage": (product(128, 64, 64), Ask()),
    "bytes": (product(128, 64, 256, "i8", "i32"), Ask(k=128, columns=32)),
    "ends": (product(100, 40, 72, out="f32"), Ask(columns=32)),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_structure_is_right(name: str, pool: CompilePool) -> None:
    fusion, how = STRUCTURES[name]
    is_right(fusion, by_one_thread(fusion, how), pool, ARCH)


def test_rows_of_operands_may_lie_side_by_side(pool: CompilePool) -> None:
    fusion = product(128, 64, 128, left="mn", right="mn")
    is_right(fusion, by_one_thread(fusion, Ask()), pool, ARCH)


def test_what_is_kept_beside_a_product_has_columns_of_its_own(pool: CompilePool) -> None:
    """The next product is asked for when this one has been read; what was made of it is there still."""
    fusion = product(384, 64, 128)
    is_right(fusion, by_one_thread(fusion, Ask(columns=32, words=32, blocks=1, accumulators=2, keeps=True)), pool, ARCH)


@pytest.mark.long
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("left", TURNED)
@pytest.mark.parametrize("right", TURNED)
@pytest.mark.parametrize("dtype", ["bf16", "f16", "i8", "f8e4m3", "f8e5m2"])
def test_every_layout_of_every_type_is_right(rows: int, left: str, right: str, dtype: str, pool: CompilePool) -> None:
    is_byte = dtype not in ("bf16", "f16")
    out = "i32" if dtype == "i8" else "f32"
    fusion = product(rows, 128, 256, dtype, out, left, right)
    how = Ask(rows=rows, columns=128 if is_byte else 64, k=128 if is_byte else 64, words=8)
    is_right(fusion, by_one_thread(fusion, how), pool, ARCH)


SERIAL = {"a tile a block": Ask(columns=8, words=4, stages=2), "blocks": Ask(columns=8, words=4, stages=2, blocks=2)}


@pytest.mark.long
@pytest.mark.parametrize("name", SERIAL)
def test_without_instructions_the_structures_give_the_same(name: str, pool: CompilePool) -> None:
    """Every axis that an instruction takes by itself, in registers: the schedule is one of a fold."""
    how, fusion = SERIAL[name], product(256, 16, 128)
    plain = Ask(**{**vars(how), "is_mma": False})
    is_right(fusion, by_one_thread(fusion, plain), pool, ARCH)
    is_right(fusion, by_one_thread(fusion, Ask(**{**vars(how), "columns": 16})), pool, ARCH)


@pytest.mark.parametrize("name", ["two accumulators", "64 rows"])
def test_an_instruction_is_one_statement(name: str, pool: CompilePool) -> None:
    """In the kernel a statement in an unrolled loop of four steps along k, in PTX four instructions."""
    fusion, how = STRUCTURES[name]
    made = generate(by_one_thread(fusion, how), arch_named(ARCH))
    assert sum(isinstance(s, TensorMma) for s in walk(made.kernel.body)) == 1
    assert pool.submit(made.source, ARCH).result().ptx.count("tcgen05.mma.") == 4


ASSURANCES = ("tcgen05.fence::before_thread_sync", "bar.warp.sync")
"""Before a place is said to be read. The manual's examples have the fence; a load that was waited for is over without
it, and so are those of the other lanes, which wait together (PTX ISA, tcgen05.wait::ld: .sync.aligned)."""


@pytest.mark.parametrize("how", [Ask(columns=16, stages=2, blocks=1, words=4)], ids=["one accumulator"])
def test_nothing_can_be_left_out(how: Ask, pool: CompilePool) -> None:
    """Without any wait, fence, commit, barrier or deallocation the emulator finds a fault."""
    fusion = product(256, 16, 256)
    made = of_trace(fusion, [*by_one_thread(fusion, how).steps])
    ptx = pool.submit(made.source, made.arch.name).result().ptx
    given = {n: inputs_of(made.fusion.value(n), i) for i, n in enumerate(made.fusion.inputs)}

    def is_faulty(text: str) -> bool:
        program, orders = parse(text), (Completion.EAGER, Completion.LAZY)
        return all(emulate(program, launch_of(made, given), Options(completion=one)).faults for one in orders)

    assert not is_faulty(ptx)
    assert [name.split(": ", 1)[1].split()[0].rstrip(";") for name in not_needed(ptx, is_faulty)] == [*ASSURANCES]
