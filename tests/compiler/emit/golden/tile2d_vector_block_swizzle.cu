extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) u16 i0_g[32];
  #pragma unroll
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    ft_load_global<16, 0>(&i0_g[k0 * 8u], i0 + ((bx % 8u) * 65536u + (tx / 8u) * 1024u + (bx / 8u) * 64u + (tx % 8u) * 8u) + k0 * 16384u);
  }
  #pragma unroll
  for (Index k1 = 0u; k1 < 4u; ++k1) {
    ft_store_shared<16>(smem + u32(k1 * 2048u + (tx / 8u) * 128u + ((tx % 8u) ^ (k1 * 2u + (tx / 64u))) * 16u), &i0_g[k1 * 8u]);
  }
  __syncthreads();
  #pragma unroll
  for (Index k2 = 0u; k2 < 2u; ++k2) {
    alignas(16) u16 i0_r[16];
    #pragma unroll
    for (Index k3 = 0u; k3 < 8u; ++k3) {
      ft_load_shared<4>(&i0_r[k3 * 2u], smem + u32((tx % 8u) * 1024u + k3 * 128u + ((k2 * 4u + (tx / 32u)) ^ (tx % 8u)) * 16u + ((tx / 8u) % 4u) * 4u));
    }
    #pragma unroll
    for (Index k4 = 0u; k4 < 2u; ++k4) {
      alignas(16) u16 w0[8];
      #pragma unroll
      for (Index k5 = 0u; k5 < 8u; ++k5) {
        w0[k5] = i0_r[k5 * 2u + k4];
      }
      alignas(16) u16 v0_r[8];
      #pragma unroll
      for (Index k6 = 0u; k6 < 8u; ++k6) {
        v0_r[k6] = w0[k6];
      }
      ft_store_global<16, 0>(v0 + ((bx / 8u) * 32768u + (tx / 8u) * 1024u + (bx % 8u) * 64u + (tx % 8u) * 8u) + (k2 * 16384u + k4 * 512u), &v0_r[0u]);
    }
  }
}
