"""BROOF: its loop against the slow twin, what holds for every choice, and the decisions where the papers leave room."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

import rankwood as rw
from rankwood.engines.bags import Bags, clipped_shares
from rankwood.errors import RankwoodWarning
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import weak_learner_targets
from rankwood.rankers.broof import strategies as parts
from rankwood.rankers.broof.state import (
    QueryFolds,
    RoundForests,
    RoundJudge,
)
from rankwood.training.inputs import training_set
from rankwood.training.rounds import is_clearly_positive
from tests.reference import broof as slow

REWEIGHTING = ("absolute", "median", "height")
ENOUGH_TREES = 24  # for bags by weight: more than e · (3 + log of the rows)


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(25, 8, 5, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(12, 8, 5, seed=4)


@pytest.fixture
def grown(monkeypatch):
    """What every round's forest was grown with, and what it said about the training rows."""
    calls = []
    fit = RoundForests.fit

    def recording(self, number, targets, masses, weights):
        forest = fit(
            dataclasses.replace(self, wants_training=True), number, targets, masses, weights
        )
        calls.append({"targets": targets, "masses": masses, "weights": weights, "forest": forest})
        return forest

    monkeypatch.setattr(RoundForests, "fit", recording)
    return calls


def model(loss="gradient", **parameters):
    """Few trees, so that some rows are in every bag."""
    small = {"n_rounds": 4, "n_trees": 4, "max_leaves": 8, "bag": "row", "stop": None}
    return rw.BROOF(loss, **small | {"n_threads": 1, "seed": 5} | parameters)


def table_4_1():
    """The combinations of the dissertation's Table 4.1."""
    for loss in REWEIGHTING:
        for initial, validation, update in itertools.product(
            ("uniform", "dirichlet"), ("oob", "train"), ("oob", "train")
        ):
            yield {
                "loss": loss,
                "initial_weights": initial,
                "validation": validation,
                "update_weights": update,
            }
    for initial, validation, update in itertools.product(
        ("uniform", "dirichlet"), ("oob", "train"), ("constant", "oob")
    ):
        yield {
            "loss": "gradient",
            "initial_weights": initial,
            "validation": validation,
            "update_weights": update,
        }


def ours():
    """Combinations that the papers do not have."""
    for loss in REWEIGHTING:
        yield {"loss": loss, "validation": "query-folds", "n_folds": 2, "learning_rate": 0.05}
        yield {"loss": loss, "n_rounds": 9, "learning_rate": 0.05}  # until a forest is too wrong
        yield {"loss": loss, "weighting": "resample", "n_trees": ENOUGH_TREES, "n_rounds": 3}
        yield {"loss": loss, "update_weights": "constant"}
        yield {"loss": loss, "base": "extra", "update_weights": "train"}
        yield {"loss": loss, "bag": None, "validation": "train", "update_weights": "train"}
    yield {"loss": "gradient", "validation": "query-folds", "n_folds": 3}
    yield {"loss": "gradient", "update_weights": "train", "weighting": "reweight"}
    yield {
        "loss": "gradient",
        "validation": "train",
        "update_weights": "train",
        "weighting": "resample",
    }
    yield {"loss": "gradient", "base": "extra"}
    yield {"loss": "median", "region": "grade"}
    yield {"loss": "median", "region": "position"}
    yield {"loss": "absolute", "normalize": None, "learning_rate": 0.5}
    yield {"loss": "gradient", "learning_rate": 1.0, "bag": "query"}


COMBINATIONS = [*table_4_1(), *ours()]


def named(choice):
    return "-".join(str(value) for value in choice.values())


@pytest.mark.parametrize("choice", COMBINATIONS, ids=named)
def test_the_loop_equals_its_slow_twin(choice, data, grown):
    if choice.get("normalize", "max") is None:  # errors of at most 1, lest the first forest end it
        data = rw.RankingData(data.features, data.labels / 4, data.query_ids)
    fitted = model(**choice).fit(data)
    is_gradient = choice["loss"] == "gradient"
    has_folds = choice.get("validation") == "query-folds"

    def predict(number, weights):
        return slow.round_predictions(
            grown[number]["forest"].forest,
            data,
            number,
            weights,
            seed=5,
            bag=choice.get("bag", "row"),
            resamples=choice.get("weighting") == "resample",
            clips=choice.get("update_weights") != "train",
            n_folds=choice["n_folds"] if has_folds else None,
        )

    n_rows = data.n_documents
    is_drawn = choice.get("initial_weights") == "dirichlet"
    trace, weights = slow.broof(
        choice["loss"],
        data.labels.tolist(),
        data.query_of_row.tolist(),
        parts.dirichlet(data, seed=5).tolist() if is_drawn else [1 / n_rows] * n_rows,
        predict,
        len(grown),
        rate=choice.get("learning_rate", 0.1 if is_gradient else 1.0),
        validation=choice.get("validation", "oob"),
        update=choice.get("update_weights", "constant" if is_gradient else "oob"),
        region=choice.get("region", "place"),
        normalize=choice.get("normalize", "max"),
    )
    assert len(trace) == len(grown) == len(fitted.history_)
    for call, step, record in zip(grown, trace, fitted.history_, strict=True):
        assert call["targets"] == pytest.approx(step["targets"], abs=1e-12)
        assert call["weights"] == pytest.approx(step["weights"], abs=1e-12)
        assert record["error"] == pytest.approx(step["error"], abs=1e-12)
        assert record["beta"] == (
            None if step["beta"] is None else pytest.approx(step["beta"], rel=1e-9)
        )
    assert fitted.weights_ == pytest.approx(weights, abs=1e-12)
    betas = [step["beta"] for step in trace if step["beta"] is not None]
    alone = [call["forest"].forest.predict(data).tolist() for call in grown[: len(betas)]]
    expected = slow.combined(is_gradient, betas, alone)
    assert fitted.predict(data) == pytest.approx(expected, abs=1e-9)


PAIRS = {
    "defaults": {},
    "map": {"target": "map"},
    "own": {"target": "ndcg@5", "truncation": 3, "normalise": False, "sigma": 2.0},
}


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("validation", ["oob", "train", "query-folds"])
def test_lambda_fits_bounded_steps_at_the_scores_so_far(validation, pairs, data, grown):
    choice = {"validation": validation, "n_folds": 2, "learning_rate": 0.3} | PAIRS[pairs]
    fitted = model("lambda", **choice).fit(data)
    loss = LambdaRank(data, **PAIRS[pairs])
    scores = [0.0] * data.n_documents
    weights = [1 / data.n_documents] * data.n_documents
    n_folds = 2 if validation == "query-folds" else None
    drawing = {"seed": 5, "bag": "row", "resamples": False, "n_folds": n_folds}
    n_raised = 0
    for number, call in enumerate(grown):
        gradients, hessians = loss.gradients(np.array(scores))
        targets, raised = slow.bounded_targets(
            gradients.tolist(), hessians.tolist(), choice.get("sigma", 1.0)
        )
        n_raised += int((np.array(raised) > hessians).sum())
        assert call["targets"] == pytest.approx(targets, abs=1e-9)
        assert call["masses"] == pytest.approx(raised, abs=1e-9)
        forest = call["forest"].forest
        held_out, training = slow.round_predictions(forest, data, number, weights, **drawing)
        guesses = training if validation == "train" else held_out
        scores = [
            score if guess is None else score + 0.3 * guess
            for score, guess in zip(scores, guesses, strict=True)
        ]
    assert n_raised > 0  # else nothing shows that the bound is there
    assert fitted.weights_ == pytest.approx(np.full(data.n_documents, 1 / data.n_documents))
    alone = [call["forest"].forest.predict(data).tolist() for call in grown]
    assert fitted.predict(data) == pytest.approx(slow.combined(True, [0.3] * 4, alone), abs=1e-9)


@pytest.mark.parametrize("sigma", [1.0, 0.5])
def test_lambda_steps_stay_bounded_out_of_bag(sigma, grown):
    """Pairs that out-of-bag scores leave in the wrong order would double the steps every few rounds."""
    noisy = rw.make_ranking(30, 12, 4, noise=3.0, seed=1)
    model("lambda", n_rounds=40, n_trees=3, learning_rate=0.5, sigma=sigma).fit(noisy)
    assert len(grown) == 40
    largest = [float(np.abs(call["targets"]).max()) for call in grown]
    assert max(largest) == pytest.approx(1 / sigma)  # reached, and not passed
    loss = LambdaRank(noisy, sigma=sigma)
    scores = sum(0.5 * np.nan_to_num(call["forest"].held_out) for call in grown)
    free, _ = weak_learner_targets(loss, scores)
    assert np.abs(free).max() > 100 / sigma  # Newton's steps without the bound


def test_lambda_leaves_take_newtons_step(data, grown):
    """One tree of one leaf: minus the sum of the gradients over that of the hessians, of the rows that were drawn."""
    model("lambda", n_rounds=1, n_trees=1, max_leaves=1, bag="query").fit(data)
    gradient, hessian = LambdaRank(data).gradients(np.zeros(data.n_documents))
    hessian = np.maximum(hessian, np.abs(gradient))
    drawn = Bags(data.n_documents, data.query_of_row, seed=5).counts(0)
    expected = -(drawn * gradient).sum() / (drawn * hessian).sum()
    assert grown[0]["forest"].forest.value.tolist() == pytest.approx([expected], abs=1e-12)


def test_the_combinations_meet_what_is_rare(data):
    """Among those above are rounds that were discarded and rounds with rows that no tree left out."""
    histories = [model(**choice).fit(data).history_ for choice in itertools.islice(ours(), 3)]
    records = [record for history in histories for record in history]
    assert any(record["without_oob"] for record in records if record["without_oob"] is not None)
    assert any(record["beta"] is None for record in records)


# What holds for every choice


@pytest.mark.parametrize("loss", [*REWEIGHTING, "gradient"])
def test_weights_sum_to_one(loss, data, grown):
    fitted = model(loss, update_weights="oob", initial_weights="dirichlet").fit(data)
    for weights in [*(call["weights"] for call in grown), fitted.weights_]:
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
        assert weights.min() >= 0


@pytest.mark.parametrize("loss", [*REWEIGHTING, "gradient"])
def test_rows_without_a_prediction_keep_weight_and_residue_to_the_bit(loss, data, grown):
    model(loss, n_trees=2, update_weights="oob").fit(data)
    assert len(grown) > 1
    for before, after in itertools.pairwise(grown):
        unknown = np.isnan(before["forest"].held_out)
        assert 0 < unknown.sum() < unknown.size
        for name in ("weights", "targets"):
            assert np.array_equal(before[name][unknown], after[name][unknown])
        assert not np.array_equal(before["weights"], after["weights"])


@pytest.mark.parametrize("loss", REWEIGHTING)
def test_a_factor_of_all_learner_weights_changes_no_score(loss, data):
    forest = model(loss).fit(data).forest_
    scaled = dataclasses.replace(forest, tree_weights=forest.tree_weights * 37.5)
    assert scaled.predict(data) == pytest.approx(forest.predict(data), abs=1e-12)


@pytest.mark.parametrize("loss", REWEIGHTING)
@pytest.mark.parametrize("weighting", ["resample", "reweight"])
@pytest.mark.parametrize(("base", "kind"), [("forest", rw.RandomForest), ("extra", rw.ExtraTrees)])
def test_one_round_with_uniform_weights_is_the_forest(loss, weighting, base, kind, data):
    forest = kind(ENOUGH_TREES, max_leaves=8, bag="row", seed=5).fit(data)
    choice = {"n_rounds": 1, "n_trees": ENOUGH_TREES, "weighting": weighting, "base": base}
    fitted = model(loss, **choice).fit(data)
    assert fitted.forest_ == forest.forest_
    assert np.array_equal(fitted.predict(data), forest.predict(data))
    assert fitted.oob_scores_ == pytest.approx(forest.oob_scores_, nan_ok=True)


def test_extra_trees_that_see_all_rows(data):
    """The weak learner of Geurts and Louppe, which the SIGIR paper names: random cuts, no bags."""
    choice = {"base": "extra", "bag": None, "validation": "train", "update_weights": "train"}
    fitted = model("absolute", n_rounds=1, **choice).fit(data)
    assert fitted.forest_ == rw.ExtraTrees(4, max_leaves=8, seed=5).fit(data).forest_
    assert np.isnan(fitted.oob_scores_).all()
    assert fitted.oob_ndcg_ is None
    assert fitted.history_[0]["without_oob"] == data.n_documents


def test_one_round_of_gradient_is_the_forest(data):
    # Σ value · 1/8 is (Σ value · 1) / 8 to the bit: an eighth is a power of two.
    forest = rw.RandomForest(8, max_leaves=8, seed=5).fit(data)
    fitted = model("gradient", n_rounds=1, n_trees=8, learning_rate=1.0).fit(data)
    assert np.array_equal(fitted.predict(data), forest.predict(data))
    same = dataclasses.replace(fitted.forest_, average=True, tree_weights=np.ones(8))
    assert same == forest.forest_


def test_full_trees_on_training_predictions_drive_the_residual_down(data, grown):
    model("gradient", n_rounds=8, learning_rate=0.5, max_leaves=None, validation="train").fit(data)
    squares = [float((call["targets"] ** 2).sum()) for call in grown]
    assert all(after < before for before, after in itertools.pairwise(squares))
    assert squares[-1] < 0.1 * squares[0]


# The decisions, line by line


def test_errors_are_divided_by_the_greatest():
    errors = np.array([2.0, math.nan, 4.0, 0.0])
    assert parts.over_greatest(errors).tolist()[::2] == [0.5, 1.0]
    assert np.isnan(parts.over_greatest(errors)[1])
    assert parts.over_greatest(np.zeros(3)).tolist() == [0, 0, 0]


def test_the_mean_error_is_of_the_rows_that_have_one():
    # (0.2 · 0.5 + 0.1 · 1) / (0.2 + 0.1)
    errors, weights = np.array([0.5, math.nan, 1.0]), np.array([0.2, 0.7, 0.1])
    assert parts.mean_error(errors, weights) == pytest.approx(2 / 3)
    assert math.isnan(parts.mean_error(np.full(2, math.nan), np.ones(2)))


def test_literal_heights_stop_at_once_with_a_warning(data):
    with pytest.warns(RankwoodWarning, match=r"error of the first forest is .*forest alone"):
        fitted = model("height", normalize=None).fit(data)
    assert fitted.best_iteration_ == 1
    assert fitted.history_[0]["error"] >= 0.5
    assert np.array_equal(
        fitted.predict(data), rw.RandomForest(4, max_leaves=8, seed=5).fit(data).predict(data)
    )


def test_dirichlet_weights_are_normalised_exponentials(data):
    weights = parts.dirichlet(data, seed=7)
    assert weights.sum() == pytest.approx(1.0)
    assert np.array_equal(weights, parts.dirichlet(data, seed=7))
    assert not np.array_equal(weights, parts.dirichlet(data, seed=8))
    # n · weight is near an exponential of mean 1: a share e^-1 of them is above 1. Three standard errors for n = 20,000.
    many = rw.RankingData(np.zeros((20_000, 1)), np.zeros(20_000))
    share = (parts.dirichlet(many, seed=1) * 20_000 > 1).mean()
    assert share == pytest.approx(math.exp(-1), abs=3 * math.sqrt(0.37 * 0.63 / 20_000))


def test_beta_stays_away_from_0_and_1():
    kind = parts.Reweighting(np.zeros(1), np.abs, learning_rate=1.0)
    assert kind.weight(0.0) == parts.LEAST_BETA
    assert kind.weight(0.25) == pytest.approx(1 / 3)
    assert kind.weight(0.5) == kind.weight(7.0) == 1 - parts.LEAST_BETA
    halved = parts.Reweighting(np.zeros(1), np.abs, learning_rate=0.5)
    assert halved.weight(0.25) == pytest.approx(1 / 6)


def test_a_forest_that_is_too_wrong_is_discarded_and_ends_boosting(data, grown):
    def wrong_from_the_third(predictions, data):
        return np.ones(data.n_documents) if len(grown) >= 3 else abs(data.labels - predictions)

    fitted = model(wrong_from_the_third, n_rounds=9).fit(data)
    assert len(grown) == 3
    assert fitted.best_iteration_ == 2
    assert fitted.forest_.n_trees == 8
    assert fitted.history_[2] == {
        "error": 1.0,
        "beta": None,
        "oob": None,
        "valid": None,
        "without_oob": None,
    }
    assert np.array_equal(fitted.weights_, grown[2]["weights"])


def test_additive_kinds_do_not_look_at_the_error(data):
    labels = np.where(
        data.labels > 0, 9.0, 8.0
    )  # far from 0: a tenth of a forest leaves most of it
    far = rw.RankingData(data.features, labels, data.query_ids)
    fitted = model("gradient").fit(far)
    assert [record["error"] > 0.5 for record in fitted.history_] == [True] * 4


def test_weights_reach_the_forest_as_chances_or_in_the_trees(data):
    heavy = np.where(np.arange(data.n_documents) < 100, 1.0, 0.01)
    small = {"n_rounds": 1, "n_trees": ENOUGH_TREES}
    drawn = model(**small, weighting="resample").fit(data, sample_weight=heavy)
    weighed = model(**small).fit(data, sample_weight=heavy)
    forest = rw.RandomForest(ENOUGH_TREES, max_leaves=8, seed=5, weighting="resample")
    cap = math.log(ENOUGH_TREES / (3 + math.log(data.n_documents))) / data.n_documents
    even = np.array(slow.clipped((heavy / heavy.sum()).tolist(), cap))
    same = forest.fit(data, sample_weight=even).forest_
    assert np.array_equal(drawn.forest_.value, same.value)
    same = forest.set_params(weighting="reweight").fit(data, sample_weight=heavy).forest_
    assert np.array_equal(weighed.forest_.feature, same.feature)
    assert weighed.forest_.value == pytest.approx(same.value)


@pytest.mark.parametrize("loss", REWEIGHTING)
def test_by_resampling_every_row_is_left_out_by_some_tree(loss, data, grown):
    """Weights of the hardest rows grow by a factor of 1/β per round; they are drawn no more often for it."""
    fitted = model(loss, weighting="resample", n_trees=40, n_rounds=6, learning_rate=0.05).fit(data)
    assert max(call["weights"].max() for call in grown) > 10 / data.n_documents
    kept = [record["without_oob"] for record in fitted.history_ if record["beta"] is not None]
    assert kept == [0] * len(kept)


def test_shares_are_clipped(rng):
    shares = rng.dirichlet(np.full(50, 0.1))
    clipped = clipped_shares(shares, 2 / 50)
    assert clipped.sum() == pytest.approx(1.0)
    assert clipped.max() <= 2 / 50
    assert clipped == pytest.approx(slow.clipped(shares.tolist(), 2 / 50))
    few = np.array([0.0, 0.9, 0.1, 0.0])
    assert clipped_shares(few, 0.3).tolist() == [0.0, 0.3, 0.3, 0.0]  # nowhere to go
    assert np.array_equal(clipped_shares(few, 0.9), few)


def test_rows_without_weight_are_no_part_of_the_data(data):
    weights = np.where(np.arange(data.n_documents) % 3 == 0, 0.0, 1.0)
    kept = data.take_rows(weights > 0)
    for loss in (*REWEIGHTING, "gradient", "lambda"):
        fitted = model(loss, n_rounds=2).fit(data, sample_weight=weights)
        less = model(loss, n_rounds=2).fit(kept)
        assert fitted.history_[0] == pytest.approx(less.history_[0], nan_ok=True)
        assert fitted.weights_[weights == 0].tolist() == [0.0] * int((weights == 0).sum())
        assert fitted.predict(data) == pytest.approx(less.predict(data))


@pytest.mark.parametrize("validation", ["oob", "train"])
def test_residues_use_the_chosen_predictions(validation, data, grown):
    model("gradient", learning_rate=0.5, validation=validation).fit(data)
    forest = grown[0]["forest"]
    guesses = forest.held_out if validation == "oob" else forest.training
    expected = data.labels - 0.5 * np.nan_to_num(guesses)
    assert grown[1]["targets"] == pytest.approx(expected)
    assert not np.allclose(np.nan_to_num(forest.held_out), forest.training)


def test_query_folds_predict_a_query_by_trees_that_have_not_seen_it(data, grown):
    """Labels of one fold are turned round: what is predicted for it must not change."""
    chosen = {"validation": "query-folds", "n_folds": 3, "n_trees": 6, "n_rounds": 1}
    model("gradient", **chosen).fit(data)
    folds = QueryFolds.deal(training_set(data, data, 255, 1), 3, seed=5)
    is_first = folds.fold_of_row == 0
    assert not set(data.query_of_row[is_first]) & set(data.query_of_row[~is_first])
    turned = np.where(is_first, 4 - data.labels, data.labels)
    model("gradient", **chosen).fit(rw.RankingData(data.features, turned, data.query_ids))
    before, after = (call["forest"].held_out for call in grown)
    assert np.array_equal(before[is_first], after[is_first])
    assert not np.isnan(before).any()
    assert not np.array_equal(before[~is_first], after[~is_first])


# Stopping, and what is put down


def test_the_history_says_what_happened(data, other):
    fitted = model("gradient", n_rounds=3).fit(data, valid=other)
    assert [sorted(record) for record in fitted.history_] == [
        ["beta", "error", "oob", "valid", "without_oob"]
    ] * 3
    value = rw.evaluate(fitted, other, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert fitted.history_[-1]["valid"] == pytest.approx(value, abs=1e-12)
    known = ~np.isnan(fitted.oob_scores_)
    part = data.take_rows(known)
    value = rw.evaluate(fitted.oob_scores_[known], part, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert fitted.history_[-1]["oob"] == pytest.approx(value, abs=1e-12)
    first = rw.RandomForest(4, max_leaves=8, seed=5).fit(data)
    assert fitted.history_[0]["without_oob"] == int((first.oob_counts_ == 0).sum()) > 0


@pytest.mark.parametrize("stop", ["oob", "valid"])
@pytest.mark.parametrize("loss", ["gradient", "lambda"])
def test_patience_keeps_the_best_prefix(stop, loss, data, other):
    settings = {"n_rounds": 30, "learning_rate": 0.9}
    fitted = model(loss, stop=stop, patience=3, **settings).fit(data, valid=other)
    values = [record[stop] for record in fitted.history_ if record["beta"] is not None]
    best = int(np.argmax(values)) + 1
    assert fitted.best_iteration_ == best < 30
    assert len(values) <= best + 3
    shorter = model(loss, **settings | {"n_rounds": best}).fit(data)
    assert fitted.forest_ == shorter.forest_
    assert np.array_equal(fitted.oob_scores_, shorter.oob_scores_, equal_nan=True)


def values_of_rounds(loss, stop, settings, data, other):
    """NDCG@10 of each query after each round, None where there is no score."""
    measure = rw.parse_measure("ndcg@10")
    for n_rounds in range(1, settings["n_rounds"] + 1):
        fitted = model(loss, **settings | {"n_rounds": n_rounds}).fit(data)
        if fitted.best_iteration_ < n_rounds:
            return
        judged, scores = other, fitted.predict(other)
        if stop == "oob":
            known = ~np.isnan(fitted.oob_scores_)
            judged, scores = data.take_rows(known), fitted.oob_scores_[known]
        found = dict(zip(judged.queries, measure.per_query(scores, judged), strict=True))
        yield [found.get(query) for query in (other if stop == "valid" else data).queries]


@pytest.mark.parametrize("stop", ["oob", "valid"])
@pytest.mark.parametrize("loss", ["absolute", "height", "gradient"])
def test_rounds_are_kept_as_the_slow_twin_keeps_them(loss, stop, data, other):
    """Of the kinds that re-weight, later rounds must be a standard error ahead of the first forest."""
    is_reweighting = loss in REWEIGHTING
    n_kept = []
    for seed in range(3):
        settings = {"n_rounds": 7, "seed": seed, "learning_rate": 0.2}
        values = list(values_of_rounds(loss, stop, settings, data, other))
        fitted = model(loss, stop=stop, patience=2, **settings).fit(data, valid=other)
        kept, grown = slow.kept_rounds(values, 2, guards_first=is_reweighting)
        assert fitted.best_iteration_ == kept
        assert len([each for each in fitted.history_ if each["beta"] is not None]) == grown
        same = model(loss, **settings | {"n_rounds": kept}).fit(data)
        assert fitted.forest_ == same.forest_
        assert np.array_equal(fitted.oob_scores_, same.oob_scores_, equal_nan=True)
        best = int(np.argmax([each[stop] or 0.0 for each in fitted.history_])) + 1
        assert ("kept alone" in fitted.stopped_because_) == (kept < best)
        n_kept.append((kept, best))
    assert is_reweighting or all(kept == best for kept, best in n_kept)


def test_values_of_queries_whose_rows_are_not_together(rng):
    """Rows without a score are left out; the first row of a query may be one of them."""
    grouped = rw.make_ranking(6, 5, 2, seed=1)
    data = grouped.take_rows(rng.permutation(grouped.n_documents))
    scores = np.where(rng.random(data.n_documents) < 0.4, np.nan, rng.random(data.n_documents))
    scores[data.query_ids == data.queries[2]] = np.nan
    judge = RoundJudge(rw.parse_measure("ndcg@3"), data, None, None, "oob", 1)
    values = judge.values(scores, None)
    for value, query in zip(values, data.queries, strict=True):
        rows = np.flatnonzero((data.query_ids == query) & ~np.isnan(scores))
        if rows.size == 0:
            assert np.isnan(value)
        else:
            (expected,) = judge.measure.per_query(scores[rows], data.take_rows(rows))
            assert value == expected
    assert np.isnan(values).sum() >= 1


def test_what_is_clearly_positive():
    # The mean is 1; standard deviations are 1 and 3, over √4.
    assert is_clearly_positive(np.array([0.0, 2.0, 1.0, 1.0, math.nan]))
    assert not is_clearly_positive(np.array([-2.5, 4.5, 1.0, 1.0]))
    assert not is_clearly_positive(np.zeros(3))
    assert not is_clearly_positive(np.full(3, math.nan))
    assert is_clearly_positive(np.array([0.1]))
    assert not is_clearly_positive(np.array([-0.1]))


def test_by_default_rounds_stop_by_validation_data_where_given_else_out_of_bag(data, other):
    settings = {"n_rounds": 40, "learning_rate": 0.9, "patience": 2}
    judged = model(**settings, stop="auto").fit(data, valid=other)
    assert judged.forest_ == model(**settings, stop="valid").fit(data, valid=other).forest_
    assert judged.stopped_because_ == "early stopping: the validation measure has not improved"
    alone = model(**settings, stop="auto").fit(data)
    assert alone.forest_ == model(**settings, stop="oob").fit(data).forest_
    assert alone.stopped_because_ == "early stopping: the out-of-bag measure has not improved"
    assert len(alone.history_) == alone.best_iteration_ + 2 < 40
    told = model(**settings | {"n_rounds": 5}).fit(data)
    assert told.stopped_because_ == "all rounds are done"
    assert told.best_iteration_ == 5
    bare = model(**settings | {"n_rounds": 5}, stop="auto").fit(data.features, data.labels)
    assert bare.best_iteration_ == 5  # no query, no ranking to judge
    measured = model(**settings, stop="auto", measure="rmse").fit(data.features, data.labels)
    assert "out-of-bag" in measured.stopped_because_
    settings["bag"] = None
    unseen = model(**settings | {"n_rounds": 5}, stop="auto", validation="train").fit(data)
    assert unseen.best_iteration_ == 5  # no row is out of bag


def test_by_default_whole_queries_are_drawn_where_there_are_enough(data):
    few = data.take_queries(range(19))
    for part, unit in ((data, "query"), (few, "row")):
        fitted = model(bag="auto").fit(part)
        assert fitted.forest_ == model(bag=unit).fit(part).forest_
        assert fitted.forest_ != model(bag="row" if unit == "query" else "query").fit(part).forest_
    bare = model(bag="auto").fit(data.features, data.labels)
    assert bare.forest_ == model(bag="row").fit(data.features, data.labels).forest_


@pytest.mark.parametrize(("loss", "n_trees"), [("gradient", 50), ("lambda", 50), ("height", 300)])
def test_trees_of_a_forest_by_kind(loss, n_trees, data):
    fitted = model(loss, n_rounds=1, n_trees=None, max_leaves=2).fit(data)
    assert fitted.forest_.n_trees == n_trees


def test_a_measure_that_falls(data, other):
    fitted = model("gradient", n_rounds=25, stop="valid", patience=2, measure="rmse")
    fitted.set_params(learning_rate=1.0).fit(data, valid=other)
    values = [record["valid"] for record in fitted.history_]
    assert fitted.best_iteration_ == int(np.argmin(values)) + 1
    assert values[fitted.best_iteration_ - 1] < values[-1]


def test_progress_tells_of_every_round(data, other):
    told = []
    fitted = model("absolute", n_rounds=3, progress=told.append).fit(data, valid=other)
    assert [(news.iteration, news.total, news.unit) for news in told] == [
        (number, 3, "round") for number in (1, 2, 3)
    ]
    for news, record in zip(told, fitted.history_, strict=True):
        assert news.notes == record
        assert news.measure == record["valid"]
    stopped = model("absolute", n_rounds=9, callbacks=[lambda news: news.iteration == 2]).fit(data)
    assert stopped.best_iteration_ == 2


# A user's own extension points


def test_a_function_for_every_extension_point(data, grown):
    def errors(predictions, data):
        return np.abs(data.labels - predictions) ** 2

    def weights(data):
        return 1.0 + data.labels

    def update(weights, errors, beta):
        return weights * (1 + np.nan_to_num(errors)) * beta

    def validation(forest):
        return np.where(np.isnan(forest.held_out), forest.training, forest.held_out)

    fitted = model(
        errors, validation=validation, initial_weights=weights, update_weights=update
    ).fit(data)
    first, second = grown[0], grown[1]
    start = (1 + data.labels) / (1 + data.labels).sum()
    assert first["weights"] == pytest.approx(start)
    guesses = validation(first["forest"])
    squared = (data.labels - guesses) ** 2
    scaled = squared / squared.max()
    assert fitted.history_[0]["error"] == pytest.approx((scaled * start).sum())
    raised = start * (1 + scaled)
    assert second["weights"] == pytest.approx(raised / raised.sum())


def test_an_object_with_targets_is_an_additive_kind(data):
    class Squared:
        def targets(self, scores, data):
            return data.labels - scores

    class Weighed(Squared):
        def targets(self, scores, data):
            return super().targets(scores, data), np.full(data.n_documents, 2.0)

    expected = model("gradient").fit(data).predict(data)
    assert np.array_equal(model(Squared()).fit(data).predict(data), expected)
    assert model(Weighed()).fit(data).predict(data) == pytest.approx(expected)
