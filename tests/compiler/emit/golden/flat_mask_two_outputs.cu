extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const float* __restrict__ i0, u16* __restrict__ v4, u8* __restrict__ v2) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  alignas(16) ::i32 w0[8];
  #pragma unroll
  for (Index k0 = 0u; k0 < 8u; ++k0) {
    w0[k0] = static_cast<::i32>(((bx * 128u + tx) / 48u));
  }
  alignas(16) ::i32 w1[8];
  #pragma unroll
  for (Index k1 = 0u; k1 < 8u; ++k1) {
    w1[k1] = static_cast<::i32>(((bx * 128u + tx) % 48u) * 8u + k1);
  }
  alignas(16) float i0_r[8];
  #pragma unroll
  for (Index k3 = 0u; k3 < 2u; ++k3) {
    ft_load_global<16, 0>(&i0_r[k3 * 4u], i0 + (bx * 1024u + tx * 8u) + k3 * 4u);
  }
  alignas(16) u8 v2_r[8];
  #pragma unroll
  for (Index k2 = 0u; k2 < 8u; ++k2) {
    v2_r[k2] = (w0[k2] >= w1[k2]);
  }
  ft_store_global<8, 0>(v2 + (bx * 1024u + tx * 8u), &v2_r[0u]);
  alignas(16) float v3[8];
  #pragma unroll
  for (Index k4 = 0u; k4 < 8u; ++k4) {
    v3[k4] = v2_r[k4] ? i0_r[k4] : 0.0f;
  }
  alignas(16) u16 v4_r[8];
  ft_narrow_bf16<8>(&v4_r[0u], &v3[0u]);
  ft_store_global<16, 0>(v4 + (bx * 1024u + tx * 8u), &v4_r[0u]);
}
