"""The kernels of a few schedules as text: a change of lowering or of the emitter shows as a change of these files.

`pytest tests/compiler/emit/test_golden.py --update-golden` rewrites them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.emit.cuda import ENTRY, kernel_text
from compiler.nvrtc import CompilePool
from tests.compiler.emit.golden_schedules import GOLDEN

FOLDER = Path(__file__).with_name("golden")


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilePool]:
    with CompilePool(workers=2) as pool:
        yield pool


@pytest.mark.parametrize("name", GOLDEN)
def test_the_kernel_is_the_golden_one(name: str, request: pytest.FixtureRequest) -> None:
    path = FOLDER / f"{name}.cu"
    text = kernel_text(GOLDEN[name].generate().kernel)
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "if the change is meant: --update-golden"


def test_every_golden_file_has_its_schedule() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_source_compiles_for_every_architecture_that_has_its_instructions(pool: CompilePool, name: str) -> None:
    source = GOLDEN[name].generate().source
    for arch, future in [(arch, pool.submit(source, arch)) for arch in GOLDEN[name].archs]:
        compiled = future.result()
        assert (compiled.entry, compiled.arch) == (ENTRY, arch)
        assert compiled.resources.spill_store_bytes == compiled.resources.stack_bytes == 0


@pytest.mark.parametrize("name", [n for n, g in GOLDEN.items() if "sm_80" in g.archs])
def test_threads_alone_give_one_source_for_all_architectures(name: str) -> None:
    sources = {GOLDEN[name].make(arch).source for arch in GOLDEN[name].archs}
    assert len(sources) == 1
