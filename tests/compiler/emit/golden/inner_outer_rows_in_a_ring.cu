extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const u16* __restrict__ i0, float* __restrict__ v1, float* __restrict__ v2) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 2u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_mbarrier_init(smem + 24576u, 1u);
    ft_mbarrier_init(smem + 24584u, 1u);
    ft_mbarrier_init(smem + 24592u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  alignas(16) float v1_sum[16];
  #pragma unroll
  for (Index element = 0u; element < 16u; ++element) {
    v1_sum[element] = 0.0f;
  }
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(24576u), 8192u);
    #pragma unroll
    for (Index k1 = 0u; k1 < 2u; ++k1) {
      ft_bulk_load(smem + u32(k1 * 4096u), i0 + (bx * 131072u) + k1 * 2048u, 4096u, smem + u32(24576u));
    }
    ft_mbarrier_expect_tx(smem + u32(24584u), 8192u);
    #pragma unroll
    for (Index k1 = 0u; k1 < 2u; ++k1) {
      ft_bulk_load(smem + u32(k1 * 4096u + 8192u), i0 + (bx * 131072u) + (k1 * 2048u + 4096u), 4096u, smem + u32(24584u));
    }
  }
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 32u; ++k0) {
    if ((k0 + 2u) < 32u) {
      if (ft_is_elected()) {
        ft_fence_async_shared();
        ft_mbarrier_expect_tx(smem + u32(((k0 + 2u) % 3u) * 8u + 24576u), 8192u);
        #pragma unroll
        for (Index k1 = 0u; k1 < 2u; ++k1) {
          ft_bulk_load(smem + u32(((k0 + 2u) % 3u) * 8192u + k1 * 4096u), i0 + (bx * 131072u + k0 * 4096u) + (k1 * 2048u + 8192u), 4096u, smem + u32(((k0 + 2u) % 3u) * 8u + 24576u));
        }
      }
    }
    ft_mbarrier_wait(smem + u32((k0 % 3u) * 8u + 24576u), ((k0 / 3u) % 2u));
    alignas(16) u16 i0_r[16];
    #pragma unroll
    for (Index k2 = 0u; k2 < 2u; ++k2) {
      ft_load_shared<16>(&i0_r[k2 * 8u], smem + u32((k0 % 3u) * 8192u + ty * 4096u + k2 * 2048u + tx * 16u));
    }
    alignas(16) float v2_sum[1];
    v2_sum[0u] = 0.0f;
    #pragma unroll
    for (Index k3 = 0u; k3 < 2u; ++k3) {
      #pragma unroll
      for (Index k4 = 0u; k4 < 8u; ++k4) {
        alignas(16) float v0[1];
        v0[0u] = ft_to_f32_bf16(i0_r, k3 * 8u + k4);
        v1_sum[k3 * 8u + k4] = ft_fold_sum_f32(v1_sum[k3 * 8u + k4], v0[0u]);
        v2_sum[0u] = ft_fold_sum_f32(v2_sum[0u], v0[0u]);
      }
    }
    #pragma unroll
    for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
      v2_sum[0u] = ft_fold_sum_f32(v2_sum[0u], ft_shuffle_xor(v2_sum[0u], distance, 0xffffffffu));
    }
    __syncthreads();
    if ((tx % 32u) == 0u) {
      ft_store_shared<4>(smem + u32(ty * 16u + (tx / 32u) * 4u + 40992u), &v2_sum[0u]);
    }
    __syncthreads();
    if (tx == 0u) {
      alignas(16) float v2_sum_p[4];
      ft_load_shared<16>(&v2_sum_p[0u], smem + u32(ty * 16u + 40992u));
      v2_sum[0u] = v2_sum_p[0u];
      #pragma unroll
      for (Index slot = 0u; slot < 3u; ++slot) {
        v2_sum[0u] = ft_fold_sum_f32(v2_sum[0u], v2_sum_p[slot + 1u]);
      }
    }
    alignas(16) float v2_r[1];
    v2_r[0u] = v2_sum[0u];
    if (tx == 0u) {
      ft_store_global<4, 0>(v2 + (bx * 64u + k0 * 2u + ty), &v2_r[0u]);
    }
  }
  #pragma unroll
  for (Index word = 0u; word < 4u; ++word) {
    ft_store_shared<16>(smem + u32(ty * 8192u + tx * 64u + word * 16u + 24608u), &v1_sum[word * 4u]);
  }
  __syncthreads();
  if (ty == 0u) {
    alignas(16) float v1_sum_p[16];
    #pragma unroll
    for (Index word = 0u; word < 4u; ++word) {
      ft_load_shared<16>(&v1_sum_p[word * 4u], smem + u32(tx * 64u + word * 16u + 24608u));
    }
    #pragma unroll
    for (Index element = 0u; element < 16u; ++element) {
      v1_sum[element] = v1_sum_p[element];
    }
    #pragma unroll
    for (Index word = 0u; word < 4u; ++word) {
      ft_load_shared<16>(&v1_sum_p[word * 4u], smem + u32(tx * 64u + word * 16u + 32800u));
    }
    #pragma unroll
    for (Index element = 0u; element < 16u; ++element) {
      v1_sum[element] = ft_fold_sum_f32(v1_sum[element], v1_sum_p[element]);
    }
  }
  alignas(16) float v1_r[16];
  #pragma unroll
  for (Index k5 = 0u; k5 < 2u; ++k5) {
    #pragma unroll
    for (Index k6 = 0u; k6 < 8u; ++k6) {
      v1_r[k5 * 8u + k6] = v1_sum[k5 * 8u + k6];
    }
  }
  if (ty == 0u) {
    #pragma unroll
    for (Index k7 = 0u; k7 < 2u; ++k7) {
      #pragma unroll
      for (Index k8 = 0u; k8 < 2u; ++k8) {
        ft_store_global<16, 0>(v1 + (bx * 2048u + tx * 8u) + (k7 * 1024u + k8 * 4u), &v1_r[k7 * 8u + k8 * 4u]);
      }
    }
  }
}
