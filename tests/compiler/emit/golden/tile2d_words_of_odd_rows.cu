extern "C" __global__ void __launch_bounds__(512) fusetune_kernel(const ::i8* __restrict__ i0, ::i8* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 512u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (((bx % 4u) * 256u + 255u) < 1003u && ((bx % 4u) * 131840u + (bx / 4u) * 128u + 131455u) < 516545u && ((bx / 4u) * 128u + 127u) < 515u) {
    alignas(16) ::i8 i0_g[64];
    #pragma unroll
    for (Index k0 = 0u; k0 < 16u; ++k0) {
      ft_load_global_both<4, 1, 0>(&i0_g[k0 * 4u], i0 + ::i32((bx % 4u) * 131840u + (tx / 32u) * 515u + (bx / 4u) * 128u + (tx % 32u) * 4u - (((tx / 32u) * 515u) % 4u)) + k0 * 8240u, (((tx / 32u) * 515u) % 4u));
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 16u; ++k1) {
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        ft_store_shared<1>(smem + u32(k1 * 2064u + (tx / 32u) * 129u + (tx % 32u) * 4u + k2), &i0_g[k1 * 4u + k2]);
      }
    }
    __syncthreads();
    #pragma unroll
    for (Index k3 = 0u; k3 < 24u; ++k3) {
      if ((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) < ((k3 % 3u) * 128u + (tx % 32u) * 4u + 1u) && ((k3 % 3u) * 128u + (tx % 32u) * 4u + 3u) < ((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) + 256u)) {
        alignas(16) ::i8 i0_r[4];
        #pragma unroll
        for (Index k4 = 0u; k4 < 4u; ++k4) {
          ft_load_shared<1>(&i0_r[k4], smem + u32(((k3 % 3u) * 128u + (tx % 32u) * 4u + k4 - (((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u)) * 129u + (k3 / 3u) * 16u + (tx / 32u)));
        }
        alignas(16) ::i8 w0[4];
        #pragma unroll
        for (Index k5 = 0u; k5 < 4u; ++k5) {
          w0[k5] = i0_r[k5];
        }
        alignas(16) ::i8 v0_r[4];
        #pragma unroll
        for (Index k6 = 0u; k6 < 4u; ++k6) {
          v0_r[k6] = w0[k6];
        }
        ft_store_global<4, 0>(v0 + ::i32((bx / 4u) * 128384u + (tx / 32u) * 1003u + (bx % 4u) * 256u + (tx % 32u) * 4u - (((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u)) + ((k3 / 3u) * 16048u + (k3 % 3u) * 128u), &v0_r[0u]);
      } else {
        alignas(16) ::i8 i0_r[4];
        #pragma unroll
        for (Index k4 = 0u; k4 < 4u; ++k4) {
          i0_r[k4] = static_cast<::i8>(0u);
          ft_load_shared_if<1>((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) < ((k3 % 3u) * 128u + (tx % 32u) * 4u + k4 + 1u) && ((k3 % 3u) * 128u + (tx % 32u) * 4u + k4) < ((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) + 256u), &i0_r[k4], smem + u32(((k3 % 3u) * 128u + (tx % 32u) * 4u + k4 - (((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u)) * 129u + (k3 / 3u) * 16u + (tx / 32u)));
        }
        alignas(16) ::i8 w0[4];
        #pragma unroll
        for (Index k5 = 0u; k5 < 4u; ++k5) {
          w0[k5] = i0_r[k5];
        }
        alignas(16) ::i8 v0_r[4];
        #pragma unroll
        for (Index k6 = 0u; k6 < 4u; ++k6) {
          v0_r[k6] = w0[k6];
        }
        #pragma unroll
        for (Index v0_lane = 0u; v0_lane < 4u; ++v0_lane) {
          ft_store_global_if<1, 0>((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) < ((k3 % 3u) * 128u + (tx % 32u) * 4u + v0_lane + 1u) && ((k3 % 3u) * 128u + (tx % 32u) * 4u + v0_lane) < ((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) + 256u), v0 + ::i32((bx / 4u) * 128384u + (tx / 32u) * 1003u + (bx % 4u) * 256u + (tx % 32u) * 4u - (((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u)) + ((k3 / 3u) * 16048u + (k3 % 3u) * 128u + v0_lane), &v0_r[v0_lane]);
        }
      }
    }
  } else {
    alignas(16) ::i8 i0_g[64];
    #pragma unroll
    for (Index k0 = 0u; k0 < 14u; ++k0) {
      ft_load_global_both<4, 1, 0>(&i0_g[k0 * 4u], i0 + ::i32((bx % 4u) * 131840u + (tx / 32u) * 515u + (bx / 4u) * 128u + (tx % 32u) * 4u - (((tx / 32u) * 515u) % 4u)) + k0 * 8240u, (((tx / 32u) * 515u) % 4u));
    }
    #pragma unroll
    for (Index k0 = 0u; k0 < 2u; ++k0) {
      i0_g[k0 * 4u + 56u] = 0;
      i0_g[k0 * 4u + 57u] = 0;
      i0_g[k0 * 4u + 58u] = 0;
      i0_g[k0 * 4u + 59u] = 0;
      if (!(((bx % 4u) * 256u + k0 * 16u + (tx / 32u) + 224u) < 1003u && ((bx % 4u) * 131840u + k0 * 8240u + (tx / 32u) * 515u + (bx / 4u) * 128u + (tx % 32u) * 4u + 115366u) < 516545u)) {
        #pragma unroll
        for (Index i0_g_lane = 0u; i0_g_lane < 4u; ++i0_g_lane) {
          ft_load_global_if<1, 0>(((bx % 4u) * 256u + k0 * 16u + (tx / 32u) + 224u) < 1003u && ((bx / 4u) * 128u + (tx % 32u) * 4u + i0_g_lane) < 515u, &i0_g[k0 * 4u + i0_g_lane + 56u], i0 + ((bx % 4u) * 131840u + (tx / 32u) * 515u + (bx / 4u) * 128u + (tx % 32u) * 4u) + (k0 * 8240u + i0_g_lane + 115360u));
        }
      }
      ft_load_global_both_if<4, 1, 0>(((bx % 4u) * 256u + k0 * 16u + (tx / 32u) + 224u) < 1003u && ((bx % 4u) * 131840u + k0 * 8240u + (tx / 32u) * 515u + (bx / 4u) * 128u + (tx % 32u) * 4u + 115366u) < 516545u, &i0_g[k0 * 4u + 56u], i0 + ::i32((bx % 4u) * 131840u + (tx / 32u) * 515u + (bx / 4u) * 128u + (tx % 32u) * 4u - (((tx / 32u) * 515u) % 4u)) + (k0 * 8240u + 115360u), (((tx / 32u) * 515u) % 4u));
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 16u; ++k1) {
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        ft_store_shared<1>(smem + u32(k1 * 2064u + (tx / 32u) * 129u + (tx % 32u) * 4u + k2), &i0_g[k1 * 4u + k2]);
      }
    }
    __syncthreads();
    #pragma unroll
    for (Index k3 = 0u; k3 < 24u; ++k3) {
      if ((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) < ((k3 % 3u) * 128u + (tx % 32u) * 4u + 1u) && ((k3 % 3u) * 128u + (tx % 32u) * 4u + 3u) < ((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) + 256u) && ((bx % 4u) * 256u + ((k3 % 3u) * 128u + (tx % 32u) * 4u + 3u - (((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u))) < 1003u && ((bx / 4u) * 128u + (k3 / 3u) * 16u + (tx / 32u)) < 515u) {
        alignas(16) ::i8 i0_r[4];
        #pragma unroll
        for (Index k4 = 0u; k4 < 4u; ++k4) {
          ft_load_shared<1>(&i0_r[k4], smem + u32(((k3 % 3u) * 128u + (tx % 32u) * 4u + k4 - (((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u)) * 129u + (k3 / 3u) * 16u + (tx / 32u)));
        }
        alignas(16) ::i8 w0[4];
        #pragma unroll
        for (Index k5 = 0u; k5 < 4u; ++k5) {
          w0[k5] = i0_r[k5];
        }
        alignas(16) ::i8 v0_r[4];
        #pragma unroll
        for (Index k6 = 0u; k6 < 4u; ++k6) {
          v0_r[k6] = w0[k6];
        }
        ft_store_global<4, 0>(v0 + ::i32((bx / 4u) * 128384u + (tx / 32u) * 1003u + (bx % 4u) * 256u + (tx % 32u) * 4u - (((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u)) + ((k3 / 3u) * 16048u + (k3 % 3u) * 128u), &v0_r[0u]);
      } else {
        alignas(16) ::i8 i0_r[4];
        #pragma unroll
        for (Index k4 = 0u; k4 < 4u; ++k4) {
          i0_r[k4] = static_cast<::i8>(0u);
          ft_load_shared_if<1>((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) < ((k3 % 3u) * 128u + (tx % 32u) * 4u + k4 + 1u) && ((k3 % 3u) * 128u + (tx % 32u) * 4u + k4) < ((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) + 256u), &i0_r[k4], smem + u32(((k3 % 3u) * 128u + (tx % 32u) * 4u + k4 - (((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u)) * 129u + (k3 / 3u) * 16u + (tx / 32u)));
        }
        alignas(16) ::i8 w0[4];
        #pragma unroll
        for (Index k5 = 0u; k5 < 4u; ++k5) {
          w0[k5] = i0_r[k5];
        }
        alignas(16) ::i8 v0_r[4];
        #pragma unroll
        for (Index k6 = 0u; k6 < 4u; ++k6) {
          v0_r[k6] = w0[k6];
        }
        #pragma unroll
        for (Index v0_lane = 0u; v0_lane < 4u; ++v0_lane) {
          ft_store_global_if<1, 0>((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) < ((k3 % 3u) * 128u + (tx % 32u) * 4u + v0_lane + 1u) && ((k3 % 3u) * 128u + (tx % 32u) * 4u + v0_lane) < ((((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u) + 256u) && ((bx % 4u) * 256u + ((k3 % 3u) * 128u + (tx % 32u) * 4u + v0_lane - (((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u))) < 1003u && ((bx / 4u) * 128u + (k3 / 3u) * 16u + (tx / 32u)) < 515u, v0 + ::i32((bx / 4u) * 128384u + (tx / 32u) * 1003u + (bx % 4u) * 256u + (tx % 32u) * 4u - (((k3 / 3u) * 176u + (tx / 32u) * 11u) % 32u)) + ((k3 / 3u) * 16048u + (k3 % 3u) * 128u + v0_lane), &v0_r[v0_lane]);
        }
      }
    }
  }
}
