"""How the joint graph of a version with kernels is cut in forward and backward."""

from __future__ import annotations

from typing import Any

from torch import fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from fusetune.torch_compile.regions.bits import keeping_decisions


class DecisionsKept(CustomPartitionerFn):
    """Inductor's own way, but for what decides in the backward graph: it reads the bits that the forward one had, as
    another kernel may have made them than would make them again (`regions.bits`). `code`: a hash of ours."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __call__(self, gm: fx.GraphModule, joint_inputs: Any, **options: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        found: tuple[fx.GraphModule, fx.GraphModule] = keeping_decisions(min_cut_rematerialization_partition)(
            gm, joint_inputs, **options
        )
        return found

    def uuid(self) -> str:
        """For Inductor's caches."""
        return self.code
