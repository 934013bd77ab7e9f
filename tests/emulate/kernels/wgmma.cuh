// Products of warpgroups, for kernels with planted faults.
//
// x holds matrices of 64 x 16 f16 (A), w one of 8 x 16 (B). In shared memory rows of 16 bytes lie in columns along k: without
// a swizzle, LBO steps from one column to the next (64 or 8 rows of 16 bytes), SBO from 8 rows to the next 8.
#pragma once
#include "planted.cuh"

#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")
#define MMA(d, a, b, adds) asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b), "r"((int)(adds)))
#define MMA_R(d, a, b, adds) asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 0;\n}" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)(adds)))
#define MMA_16(d, a, b, adds) asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\nwgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;\n}" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : "l"(a), "l"(b), "r"((int)(adds)))

#define WRITTEN(wait) asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 0, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\n" wait "\nadd.f32 %0, %6, 0f3F800000;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(A), "l"(B), "f"((float)t) : "memory")

#define DESC(p, lbo, sbo) ((u64)(SMEM(p) >> 4) | (u64)((lbo) >> 4) << 16 | (u64)((sbo) >> 4) << 32)
#define SWIZZLED(p) ((u64)(SMEM(p) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62)

#define COPY(dst, src, rows) if (t < 2 * (rows)) ((uint4*)(dst))[t % 2 * (rows) + t / 2] = ((const uint4*)(src))[t]
#define STORE(y, d) for (int i = 0; i < 4; ++i) (y)[(16 * (t / 32) + t % 32 / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = d[i]

#define START() \
  __shared__ alignas(1024) char a[2048], b[256]; \
  int t = threadIdx.x; \
  float d[4]

#define FILL() COPY(a, x, 64); COPY(b, w, 8)
#define READY() FENCE_ASYNC(); __syncthreads()
#define A DESC(a, 1024, 128)
#define B DESC(b, 128, 128)
