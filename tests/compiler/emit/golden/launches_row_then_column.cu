extern "C" __global__ void __launch_bounds__(128) fusetune_kernel_0(const float* __restrict__ i0, float* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 32u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 4u);
  alignas(16) float i0_r[4];
  #pragma unroll
  for (Index k0 = 0u; k0 < 2u; ++k0) {
    i0_r[k0 * 2u] = 0.0f;
    i0_r[k0 * 2u + 1u] = 0.0f;
    ft_load_global_if<8, 0>((k0 * 32u + tx) < 48u, &i0_r[k0 * 2u], i0 + (bx * 384u + ty * 96u + tx * 2u) + k0 * 64u);
  }
  alignas(16) float v0_sum[1];
  v0_sum[0u] = 0.0f;
  #pragma unroll
  for (Index k1 = 0u; k1 < 2u; ++k1) {
    {
      const float v0_sum_before = v0_sum[0u];
      #pragma unroll
      for (Index k2 = 0u; k2 < 2u; ++k2) {
        v0_sum[0u] = ft_fold_sum_f32(v0_sum[0u], i0_r[k1 * 2u + k2]);
      }
      v0_sum[0u] = ((k1 * 32u + tx) < 48u) ? v0_sum[0u] : v0_sum_before;
    }
  }
  #pragma unroll
  for (u32 distance = 1u; distance <= 16u; distance *= 2u) {
    v0_sum[0u] = ft_fold_sum_f32(v0_sum[0u], ft_shuffle_xor(v0_sum[0u], distance, 0xffffffffu));
  }
  alignas(16) float v0_r[1];
  v0_r[0u] = v0_sum[0u];
  if (tx == 0u) {
    ft_store_global<4, 0>(v0 + (bx * 4u + ty), &v0_r[0u]);
  }
}

extern "C" __global__ void __launch_bounds__(64) fusetune_kernel_1(const float* __restrict__ i0, const float* __restrict__ i1, float* __restrict__ v2) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 8u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 8u);
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) float v2_amax[4];
  #pragma unroll
  for (Index element = 0u; element < 4u; ++element) {
    v2_amax[element] = __uint_as_float(0xff800000u);
  }
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    alignas(16) float w0[2];
    #pragma unroll
    for (Index k1 = 0u; k1 < 2u; ++k1) {
      ft_load_global<4, 0>(&w0[k1], i1 + (k0 * 16u + ty) + k1 * 8u);
    }
    alignas(16) float i0_r[8];
    #pragma unroll
    for (Index k2 = 0u; k2 < 2u; ++k2) {
      ft_load_global<16, 0>(&i0_r[k2 * 4u], i0 + (k0 * 1536u + ty * 96u + bx * 32u + tx * 4u) + k2 * 768u);
    }
    #pragma unroll
    for (Index k3 = 0u; k3 < 2u; ++k3) {
      #pragma unroll
      for (Index k4 = 0u; k4 < 4u; ++k4) {
        alignas(16) float v1[1];
        v1[0u] = ft_div(i0_r[k3 * 4u + k4], w0[k3]);
        v2_amax[k4] = ft_fold_amax_f32(v2_amax[k4], v1[0u]);
      }
    }
  }
  #pragma unroll
  for (u32 distance = 8u; distance <= 16u; distance *= 2u) {
    #pragma unroll
    for (Index element = 0u; element < 4u; ++element) {
      v2_amax[element] = ft_fold_amax_f32(v2_amax[element], ft_shuffle_xor(v2_amax[element], distance, 0xffffffffu));
    }
  }
  if ((ty % 4u) == 0u) {
    ft_store_shared<16>(smem + u32((ty / 4u) * 128u + tx * 16u), &v2_amax[0u]);
  }
  __syncthreads();
  if (ty == 0u) {
    alignas(16) float v2_amax_p[8];
    #pragma unroll
    for (Index slot = 0u; slot < 2u; ++slot) {
      ft_load_shared<16>(&v2_amax_p[slot * 4u], smem + u32(slot * 128u + tx * 16u));
    }
    #pragma unroll
    for (Index element = 0u; element < 4u; ++element) {
      v2_amax[element] = v2_amax_p[element];
    }
    #pragma unroll
    for (Index element = 0u; element < 4u; ++element) {
      v2_amax[element] = ft_fold_amax_f32(v2_amax[element], v2_amax_p[element + 4u]);
    }
    ft_store_global<16, 0>(v2 + (bx * 32u + tx * 4u), &v2_amax[0u]);
  }
}
