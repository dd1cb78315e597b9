// A launch: which fiber runs next, what ends a launch early, and the table of kernels that Python reads.
#pragma once

namespace cuda_emulator {

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
    std::fflush(stdout);    // of the kernel's printf
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
