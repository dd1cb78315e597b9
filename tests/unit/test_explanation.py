"""``explain`` and ``importance``: documents, pairs, lists, data sets; tables, files and pictures of them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.models.forest import Forest

pytestmark = pytest.mark.jit_only  # no kernels of its own


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(25, 12, 6, seed=2, doc_ids=True)


@pytest.fixture(scope="module")
def model(data):
    return rw.GBRT(8, min_leaf=5).fit(data)


@pytest.fixture(scope="module")
def explanation(model, data):
    return rw.explain(model, data)


def test_contributions_and_base_make_the_score(explanation, model, data):
    np.testing.assert_allclose(explanation.scores, model.predict(data), atol=1e-12)
    assert explanation.names == data.names
    assert explanation.to_array().shape == (data.n_documents, 7)
    np.testing.assert_allclose(explanation.to_array().sum(axis=1), model.predict(data), atol=1e-12)


def test_any_number_of_threads_gives_the_same_bits(model, data):
    one, two = (rw.explain(model, data, n_threads=n).contributions for n in (1, 2))
    assert np.array_equal(one, two)


def test_one_document(explanation, model, data):
    parts = explanation.document(3)
    assert parts.start == ("base", explanation.base)
    assert parts.end[1] == pytest.approx(model.predict(data)[3])
    assert parts.parts.sum() == pytest.approx(parts.end[1] - parts.start[1])
    assert (np.diff(np.abs(parts.parts)) <= 0).all()
    place = data.names.index(parts.names[0])
    assert parts.values["value"][0] == data.features[3, place]
    rows = list(parts.rows(2))
    assert len(rows) == 3
    assert rows[-1]["feature"] == "4 others"
    assert sum(row["part"] for row in rows) == pytest.approx(parts.parts.sum())


def test_why_one_document_is_above_another(explanation, data):
    query = explanation.query(data.queries[0])
    parts = query.why(0, 1)
    difference = query.contributions[0] - query.contributions[1]
    assert sorted(parts.parts) == sorted(difference)
    assert parts.parts.sum() == pytest.approx(query.scores[0] - query.scores[1])
    assert "is above" in str(parts)
    assert "is not above" in str(query.why(1, 0))
    assert query.why(1, 0).parts.tolist() == (-parts.parts).tolist()
    with pytest.raises(DataError, match="does not stand above itself"):
        query.why(1, 1)
    with pytest.raises(ParameterError, match="row must be a whole number between 0 and"):
        query.why(0, 10_000)


def test_documents_of_the_same_place_in_two_queries_keep_their_columns(model, data):
    bare = rw.RankingData(data.features, data.labels, data.query_ids)
    found = rw.explain(model, bare)
    second = int(bare.row_order[bare.query_offsets[1]])
    names = list(found.why(0, second).values)
    assert names == ["document 1 of query 1", "document 1 of query 2"]


def test_the_list_of_a_query_is_in_order_of_score(explanation, data):
    query = explanation.query(data.queries[2])
    assert (np.diff(query.scores) <= 0).all()
    assert set(query.query_ids) == {data.queries[2]}
    assert query.title.startswith(f"{len(query)} documents of query {data.queries[2]}, base")
    assert len(explanation.query(str(data.queries[2]))) == len(query)  # ids as texts


def test_documents_are_found_by_id_or_by_place(explanation, model, data):
    row = 17
    query = data.query_ids[row]
    assert explanation.find(data.doc_ids[row], query) == row
    assert explanation.find(str(data.doc_ids[row])) == row
    with pytest.raises(UnknownName, match=r"document 'd17x' is not known\. Did you mean 'd17'"):
        explanation.find("d17x")
    with pytest.raises(UnknownName, match="query 'nowhere' is not known"):
        explanation.find("d17", "nowhere")
    bare = rw.explain(model, rw.RankingData(data.features, data.labels, data.query_ids))
    rows = np.flatnonzero(data.query_ids == query)
    assert bare.find(2, query) == rows[1]
    assert bare.name_of(rows[1]) == "document 2"
    for wrong in ("0", "d1", rows.size + 1, -1):
        with pytest.raises(DataError, match="counted from 1, here up to"):
            bare.find(wrong, query)
    twice = rw.RankingData(data.features[:2], [0, 1], [1, 2], doc_ids=["a", "a"])
    with pytest.raises(DataError, match=r"is there 2 times\. Say of which query"):
        rw.explain(model, twice).find("a")
    with pytest.raises(DataError, match="no query ids"):
        rw.explain(model, data.features).query(1)


def test_tables_are_taken_by_name(data):
    frame = pd.DataFrame(data.features, columns=list("abcdef"))
    model = rw.GBRT(4, min_leaf=5).fit(frame, data.labels, data.query_ids)
    one = rw.explain(model, frame)
    other = rw.explain(model, frame[list("fedcba")])
    assert one.names == tuple("abcdef")
    assert np.array_equal(one.contributions, other.contributions)
    assert one.name_of(4) == "document 5"
    unnamed = rw.GBRT(4, min_leaf=5).fit(data.features, data.labels, data.query_ids)
    assert rw.explain(unnamed, data.features).names == tuple("123456")
    assert rw.explain(unnamed, frame).names == tuple("abcdef")
    assert rw.explain(unnamed, rw.bin(data)).names == data.names


def test_linear_rankers(data):
    model = rw.RankSVM().fit(data)
    found = rw.explain(model, data)
    np.testing.assert_allclose(found.scores, model.predict(data), atol=1e-9)


def test_what_cannot_be_explained(data, model):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        rw.explain(rw.GBRT(), data)
    with pytest.raises(ModelError, match="Pipeline is no ranker or model of ours"):
        rw.explain(type("Pipeline", (), {})(), data)
    deep = rw.DeepForest(n_forests=2, n_trees=2, max_layers=2).fit(data)
    with pytest.raises(ModelError, match="a Cascade is no sum of trees or of features"):
        rw.explain(deep, data)
    with pytest.raises(DataError, match="the model knows 6 features, but the data have 5"):
        rw.explain(model, data.features[:, :5])


def test_a_background_changes_what_documents_are_compared_with(model, data):
    few = data.take_rows(np.arange(40))
    found = rw.explain(model, data, background=few)
    assert found.base == pytest.approx(model.predict(few).mean())
    np.testing.assert_allclose(found.scores, model.predict(data), atol=1e-12)


@pytest.mark.parametrize("by", ["gain", "cover", "splits"])
def test_importance_that_the_trees_count(model, by):
    found = rw.importance(model, by=by)
    counted = model.forest_.importance(by)
    np.testing.assert_allclose(found.values, counted / counted.sum())
    if by == "gain":
        np.testing.assert_allclose(found.values, model.feature_importances_)
    rows = list(found.rows())
    assert [row["importance"] for row in rows] == sorted(found.values, reverse=True)


def test_importance_by_contribution(model, data, explanation):
    found = rw.importance(model, data, "contribution")
    np.testing.assert_allclose(found.values, np.abs(explanation.contributions).mean(axis=0))
    np.testing.assert_allclose(explanation.importance().values, found.values)


def test_importance_by_permutation_is_what_shuffling_loses(model, data):
    found = rw.importance(model, data, "permutation", repetitions=2, seed=3)
    again = rw.importance(model, data, "permutation", repetitions=2, seed=3, n_threads=1)
    assert np.array_equal(found.values, again.values)
    assert (found.low <= found.values).all()
    assert (found.values <= found.high).all()
    assert found.measure.startswith("ndcg@10")
    # The same by hand for one feature: shuffle within each query, measure, subtract.
    from rankwood._core import random

    feature = int(np.argmax(found.values))
    before = rw.evaluate(model, data, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    lost = []
    for repetition in range(2):
        keys = random.stream(3, f"shuffle feature {feature}", repetition).random(len(data))
        shuffled = np.array(data.features)
        for _, rows in data.iter_queries():
            shuffled[rows, feature] = data.features[rows[np.argsort(keys[rows])], feature]
        scores = model.predict(shuffled)
        lost.append(before - rw.evaluate(scores, data, "ndcg@10", n_bootstrap=0)["ndcg@10"].value)
    assert found.values[feature] == pytest.approx(np.mean(lost), abs=1e-12)
    assert found.values[feature] > 0.05


def test_permutation_of_features_that_say_nothing_loses_nothing(data):
    labels = (data.features[:, 2] > np.median(data.features[:, 2])).astype(float)
    only = rw.RankingData(data.features, labels, data.query_ids)
    model = rw.GBRT(5, max_leaves=2, min_leaf=2).fit(only)
    found = rw.importance(model, only, "permutation", measure="map")
    assert np.flatnonzero(found.values).tolist() == [2]
    for measure in ("auc", "rmse"):
        pooled = rw.importance(model, only, "permutation", measure=measure)
        assert pooled.values[2] > 0  # an error that grows counts as lost
        assert np.isnan(pooled.low[2])


def test_permutation_of_models_that_are_no_sum(data):
    deep = rw.DeepForest(n_forests=2, n_trees=2, max_layers=2).fit(data)
    found = rw.importance(deep, data, "permutation", repetitions=1)
    assert found.values.max() > 0


def test_importance_of_linear_rankers(data):
    model = rw.AdaRank(5).fit(data)
    found = rw.importance(model)
    np.testing.assert_allclose(found.values, model.feature_importances_)
    with pytest.raises(ModelError, match="a LinearModel has no splits, so it has no cover"):
        rw.importance(model, by="cover")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"by": "gian"}, "by 'gian' is not known. Did you mean 'gain'"),
        ({"by": "permutation"}, "is measured on data: pass data="),
        ({"by": "contribution"}, "is measured on data: pass data="),
        ({"by": "permutation", "data": np.ones((3, 6))}, "needs labels and queries"),
        ({"by": "contribution", "data": np.ones((0, 6))}, "there are no documents"),
        ({"by": "permutation", "data": "data", "repetitions": 0}, "repetitions must be"),
        ({"by": "permutation", "data": "data", "measure": "ndgc"}, "Did you mean 'ndcg'"),
    ],
)
def test_wrong_calls_of_importance(model, data, changes, message):
    if changes.get("data") is not None and isinstance(changes["data"], str):
        changes = {**changes, "data": data}
    with pytest.raises((DataError, ParameterError), match=message):
        rw.importance(model, **changes)


def test_a_model_without_trees_has_no_importance():
    empty = Forest.from_trees([], n_features=3)
    assert rw.importance(empty).values.tolist() == [0, 0, 0]
    assert rw.explain(empty, np.ones((2, 3))).importance().values.tolist() == [0, 0, 0]


def test_everything_can_be_printed_and_written(explanation, model, data, tmp_path):
    query = explanation.query(data.queries[0])
    importance = rw.importance(model, data, "permutation", repetitions=1)
    for number, shown in enumerate((query, query.document(0), query.why(0, 1), importance)):
        assert len(str(shown).splitlines()) > 3
        assert "<table>" in shown._repr_html_()
        json.dumps(shown.to_dict(2), allow_nan=False)
        path = tmp_path / f"{number}.csv"
        shown.write_csv(path)
        with open(path, newline="") as file:
            lines = list(csv.reader(file))
        assert len(lines) > 5
        assert len({len(line) for line in lines}) == 1
    with open(tmp_path / "0.csv", newline="") as file:
        first = next(csv.DictReader(file))
    assert float(first["score"]) == query.scores[0]
    assert float(first[data.names[0]]) == query.contributions[0, 0]


def test_pictures(explanation, model, data, tmp_path):
    pytest.importorskip("matplotlib")
    query = explanation.query(data.queries[0])
    importance = rw.importance(model, data, "permutation", repetitions=1)
    for shown in (query, query.document(0), query.why(0, 1), importance):
        shown.plot(tmp_path / "one.svg", top=4)
        shown.plot(tmp_path / "two.svg", top=4)
        assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
        shown.plot(tmp_path / "plot.png")
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
        with pytest.raises(ParameterError, match=r"a plot must end in \.png, \.svg or \.pdf"):
            shown.plot(tmp_path / "plot.gif")
