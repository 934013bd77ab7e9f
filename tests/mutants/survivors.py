"""Why a mutant that is wrong is not found: by cause, in words, the kinds and fusions of such mutants."""

from __future__ import annotations

from tests.mutants.choosing import Judged

SLIGHT = "It differs by roundings alone, where 20 right kernels happen to agree."

CAUSES: dict[str, tuple[tuple[str, str], ...]] = {
    "The reference does not round casts, so that what a rounding leaves is not known.": (
        ("cast_not_rounded", "fake_quantised_bf16"),
        ("cast_not_rounded", "rounded_between"),
        ("cast_not_rounded", "split_hi_lo"),
        ("operands_swapped", "split_hi_lo"),
    ),
    "Of outputs that are computed the sign of a zero is not compared.": (
        ("zero_without_its_sign", "comparisons"),
        ("zero_without_its_sign", "heads"),
        ("zero_without_its_sign", "many_inputs"),
        ("zero_without_its_sign", "masked_sums"),
        ("zero_without_its_sign", "outer_product"),
        ("zero_without_its_sign", "split_hi_lo"),
        ("zero_without_its_sign", "two_outputs"),
    ),
    "A NaN has no integer: the reference takes any to be right, though right kernels agree on 0.": (
        ("nan_lost_in_a_maximum", "int8_rows"),
        ("nan_lost_in_a_maximum", "int8_tensor"),
    ),
    "Beside an overflow any answer is taken to be right.": (
        ("infinity_clamped", "layer_norm_backward"),
        ("infinity_clamped", "rms_norm_backward"),
        ("infinity_clamped", "row_rms_norm_of_sum_3d"),
    ),
    "No set has numbers under the smallest of f16 that copies have to keep.": (
        ("rounded_to_the_other_half", "channels_last"),
        ("rounded_to_the_other_half", "permute_outer"),
        ("rounded_to_the_other_half", "transpose_halves_odd"),
    ),
    "What a comparison of two roundings selects is not decided.": (
        ("accumulated_in_bf16", "expert"),
        ("rounded_to_bf16_on_the_way", "expert"),
    ),
    "No set has folds of one sign alone, of which a zero would be the extreme.": (
        ("condition_one_off", "column_middle_maximum"),
        ("edge_taken_for_whole", "column_first_and_third"),
        ("fold_guard_too_wide", "column_first_and_third"),
        ("fold_guard_too_wide", "column_middle_maximum"),
        ("fold_unguarded", "column_middle_maximum"),
        ("fold_unguarded", "least_of_columns"),
        ("starts_from_zero", "column_first_and_third"),
        ("starts_from_zero", "column_middle_maximum"),
        ("starts_from_zero", "least_of_columns"),
        ("starts_from_zero", "means_of_halves"),
        ("starts_from_zero", "row_least_of_all"),
        ("starts_from_zero", "row_spread"),
    ),
    "What a half may be off hides what f32 is off before it is rounded.": (
        ("accumulated_in_bf16", "layer_norm_backward"),
        ("accumulated_in_bf16", "row_rms_norm_of_sum_3d"),
        ("accumulated_in_bf16", "row_rotated_norm"),
        ("accumulated_in_bf16", "row_softmax_odd"),
        ("accumulated_in_f16", "row_softmax_odd"),
        ("epsilon_of_another_size", "row_layer_norm"),
        ("rounded_to_bf16_on_the_way", "layer_norm_backward"),
        ("rounded_to_f16_on_the_way", "layer_norm_backward"),
    ),
    "No set has values at the number that a comparison names, or beside it.": (("literal_off", "any_and_all"),),
    "No set makes this part of a fold or this element the one that decides, or a NaN.": (
        ("element_left_out", "row_largest_i8"),
        ("equality_on_the_wrong_side", "view_one_hot"),
        ("last_distance_left_out", "any_and_all"),
        ("last_distance_left_out", "integer_sums"),
        ("nan_lost_in_a_fold", "means_of_halves"),
        ("nan_lost_in_a_fold", "row_least_of_all"),
        ("not_started_again", "any_and_all"),
        ("rows_and_columns_confused", "row_least_of_all"),
        ("shared_store_further_on", "row_least_of_all"),
        ("threads_elements_left_out", "greedy_token"),
        ("vector_further_on", "row_least_of_all"),
        ("warps_partial_dropped", "integer_sums"),
    ),
}

SURVIVORS = {place: cause for cause, places in CAUSES.items() for place in places}
"""By kind and fusion."""

REFUSED = {
    "fake_quantised_bf16": "the reference does not round casts",
    "fake_quantised_f16": "the reference does not round casts",
}
"""Fusions whose right kernels are refused."""


def reason(one: Judged) -> str:
    """Why it is not found; empty if nobody has said."""
    return SLIGHT if one.verdict.is_slight else SURVIVORS.get((one.mutant.kind, one.mutant.fusion), "")
