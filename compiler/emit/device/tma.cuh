// Bulk copies: tiles through a tensor map (TMA), and runs of bytes (PTX ISA, "cp.async.bulk.tensor",
// "cp.async.bulk"). sm_90 and up. One thread issues. Coordinates are elements, innermost first; the innermost times the
// element size is a multiple of 16 bytes. A load completes on its mbarrier with the bytes of the whole tile, parts out of
// bounds included; a store belongs to the bulk group of the thread that issued it.
// `map` is the generic address of a tensor map: a `const __grid_constant__` parameter, aligned to 64 bytes.
// Shared memory of a tile is aligned to 128 bytes; addresses and sizes of byte runs are multiples of 16.
#pragma once
#include "types.cuh"

// Brings the map into the descriptor cache before its first use (PTX ISA, "prefetch").
FT_INLINE void ft_prefetch_tensor_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// 1-D tile: global to shared.
FT_INLINE void ft_tma_load_1d(u32 dst, const void* map, u32 bar, i32 c0) {
  asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3}], [%2];"
               ::"r"(dst), "l"(map), "r"(bar), "r"(c0)
               : "memory");
}

FT_INLINE void ft_tma_load_1d_hint(u32 dst, const void* map, u32 bar, i32 c0, u64 policy) {
  asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
               " [%0], [%1, {%3}], [%2], %4;"
               ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "l"(policy)
               : "memory");
}

// 2-D tile: global to shared.
FT_INLINE void ft_tma_load_2d(u32 dst, const void* map, u32 bar, i32 c0, i32 c1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4}], [%2];"
               ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1)
               : "memory");
}

FT_INLINE void ft_tma_load_2d_hint(u32 dst, const void* map, u32 bar, i32 c0, i32 c1, u64 policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
               " [%0], [%1, {%3, %4}], [%2], %5;"
               ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "l"(policy)
               : "memory");
}

// 3-D tile: global to shared.
FT_INLINE void ft_tma_load_3d(u32 dst, const void* map, u32 bar, i32 c0, i32 c1, i32 c2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4, %5}], [%2];"
               ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}

FT_INLINE void ft_tma_load_3d_hint(u32 dst, const void* map, u32 bar, i32 c0, i32 c1, i32 c2, u64 policy) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
               " [%0], [%1, {%3, %4, %5}], [%2], %6;"
               ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "l"(policy)
               : "memory");
}

// 4-D tile: global to shared.
FT_INLINE void ft_tma_load_4d(u32 dst, const void* map, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4, %5, %6}], [%2];"
               ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

FT_INLINE void ft_tma_load_4d_hint(u32 dst, const void* map, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3, u64 policy) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
               " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;"
               ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
               : "memory");
}

// 5-D tile: global to shared.
FT_INLINE void ft_tma_load_5d(u32 dst, const void* map, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
               ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}

FT_INLINE void ft_tma_load_5d_hint(u32 dst, const void* map, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4,
                                   u64 policy) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
               " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;"
               ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "l"(policy)
               : "memory");
}

// 1-D tile: shared to global; what lies past the end of the tensor is dropped.
FT_INLINE void ft_tma_store_1d(const void* map, u32 src, i32 c0) {
  asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%2}], [%1];"
               ::"l"(map), "r"(src), "r"(c0)
               : "memory");
}

FT_INLINE void ft_tma_store_1d_hint(const void* map, u32 src, i32 c0, u64 policy) {
  asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2}], [%1], %3;"
               ::"l"(map), "r"(src), "r"(c0), "l"(policy)
               : "memory");
}

// 2-D tile: shared to global; what lies past the end of the tensor is dropped.
FT_INLINE void ft_tma_store_2d(const void* map, u32 src, i32 c0, i32 c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
               ::"l"(map), "r"(src), "r"(c0), "r"(c1)
               : "memory");
}

FT_INLINE void ft_tma_store_2d_hint(const void* map, u32 src, i32 c0, i32 c1, u64 policy) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2, %3}], [%1], %4;"
               ::"l"(map), "r"(src), "r"(c0), "r"(c1), "l"(policy)
               : "memory");
}

// 3-D tile: shared to global; what lies past the end of the tensor is dropped.
FT_INLINE void ft_tma_store_3d(const void* map, u32 src, i32 c0, i32 c1, i32 c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
               ::"l"(map), "r"(src), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}

FT_INLINE void ft_tma_store_3d_hint(const void* map, u32 src, i32 c0, i32 c1, i32 c2, u64 policy) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group.L2::cache_hint"
               " [%0, {%2, %3, %4}], [%1], %5;"
               ::"l"(map), "r"(src), "r"(c0), "r"(c1), "r"(c2), "l"(policy)
               : "memory");
}

// 4-D tile: shared to global; what lies past the end of the tensor is dropped.
FT_INLINE void ft_tma_store_4d(const void* map, u32 src, i32 c0, i32 c1, i32 c2, i32 c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
               ::"l"(map), "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

FT_INLINE void ft_tma_store_4d_hint(const void* map, u32 src, i32 c0, i32 c1, i32 c2, i32 c3, u64 policy) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group.L2::cache_hint"
               " [%0, {%2, %3, %4, %5}], [%1], %6;"
               ::"l"(map), "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
               : "memory");
}

// 5-D tile: shared to global; what lies past the end of the tensor is dropped.
FT_INLINE void ft_tma_store_5d(const void* map, u32 src, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
               ::"l"(map), "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}

FT_INLINE void ft_tma_store_5d_hint(const void* map, u32 src, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4, u64 policy) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group.L2::cache_hint"
               " [%0, {%2, %3, %4, %5, %6}], [%1], %7;"
               ::"l"(map), "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "l"(policy)
               : "memory");
}

// `bytes` bytes: global to shared.
FT_INLINE void ft_bulk_load(u32 dst, const void* src, u32 bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(dst), "l"(__cvta_generic_to_global(src)), "r"(bytes), "r"(bar)
               : "memory");
}

FT_INLINE void ft_bulk_load_hint(u32 dst, const void* src, u32 bytes, u32 bar, u64 policy) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
               " [%0], [%1], %2, [%3], %4;"
               ::"r"(dst), "l"(__cvta_generic_to_global(src)), "r"(bytes), "r"(bar), "l"(policy)
               : "memory");
}

// `bytes` bytes: shared to global.
FT_INLINE void ft_bulk_store(void* dst, u32 src, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group"
               " [%0], [%1], %2;"
               ::"l"(__cvta_generic_to_global(dst)), "r"(src), "r"(bytes)
               : "memory");
}

FT_INLINE void ft_bulk_store_hint(void* dst, u32 src, u32 bytes, u64 policy) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;"
               ::"l"(__cvta_generic_to_global(dst)), "r"(src), "r"(bytes), "l"(policy)
               : "memory");
}

// Closes the thread's group of stores (PTX ISA, "cp.async.bulk.commit_group").
FT_INLINE void ft_bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most N of the thread's groups are unfinished: their writes are done and visible to this thread.
template <int N>
FT_INLINE void ft_bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// Waits until at most N of the thread's groups still read their shared memory: the others' can be written again.
template <int N>
FT_INLINE void ft_bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// Makes this thread's ordinary shared-memory accesses visible to bulk copies issued later: every writing thread fences,
// then the block synchronises, then one thread issues the store (PTX ISA, "membar / fence", proxy fences).
FT_INLINE void ft_fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
