"""Rankers on click logs: one place that makes weights and targets, corrected pairs, biases learned beside the trees."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.position_bias import (
    AdditivePositions,
    CorrectedPairs,
    JointPairs,
    Propensities,
    as_propensities,
    check_bias,
    targets_of,
    weighed,
    write_bias,
)
from rankwood.rankers.base import learned_model
from tests.reference import clicks as reference

BIAS = Propensities.of([1.0, 0.5, 0.3, 0.25, 0.2], clip=4.0)
TRUST = Propensities.of([0.8, 0.5, 0.3, 0.25, 0.2], [0.15, 0.1, 0.05, 0.02, 0.01])
SMALL = {"n_trees": 5, "max_leaves": 4}
RANKERS = {
    "RandomForest": rw.RandomForest(**SMALL),
    "ExtraTrees": rw.ExtraTrees(**SMALL),
    "CompletelyRandomForest": rw.CompletelyRandomForest(**SMALL),
    "GBRT": rw.GBRT(**SMALL, min_leaf=5),
    "AveragedGBRT": rw.AveragedGBRT(**SMALL, n_runs=2, min_leaf=5),
    "InitializedGBRT": rw.InitializedGBRT(**SMALL, forest_trees=3, forest_leaves=4, min_leaf=5),
    "LambdaMART": rw.LambdaMART(**SMALL, min_leaf=5),
    "BROOF": rw.BROOF(n_rounds=2, n_trees=3, max_leaves=4),
    "DeepForest": rw.DeepForest(n_forests=2, n_trees=3, max_leaves=4, max_layers=1),
    "NDCGBoost": rw.NDCGBoost(3),
    "RankBoost": rw.RankBoost(3),
    "AdaBoost": rw.AdaBoost(3),
}


def simulated() -> tuple[rw.RankingData, rw.RankingData]:
    """A log of clicks, and the same as clicks out of impressions."""
    judged = rw.make_ranking(n_queries=12, docs_per_query=8, n_features=5, seed=2)
    scores = [judged.features[:, 0].astype(float), judged.features[:, 1].astype(float)]
    log = rw.simulate_clicks(judged, scores, sessions=250, cutoff=5, seed=3)
    return log.data(), log.counted()


LOG, COUNTED = simulated()


def fit(ranker, **parameters):
    return clone(ranker).set_params(**parameters).fit(LOG)


# The one place.


def test_a_ranker_that_estimates_labels_gets_clicks_over_looks() -> None:
    slope, offset = TRUST.at(LOG.positions)
    data, targets = weighed(LOG, TRUST, regresses=True), targets_of(LOG, TRUST)
    assert data.labels is LOG.labels
    np.testing.assert_allclose(data.row_weights, slope)
    np.testing.assert_allclose(targets, (LOG.labels - offset) / slope)


def test_a_ranker_that_compares_gets_weights() -> None:
    data = weighed(LOG, BIAS, regresses=False)
    expected = [
        1.0 / max([1.0, 0.5, 0.3, 0.25, 0.2][position - 1], 0.25) if click else 1.0
        for position, click in zip(LOG.positions.tolist(), LOG.labels.tolist(), strict=True)
    ]
    np.testing.assert_allclose(data.row_weights, expected)
    trusted = weighed(LOG, TRUST, regresses=False).row_weights
    first = np.flatnonzero(LOG.positions == 1)
    clicked = LOG.labels[first] > 0
    np.testing.assert_allclose(trusted[first[clicked]], (1 - 0.15) / 0.8)
    np.testing.assert_allclose(trusted[first[~clicked]], 1 + 0.15 / 0.8)


def test_clicks_out_of_impressions_are_corrected_themselves() -> None:
    data = weighed(COUNTED, BIAS, regresses=False)
    slope, _ = BIAS.at(COUNTED.positions)
    np.testing.assert_allclose(data.labels, COUNTED.labels / slope)
    np.testing.assert_allclose(data.row_weights, COUNTED.row_weights * slope)


def test_the_mean_of_corrected_clicks_is_the_relevance() -> None:
    judged = rw.make_ranking(n_queries=3, docs_per_query=6, n_features=3, seed=1)
    for model in ("position", "trust"):
        log = rw.simulate_clicks(judged, judged.labels, sessions=60_000, model=model, seed=7)
        counted, bias = log.counted(), log.truth.bias
        error = targets_of(counted, bias) - log.truth.relevance[counted.doc_ids]
        spread = 1.0 / (2.0 * np.sqrt(counted.row_weights) * bias.at(counted.positions)[0])
        assert (np.abs(error) < 4.5 * spread).all()


def test_positions_between_and_below_those_known_have_the_values_of_the_one_above() -> None:
    bias = Propensities.of({1: 1.0, 4: 0.5, 2: 0.8})
    assert bias.positions.tolist() == [1, 2, 4]
    assert bias.at(np.array([1, 3, 4, 99]))[0].tolist() == [1.0, 0.8, 0.5, 0.5]


# Rankers.


@pytest.mark.parametrize("name", RANKERS)
def test_a_bias_of_one_changes_nothing(name: str) -> None:
    plain, corrected = (
        fit(RANKERS[name]),
        fit(RANKERS[name], position_bias=Propensities.of([1.0] * 5)),
    )
    assert plain.predict(LOG).tobytes() == corrected.predict(LOG).tobytes()
    for attribute in ("oob_scores_", "history_"):
        if hasattr(plain, attribute):
            np.testing.assert_array_equal(getattr(plain, attribute), getattr(corrected, attribute))


@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.parametrize("bias", [BIAS, TRUST], ids=["examination", "trust"])
def test_every_tree_ranker_learns_with_a_bias_and_predicts_without_positions(name, bias) -> None:
    ranker = fit(RANKERS[name], position_bias=bias)
    without = rw.RankingData(LOG.features, LOG.labels, LOG.query_ids)
    scores = ranker.predict(without)
    assert np.isfinite(scores).all()
    assert scores.tobytes() != fit(RANKERS[name]).predict(without).tobytes()


@pytest.mark.parametrize("name", ["GBRT", "LambdaMART", "RankBoost", "RandomForest"])
def test_clicks_out_of_impressions_are_learned_from(name: str) -> None:
    ranker = clone(RANKERS[name]).set_params(position_bias=BIAS).fit(COUNTED)
    assert np.unique(ranker.predict(COUNTED)).size > 1


def test_a_binned_log_is_the_log() -> None:
    for ranker in (rw.GBRT(4, position_bias=BIAS), rw.LambdaMART(4, position_bias="joint")):
        one, other = clone(ranker).fit(LOG), clone(ranker).fit(rw.bin(LOG))
        assert one.predict(LOG).tobytes() == other.predict(LOG).tobytes()


def test_a_folder_of_a_log_is_the_log(tmp_path) -> None:
    path = tmp_path / "log.parquet"
    rw.write_table(LOG, path)
    folder = rw.bin_files(path, tmp_path / "folder")
    for ranker in (rw.GBRT(4, position_bias=BIAS), rw.LambdaMART(4, position_bias="additive")):
        one, other = clone(ranker).fit(LOG), clone(ranker).fit(folder)
        assert one.predict(LOG).tobytes() == other.predict(LOG).tobytes()


def test_a_forest_with_a_bias_is_one_of_clicks_over_looks() -> None:
    """One leaf for all rows: its value is Σ clicks / Σ looks."""
    forest = fit(rw.RandomForest(1, 1, bag=None), position_bias=BIAS)
    slope, _ = BIAS.at(LOG.positions)
    assert forest.predict(LOG)[0] == pytest.approx(LOG.labels.sum() / slope.sum(), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"positions": None}, "position_bias needs the position of each document"),
        ({"labels": LOG.labels * 3.0}, "with position_bias, labels are clicks"),
    ],
)
@pytest.mark.parametrize("ranker", [rw.GBRT(2), rw.LambdaMART(2), rw.DeepForest(max_layers=1)])
def test_data_that_are_no_log_are_refused(ranker, change, said: str) -> None:
    parts = {"labels": LOG.labels, "positions": LOG.positions} | change
    data = rw.RankingData(LOG.features, query_ids=LOG.query_ids, **parts)
    with pytest.raises(DataError, match=said):
        clone(ranker).set_params(position_bias=BIAS).fit(data)


def test_a_bias_that_is_none_is_refused(tmp_path) -> None:
    with pytest.raises(ParameterError, match="is LambdaMART's"):
        fit(rw.GBRT(2), position_bias="joint")
    with pytest.raises(ParameterError, match=r"must be what rankwood.position_bias gives"):
        fit(rw.GBRT(2), position_bias=0.5)
    with pytest.raises(ParameterError, match="leave it out where loss is given"):
        fit(rw.LambdaMART(2, loss=lambda s, _: (s, s)), position_bias="joint")
    with pytest.raises(DataError, match="cannot be read"):
        check_bias("position_bias", tmp_path / "nothing.json")
    (tmp_path / "other.json").write_text("[1]")
    with pytest.raises(DataError, match="does not hold a position bias"):
        check_bias("position_bias", tmp_path / "other.json")
    with pytest.raises(DataError, match="is not whole"):
        check_bias("position_bias", {"position_bias": 1, "positions": [1]})
    with pytest.raises(DataError, match="the bias of position 2 is 0"):
        Propensities.of([1.0, 0.0])
    with pytest.raises(ParameterError, match="clip"):
        Propensities.of([1.0], clip=0.5)


def test_a_bias_inside_another_ranker_is_refused_where_it_would_not_be_used() -> None:
    for whole in (
        rw.OrdinalRanker(rw.GBRT(2, position_bias=BIAS)),
        rw.BoostingTree(rw.GBRT(2, position_bias=BIAS), search="hull", budget=2),
    ):
        with pytest.raises(ParameterError, match="inside another ranker has a position_bias"):
            whole.fit(LOG, valid=LOG)


# LambdaMART.


def lists_of(data: rw.RankingData, n_lists: int):
    for _, rows in list(data.iter_queries())[:n_lists]:
        yield rows


@pytest.mark.parametrize("bias", [BIAS, TRUST], ids=["examination", "trust"])
@pytest.mark.parametrize("normalise", [True, False])
def test_corrected_pairs_equal_the_slow_twin(bias, normalise: bool) -> None:
    rng = np.random.default_rng(1)
    for data in (LOG, COUNTED):
        for scores in (rng.normal(size=data.n_documents), np.zeros(data.n_documents)):
            loss = CorrectedPairs(data, normalise=normalise, bias=bias)
            gradient, hessian = loss.gradients(scores)
            slope, offset = bias.at(data.positions)
            for rows in lists_of(data, 40):
                given = [part[rows].tolist() for part in (data.labels, scores, slope, offset)]
                expected = reference.corrected_pairs(*given, normalise=normalise)
                np.testing.assert_allclose(gradient[rows], expected[0], rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(hessian[rows], expected[1], rtol=1e-9, atol=1e-12)
                assert gradient[rows].sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("target", ["ndcg@3", "map", "mrr", "err", "ndcg[gain=linear]"])
def test_without_bias_corrected_pairs_are_lambdarank_to_the_bit(target: str) -> None:
    scores = np.random.default_rng(2).normal(size=LOG.n_documents)
    weights = np.random.default_rng(3).integers(0, 3, LOG.n_documents).astype(float)
    plain = LambdaRank(LOG, target, weights).gradients(scores)
    corrected = CorrectedPairs(LOG, target, weights, bias=Propensities.of([1.0])).gradients(scores)
    first_round = JointPairs(LOG, target, weights).gradients(scores)
    for one, other, joint in zip(plain, corrected, first_round, strict=True):
        assert one.tobytes() == other.tobytes() == joint.tobytes()


def test_joint_ratios_equal_the_slow_twin() -> None:
    rng = np.random.default_rng(4)
    loss = JointPairs(LOG, n_threads=1)
    known = [1, 2, 3, 4, 5]
    up, down = [1.0] * 5, [1.0] * 5
    for _ in range(3):
        scores = rng.normal(size=LOG.n_documents)
        gradient, _ = loss.gradients(scores)
        costs = [[], []]
        places = []
        for rows in lists_of(LOG, LOG.n_queries):
            at = [known.index(position) for position in LOG.positions[rows].tolist()]
            ones, zeros = [1.0] * rows.size, [0.0] * rows.size
            expected = reference.corrected_pairs(
                LOG.labels[rows].tolist(),
                scores[rows].tolist(),
                ones,
                zeros,
                [1.0 / up[place] for place in at],
                [1.0 / down[place] for place in at],
            )
            np.testing.assert_allclose(gradient[rows], expected[0], rtol=1e-8, atol=1e-12)
            for side in (0, 1):
                costs[side] += expected[2][side]
            places += LOG.positions[rows].tolist()
        up = reference.ratios(costs[0], places, known, up)
        down = reference.ratios(costs[1], places, known, down)
        np.testing.assert_allclose(loss.learned[-1], up, rtol=1e-6)


def test_additive_scores_equal_the_slow_twin() -> None:
    loss = AdditivePositions(LOG, learning_rate=0.3, n_threads=1)
    known, added = [1, 2, 3, 4, 5], [0.0] * 5
    scores = np.random.default_rng(5).normal(size=LOG.n_documents)
    for _ in range(3):
        moved = scores + np.array(added)[LOG.positions - 1]
        expected = LambdaRank(LOG).gradients(moved)
        found = loss.gradients(scores)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        parts = [part.tolist() for part in expected]
        added = reference.moved_scores(*parts, LOG.positions.tolist(), known, added, 0.3)
        np.testing.assert_allclose(loss.learned[-1], added, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("bias", ["joint", "additive"])
def test_what_is_learned_beside_the_trees_is_kept(bias: str, tmp_path) -> None:
    model = fit(rw.LambdaMART(6, 4), position_bias=bias)
    assert len(model.position_history_) == 6
    assert [position for position, _ in model.position_bias_] == [1, 2, 3, 4, 5]
    assert model.position_history_[-1] == model.position_bias_
    assert model.truncated(2).position_bias_ == model.position_history_[1]
    path = tmp_path / "model.rankwood"
    rw.save(model, path)
    again = rw.load(path)
    assert again.position_bias_ == model.position_bias_
    assert again.position_bias == bias
    assert again.predict(LOG).tobytes() == model.predict(LOG).tobytes()
    plain = model.set_params(position_bias=None).fit(LOG)
    assert not hasattr(plain, "position_bias_")


@pytest.mark.parametrize("bias", ["joint", "additive"])
def test_a_fit_that_goes_on_learns_positions_as_if_it_had_never_stopped(bias: str) -> None:
    whole = fit(rw.LambdaMART(6, 4), position_bias=bias)
    part = rw.LambdaMART(3, 4, position_bias=bias, warm_start=True).fit(LOG)
    part.set_params(n_trees=6).fit(LOG)
    assert part.predict(LOG).tobytes() == whole.predict(LOG).tobytes()
    assert part.position_history_ == whole.position_history_


@pytest.mark.parametrize("bias", ["joint", "additive"])
@pytest.mark.parametrize(
    "settings", [{}, {"dropout": 0.5}, {"dropout": 0.5, "skip_dropout": 0.5}, {"subsample": 0.5}]
)
@pytest.mark.parametrize("has_starts", [False, True])
def test_positions_are_learned_again_at_the_scores_that_trees_were_fitted_at(
    bias: str, settings, has_starts: bool, tmp_path
) -> None:
    starts = np.random.default_rng(6).normal(size=LOG.n_documents) if has_starts else None
    ranker = rw.LambdaMART(8, 4, learning_rate=0.3, position_bias=bias, seed=1, **settings)
    whole = clone(ranker).fit(LOG, init_scores=starts)
    warm = clone(ranker).set_params(n_trees=5, warm_start=True).fit(LOG, init_scores=starts)
    warm.set_params(n_trees=8).fit(LOG, init_scores=starts)
    stopped = clone(ranker).set_params(checkpoint=tmp_path / "trees")
    stopped.set_params(callbacks=[lambda progress: progress.iteration == 5])
    assert stopped.fit(LOG, init_scores=starts).forest_.n_trees == 5
    resumed = stopped.set_params(callbacks=[]).fit(LOG, init_scores=starts)
    for model in (warm, resumed):
        assert model.position_history_ == whole.position_history_
        assert model.forest_ == whole.forest_


@pytest.mark.parametrize("bias", ["joint", "additive", BIAS])
def test_any_number_of_threads_gives_the_same_bytes(bias) -> None:
    one = fit(rw.LambdaMART(4, 4, n_threads=1), position_bias=bias)
    two = fit(rw.LambdaMART(4, 4, n_threads=2), position_bias=bias)
    assert one.predict(LOG).tobytes() == two.predict(LOG).tobytes()


def test_early_stopping_keeps_the_estimates_of_the_trees_that_are_kept() -> None:
    judged = rw.make_ranking(n_queries=12, docs_per_query=8, n_features=5, seed=2)
    model = rw.LambdaMART(20, 8, learning_rate=0.5, position_bias="joint").fit(LOG, valid=judged)
    assert len(model.position_history_) == model.forest_.n_trees == model.best_iteration_


# Files.


def test_a_model_file_keeps_a_bias_and_says_nothing_of_none(tmp_path) -> None:
    path = tmp_path / "model.rankwood"
    rw.save(fit(rw.GBRT(2), position_bias=BIAS), path)
    again = rw.load(path)
    kept = as_propensities(again.position_bias)
    assert (kept.slope.tolist(), kept.clip) == (BIAS.slope.tolist(), 4.0)
    assert clone(again).fit(LOG).predict(LOG).tobytes() == again.predict(LOG).tobytes()
    rw.save(fit(rw.GBRT(2)), path)
    assert b"position_bias" not in path.read_bytes()


def test_a_bias_may_be_the_path_of_a_saved_one(tmp_path) -> None:
    path = tmp_path / "bias.json"
    write_bias(BIAS.to_dict(), path)
    by_path = fit(rw.LambdaMART(3), position_bias=str(path))
    assert (
        by_path.predict(LOG).tobytes()
        == fit(rw.LambdaMART(3), position_bias=BIAS).predict(LOG).tobytes()
    )


@pytest.mark.parametrize("bias", ["joint", "additive"])
def test_a_checkpoint_of_another_log_is_refused(bias: str, tmp_path) -> None:
    ranker = rw.LambdaMART(3, 4, position_bias=bias, checkpoint=tmp_path / "half")
    ranker.fit(LOG)
    others = rw.RankingData(LOG.features, LOG.labels, LOG.query_ids, positions=LOG.positions + 1)
    with pytest.raises(ModelError, match="was made on other data"):
        ranker.fit(others)


@pytest.mark.parametrize("clicks", [0.0, 1.0])
@pytest.mark.parametrize("bias", ["joint", "additive", BIAS])
def test_a_log_of_no_or_only_clicks_has_no_pairs(bias, clicks: float) -> None:
    data = rw.RankingData(
        LOG.features, LOG.labels * 0 + clicks, LOG.query_ids, positions=LOG.positions
    )
    model = rw.LambdaMART(2, position_bias=bias).fit(data)
    scores = model.predict(data)
    if clicks == 0.0 or isinstance(bias, str):
        assert (scores == 0.0).all()
    else:  # a click further down says more
        assert np.unique(scores).size >= 1
    assert learned_model(model).n_trees == 2
