// What a fiber is, the switch from one to another, and the pauses of those that poll.
#pragma once

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
constexpr int kSecondsWithoutTurn = 2;           // of processor time that one thread may run by itself

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

}  // namespace cuda_emulator
