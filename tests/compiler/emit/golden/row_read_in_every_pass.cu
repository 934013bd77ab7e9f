extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const float* __restrict__ i0, float* __restrict__ v6) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) float v0_amax[1];
  v0_amax[0u] = __uint_as_float(0xff800000u);
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 20u; ++k0) {
    if ((k0 * 512u + 511u) < 10001u) {
      alignas(16) float i0_r[8];
      #pragma unroll
      for (Index k1 = 0u; k1 < 2u; ++k1) {
        ft_load_global<16, 0>(&i0_r[k1 * 4u], i0 + (bx * 40004u + k0 * 2048u + tx * 4u) + k1 * 1024u);
      }
      #pragma unroll
      for (Index k6 = 0u; k6 < 2u; ++k6) {
        #pragma unroll
        for (Index k7 = 0u; k7 < 4u; ++k7) {
          v0_amax[0u] = ft_fold_amax_f32(v0_amax[0u], i0_r[k6 * 4u + k7]);
        }
      }
    } else {
      alignas(16) float i0_r[8];
      #pragma unroll
      for (Index k1 = 0u; k1 < 2u; ++k1) {
        i0_r[k1 * 4u] = 0.0f;
        i0_r[k1 * 4u + 1u] = 0.0f;
        i0_r[k1 * 4u + 2u] = 0.0f;
        i0_r[k1 * 4u + 3u] = 0.0f;
        ft_load_global_if<16, 0>((k0 * 512u + k1 * 256u + tx) < 10001u, &i0_r[k1 * 4u], i0 + (bx * 40004u + k0 * 2048u + tx * 4u) + k1 * 1024u);
      }
      #pragma unroll
      for (Index k6 = 0u; k6 < 2u; ++k6) {
        {
          const float v0_amax_before = v0_amax[0u];
          #pragma unroll
          for (Index k7 = 0u; k7 < 4u; ++k7) {
            v0_amax[0u] = ft_fold_amax_f32(v0_amax[0u], i0_r[k6 * 4u + k7]);
          }
          v0_amax[0u] = ((k0 * 512u + k6 * 256u + tx) < 10001u) ? v0_amax[0u] : v0_amax_before;
        }
      }
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v0_amax[0u] = ft_fold_amax_f32(v0_amax[0u], ft_shuffle_xor(v0_amax[0u], distance, 0xffffffffu));
  }
  if ((tx % 32u) == 0u) {
    ft_store_shared<4>(smem + u32((tx / 32u) * 4u), &v0_amax[0u]);
  }
  __syncthreads();
  alignas(16) float v0_amax_p[8];
  #pragma unroll
  for (Index slot = 0u; slot < 2u; ++slot) {
    ft_load_shared<16>(&v0_amax_p[slot * 4u], smem + u32(slot * 16u));
  }
  v0_amax[0u] = v0_amax_p[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 7u; ++slot) {
    v0_amax[0u] = ft_fold_amax_f32(v0_amax[0u], v0_amax_p[slot + 1u]);
  }
  alignas(16) float w1[1];
  w1[0u] = v0_amax[0u];
  alignas(16) float v4_sum[1];
  v4_sum[0u] = 0.0f;
  #pragma unroll 1
  for (Index k4 = 0u; k4 < 20u; ++k4) {
    if ((k4 * 512u + 511u) < 10001u) {
      alignas(16) float i0_r_p1[8];
      #pragma unroll
      for (Index k5 = 0u; k5 < 2u; ++k5) {
        ft_load_global<16, 0>(&i0_r_p1[k5 * 4u], i0 + (bx * 40004u + k4 * 2048u + tx * 4u) + k5 * 1024u);
      }
      #pragma unroll
      for (Index k8 = 0u; k8 < 2u; ++k8) {
        #pragma unroll
        for (Index k9 = 0u; k9 < 4u; ++k9) {
          alignas(16) float v2[1];
          v2[0u] = ft_sub(i0_r_p1[k8 * 4u + k9], w1[0u]);
          alignas(16) float v3[1];
          v3[0u] = ft_exp(v2[0u]);
          v4_sum[0u] = ft_fold_sum_f32(v4_sum[0u], v3[0u]);
        }
      }
    } else {
      alignas(16) float i0_r_p1[8];
      #pragma unroll
      for (Index k5 = 0u; k5 < 2u; ++k5) {
        i0_r_p1[k5 * 4u] = 0.0f;
        i0_r_p1[k5 * 4u + 1u] = 0.0f;
        i0_r_p1[k5 * 4u + 2u] = 0.0f;
        i0_r_p1[k5 * 4u + 3u] = 0.0f;
        ft_load_global_if<16, 0>((k4 * 512u + k5 * 256u + tx) < 10001u, &i0_r_p1[k5 * 4u], i0 + (bx * 40004u + k4 * 2048u + tx * 4u) + k5 * 1024u);
      }
      #pragma unroll
      for (Index k8 = 0u; k8 < 2u; ++k8) {
        {
          const float v4_sum_before = v4_sum[0u];
          #pragma unroll
          for (Index k9 = 0u; k9 < 4u; ++k9) {
            alignas(16) float v2[1];
            v2[0u] = ft_sub(i0_r_p1[k8 * 4u + k9], w1[0u]);
            alignas(16) float v3[1];
            v3[0u] = ft_exp(v2[0u]);
            v4_sum[0u] = ft_fold_sum_f32(v4_sum[0u], v3[0u]);
          }
          v4_sum[0u] = ((k4 * 512u + k8 * 256u + tx) < 10001u) ? v4_sum[0u] : v4_sum_before;
        }
      }
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v4_sum[0u] = ft_fold_sum_f32(v4_sum[0u], ft_shuffle_xor(v4_sum[0u], distance, 0xffffffffu));
  }
  if ((tx % 32u) == 0u) {
    ft_store_shared<4>(smem + u32((tx / 32u) * 4u + 32u), &v4_sum[0u]);
  }
  __syncthreads();
  alignas(16) float v4_sum_p[8];
  #pragma unroll
  for (Index slot = 0u; slot < 2u; ++slot) {
    ft_load_shared<16>(&v4_sum_p[slot * 4u], smem + u32(slot * 16u + 32u));
  }
  v4_sum[0u] = v4_sum_p[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 7u; ++slot) {
    v4_sum[0u] = ft_fold_sum_f32(v4_sum[0u], v4_sum_p[slot + 1u]);
  }
  alignas(16) float w5[1];
  w5[0u] = v4_sum[0u];
  #pragma unroll 1
  for (Index k2 = 0u; k2 < 20u; ++k2) {
    if ((k2 * 512u + 511u) < 10001u) {
      alignas(16) float i0_r_p2[8];
      #pragma unroll
      for (Index k3 = 0u; k3 < 2u; ++k3) {
        ft_load_global<16, 0>(&i0_r_p2[k3 * 4u], i0 + (bx * 40004u + k2 * 2048u + tx * 4u) + k3 * 1024u);
      }
      #pragma unroll
      for (Index k10 = 0u; k10 < 2u; ++k10) {
        alignas(16) float v3_p2[4];
        #pragma unroll
        for (Index k11 = 0u; k11 < 4u; ++k11) {
          alignas(16) float v2_p2[1];
          v2_p2[0u] = ft_sub(i0_r_p2[k10 * 4u + k11], w1[0u]);
          v3_p2[k11] = ft_exp(v2_p2[0u]);
        }
        alignas(16) float v6_r[4];
        #pragma unroll
        for (Index k12 = 0u; k12 < 4u; ++k12) {
          v6_r[k12] = ft_div(v3_p2[k12], w5[0u]);
        }
        ft_store_global<16, 0>(v6 + (bx * 40004u + k2 * 2048u + tx * 4u) + k10 * 1024u, &v6_r[0u]);
      }
    } else {
      alignas(16) float i0_r_p2[8];
      #pragma unroll
      for (Index k3 = 0u; k3 < 2u; ++k3) {
        i0_r_p2[k3 * 4u] = 0.0f;
        i0_r_p2[k3 * 4u + 1u] = 0.0f;
        i0_r_p2[k3 * 4u + 2u] = 0.0f;
        i0_r_p2[k3 * 4u + 3u] = 0.0f;
        ft_load_global_if<16, 0>((k2 * 512u + k3 * 256u + tx) < 10001u, &i0_r_p2[k3 * 4u], i0 + (bx * 40004u + k2 * 2048u + tx * 4u) + k3 * 1024u);
      }
      #pragma unroll
      for (Index k10 = 0u; k10 < 2u; ++k10) {
        alignas(16) float v3_p2[4];
        #pragma unroll
        for (Index k11 = 0u; k11 < 4u; ++k11) {
          alignas(16) float v2_p2[1];
          v2_p2[0u] = ft_sub(i0_r_p2[k10 * 4u + k11], w1[0u]);
          v3_p2[k11] = ft_exp(v2_p2[0u]);
        }
        alignas(16) float v6_r[4];
        #pragma unroll
        for (Index k12 = 0u; k12 < 4u; ++k12) {
          v6_r[k12] = ft_div(v3_p2[k12], w5[0u]);
        }
        ft_store_global_if<16, 0>((k2 * 512u + k10 * 256u + tx) < 10001u, v6 + (bx * 40004u + k2 * 2048u + tx * 4u) + k10 * 1024u, &v6_r[0u]);
      }
    }
  }
}
