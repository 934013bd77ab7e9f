// Quotients of f32 rounded down, and what they leave: exact, but for one rounding to f32.
#pragma once
#include "quotients_f64.cuh"

// Rounded, a quotient may have become the whole number above it: then a fused remainder has the other sign than b. Where
// the quotient has no fraction any more, or an operand is no number, f64 decides.
FT_INLINE float ft_floor_divide(float a, float b) {
  const float q = a / b;
  if (!(fabsf(q) < 0x1p24f && fabsf(b) <= 0x1.fffffep127f)) return float(ft_floor_divide_f64(a, b));
  const float f = floorf(q);
  const float rest = fmaf(-f, b, a);
  return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? f - 1.0f : f;
}

FT_INLINE float ft_remainder(float a, float b) {
  const float rest = fmodf(a, b);
  return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
