"""Inductor without its code: all of its passes run, then the graph's operators one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from fusetune.torch_compile.program import boxed


class _Stop(Exception):
    pass


def interpreted(gm: fx.GraphModule, example_inputs: Sequence[Any], **settings: Any) -> Any:
    """In the place of `compile_fx_inner`. The graph is as it is behind Inductor's last pass over operators."""
    import torch._inductor.config as config
    from torch._inductor.compile_fx import compile_fx_inner

    before: Any = config.post_grad_custom_post_pass
    graphs: list[fx.Graph] = []

    def stop(graph: fx.Graph) -> None:
        if before is not None:
            before(graph)
        graphs.append(graph)
        raise _Stop

    try:
        with config.patch(post_grad_custom_post_pass=stop):
            compile_fx_inner(gm, example_inputs, **settings)
    except Exception:
        if not graphs:
            raise
    module = fx.GraphModule(gm, graphs[0]) if graphs else gm

    def run(args: list[Any]) -> Any:
        given = list(args)
        args.clear()
        with torch.no_grad():
            return module(*given)

    return boxed(run)
