// Small kernels that use each primitive the emulator offers; test_emulator.py says what each must give.

typedef unsigned long long u64;
typedef unsigned int u32;
#define ALL 0xffffffffu

extern "C" __global__ void add(const float* __restrict__ a, const float* __restrict__ b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i] * SCALE;
}

template <class T>
__device__ __forceinline__ T sum_of_warp(T value) {
#pragma unroll
    for (int distance = 16; distance; distance >>= 1) value += __shfl_xor_sync(ALL, value, distance);
    return value;
}

template <class T>
__device__ T sum_of_block(T value) {
    __shared__ T sums[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    value = sum_of_warp(value);
    if (lane == 0) sums[warp] = value;
    __syncthreads();
    value = lane < blockDim.x / 32 ? sums[lane] : T(0);
    return sum_of_warp(value);
}

// A sum per block of float64 and of whole numbers, by shuffles; the block adds its whole numbers to one total.
extern "C" __global__ void __launch_bounds__(256, 2) reduce(const double* values, const int* whole, double* sums, u64* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = sum_of_block(i < n ? values[i] : 0.0);
    __syncthreads();
    int count = sum_of_block(i < n ? whole[i] : 0);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
        atomicAdd(total, (u64)count);
    }
}

// Counts of codes in dynamic shared memory; a hole is left between the tables, which nobody may need.
extern "C" __global__ void histogram(const unsigned char* codes, int n, u32* counts) {
    extern __shared__ __align__(16) unsigned char raw[];
    u32* table = (u32*)raw;
    for (int code = threadIdx.x; code < 256; code += blockDim.x) table[code] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&table[codes[i]], 1u);
    __syncthreads();
    for (int code = threadIdx.x; code < 256; code += blockDim.x)
        if (table[code]) atomicAdd(&counts[code], table[code]);
}

// The odd numbers in front, in any order, by a vote and one atomic addition per warp.
extern "C" __global__ void compact(const u32* values, int n, u32* out, int* n_out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    bool is_kept = i < n && (values[i] & 1);
    u32 kept = __ballot_sync(ALL, is_kept);
    int first = 0;
    if (lane == 0 && kept) first = atomicAdd(n_out, __popc(kept));
    first = __shfl_sync(ALL, first, 0);
    if (is_kept) out[first + __popc(kept & ((1u << lane) - 1))] = values[i];
}

// Blocks that wait for each other: each round, a block reads what its neighbour wrote in the round before.
__device__ void wait_for_all(u32* arrived, u32& wanted) {
    __syncthreads();
    if (threadIdx.x == 0) {
        wanted += gridDim.x;
        __threadfence();
        atomicAdd(arrived, 1u);
        while (__ldcg(arrived) < wanted) {}
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void pass_round(u32* arrived, int* values, int n_rounds) {
    __shared__ int mine;
    u32 wanted = 0;
    int block = blockIdx.x, neighbour = (block + 1) % gridDim.x;
    if (threadIdx.x == 0) mine = values[block];
    wait_for_all(arrived, wanted);
    for (int step = 0; step < n_rounds; step++) {
        int next = __ldcg(&values[neighbour]);
        wait_for_all(arrived, wanted);
        if (threadIdx.x == 0) {
            mine = next;
            __stcg(&values[block], mine);
        }
        wait_for_all(arrived, wanted);
    }
    if (threadIdx.x == 0) values[block] = mine * 10;
}

// Waits as other engines write it, in assembler.
extern "C" __global__ void wait_in_assembler(u32* arrived, int* out) {
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 seen;
        asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(arrived), "r"(1u) : "memory");
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
        } while (seen < gridDim.x);
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

// One mistake each.
extern "C" __global__ void mistake(int kind, int* out, int n) {
    extern __shared__ int room[];
    int thread = threadIdx.x;
    if (kind == 0 && thread < 32) __syncthreads();
    if (kind == 1) {
        if (thread % 2) __syncthreads();
        else __syncthreads();
    }
    if (kind == 2 && thread < 16) __shfl_sync(ALL, thread, 0);
    if (kind == 2 && thread >= 16) __syncthreads();
    if (kind == 3 && thread == 5) out[n] = 1;
    if (kind == 4 && thread == 0) out[-1] = 1;
    if (kind == 5) assert(thread < 40);
    if (kind == 6 && thread == 7) *(int*)((char*)out + 1) = 1;
    if (kind == 7 && thread == 0) while (atomicAdd(out, 0) == 0) {}
    if (kind == 8) room[thread] = thread;
    if (kind == 9 && thread == 3) __trap();
    if (kind == 10) out[thread] = 7 / n;
    if (kind == 11) out[thread] = (int)__ballot_sync(1u, 1);
    if (kind == 12) out[thread] = room[thread];
    if (kind == 13) while (*(volatile int*)out == 0) {}
    if (kind == 14) printf("thread %d of %d\n", thread, n);
}

// A race of each kind, and beside it what is right.
extern "C" __global__ void race(int kind, int is_right, int* out) {
    __shared__ int values[128];
    __shared__ int count;
    int thread = threadIdx.x, at = blockIdx.x * blockDim.x + thread;
    if (thread == 0) count = 0;
    values[thread] = thread;
    __syncthreads();
    if (kind == 0) {  // writes of one warp, reads of another
        values[thread] = 3 * thread;
        if (is_right) __syncthreads();
        out[at] = values[thread ^ 96];
    }
    if (kind == 1) {  // within a warp
        values[thread] = 3 * thread;
        if (is_right) __syncwarp();
        out[at] = values[thread ^ 1];
    }
    if (kind == 2) {  // an atomic and a plain read
        atomicAdd(&count, 1);
        if (is_right) __syncthreads();
        out[at] = count;
    }
    if (kind == 3) {  // reads before writes
        out[at] = values[thread ^ 64];
        if (is_right) __syncthreads();
        values[thread] = -1;
    }
    if (kind == 4) values[64] = is_right ? 5 : thread;  // many write the same
    if (kind == 5) {  // what another block wrote, with and without waiting for it
        if (blockIdx.x == 0) out[1 + thread] = thread;
        __syncthreads();
        if (thread == 0 && is_right) {
            __threadfence();
            atomicAdd(out, 1);
            while (*(volatile int*)out < gridDim.x) {}
            __threadfence();
        }
        __syncthreads();
        if (blockIdx.x == 1) values[thread] = out[1 + thread];
    }
}

// Columns of what single functions give.
extern "C" __global__ void functions(const u32* words, const double* numbers, u64* out, double* results, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    u32 x = words[i];
    double a = numbers[i];
    u64 wide = (u64)x * 0x9E3779B97F4A7C15ull;
    u64* row = out + i * 12;
    row[0] = __popc(x);
    row[1] = __popcll(wide);
    row[2] = __ffs((int)x);
    row[3] = __clz((int)x);
    row[4] = __brev(x);
    row[5] = __umulhi(x, 0x9E3779B1u);
    row[6] = __umul64hi(wide, wide);
    row[7] = (u64)__double_as_longlong(a);
    row[8] = (u64)__double2ll_rn(a);
    row[9] = (u64)(long long)__double2int_rz(a);
    row[10] = max(min(x, 100u), 7u);
    row[11] = (u64)abs((int)x);
    double* result = results + i * 6;
    result[0] = __dadd_rn(a, 0.1);
    result[1] = __dsub_rn(__dmul_rn(a, a), 0.1);
    result[2] = __ddiv_rn(a, 3.0);
    result[3] = __dsqrt_rn(fabs(a));
    result[4] = __fma_rn(a, a, -a);
    result[5] = __ll2double_rn(__double_as_longlong(a));
}

__constant__ int table[4];
extern "C" __global__ void look_up(int* out) { out[threadIdx.x] = table[threadIdx.x & 3]; }
template <int factor>
__global__ void multiply(int* values) { values[threadIdx.x] *= factor; }

// What a lane has of its neighbours, its segment of 8 and its equals, and what the block counts.
extern "C" __global__ void lanes(const int* values, int* out) {
    int t = threadIdx.x, lane = t & 31, v = values[t];
    int* row = out + t * 10;
    row[0] = __shfl_up_sync(ALL, v, 3);
    row[1] = __shfl_down_sync(ALL, v, 3, 8);
    row[2] = __shfl_sync(ALL, v, 9, 8);
    row[3] = __shfl_xor_sync(ALL, v, 5);
    row[4] = __any_sync(ALL, v == 3) + 2 * __all_sync(ALL, v < 7);
    row[5] = (int)__match_any_sync(ALL, v);
    row[6] = __reduce_min_sync(ALL, v);
    row[7] = __syncthreads_count(v > 2);
    row[8] = __syncthreads_or(v == 1000) + 2 * __syncthreads_and(v >= 0);
    row[9] = lane < 8 ? __shfl_sync(0xffu, v, 7) : -1;
    __syncwarp();
}
