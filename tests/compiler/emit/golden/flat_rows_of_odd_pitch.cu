extern "C" __global__ void __launch_bounds__(64) fusetune_kernel(const u16* __restrict__ i0, const u16* __restrict__ i1, u16* __restrict__ v5) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 32u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 2u);
  if (7u < ((bx % 5u) * 256u + 1u) && ((bx % 5u) * 256u + 255u) < 1023u) {
    alignas(16) u16 i0_r[32];
    #pragma unroll
    for (Index k0 = 0u; k0 < 4u; ++k0) {
      ft_load_global<16, 0>(&i0_r[k0 * 8u], i0 + ::i32((bx / 20u) * 32736u + ((bx / 5u) % 4u) * 2046u + ty * 1023u + (bx % 5u) * 256u + tx * 8u - ((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u)) + k0 * 8184u);
    }
    alignas(16) u16 w1[8];
    #pragma unroll
    for (Index k3 = 0u; k3 < 8u; ++k3) {
      ft_load_global<2, 0>(&w1[k3], i1 + ::i32((bx % 5u) * 256u + tx * 8u - ((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u)) + k3);
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      alignas(16) float v4[8];
      #pragma unroll
      for (Index k2 = 0u; k2 < 8u; ++k2) {
        alignas(16) float v0[1];
        v0[0u] = ft_to_f32_bf16(i0_r, k1 * 8u + k2);
        alignas(16) float w2[1];
        w2[0u] = ft_to_f32_bf16(w1, k2);
        alignas(16) float v3[1];
        v3[0u] = ft_add(v0[0u], w2[0u]);
        v4[k2] = ft_gelu(v3[0u]);
      }
      alignas(16) u16 v5_r[8];
      ft_narrow_bf16<8>(&v5_r[0u], &v4[0u]);
      ft_store_global<16, 0>(v5 + ::i32((bx / 20u) * 32736u + ((bx / 5u) % 4u) * 2046u + ty * 1023u + (bx % 5u) * 256u + tx * 8u - ((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u)) + k1 * 8184u, &v5_r[0u]);
    }
  } else {
    alignas(16) u16 i0_r[32];
    #pragma unroll
    for (Index k0 = 0u; k0 < 4u; ++k0) {
      i0_r[k0 * 8u] = 0;
      i0_r[k0 * 8u + 1u] = 0;
      i0_r[k0 * 8u + 2u] = 0;
      i0_r[k0 * 8u + 3u] = 0;
      i0_r[k0 * 8u + 4u] = 0;
      i0_r[k0 * 8u + 5u] = 0;
      i0_r[k0 * 8u + 6u] = 0;
      i0_r[k0 * 8u + 7u] = 0;
      ft_load_global_if<16, 0>(((bx % 5u) * 256u + tx * 8u) < (((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u) + 1023u), &i0_r[k0 * 8u], i0 + ::i32((bx / 20u) * 32736u + ((bx / 5u) % 4u) * 2046u + ty * 1023u + (bx % 5u) * 256u + tx * 8u - ((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u)) + k0 * 8184u);
    }
    alignas(16) u16 w1[8];
    #pragma unroll
    for (Index k3 = 0u; k3 < 8u; ++k3) {
      w1[k3] = 0;
      ft_load_global_if<2, 0>(((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u) < ((bx % 5u) * 256u + tx * 8u + k3 + 1u) && ((bx % 5u) * 256u + tx * 8u + k3) < (((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u) + 1023u), &w1[k3], i1 + ::i32((bx % 5u) * 256u + tx * 8u - ((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u)) + k3);
    }
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      alignas(16) float v4[8];
      #pragma unroll
      for (Index k2 = 0u; k2 < 8u; ++k2) {
        alignas(16) float v0[1];
        v0[0u] = ft_to_f32_bf16(i0_r, k1 * 8u + k2);
        alignas(16) float w2[1];
        w2[0u] = ft_to_f32_bf16(w1, k2);
        alignas(16) float v3[1];
        v3[0u] = ft_add(v0[0u], w2[0u]);
        v4[k2] = ft_gelu(v3[0u]);
      }
      alignas(16) u16 v5_r[8];
      ft_narrow_bf16<8>(&v5_r[0u], &v4[0u]);
      if (((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u) < ((bx % 5u) * 256u + tx * 8u + 1u) && ((bx % 5u) * 256u + tx * 8u + 7u - ((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u)) < 1023u) {
        ft_store_global<16, 0>(v5 + ::i32((bx / 20u) * 32736u + ((bx / 5u) % 4u) * 2046u + ty * 1023u + (bx % 5u) * 256u + tx * 8u - ((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u)) + k1 * 8184u, &v5_r[0u]);
      } else {
        #pragma unroll
        for (Index lane = 0u; lane < 8u; ++lane) {
          ft_store_global_if<2, 0>(((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u) < ((bx % 5u) * 256u + tx * 8u + lane + 1u) && ((bx % 5u) * 256u + tx * 8u + lane) < (((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u) + 1023u), v5 + ::i32((bx / 20u) * 32736u + ((bx / 5u) % 4u) * 2046u + ty * 1023u + (bx % 5u) * 256u + tx * 8u - ((((bx / 5u) % 4u) * 2046u + ty * 1023u) % 8u)) + (k1 * 8184u + lane), &v5_r[lane]);
        }
      }
    }
  }
}
