// Quotients of f32 rounded down, and what they leave: exact, but for one rounding to f32.
//
// Rounded, a quotient may have become the whole number above it: then what a fused product and sum leaves has the other sign
// than b. Where the quotient has no fraction any more, or an operand is no number, functions decide that stand apart:
// fmod, which they call, is long.
#pragma once
#include "quotients_f64.cuh"

FT_INLINE bool ft_has_fraction(float q, float b) { return fabsf(q) < 0x1p24f && fabsf(b) <= 0x1.fffffep127f; }

FT_INLINE float ft_floor_divide(float a, float b) {
  const float q = a / b;
  if (!ft_has_fraction(q, b)) return float(ft_floor_divide_f64(a, b));
  const float f = floorf(q);
  const float rest = fmaf(-f, b, a);
  return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? f - 1.0f : f;
}

FT_APART float ft_remainder_by_fmod(float a, float b) {
  const float rest = fmodf(a, b);
  return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

// A zero has the sign of a, as that of fmod.
FT_INLINE float ft_remainder(float a, float b) {
  const float q = a / b;
  if (!ft_has_fraction(q, b)) return ft_remainder_by_fmod(a, b);
  const float rest = fmaf(-floorf(q), b, a);
  return rest == 0.0f ? copysignf(0.0f, a) : (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
