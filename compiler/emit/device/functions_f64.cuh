// More elementwise operators on f64, as functions.cuh has them on f32: the library's functions, within 2 ulp each, normcdf 5
// (CUDA math API, "Double Precision Mathematical Functions").
#pragma once
#include "types.cuh"

// Of NaN 0, of either zero +0.
FT_INLINE double ft_sign_f64(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }
FT_INLINE double ft_round_f64(double x) { return rint(x); }
FT_INLINE double ft_floor_f64(double x) { return floor(x); }
FT_INLINE double ft_ceil_f64(double x) { return ceil(x); }
FT_INLINE double ft_trunc_f64(double x) { return trunc(x); }

FT_INLINE double ft_exp2_f64(double x) { return exp2(x); }
FT_INLINE double ft_expm1_f64(double x) { return expm1(x); }
FT_INLINE double ft_log2_f64(double x) { return log2(x); }
FT_INLINE double ft_log1p_f64(double x) { return log1p(x); }
FT_INLINE double ft_sin_f64(double x) { return sin(x); }
FT_INLINE double ft_cos_f64(double x) { return cos(x); }
FT_INLINE double ft_pow_f64(double x, double y) { return pow(x, y); }
FT_INLINE double ft_erf_f64(double x) { return erf(x); }
FT_INLINE double ft_gelu_erf_f64(double x) { return x * normcdf(x); }
