// Copies of 4, 8 or 16 bytes a thread from global to shared memory, past the registers (PTX ISA, "cp.async",
// "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all"). They write through the generic proxy, as the
// thread's own stores do, but are done only when the thread has waited for them; other threads see them after a barrier.
// 16 bytes go past L1 (.cg), fewer through it (.ca). Both addresses are multiples of the size.
#pragma once
#include "global.cuh"

// One copy of N bytes. LEVEL: how the caches treat it; TAIL: the operands behind the size, the rest: their constraints.
#define FT_COPY_ASYNC(LEVEL, TAIL, ...)                                                                          \
  if constexpr (N == 16) {                                                                                       \
    asm volatile("cp.async.cg.shared.global" LEVEL " [%0], [%1], 16" TAIL ";" ::"r"(smem_addr), "l"(address),    \
                 ##__VA_ARGS__                                                                                   \
                 : "memory");                                                                                    \
  } else if constexpr (N == 8) {                                                                                 \
    asm volatile("cp.async.ca.shared.global" LEVEL " [%0], [%1], 8" TAIL ";" ::"r"(smem_addr), "l"(address),     \
                 ##__VA_ARGS__                                                                                   \
                 : "memory");                                                                                    \
  } else {                                                                                                       \
    asm volatile("cp.async.ca.shared.global" LEVEL " [%0], [%1], 4" TAIL ";" ::"r"(smem_addr), "l"(address),     \
                 ##__VA_ARGS__                                                                                   \
                 : "memory");                                                                                    \
  }

// N bytes of global memory to shared memory. L1 is passed by, or not, by the size alone; the policy is that of L2.
template <int N, int CACHE>
FT_INLINE void ft_copy_async(u32 smem_addr, const void* src) {
  static_assert(N == 4 || N == 8 || N == 16, "a size of cp.async");
  u64 address = __cvta_generic_to_global(src);
  if constexpr (CACHE == FT_CACHE_EVICT_FIRST || CACHE == FT_CACHE_STREAMING) {
    u64 policy = ft_policy_evict_first();
    FT_COPY_ASYNC(".L2::cache_hint", ", %2", "l"(policy))
  } else if constexpr (CACHE == FT_CACHE_EVICT_LAST) {
    u64 policy = ft_policy_evict_last();
    FT_COPY_ASYNC(".L2::cache_hint", ", %2", "l"(policy))
  } else {
    FT_COPY_ASYNC("", "")
  }
}

// The same of the first `bytes` alone, which are read; the rest of the N are zeros.
template <int N, int CACHE>
FT_INLINE void ft_copy_async_of(u32 bytes, u32 smem_addr, const void* src) {
  static_assert(N == 4 || N == 8 || N == 16, "a size of cp.async");
  u64 address = __cvta_generic_to_global(src);
  if constexpr (CACHE == FT_CACHE_EVICT_FIRST || CACHE == FT_CACHE_STREAMING) {
    u64 policy = ft_policy_evict_first();
    FT_COPY_ASYNC(".L2::cache_hint", ", %2, %3", "r"(bytes), "l"(policy))
  } else if constexpr (CACHE == FT_CACHE_EVICT_LAST) {
    u64 policy = ft_policy_evict_last();
    FT_COPY_ASYNC(".L2::cache_hint", ", %2, %3", "r"(bytes), "l"(policy))
  } else {
    FT_COPY_ASYNC("", ", %2", "r"(bytes))
  }
}
#undef FT_COPY_ASYNC

// The N bytes where `holds`, zeros elsewhere.
template <int N, int CACHE>
FT_INLINE void ft_copy_async_if(bool holds, u32 smem_addr, const void* src) {
  ft_copy_async_of<N, CACHE>(holds ? N : 0u, smem_addr, src);
}

// Closes the group of the copies issued since the last one.
FT_INLINE void ft_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the last PENDING groups of the thread are under way; 0: until no copy is.
template <int PENDING>
FT_INLINE void ft_copy_wait() {
  if constexpr (PENDING == 0) {
    asm volatile("cp.async.wait_all;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
  }
}
