// Operators on integers, which wrap, and on bools. C++ leaves the overflow of signed integers undefined: sums, differences
// and products are taken unsigned. 8-bit integers are computed in 32 bits; the store keeps the low bits.
#pragma once
#include "types.cuh"

FT_INLINE i32 ft_add_i32(i32 a, i32 b) { return i32(u32(a) + u32(b)); }
FT_INLINE i64 ft_add_i64(i64 a, i64 b) { return i64(u64(a) + u64(b)); }
FT_INLINE i32 ft_sub_i32(i32 a, i32 b) { return i32(u32(a) - u32(b)); }
FT_INLINE i64 ft_sub_i64(i64 a, i64 b) { return i64(u64(a) - u64(b)); }
FT_INLINE i32 ft_mul_i32(i32 a, i32 b) { return i32(u32(a) * u32(b)); }
FT_INLINE i64 ft_mul_i64(i64 a, i64 b) { return i64(u64(a) * u64(b)); }

FT_INLINE i32 ft_neg_i32(i32 x) { return i32(0u - u32(x)); }
FT_INLINE i64 ft_neg_i64(i64 x) { return i64(0ull - u64(x)); }
FT_INLINE i32 ft_square_i32(i32 x) { return ft_mul_i32(x, x); }
FT_INLINE i64 ft_square_i64(i64 x) { return ft_mul_i64(x, x); }

// The least integer has no opposite: its absolute value is itself.
FT_INLINE i32 ft_abs_i32(i32 x) { return x < 0 ? ft_neg_i32(x) : x; }
FT_INLINE i64 ft_abs_i64(i64 x) { return x < 0 ? ft_neg_i64(x) : x; }

FT_INLINE i32 ft_maximum_i32(i32 a, i32 b) { return a > b ? a : b; }
FT_INLINE i64 ft_maximum_i64(i64 a, i64 b) { return a > b ? a : b; }
FT_INLINE i32 ft_minimum_i32(i32 a, i32 b) { return a < b ? a : b; }
FT_INLINE i64 ft_minimum_i64(i64 a, i64 b) { return a < b ? a : b; }
FT_INLINE i32 ft_relu_i32(i32 x) { return ft_maximum_i32(x, 0); }
FT_INLINE i64 ft_relu_i64(i64 x) { return ft_maximum_i64(x, 0); }

FT_INLINE u8 ft_maximum_bool(u8 a, u8 b) { return a | b; }
FT_INLINE u8 ft_minimum_bool(u8 a, u8 b) { return a & b; }
