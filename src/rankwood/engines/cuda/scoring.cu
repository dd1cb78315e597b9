// Scoring: each thread walks one row down the trees and adds their values in the order of the trees, as the kernels of
// models/scoring.py do on the CPU. Keys and nodes are those of its PackedForest.

#include "common.cuh"

#define AT_ONCE 4  // trees that a thread walks side by side, since each step waits for memory
#define LEAST_KEY ((int)0x80000000)
#define INFINITY_BITS 0x7F800000u  // of float32; greater ones, without the sign, are NaN
#define WIDE 6  // numbers of a node whose split may have a third child, or be of categories
#define WORDS 4  // of the set of categories that go left, by node

// What the threads of a launch have in common: Walk of scores.py.
struct Walk {
    i64 n_features;
    i64 n_columns;  // of keys
    i64 n_trees;  // of the forest
    i64 first;
    i64 last;
    int from_codes;
    int left_shift;
    int is_wide;
    int wants_leaves;
    int is_shared;  // whether the keys of a block's rows have room in shared memory
    int unused;  // as many bytes as the dtype has
};

extern __shared__ int keys_of_block[];  // by column and thread, so that the lanes of a warp read different banks

// The key of a value of a row: rows are codes by feature, or the bits of float32 values row by row.
__device__ __forceinline__ int key_of(const Walk& walk, const u8* rows, i64 n_rows, i64 row, i64 feature,
                                      int missing_key) {
    if (walk.from_codes) {
        int code = rows[feature * n_rows + row];
        return code == MISSING_BIN ? missing_key : code;
    }
    u32 value = ((const u32*)rows)[row * walk.n_features + feature], magnitude = value & 0x7FFFFFFFu;
    if (magnitude > INFINITY_BITS) return missing_key;
    return value == magnitude ? (int)magnitude : -(int)magnitude;
}

// Fill the keys of the block's rows. Neighbouring lanes read neighbouring values: of one row, or of one feature's codes.
__device__ void fill_keys(const Walk& walk, const u8* rows, i64 n_rows, const i64* columns, const int* missing_keys) {
    i64 begin = (i64)blockIdx.x * THREADS, left = n_rows - begin;
    int n_here = left < THREADS ? (int)left : THREADS;
    if (walk.from_codes) {
        if (threadIdx.x >= n_here) return;
        for (i64 column = 0; column < walk.n_columns; column++)
            keys_of_block[column * THREADS + threadIdx.x] =
                key_of(walk, rows, n_rows, begin + threadIdx.x, columns[column], missing_keys[column]);
        return;
    }
    for (int row = warp_of_thread(); row < n_here; row += WARPS)
        for (i64 column = lane_of_thread(); column < walk.n_columns; column += LANES)
            keys_of_block[column * THREADS + row] =
                key_of(walk, rows, n_rows, begin + row, columns[column], missing_keys[column]);
}

// The key of the thread's own row in a column.
__device__ __forceinline__ int own_key(const Walk& walk, const u8* rows, i64 n_rows, const i64* columns,
                                       const int* missing_keys, i64 row, u32 column) {
    if (walk.is_shared) return keys_of_block[column * THREADS + threadIdx.x];
    return key_of(walk, rows, n_rows, row, columns[column], missing_keys[column]);
}

// Add the values of trees to the totals of the rows, or write the leaf of each row in each tree.
extern "C" __global__ void __launch_bounds__(THREADS) walk_rows(
    const Walk* walk_of_all, i64 n_rows, const u8* rows, const i64* columns, const int* missing_keys,
    const i64* offsets, const i64* packed, const i64* wide, const u64* subsets, const double* values, const int* numbers,
    double* totals, int* leaves) {
    const Walk& walk = *walk_of_all;
    if (walk.is_shared) {
        fill_keys(walk, rows, n_rows, columns, missing_keys);
        __syncthreads();
    }
    i64 row = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (row >= n_rows) return;
    u32 mask = (1u << walk.left_shift) - 1;
    double total = walk.wants_leaves ? 0.0 : totals[row];
    for (i64 tree = walk.first; tree < walk.last; tree += AT_ONCE) {
        i64 roots[AT_ONCE];
        u32 nodes[AT_ONCE];
#pragma unroll
        for (int turn = 0; turn < AT_ONCE; turn++) {
            roots[turn] = offsets[tree + turn < walk.last ? tree + turn : walk.last - 1];
            nodes[turn] = 0;
        }
        bool has_moved = true;
        while (has_moved) {
            has_moved = false;
#pragma unroll
            for (int turn = 0; turn < AT_ONCE; turn++) {
                u32 next = nodes[turn];
                if (walk.is_wide) {
                    const i64* node = wide + WIDE * (roots[turn] + next);
                    if (node[0] < 0) continue;
                    int key = own_key(walk, rows, n_rows, columns, missing_keys, row, (u32)node[0]);
                    bool is_left = key <= node[1];
                    if (node[5]) {
                        u64 category = (u64)key;
                        u64 word = subsets[WORDS * (roots[turn] + next) + ((category >> 6) & (WORDS - 1))];
                        is_left = (word >> (category & 63)) & 1;
                    }
                    next = (u32)(key == LEAST_KEY ? node[4] : is_left ? node[2] : node[3]);
                } else {
                    i64 node = packed[roots[turn] + next];
                    int key = own_key(walk, rows, n_rows, columns, missing_keys, row, ((u32)node & mask) / 8);
                    next = ((u32)node >> walk.left_shift) + (key > (int)(node >> 32));
                }
                has_moved |= next != nodes[turn];
                nodes[turn] = next;
            }
        }
#pragma unroll
        for (int turn = 0; turn < AT_ONCE; turn++) {
            if (tree + turn >= walk.last) break;
            i64 leaf = roots[turn] + nodes[turn];
            if (walk.wants_leaves) leaves[row * walk.n_trees + tree + turn] = numbers[leaf];
            else total += values[leaf];
        }
    }
    if (!walk.wants_leaves) totals[row] = total;
}
