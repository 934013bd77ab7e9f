extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(u16* __restrict__ v1, const __grid_constant__ TensorMap map_w0, const __grid_constant__ TensorMap map_w1) {
  const Index cx = blockIdx.x % 2u;
  const Index bx = blockIdx.x / 2u;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  const u32 matrices = ft_matrix_address(smem);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_w0);
    ft_prefetch_tensor_map(&map_w1);
    ft_mbarrier_init(smem + 122880u, 1u);
    ft_mbarrier_init(smem + 122888u, 1u);
    ft_mbarrier_init(smem + 122896u, 1u);
    ft_mbarrier_init(smem + 122904u, 1u);
    ft_mbarrier_init(smem + 122912u, 1u);
    ft_mbarrier_init(smem + 122920u, 1u);
    ft_mbarrier_init(smem + 122928u, 4u);
    ft_mbarrier_init(smem + 122936u, 4u);
    ft_mbarrier_init(smem + 122944u, 4u);
    ft_mbarrier_init(smem + 122952u, 4u);
    ft_mbarrier_init(smem + 122960u, 4u);
    ft_mbarrier_init(smem + 122968u, 4u);
    ft_mbarrier_init(smem + 122976u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  ft_cluster_arrive();
  if (tx < 128u) {
    alignas(16) float v1_matmul[8];
    #pragma unroll 1
    for (Index k0 = 0u; k0 < 16u; ++k0) {
      ft_mbarrier_wait(smem + u32((k0 % 6u) * 8u + 122880u), ((k0 / 6u) % 2u));
      ft_mma_hold<8>(&v1_matmul[0]);
      ft_mma_fence();
      #pragma unroll
      for (Index k3 = 0u; k3 < 8u; ++k3) {
        ft_wgmma_m64n16k16_bf16<0, 0>(&v1_matmul[0u], ft_matrix<0x4000004000010000ull>(matrices + u32((k0 % 6u) * 16384u + (k3 / 4u) * 8192u + (k3 % 4u) * 32u + 24576u)), ft_matrix<0x4000004000010000ull>(matrices + u32((k0 % 6u) * 4096u + (k3 / 4u) * 2048u + (k3 % 4u) * 32u)), k0 + k3);
      }
      ft_mma_commit();
      ft_mma_wait<0>();
      ft_mma_hold<8>(&v1_matmul[0]);
      ft_mma_free_by_warp(smem + u32((k0 % 6u) * 8u + 122928u));
    }
    ft_cluster_wait();
    #pragma unroll
    for (Index slice = 0u; slice < 2u; ++slice) {
      if (0u < ((cx + 2u - slice) % 2u)) {
        ft_store_remote<16>(smem + u32(((cx + 2u - slice) % 2u) * 2048u + tx * 16u + 121040u), smem + u32(122976u), slice, &v1_matmul[slice * 4u]);
      }
    }
    if (ft_is_elected()) {
      ft_mbarrier_expect_tx(smem + u32(122976u), 2048u);
    }
    ft_mbarrier_wait(smem + u32(122976u), 0u);
    #pragma unroll
    for (Index slice = 0u; slice < 2u; ++slice) {
      if (slice < (cx + 1u) && cx < (slice + 1u)) {
        alignas(16) float v1_matmul_theirs[4];
        ft_load_shared<16>(&v1_matmul_theirs[0u], smem + u32(tx * 16u + 123088u));
        #pragma unroll
        for (Index element = 0u; element < 4u; ++element) {
          v1_matmul[slice * 4u + element] = ft_fold_sum_f32(v1_matmul[slice * 4u + element], v1_matmul_theirs[element]);
        }
        #pragma unroll
        for (Index k4 = 0u; k4 < 2u; ++k4) {
          alignas(16) u16 w3[2];
          ft_narrow_bf16<2>(&w3[0u], &v1_matmul[slice * 4u + k4 * 2u]);
          alignas(16) u16 v1_r[2];
          #pragma unroll
          for (Index k5 = 0u; k5 < 2u; ++k5) {
            v1_r[k5] = w3[k5];
          }
          #pragma unroll
          for (Index k6 = 0u; k6 < 2u; ++k6) {
            ft_store_global<2, 0>(v1 + ((tx % 4u) * 8192u + bx * 64u + (tx / 32u) * 16u + ((tx / 4u) % 8u)) + (slice * 32768u + k6 * 4096u + k4 * 8u), &v1_r[k6]);
          }
        }
      }
    }
  } else {
    if (tx < 129u) {
      #pragma unroll 1
      for (Index k0 = 0u; k0 < 16u; ++k0) {
        ft_mbarrier_wait(smem + u32((k0 % 6u) * 8u + 122928u), (((k0 / 6u) + 1u) % 2u));
        ft_mbarrier_expect_tx(smem + u32((k0 % 6u) * 8u + 122880u), 20480u);
        #pragma unroll
        for (Index k1 = 0u; k1 < 2u; ++k1) {
          ft_tma_load_2d(smem + u32((k0 % 6u) * 4096u + k1 * 2048u), &map_w0, smem + u32((k0 % 6u) * 8u + 122880u), ::i32(cx * 2048u + k0 * 128u + k1 * 64u), ::i32(0u));
        }
        #pragma unroll
        for (Index k2 = 0u; k2 < 2u; ++k2) {
          ft_tma_load_2d(smem + u32((k0 % 6u) * 16384u + k2 * 8192u + 24576u), &map_w1, smem + u32((k0 % 6u) * 8u + 122880u), ::i32(cx * 2048u + k0 * 128u + k2 * 64u), ::i32(bx * 64u));
        }
      }
    }
  }
}
