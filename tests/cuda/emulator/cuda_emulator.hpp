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

// ---------------------------------------------------------------- what runs it

#include "cuda_fibers.hpp"
#ifdef CUDA_EMULATOR_CHECKED
#include "cuda_accesses.hpp"
#else
namespace cuda_emulator {
enum class Access : unsigned char { plain, polled, atomic };
constexpr std::size_t kCell = 0;
static inline void check_pending() {}
static inline void check_access(const volatile void*, std::size_t, bool, Access, void*) {}
static inline void begin_checks(u64) {}
static inline void end_checks() {}
static inline void note_fence() {}
}  // namespace cuda_emulator
#endif
#include "cuda_meeting.hpp"
#include "cuda_launching.hpp"
#include "cuda_intrinsics.hpp"
