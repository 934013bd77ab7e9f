// Random numbers: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
// of the element's number. Four neighbours have the four words of one call.
#pragma once
#include "types.cuh"

// The product of two words, both halves of it by one instruction (PTX ISA, mul.wide). As a product of 64 bits it would drag
// the exclusive ors into 64 bits too.
FT_INLINE void ft_mul_wide(u32& low, u32& high, u32 a, u32 b) {
  asm("{\n\t.reg .b64 whole;\n\tmul.wide.u32 whole, %2, %3;\n\tmov.b64 {%0, %1}, whole;\n\t}"
      : "=r"(low), "=r"(high)
      : "r"(a), "r"(b));
}

// The words for counter (group, offset) and key seed.
FT_INLINE void ft_philox(::i32 (&words)[4], ::i64 seed, ::i64 offset, u64 group) {
  u32 c0 = u32(group), c1 = u32(group >> 32), c2 = u32(u64(offset)), c3 = u32(u64(offset) >> 32);
  u32 k0 = u32(u64(seed)), k1 = u32(u64(seed) >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    u32 a_low, a_high, b_low, b_high;
    ft_mul_wide(a_low, a_high, c0, 0xd2511f53u);
    ft_mul_wide(b_low, b_high, c2, 0xcd9e8d57u);
    c0 = b_high ^ c1 ^ k0;
    c1 = b_low;
    c2 = a_high ^ c3 ^ k1;
    c3 = a_low;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  words[0] = ::i32(c0);
  words[1] = ::i32(c1);
  words[2] = ::i32(c2);
  words[3] = ::i32(c3);
}

// Word `place % 4`, its upper 24 bits as a number of [0, 1).
FT_INLINE float ft_uniform(const ::i32 (&words)[4], u32 place) {
  const ::i32 low = place & 1u ? words[1] : words[0], high = place & 1u ? words[3] : words[2];
  return float(u32(place & 2u ? high : low) >> 8) * 0x1p-24f;
}

FT_INLINE float ft_rand(::i64 seed, ::i64 offset, u64 element) {
  ::i32 words[4];
  ft_philox(words, seed, offset, element >> 2);
  return ft_uniform(words, u32(element));
}

// The same in turn `turn` of an unrolled loop over neighbours, of which G in a row have one call: the first of them makes it.
template <u32 G>
FT_INLINE float ft_rand_in_turn(::i32 (&words)[4], ::i64 seed, ::i64 offset, u64 element, u32 turn) {
  if (turn % G == 0u) ft_philox(words, seed, offset, element >> 2);
  return ft_uniform(words, G == 4u ? turn : u32(element));
}
