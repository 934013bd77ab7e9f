"""`fusetune.jit`: a torch function whose calls run tuned kernels once there are some. Importing it imports torch."""

from fusetune.jitting.function import JitFunction, jit
from fusetune.jitting.switches import assert_cached, sync_point

__all__ = ["JitFunction", "assert_cached", "jit", "sync_point"]
