extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const u16* __restrict__ i0, float* __restrict__ v8) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) u16 v1_amax[1];
  v1_amax[0u] = 0xff80u;
  alignas(16) float v1_amax_running[1];
  v1_amax_running[0u] = __uint_as_float(0xff800000u);
  alignas(16) float v5_sum[1];
  v5_sum[0u] = 0.0f;
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    alignas(16) u16 i0_r[32];
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      ft_load_global<16, 0>(&i0_r[k1 * 8u], i0 + (bx * 32768u + k0 * 8192u + tx * 8u) + k1 * 2048u);
    }
    v1_amax[0u] = ft_fold_amax_run_bf16<32>(v1_amax[0u], &i0_r[0u]);
    alignas(16) float v1_amax_running_next[1];
    v1_amax_running_next[0u] = ft_maximum(ft_to_f32_bf16(v1_amax, 0u), -3.4028234663852886e+38f);
    alignas(16) float v5_sum_scale[1];
    v5_sum_scale[0u] = ft_sub(v1_amax_running[0u], v1_amax_running_next[0u]);
    v5_sum_scale[0u] = ft_exp_approx(v5_sum_scale[0u]);
    v5_sum[0u] = ft_mul(v5_sum[0u], v5_sum_scale[0u]);
    v1_amax_running[0u] = v1_amax_running_next[0u];
    #pragma unroll
    for (Index k4 = 0u; k4 < 4u; ++k4) {
      #pragma unroll
      for (Index k5 = 0u; k5 < 8u; ++k5) {
        alignas(16) float v0[1];
        v0[0u] = ft_to_f32_bf16(i0_r, k4 * 8u + k5);
        alignas(16) float v3[1];
        v3[0u] = ft_sub(v0[0u], v1_amax_running[0u]);
        alignas(16) float v4[1];
        v4[0u] = ft_exp_approx(v3[0u]);
        v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v4[0u]);
      }
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v1_amax[0u] = ft_fold_amax_bf16(v1_amax[0u], ft_shuffle_xor(v1_amax[0u], distance, 0xffffffffu));
  }
  alignas(16) float v1_amax_running_next[1];
  v1_amax_running_next[0u] = ft_maximum(ft_to_f32_bf16(v1_amax, 0u), -3.4028234663852886e+38f);
  alignas(16) float v5_sum_scale[1];
  v5_sum_scale[0u] = ft_sub(v1_amax_running[0u], v1_amax_running_next[0u]);
  v5_sum_scale[0u] = ft_exp_approx(v5_sum_scale[0u]);
  v5_sum[0u] = ft_mul(v5_sum[0u], v5_sum_scale[0u]);
  v1_amax_running[0u] = v1_amax_running_next[0u];
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], ft_shuffle_xor(v5_sum[0u], distance, 0xffffffffu));
  }
  if ((tx % 32u) == 0u) {
    ft_store_shared<2>(smem + u32((tx / 32u) * 2u), &v1_amax[0u]);
    ft_store_shared<4>(smem + u32((tx / 32u) * 4u + 16u), &v5_sum[0u]);
  }
  __syncthreads();
  if (tx < 32u) {
    ft_load_shared<2>(&v1_amax[0u], smem + u32((tx % 8u) * 2u));
    #pragma unroll
    for (u32 distance = 1u; distance <= 4u; distance *= 2u) {
      v1_amax[0u] = ft_fold_amax_bf16(v1_amax[0u], ft_shuffle_xor(v1_amax[0u], distance, 0xffffffffu));
    }
    alignas(16) u16 v5_sum_m[1];
    alignas(16) float v5_sum_from[1];
    alignas(16) float v5_sum_to[1];
    alignas(16) float v5_sum_share[1];
    ft_load_shared<2>(&v5_sum_m[0u], smem + u32((tx % 8u) * 2u));
    ft_load_shared<4>(&v5_sum[0u], smem + u32((tx % 8u) * 4u + 16u));
    v5_sum_from[0u] = ft_maximum(ft_to_f32_bf16(v5_sum_m, 0u), -3.4028234663852886e+38f);
    v5_sum_to[0u] = ft_maximum(ft_to_f32_bf16(v1_amax, 0u), -3.4028234663852886e+38f);
    v5_sum_share[0u] = ft_sub(v5_sum_from[0u], v5_sum_to[0u]);
    v5_sum_share[0u] = ft_exp_approx(v5_sum_share[0u]);
    v5_sum[0u] = ft_mul(v5_sum[0u], v5_sum_share[0u]);
    #pragma unroll
    for (u32 distance = 1u; distance <= 4u; distance *= 2u) {
      v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], ft_shuffle_xor(v5_sum[0u], distance, 0xffffffffu));
    }
  }
  alignas(16) float v5_sum_check[1];
  v5_sum_check[0u] = ft_sub(ft_to_f32_bf16(v1_amax, 0u), ft_to_f32_bf16(v1_amax, 0u));
  v5_sum[0u] = ft_add(v5_sum[0u], v5_sum_check[0u]);
  alignas(16) float w1[1];
  w1[0u] = ft_to_f32_bf16(v1_amax, 0u);
  alignas(16) float w8[1];
  w8[0u] = ft_log_approx(v5_sum[0u]);
  alignas(16) float w9[1];
  w9[0u] = ft_add(w1[0u], w8[0u]);
  alignas(16) float v8_r[1];
  v8_r[0u] = w9[0u];
  if (tx == 0u) {
    ft_store_global<4, 0>(v8 + bx, &v8_r[0u]);
  }
}
