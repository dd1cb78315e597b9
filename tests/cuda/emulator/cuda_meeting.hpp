// Where threads wait for each other: barriers of a block, collectives of a warp.
#pragma once

namespace cuda_emulator {

// ---------------------------------------------------------------- barriers

static inline void release_barrier(Block& block) {
    block.barrier_result = block.n_true;
    block.barrier_n = block.n_at_barrier;
    block.n_at_barrier = block.n_true = 0;
    block.last_barrier = ++now;
    n_changes++;
    const int n = launch.block[0] * launch.block[1] * launch.block[2];
    for (int thread = 0; thread < n; thread++)
        if (block.fibers[thread].state == State::at_barrier) block.fibers[thread].state = State::ready;
}

static __noinline__ int barrier(int site, int line, bool predicate) {
    Block& block = *current->block;
    const int n_threads = launch.block[0] * launch.block[1] * launch.block[2];
    if (launch.strict && block.n_at_barrier && block.barrier_site != site)
        fail("barrier divergence: it is at the __syncthreads of line %d while %d other threads of its block wait at that of line %d.",
             line, block.n_at_barrier, block.barrier_line);
    if (launch.strict && block.n_alive < n_threads)
        fail("barrier divergence: it is at the __syncthreads of line %d, and %d threads of its block have ended.", line,
             n_threads - block.n_alive);
    block.barrier_site = site;
    block.barrier_line = line;
    block.n_at_barrier++;
    block.n_true += predicate;
    current->polled = nullptr;
    if (block.n_at_barrier == block.n_alive) {
        release_barrier(block);
        if (launch.seed) {              // else the last to arrive would always be the first to leave
            current->state = State::ready;
            to_scheduler();
        }
        return block.barrier_result;
    }
    current->state = State::at_barrier;
    current->line = line;
    to_scheduler();
    return block.barrier_result;
}

// ---------------------------------------------------------------- collectives

static u64 reduced(const Warp& warp, u32 lanes, Collective kind) {
    bool is_first = true;
    u64 sum = 0;
    for (int lane = 0; lane < kWarp; lane++) {
        if (!(lanes >> lane & 1)) continue;
        const u64 value = warp.lanes[lane]->value;
        const auto as_signed = [](u64 word) { return static_cast<std::int32_t>(word); };
        if (is_first) sum = value;
        else if (kind == Collective::add) sum += value;
        else if (kind == Collective::both) sum &= value;
        else if (kind == Collective::either) sum |= value;
        else if (kind == Collective::differ) sum ^= value;
        else if (kind == Collective::least) sum = value < sum ? value : sum;
        else if (kind == Collective::most) sum = value > sum ? value : sum;
        else if (kind == Collective::least_signed) sum = as_signed(value) < as_signed(sum) ? value : sum;
        else if (kind == Collective::most_signed) sum = as_signed(value) > as_signed(sum) ? value : sum;
        is_first = false;
    }
    return sum;
}

// Gives every lane of a whole group its result and lets it go on.
static void complete(Warp& warp, int place) {
    const Group group = warp.groups[place];
    warp.groups[place] = warp.groups[--warp.groups_waiting];
    n_changes++;
    if (kCell && group.kind == Collective::sync) {
        now++;
        for (int lane = 0; lane < kWarp; lane++)
            for (int other = 0; other < kWarp && group.arrived >> lane & 1; other++)
                if (group.arrived >> other & 1) warp.synchronised[lane][other] = now;
    }
    u64 common = 0;
    if (group.kind == Collective::ballot) {
        for (int lane = 0; lane < kWarp; lane++)
            if (group.arrived >> lane & 1) common |= u64(warp.lanes[lane]->value != 0) << lane;
    } else if (group.kind >= Collective::add) {
        common = reduced(warp, group.arrived, group.kind);
    }
    for (int lane = 0; lane < kWarp; lane++) {
        if (!(group.arrived >> lane & 1)) continue;
        Fiber& fiber = *warp.lanes[lane];
        fiber.result = common;
        if (group.kind == Collective::shuffle) {
            if (!(group.arrived >> fiber.source & 1)) {
                // What a lane reads of one that takes no part is undefined: rubbish, so that no result rests on it.
                fiber.result = 0xA5A5A5A5A5A5A5A5ull;
            } else {
                fiber.result = warp.lanes[fiber.source]->value;
            }
        } else if (group.kind == Collective::match) {
            u64 equal = 0;
            for (int other = 0; other < kWarp; other++)
                if (group.arrived >> other & 1 && warp.lanes[other]->value == fiber.value) equal |= u64(1) << other;
            fiber.result = equal;
        }
        fiber.state = State::ready;
    }
}

static __noinline__ u64 collective(Collective kind, u32 mask, u64 value, int source, int line) {
    Warp& warp = *current->warp;
    const u32 mine = u32(1) << current->lane;
    if (!(mask & mine))
        fail("the collective of line %d has the mask %#x, which does not name its own lane %d.", line, mask, current->lane);
    const u32 wanted = mask & warp.alive;
    current->polled = nullptr;
    current->value = value;
    current->source = source;
    current->line = line;
    int place = 0;
    while (place < warp.groups_waiting && warp.groups[place].mask != mask) place++;
    if (place == warp.groups_waiting) warp.groups[warp.groups_waiting++] = {mask, 0, kind};
    Group& group = warp.groups[place];
    if (group.kind != kind)
        fail("the collective of line %d meets lanes of its mask that wait in a collective of another kind.", line);
    group.arrived |= mine;
    current->state = State::in_collective;
    if ((group.arrived & wanted) == wanted) complete(warp, place);
    if (current->state != State::ready || launch.seed) to_scheduler();
    return current->result;
}

template <class T>
static inline u64 as_word(T value) {
    static_assert(sizeof(T) <= 8, "a shuffle takes at most 8 bytes");
    u64 word = 0;
    std::memcpy(&word, &value, sizeof(T));
    return word;
}

template <class T>
static inline T from_word(u64 word) {
    T value;
    std::memcpy(&value, &word, sizeof(T));
    return value;
}

template <class T>
static inline T shuffle(u32 mask, T value, int source, int line) {
    return from_word<T>(collective(Collective::shuffle, mask, as_word(value), source, line));
}

struct Shuffler {           // the line of the source comes from a macro, the arguments from the call
    int line;
    template <class T>
    T take(u32 mask, T value, int source, int width = kWarp) const {
        return shuffle(mask, value, (current->lane & ~(width - 1)) | (source & (width - 1)), line);
    }
    template <class T>
    T up(u32 mask, T value, unsigned delta, int width = kWarp) const {
        const int place = current->lane & (width - 1);
        return shuffle(mask, value, place < int(delta) ? current->lane : current->lane - int(delta), line);
    }
    template <class T>
    T down(u32 mask, T value, unsigned delta, int width = kWarp) const {
        const int place = current->lane & (width - 1);
        return shuffle(mask, value, place + int(delta) >= width ? current->lane : current->lane + int(delta), line);
    }
    template <class T>
    T across(u32 mask, T value, int bits, int width = kWarp) const {
        const int place = (current->lane & (width - 1)) ^ bits;
        return shuffle(mask, value, place >= width ? current->lane : (current->lane & ~(width - 1)) | place, line);
    }
    u32 ballot(u32 mask, int predicate) const { return u32(collective(Collective::ballot, mask, predicate != 0, 0, line)); }
    int any(u32 mask, int predicate) const { return ballot(mask, predicate) != 0; }
    int all(u32 mask, int predicate) const { return ballot(mask, !predicate) == 0; }
    void sync(u32 mask = 0xFFFFFFFFu) const { collective(Collective::sync, mask, 0, 0, line); }
    template <class T>
    u32 match(u32 mask, T value) const { return u32(collective(Collective::match, mask, as_word(value), 0, line)); }
    template <class T>
    T reduce(Collective kind, u32 mask, T value) const {
        if (std::is_signed<T>::value && kind == Collective::least) kind = Collective::least_signed;
        if (std::is_signed<T>::value && kind == Collective::most) kind = Collective::most_signed;
        return from_word<T>(collective(kind, mask, as_word(value), 0, line));
    }
};

}  // namespace cuda_emulator
