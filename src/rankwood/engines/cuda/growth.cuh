// What grows a tree, whoever does it: a block of threads (forest.cu) or all blocks together (one_tree.cu).
//
//     entries     | 9 3 20 14 | 7 2 1 5 | 11 0 6 8 4 ..|   in buffer 0 or 1, as the node says
//                   ^begin      ^end of node 3 = begin of node 4
//     histograms  [code][feature], as two arrays of 32 bits: the lanes of a warp add to different banks
//     heap        leaves that can be split, the greatest gain first
//
// An entry is a row and its packed target. Splits move entries from one of two buffers to the other; the order of the
// entries of a node does not matter, since all that is computed from them are sums of integers. Codes are stored twice:
// row by row for histograms, by columns for the partition. Entries are read through the second cache (__ldcg): another
// block may have written them.

#define ALL_ROWS 0  // how a tree gets its bag: it sees every row once,
#define GIVEN 1     // counts that the host has drawn,
#define DRAWN 2     // or units that are drawn here, with replacement,
#define BY_WEIGHT 3 // in proportion to weights
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
    int can_subtract;  // all nodes search the same features
    int has_costs;
    i64 n_slots;  // for the histograms of nodes that are kept
    i64 n_counted;  // units whose draws are counted at a time, in shared memory
};

// The arrays of a launch, and the part of the work space that belongs to the block.
struct Arrays {
    const u8* codes;    // rows * stride
    const u8* columns;  // features * rows
    const int* n_bins;
    const i64* offsets;
    const double* thresholds;
    const i64* targets;
    const i64* weights;
    const int* unit_of_row;
    const int* counts;  // given, of the tree
    const int* allowed; // features of the tree
    const int* given;
    const double* costs;  // of features, where they have any
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
    Node node;  // that is searched: in shared memory it takes no registers
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

// They are variables of the file, not arguments: the compiler then knows where they are and that they are shared, which
// saves each function the registers of their addresses.
__shared__ Launch launch;
__shared__ Arrays a;
__shared__ Shared shared;
extern __shared__ __align__(16) u32 dynamic_shared[];  // whole entries are read from it

// How often the tree sees a row.
__device__ __forceinline__ i64 count_of(u32 row) {
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
__device__ void choose_units(i64 n_rows, u64 weight, u64 size) {
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
    rules.gain_unit = gain_unit;
}

// Leaves that can be split, the best first: one thread does this.

__device__ bool comes_before(const Node* nodes, int one, int other) {
    double gain = nodes[one].gain, other_gain = nodes[other].gain;
    return gain != other_gain ? gain > other_gain : one < other;
}

__device__ void offer_leaf(int node) {
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

__device__ int take_best_leaf() {
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
__device__ __noinline__ bool can_split(const Node& node) {
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
            i64 entry = __ldcg(packed + index);
            if ((entry >> rules.bits) * weight != total * weight_part(entry, rules)) shared.flag = 1;
        }
        __syncthreads();
        differ = shared.flag != 0;
        __syncthreads();
    }
    return differ;
}

// The features that a node searches, ascending: selection sampling, as trees/best_first.py draws them.
__device__ __noinline__ void choose_features(const Node& node) {
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
    int n_full;  // features in full groups
    int n_rest;
    int high;  // where the high halves of the sums begin

    __device__ __forceinline__ Histograms(int n_features) {
        n_full = n_features / LANES * LANES;
        n_rest = n_features - n_full;
        high = N_CODES * n_features;
    }

    __device__ __forceinline__ int size() const { return N_CODES * (n_full + n_rest); }

    __device__ __forceinline__ int place(int feature, int code) const {
        if (feature < n_full) return feature / LANES * (LANES * N_CODES) + code * LANES + feature % LANES;
        return n_full * N_CODES + code * n_rest + feature - n_full;
    }

    // The array is named here, not pointed to: only then does the compiler add by the instruction of shared memory.
    __device__ __forceinline__ void add(int place, u64 packed) const {
        u32 before = atomicAdd(dynamic_shared + place, (u32)packed);
        atomicAdd(dynamic_shared + high + place, (u32)(packed >> 32) + (before + (u32)packed < before));
    }

    __device__ __forceinline__ u64 sum_at(int place) const {
        return (u64)dynamic_shared[high + place] << 32 | dynamic_shared[place];
    }

    __device__ void clear() const {
        for (int index = threadIdx.x; index < 2 * size(); index += THREADS) dynamic_shared[index] = 0;
    }
};

#define AT_ONCE 8       // rows whose codes are loaded before they are added
#define REST_AT_ONCE 4  // the same for the features that fill no warp, where an instruction adds several rows

// Entries of a buffer, `begin` to `end`.
struct Span {
    int buffer;
    u32 begin;
    u32 end;
};

// Load the codes of some staged rows; `of_feature` are those of the first row in the lane's feature.
__device__ __forceinline__ void load_codes(const u8* of_feature, const u32* staged_rows, u32 stride, u32* code) {
#pragma unroll
    for (int step = 0; step < AT_ONCE; step++) code[step] = __ldg(of_feature + (u64)staged_rows[step] * stride);
}

__device__ __forceinline__ void add_codes(const Histograms& histograms, int place, const u64* staged, const u32* code) {
#pragma unroll
    for (int step = 0; step < AT_ONCE; step++) histograms.add(place + code[step] * LANES, staged[step]);
}

// Add entries to histograms of `features`. A warp stages 32 entries behind the histograms and adds 8 of them at a time
// to a full group of features, a lane per feature; in the rest of the features several entries fill a warp. Entries and
// codes are loaded before those that came before them are added: codes in turns in two arrays, which the registers of a
// thread just hold. What is staged behind the last entry adds 0.
__device__ __noinline__ void add_entries(Histograms histograms, Span span, const int* features) {
    const u32* rows = a.rows + span.buffer * launch.n_rows;
    const i64* packed = a.packed + span.buffer * launch.n_rows;
    const u8* codes = a.codes;
    int lane = lane_of_thread(), n_rest = histograms.n_rest, n_full = histograms.n_full;
    u32 stride = (u32)launch.stride;
    u32* staged_rows = dynamic_shared + 2 * N_CODES * launch.tile + warp_of_thread() * 3 * LANES;
    u64* staged = (u64*)(staged_rows + LANES);
    int rows_at_once = n_rest > 0 ? LANES / n_rest : 1;
    int row_of_rest = n_rest > 0 && lane / n_rest < rows_at_once ? lane / n_rest : LANES;
    int place_of_rest = n_full * N_CODES + (n_rest > 0 ? lane % n_rest : 0);
    u32 feature_of_rest = n_rest > 0 ? features[n_full + lane % n_rest] : 0;
    u32 first_feature = n_full > 0 ? features[lane] : 0;
    auto load_rest = [&](int first, u32* code) {
#pragma unroll
        for (int step = 0; step < REST_AT_ONCE; step++) {
            int index = first + step * rows_at_once;
            if (index < LANES) code[step] = __ldg(codes + ((u64)staged_rows[index] * stride + feature_of_rest));
        }
    };
    auto add_rest = [&](int first, const u32* code) {
#pragma unroll
        for (int step = 0; step < REST_AT_ONCE; step++) {
            int index = first + step * rows_at_once;
            if (index < LANES) histograms.add(place_of_rest + code[step] * n_rest, staged[index]);
        }
    };
    u32 next = span.begin + threadIdx.x, end = span.end;
    u32 row = next < end ? __ldcg(rows + next) : 0;
    i64 entry = next < end ? __ldcg(packed + next) : 0;
    for (u32 base = span.begin + warp_of_thread() * LANES; base < end; base += THREADS) {
        __syncwarp();
        staged_rows[lane] = row;
        staged[lane] = (u64)entry;
        __syncwarp();
        next += THREADS;
        row = next < end ? __ldcg(rows + next) : 0;
        entry = next < end ? __ldcg(packed + next) : 0;
#pragma unroll 1
        for (int group = 0; group < n_full; group += LANES) {
            int place = group * N_CODES + lane;
            const u8* of_feature = codes + (group == 0 ? first_feature : features[group + lane]);
            u32 even[AT_ONCE], odd[AT_ONCE];
            load_codes(of_feature, staged_rows, stride, even);
#pragma unroll
            for (int first = 0; first < LANES; first += 2 * AT_ONCE) {
                load_codes(of_feature, staged_rows + first + AT_ONCE, stride, odd);
                add_codes(histograms, place, staged + first, even);
                if (first + 2 * AT_ONCE < LANES)
                    load_codes(of_feature, staged_rows + first + 2 * AT_ONCE, stride, even);
                add_codes(histograms, place, staged + first + AT_ONCE, odd);
            }
        }
        if (row_of_rest == LANES) continue;
        u32 of_rest[REST_AT_ONCE] = {};
        load_rest(row_of_rest, of_rest);
#pragma unroll 1
        for (int first = row_of_rest; first < LANES; first += REST_AT_ONCE * rows_at_once) {
            u32 after[REST_AT_ONCE] = {};
            load_rest(first + REST_AT_ONCE * rows_at_once, after);
            add_rest(first, of_rest);
#pragma unroll
            for (int step = 0; step < REST_AT_ONCE; step++) of_rest[step] = after[step];
        }
    }
}

__device__ void read_column(Histograms histograms, int feature, Column& column) {
    column.is_counted = false;
    for (int step = 0; step < CODES_PER_LANE; step++) {
        int place = histograms.place(feature, lane_of_thread() * CODES_PER_LANE + step);
        column.sums[step] = (i64)histograms.sum_at(place);
        column.counts[step] = 0;
    }
    column.add_up();
}

__device__ Found split_by(const Node& node, int feature, const Column& column) {
    double draw = uniform(node.path, (u64)(feature + launch.n_features));
    Found found = split_feature(column, a.n_bins[feature], a.thresholds + a.offsets[feature], node.packed_sum,
                                node.n_rows, shared.rules, draw);
    // The cost of a feature decides which feature is taken, not whether the node is split.
    if (launch.has_costs && found.code != NO_SPLIT) found.gain -= a.costs[feature] * shared.rules.gain_unit;
    return found;
}

// What another block, too, may have written.
__device__ __forceinline__ Found read_found(const Found* found) {
    u64 rest = __ldcg((const u64*)found + 1);
    return {__ldcg(&found->gain), (int)(u32)rest, (short)(rest >> 32), (short)(rest >> 48)};
}

// The candidate of greatest gain, the first of equal ones, in shared.chosen; NO_SPLIT if none has a split.
__device__ void choose_candidate(const Found* found) {
    if (warp_of_thread() == 0) {
        double gain = 0.0;
        int best = NO_SPLIT;
        for (int index = lane_of_thread(); index < shared.n_candidates; index += LANES) {
            Found own = read_found(found + index);
            if (own.code == NO_SPLIT || (best != NO_SPLIT && !(own.gain > gain))) continue;
            gain = own.gain;
            best = index;
        }
        __syncwarp();
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

// Store the split that was chosen in its node; one thread does this.
__device__ void store_split(const Found* found, int number) {
    if (shared.chosen == NO_SPLIT) return;
    Node& node = a.nodes[number];
    Found best = read_found(found + shared.chosen);
    node.feature = a.features[shared.chosen];
    node.code = (u8)best.code;
    node.side = (u8)best.side;
    node.gain = best.gain;
}

// Splitting a node.

__device__ __forceinline__ int child_of(int value, const Node& node) {
    if (value != MISSING_BIN) return value <= node.code ? 0 : 1;
    return node.side == GO_LEFT ? 0 : node.side == OWN_CHILD ? 2 : 1;
}

#define CHUNK 4  // of 32 entries: what a warp reads before it uses any of it, since reading takes long

// Move entries of a node to the other buffer: left ones from the front, those of missing values from the back if they
// have a child of their own. Right ones lie before them: from the back, or from `right` on where the left ones were
// counted. A warp begins at the entry `first`; `counters` count the entries of each child.
__device__ __forceinline__ void move_entries(const Node& node, u32* counters, u32 right, i64 first, i64 step_of_all) {
    const u8* column = a.columns + node.feature * launch.n_rows;
    i64 from = node.buffer * launch.n_rows, to = (1 - node.buffer) * launch.n_rows;
    bool has_own = node.side == OWN_CHILD;
    u32 lower = (1u << lane_of_thread()) - 1;
    u64 left_sum = 0, left_rows = 0, missing_sum = 0, missing_rows = 0;
    for (i64 base = first; base < node.end; base += step_of_all) {
        u32 row[CHUNK], ranks[3] = {};
        i64 packed[CHUNK];
        int which[CHUNK];
#pragma unroll
        for (int step = 0; step < CHUNK; step++) {
            i64 entry = base + step * LANES + lane_of_thread();
            row[step] = entry < node.end ? __ldcg(a.rows + from + entry) : 0;
            packed[step] = entry < node.end ? __ldcg(a.packed + from + entry) : 0;
            which[step] = entry < node.end ? 0 : -1;
        }
#pragma unroll
        for (int step = 0; step < CHUNK; step++)
            if (which[step] == 0) which[step] = child_of(column[row[step]], node);
        for (int child = 0; child < 2 + has_own; child++) {
            u32 n_those = 0;
#pragma unroll
            for (int step = 0; step < CHUNK; step++) n_those += __popc(__ballot_sync(ALL_LANES, which[step] == child));
            u32 start = 0;
            if (lane_of_thread() == 0 && n_those > 0) start = atomicAdd(counters + child, n_those);
            ranks[child] = __shfl_sync(ALL_LANES, start, 0);
        }
#pragma unroll
        for (int step = 0; step < CHUNK; step++) {
            u32 place = 0;
            for (int child = 0; child < 2 + has_own; child++) {
                u32 those = __ballot_sync(ALL_LANES, which[step] == child);
                u32 rank = ranks[child] + __popc(those & lower);
                if (which[step] == child)
                    place = child == 0 ? node.begin + rank : child == 1 && has_own ? right + rank : node.end - 1 - rank;
                ranks[child] += __popc(those);
            }
            if (which[step] < 0) continue;
            a.rows[to + place] = row[step];
            a.packed[to + place] = packed[step];
            u64 n_rows = launch.has_weights && which[step] != 1 ? count_of(row[step]) : 0;
            left_sum += which[step] == 0 ? (u64)packed[step] : 0;
            left_rows += which[step] == 0 ? n_rows : 0;
            missing_sum += which[step] == 2 ? (u64)packed[step] : 0;
            missing_rows += which[step] == 2 ? n_rows : 0;
        }
        __syncwarp();
    }
    __syncwarp();
    add_to_block(shared.sums, left_sum);
    add_to_block(shared.sums + 1, left_rows);
    add_to_block(shared.sums + 2, missing_sum);
    add_to_block(shared.sums + 3, missing_rows);
}

__device__ void add_child(const Node& node, int number, int which, u32 begin, u32 end, u64 packed_sum, i64 n_rows) {
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
__device__ void add_children(int number) {
    Node& node = a.nodes[number];
    const u64* sums = shared.sums;  // of the left child and of missing values: packed targets, rows
    int left = shared.n_nodes;
    u32 middle = node.begin + shared.counters[0], absent = node.end - shared.counters[2];
    u64 right_sum = (u64)node.packed_sum - sums[0] - sums[2];
    i64 left_rows = launch.has_weights ? (i64)sums[1] : weight_part((i64)sums[0], shared.rules);
    i64 missing_rows = launch.has_weights ? (i64)sums[3] : weight_part((i64)sums[2], shared.rules);
    i64 right_rows = node.n_rows - left_rows - missing_rows;
    add_child(node, left, 0, node.begin, middle, sums[0], left_rows);
    add_child(node, left + 1, 1, middle, absent, right_sum, right_rows);
    node.left = left;
    shared.n_nodes = left + 2;
    if (node.side == OWN_CHILD) {
        add_child(node, left + 2, 2, absent, node.end, sums[2], missing_rows);
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
