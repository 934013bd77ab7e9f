// Parts of a block with work of their own: their barriers, their registers, and announcements of bytes by one thread of
// several. sm_90 and up.
#pragma once
#include "types.cuh"

// Barrier of `threads` threads of the block, a multiple of 32, under a number from 1 to 15 (PTX ISA, "barrier").
FT_INLINE void ft_sync_part(u32 number, u32 threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Registers of each thread from here on, executed by all warps of a warp group (PTX ISA, "setmaxnreg"): 24 to 256 in
// steps of 8. A raise waits until others have given up as many.
template <u32 N>
FT_INLINE void ft_raise_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <u32 N>
FT_INLINE void ft_lower_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// The phase also waits for `bytes` bytes of copies; no arrival (PTX ISA, "mbarrier.expect_tx").
FT_INLINE void ft_mbarrier_add_bytes(u32 bar, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
