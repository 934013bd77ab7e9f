"""What decides is decided once: a comparison in the backward graph reads the bits that the forward graph had.

A value that both graphs need is saved by the one, or made again in the other, by another kernel or by eager. Made again
it may differ in its last bit, and then a maximum is no longer among the elements that it is the maximum of. So, before
a joint graph is cut in two, what a decision reads is followed back to the operators whose bits depend on who computes
them. None of them is made again: what lies behind them is saved, or had from them by operators that are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from fusetune.torch_compile.regions.operators import CASTS, COPIES, VIEWS, is_part, name_of, values_of

SAME_BITS = "fusetune_same_bits"
"""In `node.meta`: the user's checkpoint makes the node again, so both graphs leave it to eager, whose bits are the same
for the same operands."""

COMPARES = frozenset({
    "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "isclose", "sign", "sgn", "signbit", "heaviside",
    "logical_and", "logical_not", "logical_or", "logical_xor", "any", "all",
})  # fmt: skip

STEPS = frozenset({"bucketize", "ceil", "floor", "floor_divide", "fmod", "frac", "remainder", "round", "searchsorted",
                   "trunc"})  # fmt: skip
"""Functions that jump."""

CHOOSES = frozenset({
    "adaptive_max_pool2d", "adaptive_max_pool3d", "aminmax", "argmax", "argmin", "argsort", "cummax", "cummin",
    "fractional_max_pool2d", "kthvalue", "masked_select", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "median", "mode", "multinomial", "nanmedian", "nonzero", "sort", "topk", "unique_consecutive", "unique_dim",
    "_low_memory_max_pool_with_offsets", "_unique2",
})  # fmt: skip
"""Operators whose results are indices, or what indices choose."""

GRADIENTS_OF_BRANCHES = frozenset({
    "elu_backward", "hardshrink_backward", "hardsigmoid_backward", "hardswish_backward", "hardtanh_backward",
    "huber_loss_backward", "leaky_relu_backward", "_prelu_kernel_backward", "rrelu_with_noise_backward",
    "smooth_l1_loss_backward", "softplus_backward", "softshrink_backward", "threshold_backward",
    "log_sigmoid_backward", "multi_margin_loss_backward", "multilabel_margin_loss_backward",
})  # fmt: skip
"""Gradients that compare an operand with the ends of a branch."""

DECIDES = COMPARES | STEPS | CHOOSES | GRADIENTS_OF_BRANCHES

EXACT = frozenset({
    "abs", "amax", "amin", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clamp", "clamp_max",
    "clamp_min", "embedding", "fill", "flip", "full", "full_like", "gather", "hardtanh", "index", "index_select",
    "lift_fresh_copy", "masked_fill", "max", "maximum", "min", "minimum", "mul", "neg", "new_full", "new_ones",
    "new_zeros", "ones", "ones_like", "relu", "repeat", "roll", "scalar_tensor", "select_scatter", "slice_backward",
    "slice_scatter", "square", "threshold", "tril", "triu", "_unsafe_index", "where", "zeros", "zeros_like",
})  # fmt: skip
"""Operators that give the same bits in eager and in every kernel: they move, choose, or round once by IEEE 754."""

SUMS = frozenset({"add", "rsub", "sub"})
PRODUCTS = frozenset({"mul", "square", "pow"})
"""What a sum in f32 or f64 may take in, rounded once with it (docs/contracts.md, "Bits")."""

_WHOLE = frozenset({"arange", "bitwise_left_shift", "bitwise_right_shift", "cumsum", "iota", "pow", "prod", "sum"})
"""Operators that are exact of integers."""


def keep_decisions(backward_outputs: Iterable[Any]) -> None:
    """Marks in a joint graph what its backward part must not make again, for the partitioners of torch."""
    needed = _above(x for x in backward_outputs if isinstance(x, fx.Node))
    waiting = [x for node in needed if decides(node) for x in node.all_input_nodes]
    seen: set[fx.Node] = set()
    while waiting:
        node = waiting.pop()
        if node in seen or node.op != "call_function":
            continue
        seen.add(node)
        if is_part(node) or is_exact(node):
            waiting += node.all_input_nodes
        elif _is_checkpointed(node):
            node.meta[SAME_BITS] = True
            waiting += node.all_input_nodes
        else:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def is_kept(node: fx.Node) -> bool:
    """Whether the backward part must not make the node again."""
    return node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE


def keeping_decisions(partition: Callable[..., Any]) -> Callable[..., Any]:
    """A partitioner of joint graphs, as AOTAutograd calls it, that keeps decisions (`keep_decisions`)."""
    from torch._functorch.compile_utils import fx_graph_cse

    def cut(joint: fx.GraphModule, joint_inputs: Any, *args: Any, num_fwd_outputs: int, **options: Any) -> Any:
        # What is equal is made one before it is marked: the partitioner would keep one of two, and only its marks.
        joint.graph.eliminate_dead_code()
        joint.graph = fx_graph_cse(joint.graph)
        keep_decisions(_outputs(joint.graph)[num_fwd_outputs:])
        return partition(joint, joint_inputs, *args, num_fwd_outputs=num_fwd_outputs, **options)

    return cut


def decides(node: fx.Node) -> bool:
    """Whether another last bit of an operand may change the node's result by more than that."""
    name = name_of(node)
    if name in DECIDES or (name in ("max", "min") and not isinstance(node.meta.get("val"), torch.Tensor)):
        return True
    if name == "div":
        return node.kwargs.get("rounding_mode") is not None
    return name in CASTS and _is_whole(node) and not all(map(_is_whole, node.all_input_nodes))


def is_exact(node: fx.Node) -> bool:
    """Whether a node has the same bits wherever it is computed from the same operands."""
    name = name_of(node)
    if name in VIEWS or name in COPIES or name in EXACT or decides(node):
        return True
    if name in CASTS:
        return _rounds_once(node)
    if name in SUMS and node.kwargs.get("alpha", 1) == 1 and len(node.args) < 3:
        return all(not _is_product(x) for x in node.all_input_nodes)
    if name == "pow":
        return len(node.args) > 1 and node.args[1] in (1, 2)
    return name in _WHOLE and _is_whole(node)


def _is_product(node: fx.Node) -> bool:
    """Whether a sum may take the node in: a product of f32 or f64, perhaps seen through views."""
    while name_of(node) in VIEWS:
        node = node.all_input_nodes[0]
    return name_of(node) in PRODUCTS and any(x.dtype in (torch.float32, torch.float64) for x in values_of(node))


def _rounds_once(cast: fx.Node) -> bool:
    """Whether torch casts in one step: of eight bits every version has rules of its own, and f64 goes by f32."""
    found, given = ({x.dtype for x in values_of(node)} for node in (cast, cast.all_input_nodes[0]))
    if any(dtype.itemsize == 1 and dtype.is_floating_point for dtype in found | given):
        return False
    return not (given == {torch.float64} and any(dtype.itemsize == 2 for dtype in found))


def _is_whole(node: fx.Node) -> bool:
    return all(not (x.dtype.is_floating_point or x.dtype.is_complex) for x in values_of(node))


def _is_checkpointed(node: fx.Node) -> bool:
    return node.meta.get("recompute") in (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


def _above(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes, and all that they are made of."""
    found: set[fx.Node] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _outputs(graph: fx.Graph) -> Sequence[Any]:
    from torch.utils import _pytree as pytree

    return pytree.tree_leaves(next(node for node in graph.nodes if node.op == "output").args)
