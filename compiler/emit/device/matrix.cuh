// Matrices of 8 x 8 elements of 16 bits between shared memory and the registers of a warp, COUNT (1, 2 or 4) at a time
// (PTX ISA, "ldmatrix", "stmatrix").
// Lane 8 * i + r gives the address of row r of matrix i: 16 bytes, aligned to 16. In 32-bit register i lane t holds of
// matrix i the elements (t / 4, 2 * (t % 4)) and (t / 4, 2 * (t % 4) + 1), the first in the low half; transposed, with
// row and column exchanged. All threads of a warp come here together.
#pragma once
#include "types.cuh"

#define FT_LOAD_MATRICES(NAME, TRANS)                                                                         \
  template <int COUNT>                                                                                        \
  FT_INLINE void NAME(void* dst_regs, u32 row_addr) {                                                         \
    Vec<4 * COUNT> regs;                                                                                      \
    if constexpr (COUNT == 4) {                                                                               \
      asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 {%0, %1, %2, %3}, [%4];"                \
                   : "=r"(regs.word[0]), "=r"(regs.word[1]), "=r"(regs.word[2]), "=r"(regs.word[3])           \
                   : "r"(row_addr)                                                                            \
                   : "memory");                                                                               \
    } else if constexpr (COUNT == 2) {                                                                        \
      asm volatile("ldmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 {%0, %1}, [%2];"                        \
                   : "=r"(regs.word[0]), "=r"(regs.word[1])                                                   \
                   : "r"(row_addr)                                                                            \
                   : "memory");                                                                               \
    } else {                                                                                                  \
      asm volatile("ldmatrix.sync.aligned.m8n8.x1" TRANS ".shared.b16 {%0}, [%1];"                            \
                   : "=r"(regs.word[0])                                                                       \
                   : "r"(row_addr)                                                                            \
                   : "memory");                                                                               \
    }                                                                                                         \
    memcpy(dst_regs, &regs, 4 * COUNT);                                                                       \
  }

#define FT_STORE_MATRICES(NAME, TRANS)                                                                        \
  template <int COUNT>                                                                                        \
  FT_INLINE void NAME(u32 row_addr, const void* src_regs) {                                                   \
    Vec<4 * COUNT> regs;                                                                                      \
    memcpy(&regs, src_regs, 4 * COUNT);                                                                       \
    if constexpr (COUNT == 4) {                                                                               \
      asm volatile("stmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_addr), \
                   "r"(regs.word[0]), "r"(regs.word[1]), "r"(regs.word[2]), "r"(regs.word[3])                 \
                   : "memory");                                                                               \
    } else if constexpr (COUNT == 2) {                                                                        \
      asm volatile("stmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 [%0], {%1, %2};" ::"r"(row_addr),       \
                   "r"(regs.word[0]), "r"(regs.word[1])                                                       \
                   : "memory");                                                                               \
    } else {                                                                                                  \
      asm volatile("stmatrix.sync.aligned.m8n8.x1" TRANS ".shared.b16 [%0], {%1};" ::"r"(row_addr),           \
                   "r"(regs.word[0])                                                                          \
                   : "memory");                                                                               \
    }                                                                                                         \
  }

FT_LOAD_MATRICES(ft_load_matrices, "")
FT_LOAD_MATRICES(ft_load_matrices_transposed, ".trans")
FT_STORE_MATRICES(ft_store_matrices, "")
FT_STORE_MATRICES(ft_store_matrices_transposed, ".trans")

#undef FT_LOAD_MATRICES
#undef FT_STORE_MATRICES
