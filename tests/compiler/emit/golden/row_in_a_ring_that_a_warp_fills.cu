extern "C" __global__ void __maxnreg__(80) fusetune_kernel(const u16* __restrict__ i0, const u16* __restrict__ i1, const u16* __restrict__ i2, u16* __restrict__ v15, float* __restrict__ v1) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 3u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_mbarrier_init(smem + 24576u, 1u);
    ft_mbarrier_init(smem + 24584u, 1u);
    ft_mbarrier_init(smem + 24592u, 1u);
    ft_mbarrier_init(smem + 24600u, 8u);
    ft_mbarrier_init(smem + 24608u, 8u);
    ft_mbarrier_init(smem + 24616u, 8u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (ty < 2u) {
    ft_raise_registers<104u>();
    #pragma unroll 1
    for (Index k0 = 0u; k0 < (((463u - bx) / 264u) - 1u) + 8u; ++k0) {
      alignas(16) u16 w12[16];
      #pragma unroll
      for (Index k11 = 0u; k11 < 2u; ++k11) {
        ft_load_global<16, 0>(&w12[k11 * 8u], i1 + (tx * 8u) + k11 * 1024u);
      }
      alignas(16) u16 w14[16];
      #pragma unroll
      for (Index k12 = 0u; k12 < 2u; ++k12) {
        ft_load_global<16, 0>(&w14[k12 * 8u], i2 + (tx * 8u) + k12 * 1024u);
      }
      ft_mbarrier_wait(smem + u32((k0 % 3u) * 8u + 24576u), ((k0 / 3u) % 2u));
      alignas(16) u16 i0_r[16];
      #pragma unroll
      for (Index k2 = 0u; k2 < 2u; ++k2) {
        ft_load_shared<16>(&i0_r[k2 * 8u], smem + u32((k0 % 3u) * 8192u + ty * 4096u + k2 * 2048u + tx * 16u));
      }
      alignas(16) u16 i0_r_p2[16];
      #pragma unroll
      for (Index k3 = 0u; k3 < 2u; ++k3) {
        ft_load_shared<16>(&i0_r_p2[k3 * 8u], smem + u32((k0 % 3u) * 8192u + ty * 4096u + k3 * 2048u + tx * 16u));
      }
      alignas(16) u16 i0_r_p1[16];
      #pragma unroll
      for (Index k4 = 0u; k4 < 2u; ++k4) {
        ft_load_shared<16>(&i0_r_p1[k4 * 8u], smem + u32((k0 % 3u) * 8192u + ty * 4096u + k4 * 2048u + tx * 16u));
      }
      ft_mbarrier_free_by_warp(smem + u32((k0 % 3u) * 8u + 24600u));
      alignas(16) float v1_sum[1];
      v1_sum[0u] = 0.0f;
      #pragma unroll
      for (Index k5 = 0u; k5 < 2u; ++k5) {
        #pragma unroll
        for (Index k6 = 0u; k6 < 8u; ++k6) {
          alignas(16) float v0[1];
          v0[0u] = ft_to_f32_bf16(i0_r, k5 * 8u + k6);
          v1_sum[0u] = ft_fold_sum_f32(v1_sum[0u], v0[0u]);
        }
      }
      #pragma unroll
      for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
        v1_sum[0u] = ft_fold_sum_f32(v1_sum[0u], ft_shuffle_xor(v1_sum[0u], distance, 0xffffffffu));
      }
      if ((tx % 32u) == 0u) {
        ft_store_shared<4>(smem + u32(ty * 16u + (tx / 32u) * 4u + 24624u), &v1_sum[0u]);
      }
      ft_sync_part(1u, 256u);
      alignas(16) float v1_sum_p[4];
      ft_load_shared<16>(&v1_sum_p[0u], smem + u32(ty * 16u + 24624u));
      v1_sum[0u] = v1_sum_p[0u];
      #pragma unroll
      for (Index slot = 0u; slot < 3u; ++slot) {
        v1_sum[0u] = ft_fold_sum_f32(v1_sum[0u], v1_sum_p[slot + 1u]);
      }
      alignas(16) float w2[1];
      w2[0u] = v1_sum[0u];
      alignas(16) float w3[1];
      w3[0u] = ft_div(w2[0u], 2048.0f);
      alignas(16) float v5_sum[1];
      v5_sum[0u] = 0.0f;
      #pragma unroll
      for (Index k9 = 0u; k9 < 2u; ++k9) {
        #pragma unroll
        for (Index k10 = 0u; k10 < 8u; ++k10) {
          alignas(16) float v0_p1[1];
          v0_p1[0u] = ft_to_f32_bf16(i0_r_p1, k9 * 8u + k10);
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
        ft_store_shared<4>(smem + u32(ty * 16u + (tx / 32u) * 4u + 24656u), &v5_sum[0u]);
      }
      ft_sync_part(1u, 256u);
      alignas(16) float v5_sum_p[4];
      ft_load_shared<16>(&v5_sum_p[0u], smem + u32(ty * 16u + 24656u));
      v5_sum[0u] = v5_sum_p[0u];
      #pragma unroll
      for (Index slot = 0u; slot < 3u; ++slot) {
        v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v5_sum_p[slot + 1u]);
      }
      alignas(16) float w7[1];
      w7[0u] = v5_sum[0u];
      alignas(16) float w8[1];
      w8[0u] = ft_div(w7[0u], 2048.0f);
      alignas(16) float w9[1];
      w9[0u] = ft_add(w8[0u], 1e-05f);
      alignas(16) float w10[1];
      w10[0u] = ft_rsqrt(w9[0u]);
      #pragma unroll
      for (Index k7 = 0u; k7 < 2u; ++k7) {
        alignas(16) float v14[8];
        #pragma unroll
        for (Index k8 = 0u; k8 < 8u; ++k8) {
          alignas(16) float v0_p2[1];
          v0_p2[0u] = ft_to_f32_bf16(i0_r_p2, k7 * 8u + k8);
          alignas(16) float v3_p2[1];
          v3_p2[0u] = ft_sub(v0_p2[0u], w3[0u]);
          alignas(16) float v9[1];
          v9[0u] = ft_mul(v3_p2[0u], w10[0u]);
          alignas(16) float w13[1];
          w13[0u] = ft_to_f32_bf16(w12, k7 * 8u + k8);
          alignas(16) float w15[1];
          w15[0u] = ft_to_f32_bf16(w14, k7 * 8u + k8);
          v14[k8] = ft_fma(v9[0u], w13[0u], w15[0u]);
        }
        alignas(16) u16 v15_r[8];
        ft_narrow_bf16<8>(&v15_r[0u], &v14[0u]);
        ft_store_global<16, 0>(v15 + (k0 * 1081344u + bx * 4096u + ty * 2048u + tx * 8u) + k7 * 1024u, &v15_r[0u]);
      }
      alignas(16) float w18[1];
      w18[0u] = ft_div(v1_sum[0u], 2048.0f);
      alignas(16) float v1_r[1];
      v1_r[0u] = w18[0u];
      if (tx == 0u) {
        ft_store_global<4, 0>(v1 + (k0 * 528u + bx * 2u + ty), &v1_r[0u]);
      }
    }
  } else {
    ft_lower_registers<24u>();
    if (tx == 0u) {
      #pragma unroll 1
      for (Index k0 = 0u; k0 < (((463u - bx) / 264u) - 1u) + 8u; ++k0) {
        ft_mbarrier_wait(smem + u32((k0 % 3u) * 8u + 24600u), (((k0 / 3u) + 1u) % 2u));
        ft_mbarrier_expect_tx(smem + u32((k0 % 3u) * 8u + 24576u), 8192u);
        #pragma unroll
        for (Index k1 = 0u; k1 < 2u; ++k1) {
          ft_bulk_load(smem + u32((k0 % 3u) * 8192u + k1 * 4096u), i0 + (k0 * 1081344u + bx * 4096u) + k1 * 2048u, 4096u, smem + u32((k0 % 3u) * 8u + 24576u));
        }
      }
    }
  }
}
