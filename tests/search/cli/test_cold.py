"""`python -m search tune` in a process of its own, as a user starts it: the GPU's process begins before the imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_cold_command_on_a_host_without_a_gpu_says_so(tmp_path: Path) -> None:
    fusion = ROOT / "examples" / "fusions" / "bias_gelu.json"
    words = ["tune", str(fusion), "--bind", "M=8", "--budget-s", "0", "--out", str(tmp_path / "tuned")]
    done = subprocess.run(
        [sys.executable, "-m", "search", *words],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert "no GPU, so kernels are ranked by prediction" in done.stdout
    assert "The budget of 0 s ended before a kernel was compiled." in done.stdout
