"""What the SDK takes from the environment; nothing else in it reads a variable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_URL = "http://127.0.0.1:8765"
"""Where `python -m service serve` listens unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Defaults of a Client. An empty variable counts as one that is not set."""

    url: str
    store: Path
    api_key: str | None = field(default=None, repr=False)
    assert_cached: bool = False
    lock: str | None = None
    share_gpu: bool = False
    trust: str | None = None

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> Environment:
        """FUSETUNE_URL, FUSETUNE_API_KEY, and FUSETUNE_HOME or else `fusetune` in the user's cache folder;
        FUSETUNE_ASSERT_CACHED other than 0 makes a call without a kernel an error; FUSETUNE_LOCK names a lock of
        kernels; FUSETUNE_SHARE_GPU other than 0 lets torch.compile have kernels tuned on the GPU that it runs on;
        FUSETUNE_TRUST names the public keys of which one must have signed a kernel.

        The cache folder is XDG_CACHE_HOME, or `~/.cache` without it (XDG Base Directory Specification).
        """
        home = variables.get("FUSETUNE_HOME")
        cache = variables.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
        return cls(
            url=variables.get("FUSETUNE_URL") or DEFAULT_URL,
            store=Path(os.path.expanduser(home or os.path.join(cache, "fusetune"))),
            api_key=variables.get("FUSETUNE_API_KEY") or None,
            assert_cached=_is_on(variables.get("FUSETUNE_ASSERT_CACHED")),
            share_gpu=_is_on(variables.get("FUSETUNE_SHARE_GPU")),
            trust=variables.get("FUSETUNE_TRUST") or None,
            lock=variables.get("FUSETUNE_LOCK") or None,
        )


def _is_on(value: str | None) -> bool:
    return value not in (None, "", "0")
