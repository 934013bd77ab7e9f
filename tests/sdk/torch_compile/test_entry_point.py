"""Torch finds the backend by its name, in a process that has imported nothing of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SET_UP = Path(sys.prefix, ".ready")
"""What `make setup` leaves in an environment that it has made; others need not have the client installed."""


@pytest.mark.skipif(not SET_UP.exists(), reason="an environment that `make setup` has not made")
def test_the_environment_of_the_tree_has_the_backend(tmp_path: Path) -> None:
    text = "import torch; print(torch.compile(lambda x: x + 1, backend='fusetune')(torch.ones(2)).tolist())"
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        cwd=tmp_path,
        env=bare,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[2.0, 2.0]\n"), done.stderr
