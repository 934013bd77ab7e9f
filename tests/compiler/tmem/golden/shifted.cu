extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const float* __restrict__ x, float* __restrict__ y) {
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  const Index warp = (tx / 32u);
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_mbarrier_init(smem + 0u, 1u);
    ft_fence_mbarrier_init();
  }
  if (warp == 0u) {
    ft_tmem_allocate(smem + 8u, 32u);
    ft_tmem_relinquish();
  }
  __syncthreads();
  const u32 tmem = ft_tmem_address(smem + 8u);
  alignas(16) float r[8];
  alignas(16) float x_w0[8];
  x_w0[0u] = 0.0f;
  x_w0[1u] = 0.0f;
  x_w0[2u] = 0.0f;
  x_w0[3u] = 0.0f;
  ft_load_global_if<16, 0>((tx % 32u) < 31u, &x_w0[0u], x + ((tx / 32u) * 248u + (tx % 32u) * 8u));
  x_w0[4u] = 0.0f;
  x_w0[5u] = 0.0f;
  x_w0[6u] = 0.0f;
  x_w0[7u] = 0.0f;
  ft_load_global_if<16, 0>((tx % 32u) < 31u, &x_w0[4u], x + ((tx / 32u) * 248u + (tx % 32u) * 8u) + 4u);
  #pragma unroll
  for (Index k0 = 0u; k0 < 8u; ++k0) {
    r[k0] = x_w0[k0];
  }
  #pragma unroll
  for (Index k1 = 0u; k1 < 8u; ++k1) {
    ft_tmem_store_32x32b_x1(tmem + (u32(warp * 32u) << 16) + u32(k1), &r[k1]);
  }
  ft_tmem_wait_stores();
  ft_tmem_fence_before_sync();
  __syncthreads();
  ft_tmem_fence_after_sync();
  #pragma unroll 1
  for (Index k2 = 0u; k2 < 4u; ++k2) {
    if (ft_is_elected()) {
      ft_tmem_shift(tmem + (u32(k2 * 32u) << 16));
      ft_tmem_commit(smem + u32(0u));
    }
    ft_mbarrier_wait(smem + u32(0u), (k2 % 2u));
    ft_tmem_fence_after_sync();
  }
  alignas(16) float q[8];
  #pragma unroll
  for (Index k3 = 0u; k3 < 8u; ++k3) {
    ft_tmem_load_32x32b_x1(&q[k3], tmem + (u32(warp * 32u) << 16) + u32(k3));
  }
  ft_tmem_wait_loads();
  ft_opaque<32>(&q[0]);
  #pragma unroll
  for (Index k4 = 0u; k4 < 8u; ++k4) {
    ft_store_global_if<4, 0>(1u < ((tx % 32u) + 1u), y + ((tx / 32u) * 248u + (tx % 32u) * 8u) + k4 - 8u, &q[k4]);
  }
  __syncthreads();
  if (warp == 0u) {
    ft_tmem_deallocate(tmem, 32u);
  }
}
