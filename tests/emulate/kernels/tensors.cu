// Copies of boxes through tensor maps: operands, fills, pipelines.
#include "planted.cuh"

#define TILE 256 /* 16 x 16 ints, 1 KiB */

#define START(count)          \
  __shared__ u64 full;        \
  int t = threadIdx.x;        \
  if (t == 0) {               \
    MBAR_INIT(full, count);   \
    MBAR_FENCE();             \
  }                           \
  __syncthreads()

KERNEL tile_misaligned(const __grid_constant__ TensorMap x, int* y) {
  __shared__ alignas(128) int s[TILE + 32];
  START(1);
  int shift = EITHER(32, 16);  // 128 bytes, or 64
  if (t == 0) {
    MBAR_EXPECT(full, 1024);
    TMA_LOAD_2D(s + shift, x, full, 0, 0);  // fault: invalid_operand or misaligned
  }
  MBAR_WAIT(full, 0);
  for (int k = t; k < TILE; k += 64) y[k] = s[shift + k];
  // also: deadlock mbarrier_misuse uninitialized_read
}

KERNEL innermost_coordinate(const __grid_constant__ TensorMap x, int* y) {
  __shared__ alignas(128) int s[TILE];
  START(1);
  if (t == 0) {
    MBAR_EXPECT(full, 1024);
    TMA_LOAD_2D(s, x, full, EITHER(4, 2), 1);  // fault: invalid_operand
  }
  MBAR_WAIT(full, 0);
  for (int k = t; k < TILE; k += 64) y[k] = s[k];
  // also: deadlock mbarrier_misuse uninitialized_read
}

// Without __grid_constant__ the compiler copies the map into local memory.
KERNEL map_in_local_memory(const EITHER(__grid_constant__, ) TensorMap x, int* y) {
  __shared__ alignas(128) int s[TILE];
  START(1);
  if (t == 0) {
    MBAR_EXPECT(full, 1024);
    TMA_LOAD_2D(s, x, full, 0, 0);  // fault: invalid_operand
  }
  MBAR_WAIT(full, 0);
  for (int k = t; k < TILE; k += 64) y[k] = s[k];
  // also: deadlock mbarrier_misuse uninitialized_read
}

KERNEL dimensions_of_another_map(const __grid_constant__ TensorMap x, int* y) {
  __shared__ alignas(128) int s[TILE];
  START(1);
  if (t == 0) {
    MBAR_EXPECT(full, 1024);
    EITHER(TMA_LOAD_2D(s, x, full, 0, 0), asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];" ::"r"(SMEM(s)), "l"(&x), "r"(SMEM(&full)), "r"(0) : "memory"));  // fault: invalid_operand
  }
  MBAR_WAIT(full, 0);
  for (int k = t; k < TILE; k += 64) y[k] = s[k];
  // also: deadlock mbarrier_misuse uninitialized_read
}

// The box hangs over the edge: its fill counts as well.
KERNEL bytes_without_the_fill(const __grid_constant__ TensorMap x, int* y) {
  __shared__ alignas(128) int s[TILE];
  START(1);
  if (t == 0) {
    MBAR_EXPECT(full, EITHER(1024, 8 * 8 * 4));  // fault: mbarrier_misuse
    TMA_LOAD_2D(s, x, full, 24, 24);
  }
  MBAR_WAIT(full, 0);
  for (int k = t; k < TILE; k += 64) y[k] = s[k];
  // also: deadlock in_flight_at_exit
}

KERNEL tile_store_without_proxy_fence(const int* x, const __grid_constant__ TensorMap y) {
  __shared__ alignas(128) int s[TILE];
  int t = threadIdx.x;
  for (int k = t; k < TILE; k += 64) s[k] = x[k];  // fault: proxy_race
  CLEAN(FENCE_ASYNC();)
  __syncthreads();
  if (t == 0) {
    TMA_STORE_2D(y, s, 0, 0);  // fault: proxy_race
    BULK_COMMIT();
    BULK_WAIT_READ(0);
  }
}

// A tile is loaded, changed in place and stored.
KERNEL changed_in_place(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y) {
  __shared__ alignas(128) int s[TILE];
  START(1);
  if (t == 0) {
    MBAR_EXPECT(full, 1024);
    TMA_LOAD_2D(s, x, full, 16, 16);
  }
  MBAR_WAIT(full, 0);
  for (int k = t; k < TILE; k += 64) s[k] += 7;  // fault: proxy_race
  EITHER(FENCE_ASYNC(), asm volatile("fence.acq_rel.cta;" ::: "memory"));
  __syncthreads();
  if (t == 0) {
    TMA_STORE_2D(y, s, 16, 16);  // fault: proxy_race
    BULK_COMMIT();
    BULK_WAIT(0);
  }
}

KERNEL tile_reused_by_next_load(const __grid_constant__ TensorMap x, int* y) {
  __shared__ alignas(128) int s[TILE];
  START(1);
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    if (t == 0) {
      FENCE_ASYNC();
      MBAR_EXPECT(full, 1024);
      TMA_LOAD_2D(s, x, full, 16 * i, 0);  // fault: race
    }
    MBAR_WAIT(full, i & 1);
    int v[4];
    for (int k = 0; k < 4; ++k) v[k] = s[t + 64 * k];  // fault: race
    CLEAN(__syncthreads();)
    for (int k = 0; k < 4; ++k) y[TILE * i + t + 64 * k] = v[k];
  }
}

// After the barrier all have read, but their reads and the copy go through different proxies.
KERNEL tile_reused_without_fence(const __grid_constant__ TensorMap x, int* y) {
  __shared__ alignas(128) int s[TILE];
  START(1);
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    if (t == 0) {
      CLEAN(FENCE_ASYNC();)
      MBAR_EXPECT(full, 1024);
      TMA_LOAD_2D(s, x, full, 16 * i, 0);  // fault: proxy_race
    }
    MBAR_WAIT(full, i & 1);
    for (int k = 0; k < 4; ++k) y[TILE * i + t + 64 * k] = s[t + 64 * k];
    __syncthreads();
  }
}

// A ring of two stages, one producing warp and two that consume.
#define RING()                                                                                                      \
  __shared__ alignas(128) int s[2][TILE];                                                                           \
  __shared__ u64 full[2], empty[2];                                                                                 \
  int t = threadIdx.x;                                                                                              \
  if (t == 0) {                                                                                                     \
    for (int i = 0; i < 2; ++i) {                                                                                   \
      MBAR_INIT(full[i], 1);                                                                                        \
      MBAR_INIT(empty[i], 64);                                                                                      \
    }                                                                                                               \
    MBAR_FENCE();                                                                                                   \
  }                                                                                                                 \
  __syncthreads()

KERNEL ring_without_empty_wait(const __grid_constant__ TensorMap x, int* y) {
  RING();
  if (t < 32) {
    if (t == 0) {
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        int stage = i & 1;
        CLEAN(MBAR_WAIT(empty[stage], (i / 2 & 1) ^ 1);)
        MBAR_EXPECT(full[stage], 1024);
        TMA_LOAD_2D(s[stage], x, full[stage], 16 * (i & 1), 16 * (i / 2));  // fault: race
      }
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      int stage = i & 1;
      MBAR_WAIT(full[stage], i / 2 & 1);
#pragma unroll 1
      for (int k = t - 32; k < TILE; k += 64) y[TILE * i + k] = s[stage][k];  // fault: race
      FENCE_ASYNC();
      MBAR_ARRIVE(empty[stage]);
    }
  }
  // also: mbarrier_misuse deadlock in_flight_at_exit uninitialized_read
}

KERNEL ring_with_wrong_empty_parity(const __grid_constant__ TensorMap x, int* y) {
  RING();
  if (t < 32) {
    if (t == 0) {
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        int stage = i & 1;
        MBAR_WAIT(empty[stage], EITHER((i / 2 & 1) ^ 1, i / 2 & 1));  // fault: deadlock
        MBAR_EXPECT(full[stage], 1024);
        TMA_LOAD_2D(s[stage], x, full[stage], 16 * (i & 1), 16 * (i / 2));
      }
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      int stage = i & 1;
      MBAR_WAIT(full[stage], i / 2 & 1);  // fault: deadlock
#pragma unroll 1
      for (int k = t - 32; k < TILE; k += 64) y[TILE * i + k] = s[stage][k];
      FENCE_ASYNC();
      MBAR_ARRIVE(empty[stage]);
    }
  }
}

// The consumers say that a stage is free before they have read it.
KERNEL ring_freed_too_early(const __grid_constant__ TensorMap x, int* y) {
  RING();
  if (t < 32) {
    if (t == 0) {
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        int stage = i & 1;
        MBAR_WAIT(empty[stage], (i / 2 & 1) ^ 1);
        MBAR_EXPECT(full[stage], 1024);
        TMA_LOAD_2D(s[stage], x, full[stage], 16 * (i & 1), 16 * (i / 2));  // fault: race
      }
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      int stage = i & 1;
      MBAR_WAIT(full[stage], i / 2 & 1);
      EITHER(, MBAR_ARRIVE(empty[stage]));
#pragma unroll 1
      for (int k = t - 32; k < TILE; k += 64) y[TILE * i + k] = s[stage][k];  // fault: race
      FENCE_ASYNC();
      EITHER(MBAR_ARRIVE(empty[stage]), );
    }
  }
  // also: mbarrier_misuse
}

// What a consumer has loaded may be on its way still when it says that the stage is free.
KERNEL ring_freed_without_fence(const __grid_constant__ TensorMap x, int* y) {
  RING();
  if (t < 32) {
    if (t == 0) {
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        int stage = i & 1;
        MBAR_WAIT(empty[stage], (i / 2 & 1) ^ 1);
        MBAR_EXPECT(full[stage], 1024);
        TMA_LOAD_2D(s[stage], x, full[stage], 16 * (i & 1), 16 * (i / 2));  // fault: proxy_race
      }
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      int stage = i & 1;
      MBAR_WAIT(full[stage], i / 2 & 1);
#pragma unroll 1
      for (int k = t - 32; k < TILE; k += 64) y[TILE * i + k] = s[stage][k];
      CLEAN(FENCE_ASYNC();)
      MBAR_ARRIVE(empty[stage]);
    }
  }
}

// One lane arrives for its warp; in the faulty build half of the lanes fence what they read.
KERNEL ring_freed_by_warps_half_fenced(const __grid_constant__ TensorMap x, int* y) {
  RING();
  if (t < 32) {
    if (t == 0) {
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        int stage = i & 1;
        MBAR_WAIT(empty[stage], (i / 2 & 1) ^ 1);
        MBAR_EXPECT(full[stage], 1024);
        TMA_LOAD_2D(s[stage], x, full[stage], 16 * (i & 1), 16 * (i / 2));  // fault: proxy_race
      }
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      int stage = i & 1;
      MBAR_WAIT(full[stage], i / 2 & 1);
#pragma unroll 1
      for (int k = t - 32; k < TILE; k += 64) y[TILE * i + k] = s[stage][k];
      if (EITHER(true, t % 2 == 0)) FENCE_ASYNC();
      __syncwarp();
      if (t % 32 == 0) MBAR_ARRIVE_N(empty[stage], 32);
    }
  }
}

// The producer fences for all, past its wait for them; in the faulty build before it.
KERNEL ring_fenced_by_its_producer(const __grid_constant__ TensorMap x, int* y) {
  RING();
  if (t < 32) {
    if (t == 0) {
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        int stage = i & 1;
        EITHER(, FENCE_ASYNC());
        MBAR_WAIT(empty[stage], (i / 2 & 1) ^ 1);
        EITHER(FENCE_ASYNC(), );
        MBAR_EXPECT(full[stage], 1024);
        TMA_LOAD_2D(s[stage], x, full[stage], 16 * (i & 1), 16 * (i / 2));  // fault: proxy_race
      }
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      int stage = i & 1;
      MBAR_WAIT(full[stage], i / 2 & 1);
#pragma unroll 1
      for (int k = t - 32; k < TILE; k += 64) y[TILE * i + k] = s[stage][k];
      MBAR_ARRIVE(empty[stage]);
    }
  }
}

KERNEL tile_store_in_flight(const int* x, const __grid_constant__ TensorMap y) {
  __shared__ alignas(128) int s[TILE];
  int t = threadIdx.x;
  for (int k = t; k < TILE; k += 64) s[k] = x[k];
  FENCE_ASYNC();
  __syncthreads();
  if (t == 0) {
    TMA_STORE_2D(y, s, 0, 0);  // fault: in_flight_at_exit
    BULK_COMMIT();
    CLEAN(BULK_WAIT_READ(0);)
  }
}

KERNEL tile_reduce_in_flight(const int* x, const __grid_constant__ TensorMap y) {
  __shared__ alignas(128) int s[TILE];
  int t = threadIdx.x;
  for (int k = t; k < TILE; k += 64) s[k] = x[k];
  FENCE_ASYNC();
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&y), "r"(SMEM(s)), "r"(0), "r"(0) : "memory");  // fault: in_flight_at_exit
    BULK_COMMIT();
    CLEAN(BULK_WAIT_READ(0);)
  }
}
