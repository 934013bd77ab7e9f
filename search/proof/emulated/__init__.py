"""Proving a kernel without a GPU: what a machine without one can run of it, and what is said of the rest.

launching.py  a compiled kernel and its tensors as launches of the emulator
running.py    a kernel of small sizes (`search.proof.small`), run on the input sets in several orders and held against
              the reference
touched.py    tensors that are made when they are touched, of any size
served.py     the served code itself, a few of its blocks over such memory
check.py      all of it for one kernel: the verification, or what was found wrong, or why it could not be done
apart.py      that in a child process, which is killed when its time is up
prepared.py   the same for what `prepare` left in a folder
"""
