extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (((bx % 5u) * 128u + 127u) < 620u) {
    alignas(16) u16 i0_g[32];
    #pragma unroll
    for (Index k0 = 0u; k0 < 4u; ++k0) {
      ft_load_global<16, 0>(&i0_g[k0 * 8u], i0 + ((((bx % 5u) * 128u + k0 * 32u + (tx / 8u)) % 20u) * 761856u + (((bx % 5u) * 1024u + k0 * 256u + tx) / 160u) * 24576u + (bx / 5u) * 64u + (tx % 8u) * 8u));
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      ft_store_shared<16>(smem + u32(k1 * 4096u + (tx / 8u) * 128u + ((tx % 8u) ^ (tx / 32u)) * 16u), &i0_g[k1 * 8u]);
    }
    __syncthreads();
    #pragma unroll
    for (Index k2 = 0u; k2 < 2u; ++k2) {
      alignas(16) u16 i0_r[16];
      #pragma unroll
      for (Index k3 = 0u; k3 < 4u; ++k3) {
        ft_load_shared<8>(&i0_r[k3 * 4u], smem + u32((tx % 32u) * 512u + k3 * 128u + ((k2 * 4u + (tx / 64u)) ^ (tx % 8u)) * 16u + ((tx / 32u) % 2u) * 8u));
      }
      #pragma unroll
      for (Index k4 = 0u; k4 < 4u; ++k4) {
        alignas(16) u16 w0[4];
        #pragma unroll
        for (Index k5 = 0u; k5 < 4u; ++k5) {
          w0[k5] = i0_r[k5 * 4u + k4];
        }
        alignas(16) u16 v0_r[4];
        #pragma unroll
        for (Index k6 = 0u; k6 < 4u; ++k6) {
          v0_r[k6] = w0[k6];
        }
        ft_store_global<8, 0>(v0 + (((((bx / 5u) % 24u) * 16u + k2 * 8u + (tx / 32u)) % 6u) * 2539520u + ((((bx / 5u) % 24u) * 512u + k2 * 256u + tx) / 192u) * 9920u + (bx / 120u) * 620u + (bx % 5u) * 128u + (tx % 32u) * 4u) + k4 * 634880u, &v0_r[0u]);
      }
    }
  } else {
    alignas(16) u16 i0_g[32];
    #pragma unroll
    for (Index k0 = 0u; k0 < 4u; ++k0) {
      i0_g[k0 * 8u] = 0;
      i0_g[k0 * 8u + 1u] = 0;
      i0_g[k0 * 8u + 2u] = 0;
      i0_g[k0 * 8u + 3u] = 0;
      i0_g[k0 * 8u + 4u] = 0;
      i0_g[k0 * 8u + 5u] = 0;
      i0_g[k0 * 8u + 6u] = 0;
      i0_g[k0 * 8u + 7u] = 0;
      ft_load_global_if<16, 0>(((bx % 5u) * 128u + k0 * 32u + (tx / 8u)) < 620u, &i0_g[k0 * 8u], i0 + ((((bx % 5u) * 128u + k0 * 32u + (tx / 8u)) % 20u) * 761856u + (((bx % 5u) * 1024u + k0 * 256u + tx) / 160u) * 24576u + (bx / 5u) * 64u + (tx % 8u) * 8u));
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      ft_store_shared<16>(smem + u32(k1 * 4096u + (tx / 8u) * 128u + ((tx % 8u) ^ (tx / 32u)) * 16u), &i0_g[k1 * 8u]);
    }
    __syncthreads();
    #pragma unroll
    for (Index k2 = 0u; k2 < 2u; ++k2) {
      alignas(16) u16 i0_r[16];
      #pragma unroll
      for (Index k3 = 0u; k3 < 4u; ++k3) {
        ft_load_shared<8>(&i0_r[k3 * 4u], smem + u32((tx % 32u) * 512u + k3 * 128u + ((k2 * 4u + (tx / 64u)) ^ (tx % 8u)) * 16u + ((tx / 32u) % 2u) * 8u));
      }
      #pragma unroll
      for (Index k4 = 0u; k4 < 4u; ++k4) {
        alignas(16) u16 w0[4];
        #pragma unroll
        for (Index k5 = 0u; k5 < 4u; ++k5) {
          w0[k5] = i0_r[k5 * 4u + k4];
        }
        alignas(16) u16 v0_r[4];
        #pragma unroll
        for (Index k6 = 0u; k6 < 4u; ++k6) {
          v0_r[k6] = w0[k6];
        }
        ft_store_global_if<8, 0>(((bx % 5u) * 128u + (tx % 32u) * 4u) < 620u, v0 + (((((bx / 5u) % 24u) * 16u + k2 * 8u + (tx / 32u)) % 6u) * 2539520u + ((((bx / 5u) % 24u) * 512u + k2 * 256u + tx) / 192u) * 9920u + (bx / 120u) * 620u + (bx % 5u) * 128u + (tx % 32u) * 4u) + k4 * 634880u, &v0_r[0u]);
      }
    }
  }
}
