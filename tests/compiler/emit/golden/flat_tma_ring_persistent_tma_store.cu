extern "C" __global__ void __launch_bounds__(64) fusetune_kernel(const __grid_constant__ TensorMap map_i0_s, const __grid_constant__ TensorMap map_i1_s, const __grid_constant__ TensorMap map_v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_i0_s);
    ft_prefetch_tensor_map(&map_i1_s);
    ft_prefetch_tensor_map(&map_v0);
    ft_mbarrier_init(smem + 7168u, 1u);
    ft_mbarrier_init(smem + 7176u, 1u);
    ft_mbarrier_init(smem + 7184u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (0u < ((((399u - bx) / 264u) - 1u) + 16u)) {
    if (ft_is_elected()) {
      ft_mbarrier_expect_tx(smem + u32(7168u), 2048u);
      ft_tma_load_1d(smem, &map_i0_s, smem + u32(7168u), i32(bx * 256u));
      ft_tma_load_1d(smem + u32(3072u), &map_i1_s, smem + u32(7168u), i32(bx * 256u));
    }
  }
  if (1u < ((((399u - bx) / 264u) - 1u) + 16u)) {
    if (ft_is_elected()) {
      ft_mbarrier_expect_tx(smem + u32(7176u), 2048u);
      ft_tma_load_1d(smem + u32(1024u), &map_i0_s, smem + u32(7176u), i32(bx * 256u + 67584u));
      ft_tma_load_1d(smem + u32(4096u), &map_i1_s, smem + u32(7176u), i32(bx * 256u + 67584u));
    }
  }
  #pragma unroll 1
  for (Index k0 = 0u; k0 < (((399u - bx) / 264u) - 1u) + 16u; ++k0) {
    if ((k0 + 2u) < ((((399u - bx) / 264u) - 1u) + 16u)) {
      if (ft_is_elected()) {
        ft_mbarrier_expect_tx(smem + u32(((k0 + 2u) % 3u) * 8u + 7168u), 2048u);
        ft_tma_load_1d(smem + u32(((k0 + 2u) % 3u) * 1024u), &map_i0_s, smem + u32(((k0 + 2u) % 3u) * 8u + 7168u), i32(k0 * 67584u + bx * 256u + 135168u));
        ft_tma_load_1d(smem + u32(((k0 + 2u) % 3u) * 1024u + 3072u), &map_i1_s, smem + u32(((k0 + 2u) % 3u) * 8u + 7168u), i32(k0 * 67584u + bx * 256u + 135168u));
      }
    }
    ft_mbarrier_wait(smem + u32((k0 % 3u) * 8u + 7168u), ((k0 / 3u) % 2u));
    alignas(16) float i0_r[4];
    ft_load_shared<16>(&i0_r[0u], smem + u32((k0 % 3u) * 1024u + tx * 16u));
    alignas(16) float i1_r[4];
    ft_load_shared<16>(&i1_r[0u], smem + u32((k0 % 3u) * 1024u + tx * 16u + 3072u));
    alignas(16) float v0_r[4];
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      v0_r[k1] = ft_add(i0_r[k1], i1_r[k1]);
    }
    if (ft_is_elected()) {
      ft_bulk_wait_read<0>();
    }
    __syncthreads();
    ft_store_shared<16>(smem + u32(tx * 16u + 6144u), &v0_r[0u]);
    ft_fence_async_shared();
    __syncthreads();
    if (ft_is_elected()) {
      ft_tma_store_1d(&map_v0, smem + u32(6144u), i32(k0 * 67584u + bx * 256u));
      ft_bulk_commit();
    }
  }
  if (ft_is_elected()) {
    ft_bulk_wait_read<0>();
  }
}
