"""Kernel IR -> CUDA C++. Decisions were made earlier."""
