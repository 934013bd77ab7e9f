extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, const u16* __restrict__ i1, const u16* __restrict__ i2, u16* __restrict__ v15, float* __restrict__ v1) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_mbarrier_init(smem + 16384u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(16384u), 8192u);
    ft_bulk_load(smem, i0 + (bx * 4096u), 8192u, smem + u32(16384u));
  }
  alignas(16) u16 w12[32];
  #pragma unroll
  for (Index k9 = 0u; k9 < 4u; ++k9) {
    ft_load_global<16, 0>(&w12[k9 * 8u], i1 + (tx * 8u) + k9 * 1024u);
  }
  alignas(16) u16 w14[32];
  #pragma unroll
  for (Index k10 = 0u; k10 < 4u; ++k10) {
    ft_load_global<16, 0>(&w14[k10 * 8u], i2 + (tx * 8u) + k10 * 1024u);
  }
  ft_mbarrier_wait(smem + u32(16384u), 0u);
  alignas(16) u16 i0_r[32];
  #pragma unroll
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    ft_load_shared<16>(&i0_r[k0 * 8u], smem + u32(k0 * 2048u + tx * 16u));
  }
  alignas(16) u16 i0_r_p2[32];
  #pragma unroll
  for (Index k1 = 0u; k1 < 4u; ++k1) {
    ft_load_shared<16>(&i0_r_p2[k1 * 8u], smem + u32(k1 * 2048u + tx * 16u));
  }
  alignas(16) u16 i0_r_p1[32];
  #pragma unroll
  for (Index k2 = 0u; k2 < 4u; ++k2) {
    ft_load_shared<16>(&i0_r_p1[k2 * 8u], smem + u32(k2 * 2048u + tx * 16u));
  }
  alignas(16) float v1_sum[1];
  v1_sum[0u] = 0.0f;
  #pragma unroll
  for (Index k3 = 0u; k3 < 4u; ++k3) {
    #pragma unroll
    for (Index k4 = 0u; k4 < 8u; ++k4) {
      alignas(16) float v0[1];
      v0[0u] = ft_to_f32_bf16(i0_r, k3 * 8u + k4);
      v1_sum[0u] = ft_fold_sum_f32(v1_sum[0u], v0[0u]);
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v1_sum[0u] = ft_fold_sum_f32(v1_sum[0u], ft_shuffle_xor(v1_sum[0u], distance, 0xffffffffu));
  }
  if ((tx % 32u) == 0u) {
    ft_store_shared<4>(smem + u32((tx / 32u) * 4u + 16400u), &v1_sum[0u]);
  }
  __syncthreads();
  alignas(16) float v1_sum_p[4];
  ft_load_shared<16>(&v1_sum_p[0u], smem + u32(16400u));
  v1_sum[0u] = v1_sum_p[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 3u; ++slot) {
    v1_sum[0u] = ft_fold_sum_f32(v1_sum[0u], v1_sum_p[slot + 1u]);
  }
  alignas(16) float w2[1];
  w2[0u] = v1_sum[0u];
  alignas(16) float w3[1];
  w3[0u] = ft_div_approx(w2[0u], 4096.0f);
  alignas(16) float v5_sum[1];
  v5_sum[0u] = 0.0f;
  #pragma unroll
  for (Index k7 = 0u; k7 < 4u; ++k7) {
    #pragma unroll
    for (Index k8 = 0u; k8 < 8u; ++k8) {
      alignas(16) float v0_p1[1];
      v0_p1[0u] = ft_to_f32_bf16(i0_r_p1, k7 * 8u + k8);
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
    ft_store_shared<4>(smem + u32((tx / 32u) * 4u + 16416u), &v5_sum[0u]);
  }
  __syncthreads();
  alignas(16) float v5_sum_p[4];
  ft_load_shared<16>(&v5_sum_p[0u], smem + u32(16416u));
  v5_sum[0u] = v5_sum_p[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 3u; ++slot) {
    v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v5_sum_p[slot + 1u]);
  }
  alignas(16) float w7[1];
  w7[0u] = v5_sum[0u];
  alignas(16) float w8[1];
  w8[0u] = ft_div_approx(w7[0u], 4096.0f);
  alignas(16) float w9[1];
  w9[0u] = ft_add(w8[0u], 1e-05f);
  alignas(16) float w10[1];
  w10[0u] = ft_rsqrt_approx(w9[0u]);
  #pragma unroll
  for (Index k5 = 0u; k5 < 4u; ++k5) {
    alignas(16) float v14[8];
    #pragma unroll
    for (Index k6 = 0u; k6 < 8u; ++k6) {
      alignas(16) float v0_p2[1];
      v0_p2[0u] = ft_to_f32_bf16(i0_r_p2, k5 * 8u + k6);
      alignas(16) float v3_p2[1];
      v3_p2[0u] = ft_sub(v0_p2[0u], w3[0u]);
      alignas(16) float v9[1];
      v9[0u] = ft_mul(v3_p2[0u], w10[0u]);
      alignas(16) float w13[1];
      w13[0u] = ft_to_f32_bf16(w12, k5 * 8u + k6);
      alignas(16) float w15[1];
      w15[0u] = ft_to_f32_bf16(w14, k5 * 8u + k6);
      v14[k6] = ft_fma(v9[0u], w13[0u], w15[0u]);
    }
    alignas(16) u16 v15_r[8];
    ft_narrow_bf16<8>(&v15_r[0u], &v14[0u]);
    ft_store_shared<16>(smem + u32(k5 * 2048u + tx * 16u + 8192u), &v15_r[0u]);
  }
  ft_fence_async_shared();
  __syncthreads();
  if (ft_is_elected()) {
    ft_bulk_store(v15 + (bx * 4096u), smem + u32(8192u), 8192u);
    ft_bulk_commit();
  }
  alignas(16) float w18[1];
  w18[0u] = ft_div_approx(v1_sum[0u], 4096.0f);
  alignas(16) float v1_r[1];
  v1_r[0u] = w18[0u];
  if (tx == 0u) {
    ft_store_global<4, 0>(v1 + bx, &v1_r[0u]);
  }
  if (ft_is_elected()) {
    ft_bulk_wait_read<0>();
  }
}
