extern "C" __global__ void __launch_bounds__(64) fusetune_kernel(u16* __restrict__ v8, const __grid_constant__ TensorMap map_i0_s) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 4u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 16u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_i0_s);
    ft_mbarrier_init(smem + 16384u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(16384u), 16384u);
    #pragma unroll
    for (Index k0 = 0u; k0 < 4u; ++k0) {
      ft_tma_load_3d(smem + u32(k0 * 4096u), &map_i0_s, smem + u32(16384u), ::i32((bx % 4u) * 32u), ::i32(k0 * 64u), ::i32((bx / 4u)));
    }
  }
  ft_mbarrier_wait(smem + u32(16384u), 0u);
  alignas(16) u16 v1_amax[8];
  #pragma unroll
  for (Index element = 0u; element < 8u; ++element) {
    v1_amax[element] = 0xff80u;
  }
  #pragma unroll 1
  for (Index k1 = 0u; k1 < 4u; ++k1) {
    if ((k1 * 64u + 63u) < 200u) {
      alignas(16) u16 i0_r[32];
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        ft_load_shared<16>(&i0_r[k2 * 8u], smem + u32(k1 * 4096u + k2 * 1024u + ty * 64u + tx * 16u));
      }
      #pragma unroll
      for (Index k9 = 0u; k9 < 4u; ++k9) {
        #pragma unroll
        for (Index k10 = 0u; k10 < 8u; ++k10) {
          v1_amax[k10] = ft_fold_amax_bf16(v1_amax[k10], i0_r[k9 * 8u + k10]);
        }
      }
    } else {
      alignas(16) u16 i0_r[32];
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        ft_load_shared<16>(&i0_r[k2 * 8u], smem + u32(k1 * 4096u + k2 * 1024u + ty * 64u + tx * 16u));
      }
      #pragma unroll
      for (Index k9 = 0u; k9 < 4u; ++k9) {
        if ((k1 * 64u + k9 * 16u + ty) < 200u) {
          #pragma unroll
          for (Index k10 = 0u; k10 < 8u; ++k10) {
            v1_amax[k10] = ft_fold_amax_bf16(v1_amax[k10], i0_r[k9 * 8u + k10]);
          }
        }
      }
    }
  }
  #pragma unroll
  for (u32 distance = 4u; distance <= 16u; distance *= 2u) {
    #pragma unroll
    for (Index element = 0u; element < 8u; ++element) {
      v1_amax[element] = ft_fold_amax_bf16(v1_amax[element], ft_shuffle_xor(v1_amax[element], distance, 0xffffffffu));
    }
  }
  if ((ty % 8u) == 0u) {
    ft_store_shared<16>(smem + u32((ty / 8u) * 64u + tx * 16u + 16400u), &v1_amax[0u]);
  }
  __syncthreads();
  alignas(16) u16 v1_amax_p[16];
  #pragma unroll
  for (Index slot = 0u; slot < 2u; ++slot) {
    ft_load_shared<16>(&v1_amax_p[slot * 8u], smem + u32(slot * 64u + tx * 16u + 16400u));
  }
  #pragma unroll
  for (Index element = 0u; element < 8u; ++element) {
    v1_amax[element] = v1_amax_p[element];
  }
  #pragma unroll
  for (Index element = 0u; element < 8u; ++element) {
    v1_amax[element] = ft_fold_amax_bf16(v1_amax[element], v1_amax_p[element + 8u]);
  }
  alignas(16) u16 w2[8];
  #pragma unroll
  for (Index k11 = 0u; k11 < 8u; ++k11) {
    w2[k11] = v1_amax[k11];
  }
  alignas(16) float w3[8];
  #pragma unroll
  for (Index k12 = 0u; k12 < 8u; ++k12) {
    w3[k12] = ft_to_f32_bf16(w2, k12);
  }
  alignas(16) float v5_sum[8];
  #pragma unroll
  for (Index element = 0u; element < 8u; ++element) {
    v5_sum[element] = 0.0f;
  }
  #pragma unroll 1
  for (Index k5 = 0u; k5 < 4u; ++k5) {
    if ((k5 * 64u + 63u) < 200u) {
      alignas(16) u16 i0_r_1[32];
      #pragma unroll
      for (Index k6 = 0u; k6 < 4u; ++k6) {
        ft_load_shared<16>(&i0_r_1[k6 * 8u], smem + u32(k5 * 4096u + k6 * 1024u + ty * 64u + tx * 16u));
      }
      #pragma unroll
      for (Index k7 = 0u; k7 < 4u; ++k7) {
        alignas(16) float v0[8];
        ft_widen_bf16<8>(&v0[0u], &i0_r_1[k7 * 8u]);
        #pragma unroll
        for (Index k13 = 0u; k13 < 8u; ++k13) {
          alignas(16) float v3[1];
          v3[0u] = ft_sub(v0[k13], w3[k13]);
          alignas(16) float v4[1];
          v4[0u] = ft_exp_approx(v3[0u]);
          v5_sum[k13] = ft_fold_sum_f32(v5_sum[k13], v4[0u]);
        }
      }
    } else {
      alignas(16) u16 i0_r_1[32];
      #pragma unroll
      for (Index k6 = 0u; k6 < 4u; ++k6) {
        ft_load_shared<16>(&i0_r_1[k6 * 8u], smem + u32(k5 * 4096u + k6 * 1024u + ty * 64u + tx * 16u));
      }
      #pragma unroll
      for (Index k7 = 0u; k7 < 4u; ++k7) {
        alignas(16) float v0[8];
        ft_widen_bf16<8>(&v0[0u], &i0_r_1[k7 * 8u]);
        if ((k5 * 64u + k7 * 16u + ty) < 200u) {
          #pragma unroll
          for (Index k13 = 0u; k13 < 8u; ++k13) {
            alignas(16) float v3[1];
            v3[0u] = ft_sub(v0[k13], w3[k13]);
            alignas(16) float v4[1];
            v4[0u] = ft_exp_approx(v3[0u]);
            v5_sum[k13] = ft_fold_sum_f32(v5_sum[k13], v4[0u]);
          }
        }
      }
    }
  }
  #pragma unroll
  for (u32 distance = 4u; distance <= 16u; distance *= 2u) {
    #pragma unroll
    for (Index element = 0u; element < 8u; ++element) {
      v5_sum[element] = ft_fold_sum_f32(v5_sum[element], ft_shuffle_xor(v5_sum[element], distance, 0xffffffffu));
    }
  }
  if ((ty % 8u) == 0u) {
    #pragma unroll
    for (Index word = 0u; word < 2u; ++word) {
      ft_store_shared<16>(smem + u32((ty / 8u) * 128u + tx * 32u + word * 16u + 16528u), &v5_sum[word * 4u]);
    }
  }
  __syncthreads();
  alignas(16) float v5_sum_p[16];
  #pragma unroll
  for (Index slot = 0u; slot < 2u; ++slot) {
    #pragma unroll
    for (Index word = 0u; word < 2u; ++word) {
      ft_load_shared<16>(&v5_sum_p[slot * 8u + word * 4u], smem + u32(slot * 128u + tx * 32u + word * 16u + 16528u));
    }
  }
  #pragma unroll
  for (Index element = 0u; element < 8u; ++element) {
    v5_sum[element] = v5_sum_p[element];
  }
  #pragma unroll
  for (Index element = 0u; element < 8u; ++element) {
    v5_sum[element] = ft_fold_sum_f32(v5_sum[element], v5_sum_p[element + 8u]);
  }
  alignas(16) float w7[8];
  #pragma unroll
  for (Index k15 = 0u; k15 < 8u; ++k15) {
    w7[k15] = v5_sum[k15];
  }
  #pragma unroll 1
  for (Index k3 = 0u; k3 < 4u; ++k3) {
    if ((k3 * 64u + 63u) < 200u) {
      alignas(16) u16 i0_r_2[32];
      #pragma unroll
      for (Index k4 = 0u; k4 < 4u; ++k4) {
        ft_load_shared<16>(&i0_r_2[k4 * 8u], smem + u32(k3 * 4096u + k4 * 1024u + ty * 64u + tx * 16u));
      }
      #pragma unroll
      for (Index k8 = 0u; k8 < 4u; ++k8) {
        alignas(16) float v0_2[8];
        ft_widen_bf16<8>(&v0_2[0u], &i0_r_2[k8 * 8u]);
        alignas(16) float v7[8];
        #pragma unroll
        for (Index k14 = 0u; k14 < 8u; ++k14) {
          alignas(16) float v3_2[1];
          v3_2[0u] = ft_sub(v0_2[k14], w3[k14]);
          alignas(16) float v4_2[1];
          v4_2[0u] = ft_exp_approx(v3_2[0u]);
          v7[k14] = ft_div_approx(v4_2[0u], w7[k14]);
        }
        alignas(16) u16 v8_r[8];
        ft_narrow_bf16<8>(&v8_r[0u], &v7[0u]);
        ft_store_global<16, 0>(v8 + ((bx / 4u) * 25600u + k3 * 8192u + ty * 128u + (bx % 4u) * 32u + tx * 8u) + k8 * 2048u, &v8_r[0u]);
      }
    } else {
      alignas(16) u16 i0_r_2[32];
      #pragma unroll
      for (Index k4 = 0u; k4 < 4u; ++k4) {
        ft_load_shared<16>(&i0_r_2[k4 * 8u], smem + u32(k3 * 4096u + k4 * 1024u + ty * 64u + tx * 16u));
      }
      #pragma unroll
      for (Index k8 = 0u; k8 < 4u; ++k8) {
        alignas(16) float v0_2[8];
        ft_widen_bf16<8>(&v0_2[0u], &i0_r_2[k8 * 8u]);
        alignas(16) float v7[8];
        #pragma unroll
        for (Index k14 = 0u; k14 < 8u; ++k14) {
          alignas(16) float v3_2[1];
          v3_2[0u] = ft_sub(v0_2[k14], w3[k14]);
          alignas(16) float v4_2[1];
          v4_2[0u] = ft_exp_approx(v3_2[0u]);
          v7[k14] = ft_div_approx(v4_2[0u], w7[k14]);
        }
        alignas(16) u16 v8_r[8];
        ft_narrow_bf16<8>(&v8_r[0u], &v7[0u]);
        ft_store_global_if<16, 0>((k3 * 64u + k8 * 16u + ty) < 200u, v8 + ((bx / 4u) * 25600u + k3 * 8192u + ty * 128u + (bx % 4u) * 32u + tx * 8u) + k8 * 2048u, &v8_r[0u]);
      }
    }
  }
}
