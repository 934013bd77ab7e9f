extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  #pragma unroll
  for (Index k1 = 0u; k1 < 8u; ++k1) {
    ft_copy_async<16, 0>(smem + u32(k1 * 2048u + (tx / 8u) * 128u + ((tx % 8u) ^ ((k1 % 4u) * 2u + (tx / 64u))) * 16u), i0 + ((bx % 4u) * 128000u + (tx / 8u) * 1000u + (bx / 4u) * 64u + (tx % 8u) * 8u) + k1 * 16000u);
  }
  ft_copy_commit();
  #pragma unroll
  for (Index k1 = 0u; k1 < 8u; ++k1) {
    ft_copy_async<16, 0>(smem + u32(k1 * 2048u + (tx / 8u) * 128u + ((tx % 8u) ^ ((k1 % 4u) * 2u + (tx / 64u))) * 16u + 16384u), i0 + ((bx % 4u) * 128000u + (tx / 8u) * 1000u + (bx / 4u) * 64u + (tx % 8u) * 8u) + (k1 * 16000u + 128u));
  }
  ft_copy_commit();
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 8u; ++k0) {
    if ((k0 * 128u + (bx / 4u) * 64u + 312u) < 1000u) {
      ft_copy_wait<1>();
      __syncthreads();
      if ((k0 + 2u) < 8u) {
        #pragma unroll
        for (Index k1 = 0u; k1 < 8u; ++k1) {
          ft_copy_async<16, 0>(smem + u32(((k0 + 2u) % 3u) * 16384u + k1 * 2048u + (tx / 8u) * 128u + ((tx % 8u) ^ ((k1 % 4u) * 2u + (tx / 64u))) * 16u), i0 + ((bx % 4u) * 128000u + (tx / 8u) * 1000u + k0 * 128u + (bx / 4u) * 64u + (tx % 8u) * 8u) + (k1 * 16000u + 256u));
        }
      }
      ft_copy_commit();
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        alignas(16) u16 i0_r[16];
        #pragma unroll
        for (Index k3 = 0u; k3 < 8u; ++k3) {
          ft_load_shared<4>(&i0_r[k3 * 2u], smem + u32((k0 % 3u) * 16384u + (tx % 16u) * 1024u + k3 * 128u + ((k2 * 2u + (tx / 64u)) ^ (tx % 8u)) * 16u + ((tx / 16u) % 4u) * 4u));
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
          ft_store_global<16, 0>(v0 + (k0 * 65536u + (bx / 4u) * 32768u + (tx / 16u) * 1024u + (bx % 4u) * 128u + (tx % 16u) * 8u) + (k2 * 8192u + k4 * 512u), &v0_r[0u]);
        }
      }
    } else {
      ft_copy_wait<1>();
      __syncthreads();
      if ((k0 + 2u) < 8u) {
        #pragma unroll
        for (Index k1 = 0u; k1 < 8u; ++k1) {
          ft_copy_async_if<16, 0>((k0 * 128u + (bx / 4u) * 64u + (tx % 8u) * 8u + 256u) < 1000u, smem + u32(((k0 + 2u) % 3u) * 16384u + k1 * 2048u + (tx / 8u) * 128u + ((tx % 8u) ^ ((k1 % 4u) * 2u + (tx / 64u))) * 16u), i0 + ((bx % 4u) * 128000u + (tx / 8u) * 1000u + k0 * 128u + (bx / 4u) * 64u + (tx % 8u) * 8u) + (k1 * 16000u + 256u));
        }
      }
      ft_copy_commit();
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        alignas(16) u16 i0_r[16];
        #pragma unroll
        for (Index k3 = 0u; k3 < 8u; ++k3) {
          ft_load_shared<4>(&i0_r[k3 * 2u], smem + u32((k0 % 3u) * 16384u + (tx % 16u) * 1024u + k3 * 128u + ((k2 * 2u + (tx / 64u)) ^ (tx % 8u)) * 16u + ((tx / 16u) % 4u) * 4u));
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
          ft_store_global_if<16, 0>((k0 * 128u + (bx / 4u) * 64u + k2 * 16u + (tx / 16u) * 2u + k4) < 1000u, v0 + (k0 * 65536u + (bx / 4u) * 32768u + (tx / 16u) * 1024u + (bx % 4u) * 128u + (tx % 16u) * 8u) + (k2 * 8192u + k4 * 512u), &v0_r[0u]);
        }
      }
    }
  }
}
