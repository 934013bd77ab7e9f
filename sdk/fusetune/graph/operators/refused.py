"""What fusions do not say, and what to do instead: a sentence for the operators of a kind."""

from __future__ import annotations

from fusetune.graph.operators.rows import REFUSED

_INSTEAD = {
    "Leave the matrix product to torch, and call fusions before and behind it.": """
        matmul mv dot addmv addr linear _scaled_mm""",
    "Leave the convolution to torch, and call fusions before and behind it.": """
        convolution convolution_backward _convolution""",
    "Leave attention to torch, and call fusions before and behind it.": """
        scaled_dot_product_attention
        _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
        _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
        _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward""",
    "Leave pooling to torch, or write a mean or maximum over dimensions of their own.": """
        max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d max_pool2d_with_indices_backward
        avg_pool2d_backward _adaptive_avg_pool2d_backward""",
    "Leave it outside: fusions do not sort.": "sort topk argsort kthvalue median nanmedian mode searchsorted",
    "Leave it outside: fusions do not scatter.": """
        index_add index_copy scatter_reduce put masked_scatter
        _unsafe_masked_index_put_accumulate embedding_dense_backward""",
    "Leave it outside: the shape of its result depends on data.": """
        nonzero masked_select unique_dim _unique2 bincount repeat_interleave""",
    "Write it in exp, log, sqrt, sin and cos.": """
        tan sinh cosh asin acos atan atan2 asinh acosh atanh erfc erfinv lgamma digamma log10 hypot""",
    "A number of a tensor decides what is computed: choose by torch.where.": "_local_scalar_dense item",
    "Draw them outside, and pass them.": "randn randn_like randint randperm multinomial normal exponential",
    "Compare torch.rand with the tensor.": "bernoulli",
    "Fusions have no complex numbers: write both parts.": "view_as_real view_as_complex polar complex real imag",
    "Take the exponential of a cumsum of logarithms.": "cumprod",
    "Write torch.where(condition, x, y) with a mask.": "masked_scatter_backward",
}
"""What to do instead -> operators, without their overloads."""

REFUSED.update({name: fix for fix, names in _INSTEAD.items() for name in names.split()})
