// Turns of blocks: a number in global memory says whose it is (PTX ISA, "ld.acquire", "st.release", scope .gpu).
#pragma once
#include "types.cuh"

// Waits until it is this thread's, and sees what was done before.
FT_INLINE void ft_await_turn(const ::i32* turns, u32 turn) {
  u64 address = __cvta_generic_to_global(turns);
  u32 found;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(address) : "memory");
  } while (found != turn);
}

// It is another's: who waits for it sees what this thread did, and what it saw of others.
FT_INLINE void ft_pass_turn(::i32* turns, u32 turn) {
  u64 address = __cvta_generic_to_global(turns);
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(turn) : "memory");
}
