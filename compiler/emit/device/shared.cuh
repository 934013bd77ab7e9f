// Shared-memory accesses of 1 to 16 bytes a thread by 32-bit shared address (PTX ISA, "ld", "st", "State Spaces").
// Addresses are aligned to the size of the access.
#pragma once
#include "types.cuh"

// The 32-bit address that shared-memory instructions take (PTX ISA, "cvta").
FT_INLINE u32 ft_shared_address(const void* generic) {
  return static_cast<u32>(__cvta_generic_to_shared(generic));
}

// N bytes of shared memory into N bytes of registers.
template <int N>
FT_INLINE void ft_load_shared(void* dst_regs, u32 smem_addr) {
  Vec<N> regs;
  if constexpr (N == 16) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(regs.word[0]), "=r"(regs.word[1]), "=r"(regs.word[2]), "=r"(regs.word[3])
                 : "r"(smem_addr)
                 : "memory");
  } else if constexpr (N == 8) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(regs.word[0]), "=r"(regs.word[1])
                 : "r"(smem_addr)
                 : "memory");
  } else if constexpr (N == 4) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(regs.word[0]) : "r"(smem_addr) : "memory");
  } else if constexpr (N == 2) {
    asm volatile("ld.shared.b16 %0, [%1];" : "=h"(regs.word[0]) : "r"(smem_addr) : "memory");
  } else {
    u16 byte;  // PTX has no 8-bit registers
    asm volatile("ld.shared.b8 %0, [%1];" : "=h"(byte) : "r"(smem_addr) : "memory");
    regs.word[0] = static_cast<u8>(byte);
  }
  memcpy(dst_regs, &regs, N);
}

// N bytes of shared memory into N bytes of registers where `holds`; elsewhere the registers stay as they are. A predicate,
// not a branch: the loads and stores that follow do not wait for it (PTX ISA, "Predicated Execution").
template <int N>
FT_INLINE void ft_load_shared_if(bool holds, void* dst_regs, u32 smem_addr) {
  static_assert(N <= 4, "single elements: vectors are not cut");
  Vec<N> regs;
  memcpy(&regs, dst_regs, N);
  u32 p = holds;
  if constexpr (N == 4) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p ld.shared.b32 %0, [%2]; }"
                 : "+r"(regs.word[0])
                 : "r"(p), "r"(smem_addr)
                 : "memory");
  } else if constexpr (N == 2) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p ld.shared.b16 %0, [%2]; }"
                 : "+h"(regs.word[0])
                 : "r"(p), "r"(smem_addr)
                 : "memory");
  } else {
    u16 byte = regs.word[0];
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p ld.shared.b8 %0, [%2]; }"
                 : "+h"(byte)
                 : "r"(p), "r"(smem_addr)
                 : "memory");
    regs.word[0] = static_cast<u8>(byte);
  }
  memcpy(dst_regs, &regs, N);
}

// N bytes of registers into shared memory.
template <int N>
FT_INLINE void ft_store_shared(u32 smem_addr, const void* src_regs) {
  Vec<N> regs;
  memcpy(&regs, src_regs, N);
  if constexpr (N == 16) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(smem_addr), "r"(regs.word[0]), "r"(regs.word[1]),
                 "r"(regs.word[2]), "r"(regs.word[3])
                 : "memory");
  } else if constexpr (N == 8) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(smem_addr), "r"(regs.word[0]), "r"(regs.word[1]) : "memory");
  } else if constexpr (N == 4) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(smem_addr), "r"(regs.word[0]) : "memory");
  } else if constexpr (N == 2) {
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(smem_addr), "h"(regs.word[0]) : "memory");
  } else {
    asm volatile("st.shared.b8 [%0], %1;" ::"r"(smem_addr), "h"(static_cast<u16>(regs.word[0])) : "memory");
  }
}
