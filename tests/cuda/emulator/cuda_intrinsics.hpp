// The built-in variables and functions of CUDA, over the fibers of cuda_emulator.hpp.
//
// Arithmetic with a rounding mode in its name is the processor's own, which rounds to nearest even; the compiler is told
// not to contract (-ffp-contract=off), as kernels are with --fmad=false.
#pragma once

#define threadIdx (cuda_emulator::current->thread)
#define blockIdx (cuda_emulator::current->block->index)
#define blockDim (cuda_emulator::block_dimensions)
#define gridDim (cuda_emulator::grid_dimensions)
#define warpSize 32

#undef assert
#define assert(claim) ((claim) ? void() : cuda_emulator::fail("the assertion of line %d does not hold: %s", __LINE__, #claim))
#define __trap() cuda_emulator::fail("__trap in line %d.", __LINE__)

// ---------------------------------------------------------------- barriers, votes, shuffles

#define __syncthreads() ((void)cuda_emulator::barrier(__COUNTER__, __LINE__, false))
#define __syncthreads_count(predicate) (cuda_emulator::barrier(__COUNTER__, __LINE__, (predicate) != 0))
#define __syncthreads_or(predicate) (cuda_emulator::barrier(__COUNTER__, __LINE__, (predicate) != 0) != 0)
#define __syncthreads_and(predicate) (cuda_emulator::barrier(__COUNTER__, __LINE__, (predicate) == 0) == 0)
#define CUDA_WARP (cuda_emulator::Shuffler{__LINE__})
#define __syncwarp(...) CUDA_WARP.sync(__VA_ARGS__)
#define __shfl_sync(...) CUDA_WARP.take(__VA_ARGS__)
#define __shfl_up_sync(...) CUDA_WARP.up(__VA_ARGS__)
#define __shfl_down_sync(...) CUDA_WARP.down(__VA_ARGS__)
#define __shfl_xor_sync(...) CUDA_WARP.across(__VA_ARGS__)
#define __ballot_sync(...) CUDA_WARP.ballot(__VA_ARGS__)
#define __any_sync(...) CUDA_WARP.any(__VA_ARGS__)
#define __all_sync(...) CUDA_WARP.all(__VA_ARGS__)
#define __match_any_sync(...) CUDA_WARP.match(__VA_ARGS__)
#define __reduce_add_sync(...) CUDA_WARP.reduce(cuda_emulator::Collective::add, __VA_ARGS__)
#define __reduce_min_sync(...) CUDA_WARP.reduce(cuda_emulator::Collective::least, __VA_ARGS__)
#define __reduce_max_sync(...) CUDA_WARP.reduce(cuda_emulator::Collective::most, __VA_ARGS__)
#define __reduce_and_sync(...) CUDA_WARP.reduce(cuda_emulator::Collective::both, __VA_ARGS__)
#define __reduce_or_sync(...) CUDA_WARP.reduce(cuda_emulator::Collective::either, __VA_ARGS__)
#define __reduce_xor_sync(...) CUDA_WARP.reduce(cuda_emulator::Collective::differ, __VA_ARGS__)

// Nothing promises that lanes run together: the least answer that is allowed is the lane itself.
static inline unsigned __activemask() { return 1u << cuda_emulator::current->lane; }

static inline void cuda_fence() {
    cuda_emulator::note_fence();
    if (cuda_emulator::launch.seed) cuda_emulator::poll(nullptr);
}
static inline void __threadfence() { cuda_fence(); }
static inline void __threadfence_block() { cuda_fence(); }
static inline void __threadfence_system() { cuda_fence(); }
static inline void __nanosleep(unsigned) { cuda_emulator::pause(); }
static inline long long clock64() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}
#define clock clock_of_cuda
static inline int clock_of_cuda() { return int(clock64()); }
static inline long long globaltimer() { return clock64(); }

// ---------------------------------------------------------------- memory

template <class T> static inline T __ldg(const T* address) { return *address; }
template <class T> static inline T __ldcs(const T* address) { return *address; }
template <class T> static inline T __ldca(const T* address) { return *address; }
// Accesses here are told to the checks by name; the compiler does not tell them again.
#define CUDA_UNCHECKED __attribute__((noinline, no_sanitize("thread")))
#ifndef CUDA_EMULATOR_CHECKED
#undef CUDA_UNCHECKED
#define CUDA_UNCHECKED inline
#endif
#define CUDA_TELL(address, is_write, kind) \
    cuda_emulator::check_access(address, sizeof *address, is_write, cuda_emulator::Access::kind, __builtin_return_address(0))
template <class T> static CUDA_UNCHECKED T cuda_polled(const T* address) {
    cuda_emulator::poll(address);
    cuda_emulator::note_fence();
    CUDA_TELL(address, false, polled);
    return *const_cast<const volatile T*>(address);
}
template <class T> static inline T cuda_read(const T* address, std::true_type) { return cuda_polled(address); }
template <class T> static CUDA_UNCHECKED T cuda_read(const T* address, std::false_type) {
    cuda_emulator::poll(address);
    cuda_emulator::note_fence();
    CUDA_TELL(address, false, polled);
    return *address;
}
template <class T> static inline T __ldcg(const T* address) { return cuda_read(address, std::is_scalar<T>{}); }
template <class T> static inline T __ldcv(const T* address) { return cuda_read(address, std::is_scalar<T>{}); }
template <class T, class V> static inline void cuda_store(T* address, V value) {
    *address = value;
    cuda_emulator::poll(address, false);
}
template <class T, class V> static inline void __stcg(T* address, V value) { cuda_store(address, value); }
template <class T, class V> static inline void __stcs(T* address, V value) { cuda_store(address, value); }
template <class T, class V> static inline void __stwb(T* address, V value) { cuda_store(address, value); }
template <class T, class V> static inline void __stwt(T* address, V value) { cuda_store(address, value); }

template <class T> static CUDA_UNCHECKED T cuda_exchange(T* address, T value) {
    cuda_emulator::note_fence();
    CUDA_TELL(address, true, atomic);
    const T before = *const_cast<volatile T*>(address);
    *const_cast<volatile T*>(address) = value;
    cuda_emulator::poll(address, std::memcmp(&before, &value, sizeof(T)) == 0);
    return before;
}
// The types that the hardware has each operation for; others do not compile here either.
#define CUDA_ATOMIC(name, type, expression)                         \
    static CUDA_UNCHECKED type name(type* address, type value) {    \
        const type before = *const_cast<volatile type*>(address);   \
        return cuda_exchange(address, static_cast<type>(expression));            \
    }                                                               \
    static inline type name##_block(type* address, type value) { return name(address, value); } \
    static inline type name##_system(type* address, type value) { return name(address, value); }
#define CUDA_ATOMIC_OF_INTEGERS(name, expression)    \
    CUDA_ATOMIC(name, int, expression)               \
    CUDA_ATOMIC(name, unsigned, expression)          \
    CUDA_ATOMIC(name, unsigned long long, expression)
CUDA_ATOMIC_OF_INTEGERS(atomicExch, (void(before), value))
CUDA_ATOMIC(atomicExch, float, (void(before), value))
CUDA_ATOMIC(atomicAdd, int, int(unsigned(before) + unsigned(value)))
CUDA_ATOMIC(atomicAdd, unsigned, before + value)
CUDA_ATOMIC(atomicAdd, unsigned long long, before + value)
CUDA_ATOMIC(atomicAdd, float, before + value)
CUDA_ATOMIC(atomicAdd, double, before + value)
CUDA_ATOMIC(atomicSub, int, int(unsigned(before) - unsigned(value)))
CUDA_ATOMIC(atomicSub, unsigned, before - value)
CUDA_ATOMIC_OF_INTEGERS(atomicMin, value < before ? value : before)
CUDA_ATOMIC(atomicMin, long long, value < before ? value : before)
CUDA_ATOMIC_OF_INTEGERS(atomicMax, value > before ? value : before)
CUDA_ATOMIC(atomicMax, long long, value > before ? value : before)
CUDA_ATOMIC_OF_INTEGERS(atomicAnd, before & value)
CUDA_ATOMIC_OF_INTEGERS(atomicOr, before | value)
CUDA_ATOMIC_OF_INTEGERS(atomicXor, before ^ value)
CUDA_ATOMIC(atomicInc, unsigned, before >= value ? 0 : before + 1)
CUDA_ATOMIC(atomicDec, unsigned, before == 0 || before > value ? value : before - 1)
#define CUDA_ATOMIC_CAS(type)                                             \
    static CUDA_UNCHECKED type atomicCAS(type* address, type wanted, type value) { \
        const type before = *const_cast<volatile type*>(address);         \
        return cuda_exchange(address, before == wanted ? value : before); \
    }
CUDA_ATOMIC_CAS(int)
CUDA_ATOMIC_CAS(unsigned)
CUDA_ATOMIC_CAS(unsigned long long)
CUDA_ATOMIC_CAS(unsigned short)

// ---------------------------------------------------------------- integers

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; bit++) reversed |= (x >> bit & 1u) << (31 - bit);
    return reversed;
}
static inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return unsigned(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int place = 0; place < 4; place++) {
        const unsigned which = selector >> (4 * place) & 15u;
        unsigned byte = unsigned(bytes >> (8 * (which & 7))) & 255u;
        if (which & 8) byte = byte & 128u ? 255u : 0u;
        result |= byte << (8 * place);
    }
    return result;
}
static inline int __dp4a(int a, int b, int sum) {
    for (int shift = 0; shift < 32; shift += 8) sum += int((signed char)(a >> shift)) * int((signed char)(b >> shift));
    return sum;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int shift = 0; shift < 32; shift += 8) sum += (a >> shift & 255u) * (b >> shift & 255u);
    return sum;
}

// The common type of the two, as CUDA's overloads have it.
template <class A, class B>
static constexpr inline std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point<T>::value) return std::fmin(T(a), T(b));
    else return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
static constexpr inline std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point<T>::value) return std::fmax(T(a), T(b));
    else return T(a) < T(b) ? T(b) : T(a);
}
using std::abs;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;
static inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
static inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
static inline long long llmin(long long a, long long b) { return min(a, b); }
static inline long long llmax(long long a, long long b) { return max(a, b); }

// ---------------------------------------------------------------- floating point

#define CUDA_ROUNDED(type, prefix, suffix)                                                        \
    static inline type __##prefix##add_rn(type a, type b) { return a + b; }                       \
    static inline type __##prefix##sub_rn(type a, type b) { return a - b; }                       \
    static inline type __##prefix##mul_rn(type a, type b) { return a * b; }                       \
    static inline type __##prefix##div_rn(type a, type b) { return a / b; }                       \
    static inline type __##prefix##rcp_rn(type a) { return type(1) / a; }                         \
    static inline type __##prefix##sqrt_rn(type a) { return __builtin_sqrt##suffix(a); }
CUDA_ROUNDED(double, d, )
CUDA_ROUNDED(float, f, f)
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline double rsqrt(double a) { return 1.0 / __builtin_sqrt(a); }
static inline float rsqrtf(float a) { return 1.0f / __builtin_sqrtf(a); }
static inline float __saturatef(float a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; }

#define CUDA_BITS(name, from, to) \
    static inline to name(from value) { to bits; static_assert(sizeof bits == sizeof value, ""); std::memcpy(&bits, &value, sizeof bits); return bits; }
CUDA_BITS(__double_as_longlong, double, long long)
CUDA_BITS(__longlong_as_double, long long, double)
CUDA_BITS(__float_as_int, float, int)
CUDA_BITS(__float_as_uint, float, unsigned)
CUDA_BITS(__int_as_float, int, float)
CUDA_BITS(__uint_as_float, unsigned, float)
static inline int __double2hiint(double value) { return int(__double_as_longlong(value) >> 32); }
static inline int __double2loint(double value) { return int(__double_as_longlong(value)); }
static inline double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)unsigned(high) << 32 | unsigned(low)));
}

// Conversions to integers saturate, and NaN gives 0 (for 64 bits the smallest number), as the hardware's do.
template <class T>
static inline T cuda_saturated(double value, T of_nan) {
    if (value != value) return of_nan;
    const T least = T(1) << (sizeof(T) * 8 - 1), most = ~least;
    const bool has_sign = T(-1) < T(0);
    const T low = has_sign ? least : T(0), high = has_sign ? most : T(-1);
    if (value <= double(low)) return low;
    if (value >= double(high)) return high;
    return T(value);
}
#define CUDA_TO_INTEGER(name, type, of_nan)                                                                              \
    static inline type __double2##name##_rn(double value) { return cuda_saturated<type>(__builtin_nearbyint(value), of_nan); } \
    static inline type __double2##name##_rz(double value) { return cuda_saturated<type>(__builtin_trunc(value), of_nan); }     \
    static inline type __double2##name##_rd(double value) { return cuda_saturated<type>(__builtin_floor(value), of_nan); }     \
    static inline type __double2##name##_ru(double value) { return cuda_saturated<type>(__builtin_ceil(value), of_nan); }      \
    static inline type __float2##name##_rn(float value) { return __double2##name##_rn(value); }                          \
    static inline type __float2##name##_rz(float value) { return __double2##name##_rz(value); }                          \
    static inline type __float2##name##_rd(float value) { return __double2##name##_rd(value); }                          \
    static inline type __float2##name##_ru(float value) { return __double2##name##_ru(value); }
CUDA_TO_INTEGER(int, int, 0)
CUDA_TO_INTEGER(uint, unsigned, 0u)
CUDA_TO_INTEGER(ll, long long, LLONG_MIN)
CUDA_TO_INTEGER(ull, unsigned long long, 1ull << 63)
#define CUDA_FROM_INTEGER(name, type)                                        \
    static inline double __##name##2double_rn(type value) { return double(value); } \
    static inline float __##name##2float_rn(type value) { return float(value); }
CUDA_FROM_INTEGER(int, int)
CUDA_FROM_INTEGER(uint, unsigned)
CUDA_FROM_INTEGER(ll, long long)
CUDA_FROM_INTEGER(ull, unsigned long long)
static inline float __double2float_rn(double value) { return float(value); }

// ---------------------------------------------------------------- assembler that kernels need and C++ has no words for

namespace cuda_emulator {
template <class T, class A> static inline void assembler_load(T& value, A address) {
    value = __ldcg(reinterpret_cast<const T*>(address));
}
template <class T, class A> static inline void assembler_store(A address, T value) { cuda_store(reinterpret_cast<T*>(address), value); }
template <class T, class A> static inline void assembler_add(A address, T value) { atomicAdd(reinterpret_cast<T*>(address), value); }
template <class T, class A> static inline void assembler_fetch_add(T& before, A address, T value) {
    before = atomicAdd(reinterpret_cast<T*>(address), value);
}
}  // namespace cuda_emulator
