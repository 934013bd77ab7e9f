// Folds of u8 and i16, as fold.cuh has those of other types.
#pragma once
#include "fold.cuh"

FT_INLINE u8 ft_fold_sum_u8(u8 a, u8 b) { return static_cast<u8>(a + b); }
FT_INLINE u8 ft_fold_amax_u8(u8 a, u8 b) { return a < b ? b : a; }
FT_INLINE u8 ft_fold_amin_u8(u8 a, u8 b) { return b < a ? b : a; }

FT_INLINE i16 ft_fold_sum_i16(i16 a, i16 b) { return static_cast<i16>(a + b); }
FT_INLINE i16 ft_fold_amax_i16(i16 a, i16 b) { return a < b ? b : a; }
FT_INLINE i16 ft_fold_amin_i16(i16 a, i16 b) { return b < a ? b : a; }

FT_INLINE i16 ft_shuffle_xor(i16 x, u32 mask, u32 members) {
  return static_cast<i16>(__shfl_xor_sync(members, static_cast<i32>(x), mask));
}
