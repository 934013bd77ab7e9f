extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, const __grid_constant__ TensorMap map_v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  extern __shared__ __align__(512) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (((bx % 8u) * 64u + 63u) < 504u && ((bx / 8u) * 128u + 120u) < 1000u) {
    alignas(16) u16 i0_r[64];
    #pragma unroll
    for (Index k0 = 0u; k0 < 8u; ++k0) {
      ft_load_global<16, 0>(&i0_r[k0 * 8u], i0 + ((bx % 8u) * 64000u + ((tx / 4u) % 8u) * 1000u + (bx / 8u) * 128u + (tx / 32u) * 32u + (tx % 4u) * 8u) + k0 * 8000u);
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 8u; ++k1) {
      alignas(16) u16 w0[8];
      #pragma unroll
      for (Index k2 = 0u; k2 < 8u; ++k2) {
        w0[k2] = i0_r[k1 * 8u + k2];
      }
      alignas(16) u16 v0_r[8];
      #pragma unroll
      for (Index k3 = 0u; k3 < 8u; ++k3) {
        v0_r[k3] = w0[k3];
      }
      ft_store_matrices_transposed<4>(smem + u32((k1 / 4u) * 8192u + (tx / 32u) * 2048u + ((tx / 2u) % 4u) * 512u + ((tx / 8u) % 4u) * 128u + (tx % 2u) * 64u + ((k1 % 4u) ^ ((tx / 8u) % 4u)) * 16u), &v0_r[0u]);
    }
    ft_fence_async_shared();
    __syncthreads();
    if (ft_is_elected()) {
      #pragma unroll
      for (Index k4 = 0u; k4 < 2u; ++k4) {
        ft_tma_store_2d(&map_v0, smem + u32(k4 * 8192u), ::i32((bx % 8u) * 64u + k4 * 32u), ::i32((bx / 8u) * 128u));
      }
      ft_bulk_commit();
      ft_bulk_wait_read<0>();
    }
  } else {
    alignas(16) u16 i0_r[64];
    #pragma unroll
    for (Index k0 = 0u; k0 < 8u; ++k0) {
      i0_r[k0 * 8u] = 0;
      i0_r[k0 * 8u + 1u] = 0;
      i0_r[k0 * 8u + 2u] = 0;
      i0_r[k0 * 8u + 3u] = 0;
      i0_r[k0 * 8u + 4u] = 0;
      i0_r[k0 * 8u + 5u] = 0;
      i0_r[k0 * 8u + 6u] = 0;
      i0_r[k0 * 8u + 7u] = 0;
      ft_load_global_if<16, 0>(((bx % 8u) * 64u + k0 * 8u + ((tx / 4u) % 8u)) < 504u && ((bx / 8u) * 128u + (tx / 32u) * 32u + (tx % 4u) * 8u) < 1000u, &i0_r[k0 * 8u], i0 + ((bx % 8u) * 64000u + ((tx / 4u) % 8u) * 1000u + (bx / 8u) * 128u + (tx / 32u) * 32u + (tx % 4u) * 8u) + k0 * 8000u);
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 8u; ++k1) {
      alignas(16) u16 w0[8];
      #pragma unroll
      for (Index k2 = 0u; k2 < 8u; ++k2) {
        w0[k2] = i0_r[k1 * 8u + k2];
      }
      alignas(16) u16 v0_r[8];
      #pragma unroll
      for (Index k3 = 0u; k3 < 8u; ++k3) {
        v0_r[k3] = w0[k3];
      }
      ft_store_matrices_transposed<4>(smem + u32((k1 / 4u) * 8192u + (tx / 32u) * 2048u + ((tx / 2u) % 4u) * 512u + ((tx / 8u) % 4u) * 128u + (tx % 2u) * 64u + ((k1 % 4u) ^ ((tx / 8u) % 4u)) * 16u), &v0_r[0u]);
    }
    ft_fence_async_shared();
    __syncthreads();
    if (ft_is_elected()) {
      #pragma unroll
      for (Index k4 = 0u; k4 < 2u; ++k4) {
        ft_tma_store_2d(&map_v0, smem + u32(k4 * 8192u), ::i32((bx % 8u) * 64u + k4 * 32u), ::i32((bx / 8u) * 128u));
      }
      ft_bulk_commit();
      ft_bulk_wait_read<0>();
    }
  }
}
