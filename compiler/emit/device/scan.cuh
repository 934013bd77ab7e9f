// Sums up to each element: of a thread's own word, and of the lanes before it (PTX ISA, "shfl.sync": .up and .idx in
// segments of a warp).
#pragma once
#include "fold.cuh"

FT_INLINE float ft_scan_add(float a, float b) { return ft_fold_sum_f32(a, b); }
FT_INLINE double ft_scan_add(double a, double b) { return ft_fold_sum_f64(a, b); }
FT_INLINE i64 ft_scan_add(i64 a, i64 b) { return ft_fold_sum_i64(a, b); }

// `before`: what the lanes before this one come to, of W elements each; `total`: what all LANES lanes do.
template <int W, int LANES, typename T>
FT_INLINE void ft_scan_lanes(const T* x, T* before, T* total, u32 lane, u32 members) {
  T own = x[0];
#pragma unroll
  for (int i = 1; i < W; ++i) own = ft_scan_add(own, x[i]);
#pragma unroll
  for (u32 distance = 1u; distance < LANES; distance *= 2u) {
    T other = __shfl_up_sync(members, own, distance, LANES);
    own = lane < distance ? own : ft_scan_add(other, own);
  }
  *total = __shfl_sync(members, own, LANES - 1, LANES);
  T left = __shfl_up_sync(members, own, 1u, LANES);
  *before = lane == 0u ? T(0) : left;
}

// Each of W sums goes on from the one before it; `running` has all of them in the end.
template <int W, bool EXCLUSIVE, typename T>
FT_INLINE void ft_scan_run(const T* x, T* running, T* y) {
  T sum = *running;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    T next = ft_scan_add(sum, x[i]);
    y[i] = EXCLUSIVE ? sum : next;
    sum = next;
  }
  *running = sum;
}
