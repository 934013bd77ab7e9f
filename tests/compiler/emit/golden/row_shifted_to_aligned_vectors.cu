extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v8) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 32u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 4u);
  alignas(16) u16 i0_r[40];
  #pragma unroll
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    ft_load_global<16, 0>(&i0_r[k0 * 8u], i0 + ::i32(bx * 4092u + ty * 1023u + tx * 8u - ((bx * 4092u + ty * 1023u) % 8u)) + k0 * 256u);
  }
  i0_r[32u] = 0;
  i0_r[33u] = 0;
  i0_r[34u] = 0;
  i0_r[35u] = 0;
  i0_r[36u] = 0;
  i0_r[37u] = 0;
  i0_r[38u] = 0;
  i0_r[39u] = 0;
  ft_load_global_if<16, 0>((tx * 8u + 1024u - ((bx * 4092u + ty * 1023u) % 8u)) < 1023u, &i0_r[32u], i0 + ::i32(bx * 4092u + ty * 1023u + tx * 8u - ((bx * 4092u + ty * 1023u) % 8u)) + 1024u);
  alignas(16) u16 v1_amax[1];
  v1_amax[0u] = 0xff80u;
  #pragma unroll
  for (Index k6 = 0u; k6 < 8u; ++k6) {
    v1_amax[0u] = (((bx * 4092u + ty * 1023u) % 8u) < (tx * 8u + k6 + 1u)) ? ft_fold_amax_bf16(v1_amax[0u], i0_r[k6]) : v1_amax[0u];
  }
  v1_amax[0u] = ft_fold_amax_run_bf16<16>(v1_amax[0u], &i0_r[8u]);
  #pragma unroll
  for (Index k5 = 0u; k5 < 2u; ++k5) {
    #pragma unroll
    for (Index k6 = 0u; k6 < 8u; ++k6) {
      v1_amax[0u] = ((k5 * 256u + tx * 8u + k6 + 768u - ((bx * 4092u + ty * 1023u) % 8u)) < 1023u) ? ft_fold_amax_bf16(v1_amax[0u], i0_r[k5 * 8u + k6 + 24u]) : v1_amax[0u];
    }
  }
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
  ft_opaque<80>(&i0_r[0]);
  #pragma unroll
  for (Index k2 = 0u; k2 < 8u; ++k2) {
    alignas(16) float v0[1];
    v0[0u] = ft_to_f32_bf16(i0_r, k2);
    alignas(16) float v3[1];
    v3[0u] = ft_sub(v0[0u], w3[0u]);
    alignas(16) float v4[1];
    v4[0u] = ft_exp(v3[0u]);
    v5_sum[0u] = (((bx * 4092u + ty * 1023u) % 8u) < (tx * 8u + k2 + 1u)) ? ft_fold_sum_f32(v5_sum[0u], v4[0u]) : v5_sum[0u];
  }
  #pragma unroll
  for (Index k1 = 0u; k1 < 2u; ++k1) {
    #pragma unroll
    for (Index k2 = 0u; k2 < 8u; ++k2) {
      alignas(16) float v0[1];
      v0[0u] = ft_to_f32_bf16(i0_r, k1 * 8u + k2 + 8u);
      alignas(16) float v3[1];
      v3[0u] = ft_sub(v0[0u], w3[0u]);
      alignas(16) float v4[1];
      v4[0u] = ft_exp(v3[0u]);
      v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v4[0u]);
    }
  }
  #pragma unroll
  for (Index k1 = 0u; k1 < 2u; ++k1) {
    #pragma unroll
    for (Index k2 = 0u; k2 < 8u; ++k2) {
      alignas(16) float v0[1];
      v0[0u] = ft_to_f32_bf16(i0_r, k1 * 8u + k2 + 24u);
      alignas(16) float v3[1];
      v3[0u] = ft_sub(v0[0u], w3[0u]);
      alignas(16) float v4[1];
      v4[0u] = ft_exp(v3[0u]);
      v5_sum[0u] = ((k1 * 256u + tx * 8u + k2 + 768u - ((bx * 4092u + ty * 1023u) % 8u)) < 1023u) ? ft_fold_sum_f32(v5_sum[0u], v4[0u]) : v5_sum[0u];
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], ft_shuffle_xor(v5_sum[0u], distance, 0xffffffffu));
  }
  alignas(16) float w7[1];
  w7[0u] = v5_sum[0u];
  ft_opaque<80>(&i0_r[0]);
  #pragma unroll
  for (Index k3 = 0u; k3 < 1u; ++k3) {
    alignas(16) float v7[8];
    #pragma unroll
    for (Index k4 = 0u; k4 < 8u; ++k4) {
      alignas(16) float v0_p2[1];
      v0_p2[0u] = ft_to_f32_bf16(i0_r, k4);
      alignas(16) float v3_p2[1];
      v3_p2[0u] = ft_sub(v0_p2[0u], w3[0u]);
      alignas(16) float v4_p2[1];
      v4_p2[0u] = ft_exp(v3_p2[0u]);
      v7[k4] = ft_div(v4_p2[0u], w7[0u]);
    }
    alignas(16) u16 v8_r[8];
    ft_narrow_bf16<8>(&v8_r[0u], &v7[0u]);
    if (((bx * 4092u + ty * 1023u) % 8u) < (tx * 8u + 1u)) {
      ft_store_global<16, 0>(v8 + (bx * 4092u + ty * 1023u + (tx * 8u - ((bx * 4092u + ty * 1023u) % 8u))), &v8_r[0u]);
    } else {
      #pragma unroll
      for (Index lane = 0u; lane < 8u; ++lane) {
        ft_store_global_if<2, 0>(((bx * 4092u + ty * 1023u) % 8u) < (tx * 8u + lane + 1u), v8 + ::i32(bx * 4092u + ty * 1023u + tx * 8u - ((bx * 4092u + ty * 1023u) % 8u)) + lane, &v8_r[lane]);
      }
    }
  }
  #pragma unroll
  for (Index k3 = 0u; k3 < 2u; ++k3) {
    alignas(16) float v7[8];
    #pragma unroll
    for (Index k4 = 0u; k4 < 8u; ++k4) {
      alignas(16) float v0_p2[1];
      v0_p2[0u] = ft_to_f32_bf16(i0_r, k3 * 8u + k4 + 8u);
      alignas(16) float v3_p2[1];
      v3_p2[0u] = ft_sub(v0_p2[0u], w3[0u]);
      alignas(16) float v4_p2[1];
      v4_p2[0u] = ft_exp(v3_p2[0u]);
      v7[k4] = ft_div(v4_p2[0u], w7[0u]);
    }
    alignas(16) u16 v8_r[8];
    ft_narrow_bf16<8>(&v8_r[0u], &v7[0u]);
    ft_store_global<16, 0>(v8 + ::i32(bx * 4092u + ty * 1023u + tx * 8u - ((bx * 4092u + ty * 1023u) % 8u)) + (k3 * 256u + 256u), &v8_r[0u]);
  }
  #pragma unroll
  for (Index k3 = 0u; k3 < 2u; ++k3) {
    alignas(16) float v7[8];
    #pragma unroll
    for (Index k4 = 0u; k4 < 8u; ++k4) {
      alignas(16) float v0_p2[1];
      v0_p2[0u] = ft_to_f32_bf16(i0_r, k3 * 8u + k4 + 24u);
      alignas(16) float v3_p2[1];
      v3_p2[0u] = ft_sub(v0_p2[0u], w3[0u]);
      alignas(16) float v4_p2[1];
      v4_p2[0u] = ft_exp(v3_p2[0u]);
      v7[k4] = ft_div(v4_p2[0u], w7[0u]);
    }
    alignas(16) u16 v8_r[8];
    ft_narrow_bf16<8>(&v8_r[0u], &v7[0u]);
    if ((k3 * 256u + tx * 8u + 775u - ((bx * 4092u + ty * 1023u) % 8u)) < 1023u) {
      ft_store_global<16, 0>(v8 + ::i32(bx * 4092u + ty * 1023u + tx * 8u - ((bx * 4092u + ty * 1023u) % 8u)) + (k3 * 256u + 768u), &v8_r[0u]);
    } else {
      #pragma unroll
      for (Index lane = 0u; lane < 8u; ++lane) {
        ft_store_global_if<2, 0>((k3 * 256u + tx * 8u + lane + 768u - ((bx * 4092u + ty * 1023u) % 8u)) < 1023u, v8 + ::i32(bx * 4092u + ty * 1023u + tx * 8u - ((bx * 4092u + ty * 1023u) % 8u)) + (k3 * 256u + lane + 768u), &v8_r[lane]);
      }
    }
  }
}
