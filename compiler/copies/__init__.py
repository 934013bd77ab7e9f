"""Tiles, their layouts and iterators, and the plans that copy them: derived from scheduled tensors, never authored.

The vocabulary is TileFusion's (TileFusion, concepts); docs/concepts/tiles.md explains it with an example.
"""
