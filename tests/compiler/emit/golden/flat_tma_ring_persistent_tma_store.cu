extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(const __grid_constant__ TensorMap map_i0_s, const __grid_constant__ TensorMap map_i1_s, const __grid_constant__ TensorMap map_v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_i0_s);
    ft_prefetch_tensor_map(&map_i1_s);
    ft_prefetch_tensor_map(&map_v0);
    ft_mbarrier_init(smem + 28672u, 1u);
    ft_mbarrier_init(smem + 28680u, 1u);
    ft_mbarrier_init(smem + 28688u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(28672u), 8192u);
    ft_tma_load_2d(smem, &map_i0_s, smem + u32(28672u), ::i32(0u), ::i32(bx * 4u));
    ft_tma_load_2d(smem + u32(12288u), &map_i1_s, smem + u32(28672u), ::i32(0u), ::i32(bx * 4u));
    ft_mbarrier_expect_tx(smem + u32(28680u), 8192u);
    ft_tma_load_2d(smem + u32(4096u), &map_i0_s, smem + u32(28680u), ::i32(0u), ::i32(bx * 4u + 1056u));
    ft_tma_load_2d(smem + u32(16384u), &map_i1_s, smem + u32(28680u), ::i32(0u), ::i32(bx * 4u + 1056u));
  }
  #pragma unroll 1
  for (Index k0 = 0u; k0 < (((495u - bx) / 264u) - 1u) + 4u; ++k0) {
    if ((k0 + 2u) < ((((495u - bx) / 264u) - 1u) + 4u)) {
      if (ft_is_elected()) {
        ft_mbarrier_expect_tx(smem + u32(((k0 + 2u) % 3u) * 8u + 28672u), 8192u);
        ft_tma_load_2d(smem + u32(((k0 + 2u) % 3u) * 4096u), &map_i0_s, smem + u32(((k0 + 2u) % 3u) * 8u + 28672u), ::i32(0u), ::i32(k0 * 1056u + bx * 4u + 2112u));
        ft_tma_load_2d(smem + u32(((k0 + 2u) % 3u) * 4096u + 12288u), &map_i1_s, smem + u32(((k0 + 2u) % 3u) * 8u + 28672u), ::i32(0u), ::i32(k0 * 1056u + bx * 4u + 2112u));
      }
    }
    ft_mbarrier_wait(smem + u32((k0 % 3u) * 8u + 28672u), (k0 / 3u));
    alignas(16) float i0_r[4];
    ft_load_shared<16>(&i0_r[0u], smem + u32((k0 % 3u) * 4096u + tx * 16u));
    alignas(16) float i1_r[4];
    ft_load_shared<16>(&i1_r[0u], smem + u32((k0 % 3u) * 4096u + tx * 16u + 12288u));
    alignas(16) float v0_r[4];
    #pragma unroll
    for (Index k1 = 0u; k1 < 4u; ++k1) {
      v0_r[k1] = ft_add(i0_r[k1], i1_r[k1]);
    }
    if (ft_is_elected()) {
      ft_bulk_wait_read<0>();
    }
    __syncthreads();
    ft_store_shared<16>(smem + u32(tx * 16u + 24576u), &v0_r[0u]);
    ft_fence_async_shared();
    __syncthreads();
    if (ft_is_elected()) {
      #pragma unroll
      for (Index k2 = 0u; k2 < 4u; ++k2) {
        ft_tma_store_1d(&map_v0, smem + u32(k2 * 1024u + 24576u), ::i32(k0 * 270336u + bx * 1024u + k2 * 256u));
      }
      ft_bulk_commit();
    }
  }
  if (ft_is_elected()) {
    ft_bulk_wait_read<0>();
  }
}
