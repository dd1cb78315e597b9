"""``counterfactual`` and ``interleave``: slow twins, coverage of the truth, what logs cannot say."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rankwood as rw
from rankwood.clicks.measuring import METHODS, InterleavingTest, rank_weights, ranks_of
from rankwood.errors import DataError, DataWarning, ParameterError, UnknownName
from rankwood.losses.position_bias import Propensities
from tests.reference import clicks as reference

JUDGED = rw.make_ranking(n_queries=10, docs_per_query=8, n_features=4, seed=3)
GOOD = JUDGED.labels + 0.3 * np.random.default_rng(1).normal(size=JUDGED.n_documents)
BAD = -GOOD
LOGGING = [JUDGED.features[:, 0].astype(float), JUDGED.features[:, 1].astype(float)]


def simulated(sessions: int, seed: int = 0, **options):
    return rw.simulate_clicks(JUDGED, LOGGING, sessions=sessions, cutoff=6, seed=seed, **options)


LOG = simulated(300, 4, model="trust")
DATA = LOG.data()


def dcg(k: int):
    return lambda rank: 1.0 / math.log2(rank + 1) if rank <= k else 0.0


def test_estimates_equal_the_slow_twin() -> None:
    scores = GOOD[DATA.doc_ids]
    slope, offset = LOG.truth.bias.at(DATA.positions)
    ranks = ranks_of(scores, DATA)
    lists = [
        tuple(part[rows].tolist() for part in (DATA.labels, slope, offset, ranks))
        for _, rows in DATA.iter_queries()
    ]
    found = rw.counterfactual(scores, DATA, LOG.truth.bias, "dcg@3", clip=3.0)["ranking"]
    expected = reference.counterfactual(lists, dcg(3), 3.0)
    values = (found.ips.value, found.clipped.value, found.self_normalised.value)
    np.testing.assert_allclose((*values, found.effective_sessions), expected, rtol=1e-9)


def test_ranks_count_from_the_top_and_ties_keep_their_order() -> None:
    data = rw.RankingData(np.ones((5, 1)), np.zeros(5), ["a", "b", "a", "b", "a"])
    assert ranks_of(np.array([1.0, 5.0, 2.0, 5.0, 2.0]), data).tolist() == [3, 1, 1, 2, 2]
    weights = rank_weights(np.array([1, 2, 3, 0]), "dcg", 2)
    np.testing.assert_allclose(weights, [1.0, 1.0 / math.log2(3), 0.0, 0.0])
    assert rank_weights(np.array([1, 5]), "precision", 4).tolist() == [0.25, 0.0]


def truth_of(log, scores: np.ndarray, k: int) -> float:
    """The mean over lists of what this order of their documents earns."""
    values = []
    for rows in log.lists:
        shown = rows[rows >= 0]
        order = shown[np.argsort(-scores[shown], kind="stable")]
        gains = log.truth.relevance[order[:k]]
        values.append((gains / np.log2(np.arange(gains.size) + 2)).sum())
    return float(np.mean(values))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["position", "trust"])
def test_intervals_cover_the_truth(model: str) -> None:
    covered = np.zeros(3)
    n_logs = 200
    for seed in range(n_logs):
        log = simulated(2000, seed, model=model)
        data = log.data()
        found = rw.counterfactual(
            {"bad": BAD[data.doc_ids], "good": GOOD[data.doc_ids]}, data, log.truth.bias, "dcg@5"
        )
        good, bad = truth_of(log, GOOD, 5), truth_of(log, BAD, 5)
        covered[0] += found["good"].ips.low <= good <= found["good"].ips.high
        difference = found.differences["good"][0]
        covered[1] += difference.low <= good - bad <= difference.high
        total = np.mean([log.truth.relevance[rows[rows >= 0]].sum() for rows in log.lists])
        own = found["good"].self_normalised
        covered[2] += own.low <= good / total <= own.high
    assert ((covered / n_logs >= 0.90) & (covered / n_logs <= 0.99)).all(), covered / n_logs


def test_counted_clicks_give_the_estimates_of_their_sessions() -> None:
    log = simulated(4000)
    one, other = (
        rw.counterfactual({"a": BAD[data.doc_ids], "b": GOOD[data.doc_ids]}, data, log.truth.bias)
        for data in (log.data(), log.counted())
    )
    for kind in ("ips", "self_normalised", "clipped"):
        of_sessions, of_counts = getattr(one["b"], kind), getattr(other["b"], kind)
        assert of_sessions.value == pytest.approx(of_counts.value, rel=1e-9)
        assert of_sessions.high - of_sessions.low == pytest.approx(
            of_counts.high - of_counts.low, rel=0.1
        )
    assert one["b"].effective_sessions == pytest.approx(other["b"].effective_sessions, rel=0.1)
    assert one.differences["b"][0].value == pytest.approx(other.differences["b"][0].value)
    assert other.differences["b"][1] < 1e-6


def test_the_better_ranking_earns_more() -> None:
    found = rw.counterfactual(
        {"bad": BAD[DATA.doc_ids], "good": GOOD[DATA.doc_ids]}, DATA, LOG.truth.bias, "precision@2"
    )
    difference, p = found.differences["good"]
    assert difference.low > 0.0
    assert p < 0.01
    assert "difference to bad" in str(found)
    assert set(found.to_dict()["rankings"]) == {"bad", "good"}
    assert len(list(found._records())) == 6


def test_a_ranker_scores_the_log_itself() -> None:
    ranker = rw.RandomForest(3, 4).fit(JUDGED)
    by_ranker = rw.counterfactual(ranker, DATA, LOG.truth.bias)["ranking"]
    by_scores = rw.counterfactual(ranker.predict(DATA), DATA, LOG.truth.bias)["ranking"]
    assert by_ranker.ips == by_scores.ips


def test_documents_that_were_never_shown_are_told_of() -> None:
    log = simulated(200)
    with pytest.warns(DataWarning, match="were never shown"):
        found = rw.counterfactual(BAD, log.data(), log.truth.bias, "dcg@5", candidates=JUDGED)
    assert 0.0 < found["ranking"].support < 0.99
    whole = rw.simulate_clicks(JUDGED, LOGGING, sessions=300, cutoff=100)
    found = rw.counterfactual(GOOD, whole.counted(), whole.truth.bias, "dcg@5", candidates=JUDGED)
    again = rw.counterfactual(
        GOOD[whole.counted().doc_ids], whole.counted(), whole.truth.bias, "dcg@5"
    )
    assert found["ranking"].support == 1.0
    assert found["ranking"].ips.value == pytest.approx(again["ranking"].ips.value)


def test_positions_that_the_bias_does_not_know_are_told_of() -> None:
    with pytest.warns(DataWarning, match="does not know the positions of"):
        rw.counterfactual(GOOD[DATA.doc_ids], DATA, Propensities.of([1.0, 0.5]))


def test_wrong_calls_of_counterfactual_are_refused() -> None:
    scores, bias = GOOD[DATA.doc_ids], LOG.truth.bias
    for measure in ("ndcg@10", "dcg@0", "dcg@x"):
        with pytest.raises(ParameterError, match="must be dcg or precision"):
            rw.counterfactual(scores, DATA, bias, measure)
    with pytest.raises(ParameterError, match="needs a cut-off"):
        rw.counterfactual(scores, DATA, bias, "precision")
    with pytest.raises(DataError, match="needs the position"):
        rw.counterfactual(GOOD, JUDGED, bias)
    without_ids = rw.RankingData(
        DATA.features, DATA.labels, DATA.query_ids, positions=DATA.positions
    )
    with pytest.raises(DataError, match="joined by document id"):
        rw.counterfactual(GOOD, without_ids, bias, candidates=JUDGED)
    with pytest.raises(DataError, match="is not among the candidates"):
        rw.counterfactual(GOOD[:5], DATA, bias, candidates=JUDGED.take_rows(np.arange(5)))
    numbers = np.arange(JUDGED.n_documents) % (JUDGED.n_documents - 1)
    twice = rw.RankingData(JUDGED.features, JUDGED.labels, JUDGED.query_ids, numbers)
    with pytest.raises(DataError, match="document 0 comes twice among the candidates"):
        rw.counterfactual(GOOD, DATA, bias, candidates=twice)
    with pytest.raises(ParameterError, match="no ranking 'other'"):
        rw.counterfactual(scores, DATA, bias)["other"]


def test_a_log_without_clicks_earns_nothing() -> None:
    data = rw.RankingData(DATA.features, DATA.labels * 0, DATA.query_ids, positions=DATA.positions)
    found = rw.counterfactual(GOOD[DATA.doc_ids], data, Propensities.of([1.0] * 6))["ranking"]
    assert found.ips == (0.0, 0.0, 0.0)
    assert math.isnan(found.self_normalised.value)
    assert found.effective_sessions == 0.0


# Interleaving.


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("a", "b"), [("abcdef", "fbxyza"), ("abc", "abc"), ("ab", "xyz"), ("", "xy"), ("abcd", "dcba")]
)
def test_a_list_of_two_rankings_has_their_documents_once(method: str, a: str, b: str) -> None:
    for seed in range(20):
        shown = rw.interleave(a, b, method=method, k=4, seed=seed)
        assert len(set(shown.documents)) == len(shown.documents) == min(4, len(set(a + b)))
        assert set(shown.documents) <= set(a + b)
        assert sum(shown.credit(())) == 0.0
        if method == "probabilistic":
            expected = reference.probabilistic_teams(a, b, shown.documents)
            np.testing.assert_allclose(shown.teams, expected, rtol=1e-9)


def test_team_draft_takes_turns() -> None:
    begun = set()
    for seed in range(30):
        shown = rw.interleave("abcd", "wxyz", k=6, seed=seed)
        for first in (0, 2, 4):  # each round has one of each
            assert sorted(shown.teams[first : first + 2]) == [0.0, 1.0]
        begun.add(shown.documents[0])
        one, other = shown.credit(shown.documents)
        assert one == other == 3.0
    assert begun == {"a", "w"}


def test_balanced_credits_the_ranking_that_has_clicked_documents_higher() -> None:
    """Both rankings go down to the depth at which one of them has the last clicked document."""
    for seed in range(10):
        shown = rw.interleave("abcd", "bcde", method="balanced", k=4, seed=seed)
        assert shown.documents in {("a", "b", "c", "d"), ("b", "a", "c", "d")}
        assert shown.credit("b") == (
            0.0,
            1.0,
        )  # depth 1: b is the first of the second ranking alone
        assert shown.credit("a") == (1.0, 0.0)
        assert shown.credit("c") == (0.0, 1.0)  # depth 2: the second ranking has b, c
        assert shown.credit("ac") in {(1.0, 1.0)}


@pytest.mark.parametrize("method", METHODS)
def test_equal_rankings_have_no_preference_and_a_better_one_wins(method: str) -> None:
    same = rw.interleave(GOOD, GOOD, method=method, data=JUDGED, sessions=300, seed=1)
    assert same.p > 0.01
    assert abs(same.preference) < 0.1
    better = rw.interleave(GOOD, BAD, method=method, data=JUDGED, sessions=600, seed=2)
    assert better.preference > 0.0
    assert better.p < 0.01
    assert "sign test" in str(better)
    assert better.to_dict()["wins"]["a"] > better.to_dict()["wins"]["b"]


@pytest.mark.parametrize("model", ["cascade", "dbn", "trust"])
def test_readers_of_every_model_can_be_simulated(model: str) -> None:
    test = rw.interleave(GOOD, BAD, data=JUDGED, sessions=200, model=model, seed=1)
    assert test.credits.shape == (200, 2)


def test_credits_of_a_service_are_tested() -> None:
    test = InterleavingTest(np.array([[1.0, 0.0]] * 8 + [[0.0, 1.0]] + [[1.0, 1.0]]))
    assert test.wins == (8, 1)
    assert test.preference == pytest.approx(0.35)
    assert test.p == pytest.approx(2 * 10 / 512)  # sign test: at most 1 of 9
    assert InterleavingTest(np.zeros((3, 2))).p == 1.0


def test_wrong_calls_of_interleave_are_refused() -> None:
    with pytest.raises(UnknownName, match="method 'draft'"):
        rw.interleave("ab", "ba", method="draft")
    with pytest.raises(DataError, match="names each document once, and b does not"):
        rw.interleave("ab", "bb")
    with pytest.raises(DataError, match="was clicked, but is not in the list"):
        rw.interleave("ab", "ba").credit("z")
    with pytest.raises(UnknownName, match="model of clicks"):
        rw.interleave(GOOD, BAD, data=JUDGED, model="x")


def test_a_service_may_keep_a_generator() -> None:
    generator = np.random.default_rng(1)
    firsts = {rw.interleave("ab", "xy", seed=generator).documents[0] for _ in range(20)}
    assert firsts == {"a", "x"}
