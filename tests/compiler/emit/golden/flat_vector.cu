extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const float* __restrict__ i0, const float* __restrict__ i1, float* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  alignas(16) float i0_r[8];
  #pragma unroll
  for (Index k0 = 0u; k0 < 2u; ++k0) {
    ft_load_global<16, 0>(&i0_r[k0 * 4u], i0 + (bx * 1024u + tx * 4u) + k0 * 512u);
  }
  alignas(16) float i1_r[8];
  #pragma unroll
  for (Index k1 = 0u; k1 < 2u; ++k1) {
    ft_load_global<16, 0>(&i1_r[k1 * 4u], i1 + (bx * 1024u + tx * 4u) + k1 * 512u);
  }
  #pragma unroll
  for (Index k2 = 0u; k2 < 2u; ++k2) {
    alignas(16) float v0_r[4];
    #pragma unroll
    for (Index k3 = 0u; k3 < 4u; ++k3) {
      v0_r[k3] = ft_add(i0_r[k2 * 4u + k3], i1_r[k2 * 4u + k3]);
    }
    ft_store_global<16, 2>(v0 + (bx * 1024u + tx * 4u) + k2 * 512u, &v0_r[0u]);
  }
}
