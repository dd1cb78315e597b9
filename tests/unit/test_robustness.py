"""The attacks of ``benchmarks/robustness.py`` at small counts, and what holds in forked children."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import signal
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from benchmarks import attacking, robustness  # noqa: F401 - the second adds the rows
from rankwood._core.threads import lazy
from rankwood.experiments.store import RunFolder
from rankwood.rankers.save import estimators

pytestmark = pytest.mark.jit_only

QUICK = {"files": 40, "lines": 2000, "kills": 2, "signals": 1, "threads": 64, "forks": 20}


@pytest.mark.slow
@pytest.mark.parametrize("name", attacking.ROWS)
def test_an_attack_leaves_nothing_bad(name, tmp_path, monkeypatch):
    attack = attacking.Attack(QUICK, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in the benchmark: a warning is no outcome
        attacking.ROWS[name](attack)
    assert attack.figures
    assert attacking.n_bad(attack.figures) == 0, attack.figures


def test_an_attack_goes_on_from_what_is_kept(tmp_path):
    seen, path = [], tmp_path / "kept.json"

    def attempt(seed):
        seen.append(seed)
        return "same" if seed < 300 else "other bytes"

    for count in (250, 320):
        kept = attacking.Kept(path)
        figures = kept.rows.get("row", {})
        attack = attacking.Attack(
            {}, tmp_path, figures, lambda now, kept=kept: kept.keep("row", now)
        )
        attack.here("part", count, attempt)
    assert seen == list(range(320))
    part = attacking.Kept(path).rows["row"]["part"]
    assert part["outcomes"] == {"same": 300, "other bytes": 20}
    assert part["bad"] == {"other bytes": 20}
    with pytest.raises(attacking.OutOfTime, match="minutes are over"):
        attacking.Attack({}, tmp_path, until=0.0).here("part", 1, attempt)


def test_a_case_that_takes_much_memory_says_so():
    def attempt(case):
        return "same" if np.ones(case << 17).sum() else ""  # that many MiB

    figures = attacking.in_children([1, 1, 100], attempt)
    assert figures["outcomes"]["same"] == 2
    assert [told.partition(":")[0] for told in figures["bad"]] == ["memory"]


def test_a_row_that_finds_something_bad_says_so():
    def attempt(case):
        if case == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if case == 2:
            time.sleep(60)
        if case == 3:
            raise ZeroDivisionError
        return "same"

    figures = attacking.in_children(range(5), attempt, seconds=1.0)
    assert figures["outcomes"] == {
        "same": 2,
        f"signal {signal.SIGKILL}": 1,
        "hang": 1,
        "escaped: ZeroDivisionError": 1,
    }
    assert attacking.n_bad({"part": figures}) == 3


def in_child(work):
    """The exit code of a forked child that does ``work``; -9 if it hangs."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


def test_a_disk_that_is_full_when_a_run_is_locked_is_named(tmp_path):
    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        try:
            with RunFolder(tmp_path).locked():
                os._exit(1)
        except rw.errors.RunError as error:
            os._exit(0 if str(error).startswith(f"{tmp_path}/lock cannot be written") else 2)

    assert in_child(work) == 0


class Slow:
    """Something that takes a moment to compute."""

    def __init__(self):
        self.begun, self.end = threading.Event(), threading.Event()

    @lazy
    def value(self):
        """A value."""
        self.begun.set()
        self.end.wait(10)
        return object()


def test_a_child_forked_while_a_property_is_computed_does_not_wait_for_it():
    busy, other = Slow(), Slow()
    thread = threading.Thread(target=lambda: busy.value)
    thread.start()
    busy.begun.wait(10)
    other.end.set()
    try:
        # functools.cached_property of Python 3.11 has one lock for all objects of the class.
        assert in_child(lambda: other.value) == 0
    finally:
        busy.end.set()
        thread.join()


def test_a_lazy_property_is_computed_once_and_kept():
    one = Slow()
    one.end.set()
    assert one.value is one.value
    assert "value" in vars(one)
    assert Slow.value.__doc__ == "A value."


def test_no_property_of_the_package_holds_a_lock():
    files = Path(rw.__file__).parent.rglob("*.py")
    assert [path for path in files if "@functools.cached_property" in path.read_text()] == []


def _fit(data):
    return rw.GBRT(2, min_leaf=2, n_threads=2).fit(data).predict(data).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_children_of_every_kind_fit_and_score(method):
    data = rw.make_ranking(10, 8, 4, seed=1)
    expected = _fit(data)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_fit, [data] * 4) == [expected] * 4


@pytest.mark.slow
def test_loky_fits_and_scores():
    from joblib import Parallel, delayed

    data = rw.make_ranking(10, 8, 4, seed=1)
    assert Parallel(2)(delayed(_fit)(data) for _ in range(4)) == [_fit(data)] * 4


WHOLE = [
    (name, parameter)
    for name, kind in estimators().items()
    if name not in ("AutoRanker", "MLPRanker")
    for parameter, declared in kind._parameters.items()
    if type(declared.default) is int or parameter in ("max_leaves", "max_depth", "early_stopping")
]


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint16, np.uint64])
def test_a_number_of_numpy_becomes_pythons_where_parameters_are_checked(kind):
    for name, parameter in WHOLE:
        model = estimators()[name]()
        given = kind(3)
        model.set_params(**{parameter: given})
        assert (
            model.get_params(deep=False)[parameter] is given
        )  # the constructor's part is not ours
        try:
            model._check_parameters()
        except rw.errors.ParameterError:
            continue  # of rules about several parameters
        assert type(model.get_params(deep=False)[parameter]) is int, (name, parameter)


@pytest.mark.parametrize(
    "options",
    [
        {"max_leaves": np.uint16(40_000)},
        {"max_leaves": np.int16(20)},
        {"min_leaf": np.uint8(3)},
        {"max_depth": np.uint8(3)},
        {"features_per_node": np.float32(0.5)},
        {"n_trees": np.int32(3)},
    ],
)
def test_such_numbers_give_the_same_model(options):
    data = rw.make_ranking(20, 10, 6, seed=1)
    plain = {name: value.item() for name, value in options.items()}
    base = {"n_trees": 3, "min_leaf": 2}
    one = rw.LambdaMART(**base | options).fit(data)
    assert pickle.dumps(one.forest_) == pickle.dumps(
        rw.LambdaMART(**base | plain).fit(data).forest_
    )


def test_early_stopping_of_numpy_stops():
    """It was no int to ``isinstance``, and rounds without improvement were never counted."""
    data, valid = rw.make_ranking(20, 10, 6, seed=1), rw.make_ranking(10, 10, 6, seed=2)
    options = {"n_trees": 60, "learning_rate": 0.9, "min_leaf": 2}
    one = rw.GBRT(early_stopping=np.int64(2), **options).fit(data, valid=valid)
    assert len(one.history_) == len(
        rw.GBRT(early_stopping=2, **options).fit(data, valid=valid).history_
    )
    assert len(one.history_) < 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"min_leaf": 2**63},
            "min_leaf must be a whole number between 1 and 9,007|between 1 and 90071",
        ),
        ({"warm_start": "no"}, "warm_start must be True or False, got 'no'"),
    ],
)
def test_values_that_kernels_cannot_take_are_refused(options, message):
    data = rw.make_ranking(10, 8, 4, seed=1)
    with pytest.raises(rw.errors.ParameterError, match=message):
        rw.GBRT(2, **options).fit(data)


@pytest.mark.parametrize("weight", [1e300, 1e-300])
def test_weights_and_labels_beyond_float64_are_named(weight):
    data = rw.make_ranking(10, 8, 4, seed=1)
    weights = np.ones(data.n_documents)
    weights[3] = weight
    with pytest.raises(rw.errors.DataError, match=r"the weight of row 3 .* is 1e[+-]300"):
        rw.GBRT(2).fit(data, sample_weight=weights)
    with pytest.raises(rw.errors.DataError, match=r"labels\[\d+\] is .*beyond 1e\+110"):
        rw.GBRT(2).fit(data.features, data.labels * 1e200)
