extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, const u16* __restrict__ i1, u16* __restrict__ v5) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 32u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 4u);
  alignas(16) u16 i0_r[16];
  #pragma unroll
  for (Index k0 = 0u; k0 < 2u; ++k0) {
    ft_load_global<16, 0>(&i0_r[k0 * 8u], i0 + ((bx / 4u) * 8192u + ty * 2048u + (bx % 4u) * 256u + tx * 8u) + k0 * 1024u);
  }
  alignas(16) u16 w1[8];
  ft_load_global<16, 0>(&w1[0u], i1 + ((bx % 4u) * 256u + tx * 8u));
  #pragma unroll
  for (Index k1 = 0u; k1 < 2u; ++k1) {
    alignas(16) float v4[8];
    #pragma unroll
    for (Index k2 = 0u; k2 < 8u; ++k2) {
      alignas(16) float v0[1];
      v0[0u] = ft_to_f32_bf16(i0_r, k1 * 8u + k2);
      alignas(16) float w2[1];
      w2[0u] = ft_to_f32_bf16(w1, k2);
      alignas(16) float v3[1];
      v3[0u] = ft_add(v0[0u], w2[0u]);
      v4[k2] = ft_gelu_coarse(v3[0u]);
    }
    alignas(16) u16 v5_r[8];
    ft_narrow_bf16<8>(&v5_r[0u], &v4[0u]);
    ft_store_global<16, 0>(v5 + ((bx / 4u) * 8192u + ty * 2048u + (bx % 4u) * 256u + tx * 8u) + k1 * 1024u, &v5_r[0u]);
  }
}
