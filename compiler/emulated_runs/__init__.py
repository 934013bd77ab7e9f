"""Runs in the emulator for people: a kernel from a file or an artifact, run, and what came of it as JSON or text.

subject.py   what is run: CUDA, PTX or an artifact, with a launch
running.py   the run, its result as JSON, and tensors before and after as files
report.py    the result as text
"""

from compiler.emulated_runs.report import report
from compiler.emulated_runs.running import EmulatedRun, run
from compiler.emulated_runs.subject import Subject, of_artifact, of_cuda, of_ptx

__all__ = ["EmulatedRun", "Subject", "of_artifact", "of_cuda", "of_ptx", "report", "run"]
