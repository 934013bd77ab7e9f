"""Proving a kernel without a GPU: what a machine without one can run of it, and what is said of the rest.

tiling.py     which part of an output each tile is, read from the schedule's steps
resize.py     the same fusion with other sizes
structure.py  when two kernels are of one class: alike up to the numbers that sizes bring in
shrunk.py     smaller sizes for any program, reductions and several launches among them, by trying
small.py      the small binding whose kernel is of the class of the served one
launching.py  a compiled kernel and its tensors as launches of the emulator
running.py    the small kernel, run on the input sets in several orders and held against the reference
touched.py    tensors that are made when they are touched, of any size
served.py     the served code itself, a few of its blocks over such memory
check.py      all of it for one kernel: the verification, or what was found wrong, or why it could not be done
apart.py      that in a child process, which is killed when its time is up
prepared.py   the same for what `prepare` left in a folder
"""
