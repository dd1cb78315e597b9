"""``check_data``: what of other data is told of, and what is not."""

from __future__ import annotations

import csv
import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.evaluation.drift import stability_index

NAMES = ("bm25", "clicks", "age", "flag")


def documents(seed, n_queries=300, **changes):
    """Documents of queries; ``changes`` are functions of columns by name."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 12, n_queries)
    n_rows = lengths.sum()
    columns = {
        "bm25": rng.gamma(2.0, 3.0, n_rows),
        "clicks": rng.poisson(0.7, n_rows).astype(float),
        "age": rng.normal(0.0, 5.0, n_rows),
        "flag": (rng.random(n_rows) < 0.3).astype(float),
    }
    for name, change in changes.items():
        columns[name] = change(columns[name], rng)
    labels = rng.choice(3, n_rows, p=(0.6, 0.3, 0.1))
    features = np.stack(list(columns.values()), axis=1)
    ids = np.repeat(np.arange(n_queries), lengths)
    return rw.RankingData(features, labels, ids, feature_names=tuple(columns))


@pytest.fixture(scope="module")
def model():
    return rw.RandomForest(n_trees=2, max_leaves=8).fit(documents(1))


def kinds(found):
    return [(finding.about, finding.kind) for finding in found.findings]


def test_the_training_data_themselves_have_not_changed(model):
    found = rw.check_data(model, documents(1))
    assert not found.has_drift
    assert [shift.psi for shift in found.shifts] == [0.0] * 4
    assert all(shift.outside[0] == shift.outside[1] for shift in found.shifts)


@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("n_queries", [8, 40, 300])
def test_other_data_of_the_same_kind_are_no_finding(model, seed, n_queries):
    assert rw.check_data(model, documents(seed, n_queries)).findings == ()


def _emptied(column, rng):
    return np.where(rng.random(column.size) < 0.3, np.nan, column)


@pytest.mark.parametrize(
    ("name", "change", "kind", "said"),
    [
        ("bm25", lambda x, _: x * 3, "distribution", "'bm25': the stability index is"),
        ("age", lambda x, _: x + 4, "distribution", "the median was"),
        ("flag", lambda x, _: 1 - x, "distribution", "the median was – and is 1"),
        ("clicks", lambda x, _: x + 1, "distribution", "'clicks'"),
        ("age", _emptied, "missing values", "of the values are missing; 0.0% were"),
        ("bm25", lambda x, rng: np.where(rng.random(x.size) < 0.2, 1e4, x), "range", "above"),
        ("age", lambda x, rng: np.where(rng.random(x.size) < 0.2, -1e4, x), "range", "up to"),
    ],
)
def test_a_change_of_one_feature_is_told_with_its_numbers(model, name, change, kind, said):
    found = rw.check_data(model, documents(2, **{name: change}))
    assert {about for about, _ in kinds(found)} == {name}
    finding = next(each for each in found.findings if each.kind == kind)
    assert said in finding.message
    assert name in finding.message
    if kind != "distribution":
        assert finding.now > finding.then + finding.limit
        assert f"{finding.now:.1%}" in finding.message
    else:
        assert finding.now > finding.limit


def test_limits_say_what_is_a_finding(model):
    moved = documents(2, age=lambda x, _: x + 4)
    psi = max(shift.psi for shift in rw.check_data(model, moved).shifts)
    assert rw.check_data(model, moved, psi=psi + 0.01).findings == ()
    assert kinds(rw.check_data(model, moved, psi=psi - 0.01)) == [("age", "distribution")]
    emptied = documents(2, age=_emptied)
    assert rw.check_data(model, emptied, missing=0.5).findings == ()
    far = documents(2, bm25=lambda x, rng: np.where(rng.random(x.size) < 0.08, 1e4, x))
    assert kinds(rw.check_data(model, far)) == [("bm25", "range")]
    assert rw.check_data(model, far, outside=0.2).findings == ()


def test_values_that_went_missing_altogether(model):
    found = rw.check_data(model, documents(2, age=lambda x, _: np.full(x.size, np.nan)))
    assert kinds(found) == [("age", "missing values")]
    assert found.shifts[2].now.median is None


def test_a_bin_of_many_values_is_no_tail(model):
    far = documents(2, clicks=lambda x, rng: np.where(rng.random(x.size) < 0.15, 50.0, x))
    found = rw.check_data(model, far)
    finding = next(each for each in found.findings if each.kind == "range")
    assert "'clicks':" in finding.message
    assert "of the values are above " in finding.message
    assert "up to" not in finding.message  # about half of the values are 0
    assert finding.now == pytest.approx((far.features[:, 1] == 50.0).mean(), abs=0.002)


def test_columns_are_found_by_their_names(model):
    data = documents(2)
    order = [3, 0, 1]
    fewer = rw.RankingData(
        np.column_stack([data.features[:, order], np.ones(len(data))]),
        data.labels,
        data.query_ids,
        feature_names=(*(NAMES[number] for number in order), "new"),
    )
    found = rw.check_data(model, fewer)
    assert kinds(found) == [("age", "column")]
    assert "'age' is not among the columns" in found.findings[0].message
    assert found.new_columns == ("new",)
    assert [shift.name for shift in found.shifts] == ["bm25", "clicks", "flag"]
    by_place = dataclasses.replace(data, features=data.features[:, :3], feature_names=None)
    assert kinds(rw.check_data(model, by_place)) == [("flag", "column")]
    wider = np.column_stack([data.features, data.features])
    unnamed = dataclasses.replace(data, features=wider, feature_names=None)
    found = rw.check_data(model, unnamed)
    assert (found.findings, found.new_columns) == ((), ("5", "6", "7", "8"))


def test_labels_and_lengths_of_queries_are_compared(model):
    data = documents(2)
    judged = dataclasses.replace(data, labels=np.where(data.labels == 0, 1, data.labels))
    assert kinds(rw.check_data(model, judged)) == [("labels", "distribution")]
    assert rw.check_data(model, judged, labels=False).findings == ()
    short = dataclasses.replace(data, query_ids=np.arange(len(data)) // 2)
    found = rw.check_data(model, short)
    assert kinds(found) == [("query lengths", "distribution")]
    assert found.findings[0].message.startswith("query lengths: the stability index")
    without = dataclasses.replace(data, query_ids=None)
    assert rw.check_data(model, without).queries == (300, None)


def test_rankers_without_bins_and_with_folders_are_checked_too(tmp_path):
    train = documents(1)
    for ranker in (rw.RankSVM(), rw.DeepForest(n_forests=2, n_trees=2, max_layers=1)):
        rw.save(ranker.fit(train), tmp_path / "model")
        back = rw.load(tmp_path / "model")
        assert rw.check_data(back, documents(2)).findings == ()
        assert kinds(rw.check_data(back, documents(2, age=lambda x, _: x + 4))) == [
            ("age", "distribution")
        ]


def test_what_cannot_be_compared_is_refused(model, tmp_path):
    data = documents(2, 20)
    old = rw.RandomForest(n_trees=1).fit(data)
    rw.write_letor(data, tmp_path / "data.txt")
    folder = rw.bin_files(tmp_path / "data.txt", tmp_path / "binned")
    with pytest.raises(DataError, match="must be RankingData, got ndarray"):
        rw.check_data(model, data.features)
    with pytest.raises(DataError, match="there are no rows"):
        rw.check_data(model, data.take_rows([]))
    with pytest.raises(DataError, match="binned"):
        rw.check_data(model, folder.data)
    with pytest.raises(ParameterError, match=r"psi must be in \[0, inf\)"):
        rw.check_data(model, data, psi=-1)
    with pytest.raises(ParameterError, match=r"missing must be in \[0, 1\]"):
        rw.check_data(model, data, missing=2)
    with pytest.raises(ModelError, match=r"Forest has no record .* Fit a ranker and save that"):
        rw.check_data(model.forest_, data)
    with pytest.raises(ModelError, match=r"RankSVM has no record .* it is not fitted"):
        rw.check_data(rw.RankSVM(), data)
    del old.training_["statistics"]
    with pytest.raises(ModelError, match="at most 10,000 features"):
        rw.check_data(old, data)
    del old.training_["data_digest"]
    with pytest.raises(ModelError, match="Fit it again with this version"):
        rw.check_data(old, data)
    narrow = rw.RandomForest(n_trees=1).fit(data)
    for column in narrow.training_["statistics"]["features"].values():
        column.pop()
    with pytest.raises(ModelError, match="damaged"):
        rw.check_data(narrow, data)
    narrow.training_ = {**model.training_, "queries": "many"}
    with pytest.raises(ModelError, match="damaged"):
        rw.check_data(narrow, data)


def test_a_check_is_shown_as_text_csv_json_and_a_page(model, tmp_path):
    found = rw.check_data(
        model, documents(2, bm25=lambda x, _: x * 3).take_rows(np.arange(1500))
    ).with_new_columns(["<new>"])
    text = str(found)
    assert "'bm25': the stability index is" in text
    assert "not known to the model: <new>" in text
    assert "of 300 queries then" in text
    found.write_csv(tmp_path / "check.csv")
    with open(tmp_path / "check.csv", newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert set(rows) == {*NAMES, "labels", "query lengths"}
    assert "distribution" in rows["bm25"]["findings"]
    assert float(rows["bm25"]["psi"]) == found.shifts[0].psi
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["drift"] is True
    assert plain["findings"][0]["about"] == "bm25"
    assert plain["new_columns"] == ["<new>"]
    found.write_html(tmp_path / "check.html")
    page = (tmp_path / "check.html").read_text()
    assert page.count("<figure>") == 1
    assert "&lt;new&gt;" in page
    assert "<new>" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    same = rw.check_data(model, documents(1))
    same.write_html(tmp_path / "same.html")
    assert "Nothing has changed." in (tmp_path / "same.html").read_text()
    assert "no drift" in str(same)


def test_missing_columns_stand_in_every_form(model, tmp_path):
    data = documents(2)
    found = rw.check_data(
        model, dataclasses.replace(data, features=data.features[:, :1], feature_names=("bm25",))
    )
    assert [finding.about for finding in found.findings] == ["clicks", "age", "flag"]
    found.write_csv(tmp_path / "check.csv")
    assert "clicks,,,,,,,,,column" in (tmp_path / "check.csv").read_text()
    found.write_html(tmp_path / "check.html")
    assert "3 columns changed." in (tmp_path / "check.html").read_text()
    assert "–" in str(found)


def test_few_queries_have_a_wider_limit(model):
    few, many = (rw.check_data(model, documents(2, n)).shifts[0].limit for n in (10, 3000))
    assert few > 1.0
    assert many == 0.2
    equal = dataclasses.replace(documents(1), features=np.ones((len(documents(1)), 4)))
    constant = rw.RandomForest(n_trees=1).fit(equal)
    found = rw.check_data(constant, documents(2))
    assert [shift.limit for shift in found.shifts] == [None] * 4
    assert not found.has_drift
    json.dumps(found.to_dict(), allow_nan=False)


def test_many_features_are_cut_short_in_print():
    data = rw.make_ranking(60, 8, 30, seed=1)
    found = rw.check_data(rw.RandomForest(n_trees=1).fit(data), data)
    assert "without 10 more stable features" in str(found)
    more = found.with_new_columns([f"column {number}" for number in range(25)])
    assert "and 5 more" in str(more)


# The index.


def test_the_index_is_that_of_the_definition():
    # p = (0.5, 0.5), q = (0.9, 0.1): 0.4 · ln 1.8 - 0.4 · ln 0.2 = 0.4 · ln 9
    assert stability_index([500_000, 500_000], [900_000, 100_000]) == pytest.approx(
        0.4 * math.log(9), rel=1e-5
    )
    assert stability_index([0, 0], [3, 4]) == 0.0
    assert stability_index([3, 4], [0, 0]) == 0.0


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=10))
def test_the_index_is_never_negative_and_has_no_direction(pairs):
    one, other = zip(*pairs, strict=True)
    index = stability_index(one, other)
    assert index >= -1e-12
    assert index == pytest.approx(stability_index(other, one))
    assert stability_index(one, one) == 0.0
