// Tiles from shared to tensor memory, and rows shifted inside it, asked for by one thread (PTX ISA, "tcgen05.cp",
// "tcgen05.shift", "tcgen05.commit"). sm_100a.
#pragma once
#include "types.cuh"

// A tile without a swizzle (PTX ISA, "Shared memory descriptor"): 16 bytes of eight lanes follow each other, `leading` bytes
// from there to their other 16 bytes, `stride` to the next eight lanes. All are multiples of 16 below 2^18.
FT_INLINE u64 ft_tile_descriptor(u32 smem_addr, u32 leading, u32 stride) {
  return u64(smem_addr >> 4) | u64(leading >> 4) << 16 | u64(stride >> 4) << 32 | u64(1) << 46;
}

// 16 bytes of each of 128 lanes.
FT_INLINE void ft_tmem_copy_128x128b(u32 tmem_addr, u32 smem_addr, u32 leading, u32 stride) {
  asm volatile("tcgen05.cp.cta_group::1.128x128b [%0], %1;" ::"r"(tmem_addr),
               "l"(ft_tile_descriptor(smem_addr, leading, stride))
               : "memory");
}

// 32 bytes of each of 128 lanes.
FT_INLINE void ft_tmem_copy_128x256b(u32 tmem_addr, u32 smem_addr, u32 leading, u32 stride) {
  asm volatile("tcgen05.cp.cta_group::1.128x256b [%0], %1;" ::"r"(tmem_addr),
               "l"(ft_tile_descriptor(smem_addr, leading, stride))
               : "memory");
}

// 32 bytes of lanes 0 to 30 of a subpartition go to the next lane each; lane 0 keeps its own.
FT_INLINE void ft_tmem_shift(u32 tmem_addr) {
  asm volatile("tcgen05.shift.cta_group::1.down [%0];" ::"r"(tmem_addr) : "memory");
}

// Arrives once on the mbarrier when the tiles and shifts that this thread has asked for are there.
FT_INLINE void ft_tmem_commit(u32 bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
}
