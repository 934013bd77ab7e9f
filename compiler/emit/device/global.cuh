// Global loads and stores of 1 to 16 bytes a thread (PTX ISA, "ld", "ld.global.nc", "st", "Cache Operators").
// Addresses are aligned to the size of the access. Registers are passed as the address of a local array: after inlining
// it is never in memory. Loads are volatile, so all of them are issued in the order in which they are written.
#pragma once
#include "policy.cuh"

enum FtCache : int {
  FT_CACHE_DEFAULT = 0,
  FT_CACHE_NO_ALLOCATE = 1,  // not kept in L1
  FT_CACHE_STREAMING = 2,    // .cs: evicted first in L1 and L2
  FT_CACHE_EVICT_FIRST = 3,  // not kept in L1, evicted first in L2 by policy
  FT_CACHE_EVICT_LAST = 4,   // evicted last in L2 by policy
};

// One `ld` of N bytes. H1, H2, H4: the policy operand of a scalar, a pair, a quad; the rest: its constraint.
#define FT_LOAD_GLOBAL_AS(OP, H1, H2, H4, ...)                                                                   \
  if constexpr (N == 16) {                                                                                       \
    asm volatile(OP ".v4.b32 {%0, %1, %2, %3}, [%4]" H4 ";"                                                      \
                 : "=r"(regs.word[0]), "=r"(regs.word[1]), "=r"(regs.word[2]), "=r"(regs.word[3])                \
                 : "l"(address), ##__VA_ARGS__);                                                                 \
  } else if constexpr (N == 8) {                                                                                 \
    asm volatile(OP ".v2.b32 {%0, %1}, [%2]" H2 ";"                                                              \
                 : "=r"(regs.word[0]), "=r"(regs.word[1])                                                        \
                 : "l"(address), ##__VA_ARGS__);                                                                 \
  } else if constexpr (N == 4) {                                                                                 \
    asm volatile(OP ".b32 %0, [%1]" H1 ";" : "=r"(regs.word[0]) : "l"(address), ##__VA_ARGS__);                  \
  } else if constexpr (N == 2) {                                                                                 \
    asm volatile(OP ".b16 %0, [%1]" H1 ";" : "=h"(regs.word[0]) : "l"(address), ##__VA_ARGS__);                  \
  } else {                                                                                                       \
    u16 byte; /* PTX has no 8-bit registers */                                                                   \
    asm volatile(OP ".b8 %0, [%1]" H1 ";" : "=h"(byte) : "l"(address), ##__VA_ARGS__);                           \
    regs.word[0] = static_cast<u8>(byte);                                                                        \
  }

// N bytes of global memory that nothing writes while the kernel runs (`.nc`), into N bytes of registers.
template <int N, int CACHE>
FT_INLINE void ft_load_global(void* dst_regs, const void* src) {
  static_assert(CACHE >= FT_CACHE_DEFAULT && CACHE <= FT_CACHE_EVICT_LAST, "a cache operator of FtCache");
  u64 address = __cvta_generic_to_global(src);
  Vec<N> regs;
  if constexpr (CACHE == FT_CACHE_DEFAULT) {
    FT_LOAD_GLOBAL_AS("ld.global.nc", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_NO_ALLOCATE) {
    FT_LOAD_GLOBAL_AS("ld.global.nc.L1::no_allocate", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_STREAMING) {
    FT_LOAD_GLOBAL_AS("ld.global.cs.nc", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_EVICT_FIRST) {
    u64 policy = ft_policy_evict_first();
    FT_LOAD_GLOBAL_AS("ld.global.nc.L1::no_allocate.L2::cache_hint", ", %2", ", %3", ", %5", "l"(policy))
  } else {
    u64 policy = ft_policy_evict_last();
    FT_LOAD_GLOBAL_AS("ld.global.nc.L2::cache_hint", ", %2", ", %3", ", %5", "l"(policy))
  }
  memcpy(dst_regs, &regs, N);
}
#undef FT_LOAD_GLOBAL_AS

// The same under a predicate, without a branch: registers keep what they hold where `holds` is false, and the loads that
// follow are issued before this one has arrived (PTX ISA, "Predicated Execution").
#define FT_LOAD_GLOBAL_IF(OP, H1, H2, H4, ...)                                                                   \
  if constexpr (N == 16) {                                                                                       \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0; @p " OP ".v4.b32 {%0, %1, %2, %3}, [%5]" H4 "; }"        \
                 : "+r"(regs.word[0]), "+r"(regs.word[1]), "+r"(regs.word[2]), "+r"(regs.word[3])                \
                 : "r"(p), "l"(address), ##__VA_ARGS__);                                                         \
  } else if constexpr (N == 8) {                                                                                 \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " OP ".v2.b32 {%0, %1}, [%3]" H2 "; }"                \
                 : "+r"(regs.word[0]), "+r"(regs.word[1])                                                        \
                 : "r"(p), "l"(address), ##__VA_ARGS__);                                                         \
  } else if constexpr (N == 4) {                                                                                 \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p " OP ".b32 %0, [%2]" H1 "; }"                         \
                 : "+r"(regs.word[0])                                                                            \
                 : "r"(p), "l"(address), ##__VA_ARGS__);                                                         \
  } else if constexpr (N == 2) {                                                                                 \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p " OP ".b16 %0, [%2]" H1 "; }"                         \
                 : "+h"(regs.word[0])                                                                            \
                 : "r"(p), "l"(address), ##__VA_ARGS__);                                                         \
  } else {                                                                                                       \
    u16 byte = regs.word[0];                                                                                     \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p " OP ".b8 %0, [%2]" H1 "; }"                          \
                 : "+h"(byte)                                                                                    \
                 : "r"(p), "l"(address), ##__VA_ARGS__);                                                         \
    regs.word[0] = static_cast<u8>(byte);                                                                        \
  }

template <int N, int CACHE>
FT_INLINE void ft_load_global_if(bool holds, void* dst_regs, const void* src) {
  static_assert(CACHE >= FT_CACHE_DEFAULT && CACHE <= FT_CACHE_EVICT_LAST, "a cache operator of FtCache");
  u64 address = __cvta_generic_to_global(src);
  u32 p = holds;
  Vec<N> regs;
  memcpy(&regs, dst_regs, N);
  if constexpr (CACHE == FT_CACHE_DEFAULT) {
    FT_LOAD_GLOBAL_IF("ld.global.nc", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_NO_ALLOCATE) {
    FT_LOAD_GLOBAL_IF("ld.global.nc.L1::no_allocate", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_STREAMING) {
    FT_LOAD_GLOBAL_IF("ld.global.cs.nc", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_EVICT_FIRST) {
    u64 policy = ft_policy_evict_first();
    FT_LOAD_GLOBAL_IF("ld.global.nc.L1::no_allocate.L2::cache_hint", ", %3", ", %4", ", %6", "l"(policy))
  } else {
    u64 policy = ft_policy_evict_last();
    FT_LOAD_GLOBAL_IF("ld.global.nc.L2::cache_hint", ", %3", ", %4", ", %6", "l"(policy))
  }
  memcpy(dst_regs, &regs, N);
}
#undef FT_LOAD_GLOBAL_IF

#define FT_STORE_GLOBAL_AS(OP, H1, H2, H4, ...)                                                                  \
  if constexpr (N == 16) {                                                                                       \
    asm volatile(OP ".v4.b32 [%0], {%1, %2, %3, %4}" H4 ";" ::"l"(address), "r"(regs.word[0]), "r"(regs.word[1]),\
                 "r"(regs.word[2]), "r"(regs.word[3]), ##__VA_ARGS__                                             \
                 : "memory");                                                                                    \
  } else if constexpr (N == 8) {                                                                                 \
    asm volatile(OP ".v2.b32 [%0], {%1, %2}" H2 ";" ::"l"(address), "r"(regs.word[0]), "r"(regs.word[1]),        \
                 ##__VA_ARGS__                                                                                   \
                 : "memory");                                                                                    \
  } else if constexpr (N == 4) {                                                                                 \
    asm volatile(OP ".b32 [%0], %1" H1 ";" ::"l"(address), "r"(regs.word[0]), ##__VA_ARGS__ : "memory");         \
  } else if constexpr (N == 2) {                                                                                 \
    asm volatile(OP ".b16 [%0], %1" H1 ";" ::"l"(address), "h"(regs.word[0]), ##__VA_ARGS__ : "memory");         \
  } else {                                                                                                       \
    asm volatile(OP ".b8 [%0], %1" H1 ";" ::"l"(address), "h"(static_cast<u16>(regs.word[0])), ##__VA_ARGS__     \
                 : "memory");                                                                                    \
  }

// N bytes of registers into global memory.
template <int N, int CACHE>
FT_INLINE void ft_store_global(void* dst, const void* src_regs) {
  static_assert(CACHE >= FT_CACHE_DEFAULT && CACHE <= FT_CACHE_EVICT_LAST, "a cache operator of FtCache");
  u64 address = __cvta_generic_to_global(dst);
  Vec<N> regs;
  memcpy(&regs, src_regs, N);
  if constexpr (CACHE == FT_CACHE_DEFAULT) {
    FT_STORE_GLOBAL_AS("st.global", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_NO_ALLOCATE) {
    FT_STORE_GLOBAL_AS("st.global.L1::no_allocate", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_STREAMING) {
    FT_STORE_GLOBAL_AS("st.global.cs", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_EVICT_FIRST) {
    u64 policy = ft_policy_evict_first();
    FT_STORE_GLOBAL_AS("st.global.L1::no_allocate.L2::cache_hint", ", %2", ", %3", ", %5", "l"(policy))
  } else {
    u64 policy = ft_policy_evict_last();
    FT_STORE_GLOBAL_AS("st.global.L2::cache_hint", ", %2", ", %3", ", %5", "l"(policy))
  }
}
#undef FT_STORE_GLOBAL_AS

// The same under a predicate, without a branch.
#define FT_STORE_GLOBAL_IF(OP, H1, H2, H4, ...)                                                                  \
  if constexpr (N == 16) {                                                                                       \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p " OP ".v4.b32 [%1], {%2, %3, %4, %5}" H4 "; }" ::     \
                     "r"(p), "l"(address), "r"(regs.word[0]), "r"(regs.word[1]), "r"(regs.word[2]),              \
                     "r"(regs.word[3]), ##__VA_ARGS__                                                            \
                 : "memory");                                                                                    \
  } else if constexpr (N == 8) {                                                                                 \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p " OP ".v2.b32 [%1], {%2, %3}" H2 "; }" ::             \
                     "r"(p), "l"(address), "r"(regs.word[0]), "r"(regs.word[1]), ##__VA_ARGS__                   \
                 : "memory");                                                                                    \
  } else if constexpr (N == 4) {                                                                                 \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p " OP ".b32 [%1], %2" H1 "; }" ::                      \
                     "r"(p), "l"(address), "r"(regs.word[0]), ##__VA_ARGS__                                      \
                 : "memory");                                                                                    \
  } else if constexpr (N == 2) {                                                                                 \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p " OP ".b16 [%1], %2" H1 "; }" ::                      \
                     "r"(p), "l"(address), "h"(regs.word[0]), ##__VA_ARGS__                                      \
                 : "memory");                                                                                    \
  } else {                                                                                                       \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p " OP ".b8 [%1], %2" H1 "; }" ::                       \
                     "r"(p), "l"(address), "h"(static_cast<u16>(regs.word[0])), ##__VA_ARGS__                    \
                 : "memory");                                                                                    \
  }

template <int N, int CACHE>
FT_INLINE void ft_store_global_if(bool holds, void* dst, const void* src_regs) {
  static_assert(CACHE >= FT_CACHE_DEFAULT && CACHE <= FT_CACHE_EVICT_LAST, "a cache operator of FtCache");
  u64 address = __cvta_generic_to_global(dst);
  u32 p = holds;
  Vec<N> regs;
  memcpy(&regs, src_regs, N);
  if constexpr (CACHE == FT_CACHE_DEFAULT) {
    FT_STORE_GLOBAL_IF("st.global", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_NO_ALLOCATE) {
    FT_STORE_GLOBAL_IF("st.global.L1::no_allocate", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_STREAMING) {
    FT_STORE_GLOBAL_IF("st.global.cs", "", "", "")
  } else if constexpr (CACHE == FT_CACHE_EVICT_FIRST) {
    u64 policy = ft_policy_evict_first();
    FT_STORE_GLOBAL_IF("st.global.L1::no_allocate.L2::cache_hint", ", %3", ", %4", ", %6", "l"(policy))
  } else {
    u64 policy = ft_policy_evict_last();
    FT_STORE_GLOBAL_IF("st.global.L2::cache_hint", ", %3", ", %4", ", %6", "l"(policy))
  }
}
#undef FT_STORE_GLOBAL_IF
