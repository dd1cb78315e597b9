"""Shared by all tests: kernels are compiled once, before the workers start; caches go to a folder of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from rankwood._core.files import user_cache_folder

settings.register_profile(
    "rankwood",
    max_examples=25,
    deadline=None,  # the machine is shared: a slow example says nothing
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("rankwood")

# One place for the kernels of all processes, those that tests start included: it is not moved with RANKWOOD_CACHE_DIR.
os.environ.setdefault("NUMBA_CACHE_DIR", str(user_cache_folder() / "tests"))

IS_COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
LONGEST = "test_the_kernels_are_legal_python"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not IS_COMPILED and item.get_closest_marker("jit_only"):
        pytest.skip("only compiled kernels finish this in time")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test comes first: at the end, one worker would run it and the others would wait."""
    items.sort(key=lambda item: item.name != LONGEST)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile every kernel into the cache on disk while there is one process, not one per worker."""
    is_worker = hasattr(session.config, "workerinput")
    if not is_worker and IS_COMPILED:
        from rankwood.studies.warm_up import warm_up

        warm_up()


@pytest.fixture(autouse=True)
def _no_shared_data_cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsed files are cached in a folder of the test's own; compiled kernels stay where they are."""
    monkeypatch.setenv("RANKWOOD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_260)


@pytest.fixture
def run_check(request: pytest.FixtureRequest):
    """Run a check of scikit-learn. One that is expected to fail does so without a traceback, which nobody reads.

    pytest would parse scikit-learn's long file of checks anew for each of them: a quarter of a second.
    """
    is_expected_to_fail = request.node.get_closest_marker("xfail") is not None

    def run(check, estimator) -> None:
        try:
            check(estimator)
        except Exception as failure:
            if is_expected_to_fail:
                raise failure.with_traceback(None) from None
            raise

    return run


@pytest.fixture(scope="session")
def collections() -> Path:
    """The folder of real collections, or a skip."""
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder:
        pytest.skip("RANKWOOD_DATA is not set: no real collections here")
    return Path(folder)


@pytest.fixture(scope="session")
def mq2008(collections: Path) -> Path:
    folder = collections / "MQ2008"
    if not folder.is_dir():
        pytest.skip("RANKWOOD_DATA holds no MQ2008")
    return folder


def distinct_signatures(kernel) -> set[str]:
    """The types a kernel was compiled for; a constant passed by another kernel counts as its type."""
    from numba.core.types import unliteral

    return {
        str([unliteral(kind) for kind in signature])
        for signature in getattr(kernel, "signatures", ())
    }


@pytest.fixture(scope="session", autouse=True)
def _one_signature_per_kernel():
    """Whatever the tests passed to the library, no kernel was compiled for a second set of types."""
    yield
    if "rankwood._core.jit" in sys.modules:
        from rankwood._core import jit

        found = {name: distinct_signatures(kernel) for name, kernel in jit.kernels().items()}
        twice = {name: signatures for name, signatures in found.items() if len(signatures) > 1}
        assert not twice, f"compiled more than once: {twice}"
