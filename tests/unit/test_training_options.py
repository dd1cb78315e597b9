"""What a fit of boosted trees can be asked for: sets, measures, start scores, limited features, dropout."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

import rankwood as rw
from rankwood.engines.engine import ThreadsEngine
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.models.format import load_model, save_model
from rankwood.rankers.boosted import RoundRanker
from rankwood.rankers.save import estimators

SMALL = {"n_trees": 8, "max_leaves": 6, "min_leaf": 3}
KINDS = pytest.mark.parametrize("kind", [rw.LambdaMART, rw.GBRT])
WAYS = {
    "l1": {"l1": 0.5},
    "features per tree": {"features_per_tree": 0.5},
    "and per node": {"features_per_tree": 4, "features_per_node": 0.5},
    "interactions": {"interactions": [[0, 1], [2, 3, 4]]},
    "dropout": {"dropout": 0.3},
    "dropout with skips": {"dropout": 1.0, "skip_dropout": 0.5},
}
ALL_WAYS = pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)


@pytest.fixture(scope="module")
def parts():
    data = rw.make_ranking(n_queries=40, docs_per_query=12, n_features=8, missing=0.05, seed=1)
    return rw.split_queries(data, (0.6, 0.2, 0.2), seed=1)


def ndcg(model, data) -> float:
    return rw.parse_measure("ndcg@10").per_query(model.predict(data), data).mean()


# Validation data.


def boosted_rankers():
    for name, kind in estimators().items():
        if issubclass(kind, RoundRanker):
            small = {"n_rounds": 12} if "n_rounds" in kind().get_params() else {"n_trees": 12}
            yield pytest.param(kind(**small), id=name)


@pytest.mark.parametrize("ranker", list(boosted_rankers()))
def test_validation_data_keep_the_best_prefix_without_a_word(ranker, parts):
    train, vali, _ = parts
    assert ranker.early_stopping == "best"
    if hasattr(ranker, "forest_trees"):
        ranker.forest_trees = 5
    if type(ranker).__name__ == "AdaBoost":  # two classes
        train, vali = (
            rw.RankingData(one.features, (one.labels > 1).astype(float), one.query_ids)
            for one in (train, vali)
        )
    ranker.fit(train, valid=vali)
    best = ranker.best_iteration_
    assert len(ranker.history_) >= best
    if best == 0:  # the forest that boosting starts from is ahead
        assert ranker.forest_.n_trees == 5
        return
    known = [value for value in ranker.history_ if value == value]
    assert ranker.history_[best - 1] == max(known) or hasattr(ranker, "forest_measure_")
    assert ndcg(ranker, vali) == pytest.approx(ranker.history_[best - 1], abs=1e-9)


@KINDS
@ALL_WAYS
def test_the_first_set_and_measure_decide_and_all_are_recorded(kind, options, parts):
    train, vali, test = parts
    alone = kind(**SMALL, **options).fit(train, valid=vali)
    both = kind(**SMALL, **options, measure=["ndcg@10", "map"])
    both.fit(train, valid={"vali": vali, "test": test, "train": train})
    assert both.forest_ == alone.forest_
    assert both.best_iteration_ == alone.best_iteration_
    assert list(both.history_) == ["vali", "test", "train"]
    assert both.history_["vali"]["ndcg@10"] == alone.history_
    for name, data in (("vali", vali), ("test", test), ("train", train)):
        assert list(both.history_[name]) == ["ndcg@10", "map"]
        for measure, values in both.history_[name].items():
            other = kind(**SMALL, **options, measure=measure).fit(train, valid=data)
            assert values == pytest.approx(other.history_, abs=1e-12)


def test_forests_record_sets_and_measures(parts):
    train, vali, test = parts
    options = {"n_trees": 4, "max_leaves": 8}
    forest = rw.RandomForest(**options, measure=["map", "rmse"])
    forest.fit(train, valid={"a": vali, "b": test})
    for name, data in (("a", vali), ("b", test)):
        for measure in ("map", "rmse"):
            alone = rw.RandomForest(**options, measure=measure).fit(train, valid=data)
            assert forest.history_[name][measure] == pytest.approx(alone.history_, abs=1e-12)


def test_a_measure_may_be_a_function_of_scores_and_data(parts, tmp_path):
    train, vali, _ = parts
    first = rw.parse_measure("ndcg@1")

    def mine(scores, data):
        return first.per_query(scores, data).mean()

    model = rw.LambdaMART(**SMALL, measure=mine).fit(train, valid=vali)
    same = rw.LambdaMART(**SMALL, measure="ndcg@1").fit(train, valid=vali)
    assert model.history_ == pytest.approx(same.history_, abs=1e-12)
    assert model.forest_ == same.forest_
    rw.save(model, tmp_path / "model")
    assert rw.load(tmp_path / "model").measure.endswith("mine")
    with pytest.raises(ParameterError, match="measure wrong must give one number, got str"):
        rw.LambdaMART(**SMALL, measure=wrong).fit(train, valid=vali)


def wrong(_scores, _data):
    return "much"


def test_histories_of_sets_are_stored_and_cut(parts, tmp_path):
    train, vali, test = parts
    model = rw.GBRT(**SMALL, measure=["rmse", "ndcg@10"]).fit(train, valid={"a": vali, "b": test})
    rw.save(model, tmp_path / "model")
    assert rw.load(tmp_path / "model").history_ == model.history_
    shorter = model.truncated(1)
    assert shorter.history_["b"]["ndcg@10"] == model.history_["b"]["ndcg@10"][:1]
    more = rw.GBRT(**SMALL, measure=["rmse", "ndcg@10"], warm_start=True, early_stopping=None)
    more.fit(train, valid={"a": vali, "b": test})
    more.n_trees = 10
    more.fit(train, valid={"a": vali, "b": test})
    assert {len(values) for each in more.history_.values() for values in each.values()} == {10}


def test_wrong_sets_and_measures_are_named(parts):
    train, vali, _ = parts
    model = rw.LambdaMART(**SMALL)
    without = rw.RankingData(vali.features, vali.labels)
    with pytest.raises(ParameterError, match="valid is an empty mapping"):
        model.fit(train, valid={})
    with pytest.raises(ParameterError, match="must map names to data, got the name 3"):
        model.fit(train, valid={3: vali})
    with pytest.raises(DataError, match="valid has no query ids"):
        model.fit(train, valid={"a": vali, "b": without})
    with pytest.raises(ParameterError, match="RankSVM looks at one validation set"):
        rw.RankSVM().fit(train, valid={"a": vali})
    with pytest.raises(ParameterError, match="measure is an empty list"):
        rw.LambdaMART(measure=[]).fit(train)
    with pytest.raises(ParameterError, match="measure names ndcg@10 twice"):
        rw.LambdaMART(measure=["ndcg@10", "NDCG@10"]).fit(train)


def test_the_set_and_the_measure_that_decided_are_first_in_a_file(parts, tmp_path):
    """JSON keys are sorted in a file; what reads the history takes the first set and measure."""
    train, vali, test = parts
    model = rw.GBRT(**SMALL, measure=["ndcg@10", "map"])
    model.fit(train, valid={"vali": vali, "other": test})
    rw.save(model, tmp_path / "model")
    back = rw.load(tmp_path / "model")
    assert [(name, list(each)) for name, each in back.history_.items()] == [
        ("vali", ["ndcg@10", "map"]),
        ("other", ["ndcg@10", "map"]),
    ]
    assert back.history_ == model.history_
    assert "history_order" not in back.training_
    stored, meta = load_model(tmp_path / "model")
    for broken in ([["vali", "else"], ["map"]], [["vali"]], 3, [[["vali"]], ["map"]]):
        training = {**meta["training"], "history_order": broken}
        save_model(stored, tmp_path / "broken", {**meta, "training": training})
        with pytest.raises(ModelError, match="history_order of other sets or measures"):
            rw.load(tmp_path / "broken")


def test_a_history_is_drawn(parts, tmp_path):
    pytest.importorskip("matplotlib")
    train, vali, test = parts
    model = rw.GBRT(3, measure=["map", "ndcg"]).fit(train, valid={"a": vali, "b": test})
    rw.plot_history(model, tmp_path / "history.svg")
    text = (tmp_path / "history.svg").read_text()
    assert all(f"{name}: {each}" in text for name in "ab" for each in ("map", "ndcg"))
    rw.plot_history(rw.GBRT(3).fit(train, valid=vali), tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 1000
    with pytest.raises(DataError, match="this GBRT has no history"):
        rw.plot_history(rw.GBRT(3).fit(train), tmp_path / "none.png")


# Limits on features, l1, dropout.


@KINDS
@ALL_WAYS
def test_models_are_the_same_bytes_however_they_are_grown(kind, options, parts, tmp_path):
    train, vali, _ = parts
    whole = kind(**SMALL, **options, n_threads=1).fit(train)
    assert kind(**SMALL, **options, n_threads=2).fit(train).forest_ == whole.forest_
    more = kind(**SMALL | {"n_trees": 3}, **options, warm_start=True).fit(train)
    more.n_trees = 8
    assert more.fit(train).forest_ == whole.forest_
    if "interactions" not in options:
        plain = kind(**SMALL).fit(train)
        assert (plain.predict(vali) != whole.predict(vali)).any()
    # A fit that was stopped goes on with its checkpoint.
    stopping = {"checkpoint": tmp_path / "fit", "callbacks": [lambda done: done.iteration == 4]}
    stopped = kind(**SMALL, **options, **stopping).fit(train, valid=vali)
    assert stopped.forest_.n_trees <= 4
    resumed = kind(**SMALL, **options, checkpoint=tmp_path / "fit").fit(train, valid=vali)
    straight = kind(**SMALL, **options).fit(train, valid=vali)
    assert resumed.forest_ == straight.forest_
    assert resumed.history_ == straight.history_
    rw.save(whole, tmp_path / "model")
    again = rw.load(tmp_path / "model")
    assert again.get_params() == whole.get_params() | {"n_threads": None}
    assert (again.predict(vali) == whole.predict(vali)).all()


@ALL_WAYS
def test_data_on_disk_give_the_same_model(options, parts, tmp_path):
    train = parts[0]
    rw.write_letor(train, tmp_path / "train.txt")
    rw.bin_files(tmp_path / "train.txt", tmp_path / "folder")
    data = rw.read_letor(tmp_path / "train.txt")
    folder = rw.open_binned(tmp_path / "folder")
    options = {**SMALL, **options, "measure": ["ndcg@10", "map"]}
    there = rw.LambdaMART(**options).fit(folder, valid={"train": folder})
    here = rw.LambdaMART(**options).fit(data, valid={"train": data})
    assert there.forest_ == here.forest_
    assert there.history_ == here.history_
    assert (there.leaf_ids(folder) == here.leaf_ids(data)).all()
    for (one, scores), (other, others) in zip(
        there.predict_stages(folder, 3), here.predict_stages(data, 3), strict=True
    ):
        assert one == other
        assert (scores == others).all()


@KINDS
@pytest.mark.parametrize(("share", "number"), [(0.5, 4), (3, 3), (0.01, 1)])
def test_a_tree_splits_on_its_features_only(kind, share, number, parts):
    model = kind(**SMALL, features_per_tree=share).fit(parts[0])
    chosen = set()
    for tree in range(model.forest_.n_trees):
        features = model.forest_.take_trees([tree]).feature
        own = set(features[features >= 0].tolist())
        assert len(own) <= number
        chosen |= own
    assert len(chosen) > number  # they differ from tree to tree
    assert model.is_random


def paths(forest, node=None, above=()):
    """The features on each path from a root to a leaf."""
    if node is None:
        for root in forest.tree_offsets[:-1].tolist():
            yield from paths(forest, root)
    elif forest.feature[node] < 0:
        yield set(above)
    else:
        features = (*above, int(forest.feature[node]))
        for child in {int(forest.left[node]), int(forest.right[node]), int(forest.missing[node])}:
            yield from paths(forest, child, features)


@KINDS
@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([[0, 1], [1, 2, 3]], [{0, 1}, {1, 2, 3}, {4, 5, 6, 7}]),
        ([[feature] for feature in range(8)], [{feature} for feature in range(8)]),
    ],
)
def test_only_features_of_a_group_meet(kind, groups, expected, parts):
    train, _, _ = parts
    model = kind(**SMALL, interactions=groups, missing="own_child").fit(train)
    met = list(paths(model.forest_))
    assert all(any(path <= group for group in expected) for path in met)
    free = kind(**SMALL, missing="own_child").fit(train)
    assert not all(any(path <= group for group in expected) for path in paths(free.forest_))
    named = rw.RankingData(
        train.features, train.labels, train.query_ids, feature_names=tuple("abcdefgh")
    )
    by_name = [["abcdefgh"[feature] for feature in group] for group in groups]
    other = kind(**SMALL, interactions=by_name, missing="own_child").fit(named)
    assert (other.predict(named) == model.predict(train)).all()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("bm25", "interactions must be a list of groups of features"),
        ([3], "a group of interactions must be a list of features, got 3"),
        ([["bm25"]], "interactions name a feature that the data lack: 'bm25'"),
        ([[8]], "a feature of interactions must be .* got 8"),
    ],
)
def test_wrong_groups_are_named(groups, message, parts):
    with pytest.raises(ParameterError, match=message):
        rw.GBRT(2, interactions=groups).fit(parts[0])


def test_a_search_refuses_what_its_steps_cannot_honour(parts):
    for name, value in (
        ("l1", 1.0),
        ("features_per_tree", 2),
        ("interactions", [[0]]),
        ("dropout", 0.5),
    ):
        base = rw.LambdaMART(max_leaves=2, **{name: value})
        with pytest.raises(ParameterError, match=f"base has {name}="):
            rw.BoostingTree(base, budget=2).fit(parts[0])


def slow_dart(train, rounds, share, rate, seed):
    """DART in plain numpy: stumps of one least-squares split, weights and draws as the paper has them."""
    from rankwood._core.random import stream

    outputs, weights = [], []
    for number in range(rounds):
        _, which, *draws = stream(seed, "dropout", number).random(number + 2)
        dropped = [tree for tree in range(number) if draws[tree] < share]
        if number and not dropped:
            dropped = [int(which * number)]
        kept = sum(
            (
                w * out
                for tree, (w, out) in enumerate(zip(weights, outputs, strict=True))
                if tree not in dropped
            ),
            np.zeros(len(train.labels)),
        )
        residual = train.labels - kept
        options = {**SMALL, "n_trees": 1, "features_per_node": None}
        tree = rw.GBRT(start="zero", learning_rate=1.0, **options)
        shifted = residual - residual.min()  # labels are not negative
        outputs.append(tree.fit(train.features, shifted).predict(train.features) + residual.min())
        k = len(dropped)
        weights = [w * k / (k + 1) if tree in dropped else w for tree, w in enumerate(weights)]
        weights.append(rate / (k + 1))
    return sum(w * out for w, out in zip(weights, outputs, strict=True)), weights


@pytest.mark.parametrize("share", [0.0001, 0.4, 1.0])
def test_dropout_equals_the_slow_twin(share, parts):
    train, _, _ = parts
    scores, weights = slow_dart(train, 8, share, 0.3, 5)
    options = {**SMALL, "start": "zero", "learning_rate": 0.3, "features_per_node": None}
    model = rw.GBRT(**options, dropout=share, seed=5).fit(train)
    np.testing.assert_allclose(model.forest_.tree_weights, weights, rtol=1e-12)
    np.testing.assert_allclose(model.predict(train), scores, atol=1e-6)


def test_warm_start_goes_on_with_the_same_dropout(parts):
    model = rw.GBRT(**SMALL, dropout=0.5, warm_start=True).fit(parts[0])
    model.set_params(n_trees=10, dropout=0.2)
    with pytest.raises(ParameterError, match="warm_start goes on with the same dropout"):
        model.fit(parts[0])


def test_dropout_needs_the_leaves_of_all_rows(parts, monkeypatch):
    monkeypatch.setattr(ThreadsEngine, "knows_leaves", False)  # as the engine of a cluster says
    with pytest.raises(ParameterError, match="dropout needs the leaf of every row"):
        rw.GBRT(**SMALL, dropout=0.5).fit(parts[0])
    rw.GBRT(**SMALL).fit(parts[0])


# Start scores.


def test_start_scores_are_what_is_fitted_on_top_of(parts):
    train, vali, _ = parts
    rng = np.random.default_rng(3)
    init = rng.random(len(train))
    shifted = rw.RankingData(train.features, train.labels + 1.0 - init, train.query_ids)
    model = rw.GBRT(**SMALL).fit(
        rw.RankingData(train.features, train.labels + 1.0, train.query_ids), init_scores=init
    )
    same = rw.GBRT(**SMALL, start="zero").fit(shifted)
    assert (model.leaf_ids(train) == same.leaf_ids(train)).all()
    np.testing.assert_allclose(model.predict(vali), same.predict(vali), rtol=1e-9)


@KINDS
def test_validation_starts_too(kind, parts):
    train, vali, test = parts
    first = rw.RandomForest(3, max_leaves=6).fit(train)
    starts = {"vali": first.predict(vali), "test": first.predict(test)}
    model = kind(**SMALL).fit(
        train,
        valid={"vali": vali, "test": test},
        init_scores=first.predict(train),
        valid_init_scores=starts,
    )
    best = model.best_iteration_
    measure = rw.parse_measure("ndcg@10")
    for name, data in (("vali", vali), ("test", test)):
        scores = starts[name] + model.predict(data)
        expected = measure.per_query(scores, data).mean()
        assert model.history_[name]["ndcg@10"][best - 1] == pytest.approx(expected)
    alone = kind(**SMALL).fit(
        train, valid=vali, init_scores=first.predict(train), valid_init_scores=starts["vali"]
    )
    assert alone.history_ == model.history_["vali"]["ndcg@10"]


def test_wrong_start_scores_are_named(parts, tmp_path):
    train, vali, _ = parts
    init = np.zeros(len(train))
    model = rw.GBRT(**SMALL)
    with pytest.raises(DataError, match="init_scores has 3 values, but there are"):
        model.fit(train, init_scores=[1, 2, 3])
    with pytest.raises(ParameterError, match="pass valid_init_scores"):
        model.fit(train, valid=vali, init_scores=init)
    with pytest.raises(ParameterError, match="valid_init_scores was passed without init_scores"):
        model.fit(train, valid=vali, valid_init_scores=init)
    with pytest.raises(ParameterError, match="valid_init_scores lacks the set 'b'"):
        model.fit(train, valid={"b": vali}, init_scores=init, valid_init_scores={"a": init})
    checkpoint = tmp_path / "fit"
    rw.GBRT(**SMALL, checkpoint=checkpoint).fit(train, init_scores=init)
    with pytest.raises(ModelError, match="made on other data"):
        rw.GBRT(**SMALL, checkpoint=checkpoint).fit(train, init_scores=init + 1)
    with pytest.raises(TypeError, match=r"RandomForest.fit\(\) got .*'init_scores'"):
        rw.RandomForest(2).fit(train, init_scores=init)


# Parts of a model.


def test_the_first_trees_score_as_the_truncated_model(parts):
    train, _, test = parts
    models = [
        rw.RandomForest(6, max_leaves=8),
        rw.GBRT(**SMALL),
        rw.LambdaMART(**SMALL),
        rw.AveragedGBRT(4, n_runs=2, max_leaves=4, min_leaf=3),
        rw.NDCGBoost(5, min_leaf=3),
        rw.RankBoost(5),
        rw.BROOF(n_rounds=3, n_trees=3, max_leaves=6, stop=None),
    ]
    for model in models:
        model.fit(train)
        forest = model.forest_
        for n_trees, scores in model.predict_stages(test, every=2):
            assert (model.predict(test, n_trees=n_trees) == scores).all()
            expected = forest.take_trees(slice(0, n_trees)).predict(test)
            assert (scores == expected).all()
        leaves = model.leaf_ids(test)
        assert leaves.shape == (len(test), forest.n_trees)
        values = forest.value[leaves + forest.tree_offsets[:-1]]
        total = (values * forest.tree_weights).sum(axis=1)
        total /= forest.tree_weights.sum() if forest.average else 1.0
        np.testing.assert_allclose(total + forest.base, model.predict(test), rtol=1e-9, atol=1e-12)
        with pytest.raises(ParameterError, match="n_trees must be"):
            model.predict(test, n_trees=forest.n_trees + 1)
    search = rw.BoostingTree(budget=3).fit(train)
    assert (
        search.predict(test, n_trees=search.family_.forest.n_trees) == search.predict(test)
    ).all()
    with pytest.raises(
        ModelError, match="leaf_ids is for models that are one forest; that of RankSVM is not"
    ):
        rw.RankSVM().fit(train).leaf_ids(test)


@pytest.mark.parametrize("kind", [rw.LambdaMART, rw.NDCGBoost, rw.RankSVM])
def test_an_order_is_not_scored_without_queries(kind, parts):
    train, _, _ = parts
    model = kind().fit(train)
    with pytest.raises(DataError, match=r"pass qid=.*set_score_request\(qid=True\)"):
        model.score(train.features, train.labels)
    assert model.score(train) == pytest.approx(ndcg(model, train))


# What files and messages say.


def test_files_name_later_parameters_only_where_they_were_set(parts, tmp_path):
    rw.save(rw.GBRT(2).fit(parts[0]), tmp_path / "plain")
    rw.save(rw.GBRT(2, l1=0.5, dropout=0.1).fit(parts[0]), tmp_path / "set")
    named = []
    for name in ("plain", "set"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            named.append(json.loads(archive.read("model.json"))["parameters"])
    later = {"l1", "dropout", "skip_dropout", "features_per_tree", "interactions"}
    assert later.isdisjoint(named[0])
    assert later & set(named[1]) == {"l1", "dropout"}


UNKNOWN = [
    (
        lambda: rw.LambdaMART(n_estimators=3),
        r"^LambdaMART\(\) .*'n_estimators'. It is called n_trees here",
    ),
    (lambda: rw.NDCGBoost(n_estimators=3), "It is called n_rounds here"),
    (lambda: rw.GBRT(num_leaves=3), "It is called max_leaves here"),
    (lambda: rw.GBRT(reg_lambda=3), "It is called l2 here"),
    (lambda: rw.GBRT(colsample_bytree=0.5), "It is called features_per_tree here"),
    (lambda: rw.GBRT(eval_metric="map"), "It is called measure here"),
    (lambda: rw.GBRT(n_treees=3), "Did you mean 'n_trees'"),
    (lambda: rw.GBRT(objective="x"), "Here the class says what is learned"),
    (lambda: rw.RankSVM(num_leaves=2), "It takes: C, tol"),
    (lambda: rw.GBRT().fit(1, eval_set=2), r"^GBRT.fit\(\) .*Here validation data are valid="),
    (lambda: rw.GBRT().fit(1, group=[2]), "Here qid= takes the query of each row"),
    (lambda: rw.RandomForest().fit(1, group=[2]), "Here qid= takes the query of each row"),
    (lambda: rw.GBRT().fit(1, init_score=[2]), "It is called init_scores here"),
    (lambda: rw.GBRT().fit(1, early_stopping_rounds=2), r"constructor: GBRT\(early_stopping=…\)"),
    (lambda: rw.GBRT().predict(1, num_iteration=2), "It is called n_trees here"),
    (lambda: rw.GBRT().predict(1, pred_leaf=True), r"Here leaf_ids\(X\) gives the leaves"),
]


@pytest.mark.parametrize(("call", "message"), UNKNOWN)
def test_names_of_other_libraries_are_answered_by_ours(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize("name", sorted(estimators()))
def test_help_stands_alone(name):
    text = estimators()[name].__doc__
    assert "as for ``" not in text.lower()
    for method in ("fit", "predict", "score", "leaf_ids", "predict_stages"):
        assert getattr(estimators()[name], method).__doc__
