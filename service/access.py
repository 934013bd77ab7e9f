"""What a key may do: three scopes, of which each has what the one before it has."""

from __future__ import annotations

from typing import Literal, get_args

KeyScope = Literal["read", "tune", "admin"]
"""`read`: look at all that is stored. `tune`: post and cancel tunings. `admin`: delete, import, read the audit log."""

SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_ADMINS_READ = frozenset({"/v1/audit"})

_ASKING = frozenset({"/v1/kernels/lookup", "/v1/spaces", "/v1/schedules/check", "/logout"})
"""Posts that change nothing."""

_TUNING = ("/v1/tunings", "/tunings/")
"""How the paths begin by which tunings are posted and cancelled."""


def needed(method: str, path: str) -> KeyScope:
    """The least scope that a request needs. Whatever is not known to need less needs the most."""
    if method in _SAFE:
        return "admin" if path in _ADMINS_READ else "read"
    if method == "POST" and path in _ASKING:
        return "read"
    if path == _TUNING[0] or path.startswith(tuple(f"{prefix.rstrip('/')}/" for prefix in _TUNING)):
        return "tune"
    return "admin"


def allows(scope: str, wanted: KeyScope) -> bool:
    """Whether a key of `scope` may do what needs `wanted`."""
    return scope in SCOPES and SCOPES.index(scope) >= SCOPES.index(wanted)
