"""What torch may multiply in place of f32 on CUDA, as its own switches say when a function is traced."""

from __future__ import annotations

import torch

from fusetune.wire.fusion import Precision


def precision_of_f32() -> Precision | None:
    """The word "tf32" where torch's library may take that for products of f32, as said by
    torch.set_float32_matmul_precision, torch.backends.cuda.matmul.allow_tf32 or .fp32_precision; None where all bits
    are multiplied."""
    try:
        if torch.get_float32_matmul_precision() == "highest":
            return None
    except RuntimeError:  # it refuses to say where the newest switch alone was set
        pass
    # The library asks the newest switch, which the older ones set too, and which may have been set after them.
    return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else None
