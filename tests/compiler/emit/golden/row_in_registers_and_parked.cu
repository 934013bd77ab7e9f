extern "C" __global__ void __launch_bounds__(512, 3) fusetune_kernel(const float* __restrict__ i0, const float* __restrict__ i1, const float* __restrict__ i2, float* __restrict__ v11, float* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 512u);
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) float i0_r[12];
  #pragma unroll
  for (Index k0 = 0u; k0 < 3u; ++k0) {
    ft_load_global<16, 0>(&i0_r[k0 * 4u], i0 + (bx * 10000u + tx * 4u) + k0 * 2048u);
  }
  #pragma unroll
  for (Index k0p = 0u; k0p < 2u; ++k0p) {
    ft_copy_async_if<16, 0>((k0p * 512u + tx + 1536u) < 2500u, smem + u32(k0p * 8192u + tx * 16u + 128u), i0 + (bx * 10000u + tx * 4u) + (k0p * 2048u + 6144u));
  }
  alignas(16) float v0_sum[1];
  v0_sum[0u] = 0.0f;
  #pragma unroll
  for (Index k1 = 0u; k1 < 3u; ++k1) {
    #pragma unroll
    for (Index k2 = 0u; k2 < 4u; ++k2) {
      v0_sum[0u] = ft_fold_sum_f32(v0_sum[0u], i0_r[k1 * 4u + k2]);
    }
  }
  ft_copy_wait<0>();
  #pragma unroll
  for (Index k1p = 0u; k1p < 2u; ++k1p) {
    alignas(16) float i0_r_k1p[4];
    ft_load_shared<16>(&i0_r_k1p[0u], smem + u32(k1p * 8192u + tx * 16u + 128u));
    {
      const float v0_sum_before = v0_sum[0u];
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        v0_sum[0u] = ft_fold_sum_f32(v0_sum[0u], i0_r_k1p[k2]);
      }
      v0_sum[0u] = ((k1p * 512u + tx + 1536u) < 2500u) ? v0_sum[0u] : v0_sum_before;
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v0_sum[0u] = ft_fold_sum_f32(v0_sum[0u], ft_shuffle_xor(v0_sum[0u], distance, 0xffffffffu));
  }
  if ((tx % 32u) == 0u) {
    ft_store_shared<4>(smem + u32((tx / 32u) * 4u), &v0_sum[0u]);
  }
  __syncthreads();
  alignas(16) float v0_sum_p[16];
  #pragma unroll
  for (Index slot = 0u; slot < 4u; ++slot) {
    ft_load_shared<16>(&v0_sum_p[slot * 4u], smem + u32(slot * 16u));
  }
  v0_sum[0u] = v0_sum_p[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 15u; ++slot) {
    v0_sum[0u] = ft_fold_sum_f32(v0_sum[0u], v0_sum_p[slot + 1u]);
  }
  alignas(16) float w1[1];
  w1[0u] = v0_sum[0u];
  alignas(16) float w2[1];
  w2[0u] = ft_div_approx(w1[0u], 10000.0f);
  alignas(16) float v4_sum[1];
  v4_sum[0u] = 0.0f;
  ft_opaque<48>(&i0_r[0]);
  #pragma unroll
  for (Index k3 = 0u; k3 < 3u; ++k3) {
    #pragma unroll
    for (Index k4 = 0u; k4 < 4u; ++k4) {
      alignas(16) float v2[1];
      v2[0u] = ft_sub(i0_r[k3 * 4u + k4], w2[0u]);
      v4_sum[0u] = ft_fma(v2[0u], v2[0u], v4_sum[0u]);
    }
  }
  #pragma unroll
  for (Index k3p = 0u; k3p < 2u; ++k3p) {
    alignas(16) float i0_r_k3p[4];
    ft_load_shared<16>(&i0_r_k3p[0u], smem + u32(k3p * 8192u + tx * 16u + 128u));
    {
      const float v4_sum_before = v4_sum[0u];
      #pragma unroll
      for (Index k4 = 0u; k4 < 4u; ++k4) {
        alignas(16) float v2[1];
        v2[0u] = ft_sub(i0_r_k3p[k4], w2[0u]);
        v4_sum[0u] = ft_fma(v2[0u], v2[0u], v4_sum[0u]);
      }
      v4_sum[0u] = ((k3p * 512u + tx + 1536u) < 2500u) ? v4_sum[0u] : v4_sum_before;
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v4_sum[0u] = ft_fold_sum_f32(v4_sum[0u], ft_shuffle_xor(v4_sum[0u], distance, 0xffffffffu));
  }
  if ((tx % 32u) == 0u) {
    ft_store_shared<4>(smem + u32((tx / 32u) * 4u + 64u), &v4_sum[0u]);
  }
  __syncthreads();
  alignas(16) float v4_sum_p[16];
  #pragma unroll
  for (Index slot = 0u; slot < 4u; ++slot) {
    ft_load_shared<16>(&v4_sum_p[slot * 4u], smem + u32(slot * 16u + 64u));
  }
  v4_sum[0u] = v4_sum_p[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 15u; ++slot) {
    v4_sum[0u] = ft_fold_sum_f32(v4_sum[0u], v4_sum_p[slot + 1u]);
  }
  alignas(16) float w6[1];
  w6[0u] = v4_sum[0u];
  alignas(16) float w7[1];
  w7[0u] = ft_div_approx(w6[0u], 10000.0f);
  alignas(16) float w8[1];
  w8[0u] = ft_add(w7[0u], 1e-05f);
  alignas(16) float w9[1];
  w9[0u] = ft_rsqrt_approx(w8[0u]);
  ft_opaque<48>(&i0_r[0]);
  #pragma unroll
  for (Index k5 = 0u; k5 < 3u; ++k5) {
    alignas(16) float w11[4];
    ft_load_global<16, 0>(&w11[0u], i1 + (tx * 4u) + k5 * 2048u);
    alignas(16) float w12[4];
    ft_load_global<16, 0>(&w12[0u], i2 + (tx * 4u) + k5 * 2048u);
    alignas(16) float v8[4];
    #pragma unroll
    for (Index k6 = 0u; k6 < 4u; ++k6) {
      alignas(16) float v2_p2[1];
      v2_p2[0u] = ft_sub(i0_r[k5 * 4u + k6], w2[0u]);
      v8[k6] = ft_mul(v2_p2[0u], w9[0u]);
    }
    alignas(16) float v11_r[4];
    #pragma unroll
    for (Index k7 = 0u; k7 < 4u; ++k7) {
      v11_r[k7] = ft_fma(v8[k7], w11[k7], w12[k7]);
    }
    ft_store_global<16, 0>(v11 + (bx * 10000u + tx * 4u) + k5 * 2048u, &v11_r[0u]);
  }
  #pragma unroll
  for (Index k5p = 0u; k5p < 2u; ++k5p) {
    alignas(16) float i0_r_k5p[4];
    ft_load_shared<16>(&i0_r_k5p[0u], smem + u32(k5p * 8192u + tx * 16u + 128u));
    alignas(16) float w11[4];
    w11[0u] = 0.0f;
    w11[1u] = 0.0f;
    w11[2u] = 0.0f;
    w11[3u] = 0.0f;
    ft_load_global_if<16, 0>((k5p * 512u + tx + 1536u) < 2500u, &w11[0u], i1 + (tx * 4u) + (k5p * 2048u + 6144u));
    alignas(16) float w12[4];
    w12[0u] = 0.0f;
    w12[1u] = 0.0f;
    w12[2u] = 0.0f;
    w12[3u] = 0.0f;
    ft_load_global_if<16, 0>((k5p * 512u + tx + 1536u) < 2500u, &w12[0u], i2 + (tx * 4u) + (k5p * 2048u + 6144u));
    alignas(16) float v8[4];
    #pragma unroll
    for (Index k6 = 0u; k6 < 4u; ++k6) {
      alignas(16) float v2_p2[1];
      v2_p2[0u] = ft_sub(i0_r_k5p[k6], w2[0u]);
      v8[k6] = ft_mul(v2_p2[0u], w9[0u]);
    }
    alignas(16) float v11_r[4];
    #pragma unroll
    for (Index k7 = 0u; k7 < 4u; ++k7) {
      v11_r[k7] = ft_fma(v8[k7], w11[k7], w12[k7]);
    }
    ft_store_global_if<16, 0>((k5p * 512u + tx + 1536u) < 2500u, v11 + (bx * 10000u + tx * 4u) + (k5p * 2048u + 6144u), &v11_r[0u]);
  }
  alignas(16) float w14[1];
  w14[0u] = ft_div_approx(v0_sum[0u], 10000.0f);
  alignas(16) float v0_r[1];
  v0_r[0u] = w14[0u];
  if (tx == 0u) {
    ft_store_global<4, 0>(v0 + bx, &v0_r[0u]);
  }
}
