"""Whole layers and blocks of known models, in our own words and with random weights: what `backend="fusetune"` takes."""
