// bf16 and f16 bits to f32 and back, rounding to nearest even (PTX ISA, "cvt"). sm_80 and up, no CUDA headers.
#pragma once
#include "types.cuh"

// bf16 is the upper half of f32.
FT_INLINE float ft_to_f32_bf16(u16 bits) {
  return __uint_as_float(static_cast<u32>(bits) << 16);
}

// One value of an array in registers. Of neighbouring pairs, which the array holds in words, the first takes a shift and
// the second a mask: read as a half alone, the second would take two instructions.
template <int N>
FT_INLINE float ft_to_f32_bf16(const u16 (&values)[N], u32 i) {
  if constexpr (N % 2 == 0) {
    u32 pair;
    memcpy(&pair, &values[i & ~1u], sizeof(pair));
    return __uint_as_float(i % 2u ? pair & 0xffff0000u : pair << 16);
  } else {
    return ft_to_f32_bf16(values[i]);
  }
}

FT_INLINE float ft_to_f32_f16(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

FT_INLINE u16 ft_to_bf16(float value) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

FT_INLINE u16 ft_to_f16(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// To f32 by rounding to odd: towards zero, the last bit set where anything was lost. Rounding the result to a type of at
// most 22 bits then gives what one rounding of the source would (Boldo and Melquiond, "Emulation of a FMA and
// correctly-rounded sums: proved algorithms using rounding to odd", IEEE Trans. Computers, 2008).
FT_INLINE float ft_with_sticky_bit(float toward_zero, bool exact) {
  return __uint_as_float(__float_as_uint(toward_zero) | (exact ? 0u : 1u));
}

FT_INLINE float ft_to_f32_odd(i32 value) {
  float f = __int2float_rz(value);
  return ft_with_sticky_bit(f, __float2int_rz(f) == value);
}

FT_INLINE float ft_to_f32_odd(i64 value) {
  float f = __ll2float_rz(value);
  return ft_with_sticky_bit(f, __float2ll_rz(f) == value);
}

FT_INLINE float ft_to_f32_odd(double value) {
  float f = __double2float_rz(value);
  return ft_with_sticky_bit(f, double(f) == value);
}

// Two at once; `lo` goes to the lower half, the first of the pair in memory.
FT_INLINE u32 ft_pack_bf16x2(float lo, float hi) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
}

FT_INLINE u32 ft_pack_f16x2(float lo, float hi) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
}

// COUNT values at once, between registers that hold packed 16-bit values and an array of floats.
//
// A pair of bf16 is one shift and one mask of its word: the halves apart would take an instruction more.
template <int COUNT>
FT_INLINE void ft_widen_bf16(float* dst, const void* src_regs) {
  if constexpr (COUNT == 1) {
    u16 bits;
    memcpy(&bits, src_regs, sizeof(bits));
    dst[0] = ft_to_f32_bf16(bits);
  } else {
    static_assert(COUNT % 2 == 0, "pairs");
    u32 pairs[COUNT / 2];
    memcpy(pairs, src_regs, sizeof(pairs));
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      dst[2 * i] = __uint_as_float(pairs[i] << 16);
      dst[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
    }
  }
}

template <int COUNT>
FT_INLINE void ft_widen_f16(float* dst, const void* src_regs) {
  u16 bits[COUNT];
  memcpy(bits, src_regs, sizeof(bits));
#pragma unroll
  for (int i = 0; i < COUNT; ++i) dst[i] = ft_to_f32_f16(bits[i]);
}

template <int COUNT>
FT_INLINE void ft_narrow_bf16(void* dst_regs, const float* src) {
  if constexpr (COUNT == 1) {
    u16 bits = ft_to_bf16(src[0]);
    memcpy(dst_regs, &bits, sizeof(bits));
  } else {
    static_assert(COUNT % 2 == 0, "pairs");
    u32 pairs[COUNT / 2];
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) pairs[i] = ft_pack_bf16x2(src[2 * i], src[2 * i + 1]);
    memcpy(dst_regs, pairs, sizeof(pairs));
  }
}

template <int COUNT>
FT_INLINE void ft_narrow_f16(void* dst_regs, const float* src) {
  if constexpr (COUNT == 1) {
    u16 bits = ft_to_f16(src[0]);
    memcpy(dst_regs, &bits, sizeof(bits));
  } else {
    static_assert(COUNT % 2 == 0, "pairs");
    u32 pairs[COUNT / 2];
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) pairs[i] = ft_pack_f16x2(src[2 * i], src[2 * i + 1]);
    memcpy(dst_regs, pairs, sizeof(pairs));
  }
}
