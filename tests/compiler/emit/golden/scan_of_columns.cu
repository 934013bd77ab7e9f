extern "C" __global__ void __launch_bounds__(32) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v2) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 32u);
  alignas(16) float v1_carry[2];
  #pragma unroll
  for (Index element = 0u; element < 2u; ++element) {
    v1_carry[element] = 0.0f;
  }
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 25u; ++k0) {
    alignas(16) u16 i0_r[8];
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      ft_load_global<4, 0>(&i0_r[k1 * 2u], i0 + (((bx * 32u + tx) / 24u) * 4800u + k0 * 192u + ((bx * 32u + tx) % 24u) * 2u) + k1 * 48u);
    }
    #pragma unroll
    for (Index k2 = 0u; k2 < 4u; ++k2) {
      alignas(16) float v0[2];
      #pragma unroll
      for (Index k3 = 0u; k3 < 2u; ++k3) {
        v0[k3] = ft_to_f32_bf16(i0_r, k2 * 2u + k3);
      }
      alignas(16) float v1[2];
      #pragma unroll
      for (Index k4 = 0u; k4 < 2u; ++k4) {
        ft_scan_run<1, false>(&v0[k4], &v1_carry[k4], &v1[k4]);
      }
      alignas(16) u16 v2_r[2];
      ft_narrow_bf16<2>(&v2_r[0u], &v1[0u]);
      ft_store_global<4, 0>(v2 + (((bx * 32u + tx) / 24u) * 4800u + k0 * 192u + ((bx * 32u + tx) % 24u) * 2u) + k2 * 48u, &v2_r[0u]);
    }
  }
}
