// Powers of integers, which wrap, by squares. To less than 0 those of 1 and -1 are what they are, all others 0, as in torch.
#pragma once
#include "types.cuh"

FT_INLINE i32 ft_pow_i32(i32 a, i32 b) {
  if (b < 0) return a == 1 || a == -1 ? (b & 1 ? a : 1) : 0;
  u32 power = 1u, square = u32(a);
  for (u32 left = u32(b); left != 0u; left >>= 1) {
    if (left & 1u) power *= square;
    square *= square;
  }
  return i32(power);
}

FT_INLINE i64 ft_pow_i64(i64 a, i64 b) {
  if (b < 0) return a == 1 || a == -1 ? (b & 1 ? a : 1) : 0;
  u64 power = 1u, square = u64(a);
  for (u64 left = u64(b); left != 0u; left >>= 1) {
    if (left & 1u) power *= square;
    square *= square;
  }
  return i64(power);
}
