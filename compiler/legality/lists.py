"""Rules on kernels over lists of tensors: every block works on a chunk of one of them."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.memory.list_chunks import strays_of_chunks
from compiler.errors import Violation
from compiler.legality.rules import Schedule, rule


@rule
def blocks_work_on_chunks_of_lists(s: Schedule) -> Iterator[Violation]:
    """Tensors of a list begin anywhere and have any length: a block has one chunk of neighbouring elements, as long as
    that of any other block, which its threads load and store past no memory that is shared; the last chunk of a tensor
    ends where the tensor does (own rule)."""
    if not s.sf.fusion.is_list:
        return
    for where, found in strays_of_chunks(s.sf, s.indexing):
        yield Violation(
            "blocks_work_on_chunks_of_lists",
            where,
            found,
            "one chunk a block, in registers",
            "Split the elements into blocks, threads and vectors that divide them; load and store by threads.",
        )
