// Products of a warp whose lanes hold the operands (PTX ISA, "mma"). sm_80 and up, of floats of 8 bits sm_89. All threads
// of the warp come here together.
#pragma once
#include "types.cuh"

// d = left @ right + d: of 16 rows and 8 columns each lane has four results, four words of the left operand and two of the
// right one.
#define FT_MMA(NAME, SHAPE, TYPES, RESULT, AS)                                                                         \
  FT_INLINE void ft_mma_##NAME(RESULT* d, const void* left, const void* right) {                                       \
    Vec<16> a;                                                                                                         \
    Vec<8> b;                                                                                                          \
    memcpy(&a, left, 16);                                                                                              \
    memcpy(&b, right, 8);                                                                                              \
    asm volatile("mma.sync.aligned." SHAPE ".row.col." TYPES                                                           \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                    \
                 : "+" AS(d[0]), "+" AS(d[1]), "+" AS(d[2]), "+" AS(d[3])                                              \
                 : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));    \
  }
