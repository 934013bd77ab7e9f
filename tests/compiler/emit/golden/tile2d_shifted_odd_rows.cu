extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const float* __restrict__ i0, float* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (((bx % 5u) * 128u + 127u) < 515u && ((bx / 5u) * 64u + 63u) < 1001u) {
    alignas(16) float i0_g[48];
    #pragma unroll
    for (Index k0 = 0u; k0 < 48u; ++k0) {
      i0_g[k0] = 0.0f;
      ft_load_global_if<4, 0>((tx / 32u) < ((k0 % 3u) * 32u + (tx % 32u) + 1u) && ((k0 % 3u) * 32u + (tx % 32u)) < ((tx / 32u) + 64u), &i0_g[k0], i0 + ((bx % 5u) * 128128u + (tx / 32u) * 1000u + (bx / 5u) * 64u + (tx % 32u)) + ((k0 / 3u) * 8008u + (k0 % 3u) * 32u));
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 48u; ++k1) {
      if ((tx / 32u) < ((k1 % 3u) * 32u + (tx % 32u) + 1u) && ((k1 % 3u) * 32u + (tx % 32u)) < ((tx / 32u) + 64u)) {
        ft_store_shared<4>(smem + u32((k1 / 3u) * 2080u + (tx / 32u) * 260u + ((k1 % 3u) * 32u + (tx % 32u) - (tx / 32u)) * 4u), &i0_g[k1]);
      }
    }
    __syncthreads();
    #pragma unroll
    for (Index k2 = 0u; k2 < 40u; ++k2) {
      alignas(16) float i0_r[1];
      i0_r[0u] = static_cast<float>(0u);
      ft_load_shared_if<4>((((tx / 32u) * 3u) % 8u) < ((k2 % 5u) * 32u + (tx % 32u) + 1u) && ((k2 % 5u) * 32u + (tx % 32u)) < ((((tx / 32u) * 3u) % 8u) + 128u), &i0_r[0u], smem + u32(((k2 % 5u) * 32u + (tx % 32u) - (((tx / 32u) * 3u) % 8u)) * 260u + (k2 / 5u) * 32u + (tx / 32u) * 4u));
      alignas(16) float w0[1];
      w0[0u] = i0_r[0u];
      alignas(16) float v0_r[1];
      v0_r[0u] = w0[0u];
      ft_store_global_if<4, 0>((((tx / 32u) * 3u) % 8u) < ((k2 % 5u) * 32u + (tx % 32u) + 1u) && ((k2 % 5u) * 32u + (tx % 32u)) < ((((tx / 32u) * 3u) % 8u) + 128u), v0 + ::i32((bx / 5u) * 32960u + (tx / 32u) * 515u + (bx % 5u) * 128u + (tx % 32u) - (((tx / 32u) * 3u) % 8u)) + ((k2 / 5u) * 4120u + (k2 % 5u) * 32u), &v0_r[0u]);
    }
  } else {
    alignas(16) float i0_g[48];
    #pragma unroll
    for (Index k0 = 0u; k0 < 48u; ++k0) {
      i0_g[k0] = 0.0f;
      ft_load_global_if<4, 0>((tx / 32u) < ((k0 % 3u) * 32u + (tx % 32u) + 1u) && ((k0 % 3u) * 32u + (tx % 32u)) < ((tx / 32u) + 64u) && ((bx % 5u) * 128u + (k0 / 3u) * 8u + (tx / 32u)) < 515u && ((bx / 5u) * 64u + ((k0 % 3u) * 32u + (tx % 32u) - (tx / 32u))) < 1001u, &i0_g[k0], i0 + ((bx % 5u) * 128128u + (tx / 32u) * 1000u + (bx / 5u) * 64u + (tx % 32u)) + ((k0 / 3u) * 8008u + (k0 % 3u) * 32u));
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 48u; ++k1) {
      if ((tx / 32u) < ((k1 % 3u) * 32u + (tx % 32u) + 1u) && ((k1 % 3u) * 32u + (tx % 32u)) < ((tx / 32u) + 64u)) {
        ft_store_shared<4>(smem + u32((k1 / 3u) * 2080u + (tx / 32u) * 260u + ((k1 % 3u) * 32u + (tx % 32u) - (tx / 32u)) * 4u), &i0_g[k1]);
      }
    }
    __syncthreads();
    #pragma unroll
    for (Index k2 = 0u; k2 < 40u; ++k2) {
      alignas(16) float i0_r[1];
      i0_r[0u] = static_cast<float>(0u);
      ft_load_shared_if<4>((((tx / 32u) * 3u) % 8u) < ((k2 % 5u) * 32u + (tx % 32u) + 1u) && ((k2 % 5u) * 32u + (tx % 32u)) < ((((tx / 32u) * 3u) % 8u) + 128u), &i0_r[0u], smem + u32(((k2 % 5u) * 32u + (tx % 32u) - (((tx / 32u) * 3u) % 8u)) * 260u + (k2 / 5u) * 32u + (tx / 32u) * 4u));
      alignas(16) float w0[1];
      w0[0u] = i0_r[0u];
      alignas(16) float v0_r[1];
      v0_r[0u] = w0[0u];
      ft_store_global_if<4, 0>((((tx / 32u) * 3u) % 8u) < ((k2 % 5u) * 32u + (tx % 32u) + 1u) && ((k2 % 5u) * 32u + (tx % 32u)) < ((((tx / 32u) * 3u) % 8u) + 128u) && ((bx % 5u) * 128u + ((k2 % 5u) * 32u + (tx % 32u) - (((tx / 32u) * 3u) % 8u))) < 515u && ((bx / 5u) * 64u + (k2 / 5u) * 8u + (tx / 32u)) < 1001u, v0 + ::i32((bx / 5u) * 32960u + (tx / 32u) * 515u + (bx % 5u) * 128u + (tx % 32u) - (((tx / 32u) * 3u) % 8u)) + ((k2 / 5u) * 4120u + (k2 % 5u) * 32u), &v0_r[0u]);
    }
  }
}
