// What a compiler makes of the parts of the language: calls, tables, local arrays, scopes of inline assembly.
extern "C" __device__ int printf(const char*, ...);
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
__device__ int words[5] = {1, 2};
struct __attribute__((packed)) Packed { char c; int* p; };
__device__ Packed packed_pointer = {3, words + 2};
__device__ __noinline__ float series(float x, int n) {
  float s = 0;
  for (int i = 0; i < n; ++i) {
    s += x * i;
    if (s > 100) break;
  }
  return s;
}
__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int x) { return 3 * x; }
__device__ int (*functions[2])(int) = {twice, thrice};
struct Pair { int a; float* p; };

extern "C" __global__ void __launch_bounds__(128, 2) __cluster_dims__(2, 1, 1) k(float* x, int* y, int n, const __grid_constant__ Pair pair) {
  __shared__ float tile[32][33];
  extern __shared__ __align__(128) char dynamic[];
  int t = threadIdx.x;
  tile[t / 32][t % 32] = x[t];
  __syncthreads();
  float part[16];
  for (int i = 0; i < 16; ++i) part[i] = x[i];
  part[n] = 3;
  switch (y[t]) {
    case 0: x[0] = series(x[1], n); break;
    case 1: x[1] = table[n & 3]; break;
    case 2: printf("%d\n", t); break;
    case 3: y[3] = functions[n & 1](t); break;
    case 4: y[4] = *packed_pointer.p; break;
  }
  for (int k = 0; k < 2; ++k) {
    asm volatile(
        "{\n.reg .pred p;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra LAB_WAIT;\nDONE:\n}"
        ::"r"((unsigned)__cvta_generic_to_shared(dynamic)), "r"(k) : "memory");
  }
  if (n > 5)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2,%3}], [%4];" ::"r"(1), "l"(x), "r"(1), "r"(2), "r"(7));
  x[t] = tile[t % 32][t / 32] + part[n + 1] + pair.p[pair.a] + __shfl_xor_sync(~0u, t, 1);
  if (t == n) __trap();
}
