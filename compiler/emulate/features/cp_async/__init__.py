"""Copies by threads, in groups."""
