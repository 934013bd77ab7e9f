// Loads of global memory that the kernel writes as well, an output that lies in an input: those of "global" without the
// non-coherent path (`.nc`), which must not see memory that changes while the kernel runs (PTX ISA, "ld.global.nc").
// Nothing is moved past a store. A load without a condition is one under a condition that always holds.
#pragma once
#include "global.cuh"

#define FT_LOAD_WRITTEN(OP, H1, H2, H4, ...)                                                                     \
  if constexpr (N == 16) {                                                                                       \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0; @p " OP ".v4.b32 {%0, %1, %2, %3}, [%5]" H4 "; }"        \
                 : "+r"(regs.word[0]), "+r"(regs.word[1]), "+r"(regs.word[2]), "+r"(regs.word[3])                \
                 : "r"(p), "l"(address), ##__VA_ARGS__                                                           \
                 : "memory");                                                                                    \
  } else if constexpr (N == 8) {                                                                                 \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " OP ".v2.b32 {%0, %1}, [%3]" H2 "; }"                \
                 : "+r"(regs.word[0]), "+r"(regs.word[1])                                                        \
                 : "r"(p), "l"(address), ##__VA_ARGS__                                                           \
                 : "memory");                                                                                    \
  } else if constexpr (N == 4) {                                                                                 \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p " OP ".b32 %0, [%2]" H1 "; }"                         \
                 : "+r"(regs.word[0])                                                                            \
                 : "r"(p), "l"(address), ##__VA_ARGS__                                                           \
                 : "memory");                                                                                    \
  } else if constexpr (N == 2) {                                                                                 \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p " OP ".b16 %0, [%2]" H1 "; }"                         \
                 : "+h"(regs.word[0])                                                                            \
                 : "r"(p), "l"(address), ##__VA_ARGS__                                                           \
                 : "memory");                                                                                    \
  } else {                                                                                                       \
    u16 byte = regs.word[0];                                                                                     \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p " OP ".b8 %0, [%2]" H1 "; }"                          \
                 : "+h"(byte)                                                                                    \
                 : "r"(p), "l"(address), ##__VA_ARGS__                                                           \
                 : "memory");                                                                                    \
    regs.word[0] = static_cast<u8>(byte);                                                                        \
  }

template <int N, int CACHE>
FT_INLINE void ft_load_written_if(bool holds, void* dst_regs, const void* src) {
  static_assert(CACHE >= FT_CACHE_DEFAULT && CACHE <= FT_CACHE_EVICT_LAST, "a cache operator of FtCache");
  u64 address = __cvta_generic_to_global(src);
  u32 p = holds;
  Vec<N> regs;
  memcpy(&regs, dst_regs, N);
  if constexpr (CACHE == FT_CACHE_DEFAULT) {
    FT_LOAD_WRITTEN("ld.global", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_NO_ALLOCATE) {
    FT_LOAD_WRITTEN("ld.global.L1::no_allocate", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_STREAMING) {
    FT_LOAD_WRITTEN("ld.global.cs", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_EVICT_FIRST) {
    u64 policy = ft_policy_evict_first();
    FT_LOAD_WRITTEN("ld.global.L1::no_allocate.L2::cache_hint", ", %3", ", %4", ", %6", "l"(policy))
  } else {
    u64 policy = ft_policy_evict_last();
    FT_LOAD_WRITTEN("ld.global.L2::cache_hint", ", %3", ", %4", ", %6", "l"(policy))
  }
  memcpy(dst_regs, &regs, N);
}
#undef FT_LOAD_WRITTEN

template <int N, int CACHE>
FT_INLINE void ft_load_written(void* dst_regs, const void* src) {
  Vec<N> regs = {};
  ft_load_written_if<N, CACHE>(true, &regs, src);
  memcpy(dst_regs, &regs, N);
}
