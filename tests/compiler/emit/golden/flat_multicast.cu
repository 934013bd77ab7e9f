extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, u16* __restrict__ v5, const __grid_constant__ TensorMap map_w1) {
  const Index cx = blockIdx.x % 2u;
  const Index bx = blockIdx.x / 2u;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 32u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 4u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_w1);
    ft_mbarrier_init(smem + 512u, 1u);
    ft_fence_mbarrier_init();
  }
  ft_cluster_arrive();
  alignas(16) u16 i0_r[16];
  #pragma unroll
  for (Index k0 = 0u; k0 < 2u; ++k0) {
    ft_load_global<16, 0>(&i0_r[k0 * 8u], i0 + ((bx / 4u) * 16384u + cx * 8192u + ty * 2048u + (bx % 4u) * 256u + tx * 8u) + k0 * 1024u);
  }
  ft_cluster_wait();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(512u), 512u);
    if (cx == 0u) {
      ft_tma_multicast_1d(smem, &map_w1, smem + u32(512u), 0x3u, ::i32((bx % 4u) * 256u));
    }
  }
  ft_mbarrier_wait(smem + u32(512u), 0u);
  alignas(16) u16 w1_r[8];
  ft_load_shared<16>(&w1_r[0u], smem + u32(tx * 16u));
  #pragma unroll
  for (Index k1 = 0u; k1 < 2u; ++k1) {
    alignas(16) float v4[8];
    #pragma unroll
    for (Index k2 = 0u; k2 < 8u; ++k2) {
      alignas(16) float v0[1];
      v0[0u] = ft_to_f32_bf16(i0_r, k1 * 8u + k2);
      alignas(16) float w2[1];
      w2[0u] = ft_to_f32_bf16(w1_r, k2);
      alignas(16) float v3[1];
      v3[0u] = ft_add(v0[0u], w2[0u]);
      v4[k2] = ft_gelu(v3[0u]);
    }
    alignas(16) u16 v5_r[8];
    ft_narrow_bf16<8>(&v5_r[0u], &v4[0u]);
    ft_store_global<16, 0>(v5 + ((bx / 4u) * 16384u + cx * 8192u + ty * 2048u + (bx % 4u) * 256u + tx * 8u) + k1 * 1024u, &v5_r[0u]);
  }
}
