// What all kernels of the CUDA engine share: types, the hash that replaces random generators, sums within a warp.
//
// Every number that reaches a model is computed by the same operations in the same order as on the CPU: whole numbers
// are added as integers, and float64 is compiled without fused multiplications (--fmad=false).

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;
typedef unsigned char u8;

#ifndef THREADS
#define THREADS 1024  // of a block
#endif
#define LANES 32
#define WARPS (THREADS / LANES)
#define ALL_LANES 0xffffffffu

#define MISSING_BIN 255
#define N_CODES 256
#define NO_SPLIT (-1)

// As in trees/workspace.py.
#define BEST 0
#define RANDOM 1
#define COMPLETELY_RANDOM 2
#define LEARNED 0
#define GO_LEFT 1
#define GO_RIGHT 2
#define OWN_CHILD 3

// A node of a growing tree, and the record that the host reads when it has grown: nodes.NODE is its dtype.
struct Node {
    double gain;
    i64 packed_sum;  // of its entries
    u64 path;        // hash of the path from the root
    i64 position;    // in a binary heap; -1 on overflow
    i64 n_rows;      // drawn, repeated ones counted
    i64 target_sum;  // of a leaf: whole targets, and whole weights
    i64 weight_sum;
    u32 begin;  // of its entries
    u32 end;
    int depth;
    int feature;  // -1 while it has no split
    int left;     // the right child follows, then that of missing values, if it is one; 0 in a leaf
    int missing;
    u8 code;
    u8 side;    // of missing values
    u8 buffer;  // that has its entries: 0 or 1
    u8 unused;
    int slot;  // of its histogram, where histograms are kept
};

__device__ __forceinline__ u64 mix(u64 value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

__device__ __forceinline__ u64 combine(u64 one, u64 other) {
    return mix(one * 0x9E3779B97F4A7C15ull + other + 1ull);
}

// A number in [0, 1) that depends on two numbers only.
__device__ __forceinline__ double uniform(u64 one, u64 other) {
    return (double)(combine(one, other) >> 11) * (1.0 / 9007199254740992.0);
}

__device__ __forceinline__ int lane_of_thread() { return threadIdx.x % LANES; }
__device__ __forceinline__ int warp_of_thread() { return threadIdx.x / LANES; }

// The sum over the lanes of a warp, in all of them.
__device__ __forceinline__ u64 sum_of_warp(u64 value) {
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, distance);
    return value;
}

__device__ __forceinline__ int least_of_warp(int value) {
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        int other = __shfl_xor_sync(ALL_LANES, value, distance);
        value = other < value ? other : value;
    }
    return value;
}

// Add to a sum of the block: one atomic addition per warp.
__device__ __forceinline__ void add_to_block(u64* sum, u64 value) {
    value = sum_of_warp(value);
    if (lane_of_thread() == 0 && value != 0) atomicAdd(sum, value);
}
