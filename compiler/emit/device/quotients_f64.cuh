// Quotients of f64 rounded down, and what they leave. As torch: by what `fmod` leaves, so that a quotient just below a
// whole number is not rounded up to it; by zero as a quotient. Functions of their own, since fmod is long.
#pragma once
#include "types.cuh"

#ifndef FT_APART
#define FT_APART static __device__ __noinline__
#endif

FT_APART double ft_whole_quotient_by_fmod(double a, double b) {
  if (b == 0.0) return a / b;
  const double rest = fmod(a, b);
  double q = (a - rest) / b;
  if (rest != 0.0 && (rest < 0.0) != (b < 0.0)) q -= 1.0;
  if (q == 0.0) return copysign(0.0, a / b);
  const double f = floor(q);
  return q - f > 0.5 ? f + 1.0 : f;
}

FT_APART double ft_remainder_by_fmod_f64(double a, double b) {
  const double rest = fmod(a, b);
  return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

FT_INLINE double ft_floor_divide_f64(double a, double b) { return ft_whole_quotient_by_fmod(a, b); }
FT_INLINE double ft_remainder_f64(double a, double b) { return ft_remainder_by_fmod_f64(a, b); }
