// Indices that are data: which row a thread reads (PTX ISA, "trap", "selp").
#pragma once
#include "types.cuh"

// An index that is one of `count` places, as an index of the kernel; the kernel ends in a trap where it is none and `asked`
// holds. Then nothing is loaded from there either: row 0 is, on the way. The trap is a predicate and no branch, so that
// loads that follow do not wait; and it is not volatile, so that rows that are looked at twice are so once.
template <typename I>
FT_INLINE I ft_row(bool asked, ::i64 index, u64 count) {
  u32 bad = asked && static_cast<u64>(index) >= count;
  I row;
  if constexpr (sizeof(I) == 8) {
    asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p trap; selp.b64 %0, 0, %1, p; }"
        : "=l"(row) : "l"(static_cast<u64>(index)), "r"(bad));
  } else {
    asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p trap; selp.b32 %0, 0, %1, p; }"
        : "=r"(row) : "r"(static_cast<u32>(index)), "r"(bad));
  }
  return row;
}

// The same of an index that no address needs: it is looked at all the same.
template <typename I>
FT_INLINE I ft_checked_row(bool asked, ::i64 index, u64 count) {
  u32 bad = asked && static_cast<u64>(index) >= count;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p trap; }" ::"r"(bad));
  return 0;
}
