// Registers whose values the compiler forgets: what it computed of them before is computed again, not kept.
#pragma once
#include "types.cuh"

// N bytes of registers. The empty instruction may have changed each word (CUDA guide, inline PTX assembly, "volatile").
template <int N>
FT_INLINE void ft_opaque(void* regs) {
  u32 word[(N + 3) / 4] = {};
  memcpy(word, regs, N);
#pragma unroll
  for (int i = 0; i < (N + 3) / 4; ++i) asm volatile("" : "+r"(word[i]));
  memcpy(regs, word, N);
}
