// Growing many trees: one block of threads grows one whole tree, and takes the next one when it is done.
//
// A tree is what trees/best_first.py grows, split by split. Nothing is launched within a tree, and no block waits for
// another one.

#include "common.cuh"
#include "splitting.cuh"
#include "growth.cuh"

#define LARGE_LEAF 4096  // entries, from which on all warps of the block read a leaf

// The bag.

// Count draws without weights in shared memory, as many units at a time as it has room for: the draws of all blocks are
// too many for the caches, and additions to memory take long. False where four bits do not hold a count.
__device__ __noinline__ bool count_draws(u64 stream) {
    double n_units = (double)launch.n_units;
    if (threadIdx.x == 0) shared.flag = 0;
    for (i64 first = 0; first < launch.n_units; first += launch.n_counted) {
        i64 left = launch.n_units - first;
        u32 n_here = (u32)(left < launch.n_counted ? left : launch.n_counted), n_words = (n_here + 7) / 8;
        for (u32 word = threadIdx.x; word < n_words; word += THREADS) dynamic_shared[word] = 0;
        __syncthreads();
        for (i64 draw = threadIdx.x; draw < launch.n_draws; draw += THREADS) {
            u32 unit = (u32)(uniform(stream, (u64)draw) * n_units) - (u32)first;
            if (unit >= n_here) continue;  // one before the first is a large number
            u32 place = unit % 8 * 4, before = atomicAdd(dynamic_shared + unit / 8, 1u << place);
            if ((before >> place & 15) == 15) shared.flag = 1;
        }
        __syncthreads();
        for (u32 unit = threadIdx.x; unit < n_here; unit += THREADS)
            a.drawn[first + unit] = (int)(dynamic_shared[unit / 8] >> unit % 8 * 4 & 15);
        __syncthreads();
    }
    return shared.flag == 0;
}

__device__ __noinline__ void draw_bag(u64 stream, const double* cumulative, const i64* guide) {
    if (launch.bag_kind == DRAWN && count_draws(stream)) return;
    for (i64 unit = threadIdx.x; unit < launch.n_units; unit += THREADS) a.drawn[unit] = 0;
    __syncthreads();
    i64 last = launch.n_units - 1;
    double total = launch.bag_kind == BY_WEIGHT ? cumulative[last] : 0.0;
    for (i64 draw = threadIdx.x; draw < launch.n_draws; draw += THREADS) {
        double share = uniform(stream, (u64)draw);
        i64 unit = (i64)(share * (double)launch.n_units);
        if (launch.bag_kind == BY_WEIGHT) {
            double mark = share * total;
            unit = guide[unit];
            while (unit < last && cumulative[unit] <= mark) unit++;
        }
        atomicAdd(a.drawn + unit, 1);
    }
    __syncthreads();
}

// The entries of all rows of the bag, and the root that owns them. `sizes` become what choose_units took.
__device__ __noinline__ void plant(u64 stream, i64* sizes) {
    if (threadIdx.x < 4) {
        shared.sums[threadIdx.x] = 0;
        shared.counters[threadIdx.x] = 0;
    }
    __syncthreads();
    u64 n_rows = 0, weight = 0, size = 0, n_draws = 0;
    for (i64 base = threadIdx.x; base < launch.n_rows; base += CHUNK * THREADS) {
        i64 counts[CHUNK], targets[CHUNK];
#pragma unroll
        for (int step = 0; step < CHUNK; step++) {
            i64 row = base + step * THREADS;
            counts[step] = row < launch.n_rows ? count_of((u32)row) : 0;
            targets[step] = row < launch.n_rows ? a.targets[row] : 0;
        }
#pragma unroll
        for (int step = 0; step < CHUNK; step++) {
            i64 count = counts[step];
            n_rows += count > 0;
            n_draws += count;
            weight += launch.has_weights && count > 0 ? count * a.weights[base + step * THREADS] : count;
            size += count * (targets[step] < 0 ? -targets[step] : targets[step]);
        }
    }
    __syncwarp();
    add_to_block(shared.sums, n_rows);
    add_to_block(shared.sums + 1, weight);
    add_to_block(shared.sums + 2, size);
    add_to_block(shared.sums + 3, n_draws);
    __syncthreads();
    if (threadIdx.x == 0) {
        choose_units((i64)shared.sums[0], shared.sums[1], shared.sums[2]);
        for (int index = 0; index < 4; index++) sizes[index] = (i64)shared.sums[index];
        shared.sums[0] = 0;
    }
    __syncthreads();
    int bits = shared.rules.bits, drop = shared.drop, drop_weight = shared.drop_weight;
    i64 half = ((i64)1 << drop) >> 1, half_weight = ((i64)1 << drop_weight) >> 1;
    u64 total = 0;
    for (i64 base = warp_of_thread() * CHUNK * LANES; base < launch.n_rows; base += CHUNK * THREADS) {
        i64 counts[CHUNK], targets[CHUNK];
        u32 are_drawn[CHUNK], place = 0, n_drawn = 0;
#pragma unroll
        for (int step = 0; step < CHUNK; step++) {
            i64 row = base + step * LANES + lane_of_thread();
            counts[step] = row < launch.n_rows ? count_of((u32)row) : 0;
            targets[step] = row < launch.n_rows ? a.targets[row] : 0;
        }
#pragma unroll
        for (int step = 0; step < CHUNK; step++) {
            are_drawn[step] = __ballot_sync(ALL_LANES, counts[step] > 0);
            n_drawn += __popc(are_drawn[step]);
        }
        if (lane_of_thread() == 0) place = atomicAdd(shared.counters, n_drawn);
        place = __shfl_sync(ALL_LANES, place, 0);
#pragma unroll
        for (int step = 0; step < CHUNK; step++) {
            i64 row = base + step * LANES + lane_of_thread(), count = counts[step];
            u32 own = place + __popc(are_drawn[step] & ((1u << lane_of_thread()) - 1));
            place += __popc(are_drawn[step]);
            if (count == 0) continue;
            i64 weight_of_row = count * (launch.has_weights ? a.weights[row] : 1);
            i64 scaled = (count * targets[step] + half) >> drop;
            u64 packed = ((u64)scaled << bits) + (u64)((weight_of_row + half_weight) >> drop_weight);
            a.rows[own] = (u32)row;
            a.packed[own] = (i64)packed;
            total += packed;
        }
    }
    __syncwarp();
    add_to_block(shared.sums, total);
    __syncthreads();
    if (threadIdx.x == 0) {
        i64 sum = (i64)shared.sums[0];
        Node root = {};
        root.packed_sum = sum;
        root.path = mix(stream);
        root.n_rows = launch.has_weights ? (i64)shared.sums[3] : weight_part(sum, shared.rules);
        root.end = shared.counters[0];
        root.feature = -1;
        a.nodes[0] = root;
        shared.n_nodes = 1;
        shared.n_leaves = 1;
        shared.heap_size = 0;
    }
    __syncthreads();
}

// The best split of each of the features that the node searches.
__device__ __noinline__ void search_features(const Node& node) {
    for (int first = 0; first < shared.n_candidates; first += launch.tile) {
        int n_features = shared.n_candidates - first < launch.tile ? shared.n_candidates - first : launch.tile;
        Histograms histograms(n_features);
        histograms.clear();
        __syncthreads();
        add_entries(histograms, {node.buffer, node.begin, node.end}, a.features + first);
        __syncthreads();
        for (int index = warp_of_thread(); index < n_features; index += WARPS) {
            Column column;
            read_column(histograms, index, column);
            Found found = split_by(node, a.features[first + index], column);
            if (lane_of_thread() == 0) a.found[first + index] = found;
        }
        __syncthreads();
    }
}

// Count the rows of a node by the bins of one candidate, and find its best split with min_leaf.
__device__ __noinline__ void count_candidate(const Node& node, int index) {
    Histograms histograms(1);
    u32* counts = dynamic_shared + 2 * N_CODES;
    const u32* rows = a.rows + node.buffer * launch.n_rows;
    const i64* packed = a.packed + node.buffer * launch.n_rows;
    int feature = a.features[index];
    const u8* column_codes = a.columns + feature * launch.n_rows;
    for (int code = threadIdx.x; code < 3 * N_CODES; code += THREADS) dynamic_shared[code] = 0;
    __syncthreads();
    for (i64 entry = (i64)node.begin + threadIdx.x; entry < node.end; entry += THREADS) {
        u32 code = column_codes[rows[entry]];
        histograms.add(code, (u64)packed[entry]);
        atomicAdd(counts + code, (u32)count_of(rows[entry]));
    }
    __syncthreads();
    if (warp_of_thread() == 0) {
        Column column;
        read_column(histograms, 0, column);
        column.is_counted = true;
        for (int step = 0; step < CODES_PER_LANE; step++)
            column.counts[step] = counts[lane_of_thread() * CODES_PER_LANE + step];
        column.add_up();
        Found found = split_by(node, feature, column);
        if (lane_of_thread() == 0) a.found[index] = found;
    }
    __syncthreads();
}

// Draw a feature that varies in the node, and a cut of it: split_randomly of trees/random_trees.py.
__device__ __noinline__ void draw_split(int number) {
    const Node node = a.nodes[number];
    const u32* rows = a.rows + node.buffer * launch.n_rows;
    const i64* packed = a.packed + node.buffer * launch.n_rows;
    int n_attempts = 4 * (int)launch.n_features, code = NO_SPLIT, is_absent = 0, feature = 0, attempt = 0;
    for (; attempt < n_attempts && code == NO_SPLIT; attempt++) {
        feature = (int)(uniform(node.path, (u64)attempt) * (double)launch.n_features);
        const u8* column = a.columns + feature * launch.n_rows;
        int least = MISSING_BIN, most = -1, absent = 0;
        for (i64 entry = (i64)node.begin + threadIdx.x; entry < node.end; entry += THREADS) {
            int value = column[rows[entry]];
            if (packed[entry] == 0) continue;
            if (value == MISSING_BIN) absent = 1;
            else {
                if (value < least) least = value;
                if (value > most) most = value;
            }
        }
        __syncwarp();
        least = least_of_warp(least);
        most = -least_of_warp(-most);
        absent = -least_of_warp(-absent);
        if (threadIdx.x < 3) shared.counters[threadIdx.x] = 0;
        __syncthreads();
        if (lane_of_thread() == 0) {
            atomicMax(shared.counters, (u32)(MISSING_BIN - least));
            atomicMax(shared.counters + 1, (u32)(most + 1));
            atomicMax(shared.counters + 2, (u32)absent);
        }
        __syncthreads();
        least = MISSING_BIN - (int)shared.counters[0];
        most = (int)shared.counters[1] - 1;
        is_absent = (int)shared.counters[2];
        double draw = uniform(node.path, (u64)(attempt + n_attempts));
        code = cut_between(least, most, a.thresholds + a.offsets[feature], draw);
        __syncthreads();
    }
    if (threadIdx.x == 0 && code != NO_SPLIT) {
        Node& split = a.nodes[number];
        split.feature = feature;
        split.code = (u8)code;
        split.side = is_absent ? (u8)(GO_LEFT + (combine(node.path, (u64)(attempt - 1)) & 1)) : LEARNED;
        split.gain = (double)node.n_rows;  // largest leaf first
    }
    __syncthreads();
}

// Find the best split of a leaf, if there is one, and offer it.
__device__ __noinline__ void consider(int number) {
    __syncthreads();  // all threads are done with the node before
    if (threadIdx.x == 0) shared.node = a.nodes[number];
    __syncthreads();
    const Node& node = shared.node;
    if (!can_split(node)) return;
    if (launch.threshold_rule == COMPLETELY_RANDOM) {
        draw_split(number);
    } else {
        choose_features(node);
        search_features(node);
        choose_candidate(a.found);
        while (launch.has_weights && shared.chosen != NO_SPLIT && !read_found(a.found + shared.chosen).is_counted) {
            count_candidate(node, shared.chosen);
            choose_candidate(a.found);
        }
        if (threadIdx.x == 0) store_split(a.found, number);
        __syncthreads();
    }
    if (threadIdx.x == 0) offer_leaf(number);
    __syncthreads();
}

// Move the entries of a node to the other buffer, and make leaves of its children.
__device__ __noinline__ void partition(int number) {
    const Node node = a.nodes[number];
    const u8* column = a.columns + node.feature * launch.n_rows;
    i64 from = node.buffer * launch.n_rows;
    bool has_own = node.side == OWN_CHILD;
    if (threadIdx.x < 4) {
        shared.sums[threadIdx.x] = 0;
        shared.counters[threadIdx.x] = 0;
    }
    __syncthreads();
    if (has_own) {
        u32 n_left = 0;
        for (i64 entry = (i64)node.begin + threadIdx.x; entry < node.end; entry += THREADS)
            n_left += child_of(column[a.rows[from + entry]], node) == 0;
        __syncwarp();
        n_left = (u32)sum_of_warp(n_left);
        if (lane_of_thread() == 0 && n_left > 0) atomicAdd(shared.counters + 3, n_left);
        __syncthreads();
    }
    i64 first = node.begin + warp_of_thread() * CHUNK * LANES;
    move_entries(node, shared.counters, node.begin + shared.counters[3], first, THREADS * CHUNK);
    __syncthreads();
    if (threadIdx.x == 0) add_children(number);
    __syncthreads();
}

// The leaf of the rows of some entries of a leaf, and their sums of whole targets and weights.
__device__ void mark_leaf(const Rules& rules, int number, int first, int step, int* leaves) {
    Node& node = a.nodes[number];
    i64 from = node.buffer * launch.n_rows;
    u64 target_sum = 0, weight_sum = 0;
    for (i64 entry = (i64)node.begin + first; entry < node.end; entry += step) {
        u32 row = a.rows[from + entry];
        i64 count = launch.has_weights ? count_of(row) : weight_part(a.packed[from + entry], rules);
        target_sum += count * a.targets[row];
        weight_sum += count * (launch.has_weights ? a.weights[row] : 1);
        leaves[row] = number;
    }
    __syncwarp();
    add_to_block((u64*)&node.target_sum, target_sum);
    add_to_block((u64*)&node.weight_sum, weight_sum);
}

__device__ __noinline__ void mark_leaves(int* leaves) {
    for (int number = 0; number < shared.n_nodes; number++) {
        const Node& node = a.nodes[number];
        if (node.left == 0 && node.end - node.begin >= LARGE_LEAF)
            mark_leaf(shared.rules, number, threadIdx.x, THREADS, leaves);
    }
    for (int number = warp_of_thread(); number < shared.n_nodes; number += WARPS) {
        const Node& node = a.nodes[number];
        if (node.left == 0 && node.end - node.begin < LARGE_LEAF)
            mark_leaf(shared.rules, number, lane_of_thread(), LANES, leaves);
    }
}

// Grow all trees of a launch. Trees that fit the same targets have the same number in `held_of_tree`. `results` has
// five numbers per tree: its nodes, and what choose_units took.
extern "C" __global__ void __launch_bounds__(THREADS) grow_trees(
    const Launch* launch_of_all, const u8* codes, const u8* columns, const int* n_bins, const i64* offsets,
    const double* thresholds, const i64* targets, const i64* weights, const int* unit_of_row, const double* cumulative,
    const i64* guide, const int* counts, const u64* streams, const u64* bag_streams, const int* held_of_tree,
    const int* exponents, const int* allowed, const int* given, const double* costs, u32* rows, i64* packed, int* drawn,
    int* features, double* draws, Found* found, int* heap, u32* queue, Node* nodes, i64* results, int* leaves) {
    if (threadIdx.x == 0) {
        launch = *launch_of_all;
        i64 block = blockIdx.x, n_rows = launch.n_rows, n_features = launch.n_features;
        a = {codes, columns, n_bins, offsets, thresholds, targets, weights, unit_of_row, counts, allowed, given,
             costs, rows + 2 * block * n_rows, packed + 2 * block * n_rows, drawn + block * launch.n_units,
             features + block * n_features, draws + block * n_features, found + block * n_features,
             heap + block * launch.max_nodes, nodes};
    }
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) {
            i64 next = atomicAdd(queue, 1u);
            shared.tree = (int)next;
            if (next < launch.n_trees) {
                i64 held = held_of_tree[next];
                shared.target_exponent = exponents[2 * held];
                shared.weight_exponent = exponents[2 * held + 1];
                a.targets = targets + held * launch.n_rows;
                a.weights = weights + held * launch.n_rows;
                a.counts = counts + next * launch.counts_stride;
                a.allowed = allowed + next * launch.n_allowed;
                a.costs = costs + next * launch.n_features * launch.has_costs;
                a.nodes = nodes + next * launch.max_nodes;
            }
        }
        __syncthreads();
        i64 tree = shared.tree;
        if (tree >= launch.n_trees) break;
        if (launch.bag_kind >= DRAWN) draw_bag(bag_streams[tree], cumulative, guide);
        plant(streams[tree], results + 5 * tree + 1);
        consider(0);
        while (shared.heap_size > 0 && shared.n_leaves < shared.rules.max_leaves) {
            __syncthreads();
            if (threadIdx.x == 0) shared.chosen = take_best_leaf();
            __syncthreads();
            int chosen = shared.chosen;
            partition(chosen);
            if (shared.n_leaves >= shared.rules.max_leaves) break;
            int first = a.nodes[chosen].left, last = shared.n_nodes;
            for (int child = first; child < last; child++) consider(child);
        }
        __syncthreads();
        mark_leaves(leaves + tree * launch.n_rows);
        if (threadIdx.x == 0) results[5 * tree] = shared.n_nodes;
    }
}
