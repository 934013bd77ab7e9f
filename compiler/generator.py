"""The version of the generator, by itself: who only tells it needs nothing of what generates."""

GENERATOR = "fusetune 0.8"
"""Kept beside every artifact: another generator marks entries stale (docs/contracts.md, "Key")."""
