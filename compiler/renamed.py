"""Rules that had other names before: journals, trials of a database and counts of refused points keep the old ones.

Who reads such a record asks here; what is written has the names of today.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

RENAMED: Mapping[str, Mapping[str, str]] = {
    "0.1.0": {
        "allocation_domains_are_equivalent_to_the_logical_one": "allocations_are_equivalent_to_the_logical_domain",
        "circular_buffers_are_filled_by_copies": "circular_buffer_is_filled_by_a_copy",
        "circular_buffers_are_inlined": "circular_buffer_has_a_loop",
        "circular_buffers_are_not_computed_with_consumers": "circular_buffer_is_computed_where_it_is_allocated",
        "circular_buffers_copy_what_is_whole": "circular_buffer_copies_what_is_complete",
        "circular_buffers_have_stages_to_fill_ahead": "circular_buffer_has_stages_to_fill",
        "circular_buffers_lie_nearer_than_what_they_copy": "circular_buffer_is_filled_by_a_copy",
        "matrices_have_elements_of_8_or_16_bits": "matrices_have_elements_of_8_16_or_32_bits",
        "registers_are_shared_in_steps_of_8": "shared_registers_are_whole_units",
        "tma_dtype_is_encodable": "tensor_map_has_the_element_type",
        "vectorized_axis_has_a_constant_extent": "unrolled_and_vectorized_extents_are_known",
    },
}
"""By the version that renamed them, the oldest first: the old name of a rule, and the name that it has since."""


def rule_today(name: str) -> str:
    """The name today of a rule that a record names; the name itself where it has not changed."""
    for names in RENAMED.values():
        name = names.get(name, name)
    return name


def counts_today(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by rule under the names of today, those of rules that became one added up."""
    found: Counter[str] = Counter()
    for name, count in counts.items():
        found[rule_today(name)] += count
    return dict(found)
