"""Why a database did not do its part, without the statement and its values, which a client has sent."""

from __future__ import annotations

import sqlite3

_DISK_FULL = "53100"
"""SQLSTATE disk_full (PostgreSQL, appendix A "Error Codes")."""


def reason(error: Exception) -> str:
    """What the database says, in one line, for a log."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return lines[0][:200] if lines else type(error).__name__


def is_disk_full(error: Exception) -> bool:
    """True if the database has no room to write: waiting alone will not mend that."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return getattr(cause, "sqlstate", None) == _DISK_FULL


def is_damaged(error: Exception) -> bool:
    """True if the file of a SQLite database holds what SQLite never wrote: nothing but a backup mends that."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
