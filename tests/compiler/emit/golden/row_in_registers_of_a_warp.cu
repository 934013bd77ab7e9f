extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v8) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 32u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 4u);
  alignas(16) u16 i0_r[32];
  #pragma unroll
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    ft_load_global<16, 0>(&i0_r[k0 * 8u], i0 + (bx * 4096u + ty * 1024u + tx * 8u) + k0 * 256u);
  }
  alignas(16) u16 v1_amax[1];
  v1_amax[0u] = 0xff80u;
  v1_amax[0u] = ft_fold_amax_run_bf16<32>(v1_amax[0u], &i0_r[0u]);
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v1_amax[0u] = ft_fold_amax_bf16(v1_amax[0u], ft_shuffle_xor(v1_amax[0u], distance, 0xffffffffu));
  }
  alignas(16) u16 w2[1];
  w2[0u] = v1_amax[0u];
  alignas(16) float w3[1];
  w3[0u] = ft_to_f32_bf16(w2, 0u);
  alignas(16) float v5_sum[1];
  v5_sum[0u] = 0.0f;
  ft_opaque<64>(&i0_r[0]);
  #pragma unroll
  for (Index k1 = 0u; k1 < 4u; ++k1) {
    #pragma unroll
    for (Index k2 = 0u; k2 < 8u; ++k2) {
      alignas(16) float v0[1];
      v0[0u] = ft_to_f32_bf16(i0_r, k1 * 8u + k2);
      alignas(16) float v3[1];
      v3[0u] = ft_sub(v0[0u], w3[0u]);
      alignas(16) float v4[1];
      v4[0u] = ft_exp(v3[0u]);
      v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v4[0u]);
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], ft_shuffle_xor(v5_sum[0u], distance, 0xffffffffu));
  }
  alignas(16) float w7[1];
  w7[0u] = v5_sum[0u];
  ft_opaque<64>(&i0_r[0]);
  #pragma unroll
  for (Index k3 = 0u; k3 < 4u; ++k3) {
    alignas(16) float v7[8];
    #pragma unroll
    for (Index k4 = 0u; k4 < 8u; ++k4) {
      alignas(16) float v0_p2[1];
      v0_p2[0u] = ft_to_f32_bf16(i0_r, k3 * 8u + k4);
      alignas(16) float v3_p2[1];
      v3_p2[0u] = ft_sub(v0_p2[0u], w3[0u]);
      alignas(16) float v4_p2[1];
      v4_p2[0u] = ft_exp(v3_p2[0u]);
      v7[k4] = ft_div(v4_p2[0u], w7[0u]);
    }
    alignas(16) u16 v8_r[8];
    ft_narrow_bf16<8>(&v8_r[0u], &v7[0u]);
    ft_store_global<16, 0>(v8 + (bx * 4096u + ty * 1024u + tx * 8u) + k3 * 256u, &v8_r[0u]);
  }
}
