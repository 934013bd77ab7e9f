extern "C" __global__ void __launch_bounds__(240) fusetune_kernel(const float* __restrict__ i0, float* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 240u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if ((bx * 8u + 7u) < 999u) {
    #pragma unroll
    for (Index k0 = 0u; k0 < 2u; ++k0) {
      ft_copy_async<16, 0>(smem + u32(k0 * 4608u + (tx / 5u) * 96u + (tx % 5u) * 16u), i0 + (bx * 1920u + tx * 4u) + k0 * 960u);
    }
    ft_copy_wait<0>();
    __syncthreads();
    #pragma unroll
    for (Index k1 = 0u; k1 < 2u; ++k1) {
      alignas(16) float w0[4];
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        ft_load_shared<4>(&w0[k2], smem + u32(k1 * 4608u + (tx / 60u) * 1152u + (tx % 3u) * 384u + k2 * 96u + ((tx / 3u) % 20u) * 4u));
      }
      alignas(16) float v0_r[4];
      #pragma unroll
      for (Index k3 = 0u; k3 < 4u; ++k3) {
        v0_r[k3] = w0[k3];
      }
      ft_store_global<16, 0>(v0 + (bx * 1920u + tx * 4u) + k1 * 960u, &v0_r[0u]);
    }
  } else {
    #pragma unroll
    for (Index k0 = 0u; k0 < 2u; ++k0) {
      ft_copy_async_if<16, 0>((bx * 8u + k0 * 4u + (tx / 60u)) < 999u, smem + u32(k0 * 4608u + (tx / 5u) * 96u + (tx % 5u) * 16u), i0 + (bx * 1920u + tx * 4u) + k0 * 960u);
    }
    ft_copy_wait<0>();
    __syncthreads();
    #pragma unroll
    for (Index k1 = 0u; k1 < 2u; ++k1) {
      alignas(16) float w0[4];
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        ft_load_shared<4>(&w0[k2], smem + u32(k1 * 4608u + (tx / 60u) * 1152u + (tx % 3u) * 384u + k2 * 96u + ((tx / 3u) % 20u) * 4u));
      }
      alignas(16) float v0_r[4];
      #pragma unroll
      for (Index k3 = 0u; k3 < 4u; ++k3) {
        v0_r[k3] = w0[k3];
      }
      ft_store_global_if<16, 0>((bx * 8u + k1 * 4u + (tx / 60u)) < 999u, v0 + (bx * 1920u + tx * 4u) + k1 * 960u, &v0_r[0u]);
    }
  }
}
