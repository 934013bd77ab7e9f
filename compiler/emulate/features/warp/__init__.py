"""Lanes of a warp together: votes, shuffles, small matrices, register counts."""
