"""Passes over kernel IR, one a file."""
