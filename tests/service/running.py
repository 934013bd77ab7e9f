"""A service with a worker in processes of their own, as an operator starts them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusetune import Client, ServiceError
from tests.nursery import ROOT, python_path

START_S = 90.0
"""Until the worker has announced itself; importing torch takes most of it on a machine that has not done so before."""
STOP_S = 30.0


@contextlib.contextmanager
def running_service(folder: Path, *options: str, with_gpu: bool) -> Iterator[str]:
    """The URL of `serve --worker` on a database in `folder`, once its worker is alive: one that owns a GPU, or any.

    It must end well when it is told to. What the processes say is in `folder`/log.
    """
    log = folder / "log"
    command = [sys.executable, "-m", "service", "serve", "--worker", "--port", "0", "--data-dir", str(folder), *options]
    environment = os.environ | {"PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1"}
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
    try:
        yield _url_with_worker(process, log, with_gpu)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0, log.read_text()[-3000:]
    finally:
        process.kill()
        process.wait()


def _url_with_worker(process: subprocess.Popen[bytes], log: Path, with_gpu: bool) -> str:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        said = re.search(r"fusetune serves (\S+)", log.read_text())
        if said and _has_worker(said[1], with_gpu):
            return said[1]
        time.sleep(0.1)
    pytest.fail(f"no worker{' with a GPU' if with_gpu else ''} came up:\n{log.read_text()[-3000:]}")


def _has_worker(url: str, with_gpu: bool) -> bool:
    with Client(url, store=None) as client:
        try:
            workers = [worker for status in client.cards() for worker in status.workers]
        except ServiceError:
            return False
    return any(worker.alive and (worker.attached or not with_gpu) for worker in workers)
