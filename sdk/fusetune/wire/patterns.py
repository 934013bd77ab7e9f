"""Patterns of texts that travel, and what each means in words: errors say the words."""

from __future__ import annotations

HASH = r"^[0-9a-f]{64}$"
ID = r"^[0-9a-f]{32}$"
NAME = r"^[A-Za-z0-9_.+-]+$"
IDEMPOTENCY_KEY = r"^[\x21-\x7e]+$"

IN_WORDS = {
    HASH: "a hash of 64 digits, 0-9 and a-f",
    ID: "an id of 32 digits, 0-9 and a-f",
    NAME: "a text of letters, digits, and _ . + - alone",
    IDEMPOTENCY_KEY: "a text of printable ASCII without blanks",
}
