extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(float* __restrict__ v0, const __grid_constant__ TensorMap map_i0_s) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_i0_s);
    ft_mbarrier_init(smem + 8192u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(8192u), 8192u);
    ft_tma_load_2d(smem, &map_i0_s, smem + u32(8192u), ::i32((bx / 8u) * 32u), ::i32((bx % 8u) * 64u));
  }
  ft_mbarrier_wait(smem + u32(8192u), 0u);
  #pragma unroll
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    alignas(16) float i0_r[4];
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      ft_load_shared<4>(&i0_r[k1], smem + u32((tx % 16u) * 512u + k1 * 128u + ((k0 * 2u + (tx / 64u)) ^ ((tx % 2u) * 4u + k1)) * 16u + ((tx / 16u) % 4u) * 4u));
    }
    alignas(16) float w0[4];
    #pragma unroll
    for (Index k2 = 0u; k2 < 4u; ++k2) {
      w0[k2] = i0_r[k2];
    }
    alignas(16) float v0_r[4];
    #pragma unroll
    for (Index k3 = 0u; k3 < 4u; ++k3) {
      v0_r[k3] = w0[k3];
    }
    ft_store_global<16, 0>(v0 + ((bx / 8u) * 16384u + (tx / 16u) * 512u + (bx % 8u) * 64u + (tx % 16u) * 4u) + k0 * 4096u, &v0_r[0u]);
  }
}
