extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const u16* __restrict__ i0, const u16* __restrict__ i1, const u16* __restrict__ i2, u16* __restrict__ v15, float* __restrict__ v1) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) u16 i0_r[32];
  #pragma unroll
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    ft_load_global<16, 0>(&i0_r[k0 * 8u], i0 + (bx * 8192u + tx * 8u) + k0 * 2048u);
  }
  alignas(16) u16 w12[32];
  #pragma unroll
  for (Index k7 = 0u; k7 < 4u; ++k7) {
    ft_load_global<16, 0>(&w12[k7 * 8u], i1 + (tx * 8u) + k7 * 2048u);
  }
  alignas(16) u16 w14[32];
  #pragma unroll
  for (Index k8 = 0u; k8 < 4u; ++k8) {
    ft_load_global<16, 0>(&w14[k8 * 8u], i2 + (tx * 8u) + k8 * 2048u);
  }
  alignas(16) float v1_sum[1];
  v1_sum[0u] = 0.0f;
  #pragma unroll
  for (Index k1 = 0u; k1 < 4u; ++k1) {
    #pragma unroll
    for (Index k2 = 0u; k2 < 8u; ++k2) {
      alignas(16) float v0[1];
      v0[0u] = ft_to_f32_bf16(i0_r, k1 * 8u + k2);
      v1_sum[0u] = ft_fold_sum_f32(v1_sum[0u], v0[0u]);
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v1_sum[0u] = ft_fold_sum_f32(v1_sum[0u], ft_shuffle_xor(v1_sum[0u], distance, 0xffffffffu));
  }
  if ((tx % 32u) == 0u) {
    ft_store_shared<4>(smem + u32((tx / 32u) * 4u), &v1_sum[0u]);
  }
  __syncthreads();
  alignas(16) float v1_sum_p[8];
  #pragma unroll
  for (Index slot = 0u; slot < 2u; ++slot) {
    ft_load_shared<16>(&v1_sum_p[slot * 4u], smem + u32(slot * 16u));
  }
  v1_sum[0u] = v1_sum_p[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 7u; ++slot) {
    v1_sum[0u] = ft_fold_sum_f32(v1_sum[0u], v1_sum_p[slot + 1u]);
  }
  alignas(16) float w2[1];
  w2[0u] = v1_sum[0u];
  alignas(16) float w3[1];
  w3[0u] = ft_div_approx(w2[0u], 8192.0f);
  alignas(16) float v5_sum[1];
  v5_sum[0u] = 0.0f;
  ft_opaque<64>(&i0_r[0]);
  #pragma unroll
  for (Index k5 = 0u; k5 < 4u; ++k5) {
    #pragma unroll
    for (Index k6 = 0u; k6 < 8u; ++k6) {
      alignas(16) float v0_p1[1];
      v0_p1[0u] = ft_to_f32_bf16(i0_r, k5 * 8u + k6);
      alignas(16) float v3[1];
      v3[0u] = ft_sub(v0_p1[0u], w3[0u]);
      v5_sum[0u] = ft_fma(v3[0u], v3[0u], v5_sum[0u]);
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], ft_shuffle_xor(v5_sum[0u], distance, 0xffffffffu));
  }
  if ((tx % 32u) == 0u) {
    ft_store_shared<4>(smem + u32((tx / 32u) * 4u + 32u), &v5_sum[0u]);
  }
  __syncthreads();
  alignas(16) float v5_sum_p[8];
  #pragma unroll
  for (Index slot = 0u; slot < 2u; ++slot) {
    ft_load_shared<16>(&v5_sum_p[slot * 4u], smem + u32(slot * 16u + 32u));
  }
  v5_sum[0u] = v5_sum_p[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 7u; ++slot) {
    v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v5_sum_p[slot + 1u]);
  }
  alignas(16) float w7[1];
  w7[0u] = v5_sum[0u];
  alignas(16) float w8[1];
  w8[0u] = ft_div_approx(w7[0u], 8192.0f);
  alignas(16) float w9[1];
  w9[0u] = ft_add(w8[0u], 1e-05f);
  alignas(16) float w10[1];
  w10[0u] = ft_rsqrt_approx(w9[0u]);
  ft_opaque<64>(&i0_r[0]);
  #pragma unroll
  for (Index k3 = 0u; k3 < 4u; ++k3) {
    alignas(16) float v14[8];
    #pragma unroll
    for (Index k4 = 0u; k4 < 8u; ++k4) {
      alignas(16) float v0_p2[1];
      v0_p2[0u] = ft_to_f32_bf16(i0_r, k3 * 8u + k4);
      alignas(16) float v3_p2[1];
      v3_p2[0u] = ft_sub(v0_p2[0u], w3[0u]);
      alignas(16) float v9[1];
      v9[0u] = ft_mul(v3_p2[0u], w10[0u]);
      alignas(16) float w13[1];
      w13[0u] = ft_to_f32_bf16(w12, k3 * 8u + k4);
      alignas(16) float w15[1];
      w15[0u] = ft_to_f32_bf16(w14, k3 * 8u + k4);
      v14[k4] = ft_fma(v9[0u], w13[0u], w15[0u]);
    }
    alignas(16) u16 v15_r[8];
    ft_narrow_bf16<8>(&v15_r[0u], &v14[0u]);
    ft_store_global<16, 0>(v15 + (bx * 8192u + tx * 8u) + k3 * 2048u, &v15_r[0u]);
  }
  alignas(16) float w18[1];
  w18[0u] = ft_div_approx(v1_sum[0u], 8192.0f);
  alignas(16) float v1_r[1];
  v1_r[0u] = w18[0u];
  if (tx == 0u) {
    ft_store_global<4, 0>(v1 + bx, &v1_r[0u]);
  }
}
