// What is per row: codes in the caller's order, the leaf of rows that a tree has not seen, sums of leaf values, and the
// targets of squared loss.
// One thread adds the trees of a row in the order of their numbers, so that float64 sums have one order.

#include "common.cuh"

#define NOT_ROUTED ((int)0x80808080)  // no leaf, nor ~leaf, since there are fewer nodes

// Store the codes of the matrix in the order of the sources, by columns and row by row.
extern "C" __global__ void arrange(const u8* matrix, const int* source_of_row, i64 n_rows, i64 n_features, i64 stride,
                                   u8* columns, u8* codes) {
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n_rows) return;
    i64 source = source_of_row[row];
    for (i64 feature = 0; feature < n_features; feature++) {
        u8 code = matrix[feature * n_rows + row];
        columns[feature * n_rows + source] = code;
        codes[source * stride + feature] = code;
    }
}

// Fill the leaves of the rows whose leaf is not known yet, as ~leaf: the tree has not seen them.
extern "C" __global__ void route(const u8* codes, i64 n_rows, i64 stride, i64 max_nodes, const Node* nodes,
                                 int* leaves) {
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x, tree = blockIdx.y;
    if (row >= n_rows || leaves[tree * n_rows + row] != NOT_ROUTED) return;
    const Node* of_tree = nodes + tree * max_nodes;
    int number = 0;
    while (of_tree[number].left != 0) {
        const Node& node = of_tree[number];
        int value = codes[row * stride + node.feature];
        number = value == MISSING_BIN ? node.missing : value <= node.code ? node.left : node.left + 1;
    }
    leaves[tree * n_rows + row] = ~number;
}

// Add the values of the trees `first` to `last` to the sums of the rows that they have not seen, and count them. With
// `has_seen`, rows that are not held out from any tree are marked in `seen`; else a tree has seen the rows of its bag.
extern "C" __global__ void add_unseen(i64 n_rows, int first, int last, int has_seen, const int* seen,
                                      const int* leaves, const i64* starts, const double* values, double* sums,
                                      int* n_trees) {
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n_rows || (has_seen && seen[row] != 0)) return;
    double sum = sums[row];
    int n_added = 0;
    for (i64 tree = first; tree < last; tree++) {
        int leaf = leaves[tree * n_rows + row];
        if (leaf >= 0 && !has_seen) continue;
        sum += values[starts[tree] + (leaf < 0 ? ~leaf : leaf)];
        n_added++;
    }
    sums[row] = sum;
    n_trees[row] += n_added;
}

// Add the values of the trees `first` to `last` to the totals of all rows.
extern "C" __global__ void add_all(i64 n_rows, int first, int last, const int* leaves, const i64* starts,
                                   const double* values, double* totals) {
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n_rows) return;
    double total = totals[row];
    for (i64 tree = first; tree < last; tree++) {
        int leaf = leaves[tree * n_rows + row];
        total += values[starts[tree] + (leaf < 0 ? ~leaf : leaf)];
    }
    totals[row] = total;
}

// The leaf of every row in one tree, for the host: -1 where it is not known.
extern "C" __global__ void plain_leaves(i64 n_rows, i64 tree, const int* leaves, int* plain) {
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n_rows) return;
    int leaf = leaves[tree * n_rows + row];
    plain[row] = leaf == NOT_ROUTED ? -1 : leaf < 0 ? ~leaf : leaf;
}

// Targets of boosting, and their whole numbers, as trees/packing.py makes them.

// The scores of the rows: what trees add up to, and what that is added to.
extern "C" __global__ void add_starts(i64 n_rows, const double* totals, const double* starts, i64 n_starts,
                                      double* scores) {
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n_rows) scores[row] = totals[row] + starts[n_starts == 1 ? 0 : row];
}

// A number whose order is that of float64: its key, as trees/packing.py says, with the sign turned.
__device__ __forceinline__ u64 ordered(double value) {
    u64 bits = (u64)__double_as_longlong(value);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

// The key of a number that is not negative.
__device__ __forceinline__ u64 key_of_size(double value) {
    i64 bits = __double_as_longlong(value);
    return bits < 0 ? 0 : (u64)bits;
}

// Raise a number of the block to the greatest value of its threads: one atomic operation per warp.
__device__ __forceinline__ void raise_to(u64* greatest, u64 value) {
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        u64 other = __shfl_xor_sync(ALL_LANES, value, distance);
        value = other > value ? other : value;
    }
    if (lane_of_thread() == 0) atomicMax(greatest, value);
}

// Squared loss: what the scores leave of the labels, and the greatest of ~number and number of all of them, which are 0
// at the start.
extern "C" __global__ void residuals(i64 n_rows, const double* labels, const double* totals, const double* starts,
                                     i64 n_starts, double* targets, u64* greatest) {
    __shared__ u64 of_block[2];
    if (threadIdx.x < 2) of_block[threadIdx.x] = 0;
    __syncthreads();
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 low = 0, high = 0;
    if (row < n_rows) {
        double target = labels[row] - (totals[row] + starts[n_starts == 1 ? 0 : row]);
        targets[row] = target;
        high = ordered(target);
        low = ~high;
    }
    __syncwarp();
    raise_to(of_block, low);
    raise_to(of_block + 1, high);
    __syncthreads();
    if (threadIdx.x < 2) atomicMax(greatest + threadIdx.x, of_block[threadIdx.x]);
}

// The same of targets that are there, and the keys of the greatest weight and of the greatest |weight (target - shift)|
// of rows that have weights.
extern "C" __global__ void extents(i64 n_rows, const double* targets, int has_weights, const double* weights,
                                   double shift, u64* greatest) {
    __shared__ u64 of_block[4];
    if (threadIdx.x < 4) of_block[threadIdx.x] = 0;
    __syncthreads();
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 low = 0, high = 0, weight = 0, product = 0;
    if (row < n_rows) {
        high = ordered(targets[row]);
        low = ~high;
        if (has_weights) {
            weight = key_of_size(weights[row]);
            product = key_of_size(fabs((targets[row] - shift) * weights[row]));
        }
    }
    __syncwarp();
    raise_to(of_block, low);
    raise_to(of_block + 1, high);
    if (has_weights) {
        raise_to(of_block + 2, weight);
        raise_to(of_block + 3, product);
    }
    __syncthreads();
    if (threadIdx.x < 4) atomicMax(greatest + threadIdx.x, of_block[threadIdx.x]);
}

// The sum of the targets in whole numbers.
extern "C" __global__ void add_whole(i64 n_rows, const double* targets, double lift, double unit, u64* sum) {
    __shared__ u64 of_block;
    if (threadIdx.x == 0) of_block = 0;
    __syncthreads();
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 own = row < n_rows ? (u64)(i64)rint(targets[row] * lift * unit) : 0;
    __syncwarp();
    add_to_block(&of_block, own);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(sum, of_block);
}

// Targets times weights, and weights, as whole numbers.
extern "C" __global__ void make_whole(i64 n_rows, const double* targets, double shift, double lift, double unit,
                                      i64* whole, int has_weights, const double* weights, double weight_lift,
                                      double weight_unit, i64* whole_weights) {
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n_rows) return;
    double weight = has_weights ? weights[row] : 1.0;
    whole[row] = (i64)rint((targets[row] - shift) * weight * lift * unit);
    if (has_weights) whole_weights[row] = (i64)rint(weight * weight_lift * weight_unit);
}
