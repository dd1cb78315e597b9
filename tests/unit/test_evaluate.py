"""``evaluate``: values, intervals, counts, segments, tables, and what bad input gets."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rankwood.data.dataset import RankingData
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation import paired_tests
from rankwood.evaluation.evaluate import evaluate
from rankwood.evaluation.paired_tests import Resampling
from rankwood.measures import ranking
from rankwood.measures.agreement import PooledCurve
from rankwood.measures.measure import MEASURES, Measure, parse_measure
from rankwood.measures.ranking import group
from tests.reference import measures as reference


def make(n_queries=40, seed=0, **columns):
    rng = np.random.default_rng(seed)
    query_ids = np.repeat(np.arange(n_queries), rng.integers(1, 9, n_queries))
    labels = rng.integers(0, 4, query_ids.size)
    labels[np.searchsorted(query_ids, np.arange(n_queries))] = 2
    labels *= query_ids % 5 > 0  # every fifth query is empty, and no other
    scores = labels + rng.normal(0, 2, query_ids.size)
    return RankingData(np.zeros((query_ids.size, 1)), labels, query_ids, **columns), scores


def test_the_value_is_the_mean_over_queries():
    data, scores = make()
    result = evaluate(scores, data, ["ndcg@3", "map"])
    for text in ("ndcg@3", "map"):
        per_query = parse_measure(text).per_query(scores, data)
        assert_array_equal(result[text].per_query, per_query)
        assert result[text].value == pytest.approx(per_query.mean(), abs=1e-12)
        low, high = result[text].interval
        assert low < result[text].value < high
        assert (result[text].n_queries, result[text].n_empty) == (40, 8)


def test_rows_may_come_in_any_order():
    data, scores = make()
    shuffle = np.random.default_rng(1).permutation(len(data))
    mixed = data.take_rows(shuffle)
    for text in MEASURES:
        straight = dict(
            zip(
                data.queries,
                evaluate(scores, data, text, n_bootstrap=0)[text].per_query,
                strict=True,
            )
        )
        result = evaluate(scores[shuffle], mixed, text, n_bootstrap=0)[text]
        assert_allclose(result.per_query, [straight[query] for query in mixed.queries], atol=1e-12)


def test_skipped_queries_leave_the_mean_and_the_count():
    data, scores = make()
    kept = evaluate(scores, data, "ndcg")["ndcg"]
    skipped = evaluate(scores, data, "ndcg[empty=skip]")["ndcg[empty=skip]"]
    assert (skipped.n_queries, skipped.n_empty) == (32, 8)
    assert np.isnan(skipped.per_query).sum() == 8
    assert skipped.value == pytest.approx(kept.value * 40 / 32)  # the empty ones counted 0


def test_weights_weigh_empty_queries_like_any_other():
    data, scores = make()
    weights = np.arange(1.0, 41.0)
    weighted = RankingData(data.features, data.labels, data.query_ids, query_weights=weights)
    result = evaluate(scores, weighted, ["ndcg", "ndcg[empty=skip]", "auc", "rmse"])
    per_query = result["ndcg"].per_query
    assert result["ndcg"].value == pytest.approx(np.average(per_query, weights=weights))
    filled = data.queries % 5 > 0
    assert result["ndcg[empty=skip]"].value == pytest.approx(
        np.average(per_query[filled], weights=weights[filled])
    )
    row_weights = weights[data.query_of_row]
    assert result["auc"].value == pytest.approx(
        reference.auc(data.labels.tolist(), scores.tolist(), weights=row_weights.tolist())
    )
    assert result["rmse"].value == pytest.approx(
        np.sqrt(np.average((scores - data.labels) ** 2, weights=row_weights))
    )


def test_pooled_measures_are_taken_over_all_documents():
    data, scores = make()
    result = evaluate(scores, data, ["auc", "pauc@[10,60]", "rmse"])
    labels = data.labels.tolist()
    assert result["auc"].value == pytest.approx(reference.auc(labels, scores.tolist()))
    assert result["pauc@[10,60]"].value == pytest.approx(
        reference.pauc(labels, scores.tolist(), 0.1, 0.6)
    )
    assert result["rmse"].value == pytest.approx(reference.rmse(labels, scores.tolist()))
    for part in result:
        assert part.interval[0] < part.value < part.interval[1]
        assert part.n_queries == 40
    assert np.isnan(result["auc"].per_query).sum() >= 8  # an empty query has no area of its own


def test_over_queries_they_are_means_of_each_querys_own_value():
    data, scores = make()
    texts = ["auc[over=queries]", "pauc@[10,60][over=queries]", "rmse[over=queries]"]
    result, pooled = (evaluate(scores, data, measures) for measures in (texts, ["auc", "rmse"]))
    rows_of = [np.flatnonzero(data.query_of_row == query) for query in range(data.n_queries)]
    own = [reference.rmse(data.labels[rows].tolist(), scores[rows].tolist()) for rows in rows_of]
    assert result["rmse[over=queries]"].value == pytest.approx(np.mean(own))
    areas = [
        reference.auc(data.labels[rows].tolist(), scores[rows].tolist())
        for rows in rows_of
        if 0 < (data.labels[rows] >= 1).sum() < rows.size
    ]
    found = result["auc[over=queries]"]
    assert found.value == pytest.approx(np.mean(areas))
    assert found.n_queries == len(areas) < data.n_queries  # a query of one kind has no area
    for text in ("auc", "rmse"):
        assert abs(result[f"{text}[over=queries]"].value - pooled[text].value) > 1e-3
    for part in result:
        assert part.value == pytest.approx(np.nanmean(part.per_query))
        assert part.interval[0] < part.value < part.interval[1]


def test_the_interval_of_a_mean_is_that_of_the_plain_bootstrap():
    """With many resamples, mean ± 1.96 standard errors; the bootstrap uses the n-denominator."""
    data, scores = make(400)
    result = evaluate(scores, data, "ndcg", n_bootstrap=4000)["ndcg"]
    error = result.per_query.std() / np.sqrt(400)
    assert_allclose(
        result.interval, result.value + error * np.array([-1.96, 1.96]), atol=0.2 * error
    )
    narrow = evaluate(scores, data, "ndcg", n_bootstrap=4000, confidence=0.5)["ndcg"]
    assert_allclose(
        narrow.interval, result.value + error * np.array([-0.674, 0.674]), atol=0.2 * error
    )


def test_the_pooled_bootstrap_resamples_queries():
    """Against a plain loop over the same resamples."""
    data, scores = make(12)
    resampling = Resampling.of(12, 30, 0.9, seed=3)
    areas = []
    for counts in resampling.counts():
        for row in counts:
            rows = np.concatenate(
                [
                    np.flatnonzero(data.query_ids == query).repeat(int(n))
                    for query, n in enumerate(row)
                ]
            )
            areas.append(reference.auc(data.labels[rows].tolist(), scores[rows].tolist()))
    expected = np.nanquantile(areas, [0.05, 0.95])
    result = evaluate(scores, data, "auc", n_bootstrap=30, confidence=0.9, seed=3)
    assert_allclose(result["auc"].interval, expected, atol=1e-9)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(
    ("n_units", "n_resamples"), [(1, 5), (2, 40), (7, 300), (1000, 30), (3_000_000, 2)]
)
def test_the_draws_are_those_of_one_generator(monkeypatch, n_units, n_resamples, n_threads):
    """Pieces and batches are small here; of three million units one word in two thousand is refused."""
    monkeypatch.setattr(paired_tests, "_WORDS_AT_ONCE", 1000)
    monkeypatch.setattr(paired_tests, "_WORDS_OF_PIECE", 33 if n_units < 10_000 else 100_001)
    monkeypatch.setattr(paired_tests, "_DRAWS_PER_THREAD", 10)
    resampling = Resampling(
        np.arange(n_units), n_units, n_resamples, 0.9, seed=5, n_threads=n_threads
    )
    expected = reference.resample_counts(5, "bootstrap", n_units, n_resamples)
    assert np.array_equal(np.concatenate(list(resampling.counts())), expected)


@pytest.mark.parametrize("n_threads", [1, 2, 16])
def test_intervals_are_sums_in_the_order_of_queries(n_threads):
    """Bit for bit: another order of adding would move the last digits."""
    values = np.random.default_rng(0).random((50, 2))
    weights = np.ones_like(values)
    weights[3, 1] = 0.0
    resampling = Resampling.of(50, 400, 0.9, 7, n_threads)
    counts = reference.resample_counts(7, "bootstrap", 50, 400)
    expected = []
    for column in range(2):
        above, below = np.zeros(400), np.zeros(400)
        for query in range(50):
            above += counts[:, query] * values[query, column]
            below += counts[:, query] * weights[query, column]
        expected.append(resampling.interval(above / below))
    assert resampling.ratio_intervals(values, weights) == expected


def test_many_queries_are_resampled_in_blocks(monkeypatch):
    data, scores = make(400)
    plain = evaluate(scores, data, ["ndcg", "auc", "rmse"], n_bootstrap=2000)
    monkeypatch.setattr(paired_tests, "MOST_UNITS", 100)
    blocks = evaluate(scores, data, ["ndcg", "auc", "rmse"], n_bootstrap=2000)
    for one, other in zip(plain, blocks, strict=True):
        assert one.value == other.value
        widths = np.diff(one.interval)[0], np.diff(other.interval)[0]
        assert widths[1] == pytest.approx(widths[0], rel=0.25)


def test_the_same_seed_gives_the_same_interval_on_any_number_of_threads():
    data, scores = make(300)
    texts = ["ndcg@5", "auc", "rmse"]
    one = evaluate(scores, data, texts, n_threads=1, seed=5, n_bootstrap=1000)
    two = evaluate(scores, data, texts, n_threads=3, seed=5, n_bootstrap=1000)
    other = evaluate(scores, data, texts, seed=6, n_bootstrap=1000)
    for text in texts:
        assert one[text].interval == two[text].interval
        assert one[text].value == two[text].value
        assert one[text].interval != other[text].interval


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(ranking, "DOCUMENTS_PER_BLOCK", 1)
    monkeypatch.setattr(ranking, "QUERIES_PER_BLOCK", 1)
    data, scores = make(300)
    for text in MEASURES:
        measure = parse_measure(text)
        alone = measure.per_query(scores, data, n_threads=1)
        assert_array_equal(measure.per_query(scores, data, n_threads=3), alone)


def test_one_query_has_no_interval():
    data = RankingData(np.zeros((3, 1)), [1, 0, 2], [7, 7, 7])
    for result in evaluate([3, 2, 1], data, ["ndcg", "auc", "rmse"]):
        assert np.isnan(result.interval).all()
        assert np.isfinite(result.value)


def test_no_rows_give_no_value():
    data = RankingData(np.zeros((0, 1)), [], np.zeros(0, int))
    for result in evaluate([], data, MEASURES):
        assert np.isnan(result.value)
        assert np.isnan(result.interval).all()
        assert (result.per_query.size, result.n_queries, result.n_empty) == (0, 0, 0)


def test_a_model_is_asked_for_its_scores():
    data, scores = make()

    class Model:
        def predict(self, asked):
            assert asked is data
            return scores

    assert evaluate(Model(), data, "map")["map"].value == evaluate(scores, data, "map")["map"].value


def test_results_are_found_by_any_form_of_their_name():
    data, scores = make()
    result = evaluate(scores, data, ["NDCG@ 5 [gain=exponential]", "map"])
    for name in (
        "NDCG@ 5 [gain=exponential]",
        "ndcg@5[gain=exponential]",
        "ndcg@5",
        Measure("ndcg", 5),
    ):
        assert result[name] is result.results[0]
        assert name in result
    assert "ndcg@6" not in result
    assert [part.measure.name for part in result] == ["ndcg", "map"]
    assert len(result) == 2
    with pytest.raises(UnknownName, match="measure of this evaluation 'ndcg@6' is not known"):
        result["ndcg@6"]


def test_a_preset_does_not_change_the_name_a_result_answers_to():
    data, scores = make()
    result = evaluate(scores, data, "ndcg@5", preset="lightgbm")
    assert str(result["ndcg@5"].measure) == "ndcg@5[empty=1]"
    assert result["ndcg@5"].conventions["empty"] == "1"


def test_conventions_hold_what_the_data_decided():
    data, scores = make()
    result = evaluate(scores, data, ["err", "err[max=4]"])
    assert result["err"].conventions["max"] == "3 (the data's)"
    assert result["err[max=4]"].conventions["max"] == "4"
    judged = np.ones(len(data), bool)
    result = evaluate(scores, data, "map", judged=judged, unjudged="condense")
    assert result["map"].conventions["unjudged"] == "condense"
    weighted = RankingData(
        data.features, data.labels, data.query_ids, query_weights=np.ones(data.n_queries)
    )
    assert evaluate(scores, weighted, "map")["map"].conventions["weights"] == "of queries"


def test_the_share_of_judged_documents_is_taken_before_condensing():
    data = RankingData(np.zeros((3, 1)), [1, 0, 1], [1, 1, 1])
    judged = np.array([False, True, True])
    options = {"judged": judged, "unjudged": "condense", "n_bootstrap": 0}
    result = evaluate([3, 2, 1], data, ["judged@2", "mrr"], **options)
    assert result["judged@2"].value == 0.5
    assert result["mrr"].value == 0.5  # the second of two judged documents


def test_a_query_without_judged_documents_is_empty_when_condensed():
    data = RankingData(np.zeros((4, 1)), [1, 0, 1, 2], ["a", "a", "b", "b"])
    judged = np.array([False, False, True, True])
    result = evaluate(
        [1, 2, 3, 4], data, MEASURES, judged=judged, unjudged="condense", n_bootstrap=10
    )
    for text in (
        "ndcg@10",
        "ndcg[ties=average]",
        "mean_ndcg",
        "map",
        "p@10",
        "r@10",
        "mrr",
        "err@10",
        "rbp",
        "tau",
    ):
        assert result[text].per_query[0] == 0.0
        assert result[text].n_empty == 1
    assert np.isnan(result["rmse"].per_query[0])
    assert result["rmse"].value == pytest.approx(2.0)  # 3 for 1 and 4 for 2


def test_segments_of_queries():
    data, scores = make()
    country = np.where(data.queries % 2 == 0, "no", "se")
    result = evaluate(scores, data, ["ndcg", "auc"], by=country)
    assert list(result.segments) == ["no", "se"]
    for name, part in result.segments.items():
        rows = np.flatnonzero(country[data.query_of_row] == name)
        alone = evaluate(scores[rows], data.take_rows(rows), ["ndcg", "auc"])
        for text in ("ndcg", "auc"):
            assert part[text].value == pytest.approx(alone[text].value, abs=1e-12)
            assert part[text].interval == alone[text].interval
            assert part[text].n_queries == 20
    by_row = evaluate(scores, data, ["ndcg", "auc"], by=country[data.query_of_row])
    assert by_row.to_dict() == result.to_dict()
    assert [row["segment"] for row in result.rows()] == ["all", "all", "no", "no", "se", "se"]
    assert "segment" in str(result)


def test_segments_may_be_a_feature():
    data, scores = make()
    market = data.query_of_row % 3
    named = RankingData(
        market[:, np.newaxis], data.labels, data.query_ids, feature_names=["market"]
    )
    assert list(evaluate(scores, named, "map", by="market").segments) == [0.0, 1.0, 2.0]
    with pytest.raises(UnknownName, match="feature to segment by 'markt' is not known"):
        evaluate(scores, named, "map", by="markt")


def test_the_table_shows_values_intervals_counts_and_conventions():
    data, scores = make()
    result = evaluate(scores, data, ["ndcg@10", "err"])
    lines = str(result).splitlines()
    assert lines[0].split() == ["measure", "value", "95", "%", "interval", "queries", "empty"]
    assert lines[2].startswith(f"ndcg@10  {result['ndcg@10'].value:.4f}  ")
    assert lines[2].split()[-2:] == ["40", "8"]
    assert lines[-2] == "ndcg@10: gain exponential, discount log2, empty 0, ties data, short keep"
    assert lines[-1] == "err: max 3 (the data's), empty 0, ties data"
    assert result._repr_html_().count("<tr>") == 3
    assert json.loads(json.dumps(result.to_dict()))["err"]["n_empty"] == 8


def test_evaluate_prints_nothing(capsys):
    data, scores = make()
    evaluate(scores, data)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0, np.nan, np.nan], r"scores\[1\] is NaN \(2 in all\)"),
        ([1.0, 2.0], r"scores has 2 values, but the data have 3 rows"),
        ([[1.0], [2.0], [3.0]], r"scores must have one dimension, got 2"),
        (["a", "b", "c"], r"scores must be numbers"),
        (None, r"scores must be numbers"),
    ],
)
def test_bad_scores_are_refused(scores, message):
    data = RankingData(np.zeros((3, 1)), [1, 0, 1], [1, 1, 2])
    with pytest.raises(DataError, match=message):
        evaluate(scores, data, "ndcg")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"measures": []}, ParameterError, "measures is empty"),
        ({"confidence": 1.0}, ParameterError, r"confidence must be in \(0, 1\), got 1.0"),
        (
            {"n_bootstrap": -1},
            ParameterError,
            "n_bootstrap must be a whole number between 0 and 1000000",
        ),
        ({"judged": [1, 0, 1]}, DataError, "judged must be True or False for each row"),
        ({"judged": [True]}, DataError, "judged has 1 values, but the data have 3 rows"),
        ({"unjudged": "drop"}, UnknownName, "unjudged 'drop' is not known"),
        ({"by": [1, 2, 3, 4]}, DataError, r"by has 4 values; it needs one per query \(2\)"),
        ({"by": [1, 2, 1]}, DataError, r"by changes within query 1 \(row 1\)"),
        ({"preset": "lgbm"}, UnknownName, "preset 'lgbm' is not known"),
        ({"measures": "ndcg[ties=docid]"}, DataError, "ties=docid needs the documents' ids"),
        ({"n_threads": 0}, ParameterError, "n_threads must be a whole number"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    data = RankingData(np.zeros((3, 1)), [1, 0, 1], [1, 1, 2])
    with pytest.raises(error, match=message):
        evaluate([1.0, 2.0, 3.0], data, **({"measures": "ndcg"} | arguments))


def test_data_without_queries_say_what_to_pass():
    data = RankingData(np.zeros((2, 1)), [1, 0])
    with pytest.raises(DataError, match="have no query ids"):
        evaluate([1.0, 2.0], data)


@pytest.mark.parametrize("text", ["ndcg", "dcg@1", "err", "rbp", "mean_ndcg"])
def test_labels_too_large_for_the_exponential_gain_are_named(text):
    data = RankingData(np.zeros((3, 1)), [1, 1330, 0], [1, 2, 2])
    with pytest.raises(
        DataError, match=r"labels\[1\] is 1330, too large for the exponential gain.*gain=linear"
    ):
        evaluate([1.0, 2.0, 3.0], data, text)


def test_large_labels_work_where_they_can():
    data = RankingData(np.zeros((3, 1)), [72, 1, 0], [1, 1, 1])
    assert evaluate([1.0, 2.0, 3.0], data, "ndcg")["ndcg"].value == pytest.approx(
        0.5
    )  # 1 / log2(4)
    huge = RankingData(np.zeros((2, 1)), [1330, 0], [1, 1])
    result = evaluate([1.0, 2.0], huge, "ndcg[gain=linear]")
    assert result["ndcg[gain=linear]"].value == pytest.approx(1 / np.log2(3))


def test_labels_outside_a_table_or_scale_are_named():
    data = RankingData(np.zeros((3, 1)), [1, 3, 0.5], [1, 1, 1])
    with pytest.raises(
        DataError, match=r"labels\[1\] is 3, but the gain table has the labels 0 to 2 only"
    ):
        evaluate([1, 2, 3], data, "ndcg[gain=0/1/3]")
    with pytest.raises(DataError, match=r"labels\[2\] is 0.5, but the gain table"):
        evaluate([1, 2, 3], data, "ndcg[gain=0/1/3/7]")
    with pytest.raises(DataError, match=r"labels\[1\] is 3, above the max=2 of err\[max=2\]"):
        evaluate([1, 2, 3], data, "err[max=2]")
    whole = RankingData(np.zeros((2, 1)), [1, 0], [1, 1])
    with pytest.raises(
        ParameterError, match="max=7 is not a label of the gain table, which has 0 to 1"
    ):
        evaluate([1, 2], whole, "rbp[gain=0/1,max=7]")


def test_a_scale_beyond_floating_point_gives_nothing_rather_than_nonsense():
    data = RankingData(np.zeros((2, 1)), [1, 0], [1, 1])
    for text in ("err[max=5000]", "rbp[max=5000]"):
        assert evaluate([1, 2], data, text, n_bootstrap=0)[text].value == 0.0


def test_infinite_scores_have_an_infinite_rmse():
    data = RankingData(np.zeros((2, 1)), [1, 0], [1, 2])
    assert evaluate([np.inf, 0.0], data, "rmse")["rmse"].value == np.inf


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None, True, np.int64(-3)])
def test_a_wrong_seed_is_named(seed):
    data, scores = make(5)
    with pytest.raises(ParameterError, match="seed must be a whole number of at least 0, got"):
        evaluate(scores, data, "map", seed=seed)


def test_more_resamples_than_memory_holds_are_refused():
    data, scores = make(5)
    with pytest.raises(ParameterError, match=r"n_bootstrap must be .* between 0 and 1000000"):
        evaluate(scores, data, "map", n_bootstrap=10**9)


def test_one_text_cannot_stand_for_two_measures():
    data, scores = make(5)
    asked = [Measure("ndcg", 5), "ndcg@5"]
    assert len(evaluate(scores, data, asked)) == 1  # the same measure
    with pytest.raises(ParameterError, match="'ndcg@5' is asked for twice, with different conv"):
        evaluate(scores, data, asked, preset="sklearn")


def test_scores_of_different_lengths_and_masked_scores_are_refused():
    data, scores = make(5)
    with pytest.raises(DataError, match="scores must be one number per row, got lists of"):
        evaluate([[1.0], [1.0, 2.0]], data, "map")
    hidden = np.ma.masked_array(scores, mask=np.arange(scores.size) == 3)
    with pytest.raises(DataError, match=r"scores\[3\] is NaN"):
        evaluate(hidden, data, "map")


def test_the_area_of_a_resample_does_not_depend_on_those_beside_it():
    # Sums by a BLAS differ in the last bit with the number of rows: 200 chances to notice.
    rng = np.random.default_rng(0)
    curve = PooledCurve.of(group(*make(300)[::-1]), 1.0, np.arange(300))
    weights = rng.random((200, 300))
    together = curve.areas(weights, (0.0, 1.0))
    alone = [curve.areas(weights[row : row + 1], (0.0, 1.0))[0] for row in range(200)]
    assert_array_equal(together, alone)
