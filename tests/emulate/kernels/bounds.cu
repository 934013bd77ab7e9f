// Accesses outside of what there is, and misaligned ones.
#include "planted.cuh"

KERNEL load_past_the_end(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    int next = EITHER(i + 1 < n ? x[i + 1] : 0, x[i + 1]);  // fault: out_of_bounds
    y[i] = x[i] + next;
  }
}

KERNEL store_past_the_end(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (EITHER(i < n, i <= n)) {
    y[i] = 2 * x[i % n];  // fault: out_of_bounds
  }
}

KERNEL load_before_the_start(const int* x, int* y) {
  int i = threadIdx.x;
  y[i] = x[EITHER(i > 0 ? i - 1 : 0, i - 1)];  // fault: out_of_bounds
}

KERNEL missing_tail_guard(const float4* x, float4* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (EITHER(4 * i + 3 < n, 4 * i < n)) {
    float4 v = x[i];  // fault: out_of_bounds
    v.x += 1.0f;
    y[i] = v;  // fault: out_of_bounds
  }
}

KERNEL null_pointer(const int* x, int* y, const int* missing) {
  int i = threadIdx.x;
  y[i] = x[i] + EITHER(0, missing[i]);  // fault: out_of_bounds
}

KERNEL shared_past_the_end(const int* x, int* y) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  y[t] = s[EITHER((t + 1) % 64, t + 1)];  // fault: out_of_bounds
}

KERNEL dynamic_shared_past_the_end(const int* x, int* y) {
  extern __shared__ int dynamic[];
  int t = threadIdx.x;
  dynamic[t + EITHER(0, 8)] = x[t];  // fault: out_of_bounds
  __syncthreads();
  y[t] = dynamic[t + EITHER(0, 8)];
  // also: out_of_bounds
}

KERNEL local_past_the_end(const int* x, int* y) {
  int t = threadIdx.x;
  int a[8];
#pragma unroll 1
  for (int k = 0; k < 8; ++k) a[k] = x[8 * t + k];
  int pick = x[t] % 8 + EITHER(0, 1);
  y[t] = a[pick];  // fault: out_of_bounds
}

KERNEL misaligned_vector_load(const int* x, int* y) {
  int t = threadIdx.x;
  int4 v = *reinterpret_cast<const int4*>(x + 4 * t + EITHER(4, 2));  // fault: misaligned
  y[t] = v.x + v.y + v.z + v.w;
}

KERNEL misaligned_vector_store(const int* x, int* y) {
  int t = threadIdx.x;
  *reinterpret_cast<int2*>(y + 2 * t + EITHER(0, 1)) = make_int2(x[t], t);  // fault: misaligned
}

KERNEL misaligned_shared_load(const int* x, int* y) {
  __shared__ alignas(16) int s[132];
  int t = threadIdx.x;
  for (int k = t; k < 132; k += 32) s[k] = x[k];
  __syncthreads();
  float4 v = *reinterpret_cast<const float4*>(s + 4 * t + EITHER(4, 1));  // fault: misaligned
  y[t] = __float_as_int(v.x) + __float_as_int(v.y) + __float_as_int(v.z) + __float_as_int(v.w);  // fault: misaligned
}
