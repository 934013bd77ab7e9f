extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (16u < ((bx % 9u) * 64u + 1u) && ((bx % 9u) * 64u + 63u) < 515u && ((bx / 9u) * 120u + 120u) < 1003u && ((bx % 9u) * 64192u + (bx / 9u) * 120u + 63316u) < 516545u) {
    #pragma unroll
    for (Index k0 = 0u; k0 < 5u; ++k0) {
      ft_copy_async_if<16, 0>(((tx % 16u) * 8u) < ((((tx / 16u) * 3u) % 8u) + 120u), smem + u32(k0 * 4128u + (tx / 128u) * 2064u + (tx % 128u) * 16u), i0 + ::i32((bx % 9u) * 64192u + (tx / 16u) * 1003u + (bx / 9u) * 120u + (tx % 16u) * 8u - (((tx / 16u) * 3u) % 8u)) + k0 * 16048u - 16048u);
    }
    ft_copy_wait<0>();
    __syncthreads();
    #pragma unroll
    for (Index k1 = 0u; k1 < 15u; ++k1) {
      alignas(16) u16 i0_r[2];
      #pragma unroll
      for (Index k2 = 0u; k2 < 2u; ++k2) {
        ft_load_shared<2>(&i0_r[k2], smem + u32(((((tx % 32u) * 2u + k2 + 16u - (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u)) / 8u) - 2u) * 2064u + (((tx % 32u) * 2u + k2 + 16u - (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u)) % 8u) * 256u + k1 * 16u + (((tx % 32u) * 6u + k2 * 3u + 48u - (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u) * 3u) % 8u) * 2u + (tx / 32u) * 2u + 4128u));
      }
      alignas(16) u16 w0[2];
      #pragma unroll
      for (Index k3 = 0u; k3 < 2u; ++k3) {
        w0[k3] = i0_r[k3];
      }
      alignas(16) u16 v0_r[2];
      #pragma unroll
      for (Index k4 = 0u; k4 < 2u; ++k4) {
        v0_r[k4] = w0[k4];
      }
      ft_store_global<4, 0>(v0 + ::i32((bx / 9u) * 61800u + (tx / 32u) * 515u + (bx % 9u) * 64u + (tx % 32u) * 2u - (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u)) + k1 * 4120u, &v0_r[0u]);
    }
  } else {
    #pragma unroll
    for (Index k0 = 0u; k0 < 5u; ++k0) {
      ft_copy_async_of<16, 0>((((tx % 16u) * 8u) < ((((tx / 16u) * 3u) % 8u) + 120u) && 16u < ((bx % 9u) * 64u + k0 * 16u + (tx / 16u) + 1u) && ((bx % 9u) * 64u + k0 * 16u + (tx / 16u)) < 531u && ((bx / 9u) * 120u + (tx % 16u) * 8u) < ((((tx / 16u) * 3u) % 8u) + 1003u)) ? (((bx % 9u) * 64192u + k0 * 16048u + (tx / 16u) * 1003u + (bx / 9u) * 120u + (tx % 16u) * 8u) < ((((tx / 16u) * 3u) % 8u) + 532586u) ? 16u : ((bx % 9u) * 64192u + k0 * 16048u + (tx / 16u) * 1003u + (bx / 9u) * 120u + (tx % 16u) * 8u) < ((((tx / 16u) * 3u) % 8u) + 532593u) ? u32((((tx / 16u) * 3u) % 8u) + 532593u - (bx % 9u) * 64192u - k0 * 16048u - (tx / 16u) * 1003u - (bx / 9u) * 120u - (tx % 16u) * 8u) * 2u : 0u) : 0u, smem + u32(k0 * 4128u + (tx / 128u) * 2064u + (tx % 128u) * 16u), i0 + ::i32((bx % 9u) * 64192u + (tx / 16u) * 1003u + (bx / 9u) * 120u + (tx % 16u) * 8u - (((tx / 16u) * 3u) % 8u)) + k0 * 16048u - 16048u);
    }
    ft_copy_wait<0>();
    __syncthreads();
    #pragma unroll
    for (Index k1 = 0u; k1 < 15u; ++k1) {
      alignas(16) u16 i0_r[2];
      #pragma unroll
      for (Index k2 = 0u; k2 < 2u; ++k2) {
        ft_load_shared<2>(&i0_r[k2], smem + u32(((((tx % 32u) * 2u + k2 + 16u - (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u)) / 8u) - 2u) * 2064u + (((tx % 32u) * 2u + k2 + 16u - (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u)) % 8u) * 256u + k1 * 16u + (((tx % 32u) * 6u + k2 * 3u + 48u - (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u) * 3u) % 8u) * 2u + (tx / 32u) * 2u + 4128u));
      }
      alignas(16) u16 w0[2];
      #pragma unroll
      for (Index k3 = 0u; k3 < 2u; ++k3) {
        w0[k3] = i0_r[k3];
      }
      alignas(16) u16 v0_r[2];
      #pragma unroll
      for (Index k4 = 0u; k4 < 2u; ++k4) {
        v0_r[k4] = w0[k4];
      }
      if (((bx / 9u) * 120u + k1 * 8u + (tx / 32u)) < 1003u && (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u) < ((bx % 9u) * 64u + (tx % 32u) * 2u + 1u) && ((bx % 9u) * 64u + (tx % 32u) * 2u + 1u) < ((((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u) + 515u)) {
        ft_store_global<4, 0>(v0 + ::i32((bx / 9u) * 61800u + (tx / 32u) * 515u + (bx % 9u) * 64u + (tx % 32u) * 2u - (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u)) + k1 * 4120u, &v0_r[0u]);
      } else {
        #pragma unroll
        for (Index lane = 0u; lane < 2u; ++lane) {
          ft_store_global_if<2, 0>(((bx / 9u) * 120u + k1 * 8u + (tx / 32u)) < 1003u && (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u) < ((bx % 9u) * 64u + (tx % 32u) * 2u + lane + 1u) && ((bx % 9u) * 64u + (tx % 32u) * 2u + lane) < ((((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u) + 515u), v0 + ::i32((bx / 9u) * 61800u + (tx / 32u) * 515u + (bx % 9u) * 64u + (tx % 32u) * 2u - (((bx / 9u) * 360u + k1 * 24u + (tx / 32u) * 3u) % 16u)) + (k1 * 4120u + lane), &v0_r[lane]);
        }
      }
    }
  }
}
