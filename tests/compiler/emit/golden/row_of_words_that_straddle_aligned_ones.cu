extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v8) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if ((bx * 1001u + 1030u) < 512511u) {
    alignas(16) u16 i0_r[8];
    i0_r[0u] = 0;
    i0_r[1u] = 0;
    i0_r[2u] = 0;
    i0_r[3u] = 0;
    i0_r[4u] = 0;
    i0_r[5u] = 0;
    i0_r[6u] = 0;
    i0_r[7u] = 0;
    if (!(tx < 125u)) {
      #pragma unroll
      for (Index i0_r_lane = 0u; i0_r_lane < 8u; ++i0_r_lane) {
        ft_load_global_if<2, 0>(tx < 125u, &i0_r[i0_r_lane], i0 + (bx * 1001u + tx * 8u) + i0_r_lane);
      }
    }
    ft_load_global_both_if<16, 2, 0>(tx < 125u, &i0_r[0u], i0 + (bx * 1001u + tx * 8u - ((bx * 1001u) % 8u)), ((bx * 1001u) % 8u));
    alignas(16) u16 v1_amax[1];
    v1_amax[0u] = 0xff80u;
    {
      const u16 v1_amax_before = v1_amax[0u];
      v1_amax[0u] = ft_fold_amax_run_bf16<8>(v1_amax[0u], &i0_r[0u]);
      v1_amax[0u] = (tx < 125u) ? v1_amax[0u] : v1_amax_before;
    }
    #pragma unroll
    for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
      v1_amax[0u] = ft_fold_amax_bf16(v1_amax[0u], ft_shuffle_xor(v1_amax[0u], distance, 0xffffffffu));
    }
    if ((tx % 32u) == 0u) {
      ft_store_shared<2>(smem + u32((tx / 32u) * 2u), &v1_amax[0u]);
    }
    __syncthreads();
    alignas(16) u16 v1_amax_p[4];
    ft_load_shared<8>(&v1_amax_p[0u], smem);
    v1_amax[0u] = v1_amax_p[0u];
    #pragma unroll
    for (Index slot = 0u; slot < 3u; ++slot) {
      v1_amax[0u] = ft_fold_amax_bf16(v1_amax[0u], v1_amax_p[slot + 1u]);
    }
    alignas(16) u16 w2[1];
    w2[0u] = v1_amax[0u];
    alignas(16) float w3[1];
    w3[0u] = ft_to_f32_bf16(w2, 0u);
    alignas(16) float v5_sum[1];
    v5_sum[0u] = 0.0f;
    ft_opaque<16>(&i0_r[0]);
    {
      const float v5_sum_before = v5_sum[0u];
      #pragma unroll
      for (Index k0 = 0u; k0 < 8u; ++k0) {
        alignas(16) float v0[1];
        v0[0u] = ft_to_f32_bf16(i0_r, k0);
        alignas(16) float v3[1];
        v3[0u] = ft_sub(v0[0u], w3[0u]);
        alignas(16) float v4[1];
        v4[0u] = ft_exp_approx(v3[0u]);
        v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v4[0u]);
      }
      v5_sum[0u] = (tx < 125u) ? v5_sum[0u] : v5_sum_before;
    }
    #pragma unroll
    for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
      v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], ft_shuffle_xor(v5_sum[0u], distance, 0xffffffffu));
    }
    if ((tx % 32u) == 0u) {
      ft_store_shared<4>(smem + u32((tx / 32u) * 4u + 16u), &v5_sum[0u]);
    }
    __syncthreads();
    alignas(16) float v5_sum_p[4];
    ft_load_shared<16>(&v5_sum_p[0u], smem + u32(16u));
    v5_sum[0u] = v5_sum_p[0u];
    #pragma unroll
    for (Index slot = 0u; slot < 3u; ++slot) {
      v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v5_sum_p[slot + 1u]);
    }
    alignas(16) float w7[1];
    w7[0u] = v5_sum[0u];
    alignas(16) float v7[8];
    ft_opaque<16>(&i0_r[0]);
    #pragma unroll
    for (Index k1 = 0u; k1 < 8u; ++k1) {
      alignas(16) float v0_p2[1];
      v0_p2[0u] = ft_to_f32_bf16(i0_r, k1);
      alignas(16) float v3_p2[1];
      v3_p2[0u] = ft_sub(v0_p2[0u], w3[0u]);
      alignas(16) float v4_p2[1];
      v4_p2[0u] = ft_exp_approx(v3_p2[0u]);
      v7[k1] = ft_div_approx(v4_p2[0u], w7[0u]);
    }
    alignas(16) u16 v8_r[8];
    ft_narrow_bf16<8>(&v8_r[0u], &v7[0u]);
    ft_store_global_if<16, 0>(tx < 125u, v8 + (bx * 1000u + tx * 8u), &v8_r[0u]);
  } else {
    alignas(16) u16 i0_r[8];
    i0_r[0u] = 0;
    i0_r[1u] = 0;
    i0_r[2u] = 0;
    i0_r[3u] = 0;
    i0_r[4u] = 0;
    i0_r[5u] = 0;
    i0_r[6u] = 0;
    i0_r[7u] = 0;
    if (!(tx < 125u && (bx * 1001u + tx * 8u + 14u) < 512511u)) {
      #pragma unroll
      for (Index i0_r_lane = 0u; i0_r_lane < 8u; ++i0_r_lane) {
        ft_load_global_if<2, 0>(tx < 125u, &i0_r[i0_r_lane], i0 + (bx * 1001u + tx * 8u) + i0_r_lane);
      }
    }
    ft_load_global_both_if<16, 2, 0>(tx < 125u && (bx * 1001u + tx * 8u + 14u) < 512511u, &i0_r[0u], i0 + (bx * 1001u + tx * 8u - ((bx * 1001u) % 8u)), ((bx * 1001u) % 8u));
    alignas(16) u16 v1_amax[1];
    v1_amax[0u] = 0xff80u;
    {
      const u16 v1_amax_before = v1_amax[0u];
      v1_amax[0u] = ft_fold_amax_run_bf16<8>(v1_amax[0u], &i0_r[0u]);
      v1_amax[0u] = (tx < 125u) ? v1_amax[0u] : v1_amax_before;
    }
    #pragma unroll
    for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
      v1_amax[0u] = ft_fold_amax_bf16(v1_amax[0u], ft_shuffle_xor(v1_amax[0u], distance, 0xffffffffu));
    }
    if ((tx % 32u) == 0u) {
      ft_store_shared<2>(smem + u32((tx / 32u) * 2u), &v1_amax[0u]);
    }
    __syncthreads();
    alignas(16) u16 v1_amax_p[4];
    ft_load_shared<8>(&v1_amax_p[0u], smem);
    v1_amax[0u] = v1_amax_p[0u];
    #pragma unroll
    for (Index slot = 0u; slot < 3u; ++slot) {
      v1_amax[0u] = ft_fold_amax_bf16(v1_amax[0u], v1_amax_p[slot + 1u]);
    }
    alignas(16) u16 w2[1];
    w2[0u] = v1_amax[0u];
    alignas(16) float w3[1];
    w3[0u] = ft_to_f32_bf16(w2, 0u);
    alignas(16) float v5_sum[1];
    v5_sum[0u] = 0.0f;
    ft_opaque<16>(&i0_r[0]);
    {
      const float v5_sum_before = v5_sum[0u];
      #pragma unroll
      for (Index k0 = 0u; k0 < 8u; ++k0) {
        alignas(16) float v0[1];
        v0[0u] = ft_to_f32_bf16(i0_r, k0);
        alignas(16) float v3[1];
        v3[0u] = ft_sub(v0[0u], w3[0u]);
        alignas(16) float v4[1];
        v4[0u] = ft_exp_approx(v3[0u]);
        v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v4[0u]);
      }
      v5_sum[0u] = (tx < 125u) ? v5_sum[0u] : v5_sum_before;
    }
    #pragma unroll
    for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
      v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], ft_shuffle_xor(v5_sum[0u], distance, 0xffffffffu));
    }
    if ((tx % 32u) == 0u) {
      ft_store_shared<4>(smem + u32((tx / 32u) * 4u + 16u), &v5_sum[0u]);
    }
    __syncthreads();
    alignas(16) float v5_sum_p[4];
    ft_load_shared<16>(&v5_sum_p[0u], smem + u32(16u));
    v5_sum[0u] = v5_sum_p[0u];
    #pragma unroll
    for (Index slot = 0u; slot < 3u; ++slot) {
      v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v5_sum_p[slot + 1u]);
    }
    alignas(16) float w7[1];
    w7[0u] = v5_sum[0u];
    alignas(16) float v7[8];
    ft_opaque<16>(&i0_r[0]);
    #pragma unroll
    for (Index k1 = 0u; k1 < 8u; ++k1) {
      alignas(16) float v0_p2[1];
      v0_p2[0u] = ft_to_f32_bf16(i0_r, k1);
      alignas(16) float v3_p2[1];
      v3_p2[0u] = ft_sub(v0_p2[0u], w3[0u]);
      alignas(16) float v4_p2[1];
      v4_p2[0u] = ft_exp_approx(v3_p2[0u]);
      v7[k1] = ft_div_approx(v4_p2[0u], w7[0u]);
    }
    alignas(16) u16 v8_r[8];
    ft_narrow_bf16<8>(&v8_r[0u], &v7[0u]);
    ft_store_global_if<16, 0>(tx < 125u, v8 + (bx * 1000u + tx * 8u), &v8_r[0u]);
  }
}
