// Lambdas of NDCG: a block has a query, ranks its documents, and adds up its pairs as lambdas_of_query of losses/lambdarank.py does, operation by
// operation in the same order. Powers and logarithms, whose last bits differ between libraries, come from the CPU.

#include "common.cuh"

#define DISTANCE 0.01  // added to the distance of scores before dividing by it
#define ADDERS 4  // sums side by side, whose sum is that of a document's pairs
#define SUMS 3  // of pairs, of curves, of the sizes of pairs
#define LEAST_HESSIAN 1e-100  // below, the quotient may be no number; such a row has target and weight 0

extern __shared__ double space[];  // of the query, in the order of its ranking

// One of the sums over the documents below a rank, or its part: what sums_of adds up.
__device__ double sum_of_pairs(const double* pairs, const double* curves, int n_pairs, int adder) {
    const double* terms = adder / ADDERS == 1 ? curves : pairs;
    bool by_size = adder / ADDERS == 2;
    int lane = adder % ADDERS, n_whole = n_pairs / ADDERS * ADDERS;
    double sum = 0.0;
    for (int place = lane; place < n_whole; place += ADDERS) sum += by_size ? fabs(terms[place]) : terms[place];
    if (lane == 0)
        for (int place = n_whole; place < n_pairs; place++) sum += by_size ? fabs(terms[place]) : terms[place];
    return sum;
}

// The lambda and the hessian of every row, without the factor of its query, and the sum of the query's lambdas.
extern "C" __global__ void __launch_bounds__(THREADS) lambdas_of_queries(
    const i64* offsets, const double* scores, const double* powers, const double* worth, const double* discounts,
    i64 n_discounts, i64 truncation, int normalise, i64 longest, double* lambdas, double* hessians, double* totals) {
    __shared__ double sums[SUMS * ADDERS];
    __shared__ int differ;
    i64 query = blockIdx.x, begin = offsets[query];
    int size = (int)(offsets[query + 1] - begin);
    double *own_scores = space, *own_powers = space + longest, *own_worth = space + 2 * longest;
    double *own_discounts = space + 3 * longest, *pairs = space + 4 * longest, *curves = space + 5 * longest;
    double *own_lambdas = space + 6 * longest, *own_hessians = space + 7 * longest;
    int* ranks = (int*)(space + 8 * longest);  // of the documents, in their own order
    if (threadIdx.x == 0) differ = 0;
    __syncthreads();
    for (int place = threadIdx.x; place < size; place += THREADS) pairs[place] = scores[begin + place];
    __syncthreads();
    for (int place = threadIdx.x; place < size; place += THREADS) {
        i64 row = begin + place;
        double score = pairs[place];
        int rank = 0;  // best first, and equal scores in the order of the documents
        for (int other = 0; other < size; other++)
            rank += pairs[other] > score || (pairs[other] == score && other < place);
        ranks[place] = rank;
        own_scores[rank] = score;
        own_powers[rank] = powers[row];
        own_worth[rank] = worth[row];
        own_discounts[rank] = rank < n_discounts ? discounts[rank] : 0.0;
        own_lambdas[rank] = own_hessians[rank] = 0.0;
        if (worth[row] != worth[begin]) atomicOr(&differ, 1);
    }
    __syncthreads();
    int n_upper = size - 1 < truncation ? size - 1 : (int)truncation;
    if (!differ) n_upper = 0;
    bool is_divided = normalise && n_upper > 0 && own_scores[0] != own_scores[size - 1];
    double offset = is_divided ? DISTANCE : 1.0, scale = is_divided ? 1.0 : 0.0, total = 0.0;
    for (int rank = 0; rank < n_upper; rank++) {
        double score = own_scores[rank], power = own_powers[rank], upper = own_discounts[rank];
        for (int below = rank + 1 + threadIdx.x; below < size; below += THREADS) {
            double other = own_powers[below], gap = own_worth[rank] - own_worth[below];
            double change = gap * (upper - own_discounts[below]);
            double apart = offset + scale * (score - own_scores[below]);
            double inverse = 1.0 / ((power + other) * apart);
            double better = gap > 0.0 ? power : other, worse = gap > 0.0 ? other : power;
            double pair = change * worse * inverse, curve = fabs(pair) * better * inverse * apart;
            pairs[below] = pair;
            curves[below] = curve;
            own_lambdas[below] -= pair;
            own_hessians[below] += curve;
        }
        __syncthreads();
        if (threadIdx.x < SUMS * ADDERS)
            sums[threadIdx.x] = sum_of_pairs(pairs + rank + 1, curves + rank + 1, size - rank - 1, threadIdx.x);
        __syncthreads();
        if (threadIdx.x == 0) {
            own_lambdas[rank] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
            own_hessians[rank] += (sums[4] + sums[5]) + (sums[6] + sums[7]);
            total += (sums[8] + sums[9]) + (sums[10] + sums[11]);
        }
    }
    __syncthreads();
    for (int place = threadIdx.x; place < size; place += THREADS) {
        lambdas[begin + place] = own_lambdas[ranks[place]];
        hessians[begin + place] = own_hessians[ranks[place]];
    }
    if (threadIdx.x == 0) totals[query] = total;
}

// Newton's step of each row in the place of its lambda, and its weight in that of its hessian.
extern "C" __global__ void newton_steps(const i64* offsets, const double* factors, double sigma, int has_weights,
                                        const double* weights, double* lambdas, double* hessians) {
    i64 begin = offsets[blockIdx.x], end = offsets[blockIdx.x + 1];
    double factor = factors[blockIdx.x];
    for (i64 row = begin + threadIdx.x; row < end; row += blockDim.x) {
        double gradient = -(factor * lambdas[row]), hessian = factor * sigma * hessians[row];
        if (has_weights) {
            gradient *= weights[row];
            hessian *= weights[row];
        }
        bool has_hessian = hessian >= LEAST_HESSIAN;
        double step = has_hessian ? gradient / hessian : 0.0;
        lambdas[row] = -step;
        hessians[row] = has_hessian ? hessian : 0.0;
    }
}
