// Growing one tree, on which all blocks work: a boosted tree, which the next one depends on.
//
// All blocks run the same loop of growth, each with nodes and a heap of its own, and so come to the same decisions.
// They share what takes time: drawing, packing, histograms, the search of cuts, partition, and the leaves of the rows.
// Blocks meet when one needs what the others have done. A block that waits keeps its place, so all of them have to run at
// the same time: the launch is cooperative, which the driver refuses if the GPU has no room for the grid.
//
//     pool      a histogram of 64 bits per slot: where all nodes search the same features, the larger child's is its
//               parent's minus the smaller child's, in the parent's slot
//     tallies   for each step, what all blocks count and add up together; all 0 at the start
//
// What other blocks have written is read through the second cache (__ldcg), since the first one may hold old values.

#include "common.cuh"
#include "splitting.cuh"
#include "growth.cuh"

#define NO_NODE (-1)
#define OF_SIZES 0    // the tallies of packing; those of the splits follow
#define OF_ENTRIES 1
#define OF_SPLITS 2
#define LEAST_SLICE 2048  // entries of a node, so that it is worth a block's histograms

struct Tally {
    u64 sums[4];
    u32 counters[4];
};

// What the blocks share.
struct Meeting {
    u32* arrived;
    u32* row_counts;  // by round, node and code: three rounds take turns
    u64* pool;
    Tally* tallies;
    u64* leaf_sums;
    i64 slot_size;
    int can_subtract;
};

// What the threads of a block know of the work of all.
struct Progress {
    u32 n_arrived;  // when all blocks have come to the next meeting
    int n_slots;
    int n_steps;
    int round;
    int can_split[3];
    int slots[2];
};

__shared__ Meeting meeting;
__shared__ Progress progress;

// Wait for all blocks.
__device__ void meet() {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        progress.n_arrived += gridDim.x;
        atomicAdd(meeting.arrived, 1u);
        while (*(volatile u32*)meeting.arrived < progress.n_arrived) __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
}

__device__ __forceinline__ i64 grid_thread() { return (i64)blockIdx.x * THREADS + threadIdx.x; }
__device__ __forceinline__ i64 grid_threads() { return (i64)gridDim.x * THREADS; }

// Add what the block has summed up in `shared` to the tally of all blocks, meet, and read the sums of all.
__device__ void merge(int which) {
    Tally& tally = meeting.tallies[which];
    __syncthreads();
    if (threadIdx.x < 4 && shared.sums[threadIdx.x] != 0) atomicAdd(tally.sums + threadIdx.x, shared.sums[threadIdx.x]);
    meet();
    if (threadIdx.x < 4) {
        shared.sums[threadIdx.x] = __ldcg(tally.sums + threadIdx.x);
        shared.counters[threadIdx.x] = __ldcg(tally.counters + threadIdx.x);
    }
    __syncthreads();
}

__device__ void clear_sums() {
    __syncthreads();
    if (threadIdx.x < 4) {
        shared.sums[threadIdx.x] = 0;
        shared.counters[threadIdx.x] = 0;
    }
    __syncthreads();
}

// The bag; the counts of the units are 0 at the start.
__device__ void draw_together(u64 stream, const double* cumulative, const i64* guide) {
    i64 last = launch.n_units - 1;
    double total = launch.bag_kind == BY_WEIGHT ? cumulative[last] : 0.0;
    for (i64 draw = grid_thread(); draw < launch.n_draws; draw += grid_threads()) {
        double share = uniform(stream, (u64)draw);
        i64 unit = (i64)(share * (double)launch.n_units);
        if (launch.bag_kind == BY_WEIGHT) {
            double mark = share * total;
            unit = guide[unit];
            while (unit < last && cumulative[unit] <= mark) unit++;
        }
        atomicAdd(a.drawn + unit, 1);
    }
}

// The entries of all rows of the bag, and the root that owns them.
__device__ __noinline__ void plant_together(u64 stream, i64* sizes) {
    clear_sums();
    u64 n_rows = 0, weight = 0, size = 0, n_draws = 0;
    for (i64 row = grid_thread(); row < launch.n_rows; row += grid_threads()) {
        i64 count = count_of((u32)row);
        if (count == 0) continue;
        i64 target = a.targets[row];
        n_rows += 1;
        n_draws += count;
        weight += count * (launch.has_weights ? a.weights[row] : 1);
        size += count * (target < 0 ? -target : target);
    }
    __syncwarp();
    add_to_block(shared.sums, n_rows);
    add_to_block(shared.sums + 1, weight);
    add_to_block(shared.sums + 2, size);
    add_to_block(shared.sums + 3, n_draws);
    merge(OF_SIZES);
    n_draws = shared.sums[3];
    if (threadIdx.x == 0) {
        choose_units((i64)shared.sums[0], shared.sums[1], shared.sums[2]);
        if (blockIdx.x == 0)
            for (int index = 0; index < 4; index++) sizes[index] = (i64)shared.sums[index];
    }
    clear_sums();
    int bits = shared.rules.bits, drop = shared.drop, drop_weight = shared.drop_weight;
    i64 half = ((i64)1 << drop) >> 1, half_weight = ((i64)1 << drop_weight) >> 1;
    u64 total = 0;
    i64 first = (i64)blockIdx.x * THREADS + warp_of_thread() * LANES;
    for (i64 base = first; base < launch.n_rows; base += grid_threads()) {
        i64 row = base + lane_of_thread();
        i64 count = row < launch.n_rows ? count_of((u32)row) : 0;
        u32 place = (u32)row;
        if (launch.bag_kind != ALL_ROWS) {
            u32 is_drawn = __ballot_sync(ALL_LANES, count > 0), start = 0;
            if (lane_of_thread() == 0) start = atomicAdd(meeting.tallies[OF_ENTRIES].counters, (u32)__popc(is_drawn));
            place = __shfl_sync(ALL_LANES, start, 0) + __popc(is_drawn & ((1u << lane_of_thread()) - 1));
        }
        if (count == 0) continue;
        i64 weight_of_row = count * (launch.has_weights ? a.weights[row] : 1);
        i64 scaled = (count * a.targets[row] + half) >> drop;
        u64 packed = ((u64)scaled << bits) + (u64)((weight_of_row + half_weight) >> drop_weight);
        a.rows[place] = (u32)row;
        a.packed[place] = (i64)packed;
        total += packed;
    }
    __syncwarp();
    add_to_block(shared.sums, total);
    merge(OF_ENTRIES);
    if (threadIdx.x == 0) {
        i64 sum = (i64)shared.sums[0];
        Node root = {};
        root.packed_sum = sum;
        root.path = mix(stream);
        root.n_rows = launch.has_weights ? (i64)n_draws : weight_part(sum, shared.rules);
        root.end = launch.bag_kind == ALL_ROWS ? (u32)launch.n_rows : shared.counters[0];
        root.feature = -1;
        a.nodes[0] = root;
        shared.n_nodes = 1;
        shared.n_leaves = 1;
        shared.heap_size = 0;
    }
    __syncthreads();
}

// Histograms of a node in its slot: a block adds some of the entries for a tile of the features. The last tile may have
// fewer: as many entries as fill a warp are added at once, so that it needs fewer blocks.
__device__ __noinline__ void fill_slot(const Node& node, int slot) {
    int n_whole = shared.n_candidates / launch.tile, n_rest = shared.n_candidates % launch.tile;
    i64 at_once = n_rest > 0 && n_rest < LANES ? LANES / n_rest : 1;
    i64 n_entries = node.end - node.begin, most = (n_entries + LEAST_SLICE - 1) / LEAST_SLICE;
    i64 n_slices = gridDim.x * at_once / (n_whole * at_once + (n_rest > 0));
    if (n_slices > most) n_slices = most;
    if (n_slices < 1) n_slices = 1;
    i64 n_of_whole = n_whole * n_slices, n_of_rest = n_rest > 0 ? (n_slices + at_once - 1) / at_once : 0;
    for (i64 item = blockIdx.x; item < n_of_whole + n_of_rest; item += gridDim.x) {
        bool is_rest = item >= n_of_whole;
        int first = (is_rest ? n_whole : (int)(item % n_whole)) * launch.tile;
        int n_features = is_rest ? n_rest : launch.tile;
        i64 slice = is_rest ? item - n_of_whole : item / n_whole, n_of_tile = is_rest ? n_of_rest : n_slices;
        Histograms histograms(n_features);
        histograms.clear();
        __syncthreads();
        Span span = {node.buffer, node.begin + (u32)(n_entries * slice / n_of_tile),
                     node.begin + (u32)(n_entries * (slice + 1) / n_of_tile)};
        add_entries(histograms, span, a.features + first);
        __syncthreads();
        u64* sums = meeting.pool + slot * meeting.slot_size + (i64)first * N_CODES;
        for (int place = threadIdx.x; place < histograms.size(); place += THREADS) {
            u64 sum = histograms.sum_at(place);
            if (sum != 0) atomicAdd(sums + place, sum);
        }
        __syncthreads();
    }
}

// The place of the sum of a candidate's code in a slot.
__device__ __forceinline__ i64 place_in_slot(int candidate, int code) {
    int first = candidate / launch.tile * launch.tile;
    int n_features = shared.n_candidates - first < launch.tile ? shared.n_candidates - first : launch.tile;
    Histograms histograms(n_features);
    return (i64)first * N_CODES + histograms.place(candidate - first, code);
}

__device__ void read_slot(int slot, int candidate, Column& column) {
    const u64* sums = meeting.pool + slot * meeting.slot_size;
    column.is_counted = false;
    for (int step = 0; step < CODES_PER_LANE; step++) {
        i64 place = place_in_slot(candidate, lane_of_thread() * CODES_PER_LANE + step);
        column.sums[step] = (i64)__ldcg(sums + place);
        column.counts[step] = 0;
    }
}

// Turn the histogram of the parent in a larger child's slot into the child's.
__device__ void subtract(int slot, int candidate, const Column& smaller, Column& column) {
    u64* sums = meeting.pool + slot * meeting.slot_size;
    for (int step = 0; step < CODES_PER_LANE; step++) {
        i64 place = place_in_slot(candidate, lane_of_thread() * CODES_PER_LANE + step);
        column.sums[step] = (i64)__ldcg(sums + place) - smaller.sums[step];
        sums[place] = (u64)column.sums[step];
    }
}

// The splits of each candidate of a node and of its larger sibling, if there is one; each warp does one.
__device__ __noinline__ void search_slots(int number, int sibling) {
    int n_items = shared.n_candidates * (sibling == NO_NODE ? 1 : 2);
    for (i64 item = (i64)warp_of_thread() * gridDim.x + blockIdx.x; item < n_items; item += (i64)gridDim.x * WARPS) {
        int candidate = (int)(item % shared.n_candidates), which = (int)(item / shared.n_candidates);
        Column column;
        read_slot(progress.slots[0], candidate, column);
        if (which == 1) subtract(progress.slots[1], candidate, column, column);
        column.add_up();
        const Node& node = a.nodes[which == 0 ? number : sibling];
        Found found = split_by(node, a.features[candidate], column);
        if (lane_of_thread() == 0) a.found[which * launch.n_features + candidate] = found;
    }
}

// Count the rows of the nodes whose best candidate is not counted, by the bins of this candidate, and find its best
// split with min_leaf. `numbers` are nodes, of which those without a slot to count are NO_NODE.
__device__ __noinline__ void count_together(const int* numbers, const int* chosen) {
    u32* all_counts = meeting.row_counts + progress.round % 3 * 2 * N_CODES;
    u32* counts = dynamic_shared;
    for (int which = 0; which < 2; which++) {
        if (numbers[which] == NO_NODE) continue;
        const Node node = a.nodes[numbers[which]];
        const u32* rows = a.rows + node.buffer * launch.n_rows;
        const u8* codes = a.columns + a.features[chosen[which]] * launch.n_rows;
        __syncthreads();
        for (int code = threadIdx.x; code < N_CODES; code += THREADS) counts[code] = 0;
        __syncthreads();
        for (i64 entry = node.begin + grid_thread(); entry < node.end; entry += grid_threads()) {
            u32 row = __ldcg(rows + entry);
            atomicAdd(counts + codes[row], (u32)count_of(row));
        }
        __syncthreads();
        for (int code = threadIdx.x; code < N_CODES; code += THREADS)
            if (counts[code] != 0) atomicAdd(all_counts + which * N_CODES + code, counts[code]);
    }
    // The counts of the round after: all blocks have read what was there two meetings ago.
    u32* next_counts = meeting.row_counts + (progress.round + 1) % 3 * 2 * N_CODES;
    if (blockIdx.x == 0)
        for (int code = threadIdx.x; code < 2 * N_CODES; code += THREADS) next_counts[code] = 0;
    meet();
    if (warp_of_thread() < 2 && numbers[warp_of_thread()] != NO_NODE) {
        int which = warp_of_thread(), candidate = chosen[which];
        Column column;
        read_slot(progress.slots[which], candidate, column);
        column.is_counted = true;
        for (int step = 0; step < CODES_PER_LANE; step++)
            column.counts[step] = __ldcg(all_counts + which * N_CODES + lane_of_thread() * CODES_PER_LANE + step);
        column.add_up();
        Found found = split_by(a.nodes[numbers[which]], a.features[candidate], column);
        if (lane_of_thread() == 0) a.found[which * launch.n_features + candidate] = found;  // as all blocks do
    }
    if (threadIdx.x == 0) progress.round++;
    __syncthreads();
}

// Search a node, and its larger sibling if there is one; the slots are in `progress`. The node may be there for its
// sibling only.
__device__ void search_together(int number, int sibling, bool is_searched) {
    choose_features(a.nodes[number]);
    fill_slot(a.nodes[number], progress.slots[0]);
    meet();
    search_slots(number, sibling);
    meet();
    int searched[2] = {is_searched ? number : NO_NODE, sibling}, chosen[2] = {NO_SPLIT, NO_SPLIT};
    while (true) {
        int uncounted[2] = {NO_NODE, NO_NODE};
        for (int which = 0; which < 2; which++) {
            if (searched[which] == NO_NODE) continue;
            const Found* found = a.found + which * launch.n_features;
            choose_candidate(found);
            chosen[which] = shared.chosen;
            if (launch.has_weights && chosen[which] != NO_SPLIT && !read_found(found + chosen[which]).is_counted)
                uncounted[which] = searched[which];
            __syncthreads();
        }
        if (uncounted[0] == NO_NODE && uncounted[1] == NO_NODE) break;
        count_together(uncounted, chosen);
    }
    for (int which = 0; which < 2; which++) {
        if (searched[which] == NO_NODE) continue;
        __syncthreads();
        if (threadIdx.x == 0) {
            shared.chosen = chosen[which];
            store_split(a.found + which * launch.n_features, searched[which]);
        }
    }
    __syncthreads();
}

// Find the best splits of the leaves `first` to `last`, the root or the children of a node, and offer them.
__device__ void consider_together(int first, int last, int parent_slot) {
    for (int number = first; number < last; number++) {
        bool can = can_split(a.nodes[number]);
        if (threadIdx.x == 0) progress.can_split[number - first] = can;
    }
    __syncthreads();
    if (meeting.can_subtract && last - first == 2) {
        const Node &left = a.nodes[first], &right = a.nodes[first + 1];
        int smaller = left.end - left.begin <= right.end - right.begin ? first : first + 1;
        int larger = 2 * first + 1 - smaller;
        bool can_smaller = progress.can_split[smaller - first], can_larger = progress.can_split[larger - first];
        if (threadIdx.x == 0) {
            progress.slots[0] = progress.n_slots++;
            progress.slots[1] = parent_slot;
            a.nodes[smaller].slot = progress.slots[0];
            a.nodes[larger].slot = parent_slot;
        }
        __syncthreads();
        if (can_smaller || can_larger)
            search_together(smaller, can_larger ? larger : NO_NODE, can_smaller);
    } else {
        for (int number = first; number < last; number++) {
            if (!progress.can_split[number - first]) continue;
            if (threadIdx.x == 0) {
                progress.slots[0] = progress.n_slots++;
                a.nodes[number].slot = progress.slots[0];
            }
            __syncthreads();
            search_together(number, NO_NODE, true);
        }
    }
    if (threadIdx.x == 0)
        for (int number = first; number < last; number++) offer_leaf(number);
    __syncthreads();
}

// Move the entries of a node to the other buffer, as `partition` of forest.cu.
__device__ __noinline__ void partition_together(int number) {
    const Node node = a.nodes[number];
    const u8* column = a.columns + node.feature * launch.n_rows;
    Tally& tally = meeting.tallies[OF_SPLITS + progress.n_steps];
    i64 from = node.buffer * launch.n_rows;
    bool has_own = node.side == OWN_CHILD;
    clear_sums();
    if (has_own) {
        u32 n_left = 0;
        for (i64 entry = node.begin + grid_thread(); entry < node.end; entry += grid_threads())
            n_left += child_of(column[__ldcg(a.rows + from + entry)], node) == 0;
        __syncwarp();
        n_left = (u32)sum_of_warp(n_left);
        if (lane_of_thread() == 0 && n_left > 0) atomicAdd(tally.counters + 3, n_left);
        meet();
    }
    u32 right = node.begin + (has_own ? __ldcg(tally.counters + 3) : 0);
    i64 first = node.begin + ((i64)blockIdx.x * WARPS + warp_of_thread()) * CHUNK * LANES;
    move_entries(node, tally.counters, right, first, grid_threads() * CHUNK);
    merge(OF_SPLITS + progress.n_steps);
    if (threadIdx.x == 0) {
        add_children(number);
        progress.n_steps++;
    }
    __syncthreads();
}

// The leaf of every row of the bag, and the sums of the leaves, which the first block adds to its nodes.
__device__ __noinline__ void mark_together(int* leaves, Node* nodes) {
    for (int number = 0; number < shared.n_nodes; number++) {
        const Node& node = a.nodes[number];
        if (node.left != 0) continue;
        i64 from = node.buffer * launch.n_rows;
        u64 target_sum = 0, weight_sum = 0;
        for (i64 entry = node.begin + grid_thread(); entry < node.end; entry += grid_threads()) {
            u32 row = __ldcg(a.rows + from + entry);
            i64 count = count_of(row);
            target_sum += count * a.targets[row];
            weight_sum += count * (launch.has_weights ? a.weights[row] : 1);
            leaves[row] = number;
        }
        __syncwarp();
        add_to_block(meeting.leaf_sums + 2 * number, target_sum);
        add_to_block(meeting.leaf_sums + 2 * number + 1, weight_sum);
    }
    meet();
    if (blockIdx.x != 0) return;
    for (int number = threadIdx.x; number < shared.n_nodes; number += THREADS) {
        Node node = a.nodes[number];
        node.target_sum = (i64)__ldcg(meeting.leaf_sums + 2 * number);
        node.weight_sum = (i64)__ldcg(meeting.leaf_sums + 2 * number + 1);
        nodes[number] = node;
    }
}

// Grow one tree. Arguments are those of grow_trees; `arrived` is 0 at the start, as are the last four arrays.
extern "C" __global__ void __launch_bounds__(THREADS) grow_tree(
    const Launch* launch_of_all, const u8* codes, const u8* columns, const int* n_bins, const i64* offsets,
    const double* thresholds, const i64* targets, const i64* weights, const int* unit_of_row, const double* cumulative,
    const i64* guide, const int* counts, const u64* streams, const u64* bag_streams, const int* held_of_tree,
    const int* exponents, const int* allowed, const int* given, const double* costs, u32* rows, i64* packed, int* drawn,
    int* features, double* draws, Found* found, int* heap, u32* arrived, Node* nodes, i64* results, int* leaves,
    Node* own_nodes, u64* pool, Tally* tallies, u64* leaf_sums, u32* row_counts) {
    if (threadIdx.x == 0) {
        launch = *launch_of_all;
        i64 block = blockIdx.x;
        a = {codes, columns, n_bins, offsets, thresholds, targets, weights, unit_of_row, counts, allowed, given, costs,
             rows, packed, drawn, features + block * launch.n_features, draws + block * launch.n_features, found,
             heap + block * launch.max_nodes, own_nodes + block * launch.max_nodes};
        meeting = {arrived, row_counts, pool, tallies, leaf_sums, (i64)launch.n_candidates * N_CODES,
                   launch.can_subtract};
        progress = {};
        shared.target_exponent = exponents[0];
        shared.weight_exponent = exponents[1];
    }
    __syncthreads();
    if (launch.bag_kind >= DRAWN) {
        draw_together(bag_streams[0], cumulative, guide);
        meet();
    }
    plant_together(streams[0], results + 1);
    consider_together(0, 1, 0);
    while (shared.heap_size > 0 && shared.n_leaves < shared.rules.max_leaves) {
        __syncthreads();
        if (threadIdx.x == 0) shared.chosen = take_best_leaf();
        __syncthreads();
        int chosen = shared.chosen;
        partition_together(chosen);
        if (shared.n_leaves >= shared.rules.max_leaves) break;
        int slot = a.nodes[chosen].slot;
        consider_together(a.nodes[chosen].left, shared.n_nodes, slot);
    }
    __syncthreads();
    mark_together(leaves, nodes);
    if (grid_thread() == 0) results[0] = shared.n_nodes;
}
