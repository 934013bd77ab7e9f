extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const ::i8* __restrict__ i0, ::i8* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) ::i8 i0_g[128];
  #pragma unroll
  for (Index k0 = 0u; k0 < 8u; ++k0) {
    ft_load_global<16, 0>(&i0_g[k0 * 16u], i0 + ((bx % 4u) * 131072u + (tx / 8u) * 1024u + (bx / 4u) * 128u + (tx % 8u) * 16u) + k0 * 16384u);
  }
  #pragma unroll
  for (Index k1 = 0u; k1 < 8u; ++k1) {
    ft_store_shared<16>(smem + u32((k1 / 4u) * 8192u + (tx / 16u) * 1024u + (k1 % 4u) * 256u + ((tx / 8u) % 2u) * 128u + ((tx % 8u) ^ ((k1 % 4u) * 2u + ((tx / 8u) % 2u))) * 16u), &i0_g[k1 * 16u]);
  }
  __syncthreads();
  #pragma unroll
  for (Index k2 = 0u; k2 < 4u; ++k2) {
    alignas(16) ::i8 i0_r[32];
    #pragma unroll
    for (Index k3 = 0u; k3 < 2u; ++k3) {
      ft_load_matrices_transposed<4>(&i0_r[k3 * 16u], smem + u32((k2 % 2u) * 8192u + k3 * 4096u + (tx % 32u) * 128u + (((k2 / 2u) * 4u + (tx / 32u)) ^ (tx % 8u)) * 16u));
    }
    #pragma unroll
    for (Index k4 = 0u; k4 < 2u; ++k4) {
      alignas(16) ::i8 w0[16];
      ft_gather_bytes<16, 2>(&w0[0u], &i0_r[0u], k4);
      alignas(16) ::i8 v0_r[16];
      #pragma unroll
      for (Index k6 = 0u; k6 < 16u; ++k6) {
        v0_r[k6] = w0[k6];
      }
      ft_store_global<16, 0>(v0 + ((bx / 4u) * 65536u + (tx / 4u) * 1024u + (bx % 4u) * 128u + (tx % 4u) * 16u) + ((k2 / 2u) * 32768u + k4 * 512u + (k2 % 2u) * 64u), &v0_r[0u]);
    }
  }
}
