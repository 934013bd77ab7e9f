// Signs, bits and whole quotients of integers and bools. 8-bit integers are computed in 32 bits; the store keeps the low
// ones, and what shifts by 8 to 31 leave there is what shifts by more than 7 shall leave.
#pragma once
#include "integer.cuh"

FT_INLINE i32 ft_sign_i32(i32 x) { return (x > 0) - (x < 0); }
FT_INLINE i64 ft_sign_i64(i64 x) { return (x > 0) - (x < 0); }

FT_INLINE i32 ft_bitwise_not_i32(i32 x) { return ~x; }
FT_INLINE i64 ft_bitwise_not_i64(i64 x) { return ~x; }
FT_INLINE u8 ft_bitwise_not_bool(u8 x) { return x ^ 1; }
FT_INLINE i32 ft_bitwise_and_i32(i32 a, i32 b) { return a & b; }
FT_INLINE i64 ft_bitwise_and_i64(i64 a, i64 b) { return a & b; }
FT_INLINE u8 ft_bitwise_and_bool(u8 a, u8 b) { return a & b; }
FT_INLINE i32 ft_bitwise_or_i32(i32 a, i32 b) { return a | b; }
FT_INLINE i64 ft_bitwise_or_i64(i64 a, i64 b) { return a | b; }
FT_INLINE u8 ft_bitwise_or_bool(u8 a, u8 b) { return a | b; }
FT_INLINE i32 ft_bitwise_xor_i32(i32 a, i32 b) { return a ^ b; }
FT_INLINE i64 ft_bitwise_xor_i64(i64 a, i64 b) { return a ^ b; }
FT_INLINE u8 ft_bitwise_xor_bool(u8 a, u8 b) { return a ^ b; }

// C++ leaves shifts by less than 0, or by all bits and more, undefined. Unsigned, an amount below 0 is a large one.
FT_INLINE i32 ft_bitwise_left_shift_i32(i32 a, i32 by) { return u32(by) < 32u ? i32(u32(a) << by) : 0; }
FT_INLINE i64 ft_bitwise_left_shift_i64(i64 a, i64 by) { return u64(by) < 64u ? i64(u64(a) << by) : 0; }
FT_INLINE i32 ft_bitwise_right_shift_i32(i32 a, i32 by) { return a >> (u32(by) < 31u ? by : 31); }
FT_INLINE i64 ft_bitwise_right_shift_i64(i64 a, i64 by) { return a >> (u64(by) < 63u ? by : 63); }

// Quotients rounded down, and what they leave. By 0, which PTX leaves open ("div"), both are -1. By -1 the quotient is the
// opposite number, which the least integer has not: it wraps.
FT_INLINE i32 ft_floor_divide_i32(i32 a, i32 b) {
  i32 by = u32(b) + 1u < 2u ? 1 : b;
  i32 q = a / by;
  q -= i32(q * by != a && (a ^ by) < 0);
  return b == 0 ? -1 : b == -1 ? ft_neg_i32(a) : q;
}
FT_INLINE i64 ft_floor_divide_i64(i64 a, i64 b) {
  i64 by = u64(b) + 1u < 2u ? 1 : b;
  i64 q = a / by;
  q -= i64(q * by != a && (a ^ by) < 0);
  return b == 0 ? -1 : b == -1 ? ft_neg_i64(a) : q;
}
FT_INLINE i32 ft_remainder_i32(i32 a, i32 b) {
  i32 by = u32(b) + 1u < 2u ? 1 : b;
  i32 r = a % by;
  r += r != 0 && (r ^ by) < 0 ? by : 0;
  return b == 0 ? -1 : r;
}
FT_INLINE i64 ft_remainder_i64(i64 a, i64 b) {
  i64 by = u64(b) + 1u < 2u ? 1 : b;
  i64 r = a % by;
  r += r != 0 && (r ^ by) < 0 ? by : 0;
  return b == 0 ? -1 : r;
}
