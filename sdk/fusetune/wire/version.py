"""Which fusetune this is: the wheel, the package, the service and its document all say this and nothing else."""

from __future__ import annotations

VERSION = "0.1.0.dev0"
