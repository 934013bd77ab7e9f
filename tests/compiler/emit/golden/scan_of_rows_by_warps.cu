extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const float* __restrict__ i0, float* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 2u);
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  alignas(16) float v0_r_carry[1];
  v0_r_carry[0u] = 0.0f;
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 2u; ++k0) {
    alignas(16) float i0_r[16];
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      ft_load_global<16, 0>(&i0_r[k1 * 4u], i0 + (bx * 8192u + ty * 4096u + k0 * 2048u + tx * 4u) + k1 * 512u);
    }
    #pragma unroll
    for (Index k2 = 0u; k2 < 4u; ++k2) {
      alignas(16) float v0_r[4];
      alignas(16) float v0_r_before[1];
      alignas(16) float v0_r_all[1];
      ft_scan_lanes<4, 32>(&i0_r[k2 * 4u], &v0_r_before[0u], &v0_r_all[0u], (tx % 32u), 0xffffffffu);
      if ((tx % 32u) == 0u) {
        ft_store_shared<4>(smem + u32((k2 % 2u) * 32u + ty * 16u + (tx / 32u) * 4u), &v0_r_all[0u]);
      }
      __syncthreads();
      alignas(16) float v0_r_of_warp[1];
      v0_r_all[0u] = 0.0f;
      #pragma unroll
      for (Index v0_r_w = 0u; v0_r_w < 4u; ++v0_r_w) {
        ft_load_shared<4>(&v0_r_of_warp[0u], smem + u32((k2 % 2u) * 32u + ty * 16u + v0_r_w * 4u));
        v0_r_before[0u] = (v0_r_w < (tx / 32u)) ? ft_fold_sum_f32(v0_r_before[0u], v0_r_of_warp[0u]) : v0_r_before[0u];
        v0_r_all[0u] = ft_fold_sum_f32(v0_r_all[0u], v0_r_of_warp[0u]);
      }
      v0_r_before[0u] = ft_fold_sum_f32(v0_r_before[0u], v0_r_carry[0u]);
      v0_r_carry[0u] = ft_fold_sum_f32(v0_r_carry[0u], v0_r_all[0u]);
      ft_scan_run<4, false>(&i0_r[k2 * 4u], &v0_r_before[0u], &v0_r[0u]);
      ft_store_global<16, 2>(v0 + (bx * 8192u + ty * 4096u + k0 * 2048u + tx * 4u) + k2 * 512u, &v0_r[0u]);
    }
  }
}
