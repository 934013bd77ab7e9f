// 8-bit floats (OCP 8-bit floating point specification) as their bits, to f32 and back as torch 2.13 converts them: to
// nearest, ties to even; what is too large for e4m3 becomes its largest number, infinities too, and an infinity of e5m2.
// Instructions for them are of sm_89 and up (PTX ISA, "cvt"): before, bits are rounded here.
#pragma once
#include "convert.cuh"

#define FT_HAS_FP8 (__CUDA_ARCH__ >= 890)

// Two at once, in f16, which holds them all; the first of the pair in the lower half. e5m2 is the upper half of f16.
FT_INLINE u32 ft_f16x2_of_f8e5m2x2(u16 pair) { return __byte_perm(pair, 0u, 0x1404u); }

FT_INLINE u32 ft_f16x2_of_f8e4m3x2(u16 pair) {
#if FT_HAS_FP8
  u32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  return halves;
#else
  // Exponents of f16 are 8 more: the same bits there are a 256th of the number, times 256 (0x5c00). 480 is the NaN.
  const u32 apart = __byte_perm(pair, 0u, 0x1404u);
  u32 halves = (apart & 0x80008000u) | (apart & 0x7f007f00u) >> 1;
  asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(halves) : "r"(0x5c005c00u));
  if ((pair & 0x7fu) == 0x7fu) halves |= 0x7fffu;
  if ((pair & 0x7f00u) == 0x7f00u) halves |= 0x7fff0000u;
  return halves;
#endif
}

FT_INLINE float ft_to_f32_f8e4m3(u8 bits) { return ft_to_f32_f16(static_cast<u16>(ft_f16x2_of_f8e4m3x2(bits))); }
FT_INLINE float ft_to_f32_f8e5m2(u8 bits) { return ft_to_f32_f16(static_cast<u16>(bits) << 8); }

#if !FT_HAS_FP8
// MANTISSA bits and the exponent's BIAS; LAST, the code that what is too large becomes.
template <int MANTISSA, int BIAS, u32 LAST>
FT_INLINE u32 ft_rounded_to_fp8(float value) {
  const u32 sign = __float_as_uint(value) >> 24 & 0x80u, size = __float_as_uint(value) & 0x7fffffffu;
  u32 code;
  if (size > 0x7f800000u) {
    code = 0x7fu;
  } else if (size < u32(128 - BIAS) << 23) {
    // Of a sum whose last place is the least 8-bit number, the last bits count such numbers.
    const u32 large = u32(127 + 24 - BIAS - MANTISSA) << 23;
    code = __float_as_uint(__fadd_rn(__uint_as_float(size), __uint_as_float(large))) - large;
  } else {
    const int lost = 23 - MANTISSA;
    const u32 up = (1u << (lost - 1)) - 1u + (size >> lost & 1u);
    code = min((size + up >> lost) - (u32(127 - BIAS) << MANTISSA), LAST);
  }
  return sign | code;
}
#endif

// `lo` goes to the lower byte, the first of the pair in memory.
FT_INLINE u16 ft_pack_f8e4m3x2(float lo, float hi) {
#if FT_HAS_FP8
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(hi), "f"(lo));
  return pair;
#else
  return static_cast<u16>(ft_rounded_to_fp8<3, 7, 0x7eu>(lo) | ft_rounded_to_fp8<3, 7, 0x7eu>(hi) << 8);
#endif
}

FT_INLINE u16 ft_pack_f8e5m2x2(float lo, float hi) {
#if FT_HAS_FP8
  u16 pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(hi), "f"(lo));
  // The instruction saturates. The next code is the infinity: from halfway to 2^16 up, the largest number being odd.
  if (fabsf(lo) >= 61440.0f) pair += 0x1u;
  if (fabsf(hi) >= 61440.0f) pair += 0x100u;
  return pair;
#else
  return static_cast<u16>(ft_rounded_to_fp8<2, 15, 0x7cu>(lo) | ft_rounded_to_fp8<2, 15, 0x7cu>(hi) << 8);
#endif
}

FT_INLINE u8 ft_to_f8e4m3(float value) { return static_cast<u8>(ft_pack_f8e4m3x2(value, 0.0f)); }
FT_INLINE u8 ft_to_f8e5m2(float value) { return static_cast<u8>(ft_pack_f8e5m2x2(value, 0.0f)); }

// COUNT values at once, between registers that hold packed 8-bit floats and an array of floats. Pairs are put into words:
// apart they would go through local memory.
#define FT_FP8(TYPE)                                                                                        \
  template <int COUNT>                                                                                      \
  FT_INLINE void ft_widen_##TYPE(float* dst, const void* src_regs) {                                        \
    if constexpr (COUNT == 1) {                                                                             \
      u8 bits;                                                                                              \
      memcpy(&bits, src_regs, sizeof(bits));                                                                \
      dst[0] = ft_to_f32_##TYPE(bits);                                                                      \
    } else {                                                                                                \
      static_assert(COUNT % 2 == 0, "pairs");                                                               \
      u16 pairs[COUNT / 2];                                                                                 \
      memcpy(pairs, src_regs, sizeof(pairs));                                                               \
      _Pragma("unroll") for (int i = 0; i < COUNT / 2; ++i) {                                               \
        const u32 halves = ft_f16x2_of_##TYPE##x2(pairs[i]);                                                \
        dst[2 * i] = ft_to_f32_f16(static_cast<u16>(halves));                                               \
        dst[2 * i + 1] = ft_to_f32_f16(static_cast<u16>(halves >> 16));                                     \
      }                                                                                                     \
    }                                                                                                       \
  }                                                                                                         \
  template <int COUNT>                                                                                      \
  FT_INLINE void ft_narrow_##TYPE(void* dst_regs, const float* src) {                                       \
    if constexpr (COUNT == 1) {                                                                             \
      const u8 bits = ft_to_##TYPE(src[0]);                                                                 \
      memcpy(dst_regs, &bits, sizeof(bits));                                                                \
    } else if constexpr (COUNT == 2) {                                                                      \
      const u16 pair = ft_pack_##TYPE##x2(src[0], src[1]);                                                  \
      memcpy(dst_regs, &pair, sizeof(pair));                                                                \
    } else {                                                                                                \
      static_assert(COUNT % 4 == 0, "words");                                                               \
      u32 words[COUNT / 4];                                                                                 \
      _Pragma("unroll") for (int i = 0; i < COUNT / 4; ++i) {                                               \
        const float* four = src + 4 * i;                                                                    \
        const u32 high = ft_pack_##TYPE##x2(four[2], four[3]);                                              \
        words[i] = ft_pack_##TYPE##x2(four[0], four[1]) | high << 16;                                       \
      }                                                                                                     \
      memcpy(dst_regs, words, sizeof(words));                                                               \
    }                                                                                                       \
  }
FT_FP8(f8e4m3)
FT_FP8(f8e5m2)
#undef FT_FP8
