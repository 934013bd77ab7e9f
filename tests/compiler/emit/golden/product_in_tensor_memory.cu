extern "C" __global__ void __launch_bounds__(256) fusetune_kernel(u16* __restrict__ v1, const __grid_constant__ TensorMap map_w0, const __grid_constant__ TensorMap map_w1) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 256u);
  const Index warp = (tx / 32u);
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  const u32 matrices = ft_matrix_address(smem);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_w0);
    ft_prefetch_tensor_map(&map_w1);
    ft_mbarrier_init(smem + 196608u, 1u);
    ft_mbarrier_init(smem + 196616u, 1u);
    ft_mbarrier_init(smem + 196624u, 1u);
    ft_mbarrier_init(smem + 196632u, 1u);
    ft_mbarrier_init(smem + 196640u, 1u);
    ft_mbarrier_init(smem + 196648u, 1u);
    ft_mbarrier_init(smem + 196656u, 1u);
    ft_mbarrier_init(smem + 196664u, 1u);
    ft_mbarrier_init(smem + 196672u, 1u);
    ft_mbarrier_init(smem + 196680u, 1u);
    ft_fence_mbarrier_init();
  }
  if (warp == 0u) {
    ft_tmem_allocate(smem + 196752u, 512u);
    ft_tmem_relinquish();
  }
  __syncthreads();
  const u32 tmem = ft_tmem_address(smem + 196752u);
  if (tx < 128u) {
    #pragma unroll 1
    for (Index k0 = 0u; k0 < (((255u - bx) / 148u) - 1u) + 2u; ++k0) {
      ft_mbarrier_wait(smem + u32(k0 * 8u + 196608u), 0u);
      ft_tmem_fence_after_sync();
      #pragma unroll
      for (Index k3 = 0u; k3 < 16u; ++k3) {
        alignas(16) float y_l[16];
        ft_tmem_load_32x32b_x16(&y_l[0u], tmem + (u32(warp * 32u) << 16) + u32(k0 * 256u + k3 * 16u));
        ft_tmem_wait_loads();
        ft_opaque<64>(&y_l[0]);
        alignas(16) u16 w3[16];
        #pragma unroll
        for (Index k4 = 0u; k4 < 2u; ++k4) {
          ft_narrow_bf16<8>(&w3[k4 * 8u], &y_l[k4 * 8u]);
        }
        #pragma unroll
        for (Index k5 = 0u; k5 < 2u; ++k5) {
          ft_store_global<16, 0>(v1 + (((k0 * 148u + bx) / 16u) * 524288u + tx * 4096u + ((k0 * 148u + bx) % 16u) * 256u) + (k3 * 16u + k5 * 8u), &w3[k5 * 8u]);
        }
      }
    }
    ft_sync_part(1u, 128u);
    if (warp == 0u) {
      ft_tmem_deallocate(tmem, 512u);
    }
  } else {
    if (tx < 129u) {
      #pragma unroll 1
      for (Index k0 = 0u; k0 < (((255u - bx) / 148u) - 1u) + 2u; ++k0) {
        #pragma unroll 1
        for (Index k1 = 0u; k1 < 16u; ++k1) {
          ft_mbarrier_wait(smem + u32((k1 % 4u) * 8u + 196656u), (((k1 / 4u) + 1u) % 2u));
          ft_mbarrier_expect_tx(smem + u32((k1 % 4u) * 8u + 196624u), 49152u);
          ft_tma_load_2d(smem + u32((k1 % 4u) * 16384u), &map_w0, smem + u32((k1 % 4u) * 8u + 196624u), ::i32(k1 * 64u), ::i32(((k0 * 148u + bx) / 16u) * 128u));
          ft_tma_load_2d(smem + u32((k1 % 4u) * 32768u + 65536u), &map_w1, smem + u32((k1 % 4u) * 8u + 196624u), ::i32(k1 * 64u), ::i32(((k0 * 148u + bx) % 16u) * 256u));
        }
      }
    }
    if (159u < tx && tx < 161u) {
      #pragma unroll 1
      for (Index k0 = 0u; k0 < (((255u - bx) / 148u) - 1u) + 2u; ++k0) {
        #pragma unroll 1
        for (Index k1 = 0u; k1 < 16u; ++k1) {
          ft_mbarrier_wait(smem + u32((k1 % 4u) * 8u + 196624u), ((k1 / 4u) % 2u));
          #pragma unroll
          for (Index k2 = 0u; k2 < 4u; ++k2) {
            ft_tensor_mma_f16(tmem + u32(k0 * 256u), ft_matrix<0x4000404000010000ull>(matrices + u32((k1 % 4u) * 16384u + k2 * 32u)), ft_matrix<0x4000404000010000ull>(matrices + u32((k1 % 4u) * 32768u + k2 * 32u + 65536u)), 0x8400490u, k1 + k2);
          }
          ft_tmem_commit(smem + u32((k1 % 4u) * 8u + 196656u));
        }
        ft_tmem_commit(smem + u32(k0 * 8u + 196608u));
      }
    }
  }
}
