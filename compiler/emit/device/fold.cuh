// One step of a fold, and the exchange between lanes (PTX ISA, "shfl.sync"). NaN wins a maximum and a minimum, as in
// torch; integers wrap.
#pragma once
#include "approx.cuh"
#include "convert.cuh"

FT_INLINE float ft_fold_sum_f32(float a, float b) { return a + b; }
FT_INLINE float ft_fold_amax_f32(float a, float b) { return ft_max_nan(a, b); }
FT_INLINE float ft_fold_amin_f32(float a, float b) { return ft_min_nan(a, b); }

FT_INLINE double ft_fold_sum_f64(double a, double b) { return a + b; }
// Of zeros of both signs a maximum is +0 and a minimum -0, in any order, as the instructions of the other types have it
// (PTX ISA, "max": +0.0 > -0.0): equal numbers have equal bits but for the sign of a zero.
FT_INLINE double ft_fold_amax_f64(double a, double b) {
  if (a == b) return __longlong_as_double(__double_as_longlong(a) & __double_as_longlong(b));
  return a != a ? a : (b != b ? b : (a < b ? b : a));
}
FT_INLINE double ft_fold_amin_f64(double a, double b) {
  if (a == b) return __longlong_as_double(__double_as_longlong(a) | __double_as_longlong(b));
  return a != a ? a : (b != b ? b : (b < a ? b : a));
}

// 16-bit floats in their own format (PTX ISA, "max", "min"): ptxas joins neighbouring ones into packed instructions.
#define FT_FOLD_HALF(OP, INSTRUCTION, TYPE)                              \
  FT_INLINE u16 ft_fold_##OP##_##TYPE(u16 a, u16 b) {                    \
    u16 y;                                                               \
    asm(INSTRUCTION " %0, %1, %2;" : "=h"(y) : "h"(a), "h"(b));          \
    return y;                                                            \
  }
FT_FOLD_HALF(amax, "max.NaN.bf16", bf16)
FT_FOLD_HALF(amin, "min.NaN.bf16", bf16)
FT_FOLD_HALF(amax, "max.NaN.f16", f16)
FT_FOLD_HALF(amin, "min.NaN.f16", f16)
#undef FT_FOLD_HALF

// The maximum or minimum of N 16-bit floats and `first`, two at a time (PTX ISA, "max", "min": .NaN.bf16x2, .NaN.f16x2).
#define FT_FOLD_RUN(OP, PAIR, TYPE)                                                          \
  FT_INLINE u32 ft_fold_##OP##_pair_##TYPE(u32 a, u32 b) {                                         \
    u32 y;                                                                                         \
    asm(PAIR " %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));                                           \
    return y;                                                                                      \
  }                                                                                                \
  template <int N>                                                                                 \
  FT_INLINE u16 ft_fold_##OP##_run_##TYPE(u16 first, const u16* values) {                          \
    static_assert(N % 2 == 0, "pairs");                                                            \
    u32 pairs[N / 2];                                                                              \
    memcpy(pairs, values, sizeof(pairs));                                                          \
    u32 y = pairs[0];                                                                              \
    _Pragma("unroll") for (int i = 1; i < N / 2; ++i) y = ft_fold_##OP##_pair_##TYPE(y, pairs[i]); \
    y = ft_fold_##OP##_pair_##TYPE(y, static_cast<u32>(first) | (y & 0xffff0000u));                \
    y = ft_fold_##OP##_pair_##TYPE(y, y >> 16);                                                    \
    return static_cast<u16>(y);                                                                    \
  }
FT_FOLD_RUN(amax, "max.NaN.bf16x2", bf16)
FT_FOLD_RUN(amin, "min.NaN.bf16x2", bf16)
FT_FOLD_RUN(amax, "max.NaN.f16x2", f16)
FT_FOLD_RUN(amin, "min.NaN.f16x2", f16)
#undef FT_FOLD_RUN

FT_INLINE i32 ft_fold_sum_i32(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) + static_cast<u32>(b)); }
FT_INLINE i32 ft_fold_amax_i32(i32 a, i32 b) { return a < b ? b : a; }
FT_INLINE i32 ft_fold_amin_i32(i32 a, i32 b) { return b < a ? b : a; }

FT_INLINE i64 ft_fold_sum_i64(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) + static_cast<u64>(b)); }
FT_INLINE i64 ft_fold_amax_i64(i64 a, i64 b) { return a < b ? b : a; }
FT_INLINE i64 ft_fold_amin_i64(i64 a, i64 b) { return b < a ? b : a; }

FT_INLINE i8 ft_fold_sum_i8(i8 a, i8 b) { return static_cast<i8>(a + b); }
FT_INLINE i8 ft_fold_amax_i8(i8 a, i8 b) { return a < b ? b : a; }
FT_INLINE i8 ft_fold_amin_i8(i8 a, i8 b) { return b < a ? b : a; }

FT_INLINE u8 ft_fold_amax_bool(u8 a, u8 b) { return a | b; }
FT_INLINE u8 ft_fold_amin_bool(u8 a, u8 b) { return a & b; }

FT_INLINE u32 ft_shuffle_xor(u32 x, u32 mask, u32 members) { return __shfl_xor_sync(members, x, mask); }
FT_INLINE i32 ft_shuffle_xor(i32 x, u32 mask, u32 members) { return __shfl_xor_sync(members, x, mask); }
FT_INLINE float ft_shuffle_xor(float x, u32 mask, u32 members) { return __shfl_xor_sync(members, x, mask); }
FT_INLINE double ft_shuffle_xor(double x, u32 mask, u32 members) { return __shfl_xor_sync(members, x, mask); }
FT_INLINE i64 ft_shuffle_xor(i64 x, u32 mask, u32 members) { return __shfl_xor_sync(members, x, mask); }
FT_INLINE u16 ft_shuffle_xor(u16 x, u32 mask, u32 members) {
  return static_cast<u16>(__shfl_xor_sync(members, static_cast<u32>(x), mask));
}
FT_INLINE i8 ft_shuffle_xor(i8 x, u32 mask, u32 members) {
  return static_cast<i8>(__shfl_xor_sync(members, static_cast<i32>(x), mask));
}
FT_INLINE u8 ft_shuffle_xor(u8 x, u32 mask, u32 members) {
  return static_cast<u8>(__shfl_xor_sync(members, static_cast<u32>(x), mask));
}
