"""Layers and blocks of known models, in our own words, with random weights: what torch.compile is measured on."""
