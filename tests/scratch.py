"""Where the tests' files go: into memory. Most are databases, which wait for a disk at every commit: a new one with
five writes takes 28 ms there, 4 in memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")
_LEAST_FREE_BYTES = 2 << 30
"""Several runs keep the folders of their last tests, of a hundred megabytes each."""


def folder() -> str:
    """A folder of the system for files that nobody keeps, with a short path: sockets lie in it. In containers the one
    in memory is often small, or no program in it may run."""
    try:
        found = os.statvfs(_IN_MEMORY)
    except OSError:
        return "/tmp"
    is_large = found.f_bavail * found.f_frsize >= _LEAST_FREE_BYTES
    can_run = not found.f_flag & getattr(os, "ST_NOEXEC", 0)
    return str(_IN_MEMORY) if is_large and can_run and os.access(_IN_MEMORY, os.W_OK | os.X_OK) else "/tmp"


def use() -> None:
    """Has all temporary files of this process and of those that it starts lie there, unless TMPDIR names a place."""
    if "TMPDIR" not in os.environ:
        os.environ["TMPDIR"] = folder()
        tempfile.tempdir = None  # asks anew
