extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const u16* __restrict__ i0, float* __restrict__ v1) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 16u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 16u);
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) float v1_sum[8];
  #pragma unroll
  for (Index element = 0u; element < 8u; ++element) {
    v1_sum[element] = 0.0f;
  }
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 5u; ++k0) {
    if ((k0 * 64u + 63u) < 300u && (k0 * 65472u + bx * 128u + 64583u) < 306900u) {
      alignas(16) u16 i0_r[32];
      #pragma unroll
      for (Index k1 = 0u; k1 < 4u; ++k1) {
        ft_load_global_both<16, 2, 0>(&i0_r[k1 * 8u], i0 + ::i32(k0 * 65472u + ty * 1023u + bx * 128u + tx * 8u - ((ty * 1023u) % 8u)) + k1 * 16368u, ((ty * 1023u) % 8u));
      }
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        alignas(16) float v0[8];
        ft_widen_bf16<8>(&v0[0u], &i0_r[k2 * 8u]);
        #pragma unroll
        for (Index k3 = 0u; k3 < 8u; ++k3) {
          v1_sum[k3] = ft_fold_sum_f32(v1_sum[k3], v0[k3]);
        }
      }
    } else {
      alignas(16) u16 i0_r[32];
      #pragma unroll
      for (Index k1 = 0u; k1 < 2u; ++k1) {
        ft_load_global_both<16, 2, 0>(&i0_r[k1 * 8u], i0 + ::i32(k0 * 65472u + ty * 1023u + bx * 128u + tx * 8u - ((ty * 1023u) % 8u)) + k1 * 16368u, ((ty * 1023u) % 8u));
      }
      #pragma unroll
      for (Index k1 = 0u; k1 < 2u; ++k1) {
        i0_r[k1 * 8u + 16u] = 0;
        i0_r[k1 * 8u + 17u] = 0;
        i0_r[k1 * 8u + 18u] = 0;
        i0_r[k1 * 8u + 19u] = 0;
        i0_r[k1 * 8u + 20u] = 0;
        i0_r[k1 * 8u + 21u] = 0;
        i0_r[k1 * 8u + 22u] = 0;
        i0_r[k1 * 8u + 23u] = 0;
        if (!((k0 * 64u + k1 * 16u + ty + 32u) < 300u && (k0 * 65472u + k1 * 16368u + ty * 1023u + bx * 128u + tx * 8u + 32750u) < 306900u)) {
          #pragma unroll
          for (Index i0_r_lane = 0u; i0_r_lane < 8u; ++i0_r_lane) {
            ft_load_global_if<2, 0>((bx * 128u + tx * 8u + i0_r_lane) < 1023u && (k0 * 64u + k1 * 16u + ty + 32u) < 300u, &i0_r[k1 * 8u + i0_r_lane + 16u], i0 + (k0 * 65472u + ty * 1023u + bx * 128u + tx * 8u) + (k1 * 16368u + i0_r_lane + 32736u));
          }
        }
        ft_load_global_both_if<16, 2, 0>((k0 * 64u + k1 * 16u + ty + 32u) < 300u && (k0 * 65472u + k1 * 16368u + ty * 1023u + bx * 128u + tx * 8u + 32750u) < 306900u, &i0_r[k1 * 8u + 16u], i0 + ::i32(k0 * 65472u + ty * 1023u + bx * 128u + tx * 8u - ((ty * 1023u) % 8u)) + (k1 * 16368u + 32736u), ((ty * 1023u) % 8u));
      }
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        alignas(16) float v0[8];
        ft_widen_bf16<8>(&v0[0u], &i0_r[k2 * 8u]);
        if ((k0 * 64u + k2 * 16u + ty) < 300u) {
          #pragma unroll
          for (Index k3 = 0u; k3 < 8u; ++k3) {
            v1_sum[k3] = ft_fold_sum_f32(v1_sum[k3], v0[k3]);
          }
        }
      }
    }
  }
  #pragma unroll
  for (Index element = 0u; element < 8u; ++element) {
    v1_sum[element] = ft_fold_sum_f32(v1_sum[element], ft_shuffle_xor(v1_sum[element], 16u, 0xffffffffu));
  }
  if ((ty % 2u) == 0u) {
    #pragma unroll
    for (Index word = 0u; word < 2u; ++word) {
      ft_store_shared<16>(smem + u32((ty / 2u) * 512u + tx * 32u + word * 16u), &v1_sum[word * 4u]);
    }
  }
  __syncthreads();
  if ((ty * 16u + tx) < 128u) {
    alignas(16) float v1_sum_s0[8];
    alignas(16) float v1_sum_s0_total[1];
    #pragma unroll
    for (Index slot = 0u; slot < 8u; ++slot) {
      ft_load_shared<4>(&v1_sum_s0[slot], smem + u32(slot * 512u + ty * 64u + tx * 4u));
    }
    v1_sum_s0_total[0u] = v1_sum_s0[0u];
    #pragma unroll
    for (Index slot = 0u; slot < 7u; ++slot) {
      v1_sum_s0_total[0u] = ft_fold_sum_f32(v1_sum_s0_total[0u], v1_sum_s0[slot + 1u]);
    }
    ft_store_shared<4>(smem + u32(ty * 64u + tx * 4u), &v1_sum_s0_total[0u]);
  }
  __syncthreads();
  if (ty == 0u) {
    #pragma unroll
    for (Index word = 0u; word < 2u; ++word) {
      ft_load_shared<16>(&v1_sum[word * 4u], smem + u32(tx * 32u + word * 16u));
    }
    #pragma unroll
    for (Index k4 = 0u; k4 < 2u; ++k4) {
      if ((bx * 128u + tx * 8u + k4 * 4u + 3u) < 1023u) {
        ft_store_global<16, 0>(v1 + (bx * 128u + tx * 8u) + k4 * 4u, &v1_sum[k4 * 4u]);
      } else {
        #pragma unroll
        for (Index lane = 0u; lane < 4u; ++lane) {
          ft_store_global_if<4, 0>((bx * 128u + tx * 8u + k4 * 4u + lane) < 1023u, v1 + (bx * 128u + tx * 8u) + (k4 * 4u + lane), &v1_sum[k4 * 4u + lane]);
        }
      }
    }
  }
}
