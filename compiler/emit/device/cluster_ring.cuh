// Stages that one copy fills in all blocks of a cluster: who has read one tells each of them (PTX ISA, "mapa",
// "mbarrier.arrive": .shared::cluster). sm_90 and up. The cluster has BLOCKS blocks, at most as many as a warp has lanes.
#pragma once
#include "cluster.cuh"
#include "mbarrier.cuh"

// Arriving shows the other blocks all that the thread did to their memory; none of them may end before. Its warp comes as
// one: lanes that one of them has left waiting for copies wait for it here.
FT_INLINE void ft_cluster_depart() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// Arrives once at the barrier that is in this place of block `rank`.
FT_INLINE void ft_mbarrier_arrive_in_block(u32 bar, u32 rank) {
  u32 there = ft_shared_address_of_block(bar, rank);
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

// Frees in every block shared memory that this thread has read (ft_mbarrier_free).
template <u32 BLOCKS>
FT_INLINE void ft_mbarrier_free_in_blocks(u32 bar) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#pragma unroll
  for (u32 rank = 0; rank < BLOCKS; ++rank) ft_mbarrier_arrive_in_block(bar, rank);
}

// Frees in every block shared memory that instructions have read which are done, once for a whole warp: lane i arrives in
// block i (ft_mma_free_by_warp).
template <u32 BLOCKS>
FT_INLINE void ft_mma_free_by_warp_in_blocks(u32 bar) {
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  __syncwarp();
  if (lane < BLOCKS) {
    ft_mbarrier_arrive_in_block(bar, lane);
  }
}

// The same for what the lanes have read themselves (ft_mbarrier_free_by_warp).
template <u32 BLOCKS>
FT_INLINE void ft_mbarrier_free_by_warp_in_blocks(u32 bar) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  ft_mma_free_by_warp_in_blocks<BLOCKS>(bar);
}
