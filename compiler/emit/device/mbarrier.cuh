// mbarriers: 8-byte objects in shared memory, 8-byte aligned, that count arrivals and bytes of asynchronous copies
// (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"). sm_90 and up.
// A barrier's first phase has parity 0. Waiting for parity p returns once the phase of parity p is complete, so on a
// fresh barrier a wait for parity 1 returns at once.
#pragma once
#include "types.cuh"

// One thread initialises, fences (ft_fence_mbarrier_init), then the block synchronises. 1 <= count < 2^20 arrivals.
FT_INLINE void ft_mbarrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

// Makes initialised barriers visible to the asynchronous proxy (PTX ISA, "fence.mbarrier_init").
FT_INLINE void ft_fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Before the memory of a barrier is used for anything else.
FT_INLINE void ft_mbarrier_inval(u32 bar) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

// Arrives once, and the phase also waits for `bytes` bytes of copies. Too few or too many bytes hang the kernel.
FT_INLINE void ft_mbarrier_expect_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

FT_INLINE void ft_mbarrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

// Frees shared memory that threads have read for a copy to fill again. What a thread has loaded may still be on its way
// when it arrives: the fence orders its reads before writes of the asynchronous proxy (PTX ISA, "fence.proxy.async"). On an
// H200, without it, vectors that were loaded last held the next tile's first bytes.
FT_INLINE void ft_mbarrier_free(u32 bar) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  ft_mbarrier_arrive(bar);
}

// The same once for a whole warp, whose lanes all come here.
FT_INLINE void ft_mbarrier_free_by_warp(u32 bar) {
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (lane == 0u) {
    ft_mbarrier_arrive(bar);
  }
}

// Whether the phase of that parity is complete. May sleep for a while, and may say no too early.
FT_INLINE bool ft_mbarrier_try_wait(u32 bar, u32 parity) {
  u32 done;
  asm volatile(
      "{\n"
      "  .reg .pred complete;\n"
      "  mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "  selp.u32 %0, 1, 0, complete;\n"
      "}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done != 0;
}

// After it, data that bulk copies brought for that phase can be read without a fence.
FT_INLINE void ft_mbarrier_wait(u32 bar, u32 parity) {
  while (!ft_mbarrier_try_wait(bar, parity)) {
  }
}
