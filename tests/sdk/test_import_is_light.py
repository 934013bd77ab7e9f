from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = "import sys\nfor name in ('torch', 'cuda', 'numpy'): sys.modules[name] = None\n"
"""A None there makes the import fail, as where the package is not installed."""

TUNE = """
from fusetune import Client
from tests.sdk.fake_service import URL, FakeService, bias_gelu
with Client(URL, store=None, transport=FakeService().transport()) as client:
    print(client.tune(bias_gelu(), binding={"M": 8}))
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONPATH": ".:sdk"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        pytest.param("import fusetune", "[]", id="import"),
        pytest.param("import fusetune; fusetune.Kernel, fusetune.Store", "[]", id="kernel-and-store"),
        pytest.param("from fusetune import Client", "['httpx2']", id="client"),
        pytest.param("import fusetune.running", "[]", id="running"),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_used(code: str, loaded: str) -> None:
    heavy = ("torch", "cuda", "numpy", "httpx2", "rich")
    assert run(f"import sys\n{code}\nprint([m for m in {heavy} if m in sys.modules])") == loaded


def test_a_kernel_is_had_without_torch_and_without_cuda() -> None:
    assert run(BLOCK + TUNE).startswith("Kernel(bf16[8, 64], bf16[64] -> bf16[8, 64]; sm_90a")


@pytest.mark.parametrize(
    ("missing", "call", "extra"),
    [
        pytest.param("torch", "kernel(1.0)", "torch", id="a-call-without-torch"),
        pytest.param("cuda", "Launcher(found)", "gpu", id="a-launch-without-cuda-bindings"),
    ],
)
def test_what_is_not_installed_is_told_with_the_extra_that_brings_it(missing: str, call: str, extra: str) -> None:
    code = f"""import sys
sys.modules[{missing!r}] = None
from fusetune import Binding, Kernel, PackageMissing
from fusetune.launch import Launcher
from tests.sdk.fake_service import artifact, bias_gelu
found = artifact(bias_gelu(), Binding(sizes={{"M": 8}}))
kernel = Kernel(found)
try:
    {call}
except PackageMissing as error:
    print(error)
"""
    said = run(code)
    assert f"pip install 'fusetune[{extra}]'" in said
    assert "is not installed" in said


def test_what_is_for_torch_names_the_extra_where_there_is_none() -> None:
    names = ("jit", "from_torch", "report", "regions_of", "assert_cached")
    code = f"""{BLOCK}import fusetune
for name in {names}:
    try: getattr(fusetune, name)
    except fusetune.PackageMissing as error: print(name, str(error).replace(chr(10), " "))
"""
    said = dict(line.split(" ", 1) for line in run(code).splitlines())
    assert {name for name, words in said.items() if "pip install 'fusetune[torch]'" in words} == {*names}
