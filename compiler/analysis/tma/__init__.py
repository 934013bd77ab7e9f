"""Copies by the copy engine: what each axis is to it, and the tensor map that comes of that."""
