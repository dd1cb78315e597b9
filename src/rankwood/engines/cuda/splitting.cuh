// The best split of one feature: the score of each cut of a histogram. The twin of trees/splitting.py, operation by
// operation; a warp does one feature, and each of its lanes eight neighbouring codes.

#define CODES_PER_LANE (N_CODES / LANES)
#define NOISE 1e-13  // of the parent's score: a smaller gain is rounding, not structure

// The policies in the integer units of the packed targets of a tree.
struct Rules {
    i64 max_leaves;
    i64 min_leaf;
    int max_depth;
    int min_split;
    int threshold_rule;
    int missing_rule;
    int bits;  // of a packed target that hold the weight
    int has_counts;
    double l2;
    double l1;
    double min_gain;
    double min_weight;
    double gain_unit;
};

struct Found {
    double gain;
    int code;  // NO_SPLIT where there is none
    short side;
    short is_counted;  // whether the split respects min_leaf
};

__device__ __forceinline__ i64 weight_part(i64 packed, const Rules& rules) {
    return packed & (((i64)1 << rules.bits) - 1);
}

__device__ __forceinline__ double towards_zero(double total, double l1) {
    return fmax(total - l1, 0.0) + fmin(total + l1, 0.0);
}

// S^2 / (W + l2) of the rows summed in `packed`; 0 without rows.
__device__ __forceinline__ double score(i64 packed, const Rules& rules) {
    double weight = (double)weight_part(packed, rules) + rules.l2;
    double total = towards_zero((double)(packed >> rules.bits), rules.l1);
    return weight > 0.0 ? total * total / weight : 0.0;
}

// The children's score from their sums and weights, which include l2; minus infinity where a side is too light.
__device__ __forceinline__ double score_sides(double left, double weight, double right, double other, double least) {
    bool is_heavy = weight > 0.0 && other > 0.0 && weight >= least && other >= least;
    double divisor = weight * other + (is_heavy ? 0.0 : 1.0);
    double both = (left * left * other + right * right * weight) / divisor;
    return is_heavy ? both : -__longlong_as_double(0x7ff0000000000000ll);
}

__device__ __forceinline__ double score_cut(i64 packed_left, i64 total, const Rules& rules) {
    double left = (double)(packed_left >> rules.bits);
    double weight = (double)weight_part(packed_left, rules);
    double right = (double)(total >> rules.bits) - left;
    double other = (double)weight_part(total, rules) - weight + rules.l2;
    if (rules.l1 > 0.0) {
        right = towards_zero(right, rules.l1);
        left = towards_zero(left, rules.l1);
    }
    return score_sides(left, weight + rules.l2, right, other, rules.min_weight + rules.l2);
}

// A cut drawn uniformly from the range of thresholds between two codes of a feature; NO_SPLIT if they are equal.
__device__ int cut_between(int first, int last, const double* thresholds, double draw) {
    if (first >= last) return NO_SPLIT;
    double low = thresholds[first];
    double high = thresholds[last - 1];
    double cut = low + draw * (high - low);
    int n_below = 0;
    for (int index = first + lane_of_thread(); index < last - 1; index += LANES)
        n_below += thresholds[index] < cut;
    return first + (int)sum_of_warp((u64)n_below);
}

// A histogram of one feature in the registers of a warp: the sums of the codes of a lane, and what lies before them.
struct Column {
    i64 sums[CODES_PER_LANE];
    i64 counts[CODES_PER_LANE];
    i64 sum_before;
    i64 count_before;
    bool is_counted;  // whether there are counts of rows beside the sums

    __device__ __forceinline__ void add_up() {
        i64 sum = 0, count = 0;
        for (int step = 0; step < CODES_PER_LANE; step++) {
            sum += sums[step];
            count += counts[step];
        }
        sum_before = before(sum);
        count_before = before(count);
    }

    static __device__ __forceinline__ i64 before(i64 value) {
        i64 running = value;
        for (int distance = 1; distance < LANES; distance *= 2) {
            i64 lower = __shfl_up_sync(ALL_LANES, running, distance);
            if (lane_of_thread() >= distance) running += lower;
        }
        return running - value;
    }
};

struct Cut {
    double score;
    int code;
};

// The best of all cuts whose score exceeds `least`, the first of equal ones.
__device__ __noinline__ Cut best_cut(const Column& column, int n_cuts, i64 total, i64 n_total, i64 extra, i64 n_extra,
                        const Rules& rules, double least) {
    Cut best = {least, NO_SPLIT};
    i64 left = extra + column.sum_before, rows = n_extra + column.count_before;
    bool is_limited = column.is_counted || !rules.has_counts;
    for (int step = 0; step < CODES_PER_LANE; step++) {
        int code = lane_of_thread() * CODES_PER_LANE + step;
        left += column.sums[step];
        rows += column.counts[step];
        if (code >= n_cuts) break;
        if (is_limited) {
            i64 n_left = column.is_counted ? rows : weight_part(left, rules);
            if (n_left == n_extra || n_left < rules.min_leaf || n_total - n_left < rules.min_leaf) continue;
        }
        double both = score_cut(left, total, rules);
        if (both > best.score) best = {both, code};
    }
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        double other = __shfl_xor_sync(ALL_LANES, best.score, distance);
        int code = __shfl_xor_sync(ALL_LANES, best.code, distance);
        bool is_better = other > best.score || (other == best.score && (u32)code < (u32)best.code);
        if (is_better) best = {other, code};
    }
    return best;
}

// A cut that was drawn, if it is allowed and its score exceeds `least`.
__device__ Cut drawn_cut(const Column& column, int code, i64 total, i64 n_total, i64 extra, i64 n_extra,
                         const Rules& rules, double least) {
    i64 left = extra + column.sum_before, n_left = n_extra + column.count_before;
    for (int step = 0; step <= code % CODES_PER_LANE; step++) {
        left += column.sums[step];
        n_left += column.counts[step];
    }
    left = __shfl_sync(ALL_LANES, left, code / CODES_PER_LANE);
    n_left = __shfl_sync(ALL_LANES, n_left, code / CODES_PER_LANE);
    Cut none = {least, NO_SPLIT};
    i64 weight = weight_part(left, rules), other = weight_part(total, rules) - weight;
    if (!rules.has_counts) n_left = weight;
    i64 min_leaf = column.is_counted || !rules.has_counts ? rules.min_leaf : 0;
    if (n_left < min_leaf || n_total - n_left < min_leaf) return none;
    if ((double)(weight < other ? weight : other) < rules.min_weight) return none;
    double both = score(left, rules) + score(total - left, rules);
    if (both <= least) return none;
    return {both, code};
}

// The least and the greatest code with a sum, between which a cut is drawn.
__device__ int drawn_code(const Column& column, int n_bins, const double* thresholds, double draw) {
    int first = n_bins, last = -1;
    for (int step = 0; step < CODES_PER_LANE; step++) {
        int code = lane_of_thread() * CODES_PER_LANE + step;
        if (code >= n_bins || column.sums[step] == 0) continue;
        if (code < first) first = code;
        last = code;
    }
    first = least_of_warp(first);
    last = -least_of_warp(-last);
    return cut_between(first, last, thresholds, draw);
}

// The best split of a feature for a node with these sums: split_feature of trees/splitting.py.
__device__ __noinline__ Found split_feature(const Column& column, int n_bins, const double* thresholds, i64 total,
                                            i64 n_total, const Rules& rules, double draw) {
    i64 absent = __shfl_sync(ALL_LANES, column.sums[CODES_PER_LANE - 1], LANES - 1);
    i64 n_absent = __shfl_sync(ALL_LANES, column.counts[CODES_PER_LANE - 1], LANES - 1);
    if (!rules.has_counts) n_absent = weight_part(absent, rules);
    else if (!column.is_counted) n_absent = absent != 0;
    double parent = score(total, rules);
    double best = parent * (1.0 + NOISE), own = 0.0;
    int only = 0, best_code = NO_SPLIT, best_side = LEARNED;
    if (rules.threshold_rule != BEST) {
        only = drawn_code(column, n_bins, thresholds, draw);
        if (only == NO_SPLIT) return {0.0, NO_SPLIT, LEARNED, column.is_counted};
    }
    bool has_own = rules.missing_rule == OWN_CHILD && n_absent > 0;
    if (has_own) {
        own = score(absent, rules);
        total -= absent;
        n_total -= n_absent;
        best -= own;
    }
    for (int turn = 0; turn < 2; turn++) {
        int side = turn == 0 ? GO_RIGHT : GO_LEFT;
        bool is_free = n_absent > 0 && rules.missing_rule != OWN_CHILD;
        bool is_tried = is_free ? rules.missing_rule == LEARNED || rules.missing_rule == side : side == GO_RIGHT;
        if (!is_tried) continue;
        i64 extra = side == GO_LEFT ? absent : 0, n_extra = side == GO_LEFT ? n_absent : 0;
        Cut cut = rules.threshold_rule == BEST
                      ? best_cut(column, n_bins - 1, total, n_total, extra, n_extra, rules, best)
                      : drawn_cut(column, only, total, n_total, extra, n_extra, rules, best);
        if (cut.code == NO_SPLIT) continue;
        best = cut.score;
        best_code = cut.code;
        best_side = side;
    }
    if (has_own) best_side = OWN_CHILD;
    else if (n_absent == 0) best_side = LEARNED;
    double gain = best + own - parent;
    bool is_good = best_code != NO_SPLIT && gain > rules.min_gain;
    return {is_good ? gain : 0.0, is_good ? best_code : NO_SPLIT, (short)best_side, column.is_counted};
}
