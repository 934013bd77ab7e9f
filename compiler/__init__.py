"""The fusetune compiler: fusion -> scheduled fusion -> kernel IR -> CUDA C++ -> cubin.

Read the folders in the order of a compile: `ir`, `schedule`, `analysis`, `legality`, `lower`, `emit`, then `nvrtc`,
`pipeline` and `wire`.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("fusetune") is None:
    # Server and compiler run from their tree, never installed; the SDK's package lies in the tree's sdk/ folder.
    sys.path.append(str(Path(__file__).resolve().parent.parent / "sdk"))
