extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u8* __restrict__ i0, ::i64* __restrict__ v1) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 16u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 8u);
  if ((bx * 8u + 7u) < 999u) {
    alignas(16) u8 i0_r[4];
    #pragma unroll
    for (Index k0 = 0u; k0 < 2u; ++k0) {
      i0_r[k0 * 2u] = 0;
      i0_r[k0 * 2u + 1u] = 0;
      ft_load_global_if<2, 0>((k0 * 16u + tx) < 30u, &i0_r[k0 * 2u], i0 + (bx * 480u + ty * 60u + tx * 2u) + k0 * 32u);
    }
    alignas(16) ::i64 v1_r_carry[1];
    v1_r_carry[0u] = 0ll;
    #pragma unroll
    for (Index k1 = 0u; k1 < 2u; ++k1) {
      alignas(16) ::i64 v0[2];
      #pragma unroll
      for (Index k2 = 0u; k2 < 2u; ++k2) {
        v0[k2] = ::i64(i0_r[k1 * 2u + k2]);
      }
      alignas(16) ::i64 v1_r[2];
      alignas(16) ::i64 v1_r_before[1];
      alignas(16) ::i64 v1_r_all[1];
      ft_scan_lanes<2, 16>(&v0[0u], &v1_r_before[0u], &v1_r_all[0u], tx, 0xffffffffu);
      v1_r_before[0u] = ft_fold_sum_i64(v1_r_before[0u], v1_r_carry[0u]);
      v1_r_carry[0u] = ft_fold_sum_i64(v1_r_carry[0u], v1_r_all[0u]);
      ft_scan_run<2, true>(&v0[0u], &v1_r_before[0u], &v1_r[0u]);
      ft_store_global_if<16, 0>((k1 * 16u + tx) < 30u, v1 + (bx * 480u + ty * 60u + tx * 2u) + k1 * 32u, &v1_r[0u]);
    }
  } else {
    alignas(16) u8 i0_r[4];
    #pragma unroll
    for (Index k0 = 0u; k0 < 2u; ++k0) {
      i0_r[k0 * 2u] = 0;
      i0_r[k0 * 2u + 1u] = 0;
      ft_load_global_if<2, 0>((bx * 8u + ty) < 999u && (k0 * 16u + tx) < 30u, &i0_r[k0 * 2u], i0 + (bx * 480u + ty * 60u + tx * 2u) + k0 * 32u);
    }
    alignas(16) ::i64 v1_r_carry[1];
    v1_r_carry[0u] = 0ll;
    #pragma unroll
    for (Index k1 = 0u; k1 < 2u; ++k1) {
      alignas(16) ::i64 v0[2];
      #pragma unroll
      for (Index k2 = 0u; k2 < 2u; ++k2) {
        v0[k2] = ::i64(i0_r[k1 * 2u + k2]);
      }
      alignas(16) ::i64 v1_r[2];
      alignas(16) ::i64 v1_r_before[1];
      alignas(16) ::i64 v1_r_all[1];
      ft_scan_lanes<2, 16>(&v0[0u], &v1_r_before[0u], &v1_r_all[0u], tx, 0xffffffffu);
      v1_r_before[0u] = ft_fold_sum_i64(v1_r_before[0u], v1_r_carry[0u]);
      v1_r_carry[0u] = ft_fold_sum_i64(v1_r_carry[0u], v1_r_all[0u]);
      ft_scan_run<2, true>(&v0[0u], &v1_r_before[0u], &v1_r[0u]);
      ft_store_global_if<16, 0>((bx * 8u + ty) < 999u && (k1 * 16u + tx) < 30u, v1 + (bx * 480u + ty * 60u + tx * 2u) + k1 * 32u, &v1_r[0u]);
    }
  }
}
