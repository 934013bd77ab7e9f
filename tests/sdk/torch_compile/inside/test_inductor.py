"""With Inductor's own code, which a C++ compiler makes: whole models, and a process that starts where another ended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor's code for the host needs a C++ compiler"),
]

STEPS = 60


def a_process(folder: Path, name: str = "convnext") -> dict[str, Any]:
    """Runs `in_a_process` where everything that is kept is in `folder`."""
    module = "tests.sdk.torch_compile.inside.test_inductor"
    ask = f"import sys; from {module} import in_a_process; in_a_process(sys.argv[1], sys.argv[2])"
    folders = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "FUSETUNE_HOME": str(folder / "fusetune")}
    done = subprocess.run(
        [sys.executable, "-c", ask, name, str(folder / "notes")],
        env={**os.environ, **folders}, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def in_a_process(name: str, notes: str) -> None:
    """Training steps, each held against eager's, until nothing more comes; prints what happened."""
    import copy

    import torch
    from torch._dynamo.utils import counters

    import fusetune
    from benchmarks.models.catalogue import MODELS, Setting, seed
    from fusetune.torch_compile import CompileBackend
    from fusetune.torch_compile.inside.notes import Notes
    from tests.sdk.torch_compile.inside.test_sessions import INSIDE, graph_of
    from tests.sdk.torch_compile.reference_kernels import FakeKernels, FixedClock
    from tests.sdk.torch_compile.stepping import a_step

    seed()
    module, inputs = MODELS[name].make(Setting(torch.device("cpu"), torch.float32, is_small=True))
    plain, source = copy.deepcopy(module), FakeKernels()
    expected = a_step(plain, plain, inputs)
    chosen: Any = source
    clock = FixedClock()
    ours = CompileBackend(chosen, clock, Notes(Path(notes)))
    run = torch.compile(module, backend=ours, options=INSIDE, dynamic=False)
    told: dict[str, Any] = {}
    for _ in range(STEPS):
        for mine, theirs in zip(a_step(run, module, inputs), expected, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=2e-5, atol=2e-5 * float(theirs.abs().max()))
        if not told:
            version = graph_of(ours).version
            told = {"first_keys": 0 if version is None else len(version.keys),
                    "misses": counters["inductor"]["fxgraph_cache_miss"],
                    "autograd_hits": counters["aot_autograd"]["autograd_cache_hit"]}  # fmt: skip
        fusetune.wait(300)
        if graph_of(ours).is_quiet:
            break
    version = graph_of(ours).version
    told |= {"keys": 0 if version is None else len(version.keys), "asked": len(source.asked),
             "timed": len(clock.compared), "calls": sum(x.calls for x in source.kernels.values())}  # fmt: skip
    print(json.dumps(told))


def test_a_second_process_takes_everything_from_caches(tmp_path: Path) -> None:
    first = a_process(tmp_path)
    assert (first["first_keys"], first["timed"]) == (0, first["keys"])
    assert first["keys"] == 7
    second = a_process(tmp_path)
    assert (second["first_keys"], second["keys"]) == (7, 7)
    assert (second["misses"], second["autograd_hits"]) == (0, 1)
    assert (second["asked"], second["timed"]) == (0, 0)
    assert second["calls"] > 0


@pytest.mark.parametrize("name", ["llama", "bert", "unet"])
def test_whole_models(name: str, tmp_path: Path) -> None:
    found = a_process(tmp_path, name)
    assert found["keys"] == found["timed"] > 0
    assert found["calls"] > 0
