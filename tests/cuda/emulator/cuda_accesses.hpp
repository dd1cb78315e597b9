// Every access of a kernel to shared memory and device arrays, checked for races and bounds.
//
// The compiler calls a function before each access (-fsanitize=thread). What those functions do is defined here, in
// the place of the sanitizer's own library, which knows threads of the operating system only.
//
// Words used here
//     time      a count of what orders accesses: barriers, __syncwarp, fences, atomics
//     ordered   two accesses with a barrier of the block between them; or a __syncwarp, for lanes that both took part;
//               or, between blocks, a fence or an atomic of the one and after it one of the other
//     race      two accesses of different threads to one byte, one of them a write, that are not ordered. Atomics do not
//               race with atomics, with volatile accesses and with __ldcg. Nor do threads that write the same value.
#pragma once

#define CUDA_OWN __attribute__((no_sanitize("thread")))  // functions whose accesses are nobody's business

namespace cuda_emulator {

constexpr u32 kThreads = 1024;  // of the largest block: a thread's number is block * kThreads + thread

enum class Access : unsigned char { plain, polled, atomic };

struct Cell {                   // of each byte: who touched it last, when, and in which line
    u32 writer, write_time, write_site;
    u32 reader[2], read_time[2], read_site;
    u32 blocks;                 // that have written the value that the writer wrote, a bit each (of their number modulo 32)
    Access write_kind, read_kind;
};

constexpr std::size_t kCell = sizeof(Cell);

struct Array {                  // as Python passes them, by ascending address
    u64 first, last, page, end_of_pages;
};

struct Pending {                // a write over another thread's: a race if it changes the value
    unsigned char* address;
    unsigned char before[16];
    std::size_t size;
    char text[600];
};

static Cell** cells_of_array;
static u32* released;           // by block: the time of its last fence or atomic
static Pending pending;
static bool is_inside;          // the checks, whose own accesses are not checked

CUDA_OWN __attribute__((noinline)) static void check_pending() {
    if (!pending.address || is_failed) return;
    unsigned char* const address = pending.address;
    pending.address = nullptr;
    if (std::memcmp(address, pending.before, pending.size) != 0) fail("%s", pending.text);
}

CUDA_OWN static inline u32 number_of(const Fiber& fiber) {
    return fiber.block->number * kThreads + u32(&fiber - fiber.block->fibers);
}

CUDA_OWN static bool is_ordered(u32 other, u32 time) {
    const Block& block = *current->block;
    if (other / kThreads != block.number) return released[other / kThreads] > time && block.acquired > time;
    if (time < block.last_barrier) return true;
    const u32 thread = other % kThreads;
    const Warp& warp = *current->warp;
    return block.fibers[thread].warp == &warp && time < warp.synchronised[thread % kWarp][current->lane];
}

CUDA_OWN static inline bool may_meet(Access one, Access other) {
    return one != Access::plain && other != Access::plain && (one == Access::atomic || other == Access::atomic);
}

struct Area {                   // of memory, for messages
    const char* name;           // null for a device array
    u64 size;
};

static void describe_race(char* text, std::size_t size, const char* verb, const Area& area, u64 place, u32 site,
                          const char* verb_before, u32 other, u32 site_before) {
    const uint3 block_size = block_dimensions;
    const u32 thread = other % kThreads;
    char what[64];
    std::snprintf(what, sizeof what, area.name ? "%s" : "%san array of %llu bytes", area.name ? area.name : "",
                  static_cast<unsigned long long>(area.size));
    std::snprintf(text, size, "race: it %s byte %llu of %s (line {%#x}), which thread (%u, %u, %u) of block number %u %s (line {%#x}), with no "
                  "barrier in between.", verb, static_cast<unsigned long long>(place), what, site, thread % block_size.x,
                  thread / block_size.x % block_size.y, thread / block_size.x / block_size.y, other / kThreads, verb_before, site_before);
}

// A write of the value that is there already changes nothing that another thread could see: only then is it no race.
CUDA_OWN static void report_race(unsigned char* address, std::size_t size, bool may_be_equal, const char* text) {
    if (!may_be_equal || size > sizeof pending.before) fail("%s", text);
    if (pending.address) return;
    pending.address = address;
    pending.size = size;
    std::memcpy(pending.before, address, size);
    std::memcpy(pending.text, text, sizeof pending.text);
}

CUDA_OWN static void touch(Cell* cells, u32 since, unsigned char* address, std::size_t size, bool is_write, Access kind, u32 site,
                           const Area& area, u64 place) {
    const u32 me = number_of(*current);
    const bool may_be_equal = is_write && kind == Access::plain;
    const u32 mine = u32(1) << (me / kThreads % 32);
    char text[sizeof pending.text];
    for (std::size_t byte = 0; byte < size; byte++) {
        Cell& cell = cells[byte];
        const bool was_written = cell.write_time > since && cell.writer != me && !may_meet(cell.write_kind, kind);
        const bool is_own_too = !is_write && cell.writer / kThreads != me / kThreads && (cell.blocks & mine);
        bool is_again = false;
        if (was_written && !is_own_too && !is_ordered(cell.writer, cell.write_time)) {
            describe_race(text, sizeof text, is_write ? "writes" : "reads", area, place + byte, site, "wrote", cell.writer, cell.write_site);
            report_race(address, size, may_be_equal, text);
            is_again = true;
        }
        for (int reader = 0; is_write && reader < 2; reader++) {
            if (cell.read_time[reader] <= since || cell.reader[reader] == me || may_meet(cell.read_kind, kind)) continue;
            if (is_ordered(cell.reader[reader], cell.read_time[reader])) continue;
            describe_race(text, sizeof text, "writes", area, place + byte, site, "read", cell.reader[reader], cell.read_site);
            report_race(address, size, may_be_equal, text);
        }
        if (is_write && is_again) {
            cell.blocks |= mine;
        } else if (is_write) {
            cell.blocks = mine;
            cell.writer = me;
            cell.write_time = now;
            cell.write_site = site;
            cell.write_kind = kind;
        } else {
            if (cell.reader[0] != me) {
                cell.reader[1] = cell.reader[0];
                cell.read_time[1] = cell.read_time[0];
            }
            cell.reader[0] = me;
            cell.read_time[0] = now;
            cell.read_site = site;
            cell.read_kind = kind;
        }
    }
}

CUDA_OWN static const Array* array_at(u64 address) {
    u64 low = 0, high = launch.n_arrays;
    while (low < high) {
        const u64 middle = (low + high) / 2;
        if (launch.arrays[middle].end_of_pages <= address) low = middle + 1;
        else high = middle;
    }
    return low < launch.n_arrays && launch.arrays[low].page <= address ? launch.arrays + low : nullptr;
}

CUDA_OWN static void check(const volatile void* place, std::size_t size, bool is_write, Access kind, void* caller) {
    check_pending();
    unsigned char* address = static_cast<unsigned char*>(const_cast<void*>(place));
    const u32 site = u32(static_cast<char*>(caller) - module_base) - 1;
    Block& block = *current->block;
    const u64 in_static = address - reinterpret_cast<unsigned char*>(static_shared);
    const u64 in_dynamic = address - reinterpret_cast<unsigned char*>(dynamic_shared);
    if (in_static < static_shared_size) {
        touch(block.cells + in_static, block.begun, address, size, is_write, kind, site, Area{"static shared memory", 0}, in_static);
    } else if (in_dynamic < kDynamicShared) {
        if (in_dynamic + size > launch.dynamic_shared)
            fail("%s byte %llu of %llu bytes of dynamic shared memory (line {%#x}).", is_write ? "writes" : "reads",
                 static_cast<unsigned long long>(in_dynamic), static_cast<unsigned long long>(launch.dynamic_shared), site);
        touch(block.cells + static_shared_size + in_dynamic, block.begun, address, size, is_write, kind, site, Area{"dynamic shared memory", 0}, in_dynamic);
    } else if (const Array* array = array_at(reinterpret_cast<u64>(address))) {
        const u64 at = reinterpret_cast<u64>(address);
        const long long offset = static_cast<long long>(at - array->first);
        if (at < array->first || at + size > array->last)
            fail("%s byte %lld of an array of %llu bytes (line {%#x}).", is_write ? "writes" : "reads", offset,
                 static_cast<unsigned long long>(array->last - array->first), site);
        Cell*& cells = cells_of_array[array - launch.arrays];
        if (!cells) cells = static_cast<Cell*>(std::calloc(array->last - array->first, sizeof(Cell)));
        touch(cells + offset, launch_begun, address, size, is_write, kind, site, Area{nullptr, array->last - array->first}, u64(offset));
    }
}

CUDA_OWN __attribute__((noinline)) static void check_access(const volatile void* place, std::size_t size, bool is_write,
                                                                         Access kind, void* caller) {
    if (!current || is_inside) return;
    is_inside = true;
    check(place, size, is_write, kind, caller);
    is_inside = false;
}

static void begin_checks(u64 n_blocks) {
    cells_of_array = static_cast<Cell**>(std::calloc(launch.n_arrays + 1, sizeof(Cell*)));
    released = static_cast<u32*>(std::calloc(n_blocks, sizeof(u32)));
    pending.address = nullptr;
    is_inside = false;
    launch_begun = now++;
}

static void end_checks() {
    for (u64 array = 0; array < launch.n_arrays; array++) std::free(cells_of_array[array]);
    std::free(cells_of_array);
    std::free(released);
}

CUDA_OWN static inline void note_fence() {   // a release and an acquire
    current->block->acquired = released[current->block->number] = ++now;
}

}  // namespace cuda_emulator

// What the compiler calls.
#define CUDA_HOOK extern "C" __attribute__((visibility("hidden"), no_sanitize("thread"), used)) void
#define CUDA_CHECK(is_write, kind, size) \
    cuda_emulator::check_access(address, size, is_write, cuda_emulator::Access::kind, __builtin_return_address(0))
#define CUDA_HOOKS(size)                                                                            \
    CUDA_HOOK __tsan_read##size(void* address) { CUDA_CHECK(false, plain, size); }                  \
    CUDA_HOOK __tsan_write##size(void* address) { CUDA_CHECK(true, plain, size); }                  \
    CUDA_HOOK __tsan_unaligned_read##size(void* address) { CUDA_CHECK(false, plain, size); }        \
    CUDA_HOOK __tsan_unaligned_write##size(void* address) { CUDA_CHECK(true, plain, size); }        \
    CUDA_HOOK __tsan_volatile_read##size(void* address) {                                           \
        CUDA_CHECK(false, atomic, size);                                                            \
        if (cuda_emulator::current && !cuda_emulator::is_inside) cuda_emulator::poll(address);                                   \
    }                                                                                               \
    CUDA_HOOK __tsan_volatile_write##size(void* address) { CUDA_CHECK(true, atomic, size); }        \
    CUDA_HOOK __tsan_unaligned_volatile_read##size(void* address) { CUDA_CHECK(false, atomic, size); } \
    CUDA_HOOK __tsan_unaligned_volatile_write##size(void* address) { CUDA_CHECK(true, atomic, size); }
CUDA_HOOKS(1)
CUDA_HOOKS(2)
CUDA_HOOKS(4)
CUDA_HOOKS(8)
CUDA_HOOKS(16)
CUDA_HOOK __tsan_read_range(void* address, unsigned long size) { CUDA_CHECK(false, plain, size); }
CUDA_HOOK __tsan_write_range(void* address, unsigned long size) { CUDA_CHECK(true, plain, size); }
CUDA_HOOK __tsan_init() {}
CUDA_HOOK __tsan_func_entry(void*) {}
CUDA_HOOK __tsan_func_exit() {}
CUDA_HOOK __tsan_vptr_update(void**, void*) {}
CUDA_HOOK __tsan_vptr_read(void**) {}
