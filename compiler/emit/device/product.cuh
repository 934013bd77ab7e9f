// One step of a product. Halves are multiplied in f32; integers, which are i64, wrap.
#pragma once
#include "fold.cuh"

FT_INLINE float ft_fold_prod_f32(float a, float b) { return a * b; }
FT_INLINE double ft_fold_prod_f64(double a, double b) { return a * b; }
FT_INLINE i64 ft_fold_prod_i64(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) * static_cast<u64>(b)); }
