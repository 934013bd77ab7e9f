extern "C" __global__ void __launch_bounds__(196) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 196u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_mbarrier_init(smem + 50176u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(50176u), 50176u);
    ft_bulk_load(smem, i0 + (bx * 25088u), 50176u, smem + u32(50176u));
  }
  ft_mbarrier_wait(smem + u32(50176u), 0u);
  #pragma unroll
  for (Index k0 = 0u; k0 < 8u; ++k0) {
    #pragma unroll
    for (Index k1 = 0u; k1 < 2u; ++k1) {
      alignas(16) u16 w0[8];
      #pragma unroll
      for (Index k2 = 0u; k2 < 8u; ++k2) {
        ft_load_shared<2>(&w0[k2], smem + u32(k1 * 25088u + (k0 / 2u) * 6272u + ((tx * 8u + k2) % 49u) * 128u + (k0 % 2u) * 64u + ((tx * 8u + k2) / 49u) * 2u));
      }
      alignas(16) u16 v0_r[8];
      #pragma unroll
      for (Index k3 = 0u; k3 < 8u; ++k3) {
        v0_r[k3] = w0[k3];
      }
      ft_store_global<16, 0>(v0 + (bx * 25088u + tx * 8u) + (k1 * 12544u + k0 * 1568u), &v0_r[0u]);
    }
  }
}
