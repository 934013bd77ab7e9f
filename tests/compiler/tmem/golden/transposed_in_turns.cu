extern "C" __global__ void __launch_bounds__(512) fusetune_kernel(const float* __restrict__ tv0, float* __restrict__ tv4) {
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 2u);
  const Index tz = threadIdx.z;
  __builtin_assume(tz < 2u);
  const Index warp = tz * 8u + ty * 4u + (tx / 32u);
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (warp == 0u) {
    ft_tmem_allocate(smem + 0u, 32u);
    ft_tmem_relinquish();
  }
  __syncthreads();
  const u32 tmem = ft_tmem_address(smem + 0u);
  #pragma unroll 1
  for (Index k0 = 0u; k0 < 3u; ++k0) {
    alignas(16) float tv1[1];
    ft_load_global<4, 0>(&tv1[0u], tv0 + (k0 * 512u + tx * 4u + ty * 2u + tz));
    __syncthreads();
    ft_tmem_fence_after_sync();
    ft_tmem_store_32x32b_x1(tmem + (u32((warp % 4u) * 32u) << 16) + u32(((warp / 4u) % 2u) * 2u + (warp / 8u)), &tv1[0u]);
    ft_tmem_wait_stores();
    ft_tmem_fence_before_sync();
    __syncthreads();
    ft_tmem_fence_after_sync();
    alignas(16) float tv3[1];
    ft_tmem_load_32x32b_x1(&tv3[0u], tmem + (u32((warp % 4u) * 32u) << 16) + u32((warp / 4u)));
    ft_tmem_wait_loads();
    ft_opaque<4>(&tv3[0]);
    ft_store_global<4, 0>(tv4 + (k0 * 512u + tx * 4u + ty * 2u + tz), &tv3[0u]);
  }
  __syncthreads();
  if (warp == 0u) {
    ft_tmem_deallocate(tmem, 32u);
  }
}
