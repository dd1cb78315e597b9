// CUDA C++ as plain C++: every thread of a launch is a fiber, and one processor runs them in turn.
//
// Words used here
//     fiber       a thread of the kernel, with a stack of its own; it runs until it waits, pauses or ends
//     barrier     __syncthreads and its kin: every thread of the block arrives
//     collective  what lanes of a warp do together (shuffles, votes, __syncwarp): every lane of the mask arrives
//     pause       a thread that polls the same address in vain lets the others run
//     resident    a block whose threads take turns; a cooperative launch has all its blocks resident
//
// Shared memory. `__shared__` variables are thread_local, so that they stand together in the module's
// thread-local block whatever template or function declares them; dynamic shared memory is one array.
// Both are filled with rubbish when a block begins, and copied out and in when another block's turn comes.
//
// Mistakes end the launch with a message: barriers and collectives that not all reach, threads that wait for
// ever, failed assertions, and accesses that the processor refuses (device arrays lie against pages that
// cannot be touched). What is not emulated is said in the package's docstring.
#pragma once

#include <cfloat>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <link.h>
#include <new>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <type_traits>
#include <unistd.h>
#include <utility>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

// ---------------------------------------------------------------- words of the language

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __shared__ static thread_local
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)

#define CUDA_VECTOR_OF_2(name, type)                                \
    struct alignas(2 * sizeof(type)) name##2 { type x, y; };        \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }
#define CUDA_VECTOR_OF_4(name, type)                                                       \
    struct alignas(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) name##4 { type x, y, z, w; }; \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define CUDA_VECTOR_OF_3(name, type)         \
    struct name##3 { type x, y, z; };        \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }
#define CUDA_VECTORS(name, type) CUDA_VECTOR_OF_2(name, type) CUDA_VECTOR_OF_3(name, type) CUDA_VECTOR_OF_4(name, type)
CUDA_VECTORS(char, signed char)
CUDA_VECTORS(uchar, unsigned char)
CUDA_VECTORS(short, short)
CUDA_VECTORS(ushort, unsigned short)
CUDA_VECTORS(int, int)
CUDA_VECTORS(uint, unsigned)
CUDA_VECTORS(longlong, long long)
CUDA_VECTORS(ulonglong, unsigned long long)
CUDA_VECTORS(float, float)
CUDA_VECTORS(double, double)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// ---------------------------------------------------------------- fibers

namespace cuda_emulator {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr int kWarp = 32;
constexpr std::size_t kMostShared = 227 << 10;   // bytes of shared memory a block may ask for on Hopper
constexpr std::size_t kPage = 4096;
constexpr std::size_t kStack = 128 << 10;
constexpr std::size_t kMostGuardedStacks = 16384;  // a guard costs two of the 65,530 mappings a process may have
constexpr std::size_t kMostKeptStacks = 8192;
constexpr int kMostPolls = 3;                    // reads of one address in vain before the thread pauses
constexpr long kMostIdleSwitches = 1 << 17;      // of threads that only poll; then nothing will ever change
constexpr unsigned char kRubbish = 0xA5;         // in shared memory when a block begins
constexpr int kSecondsWithoutTurn = 5;           // of processor time that one thread may run by itself

enum class State : unsigned char { fresh, ready, paused, at_barrier, in_collective, done };
enum class Collective : unsigned char { shuffle, ballot, sync, match, add, least, most, both, either, differ, least_signed, most_signed };

struct Block;
struct Warp;
struct Cell;
struct Array;

struct Fiber {
    void* stack_pointer;
    char* stack;
    Block* block;
    Warp* warp;
    uint3 thread;
    int lane;
    State state;
    int source;             // lane whose value a shuffle takes
    u64 value, result;      // of a collective
    const volatile void* polled;
    int polls;
    int line;               // of the source, where it waits
};

struct Group {              // lanes that wait for each other in a collective
    u32 mask, arrived;
    Collective kind;
};

struct Warp {
    Fiber* lanes[kWarp];
    u32 alive;
    int groups_waiting;
    Group groups[kWarp];
    u32 synchronised[kWarp][kWarp];  // when two lanes last met in a __syncwarp, if accesses are checked
};

struct Block {
    uint3 index;
    Fiber* fibers;
    Warp* warps;
    int n_alive, n_at_barrier, barrier_site, barrier_line;
    int n_true;             // predicates of those at the barrier
    int barrier_result, barrier_n;
    char* shared;           // its shared memory while another block runs
    u32 number;
    Cell* cells;            // of its shared memory, if accesses are checked; then also when it began, met and saw others
    u32 begun, last_barrier, acquired;
};

struct Options {            // what Python passes; the order is known there
    u32 grid[3], block[3];
    u64 dynamic_shared;
    int resident;           // blocks that take turns
    int strict;             // barriers in different lines, or without threads that have ended, are mistakes
    u32 seed;               // 0: threads in order; else an order drawn anew at every turn
    int unused;
    u64 n_arrays;           // device arrays
    const Array* arrays;
};

#if defined(__x86_64__)
extern "C" void cuda_emulator_switch(void** saved, void* next);
asm(R"(
    .text
    .local cuda_emulator_switch
    .type cuda_emulator_switch, @function
cuda_emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size cuda_emulator_switch, . - cuda_emulator_switch
)");
static inline void* prepared(char* stack, void (*entry)()) {
    void** top = reinterpret_cast<void**>(stack) - 1;   // as if called: the stack is 8 bytes off 16 at entry
    *top = nullptr;
    *--top = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; saved++) *--top = nullptr;
    return top;
}
#else
static inline void cuda_emulator_switch(void** saved, void* next) {
    ucontext_t here;
    *saved = &here;
    swapcontext(&here, static_cast<ucontext_t*>(next));
}
static inline void* prepared(char* stack, void (*entry)()) {
    // The context stands at the top of the stack it runs on.
    ucontext_t* context = reinterpret_cast<ucontext_t*>((reinterpret_cast<u64>(stack) - sizeof(ucontext_t)) & ~u64(63));
    getcontext(context);
    context->uc_stack.ss_size = kStack / 2;
    context->uc_stack.ss_sp = reinterpret_cast<char*>(context) - kStack / 2;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    return context;
}
#endif

static Fiber* current;
static void* scheduler;                 // its stack pointer while a fiber runs
static Options launch;
static uint3 block_dimensions, grid_dimensions;
static void (*kernel_call)(void**);
static void** kernel_arguments;
static char* message;
static std::size_t message_size;
static bool is_failed;
static void* failed_at;
static long n_changes;                  // of memory or of threads: proof that a launch gets on
static u64 n_switches, n_switches_seen;
static u32 random_state;
static char** free_stacks;
static std::size_t n_free_stacks, n_stacks, room_for_stacks;
static thread_local volatile char anchor;       // makes the thread-local block exist
static char* module_base;
static u32 now = 1, launch_begun;       // times of cuda_accesses.hpp
static char* static_shared;
static std::size_t static_shared_size;

// Defined in assembler: what kernels declare as `extern __shared__` becomes the same symbol, whatever its type and name.
constexpr std::size_t kDynamicShared = (kMostShared + 2 * kPage) / kPage * kPage;
static_assert(kDynamicShared == 237568, "the size below");
asm(".local cuda_emulator_dynamic_shared\n.comm cuda_emulator_dynamic_shared, 237568, 4096");
extern char dynamic_shared[kDynamicShared] __asm__("cuda_emulator_dynamic_shared");

static inline u32 random_number() {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static inline void check_pending();

static inline void to_scheduler() {
    check_pending();
    n_switches++;
    cuda_emulator_switch(&current->stack_pointer, scheduler);
}

// Ends the launch with a message that names the thread.
[[noreturn]] static __noinline__ void fail(const char* format, ...) {
    std::size_t used = 0;
    if (current) {
        const uint3 b = current->block->index, t = current->thread;
        used = std::snprintf(message, message_size, "block (%u, %u, %u), thread (%u, %u, %u): ", b.x, b.y, b.z, t.x, t.y, t.z);
    }
    va_list values;
    va_start(values, format);
    std::vsnprintf(message + used, message_size - used, format, values);
    va_end(values);
    is_failed = true;
    to_scheduler();
    std::abort();
}

// ---------------------------------------------------------------- pauses

static inline void pause() {
    current->state = State::paused;
    to_scheduler();
}

// Called where a thread reads what others may write.
static inline void poll(const volatile void* address, bool is_in_vain = true) {
    n_changes += !is_in_vain;
    if (launch.seed && (random_number() & 7) == 0) {
        pause();
        return;
    }
    if (!is_in_vain || current->polled != address) {
        current->polled = is_in_vain ? address : nullptr;
        current->polls = 0;
        return;
    }
    if (++current->polls > kMostPolls) pause();
}

#ifdef CUDA_EMULATOR_CHECKED
}  // namespace cuda_emulator
#include "cuda_accesses.hpp"
namespace cuda_emulator {
constexpr std::size_t kCell = sizeof(Cell);
#else
enum class Access : unsigned char { plain, polled, atomic };
constexpr std::size_t kCell = 0;
static inline void check_pending() {}
static inline void check_access(const volatile void*, std::size_t, bool, Access, void*) {}
static inline void begin_checks(u64) {}
static inline void end_checks() {}
static inline void note_fence() {}
#endif

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

// ---------------------------------------------------------------- the scheduler

static void fiber_main() {
    while (true) {
        kernel_call(kernel_arguments);
        Fiber& fiber = *current;
        Block& block = *fiber.block;
        Warp& warp = *fiber.warp;
        if (block.n_at_barrier && launch.strict)
            fail("barrier divergence: it ends while %d threads of its block wait at the __syncthreads of line %d.", block.n_at_barrier,
                 block.barrier_line);
        fiber.state = State::done;
        n_changes++;
        block.n_alive--;
        warp.alive &= ~(u32(1) << fiber.lane);
        if (block.n_at_barrier && block.n_at_barrier == block.n_alive) release_barrier(block);
        for (int place = warp.groups_waiting - 1; place >= 0; place--) {
            const u32 wanted = warp.groups[place].mask & warp.alive;
            if (wanted && (warp.groups[place].arrived & wanted) == wanted) complete(warp, place);
        }
        free_stacks[n_free_stacks++] = fiber.stack;
        to_scheduler();             // the stack's next thread starts at its top anew
    }
}

static char* take_stack() {
    if (n_free_stacks) return free_stacks[--n_free_stacks];
    if (n_stacks == room_for_stacks) {
        room_for_stacks = room_for_stacks ? 2 * room_for_stacks : 1024;
        free_stacks = static_cast<char**>(std::realloc(free_stacks, room_for_stacks * sizeof(char*)));
    }
    void* memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        current = nullptr;
        std::snprintf(message, message_size, "no memory for the stack of thread %zu: launch fewer threads.", n_stacks);
        is_failed = true;
        return nullptr;
    }
    if (n_stacks < kMostGuardedStacks) mprotect(memory, kPage, PROT_NONE);
    // Tops at different places of a page: else all of them would share the same few sets of the cache.
    return static_cast<char*>(memory) + kStack - (n_stacks++ % 61) * 64;
}

static void run(Fiber& fiber) {
    if (fiber.state == State::fresh) {
        fiber.stack = take_stack();
        if (!fiber.stack) return;
        fiber.stack_pointer = prepared(fiber.stack, fiber_main);
    }
    fiber.state = State::ready;
    current = &fiber;
    cuda_emulator_switch(&scheduler, fiber.stack_pointer);
    current = nullptr;
}

static inline bool is_runnable(const Fiber& fiber) { return fiber.state == State::ready || fiber.state == State::fresh; }

// Runs the threads of a warp until all wait, pause or have ended; says whether any ran.
static bool run_warp(Warp& warp) {
    bool has_run = false;
    for (bool again = true; again && !is_failed;) {
        again = false;
        const int start = launch.seed ? random_number() % kWarp : 0;
        const int step = launch.seed ? (random_number() % (kWarp / 2)) * 2 + 1 : 1;
        for (int place = 0; place < kWarp && !is_failed; place++) {
            Fiber* fiber = warp.lanes[(start + place * step) % kWarp];
            if (!fiber || !is_runnable(*fiber)) continue;
            if (launch.seed && (random_number() & 3) == 0) {
                again = true;           // its turn comes later
                continue;
            }
            run(*fiber);
            again = has_run = true;
        }
        if (launch.seed && has_run) break;  // other warps in between
    }
    return has_run;
}

static void run_block(Block& block, int n_threads) {
    const int n_warps = (n_threads + kWarp - 1) / kWarp;
    for (int thread = 0; thread < n_threads; thread++)
        if (block.fibers[thread].state == State::paused) block.fibers[thread].state = State::ready;
    for (bool again = true; again && !is_failed;) {
        again = false;
        const int start = launch.seed ? random_number() % n_warps : 0;
        for (int place = 0; place < n_warps && !is_failed; place++) again |= run_warp(block.warps[(start + place) % n_warps]);
        if (launch.seed && !again) {
            for (int thread = 0; thread < n_threads; thread++) again |= is_runnable(block.fibers[thread]);
        } else if (launch.seed && launch.resident > 1 && random_number() % 4 == 0) {
            break;                      // other blocks in between
        }
    }
}

static void begin(Block& block, u64 number, int n_threads) {
    const u32* grid = launch.grid;
    const u32* size = launch.block;
    block.index = {u32(number % grid[0]), u32(number / grid[0] % grid[1]), u32(number / grid[0] / grid[1])};
    block.n_alive = n_threads;
    block.n_at_barrier = block.n_true = 0;
    block.number = u32(number);
    block.begun = block.last_barrier = block.acquired = now++;
    for (int place = 0; place < n_threads; place++) {
        Fiber& fiber = block.fibers[place];
        fiber = Fiber{};
        fiber.block = &block;
        fiber.warp = &block.warps[place / kWarp];
        fiber.thread = {place % size[0], place / size[0] % size[1], place / size[0] / size[1]};
        fiber.lane = place % kWarp;
        if (fiber.lane == 0) *fiber.warp = Warp{};
        fiber.warp->lanes[fiber.lane] = &fiber;
        fiber.warp->alive |= u32(1) << fiber.lane;
        fiber.state = State::fresh;
    }
    std::memset(block.shared, kRubbish, static_shared_size + launch.dynamic_shared);
}

static void copy_shared(Block* out, Block* in) {
    if (out == in) return;
    if (out) {
        std::memcpy(out->shared, static_shared, static_shared_size);
        std::memcpy(out->shared + static_shared_size, dynamic_shared, launch.dynamic_shared);
    }
    if (in) {
        std::memcpy(static_shared, in->shared, static_shared_size);
        std::memcpy(dynamic_shared, in->shared + static_shared_size, launch.dynamic_shared);
    }
}

static const char* what(State state) {
    switch (state) {
        case State::at_barrier: return "at __syncthreads";
        case State::in_collective: return "in a collective of the warp";
        case State::paused: return "polling";
        default: return "ready";
    }
}

// Says of each kind of waiting how many threads there are, and where the first of them is.
static void report_deadlock(Block* blocks, int n_resident, int n_threads, u64 n_not_begun) {
    std::size_t used = std::snprintf(message, message_size, "deadlock:");
    for (int place = 0; place < n_resident; place++) {
        const Block& block = blocks[place];
        for (const State state : {State::at_barrier, State::in_collective, State::paused}) {
            int n = 0;
            const Fiber* first = nullptr;
            for (int thread = 0; thread < n_threads; thread++)
                if (block.fibers[thread].state == state && n++ == 0) first = &block.fibers[thread];
            if (!n || used + 200 > message_size) continue;
            used += std::snprintf(message + used, message_size - used, " block (%u, %u, %u): %d threads %s", block.index.x, block.index.y,
                                  block.index.z, n, what(state));
            if (state != State::paused) used += std::snprintf(message + used, message_size - used, " of line %d", first->line);
            used += std::snprintf(message + used, message_size - used, ", the first of them (%u, %u, %u);", first->thread.x, first->thread.y,
                                  first->thread.z);
        }
    }
    if (n_not_begun)
        std::snprintf(message + used, message_size - used, " %llu blocks have not begun: blocks that wait for each other need a cooperative launch.",
                      static_cast<unsigned long long>(n_not_begun));
    is_failed = true;
}

static void run_blocks(Block* blocks, int n_resident, int n_threads) {
    const u64 n_blocks = u64(launch.grid[0]) * launch.grid[1] * launch.grid[2];
    u64 n_begun = 0, n_done = 0;
    long idle_switches = 0;
    Block* inside = nullptr;            // whose shared memory is in place
    for (int place = 0; place < n_resident; place++) begin(blocks[place], n_begun++, n_threads);
    while (n_done < n_blocks && !is_failed) {
        const long changes = n_changes;
        const u64 switches = n_switches;
        const int start = launch.seed ? random_number() % n_resident : 0;
        for (int turn = 0; turn < n_resident && !is_failed; turn++) {
            Block& block = blocks[(start + turn) % n_resident];
            if (block.n_alive == 0) continue;
            copy_shared(inside, &block);
            inside = &block;
            run_block(block, n_threads);
            if (is_failed || block.n_alive) continue;
            n_done++;
            for (std::size_t byte = launch.dynamic_shared; byte % kPage; byte++)
                if (dynamic_shared[byte] != char(kRubbish)) {
                    std::snprintf(message, message_size, "block (%u, %u, %u) wrote beyond its %llu bytes of dynamic shared memory, at byte %zu.",
                                  block.index.x, block.index.y, block.index.z, static_cast<unsigned long long>(launch.dynamic_shared), byte);
                    is_failed = true;
                    break;
                }
            if (n_begun < n_blocks) begin(block, n_begun++, n_threads);
            inside = nullptr;
        }
        if (is_failed) return;
        idle_switches = changes != n_changes ? 0 : idle_switches + long(n_switches - switches) + 1;
        const bool is_stuck = changes == n_changes && switches == n_switches;
        if (n_done < n_blocks && (is_stuck || idle_switches > kMostIdleSwitches))
            report_deadlock(blocks, n_resident, n_threads, n_blocks - n_begun);
    }
}

// ---------------------------------------------------------------- what the processor refuses

static const int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static void* program_counter(void* context) {
#if defined(__x86_64__)
    return reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#else
    (void)context;
    return nullptr;
#endif
}

static void on_signal(int signal, siginfo_t* info, void* context) {
    if (!current) {
        std::signal(signal, SIG_DFL);
        return;
    }
    failed_at = program_counter(context);
    const char* address = static_cast<const char*>(info->si_addr);
    if (signal == SIGFPE) fail("an integer was divided by zero.");
    if (signal == SIGILL) fail("__trap, or something undefined: a misaligned access, an index outside an array.");
    if (address >= dynamic_shared && address < dynamic_shared + kDynamicShared)
        fail("access beyond the %llu bytes of dynamic shared memory, at byte %ld.", static_cast<unsigned long long>(launch.dynamic_shared),
             long(address - dynamic_shared));
    const char* top = current->stack;
    if (address < top && address >= top - kStack) fail("its stack of %zu KiB is too small.", kStack >> 10);
    if (info->si_code == SI_KERNEL) fail("access to an address that no memory can have: a pointer was not set.");
    fail("access to address %#llx, which is in no array.", static_cast<unsigned long long>(reinterpret_cast<u64>(address)));
}

static void on_timer(int, siginfo_t*, void* context) {
    if (n_switches != n_switches_seen || !current) {
        n_switches_seen = n_switches;
        return;
    }
    failed_at = program_counter(context);
    fail("has run for over %d seconds without giving way: a loop without end, or one that polls memory by plain reads. "
         "Poll with __ldcg, atomics or volatile_load.", kSecondsWithoutTurn);
}

struct Guards {             // of one launch: signal handlers, their stack, the clock
    struct sigaction before[4], timer_before;
    stack_t stack_before;
    timer_t timer;
    char* stack;
    bool has_timer;
    static constexpr int kTimerSignal = SIGURG;  // which nobody else uses, and which does nothing where it is not handled
    Guards() {
        stack = static_cast<char*>(mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        stack_t alternate{};
        alternate.ss_sp = stack;
        alternate.ss_size = 1 << 16;
        sigaltstack(&alternate, &stack_before);
        struct sigaction action{};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        for (int i = 0; i < 4; i++) sigaction(kSignals[i], &action, &before[i]);
        action.sa_sigaction = on_timer;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
        sigaction(kTimerSignal, &action, &timer_before);
        sigevent event{};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = kTimerSignal;
        event._sigev_un._tid = pid_t(syscall(SYS_gettid));
        has_timer = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0;
        const itimerspec interval{{kSecondsWithoutTurn, 0}, {kSecondsWithoutTurn, 0}};
        if (has_timer) timer_settime(timer, 0, &interval, nullptr);
    }
    ~Guards() {
        if (has_timer) timer_delete(timer);
        for (int i = 0; i < 4; i++) sigaction(kSignals[i], &before[i], nullptr);
        sigaction(kTimerSignal, &timer_before, nullptr);
        sigaltstack(&stack_before, nullptr);
        munmap(stack, 1 << 16);
    }
};

static int find_static_shared(dl_phdr_info* module, std::size_t, void* base) {
    if (reinterpret_cast<void*>(module->dlpi_addr) != base) return 0;
    for (int place = 0; place < module->dlpi_phnum; place++)
        if (module->dlpi_phdr[place].p_type == PT_TLS) static_shared_size = module->dlpi_phdr[place].p_memsz;
    static_shared = static_cast<char*>(module->dlpi_tls_data);
    return 1;
}

static void release_stacks() {
    for (std::size_t place = 0; place < n_free_stacks; place++) {
        const u64 top = reinterpret_cast<u64>(free_stacks[place]);
        munmap(reinterpret_cast<void*>((top - 1) / kPage * kPage + kPage - kStack), kStack);
    }
    n_free_stacks = n_stacks = 0;
}

static int launch_kernel(void (*call)(void**), const Options* options, void** arguments, char* text, u64 size, u64* offset) {
    launch = *options;
    kernel_call = call;
    kernel_arguments = arguments;
    message = text;
    message_size = size;
    is_failed = false;
    failed_at = nullptr;
    random_state = launch.seed * 2654435761u + 1;
    block_dimensions = {launch.block[0], launch.block[1], launch.block[2]};
    grid_dimensions = {launch.grid[0], launch.grid[1], launch.grid[2]};
    anchor = 1;
    Dl_info here;
    dladdr(reinterpret_cast<void*>(&launch_kernel), &here);
    dl_iterate_phdr(find_static_shared, here.dli_fbase);
    module_base = static_cast<char*>(here.dli_fbase);
    const int n_threads = launch.block[0] * launch.block[1] * launch.block[2];
    const int n_warps = (n_threads + kWarp - 1) / kWarp;
    const int n_resident = launch.resident;
    const std::size_t closed = (launch.dynamic_shared + kPage - 1) / kPage * kPage;
    std::memset(dynamic_shared, kRubbish, closed);
    mprotect(dynamic_shared + closed, kDynamicShared - closed, PROT_NONE);
    Block* blocks = static_cast<Block*>(std::calloc(n_resident, sizeof(Block)));
    for (int place = 0; place < n_resident; place++) {
        blocks[place].fibers = static_cast<Fiber*>(std::calloc(n_threads, sizeof(Fiber)));
        blocks[place].warps = static_cast<Warp*>(std::calloc(n_warps, sizeof(Warp)));
        blocks[place].shared = static_cast<char*>(std::malloc(static_shared_size + launch.dynamic_shared + 1));
        blocks[place].cells = static_cast<Cell*>(std::calloc(static_shared_size + launch.dynamic_shared + 1, kCell + 1));
    }
    begin_checks(u64(launch.grid[0]) * launch.grid[1] * launch.grid[2]);
    {
        Guards guards;
        run_blocks(blocks, n_resident, n_threads);
        current = nullptr;
    }
    end_checks();
    for (int place = 0; place < n_resident; place++) {
        if (is_failed)
            for (int thread = 0; thread < n_threads; thread++) {
                const Fiber& fiber = blocks[place].fibers[thread];
                if (fiber.stack && fiber.state != State::done) free_stacks[n_free_stacks++] = fiber.stack;
            }
        std::free(blocks[place].fibers);
        std::free(blocks[place].warps);
        std::free(blocks[place].shared);
        std::free(blocks[place].cells);
    }
    std::free(blocks);
    mprotect(dynamic_shared, kDynamicShared, PROT_READ | PROT_WRITE);
    if (n_stacks > kMostKeptStacks) release_stacks();
    *offset = failed_at ? reinterpret_cast<u64>(failed_at) - reinterpret_cast<u64>(here.dli_fbase) : 0;
    return is_failed;
}

// ---------------------------------------------------------------- kernels as Python sees them

struct Parameter {
    char kind;              // p pointer, i signed, u unsigned, f floating, s structure
    int size;
};

template <class T>
constexpr Parameter parameter() {
    return {std::is_pointer<T>::value ? 'p'
            : std::is_floating_point<T>::value ? 'f'
            : std::is_integral<T>::value || std::is_enum<T>::value ? (std::is_signed<T>::value ? 'i' : 'u')
            : 's', int(sizeof(T))};
}

template <auto kernel>
struct Kernel;
template <class... Types, void (*kernel)(Types...)>
struct Kernel<kernel> {
    static constexpr int count = sizeof...(Types);
    static constexpr Parameter parameters[sizeof...(Types) + 1] = {parameter<Types>()..., {0, 0}};
    static void call(void** arguments) { call(arguments, std::index_sequence_for<Types...>{}); }
    template <std::size_t... place>
    static void call(void** arguments, std::index_sequence<place...>) {
        (void)arguments;
        kernel(*static_cast<std::remove_const_t<Types>*>(arguments[place])...);
    }
};

struct Entry {
    const char* name;
    void (*call)(void**);
    const Parameter* parameters;
    int count, most_threads;
};
#define CUDA_EMULATOR_ENTRY(name, most_threads, ...) \
    {name, cuda_emulator::Kernel<__VA_ARGS__>::call, cuda_emulator::Kernel<__VA_ARGS__>::parameters, cuda_emulator::Kernel<__VA_ARGS__>::count, most_threads}
#define CUDA_EMULATOR_INTERFACE                                                                                                  \
    extern "C" const cuda_emulator::Entry* cuda_emulator_entry(int place) { return &cuda_emulator_entries[place]; }              \
    extern "C" int cuda_emulator_launch(int place, const cuda_emulator::Options* options, void** arguments, char* message,       \
                                        cuda_emulator::u64 size, cuda_emulator::u64* offset) {                                   \
        return cuda_emulator::launch_kernel(cuda_emulator_entries[place].call, options, arguments, message, size, offset);       \
    }                                                                                                                            \
    extern "C" cuda_emulator::u64 cuda_emulator_static_shared() {                                                                \
        cuda_emulator::anchor = 1;                                                                                               \
        Dl_info here;                                                                                                            \
        dladdr(reinterpret_cast<void*>(&cuda_emulator::launch_kernel), &here);                                                   \
        dl_iterate_phdr(cuda_emulator::find_static_shared, here.dli_fbase);                                                      \
        return cuda_emulator::static_shared_size;                                                                                \
    }

}  // namespace cuda_emulator

#include "cuda_intrinsics.hpp"
