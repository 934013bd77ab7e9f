// Elementwise operators on f32. Three grades:
//   ft_OP         IEEE operations and the library's functions: a few ulp
//   ft_OP_approx  approximate instructions that keep nearly all bits of f32
//   ft_OP_coarse  built on tanh.approx, 1 special-function instruction: for results stored in 16 bits only
// Compiled without contraction (compiler/nvrtc.py): what is fused says fmaf.
// Errors stand in compiler/emit/math_forms.py. Every grade agrees with torch on ±0, infinities and NaN; gelu(-inf) and
// silu(-inf) are NaN there as here (-inf times 0).
#pragma once
#include "approx.cuh"

#define FT_LOG2_E 1.44269504088896341f
#define FT_LN_2 0.693147180559945309f

FT_INLINE float ft_neg(float x) { return -x; }
FT_INLINE float ft_abs(float x) { return fabsf(x); }
FT_INLINE float ft_square(float x) { return x * x; }
FT_INLINE float ft_add(float a, float b) { return a + b; }
FT_INLINE float ft_sub(float a, float b) { return a - b; }
FT_INLINE float ft_mul(float a, float b) { return a * b; }
FT_INLINE float ft_fma(float a, float b, float c) { return fmaf(a, b, c); }

FT_INLINE float ft_maximum(float a, float b) { return ft_max_nan(a, b); }
FT_INLINE float ft_minimum(float a, float b) { return ft_min_nan(a, b); }
FT_INLINE float ft_relu(float x) { return ft_max_nan(x, 0.0f); }

FT_INLINE float ft_div(float a, float b) { return a / b; }
// Scaled so that 1/b is a normal number. A divisor that stays the same in a loop, a row's sum, is inverted once: the
// compiler moves all but the products out of the loop, which it does not do with an asm statement.
FT_INLINE float ft_div_approx(float a, float b) {
  float scale = fabsf(b) > 0x1p125f ? 0x1p-32f : fabsf(b) < 0x1p-96f ? 0x1p32f : 1.0f;
  return (a * scale) * __fdividef(1.0f, b * scale);
}

FT_INLINE float ft_reciprocal(float x) { return 1.0f / x; }
FT_INLINE float ft_reciprocal_approx(float x) { return ft_rcp(x); }

FT_INLINE float ft_sqrt(float x) { return sqrtf(x); }
FT_INLINE float ft_sqrt_approx(float x) { return ft_sqrt_instruction(x); }

FT_INLINE float ft_rsqrt(float x) { return 1.0f / sqrtf(x); }
FT_INLINE float ft_rsqrt_approx(float x) { return ft_rsqrt_instruction(x); }

FT_INLINE float ft_exp(float x) { return expf(x); }
FT_INLINE float ft_exp_approx(float x) { return ft_ex2(x * FT_LOG2_E); }

FT_INLINE float ft_log(float x) { return logf(x); }
FT_INLINE float ft_log_approx(float x) { return ft_lg2(x) * FT_LN_2; }

FT_INLINE float ft_tanh(float x) { return tanhf(x); }
FT_INLINE float ft_tanh_coarse(float x) { return ft_tanh_instruction(x); }

FT_INLINE float ft_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
FT_INLINE float ft_sigmoid_approx(float x) { return ft_rcp_of_1_or_more(1.0f + ft_ex2(x * -FT_LOG2_E)); }
// sigmoid(x) = (1 + tanh(x/2)) / 2
FT_INLINE float ft_sigmoid_coarse(float x) { return fmaf(ft_tanh_instruction(0.5f * x), 0.5f, 0.5f); }

FT_INLINE float ft_silu(float x) { return x / (1.0f + expf(-x)); }
FT_INLINE float ft_silu_approx(float x) { return x * ft_sigmoid_approx(x); }
FT_INLINE float ft_silu_coarse(float x) {
  float h = 0.5f * x;
  return fmaf(h, ft_tanh_instruction(h), h);
}

// gelu by tanh: x/2 (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), which is x sigmoid(2u). The sigmoid form keeps
// its relative accuracy for negative x, where 1 + tanh(u) cancels.
#define FT_GELU_LINEAR 0.797884560802865356f
#define FT_GELU_CUBIC (FT_GELU_LINEAR * 0.044715f)
FT_INLINE float ft_gelu_argument(float x) { return x * fmaf(x * x, FT_GELU_CUBIC, FT_GELU_LINEAR); }

FT_INLINE float ft_gelu(float x) { return x / (1.0f + expf(-2.0f * ft_gelu_argument(x))); }
FT_INLINE float ft_gelu_approx(float x) {
  const float scale = -2.0f * FT_LOG2_E;
  float minus_2u_log2_e = x * fmaf(x * x, scale * FT_GELU_CUBIC, scale * FT_GELU_LINEAR);
  return x * ft_rcp_of_1_or_more(1.0f + ft_ex2(minus_2u_log2_e));
}
FT_INLINE float ft_gelu_coarse(float x) {
  float h = 0.5f * x;
  return fmaf(h, ft_tanh_instruction(ft_gelu_argument(x)), h);
}
