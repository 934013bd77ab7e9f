// Rounding to whole numbers between two bounds, as quantisation does: f32 to i32, of two the even one, 0 for NaN.
// Bounds are whole numbers of at most 2^21, and 0 lies between them.
#pragma once
#include "approx.cuh"

FT_INLINE ::i32 ft_whole(float x, float low, float high) {
  return __float2int_rn(ft_min_nan(ft_max_nan(x, low), high));
}

// What a division by b takes that is the same for every dividend. |b| times a power of two, which may be 1, so that
// `inverse` is a normal number; `scale` is that power with the sign of b. inverse + rest is 1 / divisor to 47 bits.
// Dividends beyond `low` and `high` have quotients beyond the bounds, or ones that are rounded to them.
struct FtDivisor {
  float scale, divisor, inverse, rest, low, high;
};

FT_INLINE FtDivisor ft_divisor(float b, float low, float high) {
  FtDivisor d;
  float size = fabsf(b);
  d.scale = size < 0x1p-90f ? 0x1p64f : size > 0x1p90f ? 0x1p-64f : 1.0f;
  d.divisor = size * d.scale;
  // By zero: every dividend but zero, which is undefined, gets out of bounds, the least subnormal number too.
  if (size == 0.0f) {
    d.scale = 0x1p127f;
    d.divisor = 0x1p-90f;
  }
  if (size == __int_as_float(0x7f800000)) {
    d.scale = 0.0f;
    d.divisor = 1.0f;
  }
  d.scale = copysignf(d.scale, b);
  d.inverse = __frcp_rn(d.divisor);
  d.rest = d.inverse * fmaf(-d.divisor, d.inverse, 1.0f);
  d.low = low * d.divisor;
  d.high = high * d.divisor;
  // Forgotten, lest the compiler makes a loop of each of the cases above.
  asm("" : "+f"(d.scale), "+f"(d.divisor), "+f"(d.inverse), "+f"(d.rest), "+f"(d.low), "+f"(d.high));
  return d;
}

// ft_whole(a / b, low, high), of the quotient rounded to f32. The first q lies within an ulp of the quotient, so that its
// remainder is a float, and one step from there gives the quotient rounded (Markstein, "Computation of elementary
// functions on the IBM RISC System/6000 processor", IBM J. Res. Dev., 1990, theorem 7). Of dividends too small for that
// the quotient is far below a half all the same.
FT_INLINE ::i32 ft_whole_quotient(float a, const FtDivisor& d) {
  const float x = ft_min_nan(ft_max_nan(a * d.scale, d.low), d.high);
  const float q = fmaf(x, d.inverse, x * d.rest);
  return __float2int_rn(fmaf(-fmaf(q, d.divisor, -x), d.inverse, q));
}
