"""The kernels of a few schedules as text: a change of lowering or of the emitter shows as a change of these files.

Beside each kernel, `NAME.cu`, stands the scheduled fusion that it was lowered from, `NAME.txt`: one paragraph a tensor
(`compiler.ir.printer`). `pytest tests/compiler/emit/test_golden.py --update-golden` rewrites them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from compiler.emit.cuda import entries, kernel_only
from compiler.ir.printer import scheduled_text
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated
from tests.compiler.emit.contraction import contractible
from tests.compiler.emit.golden_schedules import GOLDEN
from tests.shares import shared

FOLDER = Path(__file__).with_name("golden")


def schedules(made: Generated) -> str:
    """The scheduled fusion of every launch."""
    return "\n\n\n".join(scheduled_text(launch.scheduled) for launch in made.launches) + "\n"


@cache
def made(name: str, arch: str) -> Generated:
    return GOLDEN[name].make(arch)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_kernel_and_its_schedule_are_the_golden_ones(name: str, request: pytest.FixtureRequest) -> None:
    kernel = made(name, GOLDEN[name].archs[0])
    for suffix, text in ((".cu", kernel_only(kernel.source)), (".txt", schedules(kernel))):
        path = FOLDER / f"{name}{suffix}"
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), "if the change is meant: --update-golden"


def test_every_golden_file_has_its_schedule() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}{end}" for name in GOLDEN for end in (".cu", ".txt")}


TARGETS = [*((name, g.archs[0]) for name, g in GOLDEN.items())]
OTHERS = [(name, arch) for name, g in GOLDEN.items() for arch in g.archs[1:]]


@pytest.mark.parametrize("target", [*TARGETS, *shared(OTHERS, 4)], ids="-".join)
def test_the_source_compiles_for_every_architecture_that_has_its_instructions(
    pool: CompilePool, target: tuple[str, str]
) -> None:
    """In the ordinary run for the first, and for every second of the others."""
    name, arch = target
    source = made(name, GOLDEN[name].archs[0])
    compiled = pool.submit(source.source, arch).result()
    assert (compiled.entry, compiled.arch) == (entries(len(source.launches))[0], arch)
    assert compiled.resources.spill_store_bytes == compiled.resources.stack_bytes == 0
    assert not contractible(compiled.ptx), "contracted, a value could have two sets of bits"


@pytest.mark.parametrize("name", [n for n, g in GOLDEN.items() if "sm_80" in g.archs])
def test_threads_alone_give_one_source_for_all_architectures(name: str) -> None:
    sources = {made(name, arch).source for arch in GOLDEN[name].archs}
    assert len(sources) == 1
