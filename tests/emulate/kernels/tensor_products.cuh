// Products with the accumulator in tensor memory (sm_100a), for kernels with planted faults.
//
// x is 128 x 16 f16 (A), w 16 x 16 (B). In shared memory rows of 16 bytes lie in columns along k, without a swizzle: LBO steps
// from one column to the next (128 or 16 rows of 16 bytes), SBO from 8 rows to the next 8. y[row][column] is D.
#pragma once
#include "planted.cuh"

#define TMEM_ALLOC(p, columns) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(SMEM(&p)), "r"(columns) : "memory")
#define TMEM_FREE(address, columns) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns))
#define BEFORE() asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory")
#define AFTER() asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory")
#define WAIT_LD() asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")
#define WAIT_ST() asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory")
#define LD(v, address) asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]), "=r"(v[7]), "=r"(v[8]), "=r"(v[9]), "=r"(v[10]), "=r"(v[11]), "=r"(v[12]), "=r"(v[13]), "=r"(v[14]), "=r"(v[15]) : "r"(address) : "memory")
#define ST8(address, v) asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"r"(address), "r"((v)[0]), "r"((v)[1]), "r"((v)[2]), "r"((v)[3]), "r"((v)[4]), "r"((v)[5]), "r"((v)[6]), "r"((v)[7]) : "memory")
#define MMA(d, a, b, form, adds) asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(d), "l"(a), "l"(b), "r"(form), "r"((int)(adds)) : "memory")
#define MMA_T(d, a, b, form, adds) asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}" ::"r"(d), "r"(a), "l"(b), "r"(form), "r"((int)(adds)) : "memory")
#define MMA_2(d, a, b, form, adds) asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(d), "l"(a), "l"(b), "r"(form), "r"((int)(adds)) : "memory")
#define COMMIT(bar) asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(SMEM(&bar)) : "memory")

// f16 to f32, M rows and N columns.
#define FORM(m, n) (1u << 4 | (n) >> 3 << 17 | (m) >> 4 << 24)
#define DESC(p, lbo, sbo) ((u64)(SMEM(p) >> 4) | (u64)((lbo) >> 4) << 16 | (u64)((sbo) >> 4) << 32 | 1ull << 46)
#define A DESC(a, 2048, 128)
#define B DESC(b, 256, 128)

#define START(columns) \
  __shared__ alignas(1024) uint4 a[256], b[32]; \
  __shared__ u64 bar, mid; \
  __shared__ u32 base; \
  int t = threadIdx.x; \
  u32 v[16]; \
  if (t < 32) TMEM_ALLOC(base, columns); \
  if (t == 0) { \
    MBAR_INIT(bar, 1); \
    MBAR_INIT(mid, 1); \
    MBAR_FENCE(); \
  }
#define FILL() \
  for (int i = t; i < 256; i += 128) a[i % 2 * 128 + i / 2] = x[i]; \
  if (t < 32) b[t % 2 * 16 + t / 2] = w[t]
#define READY() FENCE_ASYNC(); BEFORE(); __syncthreads(); AFTER()
#define MINE (base + (t / 32 * 32 << 16))
#define OUT() for (int i = 0; i < 16; ++i) y[16 * t + i] = v[i]
#define END(columns) __syncthreads(); if (t < 32) TMEM_FREE(base, columns)
#define TAKE() LD(v, MINE); WAIT_LD(); OUT()
#define STORE_A() ST8(MINE + 32, (const u32*)(x + 2 * t))
