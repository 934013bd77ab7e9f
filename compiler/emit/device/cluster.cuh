// Blocks of a cluster: their barrier, and stores to each other's shared memory that an mbarrier there counts (PTX ISA,
// "barrier.cluster", "mapa", "st.async"). sm_90 and up.
#pragma once
#include "types.cuh"

// Arriving shows the other blocks the mbarriers that the thread has set up and fenced (ft_fence_mbarrier_init), and nothing
// else that it wrote: an arrival that releases all begins with a fence of the whole device. The warp comes as one.
FT_INLINE void ft_cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
FT_INLINE void ft_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

FT_INLINE u32 ft_shared_address_of_block(u32 smem_addr, u32 rank) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(smem_addr), "r"(rank));
  return there;
}

#define FT_STORE_ASYNC "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"

// N bytes of registers into the place that `smem_addr` is in this block, of block `rank` of the cluster; they are counted
// on that block's mbarrier. Fewer than 4 bytes are stored as 4, zeros above them.
template <int N>
FT_INLINE void ft_store_remote(u32 smem_addr, u32 bar, u32 rank, const void* src_regs) {
  static_assert(N <= 4 || N == 8 || N == 16, "words of st.async");
  u32 there = ft_shared_address_of_block(smem_addr, rank), signal = ft_shared_address_of_block(bar, rank);
  u32 word[N <= 4 ? 1 : N / 4] = {};
  memcpy(word, src_regs, N);
  if constexpr (N == 16) {
    asm volatile(FT_STORE_ASYNC ".v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(there), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3]), "r"(signal)
                 : "memory");
  } else if constexpr (N == 8) {
    asm volatile(FT_STORE_ASYNC ".v2.b32 [%0], {%1, %2}, [%3];" ::"r"(there), "r"(word[0]), "r"(word[1]), "r"(signal)
                 : "memory");
  } else {
    asm volatile(FT_STORE_ASYNC ".b32 [%0], %1, [%2];" ::"r"(there), "r"(word[0]), "r"(signal) : "memory");
  }
}
#undef FT_STORE_ASYNC
