extern "C" __global__ void __launch_bounds__(512) fusetune_kernel(const float* __restrict__ i0, float* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 512u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (8u < ((bx % 9u) * 64u + 1u) && ((bx % 9u) * 64u + 63u) < 515u && ((bx / 9u) * 64u + 63u) < 1001u) {
    alignas(16) float i0_g[9];
    #pragma unroll
    for (Index k0 = 0u; k0 < 9u; ++k0) {
      ft_load_global<4, 0>(&i0_g[k0], i0 + ((bx % 9u) * 64064u + (tx / 64u) * 1001u + (bx / 9u) * 64u + (tx % 64u)) + k0 * 8008u - 8008u);
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 9u; ++k1) {
      ft_store_shared<4>(smem + u32(k1 * 2080u + (tx / 64u) * 260u + (tx % 64u) * 4u), &i0_g[k1]);
    }
    __syncthreads();
    #pragma unroll
    for (Index k2 = 0u; k2 < 8u; ++k2) {
      alignas(16) float i0_r[1];
      ft_load_shared<4>(&i0_r[0u], smem + u32((k2 % 2u) * 8320u + (tx % 32u) * 260u + (k2 / 2u) * 64u + (tx / 32u) * 4u + 2080u - (((tx / 32u) * 3u) % 8u) * 260u));
      alignas(16) float w0[1];
      w0[0u] = i0_r[0u];
      alignas(16) float v0_r[1];
      v0_r[0u] = w0[0u];
      ft_store_global<4, 0>(v0 + ::i32((bx / 9u) * 32960u + (tx / 32u) * 515u + (bx % 9u) * 64u + (tx % 32u) - (((tx / 32u) * 3u) % 8u)) + ((k2 / 2u) * 8240u + (k2 % 2u) * 32u), &v0_r[0u]);
    }
  } else {
    alignas(16) float i0_g[9];
    i0_g[0u] = 0.0f;
    ft_load_global_if<4, 0>(8u < ((bx % 9u) * 64u + (tx / 64u) + 1u) && ((bx / 9u) * 64u + (tx % 64u)) < 1001u, &i0_g[0u], i0 + ((bx % 9u) * 64064u + (tx / 64u) * 1001u + (bx / 9u) * 64u + (tx % 64u)) - 8008u);
    #pragma unroll
    for (Index k0 = 0u; k0 < 8u; ++k0) {
      i0_g[k0 + 1u] = 0.0f;
      ft_load_global_if<4, 0>(((bx % 9u) * 64u + k0 * 8u + (tx / 64u)) < 515u && ((bx / 9u) * 64u + (tx % 64u)) < 1001u, &i0_g[k0 + 1u], i0 + ((bx % 9u) * 64064u + (tx / 64u) * 1001u + (bx / 9u) * 64u + (tx % 64u)) + k0 * 8008u);
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 9u; ++k1) {
      ft_store_shared<4>(smem + u32(k1 * 2080u + (tx / 64u) * 260u + (tx % 64u) * 4u), &i0_g[k1]);
    }
    __syncthreads();
    #pragma unroll
    for (Index k2 = 0u; k2 < 8u; ++k2) {
      alignas(16) float i0_r[1];
      ft_load_shared<4>(&i0_r[0u], smem + u32((k2 % 2u) * 8320u + (tx % 32u) * 260u + (k2 / 2u) * 64u + (tx / 32u) * 4u + 2080u - (((tx / 32u) * 3u) % 8u) * 260u));
      alignas(16) float w0[1];
      w0[0u] = i0_r[0u];
      alignas(16) float v0_r[1];
      v0_r[0u] = w0[0u];
      ft_store_global_if<4, 0>((((tx / 32u) * 3u) % 8u) < ((bx % 9u) * 64u + (k2 % 2u) * 32u + (tx % 32u) + 1u) && ((bx % 9u) * 64u + (k2 % 2u) * 32u + (tx % 32u)) < ((((tx / 32u) * 3u) % 8u) + 515u) && ((bx / 9u) * 64u + (k2 / 2u) * 16u + (tx / 32u)) < 1001u, v0 + ::i32((bx / 9u) * 32960u + (tx / 32u) * 515u + (bx % 9u) * 64u + (tx % 32u) - (((tx / 32u) * 3u) % 8u)) + ((k2 / 2u) * 8240u + (k2 % 2u) * 32u), &v0_r[0u]);
    }
  }
}
