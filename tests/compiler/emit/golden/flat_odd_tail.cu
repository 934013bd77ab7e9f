extern "C" __global__ void __launch_bounds__(128) fusetune_kernel(const u16* __restrict__ i0, const u16* __restrict__ i1, u16* __restrict__ v0) {
  const Index bx = blockIdx.x;
  const Index tx = threadIdx.x;
  __builtin_assume(tx < 128u);
  if ((bx * 1024u + 1023u) < 100003u) {
    alignas(16) u16 i0_r[8];
    ft_load_global<16, 0>(&i0_r[0u], i0 + (bx * 1024u + tx * 8u));
    alignas(16) u16 i1_r[8];
    ft_load_global<16, 0>(&i1_r[0u], i1 + (bx * 1024u + tx * 8u));
    alignas(16) u16 v0_r[8];
    #pragma unroll
    for (Index k0 = 0u; k0 < 8u; ++k0) {
      v0_r[k0] = ft_to_bf16(ft_add(ft_to_f32_bf16(i0_r, k0), ft_to_f32_bf16(i1_r, k0)));
    }
    ft_store_global<16, 0>(v0 + (bx * 1024u + tx * 8u), &v0_r[0u]);
  } else {
    alignas(16) u16 i0_r[8];
    i0_r[0u] = 0;
    i0_r[1u] = 0;
    i0_r[2u] = 0;
    i0_r[3u] = 0;
    i0_r[4u] = 0;
    i0_r[5u] = 0;
    i0_r[6u] = 0;
    i0_r[7u] = 0;
    ft_load_global_if<16, 0>((bx * 1024u + tx * 8u + 7u) < 100003u, &i0_r[0u], i0 + (bx * 1024u + tx * 8u));
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i0_r[0u], i0 + (bx * 1024u + tx * 8u));
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 1u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i0_r[1u], i0 + (bx * 1024u + tx * 8u) + 1u);
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 2u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i0_r[2u], i0 + (bx * 1024u + tx * 8u) + 2u);
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 3u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i0_r[3u], i0 + (bx * 1024u + tx * 8u) + 3u);
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 4u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i0_r[4u], i0 + (bx * 1024u + tx * 8u) + 4u);
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 5u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i0_r[5u], i0 + (bx * 1024u + tx * 8u) + 5u);
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 6u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i0_r[6u], i0 + (bx * 1024u + tx * 8u) + 6u);
    alignas(16) u16 i1_r[8];
    i1_r[0u] = 0;
    i1_r[1u] = 0;
    i1_r[2u] = 0;
    i1_r[3u] = 0;
    i1_r[4u] = 0;
    i1_r[5u] = 0;
    i1_r[6u] = 0;
    i1_r[7u] = 0;
    ft_load_global_if<16, 0>((bx * 1024u + tx * 8u + 7u) < 100003u, &i1_r[0u], i1 + (bx * 1024u + tx * 8u));
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i1_r[0u], i1 + (bx * 1024u + tx * 8u));
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 1u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i1_r[1u], i1 + (bx * 1024u + tx * 8u) + 1u);
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 2u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i1_r[2u], i1 + (bx * 1024u + tx * 8u) + 2u);
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 3u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i1_r[3u], i1 + (bx * 1024u + tx * 8u) + 3u);
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 4u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i1_r[4u], i1 + (bx * 1024u + tx * 8u) + 4u);
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 5u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i1_r[5u], i1 + (bx * 1024u + tx * 8u) + 5u);
    ft_load_global_if<2, 0>((bx * 1024u + tx * 8u + 6u) < 100003u && !((bx * 1024u + tx * 8u + 7u) < 100003u), &i1_r[6u], i1 + (bx * 1024u + tx * 8u) + 6u);
    alignas(16) u16 v0_r[8];
    #pragma unroll
    for (Index k0 = 0u; k0 < 8u; ++k0) {
      v0_r[k0] = ft_to_bf16(ft_add(ft_to_f32_bf16(i0_r, k0), ft_to_f32_bf16(i1_r, k0)));
    }
    if ((bx * 1024u + tx * 8u + 7u) < 100003u) {
      ft_store_global<16, 0>(v0 + (bx * 1024u + tx * 8u), &v0_r[0u]);
    } else {
      #pragma unroll
      for (Index lane = 0u; lane < 8u; ++lane) {
        ft_store_global_if<2, 0>((bx * 1024u + tx * 8u + lane) < 100003u, v0 + (bx * 1024u + tx * 8u) + lane, &v0_r[lane]);
      }
    }
  }
}
