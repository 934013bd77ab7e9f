extern "C" __global__ void __launch_bounds__(512) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v8) {
  const Index cx = blockIdx.x % 4u;
  const Index bx = blockIdx.x / 4u;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 512u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_mbarrier_init(smem + 32768u, 1u);
    ft_mbarrier_init(smem + 32776u, 1u);
    ft_mbarrier_init(smem + 32784u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  ft_cluster_arrive();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(32768u), 32768u);
    #pragma unroll
    for (Index k0 = 0u; k0 < 4u; ++k0) {
      ft_bulk_load(smem + u32(k0 * 8192u), i0 + (bx * 65536u + cx * 4096u) + k0 * 16384u, 8192u, smem + u32(32768u));
    }
  }
  ft_mbarrier_wait(smem + u32(32768u), 0u);
  alignas(16) u16 v1_amax[1];
  v1_amax[0u] = 0xff80u;
  #pragma unroll 1
  for (Index k1 = 0u; k1 < 2u; ++k1) {
    alignas(16) u16 i0_r[16];
    #pragma unroll
    for (Index k2 = 0u; k2 < 2u; ++k2) {
      ft_load_shared<16>(&i0_r[k2 * 8u], smem + u32(k1 * 16384u + k2 * 8192u + tx * 16u));
    }
    v1_amax[0u] = ft_fold_amax_run_bf16<16>(v1_amax[0u], &i0_r[0u]);
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v1_amax[0u] = ft_fold_amax_bf16(v1_amax[0u], ft_shuffle_xor(v1_amax[0u], distance, 0xffffffffu));
  }
  if ((tx % 32u) == 0u) {
    ft_store_shared<2>(smem + u32((tx / 32u) * 2u + 32800u), &v1_amax[0u]);
  }
  __syncthreads();
  if (tx == 0u) {
    alignas(16) u16 v1_amax_p[16];
    #pragma unroll
    for (Index slot = 0u; slot < 2u; ++slot) {
      ft_load_shared<16>(&v1_amax_p[slot * 8u], smem + u32(slot * 16u + 32800u));
    }
    v1_amax[0u] = v1_amax_p[0u];
    #pragma unroll
    for (Index slot = 0u; slot < 15u; ++slot) {
      v1_amax[0u] = ft_fold_amax_bf16(v1_amax[0u], v1_amax_p[slot + 1u]);
    }
  }
  ft_cluster_wait();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(32776u), 16u);
  }
  if (tx == 0u) {
    #pragma unroll
    for (Index rank = 0u; rank < 4u; ++rank) {
      ft_store_remote<2>(smem + u32(cx * 4u + 32832u), smem + u32(32776u), rank, &v1_amax[0u]);
    }
  }
  ft_mbarrier_wait(smem + u32(32776u), 0u);
  alignas(16) u16 v1_amax_c[4];
  #pragma unroll
  for (Index slot = 0u; slot < 4u; ++slot) {
    ft_load_shared<2>(&v1_amax_c[slot], smem + u32(slot * 4u + 32832u));
  }
  v1_amax[0u] = v1_amax_c[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 3u; ++slot) {
    v1_amax[0u] = ft_fold_amax_bf16(v1_amax[0u], v1_amax_c[slot + 1u]);
  }
  alignas(16) u16 w2[1];
  w2[0u] = v1_amax[0u];
  alignas(16) float w3[1];
  w3[0u] = ft_to_f32_bf16(w2, 0u);
  alignas(16) float v5_sum[1];
  v5_sum[0u] = 0.0f;
  #pragma unroll 1
  for (Index k5 = 0u; k5 < 2u; ++k5) {
    alignas(16) u16 i0_r_p1[16];
    #pragma unroll
    for (Index k6 = 0u; k6 < 2u; ++k6) {
      ft_load_shared<16>(&i0_r_p1[k6 * 8u], smem + u32(k5 * 16384u + k6 * 8192u + tx * 16u));
    }
    #pragma unroll
    for (Index k7 = 0u; k7 < 2u; ++k7) {
      #pragma unroll
      for (Index k8 = 0u; k8 < 8u; ++k8) {
        alignas(16) float v0[1];
        v0[0u] = ft_to_f32_bf16(i0_r_p1, k7 * 8u + k8);
        alignas(16) float v3[1];
        v3[0u] = ft_sub(v0[0u], w3[0u]);
        alignas(16) float v4[1];
        v4[0u] = ft_exp(v3[0u]);
        v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v4[0u]);
      }
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], ft_shuffle_xor(v5_sum[0u], distance, 0xffffffffu));
  }
  if ((tx % 32u) == 0u) {
    ft_store_shared<4>(smem + u32((tx / 32u) * 4u + 32848u), &v5_sum[0u]);
  }
  __syncthreads();
  if (tx == 0u) {
    alignas(16) float v5_sum_p[16];
    #pragma unroll
    for (Index slot = 0u; slot < 4u; ++slot) {
      ft_load_shared<16>(&v5_sum_p[slot * 4u], smem + u32(slot * 16u + 32848u));
    }
    v5_sum[0u] = v5_sum_p[0u];
    #pragma unroll
    for (Index slot = 0u; slot < 15u; ++slot) {
      v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v5_sum_p[slot + 1u]);
    }
  }
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(32784u), 16u);
  }
  if (tx == 0u) {
    #pragma unroll
    for (Index rank = 0u; rank < 4u; ++rank) {
      ft_store_remote<4>(smem + u32(cx * 4u + 32912u), smem + u32(32784u), rank, &v5_sum[0u]);
    }
  }
  ft_mbarrier_wait(smem + u32(32784u), 0u);
  alignas(16) float v5_sum_c[4];
  #pragma unroll
  for (Index slot = 0u; slot < 4u; ++slot) {
    ft_load_shared<4>(&v5_sum_c[slot], smem + u32(slot * 4u + 32912u));
  }
  v5_sum[0u] = v5_sum_c[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 3u; ++slot) {
    v5_sum[0u] = ft_fold_sum_f32(v5_sum[0u], v5_sum_c[slot + 1u]);
  }
  alignas(16) float w7[1];
  w7[0u] = v5_sum[0u];
  #pragma unroll 1
  for (Index k3 = 0u; k3 < 2u; ++k3) {
    alignas(16) u16 i0_r_p2[16];
    #pragma unroll
    for (Index k4 = 0u; k4 < 2u; ++k4) {
      ft_load_shared<16>(&i0_r_p2[k4 * 8u], smem + u32(k3 * 16384u + k4 * 8192u + tx * 16u));
    }
    #pragma unroll
    for (Index k9 = 0u; k9 < 2u; ++k9) {
      alignas(16) float v7[8];
      #pragma unroll
      for (Index k10 = 0u; k10 < 8u; ++k10) {
        alignas(16) float v0_p2[1];
        v0_p2[0u] = ft_to_f32_bf16(i0_r_p2, k9 * 8u + k10);
        alignas(16) float v3_p2[1];
        v3_p2[0u] = ft_sub(v0_p2[0u], w3[0u]);
        alignas(16) float v4_p2[1];
        v4_p2[0u] = ft_exp(v3_p2[0u]);
        v7[k10] = ft_div(v4_p2[0u], w7[0u]);
      }
      alignas(16) u16 v8_r[8];
      ft_narrow_bf16<8>(&v8_r[0u], &v7[0u]);
      ft_store_global<16, 0>(v8 + (bx * 65536u + k3 * 32768u + cx * 4096u + tx * 8u) + k9 * 16384u, &v8_r[0u]);
    }
  }
}
