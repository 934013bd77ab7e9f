// Elementwise operators on f64: IEEE operations and the library's functions, within 2 ulp each (CUDA math API, "Double
// Precision Mathematical Functions"); agreement on ±0, infinities and NaN as in math.cuh.
#pragma once
#include "types.cuh"

FT_INLINE double ft_neg_f64(double x) { return -x; }
FT_INLINE double ft_abs_f64(double x) { return fabs(x); }
FT_INLINE double ft_square_f64(double x) { return x * x; }
FT_INLINE double ft_add_f64(double a, double b) { return a + b; }
FT_INLINE double ft_sub_f64(double a, double b) { return a - b; }
FT_INLINE double ft_mul_f64(double a, double b) { return a * b; }
FT_INLINE double ft_fma_f64(double a, double b, double c) { return fma(a, b, c); }
FT_INLINE double ft_div_f64(double a, double b) { return a / b; }

// There is no max.NaN of f64: NaN is handed on by the second test, and by the first, which it fails, as b.
FT_INLINE double ft_maximum_f64(double a, double b) { return a > b || a != a ? a : b; }
FT_INLINE double ft_minimum_f64(double a, double b) { return a < b || a != a ? a : b; }
FT_INLINE double ft_relu_f64(double x) { return ft_maximum_f64(x, 0.0); }

FT_INLINE double ft_reciprocal_f64(double x) { return 1.0 / x; }
FT_INLINE double ft_sqrt_f64(double x) { return sqrt(x); }
FT_INLINE double ft_rsqrt_f64(double x) { return 1.0 / sqrt(x); }
FT_INLINE double ft_exp_f64(double x) { return exp(x); }
FT_INLINE double ft_log_f64(double x) { return log(x); }
FT_INLINE double ft_tanh_f64(double x) { return tanh(x); }
FT_INLINE double ft_sigmoid_f64(double x) { return 1.0 / (1.0 + exp(-x)); }
FT_INLINE double ft_silu_f64(double x) { return x / (1.0 + exp(-x)); }

// x sigmoid(2u), as in math.cuh.
#define FT_GELU_LINEAR_F64 0.79788456080286535588
FT_INLINE double ft_gelu_f64(double x) {
  double u = x * fma(x * x, FT_GELU_LINEAR_F64 * 0.044715, FT_GELU_LINEAR_F64);
  return x / (1.0 + exp(-2.0 * u));
}
