// More elementwise operators on f32, in the grades of math.cuh, with its agreement on ±0, infinities and NaN. Kernels that
// call none of them are spared the text.
#pragma once
#include "math.cuh"

// Of NaN 0, of either zero +0.
FT_INLINE float ft_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }
FT_INLINE float ft_round(float x) { return rintf(x); }
FT_INLINE float ft_floor(float x) { return floorf(x); }
FT_INLINE float ft_ceil(float x) { return ceilf(x); }
FT_INLINE float ft_trunc(float x) { return truncf(x); }

FT_INLINE float ft_exp2(float x) { return exp2f(x); }
FT_INLINE float ft_exp2_approx(float x) { return ft_ex2(x); }
FT_INLINE float ft_expm1(float x) { return expm1f(x); }

FT_INLINE float ft_log2(float x) { return log2f(x); }
FT_INLINE float ft_log2_approx(float x) { return ft_lg2(x); }
FT_INLINE float ft_log1p(float x) { return log1pf(x); }

FT_INLINE float ft_sin(float x) { return sinf(x); }
FT_INLINE float ft_cos(float x) { return cosf(x); }
FT_INLINE float ft_pow(float x, float y) { return powf(x, y); }
FT_INLINE float ft_erf(float x) { return erff(x); }

// gelu by erf: x Phi(x), Phi the normal distribution. Phi(-u) = exp(-u^2/2) P(t), t = 1 / (1 + 0.3 u), which keeps its
// relative accuracy for negative x, where 1 + erf cancels. P is fitted so that its greatest relative error, 6e-8, is least
// over u from 0 to 14.2, where float has no more numbers for the result.
#define FT_NORMAL_SCALE 0.3f
FT_INLINE float ft_normal_tail(float t) {
  float p = 0.038389930f;
  p = fmaf(p, t, -0.169223052f);
  p = fmaf(p, t, 0.228778359f);
  p = fmaf(p, t, -0.076642394f);
  p = fmaf(p, t, 0.142629773f);
  p = fmaf(p, t, 0.094643249f);
  p = fmaf(p, t, 0.121930673f);
  p = fmaf(p, t, 0.119486238f);
  return fmaf(p, t, 7.25416460e-06f);
}

FT_INLINE float ft_gelu_erf(float x) {
  float u = fabsf(x);
  float below = expf(-0.5f * u * u) * ft_normal_tail(1.0f / fmaf(FT_NORMAL_SCALE, u, 1.0f));
  return x * (x > 0.0f ? 1.0f - below : below);
}
FT_INLINE float ft_gelu_erf_approx(float x) {
  float u = fabsf(x);
  float below = ft_ex2(u * u * (-0.5f * FT_LOG2_E)) * ft_normal_tail(ft_rcp_of_1_or_more(fmaf(FT_NORMAL_SCALE, u, 1.0f)));
  return x * (x > 0.0f ? 1.0f - below : below);
}
