"""Single instructions run as PTX: values for every thread in, 64 bits for every thread out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.emulate.launch import Completion, Options
from tests.emulate.machine.kernels import Ran, run

THREADS = 64

VARIABLES = """
  .reg .b64 %a<4>; .reg .b32 %w<10>; .reg .b16 %h<10>; .reg .b64 %o, %d<8>; .reg .b128 %q<2>; .reg .pred %c<4>;
  .reg .f32 %f<4>; .reg .f64 %g<4>;
"""
"""%a0, %w0, %h0 hold the first value of a thread in 64, 32 and 16 bits, %a1… the second; %o is the result."""


def computed(code: str, *columns: Sequence[int]) -> list[int]:
    """Runs `code` for one thread an element of the columns (at most THREADS): %o of each. Expects no fault."""
    ran = outcome(code, *columns)
    assert ran.kinds == [], ran.outcome.faults
    results: list[int] = ran.y.view(np.uint64)[: len(columns[0]) if columns else THREADS].tolist()
    return results


def outcome(
    code: str, *columns: Sequence[int], threads: int = THREADS, blocks: int = 1, options: Options | None = None
) -> Ran:
    """Runs `code` with the columns spread over the threads of each block, the last element repeated."""
    words = []
    for column in columns:
        values = [*column, *[column[-1]] * (threads - len(column))]
        words.append(np.array([v & 0xFFFFFFFFFFFFFFFF for v in values], np.uint64))
    x = np.concatenate(words or [np.zeros(1, np.uint64)])
    loads = "".join(
        f"""
        ld.global.u64 %a{i}, [%d0+{8 * threads * i}];
        cvt.u32.u64 %w{i}, %a{i};
        cvt.u16.u64 %h{i}, %a{i};"""
        for i in range(len(columns))
    )
    body = f"""
        mul.wide.u32 %d0, %r1, 8;
        add.u64 %d0, %rd1, %d0;
        mov.u64 %o, 0;
        {loads}
        {code}
        mul.wide.u32 %d1, %r4, 8;
        add.u64 %d1, %rd2, %d1;
        st.global.u64 [%d1], %o;
        ret;
    """
    return run(
        body,
        blocks=blocks,
        threads=threads,
        x=x.view(np.uint32),
        elements=2 * threads * blocks,
        variables=VARIABLES,
        options=options,
    )


ORDERS = [Options(), Options(Completion.RANDOM, seed=1), Options(Completion.RANDOM, seed=2)]
"""Warps in order, and taking turns at random."""
