"""Samplers: what to try next, given what happened so far."""
