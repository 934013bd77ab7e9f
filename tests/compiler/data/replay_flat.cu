extern "C" __global__ void __launch_bounds__(64) fusetune_kernel(const u16* __restrict__ i1, const __grid_constant__ TensorMap map_i0_s, const __grid_constant__ TensorMap map_v5) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 32u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 2u);
  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (ft_is_elected()) {
    ft_prefetch_tensor_map(&map_i0_s);
    ft_prefetch_tensor_map(&map_v5);
    ft_mbarrier_init(smem + 2048u, 1u);
    ft_mbarrier_init(smem + 2056u, 1u);
    ft_mbarrier_init(smem + 2064u, 1u);
    ft_fence_mbarrier_init();
  }
  __syncthreads();
  if (ft_is_elected()) {
    ft_mbarrier_expect_tx(smem + u32(2048u), 512u);
    ft_tma_load_2d(smem, &map_i0_s, smem + u32(2048u), ::i32(bx * 64u), ::i32(0u));
    ft_mbarrier_expect_tx(smem + u32(2056u), 512u);
    ft_tma_load_2d(smem + u32(512u), &map_i0_s, smem + u32(2056u), ::i32(bx * 64u + 256u), ::i32(0u));
  }
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 32u; ++k0) {
    if ((k0 + 2u) < 32u) {
      if (ft_is_elected()) {
        ft_mbarrier_expect_tx(smem + u32(((k0 + 2u) % 3u) * 8u + 2048u), 512u);
        ft_tma_load_2d(smem + u32(((k0 + 2u) % 3u) * 512u), &map_i0_s, smem + u32(((k0 + 2u) % 3u) * 8u + 2048u), ::i32((k0 % 2u) * 256u + bx * 64u), ::i32((k0 / 2u) * 4u + 4u));
      }
    }
    alignas(16) u16 w1[2];
    ft_load_global<4, 0>(&w1[0u], i1 + ((k0 % 2u) * 256u + bx * 64u + tx * 2u));
    ft_mbarrier_wait(smem + u32((k0 % 3u) * 8u + 2048u), ((k0 / 3u) % 2u));
    alignas(16) u16 i0_r[4];
    #pragma unroll
    for (Index k1 = 0u; k1 < 2u; ++k1) {
      ft_load_shared<4>(&i0_r[k1 * 2u], smem + u32((k0 % 3u) * 512u + ty * 256u + k1 * 128u + tx * 4u));
    }
    if (ft_is_elected()) {
      ft_bulk_wait_read<0>();
    }
    __syncthreads();
    #pragma unroll
    for (Index k2 = 0u; k2 < 2u; ++k2) {
      alignas(16) float v4[2];
      #pragma unroll
      for (Index k3 = 0u; k3 < 2u; ++k3) {
        alignas(16) float v0[1];
        v0[0u] = ft_to_f32_bf16(i0_r, k2 * 2u + k3);
        alignas(16) float w2[1];
        w2[0u] = ft_to_f32_bf16(w1, k3);
        alignas(16) float v3[1];
        v3[0u] = ft_add(v0[0u], w2[0u]);
        v4[k3] = ft_gelu_coarse(v3[0u]);
      }
      alignas(16) u16 v5_r[2];
      ft_narrow_bf16<2>(&v5_r[0u], &v4[0u]);
      ft_store_shared<4>(smem + u32(ty * 256u + k2 * 128u + tx * 4u + 1536u), &v5_r[0u]);
    }
    ft_fence_async_shared();
    __syncthreads();
    if (ft_is_elected()) {
      ft_tma_store_2d(&map_v5, smem + u32(1536u), ::i32((k0 % 2u) * 256u + bx * 64u), ::i32((k0 / 2u) * 4u));
      ft_bulk_commit();
    }
  }
  if (ft_is_elected()) {
    ft_bulk_wait_read<0>();
  }
}
