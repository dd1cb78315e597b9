"""What a fitted ranker, and its file, know of the training data: the same however the rows were held."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwood as rw
from rankwood.errors import ModelError, ParameterError
from rankwood.models.format import load_model, read_model, write_model
from rankwood.training import record
from rankwood.training.record import Spread, as_columns, spreads_of, statistics_in

LESS = {"n_trees": 2, "max_leaves": 4}


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(40, 10, 5, missing=0.1, seed=3)


def of_features(model):
    return statistics_in(model.training_)["features"]


def test_shares_and_counts_are_those_of_the_rows(data):
    for number, spread in enumerate(of_features(rw.RandomForest(**LESS).fit(data))):
        column = data.features[:, number]
        known = column[~np.isnan(column)]
        assert (spread.missing, spread.present) == (column.size - known.size, known.size)
        ends = np.array([-np.inf, *spread.cuts, np.inf], np.float32)
        expected = [int(((known > a) & (known <= b)).sum()) for a, b in itertools.pairwise(ends)]
        assert list(spread.counts) == expected
        assert spread.below == (known <= np.float32(spread.low)).sum()
        assert spread.above == (known > np.float32(spread.high)).sum()
        again = spread.again(column)
        assert (again.counts, again.missing) == (spread.counts, spread.missing)
        assert (again.below, again.above) == (spread.below, spread.above)


def test_whole_numbers_have_their_mean_and_quantiles():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 40, (500, 1)).astype(np.float32)
    data = rw.RankingData(values, rng.integers(0, 3, 500), np.arange(500) // 10)
    (spread,) = of_features(rw.RandomForest(**LESS).fit(data))
    assert spread.mean == pytest.approx(values.mean(), rel=1e-5)
    assert (
        list(spread.quantiles)
        == np.quantile(values, record.QUANTILES, method="inverted_cdf").tolist()
    )
    assert spread.median == np.median(values)
    statistics = statistics_in(rw.RandomForest(**LESS).fit(data).training_)
    assert statistics["labels"][0].mean == pytest.approx(data.labels.mean(), rel=1e-5)
    assert statistics["query_lengths"][0].counts == (50,)


def test_of_features_with_few_bins_the_mean_is_not_known():
    values = np.array([[0, 7], [1, 7]] * 10, np.float32)
    one, other = of_features(rw.RandomForest(**LESS).fit(rw.RankingData(values, np.arange(20) % 3)))
    assert (one.cuts, one.counts, one.mean, one.median) == ((0.5,), (10, 10), None, None)
    assert (other.cuts, other.counts, other.low, other.high) == ((), (20,), None, None)


def test_negative_values_stay_negative_at_the_ends():
    cuts = np.array([-9.0, -2.0], np.float32)
    assert Spread.of_bins(cuts, np.array([1, 1, 1])).quantiles == (-12.5, -12.5, -5.5, 0.0, 0.0)


def test_the_record_is_the_same_for_any_threads_and_any_holder_of_the_rows(data, tmp_path):
    rw.write_letor(data, tmp_path / "data.txt")
    read = rw.read_letor(tmp_path / "data.txt", cache=False)
    rw.bin_files(tmp_path / "data.txt", tmp_path / "binned")
    records = []
    for given_data, threads in (
        (read, 1),
        (read, 3),
        (rw.bin(read), 1),
        (rw.open_binned(tmp_path / "binned"), 2),
    ):
        model = rw.RandomForest(**LESS, n_threads=threads).fit(given_data)
        rw.save(model, tmp_path / "model")
        records.append((tmp_path / "model").read_bytes())
    assert len(set(records)) == 1


def test_the_digest_tells_data_apart(data):
    def digest_of(changed):
        return rw.RandomForest(**LESS).fit(changed).training_["data_digest"]

    same, labels = digest_of(data), data.labels.copy()
    labels[0] += 1
    features = data.features.copy()
    features[0, 0] = 1e6
    assert digest_of(data) == same
    others = [
        dataclasses.replace(data, labels=labels),
        dataclasses.replace(data, features=features),
        dataclasses.replace(data, query_ids=data.query_of_row // 2),
        dataclasses.replace(data, feature_names=("a", "b", "c", "d", "e")),
    ]
    digests = {same, *(digest_of(other) for other in others)}
    assert len(digests) == 5


@pytest.mark.parametrize(
    "ranker",
    [
        rw.RankSVM(),
        rw.DeepForest(n_forests=2, n_trees=2, max_layers=1),
        rw.BoostingTree(max_length=2),
        rw.OrdinalRanker(rw.RandomForest(2)),
        rw.Blend({"a": rw.RandomForest(2), "b": rw.GBRT(2)}, weights="equal"),
        rw.AutoRanker(time=None, n_trials=1, candidates={"RankSVM": rw.RankSVM()}),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_every_way_to_fit_has_a_record(ranker, data, tmp_path):
    model = ranker.fit(data)
    statistics = statistics_in(model.training_)
    shares = [spread.missing_share for spread in statistics["features"]]
    assert shares == pytest.approx(np.isnan(data.features).mean(axis=0), abs=0.06)
    assert max(shares) > 0.05
    rw.save(model, tmp_path / "model")
    assert rw.load(tmp_path / "model").training_["data_digest"] == model.training_["data_digest"]
    assert "_data_record" not in vars(model)


def test_data_of_very_many_features_have_a_digest_only(data, monkeypatch):
    monkeypatch.setattr(record, "MOST_FEATURES", 4)
    training = rw.RandomForest(**LESS).fit(data).training_
    assert "data_digest" in training
    assert statistics_in(training) is None


def test_many_rows_are_counted_two_at_a_time():
    from rankwood.engines.engine import count_codes

    codes = np.random.default_rng(2).integers(0, 256, (2, 70_001)).astype(np.uint8)
    codes[1] = 255
    expected = [np.bincount(column, minlength=256) for column in codes]
    assert np.array_equal(count_codes(codes), expected)
    assert np.array_equal(count_codes(np.asfortranarray(codes)), expected)
    assert count_codes(codes[:, :0]).sum() == 0


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=255).filter(any),
    st.integers(0, 9),
)
def test_intervals_hold_every_row_once(counts, missing):
    cuts = np.arange(len(counts) - 1, dtype=np.float32)
    spread = Spread.of_bins(cuts, np.array(counts), missing)
    assert spread.present == sum(counts)
    assert spread.missing == missing
    assert len(spread.counts) == len(spread.cuts) + 1 <= 10
    values = np.repeat(np.arange(len(counts)) - 0.5, counts).astype(np.float32)
    assert spread.again(values).counts == spread.counts
    assert spreads_of(json.loads(json.dumps(as_columns([spread])))) == [spread]


@pytest.mark.parametrize(
    "change",
    [
        lambda features: features.pop("cuts"),
        lambda features: features["cuts"].pop(),
        lambda features: features["counts"][0].append(3),
        lambda features: features["counts"][0].__setitem__(0, -1),
        lambda features: features["counts"].__setitem__(0, None),
        lambda features: features["cuts"][0].reverse(),
        lambda features: features["low"].__setitem__(0, "low"),
        lambda features: features["quantiles"][0].pop(),
    ],
)
def test_damaged_statistics_are_refused(change, data):
    training = json.loads(json.dumps(rw.RandomForest(**LESS).fit(data).training_))
    change(training["statistics"]["features"])
    with pytest.raises(ModelError, match="record of the training data is damaged"):
        statistics_in(training)


@pytest.mark.parametrize("statistics", [3, {}, {"features": {}}])
def test_statistics_that_are_none_are_refused(statistics, data):
    with pytest.raises(ModelError, match="record of the training data is damaged"):
        statistics_in({"statistics": statistics})
    whole = dict(rw.RandomForest(**LESS).fit(data).training_["statistics"])
    whole["labels"] = whole["features"]
    with pytest.raises(ModelError, match="record of the training data is damaged"):
        statistics_in({"statistics": whole})


# Notes and dates.


def test_notes_come_back_and_add_up(data, tmp_path):
    model = rw.RandomForest(**LESS).fit(data)
    rw.save(model, tmp_path / "one", notes={"purpose": "shop", "tags": ["a", 1]})
    back = rw.load(tmp_path / "one")
    assert back.training_["notes"] == {"purpose": "shop", "tags": ["a", 1]}
    rw.save(back, tmp_path / "two", notes={"purpose": "blog"})
    assert rw.load(tmp_path / "two").training_["notes"] == {"purpose": "blog", "tags": ["a", 1]}
    assert "notes" not in model.training_
    rw.save(model.forest_, tmp_path / "bare", notes={"purpose": "shop"})
    assert load_model(tmp_path / "bare")[1]["training"] == {"notes": {"purpose": "shop"}}


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ("shop", "notes must be a mapping"),
        ({1: "shop"}, "notes must be a mapping"),
        ({"why": float("nan")}, "the note 'why' cannot be written"),
        ({"why": object()}, "the note 'why' cannot be written"),
    ],
)
def test_notes_that_no_file_holds_are_refused(notes, message, data, tmp_path):
    model = rw.RandomForest(**LESS).fit(data)
    with pytest.raises(ParameterError, match=message):
        rw.save(model, tmp_path / "model", notes=notes)
    assert not (tmp_path / "model").exists()


def test_the_date_is_that_of_source_date_epoch(data, tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    model = rw.RandomForest(**LESS).fit(data)
    rw.save(model, tmp_path / "undated")
    assert "date" not in rw.load(tmp_path / "undated").training_
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1714521600")
    rw.save(model, tmp_path / "dated")
    assert rw.load(tmp_path / "dated").training_["date"] == "2024-05-01T00:00:00+00:00"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(ParameterError, match="SOURCE_DATE_EPOCH must be a whole number of seconds"):
        rw.save(model, tmp_path / "other")


def test_files_without_a_record_load(data, tmp_path):
    rw.save(rw.RandomForest(**LESS).fit(data), tmp_path / "model")
    stored = read_model(tmp_path / "model")
    for name in ("data_digest", "statistics"):
        del stored.meta["training"][name]
    write_model(tmp_path / "old", stored.kind, stored.meta, stored.arrays)
    back = rw.load(tmp_path / "old")
    assert statistics_in(back.training_) is None
    assert np.array_equal(back.predict(data), rw.load(tmp_path / "model").predict(data))
