"""Fusions whose mutants are judged in the ordinary run: few enough for seconds, of every subject."""

from __future__ import annotations

WIDE = (
    *("bias_gelu_rows", "functions", "transpose_padded", "transpose_narrowing", "view_mixed_dtypes", "view_one_hot"),
    *("row_sum_f64", "row_softmax_odd", "row_least_of_all", "row_rms_norm_of_sum_3d", "column_first_and_third"),
    *("split_hi_lo", "rounded_between", "int8_rows", "greedy_token", "any_and_all", "integer_sums", "integers"),
    *("argmax_of_rows", "argmin_of_columns", "products"),
    *("clamped", "comparisons", "doubles", "smooth", "means_of_halves", "shares_of_rows"),
)
"""Those of which the long run has the list of survivors, beside all others."""

NAMES = (
    *("functions", "transpose_narrowing", "view_one_hot", "row_sum_f64", "row_softmax_odd", "split_hi_lo"),
    *("row_rms_norm_of_sum_3d", "any_and_all", "integer_sums", "argmin_of_columns", "products", "clamped", "smooth"),
)
"""As many of them as have a wrong kernel of every kind."""
