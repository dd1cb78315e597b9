// Growing trees: one block of threads grows one whole tree, and takes the next one when it is done.
//
// A tree is what trees/best_first.py grows, split by split. Its rows are a list of entries, each a row and its packed
// target. Splits move entries from one of two buffers to the other; the order of the entries of a node does not matter,
// since all that is computed from them are sums of integers.
//
//     entries   | 9 3 20 14 | 7 2 1 5 | 11 0 6 8 4 … |   in buffer 0 or 1, as the node says
//                 ^begin      ^end of node 3 = begin of node 4
//     histogram   [code][feature], as two arrays of 32 bits: the lanes of a warp add to different banks
//     heap        leaves that can be split, the greatest gain first
//
// Codes are stored twice: row by row for histograms, by columns for the partition.

#include "common.cuh"
#include "splitting.cuh"

#define ALL_ROWS 0  // how a tree gets its bag: it sees every row once,
#define GIVEN 1     // counts that the host has drawn,
#define DRAWN 2     // or units that are drawn here, with replacement,
#define BY_WEIGHT 3 // in proportion to weights
#define NOT_ROUTED ((int)0x80000000)
#define LARGE_LEAF 4096  // entries, from which on all warps of the block read a leaf

// What all trees of a launch have in common: launching.LAUNCH is its dtype.
struct Launch {
    i64 n_rows;
    i64 n_features;
    i64 stride;  // of the rows of `codes`
    i64 n_units;
    i64 n_draws;
    i64 counts_stride;  // from a tree's given counts to the next tree's
    i64 max_nodes;
    i64 max_leaves;
    i64 min_leaf;
    double l2;
    double l1;
    double min_gain;
    double min_weight;
    int n_trees;
    int bag_kind;
    int has_units;  // units are not the rows themselves
    int has_weights;
    int max_depth;
    int min_split;
    int threshold_rule;
    int missing_rule;
    int n_candidates;
    int n_allowed;  // features of a tree, if they are listed; else 0
    int n_given;    // features given by position
    int tile;       // features whose histograms are built together
    int unused;
};

// The arrays of a launch, and the part of the work space that belongs to the block.
struct Arrays {
    const u8* codes;    // rows × stride
    const u8* columns;  // features × rows
    const int* n_bins;
    const i64* offsets;
    const float* thresholds;
    const i64* targets;
    const i64* weights;
    const int* unit_of_row;
    const int* counts;  // given, of the tree
    const int* allowed; // features of the tree
    const int* given;
    u32* rows;      // two buffers of entries
    i64* packed;
    int* drawn;     // by unit
    int* features;  // that the node in hand searches
    double* draws;
    Found* found;
    int* heap;
    Node* nodes;
};

// What the threads of a block share, besides the histograms.
struct Shared {
    Rules rules;
    u64 sums[4];
    u32 counters[4];
    int tree;
    int n_nodes;
    int heap_size;
    int n_leaves;
    int n_candidates;
    int target_exponent;  // of the scale of whole targets, a power of two
    int weight_exponent;
    int drop;
    int drop_weight;
    int chosen;
    int flag;
};

extern __shared__ u32 dynamic_shared[];

// The bag.

__device__ void draw_bag(const Launch& launch, const Arrays& a, u64 stream, const double* cumulative,
                         const i64* guide) {
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

// How often the tree sees a row.
__device__ __forceinline__ i64 count_of(const Launch& launch, const Arrays& a, u32 row) {
    if (launch.bag_kind == ALL_ROWS) return 1;
    if (launch.bag_kind == GIVEN) return a.counts[row];
    int unit = launch.has_units ? a.unit_of_row[row] : (int)row;
    return unit < 0 ? 0 : __ldcg(a.drawn + unit);  // from the second cache, where atomic additions are done
}

__device__ __forceinline__ int bit_length(u64 value) { return 64 - __clzll((i64)value); }

__device__ __forceinline__ double power_of_two(int exponent) {
    exponent = exponent > 500 ? 500 : exponent < -500 ? -500 : exponent;
    return __longlong_as_double((i64)(exponent + 1023) << 52);
}

// The units of the packed targets, and the policies in them: choose_units of trees/packing.py and growth_rules.
__device__ void choose_units(const Launch& launch, Shared& shared, i64 n_rows, u64 weight, u64 size) {
    int drop_weight = launch.has_weights ? bit_length(weight) - 31 : 0;
    if (drop_weight < 0) drop_weight = 0;
    u64 most_weight = (weight >> drop_weight) + (drop_weight ? (u64)n_rows : 0);
    int bits = bit_length(most_weight);
    if (bits < 1) bits = 1;
    int drop = bit_length(size) - (62 - bits);
    if (drop < 0) drop = 0;
    while ((size >> drop) + (u64)n_rows >= (u64)1 << (62 - bits)) drop++;
    double target_unit = power_of_two(shared.target_exponent - drop);
    double weight_unit = power_of_two(shared.weight_exponent - drop_weight);
    double gain_unit = target_unit * target_unit / weight_unit;
    shared.drop = drop;
    shared.drop_weight = drop_weight;
    i64 most_leaves = n_rows > 1 ? n_rows : 1;
    Rules& rules = shared.rules;
    rules.max_leaves = launch.max_leaves < most_leaves ? launch.max_leaves : most_leaves;
    rules.min_leaf = launch.min_leaf;
    rules.max_depth = launch.max_depth;
    rules.min_split = launch.min_split;
    rules.threshold_rule = launch.threshold_rule;
    rules.missing_rule = launch.missing_rule;
    rules.bits = bits;
    rules.has_counts = launch.has_weights;
    rules.l2 = launch.l2 * weight_unit;
    rules.l1 = launch.l1 * target_unit;
    rules.min_gain = launch.min_gain * gain_unit;
    rules.min_weight = launch.min_weight * weight_unit;
}

// The entries of all rows of the bag, and the root that owns them. `sizes` become what choose_units took.
__device__ void plant(const Launch& launch, const Arrays& a, Shared& shared, u64 stream, i64* sizes) {
    if (threadIdx.x < 4) {
        shared.sums[threadIdx.x] = 0;
        shared.counters[threadIdx.x] = 0;
    }
    __syncthreads();
    u64 n_rows = 0, weight = 0, size = 0, n_draws = 0;
    for (i64 row = threadIdx.x; row < launch.n_rows; row += THREADS) {
        i64 count = count_of(launch, a, (u32)row);
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
    __syncthreads();
    if (threadIdx.x == 0) {
        choose_units(launch, shared, (i64)shared.sums[0], shared.sums[1], shared.sums[2]);
        for (int index = 0; index < 4; index++) sizes[index] = (i64)shared.sums[index];
        shared.sums[0] = 0;
    }
    __syncthreads();
    int bits = shared.rules.bits, drop = shared.drop, drop_weight = shared.drop_weight;
    i64 half = ((i64)1 << drop) >> 1, half_weight = ((i64)1 << drop_weight) >> 1;
    u64 total = 0;
    for (i64 base = warp_of_thread() * LANES; base < launch.n_rows; base += THREADS) {
        i64 row = base + lane_of_thread();
        i64 count = row < launch.n_rows ? count_of(launch, a, (u32)row) : 0;
        u32 is_drawn = __ballot_sync(ALL_LANES, count > 0);
        u32 place = 0;
        if (lane_of_thread() == 0) place = atomicAdd(shared.counters, (u32)__popc(is_drawn));
        place = __shfl_sync(ALL_LANES, place, 0) + __popc(is_drawn & ((1u << lane_of_thread()) - 1));
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

// Leaves that can be split, the best first: one thread does this.

__device__ bool comes_before(const Node* nodes, int one, int other) {
    double gain = nodes[one].gain, other_gain = nodes[other].gain;
    return gain != other_gain ? gain > other_gain : one < other;
}

__device__ void offer_leaf(const Arrays& a, Shared& shared, int node) {
    if (a.nodes[node].feature < 0) return;
    int index = shared.heap_size++;
    while (index > 0) {
        int above = (index - 1) / 2;
        if (!comes_before(a.nodes, node, a.heap[above])) break;
        a.heap[index] = a.heap[above];
        index = above;
    }
    a.heap[index] = node;
}

__device__ int take_best_leaf(const Arrays& a, Shared& shared) {
    int best = a.heap[0], size = --shared.heap_size, last = a.heap[size], index = 0;
    while (2 * index + 1 < size) {
        int below = 2 * index + 1;
        if (below + 1 < size && comes_before(a.nodes, a.heap[below + 1], a.heap[below])) below++;
        if (comes_before(a.nodes, last, a.heap[below])) break;
        a.heap[index] = a.heap[below];
        index = below;
    }
    a.heap[index] = last;
    return best;
}

// Whether depth and rows allow a split, and the targets are not all equal.
__device__ bool can_split(const Launch& launch, const Arrays& a, Shared& shared, const Node& node) {
    const Rules& rules = shared.rules;
    if (node.depth >= rules.max_depth || node.n_rows < 2 * rules.min_leaf) return false;
    if ((i64)(node.end - node.begin) < rules.min_split) return false;
    const i64* packed = a.packed + node.buffer * launch.n_rows;
    i64 total = node.packed_sum >> rules.bits, weight = weight_part(node.packed_sum, rules);
    bool differ = false;
    if (threadIdx.x == 0) shared.flag = 0;
    __syncthreads();
    for (i64 base = node.begin; base < node.end && !differ; base += THREADS) {
        i64 index = base + threadIdx.x;
        if (index < node.end) {
            i64 entry = packed[index];
            if ((entry >> rules.bits) * weight != total * weight_part(entry, rules)) shared.flag = 1;
        }
        __syncthreads();
        differ = shared.flag != 0;
        __syncthreads();
    }
    return differ;
}

// The features that a node searches, ascending: selection sampling, as trees/best_first.py draws them.
__device__ void choose_features(const Launch& launch, const Arrays& a, Shared& shared, const Node& node) {
    if (node.position >= 0 && node.position < launch.n_given) {
        if (threadIdx.x == 0) {
            a.features[0] = a.given[node.position];
            shared.n_candidates = 1;
        }
        __syncthreads();
        return;
    }
    int n_allowed = launch.n_allowed > 0 ? launch.n_allowed : (int)launch.n_features;
    int n_wanted = launch.n_candidates < n_allowed ? launch.n_candidates : n_allowed;
    bool is_drawn = n_wanted < n_allowed;
    for (int index = threadIdx.x; index < n_allowed; index += THREADS) {
        int feature = launch.n_allowed > 0 ? a.allowed[index] : index;
        if (is_drawn) a.draws[index] = uniform(node.path, (u64)feature);
        else a.features[index] = feature;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int n_chosen = is_drawn ? 0 : n_wanted;
        for (int index = 0; index < n_allowed && n_chosen < n_wanted; index++)
            if (a.draws[index] * (double)(n_allowed - index) < (double)(n_wanted - n_chosen))
                a.features[n_chosen++] = launch.n_allowed > 0 ? a.allowed[index] : index;
        shared.n_candidates = n_chosen;
    }
    __syncthreads();
}

// Histograms of a tile of features: full groups of 32 features, and a narrower one of the rest.

struct Histograms {
    u32* low;
    u32* high;
    int n_full;  // features in full groups
    int n_rest;

    __device__ Histograms(int n_features) {
        low = dynamic_shared;
        high = dynamic_shared + N_CODES * n_features;
        n_full = n_features / LANES * LANES;
        n_rest = n_features - n_full;
    }

    __device__ __forceinline__ int size() const { return N_CODES * (n_full + n_rest); }

    __device__ __forceinline__ int place(int feature, int code) const {
        if (feature < n_full) return feature / LANES * (LANES * N_CODES) + code * LANES + feature % LANES;
        return n_full * N_CODES + code * n_rest + feature - n_full;
    }

    __device__ __forceinline__ void add(int place, u32 packed_low, u32 packed_high) const {
        u32 before = atomicAdd(low + place, packed_low);
        atomicAdd(high + place, packed_high + (before + packed_low < before));
    }

    __device__ __forceinline__ i64 sum(int feature, int code) const {
        int where = place(feature, code);
        return (i64)((u64)high[where] << 32 | low[where]);
    }

    __device__ void clear() const {
        for (int index = threadIdx.x; index < 2 * size(); index += THREADS) low[index] = 0;
    }
};

#define AT_ONCE 8  // rows whose codes are loaded before they are added

// Add the entries of a node. A warp reads 32 entries, and then adds one code of each of 32 features at a time.
__device__ void add_entries(const Launch& launch, const Arrays& a, const Histograms& histograms, const Node& node,
                            const int* features, u32* staged) {
    const u32* rows = a.rows + node.buffer * launch.n_rows;
    const i64* packed = a.packed + node.buffer * launch.n_rows;
    int lane = lane_of_thread(), n_rest = histograms.n_rest, n_full = histograms.n_full;
    u32* staged_rows = staged + warp_of_thread() * 3 * LANES;
    u32* staged_low = staged_rows + LANES;
    u32* staged_high = staged_low + LANES;
    int rows_at_once = n_rest > 0 ? LANES / n_rest : 0;
    int feature_of_rest = n_rest > 0 ? features[n_full + lane % n_rest] : 0;
    int row_of_rest = n_rest > 0 ? lane / n_rest : LANES;
    for (i64 base = (i64)node.begin + warp_of_thread() * LANES; base < node.end; base += THREADS) {
        int n_entries = node.end - base < LANES ? (int)(node.end - base) : LANES;
        __syncwarp();
        u64 entry = lane < n_entries ? (u64)packed[base + lane] : 0;
        staged_rows[lane] = lane < n_entries ? rows[base + lane] : 0;
        staged_low[lane] = (u32)entry;
        staged_high[lane] = (u32)(entry >> 32);
        __syncwarp();
        for (int group = 0; group < n_full; group += LANES) {
            const u8* codes = a.codes + features[group + lane];
            for (int first = 0; first < n_entries; first += AT_ONCE) {
                u32 code[AT_ONCE];
#pragma unroll
                for (int step = 0; step < AT_ONCE; step++) code[step] = codes[staged_rows[first + step] * launch.stride];
#pragma unroll
                for (int step = 0; step < AT_ONCE; step++)  // entries behind the last add 0
                    histograms.add(group * N_CODES + code[step] * LANES + lane, staged_low[first + step],
                                   staged_high[first + step]);
            }
        }
        for (int first = row_of_rest; first < n_entries && row_of_rest < rows_at_once; first += rows_at_once) {
            u32 code = a.codes[staged_rows[first] * launch.stride + feature_of_rest];
            histograms.add(n_full * N_CODES + code * n_rest + lane % n_rest, staged_low[first], staged_high[first]);
        }
    }
}

__device__ void read_column(const Histograms& histograms, int feature, Column& column) {
    column.is_counted = false;
    for (int step = 0; step < CODES_PER_LANE; step++) {
        column.sums[step] = histograms.sum(feature, lane_of_thread() * CODES_PER_LANE + step);
        column.counts[step] = 0;
    }
    column.add_up();
}

__device__ Found split_by(const Launch& launch, const Arrays& a, const Shared& shared, const Node& node, int feature,
                          const Column& column) {
    double draw = uniform(node.path, (u64)(feature + launch.n_features));
    return split_feature(column, a.n_bins[feature], a.thresholds + a.offsets[feature], node.packed_sum, node.n_rows,
                         shared.rules, draw);
}

// The best split of each of the features that the node searches.
__device__ void search_features(const Launch& launch, const Arrays& a, Shared& shared, const Node& node) {
    u32* staged = dynamic_shared + 2 * N_CODES * launch.tile;
    for (int first = 0; first < shared.n_candidates; first += launch.tile) {
        int n_features = shared.n_candidates - first < launch.tile ? shared.n_candidates - first : launch.tile;
        Histograms histograms(n_features);
        histograms.clear();
        __syncthreads();
        add_entries(launch, a, histograms, node, a.features + first, staged);
        __syncthreads();
        for (int index = warp_of_thread(); index < n_features; index += WARPS) {
            Column column;
            read_column(histograms, index, column);
            Found found = split_by(launch, a, shared, node, a.features[first + index], column);
            if (lane_of_thread() == 0) a.found[first + index] = found;
        }
        __syncthreads();
    }
}

// The candidate of greatest gain, the first of equal ones, in shared.chosen; NO_SPLIT if none has a split.
__device__ void choose_candidate(const Arrays& a, Shared& shared) {
    if (warp_of_thread() == 0) {
        double gain = 0.0;
        int best = NO_SPLIT;
        for (int index = lane_of_thread(); index < shared.n_candidates; index += LANES) {
            if (a.found[index].code == NO_SPLIT) continue;
            if (best != NO_SPLIT && !(a.found[index].gain > gain)) continue;
            gain = a.found[index].gain;
            best = index;
        }
        for (int distance = LANES / 2; distance > 0; distance /= 2) {
            double other_gain = __shfl_xor_sync(ALL_LANES, gain, distance);
            int other = __shfl_xor_sync(ALL_LANES, best, distance);
            if (other == NO_SPLIT) continue;
            if (best == NO_SPLIT || other_gain > gain || (other_gain == gain && other < best)) {
                gain = other_gain;
                best = other;
            }
        }
        if (lane_of_thread() == 0) shared.chosen = best;
    }
    __syncthreads();
}

// Count the rows of a node by the bins of one candidate, and find its best split with min_leaf.
__device__ void count_candidate(const Launch& launch, const Arrays& a, Shared& shared, const Node& node, int index) {
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
        histograms.add(code, (u32)packed[entry], (u32)((u64)packed[entry] >> 32));
        atomicAdd(counts + code, (u32)count_of(launch, a, rows[entry]));
    }
    __syncthreads();
    if (warp_of_thread() == 0) {
        Column column;
        read_column(histograms, 0, column);
        column.is_counted = true;
        for (int step = 0; step < CODES_PER_LANE; step++)
            column.counts[step] = counts[lane_of_thread() * CODES_PER_LANE + step];
        column.add_up();
        Found found = split_by(launch, a, shared, node, feature, column);
        if (lane_of_thread() == 0) a.found[index] = found;
    }
    __syncthreads();
}

// Draw a feature that varies in the node, and a cut of it: split_randomly of trees/random_trees.py.
__device__ void draw_split(const Launch& launch, const Arrays& a, Shared& shared, int number) {
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
__device__ void consider(const Launch& launch, const Arrays& a, Shared& shared, int number) {
    const Node node = a.nodes[number];
    if (!can_split(launch, a, shared, node)) return;
    if (launch.threshold_rule == COMPLETELY_RANDOM) {
        draw_split(launch, a, shared, number);
    } else {
        choose_features(launch, a, shared, node);
        search_features(launch, a, shared, node);
        choose_candidate(a, shared);
        while (launch.has_weights && shared.chosen != NO_SPLIT && !a.found[shared.chosen].is_counted) {
            count_candidate(launch, a, shared, node, shared.chosen);
            choose_candidate(a, shared);
        }
        if (threadIdx.x == 0 && shared.chosen != NO_SPLIT) {
            Node& split = a.nodes[number];
            const Found& found = a.found[shared.chosen];
            split.feature = a.features[shared.chosen];
            split.code = (u8)found.code;
            split.side = (u8)found.side;
            split.gain = found.gain;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) offer_leaf(a, shared, number);
    __syncthreads();
}

// Splitting a node.

__device__ __forceinline__ int child_of(int value, const Node& node) {
    if (value != MISSING_BIN) return value <= node.code ? 0 : 1;
    return node.side == GO_LEFT ? 0 : node.side == OWN_CHILD ? 2 : 1;
}

__device__ void add_child(const Launch& launch, const Arrays& a, const Node& node, int number, int which, u32 begin,
                          u32 end, u64 packed_sum, i64 n_rows) {
    Node child = {};
    bool is_countable = node.position >= 0 && node.position < ((i64)1 << 61) && which < 2;
    child.packed_sum = (i64)packed_sum;
    child.path = combine(node.path, (u64)which);
    child.position = is_countable ? 2 * node.position + 1 + which : -1;
    child.n_rows = n_rows;
    child.begin = begin;
    child.end = end;
    child.depth = node.depth + 1;
    child.feature = -1;
    child.buffer = 1 - node.buffer;
    a.nodes[number] = child;
}

// Make leaves of the children of a node, whose rows are partitioned; one thread does this.
__device__ void add_children(const Launch& launch, const Arrays& a, Shared& shared, int number) {
    Node& node = a.nodes[number];
    const u64* sums = shared.sums;  // of the left child and of missing values: packed targets, rows
    int left = shared.n_nodes;
    u32 middle = node.begin + shared.counters[0], absent = node.end - shared.counters[2];
    u64 right_sum = (u64)node.packed_sum - sums[0] - sums[2];
    i64 left_rows = launch.has_weights ? (i64)sums[1] : weight_part((i64)sums[0], shared.rules);
    i64 missing_rows = launch.has_weights ? (i64)sums[3] : weight_part((i64)sums[2], shared.rules);
    i64 right_rows = node.n_rows - left_rows - missing_rows;
    add_child(launch, a, node, left, 0, node.begin, middle, sums[0], left_rows);
    add_child(launch, a, node, left + 1, 1, middle, absent, right_sum, right_rows);
    node.left = left;
    shared.n_nodes = left + 2;
    if (node.side == OWN_CHILD) {
        add_child(launch, a, node, left + 2, 2, absent, node.end, sums[2], missing_rows);
        node.missing = left + 2;
        shared.n_nodes = left + 3;
    } else {
        bool goes_left = node.side == GO_LEFT;
        if (node.side == LEARNED) {  // no value is missing here: the rule, or the larger child, takes later ones
            goes_left = left_rows >= right_rows;
            if (launch.missing_rule == GO_LEFT || launch.missing_rule == GO_RIGHT)
                goes_left = launch.missing_rule == GO_LEFT;
        }
        node.missing = goes_left ? left : left + 1;
    }
    shared.n_leaves += shared.n_nodes - left - 1;
}

// Move the entries of a node to the other buffer: left ones from the front, those of missing values from the back if
// they have a child of their own. Right ones lie before them, from the back unless the left ones were counted before.
__device__ void partition(const Launch& launch, const Arrays& a, Shared& shared, int number) {
    const Node node = a.nodes[number];
    const u8* column = a.columns + node.feature * launch.n_rows;
    i64 from = node.buffer * launch.n_rows, to = (1 - node.buffer) * launch.n_rows;
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
    u32 right = node.begin + shared.counters[3], lower = (1u << lane_of_thread()) - 1;
    u64 left_sum = 0, left_rows = 0, missing_sum = 0, missing_rows = 0;
    for (i64 base = (i64)node.begin + warp_of_thread() * LANES; base < node.end; base += THREADS) {
        i64 entry = base + lane_of_thread();
        bool is_entry = entry < node.end;
        u32 row = is_entry ? a.rows[from + entry] : 0;
        i64 packed = is_entry ? a.packed[from + entry] : 0;
        int which = is_entry ? child_of(column[row], node) : -1;
        u32 ranks[3];
        for (int child = 0; child < 2 + has_own; child++) {
            u32 those = __ballot_sync(ALL_LANES, which == child);
            u32 first = 0;
            if (lane_of_thread() == 0 && those != 0) first = atomicAdd(shared.counters + child, (u32)__popc(those));
            ranks[child] = __shfl_sync(ALL_LANES, first, 0) + __popc(those & lower);
        }
        if (!is_entry) continue;
        u32 place = node.begin + ranks[0];
        if (which == 1) place = has_own ? right + ranks[1] : node.end - 1 - ranks[1];
        if (which == 2) place = node.end - 1 - ranks[2];
        a.rows[to + place] = row;
        a.packed[to + place] = packed;
        u64 n_rows = launch.has_weights && which != 1 ? count_of(launch, a, row) : 0;
        left_sum += which == 0 ? (u64)packed : 0;
        left_rows += which == 0 ? n_rows : 0;
        missing_sum += which == 2 ? (u64)packed : 0;
        missing_rows += which == 2 ? n_rows : 0;
    }
    __syncwarp();
    add_to_block(shared.sums, left_sum);
    add_to_block(shared.sums + 1, left_rows);
    add_to_block(shared.sums + 2, missing_sum);
    add_to_block(shared.sums + 3, missing_rows);
    __syncthreads();
    if (threadIdx.x == 0) add_children(launch, a, shared, number);
    __syncthreads();
}

// The leaf of the rows of some entries of a leaf, and their sums of whole targets and weights.
__device__ void mark_leaf(const Launch& launch, const Arrays& a, const Rules& rules, int number, int first, int step,
                          int* leaves) {
    Node& node = a.nodes[number];
    i64 from = node.buffer * launch.n_rows;
    u64 target_sum = 0, weight_sum = 0;
    for (i64 entry = (i64)node.begin + first; entry < node.end; entry += step) {
        u32 row = a.rows[from + entry];
        i64 count = launch.has_weights ? count_of(launch, a, row) : weight_part(a.packed[from + entry], rules);
        target_sum += count * a.targets[row];
        weight_sum += count * (launch.has_weights ? a.weights[row] : 1);
        leaves[row] = number;
    }
    __syncwarp();
    add_to_block((u64*)&node.target_sum, target_sum);
    add_to_block((u64*)&node.weight_sum, weight_sum);
}

__device__ void mark_leaves(const Launch& launch, const Arrays& a, const Shared& shared, int* leaves) {
    for (int number = 0; number < shared.n_nodes; number++) {
        const Node& node = a.nodes[number];
        if (node.left == 0 && node.end - node.begin >= LARGE_LEAF)
            mark_leaf(launch, a, shared.rules, number, threadIdx.x, THREADS, leaves);
    }
    for (int number = warp_of_thread(); number < shared.n_nodes; number += WARPS) {
        const Node& node = a.nodes[number];
        if (node.left == 0 && node.end - node.begin < LARGE_LEAF)
            mark_leaf(launch, a, shared.rules, number, lane_of_thread(), LANES, leaves);
    }
}

// Grow all trees of a launch. Trees that fit the same targets have the same number in `held_of_tree`. `results` has five
// numbers per tree: its nodes, and what choose_units took.
extern "C" __global__ void __launch_bounds__(THREADS) grow_trees(
    const Launch* launch_of_all, const u8* codes, const u8* columns, const int* n_bins, const i64* offsets,
    const float* thresholds, const i64* targets, const i64* weights, const int* unit_of_row, const double* cumulative,
    const i64* guide, const int* counts, const u64* streams, const u64* bag_streams, const int* held_of_tree,
    const int* exponents, const int* allowed, const int* given, u32* rows, i64* packed, int* drawn, int* features, double* draws, Found* found, int* heap,
    u32* queue, Node* nodes, i64* results, int* leaves) {
    __shared__ Shared shared;
    __shared__ Launch launch;
    if (threadIdx.x == 0) launch = *launch_of_all;
    __syncthreads();
    i64 block = blockIdx.x, n_rows = launch.n_rows, n_features = launch.n_features;
    Arrays a = {codes, columns, n_bins, offsets, thresholds, targets, weights, unit_of_row, counts, allowed, given,
                rows + 2 * block * n_rows, packed + 2 * block * n_rows, drawn + block * launch.n_units,
                features + block * n_features, draws + block * n_features, found + block * n_features,
                heap + block * launch.max_nodes, nodes};
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) shared.tree = (int)atomicAdd(queue, 1u);
        __syncthreads();
        i64 tree = shared.tree;
        if (tree >= launch.n_trees) break;
        i64 held = held_of_tree[tree];
        if (threadIdx.x == 0) {
            shared.target_exponent = exponents[2 * held];
            shared.weight_exponent = exponents[2 * held + 1];
        }
        a.targets = targets + held * n_rows;
        a.weights = weights + held * n_rows;
        a.counts = counts + tree * launch.counts_stride;
        a.allowed = allowed + tree * launch.n_allowed;
        a.nodes = nodes + tree * launch.max_nodes;
        if (launch.bag_kind >= DRAWN) draw_bag(launch, a, bag_streams[tree], cumulative, guide);
        plant(launch, a, shared, streams[tree], results + 5 * tree + 1);
        consider(launch, a, shared, 0);
        while (shared.heap_size > 0 && shared.n_leaves < shared.rules.max_leaves) {
            __syncthreads();
            if (threadIdx.x == 0) shared.chosen = take_best_leaf(a, shared);
            __syncthreads();
            int chosen = shared.chosen;
            partition(launch, a, shared, chosen);
            if (shared.n_leaves >= shared.rules.max_leaves) break;
            int first = a.nodes[chosen].left, last = shared.n_nodes;
            for (int child = first; child < last; child++) consider(launch, a, shared, child);
        }
        __syncthreads();
        mark_leaves(launch, a, shared, leaves + tree * n_rows);
        if (threadIdx.x == 0) results[5 * tree] = shared.n_nodes;
    }
}
