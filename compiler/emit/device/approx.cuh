// Approximate f32 instructions, one function each, with the errors that the PTX ISA documents. sm_80 and up.
// `.ftz` (subnormals taken as zero) only where a subnormal changes the result by less than the approximation does.
#pragma once
#include "types.cuh"

// 2^x, relative error 2^-22. A result under 2^-126 becomes 0.
FT_INLINE float ft_ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// log2(x), relative error 2^-22 outside (0.5, 2), absolute error 2^-22 inside.
FT_INLINE float ft_lg2(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1/x within 1 ulp over the full range, subnormals included.
FT_INLINE float ft_rcp(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1/x within 1 ulp where 1 <= x: a result under 2^-126 becomes 0.
FT_INLINE float ft_rcp_of_1_or_more(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// sqrt(x), relative error 2^-23.
FT_INLINE float ft_sqrt_instruction(float x) {
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1/sqrt(x), relative error 2^-22.9.
FT_INLINE float ft_rsqrt_instruction(float x) {
  float y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// tanh(x), relative error 2^-11.
FT_INLINE float ft_tanh_instruction(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Exact; NaN if either operand is (PTX ISA, "max", "min" with .NaN).
FT_INLINE float ft_max_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

FT_INLINE float ft_min_nan(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
