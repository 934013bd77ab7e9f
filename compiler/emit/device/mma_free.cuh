// Memory that tensor cores have read, or that has come from them to registers, free for what is asynchronous too.
#pragma once
#include "mbarrier.cuh"

// Once for a whole warp: they read as copies write, by the asynchronous proxy, and no fence is between (PTX ISA,
// "wgmma.wait_group"). What was loaded from tensor memory has a fence of its own before.
FT_INLINE void ft_mma_free_by_warp(u32 bar) {
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  __syncwarp();
  if (lane == 0u) {
    ft_mbarrier_arrive(bar);
  }
}
