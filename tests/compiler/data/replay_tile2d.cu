extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(float* __restrict__ v0, const __grid_constant__ TensorMap map_i0_s) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_i0_s);
    ft_mbarrier_init(smem + 16384u, 1u);
    ft_mbarrier_init(smem + 16392u, 1u);
    ft_fence_mbarrier_init();
  }
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(16384u), 8192u);
    #pragma unroll
    for (Index k1 = 0u; k1 < 2u; ++k1) {
      ft_tma_load_2d(smem + u32(k1 * 4096u), &map_i0_s, smem + u32(16384u), ::i32(k1 * 32u), ::i32(bx * 32u));
    }
  }
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    __syncthreads();
    if ((k0 + 1u) < 4u) {
      if (ft_is_elected()) {
        ft_fence_async_shared();
        ft_mbarrier_expect_tx(smem + u32(((k0 + 1u) % 2u) * 8u + 16384u), 8192u);
        #pragma unroll
        for (Index k1 = 0u; k1 < 2u; ++k1) {
          ft_tma_load_2d(smem + u32(((k0 + 1u) % 2u) * 8192u + k1 * 4096u), &map_i0_s, smem + u32(((k0 + 1u) % 2u) * 8u + 16384u), ::i32(k0 * 64u + k1 * 32u + 64u), ::i32(bx * 32u));
        }
      }
    }
    ft_mbarrier_wait(smem + u32((k0 % 2u) * 8u + 16384u), (k0 / 2u));
    alignas(16) float i0_r[16];
    #pragma unroll
    for (Index k2 = 0u; k2 < 4u; ++k2) {
      ft_load_shared<16>(&i0_r[k2 * 4u], smem + u32((k0 % 2u) * 8192u + (tx / 64u) * 4096u + (tx % 8u) * 512u + k2 * 128u + (((tx / 8u) % 8u) ^ ((tx % 2u) * 4u + k2)) * 16u));
    }
    #pragma unroll
    for (Index k3 = 0u; k3 < 4u; ++k3) {
      alignas(16) float w0[4];
      #pragma unroll
      for (Index k4 = 0u; k4 < 4u; ++k4) {
        w0[k4] = i0_r[k4 * 4u + k3];
      }
      alignas(16) float v0_r[4];
      #pragma unroll
      for (Index k5 = 0u; k5 < 4u; ++k5) {
        v0_r[k5] = w0[k5];
      }
      ft_store_global<16, 2>(v0 + (k0 * 8192u + (tx / 8u) * 512u + bx * 32u + (tx % 8u) * 4u) + k3 * 128u, &v0_r[0u]);
    }
  }
}
