// What blocks tell each other: a number in global memory says that something is there (PTX ISA, "ld.acquire",
// "st.release", scope .gpu).
#pragma once
#include "types.cuh"

// Waits until it is told, and sees what was done before.
FT_INLINE void ft_await_told(const ::i32* told) {
  u64 address = __cvta_generic_to_global(told);
  u32 found;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(address) : "memory");
  } while (found == 0u);
}

// Who waits for it sees what this thread did, and what it saw of others.
FT_INLINE void ft_tell(::i32* told) {
  u64 address = __cvta_generic_to_global(told);
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(1u) : "memory");
}
