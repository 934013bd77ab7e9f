// Stages that one copy fills in all blocks of a cluster: who has read one tells each of them. sm_90a.
#pragma once
#include "cluster.cuh"
#include "wgmma.cuh"

// Arriving shows the other blocks all that the thread did to their memory; none of them may end before.
FT_INLINE void ft_cluster_depart() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }

// Frees shared memory that instructions have read which are done, once for a whole warp: lane i arrives at the barrier in
// this place of block i (PTX ISA, "mapa", "mbarrier.arrive": .shared::cluster).
template <u32 BLOCKS>
FT_INLINE void ft_mma_free_by_warp_in_blocks(u32 bar) {
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  __syncwarp();
  if (lane < BLOCKS) {
    u32 there = ft_shared_address_of_block(bar, lane);
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
  }
}
