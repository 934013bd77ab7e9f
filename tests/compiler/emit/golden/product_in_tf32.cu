extern "C" __global__ void __launch_bounds__(384) fusetune_kernel(const __grid_constant__ TensorMap map_w0, const __grid_constant__ TensorMap map_w1, const __grid_constant__ TensorMap map_v1) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 3u);
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  const u32 matrices = ft_matrix_address(smem);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_w0);
    ft_prefetch_tensor_map(&map_w1);
    ft_prefetch_tensor_map(&map_v1);
    ft_mbarrier_init(smem + 180224u, 1u);
    ft_mbarrier_init(smem + 180232u, 1u);
    ft_mbarrier_init(smem + 180240u, 1u);
    ft_mbarrier_init(smem + 180248u, 8u);
    ft_mbarrier_init(smem + 180256u, 8u);
    ft_mbarrier_init(smem + 180264u, 8u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (ty < 2u) {
    alignas(16) float v1_matmul_tf32[128];
    #pragma unroll 1
    for (Index k0 = 0u; k0 < 16u; ++k0) {
      ft_mbarrier_wait(smem + u32((k0 % 3u) * 8u + 180224u), ((k0 / 3u) % 2u));
      ft_mma_hold<128>(&v1_matmul_tf32[0]);
      ft_mma_fence();
      #pragma unroll
      for (Index k1 = 0u; k1 < 4u; ++k1) {
        ft_wgmma_m64n256k8_tf32(&v1_matmul_tf32[0u], ft_matrix<0x4000004000010000ull>(matrices + u32((k0 % 3u) * 16384u + ty * 8192u + k1 * 32u)), ft_matrix<0x4000004000010000ull>(matrices + u32((k0 % 3u) * 32768u + k1 * 32u + 49152u)), k0 + k1);
      }
      ft_mma_commit();
      ft_mma_wait<0>();
      ft_mma_hold<128>(&v1_matmul_tf32[0]);
      ft_mma_free_by_warp(smem + u32((k0 % 3u) * 8u + 180248u));
    }
    #pragma unroll
    for (Index k2 = 0u; k2 < 4u; ++k2) {
      if (ft_is_elected()) {
        ft_bulk_wait_read<0>();
      }
      ft_sync_part(1u, 256u);
      #pragma unroll
      for (Index k3 = 0u; k3 < 8u; ++k3) {
        #pragma unroll
        for (Index k4 = 0u; k4 < 2u; ++k4) {
          #pragma unroll
          for (Index k5 = 0u; k5 < 2u; ++k5) {
            ft_store_shared<4>(smem + u32(ty * 16384u + (k3 / 4u) * 8192u + (tx / 32u) * 2048u + k4 * 1024u + ((tx / 4u) % 8u) * 128u + (((k3 % 4u) * 2u + ((tx / 2u) % 2u)) ^ ((tx / 4u) % 8u)) * 16u + (tx % 2u) * 8u + k5 * 4u + 147456u), &v1_matmul_tf32[k2 * 32u + k3 * 4u + k4 * 2u + k5]);
          }
        }
      }
      ft_fence_async_shared();
      ft_sync_part(1u, 256u);
      if (ft_is_elected()) {
        #pragma unroll
        for (Index k6 = 0u; k6 < 2u; ++k6) {
          #pragma unroll
          for (Index k7 = 0u; k7 < 2u; ++k7) {
            ft_tma_store_2d(&map_v1, smem + u32(k6 * 16384u + k7 * 8192u + 147456u), ::i32((bx % 4u) * 256u + k2 * 64u + k7 * 32u), ::i32((bx / 4u) * 128u + k6 * 64u));
          }
        }
        ft_bulk_commit();
      }
    }
    if (ft_is_elected()) {
      ft_bulk_wait_read<0>();
    }
  } else {
    if (tx == 0u) {
      #pragma unroll 1
      for (Index k0 = 0u; k0 < 16u; ++k0) {
        ft_mbarrier_wait(smem + u32((k0 % 3u) * 8u + 180248u), (((k0 / 3u) + 1u) % 2u));
        ft_mbarrier_expect_tx(smem + u32((k0 % 3u) * 8u + 180224u), 49152u);
        ft_tma_load_2d(smem + u32((k0 % 3u) * 16384u), &map_w0, smem + u32((k0 % 3u) * 8u + 180224u), ::i32(k0 * 32u), ::i32((bx / 4u) * 128u));
        ft_tma_load_2d(smem + u32((k0 % 3u) * 32768u + 49152u), &map_w1, smem + u32((k0 % 3u) * 8u + 180224u), ::i32(k0 * 32u), ::i32((bx % 4u) * 256u));
      }
    }
  }
}
