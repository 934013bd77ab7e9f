extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const ::i8* __restrict__ i0, ::i8* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) ::i8 i0_g[64];
  #pragma unroll
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    ft_load_global<16, 0>(&i0_g[k0 * 16u], i0 + ((bx % 4u) * 131072u + (tx / 8u) * 1024u + (bx / 4u) * 128u + (tx % 8u) * 16u) + k0 * 32768u);
  }
  #pragma unroll
  for (Index k1 = 0u; k1 < 4u; ++k1) {
    ft_store_shared<16>(smem + u32(k1 * 4096u + (tx / 8u) * 128u + ((tx % 8u) ^ (k1 * 2u + (tx / 128u))) * 16u), &i0_g[k1 * 16u]);
  }
  __syncthreads();
  alignas(16) ::i8 i0_r[64];
  #pragma unroll
  for (Index k2 = 0u; k2 < 16u; ++k2) {
    ft_load_shared<4>(&i0_r[k2 * 4u], smem + u32((tx % 8u) * 2048u + k2 * 128u + ((tx / 32u) ^ (tx % 8u)) * 16u + ((tx / 8u) % 4u) * 4u));
  }
  #pragma unroll
  for (Index k3 = 0u; k3 < 4u; ++k3) {
    alignas(16) ::i8 w0[16];
    ft_gather_bytes<16, 4>(&w0[0u], &i0_r[0u], k3);
    alignas(16) ::i8 v0_r[16];
    #pragma unroll
    for (Index k5 = 0u; k5 < 16u; ++k5) {
      v0_r[k5] = w0[k5];
    }
    ft_store_global<16, 0>(v0 + ((bx / 4u) * 65536u + (tx / 8u) * 2048u + (bx % 4u) * 128u + (tx % 8u) * 16u) + k3 * 512u, &v0_r[0u]);
  }
}
