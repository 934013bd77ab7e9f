// Bulk and tensor copies from global memory to the shared memory of several blocks of a cluster: the bytes come to the
// same place in each block of the mask, and are counted on the mbarrier at the same place there (PTX ISA,
// "cp.async.bulk", "cp.async.bulk.tensor": .multicast::cluster). sm_90 and up. Bit i of the mask is the block of rank i;
// all of them have initialised their mbarriers before one thread of one block asks.
#pragma once
#include "types.cuh"

#define FT_MULTICAST "shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"

FT_INLINE void ft_tma_multicast_1d(u32 dst, const void* map, u32 bar, u16 mask, i32 c0) {
  asm volatile("cp.async.bulk.tensor.1d." FT_MULTICAST " [%0], [%1, {%4}], [%2], %3;"
               ::"r"(dst), "l"(map), "r"(bar), "h"(mask), "r"(c0)
               : "memory");
}

FT_INLINE void ft_tma_multicast_2d(u32 dst, const void* map, u32 bar, u16 mask, i32 c0, i32 c1) {
  asm volatile("cp.async.bulk.tensor.2d." FT_MULTICAST " [%0], [%1, {%4, %5}], [%2], %3;"
               ::"r"(dst), "l"(map), "r"(bar), "h"(mask), "r"(c0), "r"(c1)
               : "memory");
}

FT_INLINE void ft_tma_multicast_3d(u32 dst, const void* map, u32 bar, u16 mask, i32 c0, i32 c1, i32 c2) {
  asm volatile("cp.async.bulk.tensor.3d." FT_MULTICAST " [%0], [%1, {%4, %5, %6}], [%2], %3;"
               ::"r"(dst), "l"(map), "r"(bar), "h"(mask), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}

FT_INLINE void ft_tma_multicast_4d(u32 dst, const void* map, u32 bar, u16 mask, i32 c0, i32 c1, i32 c2, i32 c3) {
  asm volatile("cp.async.bulk.tensor.4d." FT_MULTICAST " [%0], [%1, {%4, %5, %6, %7}], [%2], %3;"
               ::"r"(dst), "l"(map), "r"(bar), "h"(mask), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

FT_INLINE void ft_tma_multicast_5d(u32 dst, const void* map, u32 bar, u16 mask, i32 c0, i32 c1, i32 c2, i32 c3,
                                   i32 c4) {
  asm volatile("cp.async.bulk.tensor.5d." FT_MULTICAST " [%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;"
               ::"r"(dst), "l"(map), "r"(bar), "h"(mask), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}
#undef FT_MULTICAST

// `bytes` bytes.
FT_INLINE void ft_bulk_multicast(u32 dst, const void* src, u32 bytes, u32 bar, u16 mask) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
               " [%0], [%1], %2, [%3], %4;"
               ::"r"(dst), "l"(__cvta_generic_to_global(src)), "r"(bytes), "r"(bar), "h"(mask)
               : "memory");
}
