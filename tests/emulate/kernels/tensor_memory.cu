// Tensor memory (sm_100a): who may reach which lanes, columns of the allocation, waits.
#include "planted.cuh"

#define TMEM_ALLOC(p, columns) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(SMEM(&p)), "r"(columns) : "memory")
#define TMEM_FREE(address, columns) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns))
#define TMEM_ST(address, v) asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(address), "r"(v) : "memory")
#define TMEM_LD(v, address) asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(v) : "r"(address) : "memory")
#define WAIT_ST() asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory")
#define WAIT_LD() asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")

#define START() \
  __shared__ u32 base; \
  int t = threadIdx.x; \
  u32 warp = t / 32

KERNEL lanes_of_another_warp(const u32* x, u32* y) {
  START();
  if (warp == 0) TMEM_ALLOC(base, 32);
  __syncthreads();
  u32 mine = base + (warp * 32 << 16);
  TMEM_ST(EITHER(mine, base), x[t]);  // fault: tmem_wrong_lanes
  WAIT_ST();
  u32 v;
  TMEM_LD(v, mine);
  WAIT_LD();
  y[t] = v;
  __syncthreads();
  if (warp == 0) TMEM_FREE(base, 32);
  // also: uninitialized_read race
}

KERNEL column_past_the_allocation(const u32* x, u32* y) {
  START();
  if (warp == 0) TMEM_ALLOC(base, 32);
  __syncthreads();
  u32 mine = base + (warp * 32 << 16) + EITHER(31, 32);
  TMEM_ST(mine, x[t]);  // fault: tmem_out_of_allocation
  WAIT_ST();
  u32 v;
  TMEM_LD(v, mine);  // fault: tmem_out_of_allocation
  WAIT_LD();
  y[t] = v;
  __syncthreads();
  if (warp == 0) TMEM_FREE(base, 32);
}

KERNEL vector_past_the_allocation(const u32* x, u32* y) {
  START();
  if (warp == 0) TMEM_ALLOC(base, 32);
  __syncthreads();
  u32 a, b, c, d, mine = base + (warp * 32 << 16) + EITHER(28, 30);
  asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1, %2, %3, %4};" ::"r"(mine), "r"(x[t]), "r"(t), "r"(t + 1), "r"(t + 2) : "memory");  // fault: tmem_out_of_allocation
  WAIT_ST();
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(mine) : "memory");  // fault: tmem_out_of_allocation
  WAIT_LD();
  y[t] = a + b + c + d;
  __syncthreads();
  if (warp == 0) TMEM_FREE(base, 32);
}

KERNEL used_after_free(const u32* x, u32* y) {
  START();
  if (warp == 0) TMEM_ALLOC(base, 64);
  __syncthreads();
  u32 mine = base + (warp * 32 << 16) + 5;
  TMEM_ST(mine, x[t]);
  WAIT_ST();
  EITHER(, __syncthreads());
  EITHER(, if (warp == 0) TMEM_FREE(base, 64));
  EITHER(, __syncthreads());
  u32 v;
  TMEM_LD(v, mine);  // fault: tmem_out_of_allocation
  WAIT_LD();
  y[t] = v;
  EITHER(__syncthreads(), );
  EITHER(if (warp == 0) TMEM_FREE(base, 64), );
}

KERNEL never_freed(const u32* x, u32* y) {
  START();
  if (warp == 0) TMEM_ALLOC(base, 32);  // fault: tmem_leak
  __syncthreads();
  u32 mine = base + (warp * 32 << 16);
  TMEM_ST(mine, x[t]);
  WAIT_ST();
  u32 v;
  TMEM_LD(v, mine);
  WAIT_LD();
  y[t] = v;
  __syncthreads();
  CLEAN(if (warp == 0) TMEM_FREE(base, 32);)
}

KERNEL columns_not_a_power_of_two(const u32* x, u32* y, u32 columns) {
  START();
  if (warp == 0) TMEM_ALLOC(base, EITHER(64, columns));  // fault: invalid_operand
  __syncthreads();
  u32 mine = base + (warp * 32 << 16);
  TMEM_ST(mine, x[t]);
  WAIT_ST();
  u32 v;
  TMEM_LD(v, mine);
  WAIT_LD();
  y[t] = v;
  __syncthreads();
  if (warp == 0) TMEM_FREE(base, EITHER(64, columns));
  // also: invalid_operand tmem_out_of_allocation uninitialized_read tmem_leak
}

KERNEL load_not_waited_for(const u32* x, u32* y) {
  START();
  if (warp == 0) TMEM_ALLOC(base, 32);
  __syncthreads();
  u32 mine = base + (warp * 32 << 16);
  TMEM_ST(mine, x[t]);
  WAIT_ST();
  u32 v;
  TMEM_LD(v, mine);  // fault: race or uninitialized_read
  CLEAN(WAIT_LD();)
  y[t] = v;  // fault: race or uninitialized_read
  __syncthreads();
  if (warp == 0) TMEM_FREE(base, 32);
  // also: in_flight_at_exit
}

KERNEL store_not_waited_for(const u32* x, u32* y) {
  START();
  if (warp == 0) TMEM_ALLOC(base, 32);
  __syncthreads();
  u32 mine = base + (warp * 32 << 16);
  TMEM_ST(mine, x[t]);  // fault: race or uninitialized_read
  CLEAN(WAIT_ST();)
  u32 v;
  TMEM_LD(v, mine);  // fault: race or uninitialized_read
  WAIT_LD();
  y[t] = v;
  __syncthreads();
  if (warp == 0) TMEM_FREE(base, 32);
  // also: uninitialized_read race in_flight_at_exit
}

KERNEL columns_never_stored(const u32* x, u32* y) {
  START();
  if (warp == 0) TMEM_ALLOC(base, 32);
  __syncthreads();
  u32 mine = base + (warp * 32 << 16);
  TMEM_ST(mine + 3, x[t]);
  WAIT_ST();
  u32 v;
  TMEM_LD(v, mine + EITHER(3, 4));  // fault: uninitialized_read
  WAIT_LD();
  y[t] = v;
  __syncthreads();
  if (warp == 0) TMEM_FREE(base, 32);
}
