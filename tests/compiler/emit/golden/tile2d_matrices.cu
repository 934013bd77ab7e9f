extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) u16 i0_g[64];
  #pragma unroll
  for (Index k0 = 0u; k0 < 8u; ++k0) {
    ft_load_global<16, 0>(&i0_g[k0 * 8u], i0 + ((bx % 4u) * 131072u + (tx / 8u) * 1024u + (bx / 4u) * 64u + (tx % 8u) * 8u) + k0 * 16384u);
  }
  #pragma unroll
  for (Index k1 = 0u; k1 < 8u; ++k1) {
    ft_store_shared<16>(smem + u32((k1 / 2u) * 4096u + ((tx / 16u) % 4u) * 1024u + (k1 % 2u) * 512u + (tx / 64u) * 256u + ((tx / 8u) % 2u) * 128u + ((tx % 8u) ^ ((k1 % 2u) * 4u + (tx / 64u) * 2u + ((tx / 8u) % 2u))) * 16u), &i0_g[k1 * 8u]);
  }
  __syncthreads();
  #pragma unroll
  for (Index k2 = 0u; k2 < 8u; ++k2) {
    alignas(16) u16 i0_r[8];
    ft_load_matrices_transposed<4>(&i0_r[0u], smem + u32((k2 % 4u) * 4096u + (tx % 32u) * 128u + (((k2 / 4u) * 4u + (tx / 32u)) ^ (tx % 8u)) * 16u));
    alignas(16) u16 w0[8];
    #pragma unroll
    for (Index k3 = 0u; k3 < 8u; ++k3) {
      w0[k3] = i0_r[k3];
    }
    alignas(16) u16 v0_r[8];
    #pragma unroll
    for (Index k4 = 0u; k4 < 8u; ++k4) {
      v0_r[k4] = w0[k4];
    }
    ft_store_global<16, 0>(v0 + ((bx / 4u) * 32768u + (tx / 4u) * 512u + (bx % 4u) * 128u + (tx % 4u) * 8u) + ((k2 / 4u) * 16384u + (k2 % 4u) * 32u), &v0_r[0u]);
  }
}
