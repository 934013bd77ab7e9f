"""Sizes at which a schedule gives a kernel of the same form, small enough to run whole."""
