extern "C" __global__ void __launch_bounds__(64) fusetune_kernel(const float* __restrict__ i0, const float* __restrict__ i1, float* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 64u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_mbarrier_init(smem + 6144u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(6144u), 4096u);
    ft_bulk_load(smem, i0 + (bx * 512u), 2048u, smem + u32(6144u));
    ft_bulk_load(smem + u32(2048u), i1 + (bx * 512u), 2048u, smem + u32(6144u));
  }
  ft_mbarrier_wait(smem + u32(6144u), 0u);
  alignas(16) float i0_r[8];
  #pragma unroll
  for (Index k0 = 0u; k0 < 2u; ++k0) {
    ft_load_shared<16>(&i0_r[k0 * 4u], smem + u32(k0 * 1024u + tx * 16u));
  }
  alignas(16) float i1_r[8];
  #pragma unroll
  for (Index k1 = 0u; k1 < 2u; ++k1) {
    ft_load_shared<16>(&i1_r[k1 * 4u], smem + u32(k1 * 1024u + tx * 16u + 2048u));
  }
  #pragma unroll
  for (Index k2 = 0u; k2 < 2u; ++k2) {
    alignas(16) float v0_r[4];
    #pragma unroll
    for (Index k3 = 0u; k3 < 4u; ++k3) {
      v0_r[k3] = ft_add(i0_r[k2 * 4u + k3], i1_r[k2 * 4u + k3]);
    }
    ft_store_shared<16>(smem + u32(k2 * 1024u + tx * 16u + 4096u), &v0_r[0u]);
  }
  ft_fence_async_shared();
  __syncthreads();
  if (ft_is_elected()) {
    ft_bulk_store(v0 + (bx * 512u), smem + u32(4096u), 2048u);
    ft_bulk_commit();
    ft_bulk_wait_read<0>();
  }
}
