"""The emulator of CUDA against NumPy: each primitive, and each kind of mistake it promises to report."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.cuda.emulator import KernelMistake, emulated_cupy
from tests.cuda.emulator.translating import UnknownAssembler, kernels

SOURCE = Path(__file__).with_name("kernels_of_tests.cu").read_text()


@pytest.fixture
def module(cupy):
    return load(cupy)


def load(cupy, **named):
    options = ("--std=c++17", "--fmad=false", "-D", "SCALE=2.0f")
    return cupy.RawModule(code=SOURCE, options=options, name_expressions=("multiply<3>",), **named)


def test_vectors_are_added(cupy, module, rng):
    a, b = rng.normal(size=(2, 1000)).astype(np.float32)
    out = cupy.empty(1000, np.float32)
    module.get_function("add")(
        (4,), (256,), (cupy.asarray(a), cupy.asarray(b), out, np.int32(1000))
    )
    np.testing.assert_array_equal(out.get(), a + b * np.float32(2))


def test_a_block_is_summed_by_shuffles(cupy, module, rng):
    values, whole = rng.normal(size=1000), rng.integers(0, 100, 1000).astype(np.int32)
    sums, total = cupy.empty(4), cupy.zeros(1, np.uint64)
    reduce = module.get_function("reduce")
    reduce((4,), (256,), (cupy.asarray(values), cupy.asarray(whole), sums, total, 1000))
    np.testing.assert_allclose(
        sums.get(), np.add.reduceat(values, np.arange(0, 1000, 256)), rtol=1e-12
    )
    assert int(total[0]) == whole.sum()
    assert reduce.shared_size_bytes >= 32 * 8
    with pytest.raises(RuntimeError, match="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
        reduce((1,), (512,), (cupy.asarray(values), cupy.asarray(whole), sums, total, 1000))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_histogram_in_shared_memory(cupy, module, rng, seed):
    cupy.machine.seed = seed
    codes = rng.integers(0, 256, 3000).astype(np.uint8)
    counts = cupy.zeros(256, np.uint32)
    module.get_function("histogram")(
        (3,), (128,), (cupy.asarray(codes), 3000, counts), shared_mem=1024
    )
    np.testing.assert_array_equal(counts.get(), np.bincount(codes, minlength=256))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_compaction_by_votes(cupy, module, rng, seed):
    cupy.machine.seed = seed
    values = rng.integers(0, 1 << 32, 500).astype(np.uint32)
    out, n_out = cupy.empty_like(cupy.asarray(values)), cupy.zeros(1, np.int32)
    module.get_function("compact")((2,), (256,), (cupy.asarray(values), np.int32(500), out, n_out))
    kept = values[values % 2 == 1]
    assert int(n_out[0]) == kept.size
    np.testing.assert_array_equal(np.sort(out.get()[: kept.size]), np.sort(kept))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_blocks_wait_for_each_other(cupy, seed):
    cupy.machine.seed = seed
    module = load(cupy, enable_cooperative_groups=True)
    values, arrived = cupy.arange(4, dtype=np.int32), cupy.zeros(1, np.uint32)
    module.get_function("pass_round")((4,), (64,), (arrived, values, 3))
    np.testing.assert_array_equal(values.get(), (np.arange(4) + 3) % 4 * 10)
    assert int(arrived[0]) == 4 * 7
    out = cupy.zeros(256, np.int32)
    module.get_function("wait_in_assembler")((4,), (64,), (cupy.zeros(1, np.uint32), out))
    assert int(out.sum()) == 256
    with pytest.raises(RuntimeError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        module.get_function("pass_round")((999,), (64,), (arrived, values, 3))


def test_blocks_that_wait_for_each_other_need_a_cooperative_launch(cupy, module):
    values, arrived = cupy.arange(4, dtype=np.int32), cupy.zeros(1, np.uint32)
    with pytest.raises(KernelMistake, match=r"deadlock: .* 3 blocks have not begun"):
        module.get_function("pass_round")((4,), (64,), (arrived, values, 3))


@pytest.mark.parametrize(
    ("kind", "report"),
    [
        (
            0,
            r"barrier divergence: it .* 32 (other )?threads of its block wait|threads of its block have ended",
        ),
        (1, "barrier divergence: it is at the __syncthreads of line"),
        (
            2,
            "deadlock: .*48 threads at __syncthreads of line .*16 threads in a collective of the warp of line",
        ),
        (3, r"thread \(5, 0, 0\): access to address .*, which is in no array"),
        (4, "mistake wrote beside an array of 1024 bytes"),
        (5, r"thread \(40, 0, 0\): the assertion of line \d+ does not hold: thread < 40"),
        (6, r"thread \(7, 0, 0\): __trap, or something undefined: a misaligned access"),
        (7, "deadlock: .*1 threads polling"),
        (8, "beyond (its|the) 64 bytes of dynamic shared memory"),
        (9, r"thread \(3, 0, 0\): __trap in line"),
        (10, "an integer was divided by zero"),
        (11, "has the mask 0x1, which does not name its own lane 1"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_mistake_is_reported_and_leaves_the_device_usable(cupy, module, kind, report, seed):
    cupy.machine.seed = seed
    out = cupy.zeros(256, np.int32)
    n = 0 if kind == 10 else 256
    with pytest.raises(
        KernelMistake, match=report if not seed or kind not in (5, 11) else "mistake: block"
    ):
        module.get_function("mistake")((1,), (64,), (kind, out, n), shared_mem=64)
    module.get_function("mistake")((1,), (64,), (-1, out, 256))


@pytest.mark.slow
def test_a_loop_that_no_other_thread_can_end_is_ended(cupy, module):
    with pytest.raises(KernelMistake, match="has run for over 2 seconds without giving way"):
        module.get_function("mistake")((1,), (64,), (13, cupy.zeros(1, np.int32), 1))


def test_kernels_print(cupy, module, capfd):
    module.get_function("mistake")((1,), (2,), (14, None, 7))
    assert capfd.readouterr().out == "thread 0 of 7\nthread 1 of 7\n"


def test_kernels_that_were_kept_run_on_the_machine_in_place(module):
    kept = module.get_function("race")
    with emulated_cupy() as other:
        other.machine.checks_accesses = True
        with pytest.raises(KernelMistake, match="race: it writes byte"):
            kept((1,), (128,), (2, 0, other.zeros(128, np.int32)))
        assert other.machine.launches == ["race"]


def test_threads_that_have_ended_may_be_left_out_of_barriers(cupy, module):
    out = cupy.zeros(256, np.int32)
    cupy.machine.is_strict = False
    module.get_function("mistake")((1,), (64,), (0, out, 256))


def test_shared_memory_begins_as_rubbish(cupy, module):
    out = cupy.zeros(64, np.uint32)
    module.get_function("mistake")((1,), (64,), (12, out, 64), shared_mem=256)
    assert (out.get() == 0xA5A5A5A5).all()


def test_a_random_order_finds_a_planted_race(cupy, module):
    right = 3 * (np.arange(128) ^ 96)
    for is_right in (1, 0):
        results = set()
        for seed in range(1, 9):
            cupy.machine.seed = seed
            out = cupy.empty(128, np.int32)
            module.get_function("race")((1,), (128,), (0, is_right, out))
            results.add((out.get() == right).sum())
        assert results == {128} if is_right else len(results) > 1


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", range(6))
def test_a_race_is_reported_whatever_the_order(cupy, kind, seed):
    cupy.machine.seed, cupy.machine.checks_accesses = seed, True
    module = load(cupy, enable_cooperative_groups=True)
    race = module.get_function("race")
    race((2,), (128,), (kind, 1, cupy.zeros(256, np.int32)))
    with pytest.raises(
        KernelMistake,
        match=r"race: it (reads|writes) byte \d+ of .* \(line kernel.cu:\d+\), which thread",
    ):
        race((2,), (128,), (kind, 0, cupy.zeros(256, np.int32)))


def test_checked_accesses_keep_within_arrays(cupy, rng):
    cupy.machine.checks_accesses = True
    module = load(cupy, enable_cooperative_groups=True)
    mistake, out = module.get_function("mistake"), cupy.zeros(255, np.int32)
    for kind, report in [
        (3, "thread (5, 0, 0): writes byte 1020 of an array of 1020 bytes (line kernel.cu:"),
        (4, "thread (0, 0, 0): writes byte -4 of an array of 1020 bytes (line kernel.cu:"),
        (
            8,
            "thread (16, 0, 0): writes byte 64 of 64 bytes of dynamic shared memory (line kernel.cu:",
        ),
    ]:
        with pytest.raises(KernelMistake, match=re.escape(report)):
            mistake((1,), (64,), (kind, out, 255), shared_mem=64)
    # Nothing is found where nothing is wrong.
    sums, total = cupy.empty(4), cupy.zeros(1, np.uint64)
    arguments = (cupy.ones(1000), cupy.ones(1000, np.int32), sums, total, 1000)
    module.get_function("reduce")((4,), (256,), arguments)
    values, arrived = cupy.arange(4, dtype=np.int32), cupy.zeros(1, np.uint32)
    module.get_function("pass_round")((4,), (64,), (arrived, values, 3))
    assert values.get().tolist() == [30, 0, 10, 20]


def test_functions_of_single_numbers(cupy, module, rng):
    words = np.r_[0, 1, 2**31, 2**32 - 1, rng.integers(0, 1 << 32, 60)].astype(np.uint32)
    numbers = np.r_[0.0, -0.5, 2.5, 1e10, rng.normal(0, 1e5, 60)]
    out, results = cupy.empty((64, 12), np.uint64), cupy.empty((64, 6))
    module.get_function("functions")(
        (1,), (96,), (cupy.asarray(words), cupy.asarray(numbers), out, results, 64)
    )
    for x, a, row in zip(words.tolist(), numbers.tolist(), out.get().tolist(), strict=True):
        wide = x * 0x9E3779B97F4A7C15 % 2**64
        signed = x - 2**32 if x >= 2**31 else x
        assert row[:7] == [
            x.bit_count(),
            wide.bit_count(),
            (x & -x).bit_length(),
            32 - x.bit_length(),
            int(f"{x:032b}"[::-1], 2),
            x * 0x9E3779B1 >> 32,
            wide * wide >> 64,
        ]
        assert row[7] == np.float64(a).view(np.uint64)
        assert row[8] == round(a) % 2**64
        assert row[9] == int(np.clip(np.trunc(a), -(2**31), 2**31 - 1)) % 2**64
        assert row[10:] == [
            max(min(x, 100), 7),
            abs(signed) % 2**64 if signed != -(2**31) else 2**64 - 2**31,
        ]
    got = results.get()
    bits = numbers.view(np.int64).astype(float)
    expected = [numbers + 0.1, numbers * numbers - 0.1, numbers / 3, np.sqrt(abs(numbers))]
    np.testing.assert_array_equal(got[:, [0, 1, 2, 3, 5]], np.transpose([*expected, bits]))
    np.testing.assert_allclose(got[:, 4], numbers * numbers - numbers, rtol=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_what_lanes_do_together(cupy, module, rng, seed):
    cupy.machine.seed = seed
    values = rng.integers(0, 7, 96).astype(np.int32)
    out = cupy.empty((96, 10), np.int32)
    module.get_function("lanes")((1,), (96,), (cupy.asarray(values), out))
    for thread, row in enumerate(out.get().tolist()):
        lane, warp = thread % 32, values[thread // 32 * 32 :][:32]
        segment = lane - lane % 8
        equal = sum(1 << other for other in range(32) if warp[other] == warp[lane])
        assert row == [
            warp[lane - 3] if lane >= 3 else warp[lane],
            warp[lane + 3] if lane + 3 < segment + 8 else warp[lane],
            warp[segment + 1],
            warp[lane ^ 5],
            int((warp == 3).any()) + 2,
            np.uint32(equal).view(np.int32),
            warp.min(),
            (values > 2).sum(),
            2,
            warp[7] if lane < 8 else -1,
        ]


def test_constants_and_templates(cupy, module):
    where = module.get_global("table")
    np.ctypeslib.as_array((np.ctypeslib.ctypes.c_int * 4).from_address(where.ptr))[:] = [3, 1, 4, 1]
    out = cupy.empty(8, np.int32)
    module.get_function("look_up")((1,), (8,), (out,))
    module.get_function("multiply<3>")((1,), (8,), (out,))
    assert out.get().tolist() == [9, 3, 12, 3] * 2


def test_memory_runs_out_and_comes_back(cupy):
    cupy.machine.memory = 1 << 20
    half = cupy.zeros(1 << 19, np.uint8)
    free, total = cupy.cuda.runtime.memGetInfo()
    assert (free, total) == (1 << 19, 1 << 20)
    with pytest.raises(
        cupy.cuda.memory.OutOfMemoryError, match="Out of memory allocating 1,000,000 bytes"
    ):
        cupy.empty(1_000_000, np.uint8)
    view = half[1:]
    del half
    assert cupy.cuda.runtime.memGetInfo()[0] == 1 << 19
    del view
    cupy.get_default_memory_pool().free_all_blocks()
    assert cupy.cuda.runtime.memGetInfo()[0] == 1 << 20


def test_arrays_keep_out_of_numpy(cupy):
    there = cupy.arange(6, dtype=np.int32).reshape(2, 3)
    with pytest.raises(TypeError, match="Implicit conversion to a NumPy array is not allowed"):
        np.asarray(there)
    with pytest.raises(TypeError, match="Unsupported type"):
        there + np.ones(3)
    with pytest.raises(TypeError, match="Unsupported type"):
        np.ones(3) + there
    assert ((there[:, 1] << 2) + 1).get().tolist() == [5, 17]
    there[1] = 9
    assert cupy.asnumpy(there).tolist() == [[0, 1, 2], [9, 9, 9]]
    assert there[1].data.ptr == there.data.ptr + 12
    there.set(np.zeros((2, 3), np.int32))
    assert int(there.sum()) == 0
    with pytest.raises(TypeError, match="int32 array cannot be set to float64 array"):
        there.set(np.zeros((2, 3)))


def test_arguments_are_checked(cupy, module):
    out = cupy.empty(8, np.int32)
    mistake = module.get_function("mistake")
    with pytest.raises(KernelMistake, match="mistake takes 3 arguments and was given 2"):
        mistake((1,), (8,), (0, out))
    with pytest.raises(
        KernelMistake, match="argument 2 of mistake is an integer of 4 bytes, and int64 of 8 bytes"
    ):
        mistake((1,), (8,), (-1, out, np.int64(8)))
    with pytest.raises(
        KernelMistake, match="argument 0 of mistake is an integer of 4 bytes, and float"
    ):
        mistake((1,), (8,), (1.0, out, 8))
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        mistake((1,), (2048,), (-1, out, 8))
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        mistake((1,), (8,), (-1, out, 8), shared_mem=100_000)
    mistake.max_dynamic_shared_size_bytes = 100_000
    mistake((1,), (8,), (-1, out, 8), shared_mem=100_000)
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        mistake.max_dynamic_shared_size_bytes = 300_000
    with pytest.raises(RuntimeError, match="CUDA_ERROR_NOT_FOUND"):
        module.get_function("nothing")


def test_sources_that_do_not_compile(cupy):
    with pytest.raises(cupy.cuda.compiler.CompileException, match="unknown"):
        cupy.RawModule(code='extern "C" __global__ void f() { unknown(); }').compile()
    with pytest.raises(cupy.cuda.compiler.CompileException, match="unrecognized option --nonsense"):
        cupy.RawModule(code="", options=("--nonsense",)).compile()
    with pytest.raises(UnknownAssembler, match=r"assembler 'wgmma\.mma_async' is not known"):
        cupy.RawModule(code='__device__ void f() { asm volatile("wgmma.mma_async;"); }').compile()


def test_kernels_are_found_however_they_are_declared():
    found = kernels(
        'extern "C" __global__ void first(int* a) {}\n'
        'extern "C" __global__ void __launch_bounds__(256, (1 + 1)) second(int a) {}\n'
        'extern "C" __launch_bounds__(N * 32) __global__ void third(int a) {}\n'
        'extern "C" __device__ void none(int a) {}\n'
        "__global__ void mangled(int a) {}\n"
        'extern "C" { void none() {} __global__ void fourth(int a); }'
    )
    assert found == {"first": "", "second": "256", "third": "N * 32", "fourth": ""}


def test_devices(cupy):
    cupy.machine.n_devices = 2
    assert cupy.cuda.runtime.getDeviceCount() == 2
    with cupy.cuda.Device(1) as device:
        there = cupy.zeros(3)
        assert cupy.cuda.Device() == device == there.device
        assert device.attributes["MaxSharedMemoryPerBlockOptin"] == 232_448
        device.synchronize()
    assert cupy.zeros(3).device.id == 0
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="invalid device ordinal"):
        cupy.cuda.Device(2).use()
    cupy.machine.n_devices = 0
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="no CUDA-capable device"):
        cupy.cuda.runtime.getDeviceCount()
    assert cupy.cuda.get_elapsed_time(cupy.cuda.Event(), cupy.cuda.Event()) == 0
    cupy.cuda.Stream.null.synchronize()


def test_what_a_stream_is_given_waits_for_the_host(cupy, module):
    """A host that changes or reads memory before it has waited finds it out."""
    stream, host = cupy.cuda.Stream(), np.ones(4, np.float32)
    a, b, out = cupy.zeros(4, np.float32), cupy.zeros(4, np.float32), cupy.zeros(4, np.float32)
    found = np.zeros(4, np.float32)
    a.set(host, stream=stream)
    with stream:
        module.get_function("add")((1,), (4,), (a, b, out, np.int32(4)))
    out.get(stream=stream, out=found, blocking=False)
    assert found.tolist() == [0.0] * 4
    host[:] = 5.0  # too early
    stream.synchronize()
    assert found.tolist() == [5.0] * 4
    assert cupy.cuda.get_current_stream() is cupy.cuda.Stream.null
