"""The kernels of a few schedules as text: a change of lowering or of the emitter shows as a change of these files.

Beside each kernel, `NAME.cu`, stands the scheduled fusion that it was lowered from, `NAME.txt`: one paragraph a tensor
(`compiler.ir.printer`). `pytest tests/compiler/emit/test_golden.py --update-golden` rewrites them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.emit.cuda import entries, kernel_only
from compiler.ir.printer import scheduled_text
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated
from tests.compiler.emit.contraction import contractible
from tests.compiler.emit.golden_schedules import GOLDEN

FOLDER = Path(__file__).with_name("golden")


def schedules(made: Generated) -> str:
    """The scheduled fusion of every launch."""
    return "\n\n\n".join(scheduled_text(launch.scheduled) for launch in made.launches) + "\n"


@pytest.mark.parametrize("name", GOLDEN)
def test_the_kernel_and_its_schedule_are_the_golden_ones(name: str, request: pytest.FixtureRequest) -> None:
    made = GOLDEN[name].generate()
    for suffix, text in ((".cu", kernel_only(made.source)), (".txt", schedules(made))):
        path = FOLDER / f"{name}{suffix}"
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), "if the change is meant: --update-golden"


def test_every_golden_file_has_its_schedule() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}{end}" for name in GOLDEN for end in (".cu", ".txt")}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_source_compiles_for_every_architecture_that_has_its_instructions(pool: CompilePool, name: str) -> None:
    made = GOLDEN[name].generate()
    for arch, future in [(arch, pool.submit(made.source, arch)) for arch in GOLDEN[name].archs]:
        compiled = future.result()
        assert (compiled.entry, compiled.arch) == (entries(len(made.launches))[0], arch)
        assert compiled.resources.spill_store_bytes == compiled.resources.stack_bytes == 0
        assert not contractible(compiled.ptx), "contracted, a value could have two sets of bits"


@pytest.mark.parametrize("name", [n for n, g in GOLDEN.items() if "sm_80" in g.archs])
def test_threads_alone_give_one_source_for_all_architectures(name: str) -> None:
    sources = {GOLDEN[name].make(arch).source for arch in GOLDEN[name].archs}
    assert len(sources) == 1
