extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(float* __restrict__ v1, const __grid_constant__ TensorMap map_i0_s) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 16u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 8u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_i0_s);
    ft_mbarrier_init(smem + 24576u, 1u);
    ft_mbarrier_init(smem + 24584u, 1u);
    ft_mbarrier_init(smem + 24592u, 1u);
    ft_mbarrier_init(smem + 24600u, 4u);
    ft_mbarrier_init(smem + 24608u, 4u);
    ft_mbarrier_init(smem + 24616u, 4u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  alignas(16) float v1_sum[8];
  #pragma unroll
  for (Index element = 0u; element < 8u; ++element) {
    v1_sum[element] = 0.0f;
  }
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(24576u), 8192u);
    ft_tma_load_2d(smem, &map_i0_s, smem + u32(24576u), ::i32(bx * 128u), ::i32(0u));
  }
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 32u; ++k0) {
    if ((k0 + 1u) < 32u) {
      if (ft_is_elected()) {
        ft_mbarrier_wait(smem + u32(((k0 + 1u) % 3u) * 8u + 24600u), ((((k0 + 1u) / 3u) + 1u) % 2u));
        ft_mbarrier_expect_tx(smem + u32(((k0 + 1u) % 3u) * 8u + 24576u), 8192u);
        ft_tma_load_2d(smem + u32(((k0 + 1u) % 3u) * 8192u), &map_i0_s, smem + u32(((k0 + 1u) % 3u) * 8u + 24576u), ::i32(bx * 128u), ::i32(k0 * 32u + 32u));
      }
    }
    ft_mbarrier_wait(smem + u32((k0 % 3u) * 8u + 24576u), ((k0 / 3u) % 2u));
    alignas(16) u16 i0_r[32];
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      ft_load_shared<16>(&i0_r[k1 * 8u], smem + u32((k0 % 3u) * 8192u + k1 * 2048u + ty * 256u + tx * 16u));
    }
    ft_mbarrier_free_by_warp(smem + u32((k0 % 3u) * 8u + 24600u));
    #pragma unroll
    for (Index k2 = 0u; k2 < 4u; ++k2) {
      alignas(16) float v0[8];
      ft_widen_bf16<8>(&v0[0u], &i0_r[k2 * 8u]);
      #pragma unroll
      for (Index k3 = 0u; k3 < 8u; ++k3) {
        v1_sum[k3] = ft_fold_sum_f32(v1_sum[k3], v0[k3]);
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
      ft_store_shared<16>(smem + u32((ty / 2u) * 512u + tx * 32u + word * 16u + 24624u), &v1_sum[word * 4u]);
    }
  }
  __syncthreads();
  alignas(16) float v1_sum_s0[4];
  alignas(16) float v1_sum_s0_total[1];
  #pragma unroll
  for (Index slot = 0u; slot < 4u; ++slot) {
    ft_load_shared<4>(&v1_sum_s0[slot], smem + u32(slot * 512u + ty * 64u + tx * 4u + 24624u));
  }
  v1_sum_s0_total[0u] = v1_sum_s0[0u];
  #pragma unroll
  for (Index slot = 0u; slot < 3u; ++slot) {
    v1_sum_s0_total[0u] = ft_fold_sum_f32(v1_sum_s0_total[0u], v1_sum_s0[slot + 1u]);
  }
  ft_store_shared<4>(smem + u32(ty * 64u + tx * 4u + 24624u), &v1_sum_s0_total[0u]);
  __syncthreads();
  if (ty == 0u) {
    #pragma unroll
    for (Index word = 0u; word < 2u; ++word) {
      ft_load_shared<16>(&v1_sum[word * 4u], smem + u32(tx * 32u + word * 16u + 24624u));
    }
    #pragma unroll
    for (Index k4 = 0u; k4 < 2u; ++k4) {
      ft_store_global<16, 0>(v1 + (bx * 128u + tx * 8u) + k4 * 4u, &v1_sum[k4 * 4u]);
    }
  }
}
