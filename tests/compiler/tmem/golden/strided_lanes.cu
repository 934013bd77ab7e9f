extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const float* __restrict__ tv0, float* __restrict__ tv4) {
  const Index bx = blockIdx.x;
  const Index by = blockIdx.y;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 32u);
  const Index ty = threadIdx.y;
  __builtin_assume(ty < 4u);
  const Index warp = ty;
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 smem = ft_shared_address(shared_memory);
  if (warp == 0u) {
    ft_tmem_allocate(smem + 0u, 32u);
    ft_tmem_relinquish();
  }
  __syncthreads();
  const u32 tmem = ft_tmem_address(smem + 0u);
  alignas(16) float tv1[4];
  alignas(16) float tv0_w0[4];
  ft_load_global<16, 0>(&tv0_w0[0u], tv0 + (bx * 1024u + ty * 256u + (tx % 16u) * 16u + by * 8u + (tx / 16u) * 4u));
  #pragma unroll
  for (Index k0 = 0u; k0 < 4u; ++k0) {
    tv1[k0] = tv0_w0[k0];
  }
  ft_tmem_store_16x32bx2_x4<4>(tmem + (u32(warp * 32u) << 16), &tv1[0u]);
  ft_tmem_wait_stores();
  alignas(16) float tv3[4];
  ft_tmem_load_16x32bx2_x4<4>(&tv3[0u], tmem + (u32(warp * 32u) << 16));
  ft_tmem_wait_loads();
  ft_opaque<16>(&tv3[0]);
  #pragma unroll
  for (Index k1 = 0u; k1 < 4u; ++k1) {
    ft_store_global<4, 0>(tv4 + (bx * 1024u + ty * 256u + (tx % 16u) * 16u + by * 8u + (tx / 16u) * 4u) + k1, &tv3[k1]);
  }
  __syncthreads();
  if (warp == 0u) {
    ft_tmem_deallocate(tmem, 32u);
  }
}
