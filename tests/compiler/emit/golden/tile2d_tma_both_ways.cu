extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const __grid_constant__ TensorMap map_i0_s, const __grid_constant__ TensorMap map_v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_i0_s);
    ft_prefetch_tensor_map(&map_v0);
    ft_mbarrier_init(smem + 32768u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(32768u), 16384u);
    ft_tma_load_2d(smem, &map_i0_s, smem + u32(32768u), ::i32((bx / 4u) * 64u), ::i32((bx % 4u) * 128u));
  }
  ft_mbarrier_wait(smem + u32(32768u), 0u);
  #pragma unroll
  for (Index k0 = 0u; k0 < 8u; ++k0) {
    alignas(16) u16 i0_r[8];
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      ft_load_shared<4>(&i0_r[k1 * 2u], smem + u32((tx % 32u) * 512u + k1 * 128u + (k0 ^ ((tx % 2u) * 4u + k1)) * 16u + (tx / 32u) * 4u));
    }
    #pragma unroll
    for (Index k2 = 0u; k2 < 2u; ++k2) {
      alignas(16) u16 w0[4];
      #pragma unroll
      for (Index k3 = 0u; k3 < 4u; ++k3) {
        w0[k3] = i0_r[k3 * 2u + k2];
      }
      alignas(16) u16 v0_r[4];
      #pragma unroll
      for (Index k4 = 0u; k4 < 4u; ++k4) {
        v0_r[k4] = w0[k4];
      }
      ft_store_shared<8>(smem + u32(((tx / 16u) % 2u) * 8192u + k0 * 1024u + (tx / 32u) * 256u + k2 * 128u + (((tx / 2u) % 8u) ^ ((tx / 32u) * 2u + k2)) * 16u + (tx % 2u) * 8u + 16384u), &v0_r[0u]);
    }
  }
  ft_fence_async_shared();
  __syncthreads();
  if (ft_is_elected()) {
    #pragma unroll
    for (Index k5 = 0u; k5 < 2u; ++k5) {
      ft_tma_store_2d(&map_v0, smem + u32(k5 * 8192u + 16384u), ::i32((bx % 4u) * 128u + k5 * 64u), ::i32((bx / 4u) * 64u));
    }
    ft_bulk_commit();
    ft_bulk_wait_read<0>();
  }
}
