"""BROOF in use: wrong input of its own, odd data, model files, checkpoints, refitting."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ParameterError, RankwoodWarning, UnknownName

ALL = ("absolute", "median", "height", "gradient", "lambda")


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(20, 8, 5, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(10, 8, 5, seed=4)


def model(loss="gradient", **parameters):
    small = {"n_rounds": 3, "n_trees": 4, "max_leaves": 8, "stop": None, "bag": "row"}
    return rw.BROOF(loss, **small | parameters)


WRONG = {
    "loss": ({"loss": "gradien"}, "loss 'gradien' is not known. Did you mean 'gradient'"),
    "fewer trees than folds": (
        {"validation": "query-folds", "n_folds": 5},
        "5 query folds need at least as many trees per round, got n_trees=4",
    ),
    "bag": ({"bag": "document"}, "bag 'document' is not known"),
    "target that no pair changes": (
        {"loss": "lambda", "target": "rmse"},
        "target must be one of ndcg, map.*'rmse'",
    ),
    "truncation": ({"truncation": 0}, "truncation must be .*1.*got 0"),
    "sigma": ({"sigma": 0.0}, "sigma must be .*got 0"),
    "normalise": ({"normalise": "max"}, "normalise must be True or False"),
    "base": ({"base": "extras"}, "base 'extras' is not known. Did you mean 'extra'"),
    "region": ({"region": "positions"}, "Did you mean 'position'"),
    "stop": ({"stop": "never"}, "stop 'never' is not known"),
    "trees": ({"n_trees": 0}, "n_trees must be .*1.*got 0"),
    "validation without bags": (
        {"bag": None},
        "validation='oob' needs rows that trees have not seen.*bag=None.*validation='train'",
    ),
    "update without bags": (
        {"loss": "height", "bag": None, "validation": "train"},
        "update_weights='oob' needs rows that trees have not seen",
    ),
    "stop without bags": (
        {"bag": None, "validation": "train", "stop": "oob"},
        "stop='oob' needs rows that trees have not seen.*stop='valid'",
    ),
    "draws without bags": (
        {"bag": None, "validation": "train", "weighting": "resample"},
        "weighting='resample' draws rows by weight, but bag=None draws none",
    ),
    "too few trees to leave every row out": (
        {"loss": "absolute", "weighting": "resample"},
        r"with n_trees=4, some of 211 rows .* no out-of-bag prediction.*n_trees=23 or more",
    ),
    "no validation data": ({"stop": "valid"}, "stop='valid' needs validation data"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_parameter_is_named(case, data):
    change, message = WRONG[case]
    with pytest.raises(ParameterError, match=message):
        model(**change).fit(data)


def test_more_folds_than_queries(data):
    few = data.take_queries([0, 1])
    with pytest.raises(DataError, match="3 query folds need as many queries, but there are 2"):
        model(validation="query-folds", n_folds=3).fit(few)
    weights = (data.query_of_row < 2).astype(float)
    with pytest.raises(DataError, match=r"but there are 2\. Pass fewer n_folds"):
        model(validation="query-folds", n_folds=3).fit(data, sample_weight=weights)


def test_what_needs_queries_says_so(data):
    bare = (data.features, data.labels)
    for change in (
        {"loss": "median"},
        {"loss": "height"},
        {"loss": "lambda"},
        {"bag": "query"},
        {"validation": "query-folds", "n_folds": 2},
    ):
        with pytest.raises(DataError, match=r"looks at the documents of a query.*Pass qid="):
            model(**change).fit(*bare)
    with pytest.raises(DataError, match="the training data have no query ids, which ndcg@10 needs"):
        model(stop="oob").fit(*bare)
    with pytest.raises(DataError, match="valid has no query ids, which ndcg@10 needs"):
        model().fit(*bare, valid=bare)


@pytest.mark.parametrize("loss", ["absolute", "gradient"])
def test_without_queries_there_is_no_ranking_measure(loss, data):
    bare = model(loss).fit(data.features, data.labels)
    assert [record["oob"] for record in bare.history_] == [None] * 3
    assert bare.oob_ndcg_ is None
    assert np.array_equal(bare.predict(data), model(loss).fit(data).predict(data))
    measured = model(loss, measure="rmse", stop="oob").fit(data.features, data.labels)
    assert all(record["oob"] > 0 for record in measured.history_)


@pytest.mark.parametrize("loss", ALL)
def test_constant_labels_give_constant_scores(loss, data):
    constant = rw.RankingData(data.features, np.full(data.n_documents, 2.0), data.query_ids)
    fitted = model(loss, learning_rate=0.5).fit(constant)
    # Gradient halves what is left in every round: 2 · (1 - 0.5³).
    # The rows that no tree left out keep their residue, and count as such in the rounds after.
    if loss == "lambda":  # no pair differs
        assert fitted.predict(data).tolist() == [0.0] * data.n_documents
    elif loss != "gradient":
        assert fitted.predict(data).tolist() == [2.0] * data.n_documents
        assert [record["error"] for record in fitted.history_] == [0.0] * 3
    trained = model("gradient", learning_rate=0.5, validation="train").fit(constant)
    assert trained.predict(data) == pytest.approx(np.full(data.n_documents, 1.75))


@pytest.mark.parametrize("loss", ALL)
def test_one_query_is_enough(loss, data):
    longest = int(np.diff(data.query_offsets).argmax())
    fitted = model(loss).fit(data.take_queries([longest]))
    assert np.isfinite(fitted.predict(data)).all()
    assert len(fitted.history_) >= 1


@pytest.mark.parametrize("loss", ALL)
def test_a_forest_of_one_tree(loss, data):
    fitted = model(loss, n_trees=1).fit(data)
    # A bootstrap sample leaves out about 1/e of the rows: the others have no prediction.
    share = fitted.history_[0]["without_oob"] / data.n_documents
    assert share == pytest.approx(1 - np.exp(-1), abs=0.1)
    assert np.isfinite(fitted.predict(data)).all()


def test_one_document(data):
    one = data.take_rows([0])
    fitted = model("gradient").fit(one)
    assert [record["error"] for record in fitted.history_] == [None] * 3
    assert [record["without_oob"] for record in fitted.history_] == [1] * 3
    with pytest.warns(RankwoodWarning, match="could not be found: no row was left out"):
        alone = model("height").fit(one)
    assert alone.best_iteration_ == 1
    assert alone.predict(one).tolist() == [data.labels[0]]


def test_huge_labels_have_no_gain_but_can_be_learned(data):
    huge = rw.RankingData(data.features, data.labels * 1e6, data.query_ids)
    fitted = model("gradient").fit(huge)
    assert fitted.oob_ndcg_ is None
    assert fitted.predict(data) == pytest.approx(1e6 * model("gradient").fit(data).predict(data))
    with pytest.raises(DataError, match="gain"):
        model(stop="oob").fit(huge)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": lambda guesses, _: guesses[:3]}, "one number for each of .* rows, got 3"),
        ({"loss": lambda guesses, _: -np.abs(guesses)}, "must not be negative"),
        ({"loss": lambda guesses, _: np.full_like(guesses, np.inf)}, "must be finite"),
        ({"loss": lambda *_: "none"}, "must be numbers, got str"),
        ({"initial_weights": lambda data: np.zeros(len(data))}, "not all 0"),
        ({"update_weights": lambda weights, *_: -weights}, "must not be negative"),
        ({"validation": lambda forest: forest.held_out[1:]}, "validation must be one number"),
    ],
)  # fmt: skip
def test_what_a_users_function_gives_is_looked_at(parameters, message, data):
    with pytest.raises(ParameterError, match=message):
        model(**{"loss": "absolute"} | parameters).fit(data)


class Squared:
    def targets(self, scores, data):
        return data.labels - scores


def distances(predictions, data):
    return abs(data.labels - predictions)


@pytest.mark.parametrize(("own", "name"), [(distances, "distances"), (Squared(), "Squared")])
def test_a_file_keeps_the_name_of_a_users_loss_and_no_code(own, name, data, tmp_path):
    fitted = model(own).fit(data)
    rw.save(fitted, tmp_path / "m")
    back = rw.load(tmp_path / "m")
    assert np.array_equal(back.predict(data), fitted.predict(data))
    assert back.loss == name
    with pytest.raises(UnknownName, match=f"loss '{name}' is not known"):
        back.fit(data)


def test_the_record_of_the_training_is_in_the_model_file(data, other, tmp_path):
    fitted = model("absolute", stop="valid", patience=2, learning_rate=0.02, n_rounds=9)
    fitted.fit(data, valid=other)
    rw.save(fitted, tmp_path / "m")
    back = rw.load(tmp_path / "m")
    assert back.history_ == fitted.history_
    assert back.best_iteration_ == fitted.best_iteration_
    assert np.array_equal(back.predict(other), fitted.predict(other))


class Stopped(Exception):
    """Raised by a callback, like a Ctrl-C at that moment."""


@pytest.mark.parametrize(
    "choice",
    [
        {"loss": "gradient", "validation": "train"},
        {"loss": "gradient", "stop": "valid", "patience": 2, "learning_rate": 0.9, "n_rounds": 20},
        {"loss": "height", "learning_rate": 0.02, "n_rounds": 20},  # until a forest is discarded
        {"loss": "absolute", "validation": "query-folds", "n_folds": 2},
    ],
    ids=lambda choice: "-".join(str(value) for value in choice.values()),
)
def test_a_stopped_fit_resumes_to_the_same_bytes(choice, data, other, tmp_path, monkeypatch):
    monkeypatch.setattr("rankwood.training.rounds.SECONDS_BETWEEN", 0.0)

    def stop(news):
        if news.iteration == 2:
            raise Stopped("now")

    whole = model(**choice).fit(data, valid=other)
    path = tmp_path / "checkpoint"
    with pytest.raises(Stopped, match="now"):
        model(**choice, checkpoint=path, callbacks=[stop]).fit(data, valid=other)
    for _ in range(2):  # a finished checkpoint gives the same once more
        resumed = model(**choice, checkpoint=path).fit(data, valid=other)
        assert resumed.forest_ == whole.forest_
        assert resumed.history_[: whole.best_iteration_] == whole.history_[: whole.best_iteration_]
        assert np.array_equal(resumed.weights_, whole.weights_)
        assert np.array_equal(resumed.oob_scores_, whole.oob_scores_, equal_nan=True)


def test_refit_uses_the_rounds_that_were_chosen(data, other):
    fitted = model(stop="valid", patience=1, n_rounds=20, learning_rate=0.9).fit(data, valid=other)
    assert fitted.best_iteration_ < 20
    again = rw.refit(fitted, data, other)
    assert again.best_iteration_ == fitted.best_iteration_
    assert again.forest_.n_trees == 4 * fitted.best_iteration_
    assert again.training_["rows"] == data.n_documents + other.n_documents


def test_unknown_names_suggest_the_nearest(data):
    with pytest.raises(UnknownName, match="Did you mean 'query-folds'"):
        model(validation="query_folds").fit(data)


def test_an_experiment_file_reaches_every_parameter(tmp_path):
    pairs = {"target": "map", "truncation": "none", "normalise": False, "sigma": 2.0}
    small = {"kind": "BROOF", "n_rounds": 2, "n_trees": 3, "max_leaves": 4}
    config = {
        "data": {"generate": {"queries": 24, "docs": 6, "features": 4}, "folds": 3},
        "run": {"jobs": 0, "repetitions": 1},
        "algorithm": [
            small | {"name": "lambda", "loss": "lambda", "base": "extra", **pairs},
            small | {"name": "median", "loss": "median", "region": "position", "stop": "none"},
        ],
    }
    results = rw.run_experiment(config, out=tmp_path / "run")
    assert [cell.status for cell in results.cells] == ["done"] * len(results.cells)
