"""Transfer between two collections: similar rows, features of another model, and what they change."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import rankwood as rw
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.paired_tests import paired_t_test
from rankwood.prepare.transfer import common_columns, shown_reasons, varying_columns
from rankwood.studies.transfer import TransferReport

# Whole forests by the dozen, and no kernel that other tests do not run as plain Python.
pytestmark = pytest.mark.jit_only

LEAST_AUC = 0.9  # of the similarity, on the planted truth
SMALL = rw.RandomForest(10, max_leaves=20, seed=1, n_threads=1)


@pytest.fixture(scope="module")
def planted():
    # Documents that are not similar stand 2.5 standard deviations away. Over seeds 0 to 9 the AUC of the similarity is
    # between 0.92 and 0.96.
    return rw.make_transfer(30, 12, 40, 20, shift=2.5, seed=2)


@pytest.fixture(scope="module")
def parts(planted):
    """The target's training and validation part."""
    return rw.split_queries(planted.target, (0.5, 0.5), seed=0)


@pytest.fixture(scope="module")
def selection(planted):
    return rw.select_similar(planted.source, planted.target, 0.3, forest=rw.RandomForest(20))


def auc_of(planted, **options):
    forest = rw.RandomForest(20, seed=1)
    found = rw.select_similar(planted.source, planted.target, 0.3, forest=forest, **options)
    return roc_auc_score(planted.is_similar, found.similarity)


def test_truly_similar_documents_come_first(planted, selection):
    assert roc_auc_score(planted.is_similar, selection.similarity) >= LEAST_AUC
    # Half of the source is similar: nearly all of the first 30 % should be.
    assert planted.is_similar[selection.rows].mean() > 0.9


def test_a_forest_that_may_look_at_query_features_learns_the_queries_instead(planted):
    assert auc_of(planted, query_features=True) < auc_of(planted) - 0.05


def test_the_order_hardly_depends_on_balance(planted):
    assert auc_of(planted, balance=False) == pytest.approx(auc_of(planted), abs=0.04)


def test_the_auc_says_how_well_the_collections_are_told_apart(planted, selection):
    # Half of the source looks like the target (AUC ½ against it), half does not (nearly 1): together about ¾.
    assert selection.auc == pytest.approx(0.75, abs=0.08)
    alike = rw.make_transfer(30, 12, 40, 20, similar_share=1.0, seed=2)
    same = rw.select_similar(alike.source, alike.target, 0.3, forest=rw.RandomForest(20))
    assert same.auc == pytest.approx(0.5, abs=0.08)
    apart = rw.make_transfer(30, 12, 40, 20, similar_share=0.0, shift=3, seed=2)
    assert rw.select_similar(apart.source, apart.target, 0.3, forest=rw.RandomForest(20)).auc > 0.95


def test_the_most_similar_rows_are_joined_to_the_target(planted, selection):
    source, target = planted.source, planted.target
    n_added = int(0.3 * source.n_documents)
    assert selection.rows.size == n_added
    assert selection.data.n_documents == target.n_documents + n_added
    left = np.delete(selection.similarity, selection.rows)
    assert selection.similarity[selection.rows].min() >= left.max()
    added = selection.data.take_rows(np.arange(target.n_documents, selection.data.n_documents))
    np.testing.assert_array_equal(added.features, source.features[selection.rows])
    np.testing.assert_array_equal(added.labels, source.labels[selection.rows])
    kept = selection.data.take_rows(np.arange(target.n_documents))
    np.testing.assert_array_equal(kept.features, target.features)
    assert not set(kept.query_ids.tolist()) & set(added.query_ids.tolist())


def test_queries_stay_apart_even_if_they_share_an_id(planted):
    source, target = planted.source, planted.target
    source = dataclasses.replace(source, query_ids=source.query_of_row)
    target = dataclasses.replace(target, query_ids=target.query_of_row)
    joined = rw.select_similar(source, target, 1.0, forest=SMALL).data
    assert joined.n_queries == source.n_queries + target.n_queries


def test_no_forest_has_seen_the_query_it_judges(planted):
    seen = []

    class Watching(rw.RandomForest):
        def fit(self, X, y=None, qid=None, **more):
            self.seen = {row.tobytes() for row in X.features}
            return super().fit(X, y, qid, **more)

        def predict(self, X):
            seen.append(any(row.tobytes() in self.seen for row in X.features))
            return super().predict(X)

    rw.select_similar(planted.source, planted.target, 0.5, forest=Watching(2, max_leaves=4))
    assert (
        len(seen) == 5 + 2
    )  # five folds of the source, then one fold of each collection for the AUC
    assert not any(seen)


def test_folds_by_row_know_the_queries(planted):
    # Documents of a query share what describes it: half-seen queries are recognised as the source's.
    found = rw.select_similar(
        planted.source, planted.target, 0.3, forest=SMALL, query_features=True, folds_by="row"
    )
    kept = rw.select_similar(planted.source, planted.target, 0.3, forest=SMALL, query_features=True)
    assert found.similarity.mean() < 0.5 * kept.similarity.mean()


def test_the_same_seed_gives_the_same_for_any_number_of_threads(planted):
    one, two = (
        rw.select_similar(planted.source, planted.target, 0.3, seed=3, n_threads=n_threads)
        for n_threads in (1, 2)
    )
    np.testing.assert_array_equal(one.similarity, two.similarity)
    np.testing.assert_array_equal(one.rows, two.rows)
    assert one.auc == two.auc
    assert one.data == two.data


def test_without_queries_folds_are_made_of_rows(planted):
    source, target = (
        rw.RankingData(part.features, part.labels) for part in (planted.source, planted.target)
    )
    found = rw.select_similar(source, target, 0.2, forest=SMALL)
    assert found.data.query_ids is None
    assert np.isfinite(found.similarity).all()


def test_missing_values_are_features_too(planted):
    features = planted.source.features.copy()
    features[~planted.is_similar, 0] = np.nan
    source = dataclasses.replace(planted.source, features=features)
    found = rw.select_similar(source, planted.target, 0.3, forest=rw.RandomForest(20))
    assert planted.is_similar[found.rows].all()


def test_every_query_may_have_one_document(planted):
    source = dataclasses.replace(planted.source, query_ids=np.arange(planted.source.n_documents))
    target = dataclasses.replace(planted.target, query_ids=np.arange(planted.target.n_documents))
    assert not varying_columns(source).any()
    assert rw.select_similar(source, target, 0.2, forest=SMALL).rows.size > 0


def test_what_varies_within_a_query():
    nan, inf = float("nan"), float("inf")
    # Columns: varies; constant in each query; missing in one row; missing in a whole query; infinite.
    features = [[1, 5, nan, nan, inf], [2, 5, 1, nan, inf], [7, 6, 1, 3, inf]]
    data = rw.RankingData(features, [0, 1, 0], ["a", "a", "b"])
    assert varying_columns(data).tolist() == [True, False, True, False, False]


# Features of the two collections


def named(data, names):
    return rw.RankingData(
        data.features[:, : len(names)], data.labels, data.query_ids, feature_names=names
    )


def test_common_features_by_name(planted):
    source = named(planted.source, ["a", "b", "c", "d"])
    target = named(planted.target, ["x", "d", "b"])
    ours, theirs = rw.common_features(source, target)
    assert ours.feature_names == theirs.feature_names == ("d", "b")
    np.testing.assert_array_equal(ours.features, source.features[:, [3, 1]])
    np.testing.assert_array_equal(theirs.features, target.features[:, [1, 2]])
    found = rw.select_similar(source, target, 0.3, forest=SMALL)
    assert found.features == found.data.feature_names == ("d", "b")


def test_common_features_by_position(planted):
    plain = rw.RankingData(planted.source.features, planted.source.labels)
    ours, theirs = rw.common_features(plain, planted.target)
    assert ours is plain
    assert theirs is planted.target


def test_a_feature_of_one_value_is_absent():
    nan = float("nan")
    # Columns: varies in both; 0 throughout the source; missing throughout the target; 1 in both; 2 against 3;
    # one value and missing ones, which is information.
    source = rw.RankingData(
        [[1, 0, 5, 1, 2, nan], [2, 0, 6, 1, 2, 4], [3, 0, 7, 1, 2, 4]], [0, 1, 0], ["a", "a", "b"]
    )
    target = rw.RankingData([[1, 4, nan, 1, 3, nan], [0, 5, nan, 1, 3, 9]], [0, 1], ["a", "a"])
    found = common_columns(source, target)
    assert found.in_source.tolist() == found.in_target.tolist() == [0, 5]
    assert found.dropped == {
        "2": "always 0 in the source",
        "3": "always missing in the target",
        "4": "always 1 in both collections",
        "5": "always 2 in the source and always 3 in the target",
    }
    ours, theirs = rw.common_features(source, target)
    np.testing.assert_array_equal(ours.features, source.features[:, [0, 5]])
    np.testing.assert_array_equal(theirs.features, target.features[:, [0, 5]])
    everything = rw.common_features(source, target, keep_constant=True)
    assert everything[0] is source
    assert everything[1] is target
    empty = source.take_rows([])
    assert rw.common_features(empty, empty)[0].n_features == 6  # nothing is known of its values
    with pytest.raises(
        DataError, match=r"no feature in common: 1, 2 \(always 0 in both.*keep_constant=True"
    ):
        rw.common_features(*2 * [rw.RankingData(np.zeros((3, 2)), [0, 1, 0])])
    with pytest.raises(ParameterError, match="keep_constant must be True or False"):
        rw.common_features(source, target, keep_constant="no")


def test_names_of_only_one_collection_have_a_reason(planted):
    source = named(planted.source, ["a", "b", "c", "d"])
    target = named(planted.target, ["x", "d", "b"])
    assert dict(common_columns(source, target).dropped) == {
        "x": "not in the source",
        "a": "not in the target",
        "c": "not in the target",
    }


def test_a_long_column_that_differs_in_its_last_row_is_no_constant():
    features = np.zeros((10_000, 2), np.float32)
    features[-1, 1] = 1
    data = rw.RankingData(features, np.arange(10_000) % 2)
    assert common_columns(data, data).in_source.tolist() == [1]


def test_reasons_are_listed_by_kind():
    reasons = dict.fromkeys(("2", "3", "4", "7"), "always 0 in the source") | {
        "9": "not in the target"
    }
    assert shown_reasons(reasons) == "2–4, 7 (always 0 in the source); 9 (not in the target)"
    assert shown_reasons({"bm25": "not in the source"}) == "'bm25' (not in the source)"


def test_absent_columns_do_not_tell_the_collections_apart():
    alike = rw.make_transfer(30, 20, 20, 20, similar_share=1.0, seed=2)
    features = alike.source.features.copy()
    features[:, :9] = 0
    source = dataclasses.replace(alike.source, features=features)
    found = rw.select_similar(source, alike.target, 0.3, forest=SMALL)
    assert len(found.features) == 11
    assert set(found.dropped.values()) == {"always 0 in the source"}
    assert found.auc == pytest.approx(0.5, abs=0.1)
    assert "11 common features\nnot common: " in str(found)
    apart = rw.select_similar(source, alike.target, 0.3, forest=SMALL, keep_constant=True)
    assert apart.auc > 0.99
    assert not apart.dropped
    whole = rw.select_similar(
        source, alike.target, 0.3, forest=rw.RandomForest(30, max_leaves=20), keep_constant=True
    )
    assert "nearly every document is told apart" in str(whole)


def test_features_that_are_lost_are_accounted_for(planted, parts):
    train, valid = parts
    source = named(planted.source, planted.source.names[:3])
    found = rw.select_similar(source, train, 0.3, valid=valid, model=SMALL, forest=SMALL)
    alone = rw.evaluate(SMALL.fit(train), valid, "ndcg@10")["ndcg@10"].value
    assert found.report.all_features == pytest.approx(alone)
    assert "with all features of the target" in str(found)
    cut = named(train, train.names[:3]), named(valid, train.names[:3])
    assert found.report.without == pytest.approx(
        rw.evaluate(SMALL.fit(cut[0]), cut[1], "ndcg@10")["ndcg@10"].value
    )


# The report


def test_the_report_says_what_the_rows_changed(planted, parts):
    train, valid = parts
    found = rw.select_similar(planted.source, train, 0.3, valid=valid, model=SMALL, forest=SMALL)
    report = found.report
    without = rw.evaluate(SMALL.fit(train), valid, "ndcg@10")["ndcg@10"]
    with_rows = rw.evaluate(SMALL.fit(found.data), valid, "ndcg@10")["ndcg@10"]
    assert (report.without, report.with_transfer) == pytest.approx((without.value, with_rows.value))
    assert report.difference == pytest.approx(with_rows.value - without.value)
    # scipy's own paired test is the peer.
    peer = scipy.stats.ttest_rel(with_rows.per_query, without.per_query).pvalue
    assert report.p_value == pytest.approx(peer)
    assert report.all_features is None
    assert f"{report.with_transfer:.4f}" in str(found)
    assert report.to_dict()["verdict"] == report.verdict


def test_a_harmful_transfer_is_visible():
    # A source whose labels are turned round. Over seeds 0 to 9, p < 0.05 in nine cases.
    planted = rw.make_transfer(40, 60, 15, 20, seed=0)
    source = dataclasses.replace(planted.source, labels=4 - planted.source.labels)
    train, valid = rw.split_queries(planted.target, (0.3, 0.7), seed=0)
    report = rw.select_similar(source, train, 1.0, valid=valid, model=SMALL, forest=SMALL).report
    assert report.verdict == "harms"
    assert "the transfer harms" in str(report)


def test_a_helpful_transfer_is_visible():
    # Two queries of the target, forty of a source that is all alike. Over seeds 0 to 9, NDCG@10 has p < 0.05 in eight
    # cases and RMSE in all ten.
    planted = rw.make_transfer(40, 80, 15, 20, similar_share=1.0, noise=0.1, seed=0)
    train, valid = rw.split_queries(planted.target, (0.025, 0.975), seed=0)
    model = rw.RandomForest(20, max_leaves=20, seed=1, n_threads=1)
    found = rw.select_similar(planted.source, train, 1.0, valid=valid, model=model, forest=SMALL)
    assert found.report.verdict == "helps"
    by_error = rw.transfer_report(model, train, found.data, valid, measure="rmse")
    assert by_error.difference < 0
    assert by_error.verdict == "helps"  # a smaller error


def test_nothing_changed_is_no_difference(parts):
    train, valid = parts
    report = rw.transfer_report(SMALL, train, train, valid)
    assert (report.difference, report.p_value) == (0.0, 1.0)
    assert report.verdict == "no clear difference"


def test_early_stopping_gets_its_validation_data(parts):
    train, valid = parts
    model = rw.GBRT(5, early_stopping=2, n_threads=1)
    report = rw.transfer_report(model, train, train, valid)
    assert report.without == pytest.approx(max(model.fit(train, valid=valid).history_))


def test_a_ranker_built_on_one_that_stops_early_gets_its_validation_data_too(parts):
    train, valid = parts
    base = rw.GBRT(5, early_stopping=2, measure="rmse", min_leaf=5, n_threads=1)
    assert np.isfinite(rw.transfer_report(rw.OrdinalRanker(base), train, train, valid).without)
    fitted = rw.OrdinalRanker(SMALL, scoring="least_squares", fitted_on="both")
    assert np.isfinite(rw.transfer_report(fitted, train, train, valid).without)


def test_paired_test_of_few_or_equal_differences():
    assert paired_t_test(np.array([0.1, -0.2, 0.3, np.nan])) == pytest.approx(
        scipy.stats.ttest_1samp([0.1, -0.2, 0.3], 0).pvalue
    )
    assert np.isnan(paired_t_test(np.array([0.1, np.nan])))
    assert paired_t_test(np.zeros(3)) == 1.0
    assert paired_t_test(np.full(3, 0.5)) == 0.0


def test_a_verdict_needs_queries_and_whole_to_agree():
    differences = np.full(10, 0.1) + np.arange(10) / 1e3
    rmse = rw.parse_measure("rmse")
    report = TransferReport("RandomForest", rmse, 1.0, 1.1, 1e-9, differences)
    assert report.verdict == "harms"
    assert dataclasses.replace(report, with_transfer=0.9).verdict == "no clear difference"
    nothing = dataclasses.replace(report, differences=np.full(3, np.nan), p_value=float("nan"))
    assert nothing.verdict == "no clear difference"
    assert "no p value" in str(nothing)


# Features of another model


@dataclasses.dataclass
class Graded:
    """What ``add_model_features`` asks of a model with class probabilities, known by heart."""

    grades_ = np.array([0.0, 1.0, 2.5])

    def predict(self, data):
        return data.features[:, 0].astype(float)

    def cumulative(self, data):
        return np.stack([np.full(data.n_documents, 0.25), np.full(data.n_documents, 0.75)], axis=1)

    def probabilities(self, data):
        return np.diff(self.cumulative(data), axis=1, prepend=0.0, append=1.0)


def test_scores_probabilities_and_cumulative_ones_become_features(planted):
    data = planted.target
    found = rw.add_model_features(Graded(), data, "CQP")
    assert found.names == ("Q", "P0", "P1", "P2.5", "C0", "C1")
    assert found.data.feature_names == data.feature_names + found.names
    np.testing.assert_array_equal(found.data.features[:, :-6], data.features)
    np.testing.assert_array_equal(found.data.features[:, -6], data.features[:, 0])
    expected = np.tile(np.array([0.25, 0.5, 0.25, 0.25, 0.75]), (data.n_documents, 1))
    np.testing.assert_allclose(found.data.features[:, -5:], expected)
    for name in ("labels", "query_ids", "doc_ids"):
        np.testing.assert_array_equal(getattr(found.data, name), getattr(data, name))
    assert "6 features added to 20: Q, P0, P1, P2.5, C0, C1" in str(found)
    assert "not measured" in str(found)


def test_the_score_of_a_forest_as_a_feature(planted, parts):
    train, valid = parts
    forest = rw.RandomForest(10, max_leaves=20).fit(planted.source)
    found = rw.add_model_features(forest, train, "Q", prefix="source_", valid=valid, ranker=SMALL)
    assert found.names == ("source_Q",)
    scores = forest.predict(train).astype(np.float32)
    np.testing.assert_array_equal(found.data.features[:, -1], scores)
    expected = rw.evaluate(SMALL.fit(found.data), found.valid, "ndcg@10")["ndcg@10"].value
    assert found.report.with_transfer == pytest.approx(expected)
    assert found.report.without == pytest.approx(
        rw.evaluate(SMALL.fit(train), valid, "ndcg@10")["ndcg@10"].value
    )
    assert str(found.report) in str(found)


@pytest.mark.parametrize("clip", [False, True])
def test_what_an_ordinal_ranker_says_as_features(planted, clip):
    names = planted.source.names[:6]
    model = rw.OrdinalRanker(SMALL, clip=clip).fit(named(planted.source, names))
    found = rw.add_model_features(model, planted.target)
    known = named(planted.target, names)
    assert found.names == ("Q", "P0", "P1", "P2", "P3", "P4", "C0", "C1", "C2", "C3")
    expected = [
        model.predict(known)[:, np.newaxis],
        model.probabilities(known),
        model.cumulative(known),
    ]
    added = found.data.features[:, -10:]
    np.testing.assert_array_equal(added, np.concatenate(expected, axis=1).astype(np.float32))
    np.testing.assert_allclose(added[:, 1:6].sum(axis=1), 1.0, atol=1e-6)


def test_a_model_may_know_fewer_features_than_the_data_have(planted):
    names = planted.source.names[:4]
    forest = rw.RandomForest(3).fit(named(planted.source, names))
    found = rw.add_model_features(forest, planted.target, "Q")
    expected = forest.predict(planted.target.features[:, :4])
    np.testing.assert_array_equal(found.data.features[:, -1], expected.astype(np.float32))


def test_data_without_names_stay_without(planted):
    data = rw.RankingData(planted.target.features, planted.target.labels)
    forest = rw.RandomForest(3).fit(planted.source)
    found = rw.add_model_features(forest, data, "Q")
    assert found.data.feature_names is None
    assert found.data.n_features == data.n_features + 1


# Several transfers in one table


def test_a_table_has_what_single_calls_have(planted, parts):
    train, valid = parts
    found = rw.transfer_table(
        planted.source, train, (0.1, 0.3), ("Q",), valid=valid, test=planted.source, model=SMALL,
        measures=("ndcg@10", "rmse"), forest=SMALL, source_model=SMALL, seed=4,
    )  # fmt: skip
    assert [line.added for line in found.lines] == ["10 %", "30 %", "Q"]
    for share in (0.1, 0.3):
        for measure in ("ndcg@10", "rmse"):
            single = rw.select_similar(
                planted.source, train, share, valid=valid, model=SMALL, measure=measure, forest=SMALL, seed=4
            )  # fmt: skip
            line = found[f"{100 * share:.0f} %"]
            assert line.reports["validation", measure].to_dict() == single.report.to_dict()
            assert line.count == single.rows.size
            assert found.auc == single.auc
            np.testing.assert_array_equal(found.similarity, single.similarity)
    model = clone(SMALL).fit(planted.source)
    of_columns = rw.add_model_features(
        model, train, "Q", prefix="source ", valid=valid, ranker=SMALL
    )
    assert found["Q"].reports["validation", "ndcg@10"].to_dict() == of_columns.report.to_dict()
    # the test part is scored by the same models
    joined = rw.select_similar(planted.source, train, 0.1, forest=SMALL, seed=4).data
    expected = rw.evaluate(clone(SMALL).fit(joined), planted.source, "ndcg@10")["ndcg@10"].value
    assert found["10 %"].reports["test", "ndcg@10"].with_transfer == pytest.approx(expected)


def test_the_text_and_the_files_of_a_table(planted, parts, tmp_path):
    train, valid = parts
    narrow = named(planted.source, planted.source.names[:7])
    told = []
    found = rw.transfer_table(
        narrow, train, (0.5,), ("Q", "PC", "CP"), valid=valid, model=SMALL, forest=SMALL, progress=told.append
    )  # fmt: skip
    text = str(found)
    for part in ("share", "documents", "50 %", "0 %, all features", "kinds", "columns", "PC",
                 "7 common features", "not common: ", "(not in the source)", "3 lines is a search"):  # fmt: skip
        assert part in text
    assert [line.added for line in found.lines] == ["50 %", "Q", "PC"]
    grades = np.unique(planted.source.labels).size
    assert found["PC"].count == 2 * grades - 1
    assert (told[-1].iteration, told[-1].total) == (5, 5)
    found.write_csv(tmp_path / "t.csv")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0].startswith(
        "kind,added,count,part,model,measure,without,with,difference,p_value"
    )
    assert len(lines) == 4
    record = found.to_dict()
    assert record["features"] == 7
    assert record["results"][0]["without_with_all_features"] is not None
    assert set(record["dropped"]) == set(train.names[7:])
    only = rw.transfer_table(narrow, train, columns="Q", valid=valid, model=SMALL)
    assert only.auc is None
    assert "AUC" not in str(only)
    with pytest.raises(UnknownName, match="line of this table"):
        _ = found["60 %"]


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ({}, {}, "nothing would be transferred: pass shares"),
        ({"shares": (0.1, 2)}, {}, r"share must be in \(0, 1\], got 2"),
        ({"shares": (0.1,)}, {"measures": ()}, "measures is empty"),
        ({"shares": (0.1,)}, {"level": 0}, "level must be in"),
        ({"shares": (0.1,)}, {"test": 3}, "test must be RankingData, got int"),
        ({"columns": ("X",)}, {}, "kinds must be some of the letters"),
        ({"columns": ("P",)}, {"source_model": SMALL}, "RandomForest gives no class"),
        ({"columns": ("Q",)}, {"source_model": "GBRT"}, "source_model must be a ranker"),
    ],
)
def test_tables_that_cannot_be_made(planted, parts, given, options, message):
    train, valid = parts
    with pytest.raises(ParameterError, match=message):
        rw.transfer_table(planted.source, train, **given, valid=valid, **options)


# Bad input


def test_kinds_that_a_model_cannot_give(planted):
    forest = rw.RandomForest(2).fit(planted.source)
    with pytest.raises(
        ParameterError, match=r"P and C, but RandomForest gives no class.*kinds='Q'"
    ):
        rw.add_model_features(forest, planted.target)
    for kinds in ("", "X", "QQ", None, 3, "q"):
        with pytest.raises(ParameterError, match="kinds must be some of the letters Q, P and C"):
            rw.add_model_features(forest, planted.target, kinds)
    with pytest.raises(ParameterError, match="model must be a ranker, got str"):
        rw.add_model_features("forest", planted.target, "Q")


def test_features_that_cannot_be_added(planted):
    forest = rw.RandomForest(2).fit(planted.source)
    once = rw.add_model_features(forest, planted.target, "Q").data
    with pytest.raises(DataError, match=r"have features called 'Q' already\. Pass prefix="):
        rw.add_model_features(forest, once, "Q")
    with pytest.raises(DataError, match="no documents to add features to"):
        rw.add_model_features(forest, planted.target.take_rows([]), "Q")
    with pytest.raises(ParameterError, match="not to ndarray: pass RankingData"):
        rw.add_model_features(forest, planted.target.features, "Q")
    lacking = named(planted.target, planted.target.names[:1])
    with pytest.raises(DataError, match=r"the data lack .* 14 more.*common are 'bm25_body'"):
        rw.add_model_features(forest, lacking, "Q")


def replaced(data, **changes):
    return dataclasses.replace(data, **changes)


@pytest.mark.parametrize("share", [0, -0.1, 1.5, float("nan"), "half", True, None])
def test_shares_that_are_none(planted, share):
    with pytest.raises(ParameterError, match=r"share must be in \(0, 1\]"):
        rw.select_similar(planted.source, planted.target, share)


def test_an_empty_transfer(planted):
    with pytest.raises(
        ParameterError, match=r"0.0001 of .* less than one: nothing would be transf"
    ):
        rw.select_similar(planted.source, planted.target, 0.0001)


def test_a_source_with_other_features(planted):
    source, target = planted.source, planted.target
    others = [f"other {number}" for number in range(20)]
    with pytest.raises(
        DataError, match=r"no feature in common: source has 'other 0'.*15 more, tar"
    ):
        rw.select_similar(named(source, others), target, 0.5)
    fewer = rw.RankingData(source.features[:, :7], source.labels, source.query_ids)
    with pytest.raises(
        DataError, match=r"source has 7 features and target 20.*the first 7 are com"
    ):
        rw.select_similar(fewer, target, 0.5)


def test_collections_that_cannot_be_used(planted):
    source, target = planted.source, planted.target
    flat = np.ones(source.n_documents)
    with pytest.raises(DataError, match="all labels of source are 1"):
        rw.select_similar(replaced(source, labels=flat), target, 0.5)
    with pytest.raises(DataError, match="target has no documents"):
        rw.select_similar(source, target.take_rows([]), 0.5)
    with pytest.raises(ParameterError, match="source must be RankingData, got ndarray"):
        rw.select_similar(source.features, target, 0.5)
    with pytest.raises(DataError, match="source has query ids and target has none"):
        rw.select_similar(source, replaced(target, query_ids=None), 0.5)
    with pytest.raises(DataError, match="target has query ids and source has none"):
        rw.select_similar(replaced(source, query_ids=None), target, 0.5)
    with pytest.raises(DataError, match=r"source has 3 queries, too few for 5 folds.*n_folds="):
        rw.select_similar(source.take_queries([0, 1, 2]), target, 0.5)
    with pytest.raises(DataError, match=r"source has one query, too few .* or folds_by='row'"):
        rw.select_similar(source.take_queries([0]), target, 0.5)
    with pytest.raises(DataError, match=r"target has one query, too few for 2 folds"):
        rw.select_similar(source, target.take_queries([3]), 0.5)
    one = rw.select_similar(source, target.take_queries([3]), 0.5, folds_by="row", forest=SMALL)
    assert one.rows.size == source.n_documents // 2


def test_options_that_cannot_be_used(planted, parts):
    source, (train, valid) = planted.source, parts
    with pytest.raises(UnknownName, match="folds_by 'document' is not known"):
        rw.select_similar(source, train, 0.5, folds_by="document")
    with pytest.raises(ParameterError, match="n_folds must be a whole number of at least 2"):
        rw.select_similar(source, train, 0.5, n_folds=1)
    with pytest.raises(
        ParameterError, match=r"forest must be a ranker such as .* got RandomForest"
    ):
        rw.select_similar(source, train, 0.5, forest=rw.RandomForest)
    with pytest.raises(ParameterError, match="model must be a ranker"):
        rw.select_similar(source, train, 0.5, valid=valid, model="GBRT")
    with pytest.raises(UnknownName, match="measure 'ndgc' is not known"):
        rw.transfer_report(SMALL, train, train, valid, measure="ndgc")
    with pytest.raises(ParameterError, match="level must be in"):
        rw.transfer_report(SMALL, train, train, valid, level=5)


def test_validation_data_that_cannot_be_used(planted, parts):
    source, (train, valid) = planted.source, parts

    def measured(data):
        return rw.select_similar(source, train, 0.5, valid=data, model=SMALL, forest=SMALL)

    with pytest.raises(DataError, match="valid has one query"):
        measured(valid.take_queries([0]))
    with pytest.raises(DataError, match="valid has no documents"):
        measured(valid.take_rows([]))
    with pytest.raises(DataError, match="all labels of valid are 0"):
        measured(replaced(valid, labels=np.zeros(valid.n_documents)))
    with pytest.raises(ParameterError, match="valid must be RankingData, got tuple"):
        measured((valid.features, valid.labels))
    with pytest.raises(DataError, match="no query ids"):
        measured(replaced(valid, query_ids=None))
    with pytest.raises(DataError, match=r"the target's 20 features, but it lacks 'bm25_url'"):
        measured(named(valid, ["noise_1", *valid.names[:3]]))
    narrow = rw.RankingData(valid.features[:, :5], valid.labels, valid.query_ids)
    with pytest.raises(DataError, match="valid must have the target's 20 features"):
        measured(narrow)
