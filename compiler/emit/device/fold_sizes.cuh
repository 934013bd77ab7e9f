// The largest size of N 16-bit floats, two at a time, and of `first`, which has none of a sign: the sign bits of pairs are
// cleared, and NaN stays NaN.
#pragma once
#include "fold.cuh"

#define FT_FOLD_SIZES(TYPE)                                                                                             \
  template <int N>                                                                                                      \
  FT_INLINE float ft_fold_amax_sizes_run_##TYPE(float first, const u16* values) {                                       \
    static_assert(N % 2 == 0, "pairs");                                                                                 \
    u32 pairs[N / 2];                                                                                                   \
    memcpy(pairs, values, sizeof(pairs));                                                                               \
    u32 y = pairs[0] & 0x7fff7fffu;                                                                                     \
    _Pragma("unroll") for (int i = 1; i < N / 2; ++i) y = ft_fold_amax_pair_##TYPE(y, pairs[i] & 0x7fff7fffu);          \
    y = ft_fold_amax_pair_##TYPE(y, y >> 16);                                                                           \
    return ft_fold_amax_f32(first, ft_to_f32_##TYPE(static_cast<u16>(y)));                                              \
  }
FT_FOLD_SIZES(bf16)
FT_FOLD_SIZES(f16)
#undef FT_FOLD_SIZES
