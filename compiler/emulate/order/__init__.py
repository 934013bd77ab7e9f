"""Happens-before: who has seen what, and which accesses race.

order.py        the face: accesses, barriers, tokens, fences, asynchronous operations
events.py       what it hands out and takes: kinds of access, actors, tokens, conflicts
knowledge.py    the vector clocks of a batch: what each thread knows of each other one
columns.py      which column of the clocks each lane has
clock_table.py  rows of clocks that many threads share
worlds.py       what threads know of other clusters
locations.py    releases and acquires through memory: fences with strong accesses, atomics
log.py          accesses as they came, spread over the bytes that they touch
shadow.py       the log of one region, and what of the past can still race
pairs.py        which accesses to a byte must be ordered
check.py        which of them are
races.py        what is said of those that are not
"""
