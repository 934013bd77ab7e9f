"""The fusetune compiler: fusion -> scheduled fusion -> kernel IR -> CUDA C++ -> cubin.

Read the folders in the order of a compile: `ir`, `schedule`, `analysis`, `legality`, `lower`, `emit`, then `nvrtc` and `pipeline`.
"""
