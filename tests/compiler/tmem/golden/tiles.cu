extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const float* __restrict__ x, float* __restrict__ y) {
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  const Index warp = (tx / 32u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_mbarrier_init(smem + 4096u, 1u);
  }
  if (warp == 0u) {
    ft_tmem_allocate(smem + 4104u, 32u);
    ft_tmem_relinquish();
  }
  __syncthreads();
  const u32 tmem = ft_tmem_address(smem + 4104u);
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 2u; ++k0) {
    #pragma unroll 1
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      alignas(16) float s_r[1];
      ft_load_global<4, 0>(&s_r[0u], x + (tx * 8u + k0 * 4u + k1));
      ft_store_shared<4>(smem + u32((tx / 8u) * 256u + k0 * 128u + (tx % 8u) * 16u + k1 * 4u), &s_r[0u]);
    }
  }
  ft_fence_async_shared();
  __syncthreads();
  if (ft_is_elected()) {
    ft_tmem_copy_128x256b(tmem, smem + u32(0u), 128u, 256u);
    ft_tmem_commit(smem + u32(4096u));
  }
  ft_mbarrier_wait(smem + u32(4096u), 0u);
  ft_tmem_fence_after_sync();
  alignas(16) float q[8];
  ft_tmem_load_32x32b_x8(&q[0u], tmem + (u32(warp * 32u) << 16));
  ft_tmem_wait_loads();
  ft_opaque<32>(&q[0]);
  #pragma unroll
  for (Index k2 = 0u; k2 < 8u; ++k2) {
    ft_store_global<4, 0>(y + (tx * 8u) + k2, &q[k2]);
  }
  __syncthreads();
  if (warp == 0u) {
    ft_tmem_deallocate(tmem, 32u);
  }
}
