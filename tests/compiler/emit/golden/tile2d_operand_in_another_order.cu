extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const float* __restrict__ i0, const float* __restrict__ i1, float* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) float i0_g[16];
  #pragma unroll
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    ft_load_global<16, 0>(&i0_g[k0 * 4u], i0 + ((bx % 16u) * 32768u + (tx / 16u) * 512u + (bx / 16u) * 64u + (tx % 16u) * 4u) + k0 * 8192u);
  }
  alignas(16) float i1_r[16];
  #pragma unroll
  for (Index k3 = 0u; k3 < 4u; ++k3) {
    ft_load_global<16, 0>(&i1_r[k3 * 4u], i1 + ((bx / 16u) * 65536u + (tx / 16u) * 4096u + (bx % 16u) * 64u + (tx % 16u) * 4u) + k3 * 1024u);
  }
  #pragma unroll
  for (Index k1 = 0u; k1 < 4u; ++k1) {
    ft_store_shared<16>(smem + u32(((tx / 8u) % 2u) * 8192u + k1 * 2048u + (tx / 16u) * 128u + ((tx % 8u) ^ ((k1 % 2u) * 4u + (tx / 64u))) * 16u), &i0_g[k1 * 4u]);
  }
  __syncthreads();
  alignas(16) float i0_r[16];
  #pragma unroll
  for (Index k2 = 0u; k2 < 4u; ++k2) {
    ft_load_shared<16>(&i0_r[k2 * 4u], smem + u32((tx / 128u) * 8192u + (tx % 16u) * 512u + k2 * 128u + (((tx / 16u) % 8u) ^ (tx % 8u)) * 16u));
  }
  #pragma unroll
  for (Index k4 = 0u; k4 < 4u; ++k4) {
    alignas(16) float v0_r[4];
    #pragma unroll
    for (Index k5 = 0u; k5 < 4u; ++k5) {
      v0_r[k5] = ft_add(i0_r[k5 * 4u + k4], i1_r[k4 * 4u + k5]);
    }
    ft_store_global<16, 0>(v0 + ((bx / 16u) * 65536u + (tx / 16u) * 4096u + (bx % 16u) * 64u + (tx % 16u) * 4u) + k4 * 1024u, &v0_r[0u]);
  }
}
