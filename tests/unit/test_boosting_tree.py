"""BoostingTree by the paper's search: what it finds, that cache, threads and interruptions change nothing, and what it keeps."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.measures.compute import RepeatedMeasure, tie_averaged
from rankwood.measures.measure import parse_measure
from rankwood.rankers.search.steps import Constraints
from rankwood.studies.sizes import size_quality_front

hull = functools.partial(rw.BoostingTree, search="hull")
BASES = {
    "LambdaMART": rw.LambdaMART(max_leaves=2, learning_rate=0.2, min_leaf=3),
    "LambdaMART, 4 leaves": rw.LambdaMART(max_leaves=4, learning_rate=0.2, min_leaf=3),
    "NDCGBoost": rw.NDCGBoost(max_leaves=2, min_leaf=3),
    "AdaBoost": rw.AdaBoost(),
    "AdaBoost, 3 leaves": rw.AdaBoost(max_leaves=3),
    "GBRT": rw.GBRT(max_leaves=3, learning_rate=0.3, min_leaf=3),
}


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 12, 6, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(15, 12, 6, seed=4)


@pytest.fixture(params=BASES, scope="module")
def base(request):
    return BASES[request.param]


def averaged(model, data, measure="ndcg@10"):
    return float(tie_averaged(parse_measure(measure)).per_query(model.predict(data), data).mean())


def test_every_model_is_worth_what_it_says(base, data, other):
    model = hull(base, budget=60).fit(data, valid=other)
    tree = model.tree_
    assert model.stopped_because_ == "the budget is spent"
    for point in model.front():
        forest = model.family_.model(point.model)
        assert forest.n_trees == point.n_trees == tree.depth[point.model]
        assert averaged(forest, data) == pytest.approx(point.f, abs=1e-12)
        assert averaged(forest, other) == pytest.approx(point.valid, abs=1e-12)
    for number in range(1, len(tree)):
        assert tree.f_hat[number] == max(tree.f_hat[tree.parent[number]], tree.f[number])
    of_parent = [[] for _ in range(len(tree))]
    for number in range(1, len(tree)):
        of_parent[tree.parent[number]].append(int(tree.constraint[number]))
    assert all(len(set(constraints)) == len(constraints) for constraints in of_parent)


def test_the_front_has_the_best_of_every_length(data, other):
    model = hull(BASES["LambdaMART"], budget=80).fit(data, valid=other)
    tree = model.tree_
    best_so_far = -1.0
    for point in model.front():
        of_length = tree.valid[tree.depth == point.n_trees]
        assert point.valid == of_length.max()
        assert point.is_better == (point.valid > best_so_far)
        best_so_far = max(best_so_far, point.valid)
    assert model.best(5).n_trees <= 5
    assert averaged(model.best(5), other) == pytest.approx(tree.valid[tree.depth <= 5].max())
    assert model.best().n_trees == model.forest_.n_trees
    assert model.best(0).n_trees == 0
    limited = hull(BASES["LambdaMART"], budget=80, max_trees=3).fit(data, valid=other)
    assert limited.forest_ == model.best(3)
    assert limited.tree_ == model.tree_


def test_without_validation_data_the_training_measure_chooses(data):
    model = hull(BASES["LambdaMART"], budget=50).fit(data)
    assert np.isnan(model.tree_.valid).all()
    assert averaged(model, data) == pytest.approx(model.tree_.f.max())


def test_the_search_may_look_at_validation_data(data, other):
    model = hull(BASES["LambdaMART"], budget=50, evaluate_on="valid")
    model.fit(data, valid=other)
    assert np.array_equal(model.tree_.f, model.tree_.valid)
    with pytest.raises(ParameterError, match="evaluate_on='valid' needs validation data"):
        model.fit(data)


def test_models_are_chosen_by_a_measure_of_its_own(data, other):
    options = {"measure": "ndcg@10", "select_by": "p@3"}
    model = hull(BASES["LambdaMART"], budget=50, **options).fit(data, valid=other)
    plain_one = hull(BASES["LambdaMART"], budget=50).fit(data, valid=other)
    assert np.array_equal(model.tree_.f, plain_one.tree_.f)  # f is the same
    assert np.array_equal(model.tree_.parent, plain_one.tree_.parent)
    assert averaged(model, other, "p@3") == pytest.approx(model.tree_.valid.max())
    assert model.family_.measure == "p@3"
    both = hull(BASES["LambdaMART"], budget=20, evaluate_on="valid", **options)
    both.fit(data, valid=other)
    assert averaged(both.family_.model(both.front()[1].model), other) == both.front()[1].f
    with pytest.raises(ParameterError, match="select_by='p@3' chooses on validation data"):
        model.fit(data)


def query_level(seed):
    """Data in which four of six features are constant within queries."""
    data = rw.make_ranking(30, 12, 6, seed=seed)
    features = data.features.copy()
    random = np.random.default_rng(seed)
    of_query = random.integers(0, 6, (data.n_queries, 4)).astype(np.float32)
    features[:, [0, 2, 3, 5]] = of_query[data.query_of_row]
    return rw.RankingData(features, data.labels, data.query_ids)


OF_DOCUMENTS = {1, 4}
SEARCHES = {
    "uniform": lambda base: hull(base, budget=40),
    "bandit": lambda base: hull(base, budget=40, constraints="bandit"),
    "Exp3.P": lambda base: rw.Exp3P(base, n_rounds=30),
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", ["LambdaMART", "LambdaMART, 4 leaves", "NDCGBoost"])
def test_no_tree_divides_queries_at_its_root(search, name):
    model = SEARCHES[search](BASES[name]).fit(query_level(5))
    forest = model.forest_ if search == "Exp3.P" else model.family_.trees
    assert forest.n_trees > 10
    assert set(forest.feature[forest.tree_offsets[:-1]].tolist()) <= OF_DOCUMENTS
    gains = forest.gain[forest.feature >= 0]
    assert gains.min() > 1e-9 * gains.max()
    if search != "Exp3.P":
        assert len(model.tree_) == 41  # failures are not part of the budget
        assert (model.n_failed_ > 0) == (name != "LambdaMART, 4 leaves")


def test_features_that_pay_are_drawn_more_often(data, other):
    for name in ("LambdaMART", "LambdaMART, 4 leaves"):
        options = {"budget": 60, "constraints": "bandit", "exploration": 0.05, "smoothing": 0.0}
        by_bandit = hull(BASES[name], **options).fit(data, valid=other)
        assert len(by_bandit.tree_) == 61
        of_parent = {}
        for number in range(1, 61):
            parent = int(by_bandit.tree_.parent[number])
            of_parent.setdefault(parent, []).append(int(by_bandit.tree_.constraint[number]))
        assert all(len(set(used)) == len(used) for used in of_parent.values())
        uniform = hull(BASES[name], budget=60).fit(data, valid=other)
        assert by_bandit.tree_ != uniform.tree_


@pytest.mark.parametrize("name", ["LambdaMART", "LambdaMART, 4 leaves"])
def test_a_search_by_bandit_goes_on_from_its_checkpoint(name, data, tmp_path):
    options = {"budget": 50, "constraints": "bandit", "exploration": 0.1}
    whole = hull(BASES[name], **options).fit(data)
    path = tmp_path / "checkpoint"
    stopped = hull(BASES[name], checkpoint=path, callbacks=[at(31, KeyboardInterrupt())], **options)
    stopped.fit(data)
    resumed = hull(BASES[name], checkpoint=path, **options).fit(data)
    assert resumed.tree_ == whole.tree_
    assert resumed.n_failed_ == whole.n_failed_


def test_models_stay_below_the_longest_length(data):
    model = hull(BASES["LambdaMART, 4 leaves"], budget=60, max_length=3).fit(data)
    assert model.tree_.depth.max() == 3
    assert len(model.tree_) == 61
    wide = hull(BASES["LambdaMART, 4 leaves"], budget=60, exponent=0.1).fit(data)
    deep = hull(BASES["LambdaMART, 4 leaves"], budget=60, exponent=1.0).fit(data)
    assert wide.tree_ != deep.tree_


def plain(base, data, n_trees):
    length = "n_trees" if "n_trees" in base.get_params() else "n_rounds"
    return type(base)(**{**base.get_params(), length: n_trees}).fit(data).forest_


@pytest.mark.parametrize("name", ["LambdaMART", "NDCGBoost", "AdaBoost", "GBRT"])
def test_with_free_steps_the_models_of_plain_boosting_are_found(name, data):
    base = BASES[name]
    model = hull(base, budget=400, n_constraints=2, free_steps=True).fit(data)
    tree = model.tree_
    expected = plain(base, data, 5)
    number = 0
    found = []
    for _ in range(5):  # follow the free steps from the empty model
        below = np.flatnonzero((tree.parent == number) & (tree.constraint == -1))
        if below.size == 0:
            break
        number = int(below[0])
        found.append(number)
    assert len(found) >= 4
    measure = tie_averaged(parse_measure("ndcg@10"))
    for length, number in enumerate(found, start=1):
        scores = expected.take_trees(slice(0, length)).predict(data)
        assert tree.f[number] == measure.per_query(scores, data).mean()


def test_the_result_does_not_depend_on_the_cache(base, data, other, tmp_path):
    files = []
    for cache_mb in (0, 0.02, 100):
        model = hull(base, budget=40, cache_mb=cache_mb).fit(data, valid=other)
        rw.save(model.set_params(cache_mb=1), tmp_path / f"{cache_mb}")
        files.append((tmp_path / f"{cache_mb}").read_bytes())
    assert files[0] == files[1] == files[2]


def at(iteration, what):
    def act(news):
        if news.iteration == iteration:
            raise what

    return act


def test_ctrl_c_keeps_what_was_found_and_can_be_gone_on_from(data, other, tmp_path):
    base = BASES["LambdaMART"]
    whole = hull(base, budget=40).fit(data, valid=other)
    path = tmp_path / "checkpoint"
    model = hull(base, budget=40, checkpoint=path, callbacks=[at(23, KeyboardInterrupt())])
    model.fit(data, valid=other)
    assert model.stopped_because_ == "interrupted by Ctrl-C"
    assert len(model.tree_) == 24
    assert np.array_equal(model.tree_.f, whole.tree_.f[:24])
    assert model.forest_.n_trees > 0
    resumed = hull(base, budget=40, checkpoint=path).fit(data, valid=other)
    assert resumed.tree_ == whole.tree_
    asked = hull(base, budget=40, callbacks=[lambda news: news.iteration == 5])
    asked.fit(data)
    assert asked.stopped_because_ == "a callback asked for it"
    assert len(asked.tree_) == 6


def test_progress_tells_rounds_models_and_the_best(data):
    seen = []
    model = hull(BASES["LambdaMART"], budget=20, progress=seen.append).fit(data)
    last = seen[-1]
    assert [news.iteration for news in seen] == list(range(1, 21))
    assert (last.unit, last.total) == ("model", 20)
    assert last.measure == model.tree_.f.max()
    assert last.notes["round"] == model.n_rounds_
    assert last.notes["models"] == 21
    assert last.notes["trees"] == model.forest_.n_trees


def test_a_budget_of_one_gives_one_model(data):
    model = hull(BASES["LambdaMART"], budget=1).fit(data)
    assert len(model.tree_) == 2
    assert model.forest_.n_trees == int(model.tree_.f[1] > model.tree_.f[0])


def test_constraints_that_run_out_end_the_search():
    # One feature of two values: one stump per model, and after it nothing is left to split.
    features, labels = np.array([[0.0], [1.0], [0.0], [1.0]]), [0, 1, 0, 1]
    model = hull(rw.AdaBoost(learning_rate=1.0), budget=50, n_constraints=1)
    model.fit(np.zeros((4, 1)), labels, [1, 1, 2, 2])
    assert model.stopped_because_ == "every constraint of every model was tried"
    assert len(model.tree_) == 1
    assert model.forest_.n_trees == 0
    assert model.predict(features).tolist() == [0.0] * 4
    assert model.best(7).n_trees == 0


def test_a_measure_that_never_improves_gives_the_empty_model(data):
    # All labels alike: every ranking is as good as any other.
    flat = rw.RankingData(data.features, np.ones(data.n_documents), data.query_ids)
    model = hull(rw.GBRT(max_leaves=2, min_leaf=1), budget=5).fit(flat)
    assert model.forest_.n_trees == 0  # of equally good models the shortest
    assert len(set(model.tree_.f.tolist())) == 1


def test_rmse_is_to_fall(data):
    base = rw.GBRT(max_leaves=4, learning_rate=0.5, min_leaf=2)
    model = hull(base, budget=60, measure="rmse").fit(data.features, data.labels)
    errors = model.tree_.f
    assert model.forest_.n_trees > 3
    assert np.sqrt(np.mean((model.predict(data) - data.labels) ** 2)) == pytest.approx(errors.min())
    assert model.tree_.f_hat.min() == errors.min()
    assert [p.n_trees for p in model.front() if p.is_better] == sorted(
        p.n_trees for p in model.front() if p.is_better
    )


def test_the_order_of_the_data_does_not_count(data):
    # Few stumps give many ties, and NDCG in the data's order would prefer some models for no reason of theirs.
    turned = data.take_rows(np.random.default_rng(1).permutation(data.n_documents))
    base = rw.GBRT(max_leaves=2, min_leaf=3, learning_rate=0.5)
    one = hull(base, budget=30).fit(data)
    other = hull(base, budget=30).fit(turned)
    np.testing.assert_allclose(one.tree_.f, other.tree_.f, rtol=1e-9)
    assert np.array_equal(one.tree_.parent, other.tree_.parent)


def test_saved_searches_load_to_the_same_models(base, data, other, tmp_path):
    model = hull(base, budget=40).fit(data, valid=other)
    rw.save(model, tmp_path / "model")
    loaded = rw.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(other), model.predict(other))
    assert loaded.tree_ == model.tree_
    for limit in (0, 1, 4, None):
        assert loaded.best(limit) == model.best(limit)
    assert loaded.base.get_params() == base.get_params()
    assert loaded.stopped_because_ == model.stopped_because_
    assert loaded.n_rounds_ == model.n_rounds_
    rw.save(loaded, tmp_path / "again")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "again").read_bytes()


def test_only_the_best_models_keep_their_trees(data):
    model = hull(BASES["LambdaMART"], budget=60).fit(data)
    family = model.family_
    assert family.trees.n_trees < len(model.tree_) - 1
    dropped = int(np.flatnonzero(family.tree_of_model[1:] == -1)[0]) + 1
    with pytest.raises(ModelError, match=f"trees of model {dropped} were not kept"):
        family.model(dropped)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parent": [-1, 0, 2]}, "parent must have a lower number"),
        ({"depth": [0, 1, 3]}, "one hypothesis deeper than its parent"),
        ({"parent": [0, 0, 1]}, "model 0 must be the empty one"),
        ({"constraint": [-2, 0, -7]}, "constraint must be -2 or greater"),
        ({"f": [0.0, 1.0]}, "f must have one value for each of 3 models"),
    ],
)
def test_a_tree_that_cannot_be_is_refused(change, message):
    from rankwood.models.family import EXPLORED_ARRAYS, ExploredTree

    good = {
        "parent": [-1, 0, 1],
        "depth": [0, 1, 2],
        "f": [0.1, 0.2, 0.3],
        "f_hat": [0.1, 0.2, 0.3],
        "valid": [np.nan] * 3,
        "constraint": [-2, 0, 1],
        "round": [0, 1, 2],
    }
    ExploredTree(**{name: np.array(good[name], dtype) for name, dtype in EXPLORED_ARRAYS.items()})
    wrong = {**good, **change}
    with pytest.raises(ModelError, match=message):
        ExploredTree(
            **{name: np.array(wrong[name], dtype) for name, dtype in EXPLORED_ARRAYS.items()}
        )


def test_a_family_that_lacks_trees_is_refused(data):
    family = hull(BASES["LambdaMART"], budget=30).fit(data).family_
    with pytest.raises(ModelError, match="chosen must be a model between 0 and"):
        dataclasses.replace(family, chosen=31)
    with pytest.raises(ModelError, match="every tree once"):
        dataclasses.replace(family, trees=family.trees.take_trees(slice(1, None)))
    lost = family.tree_of_model.copy()
    lost[:] = -1
    with pytest.raises(ModelError, match="were not kept"):
        dataclasses.replace(family, tree_of_model=lost, trees=family.trees.take_trees([]))


def test_pictures_of_the_tree(data):
    tree = hull(BASES["LambdaMART"], budget=30).fit(data).tree_
    text = tree.text(10)
    assert text.splitlines()[0] == f"0: f {tree.f[0]:.4f}, empty"
    assert text.splitlines()[-1] == "… and 21 more models"
    assert len(tree.text().splitlines()) == 31
    assert tree.text().count("← best") == 1
    dot = tree.dot()
    assert dot.startswith("digraph explored {")
    assert dot.count("->") == 30
    import xml.etree.ElementTree as ElementTree

    svg = ElementTree.fromstring(tree.svg())
    assert len(svg.findall("{http://www.w3.org/2000/svg}circle")) == 31
    assert len(svg.findall("{http://www.w3.org/2000/svg}line")) == 30


def test_constraints_are_different_and_follow_from_the_seed():
    stumps = Constraints(5, True, None, False, 1)
    assert stumps.count == 5
    assert sorted(stumps.of(3, place) for place in range(5)) == [0, 1, 2, 3, 4]
    assert [stumps.of(3, place) for place in range(5)] != [
        stumps.of(4, place) for place in range(5)
    ]
    with_free = Constraints(5, True, None, True, 1)
    assert with_free.count == 6
    assert sorted(with_free.of(3, place) for place in range(6)) == [-1, 0, 1, 2, 3, 4]
    few = Constraints(5, True, 2, True, 1)
    assert all(-1 in [few.of(model, 0), few.of(model, 1)] for model in range(20))
    trees = Constraints(5, False, None, False, 1)
    assert trees.count is None
    drawn = [trees.of(2, place) for place in range(50)]
    assert len(set(drawn)) == 50
    assert drawn == [Constraints(5, False, None, False, 1).of(2, place) for place in range(50)]


@pytest.mark.parametrize("measure", ["ndcg@10", "mean_ndcg[discount=letor]", "p@3", "auc", "tau"])
def test_a_repeated_measure_is_the_measure(measure, data):
    from rankwood.measures.compute import mean_value

    wanted = tie_averaged(parse_measure(measure))
    repeated = RepeatedMeasure.of(wanted, data, 1)
    random = np.random.default_rng(0)
    for _ in range(3):
        scores = random.integers(0, 4, data.n_documents).astype(float)
        assert repeated.value(scores) == mean_value(wanted, scores, data)
        lists = repeated.lists(scores)
        ranked = repeated.lists(scores, lists.ranking())
        assert repeated.value(scores, ranked) == mean_value(wanted, scores, data)


def test_a_ranking_serves_measure_and_gradients(data):
    from rankwood.losses.lambdarank import LambdaRank
    from rankwood.losses.loss import weak_learner_targets

    loss = LambdaRank(data)
    repeated = RepeatedMeasure.of(tie_averaged(parse_measure("ndcg")), data)
    assert loss.ranks_as(repeated.template)
    scores = np.random.default_rng(0).normal(size=data.n_documents).round(1)
    ranking = repeated.lists(scores).ranking().order
    for one, other in itertools.zip_longest(
        weak_learner_targets(loss, scores), weak_learner_targets(loss, scores, ranking)
    ):
        assert np.array_equal(one, other)
    weights = (np.arange(data.n_documents) % 3 > 0).astype(float)
    assert not LambdaRank(data, weights=weights).ranks_as(repeated.template)


def test_rows_without_weight_have_no_say(data):
    weights = (np.arange(data.n_documents) % 4 > 0).astype(float)
    weighted = rw.RankingData(data.features, data.labels, data.query_ids, row_weights=weights)
    for name in ("LambdaMART", "NDCGBoost", "GBRT"):
        model = hull(BASES[name], budget=15).fit(weighted)
        assert model.forest_.n_trees > 0


def test_the_front_on_other_data(data, other, tmp_path):
    model = hull(BASES["LambdaMART"], budget=40).fit(data, valid=other)
    front = size_quality_front(model, other)
    assert front.columns["data"] == pytest.approx(front.columns["valid"])
    assert front.columns["trees"][0] == 0
    every = size_quality_front(model, every_length=True)
    assert every.columns["trees"] == list(range(len(model.front())))
    assert "data" not in every.columns
    front.plot(tmp_path / "front.svg")
    assert (tmp_path / "front.svg").read_text().startswith("<?xml")
    with pytest.raises(DataError, match="a plot must end in"):
        front.plot(tmp_path / "front.txt")
    with pytest.raises(ModelError, match="RandomForest has no front"):
        size_quality_front(rw.RandomForest(2).fit(data))


BOOSTED = {
    "LambdaMART": rw.LambdaMART(15, max_leaves=4, min_leaf=3),
    "NDCGBoost": rw.NDCGBoost(15, max_leaves=2, min_leaf=3),
    "RankBoost": rw.RankBoost(15),
    "Exp3P": rw.Exp3P(BASES["LambdaMART"], n_rounds=15),
    "InitializedGBRT": rw.InitializedGBRT(5, 10, min_leaf=3, early_stopping=None),
    "stopped": rw.LambdaMART(60, max_leaves=4, min_leaf=3, early_stopping=5),
}


@pytest.mark.jit_only  # its fits are slow in Python
@pytest.mark.parametrize("name", BOOSTED)
def test_the_front_of_any_boosted_ranker(name, data, other):
    model = BOOSTED[name].fit(data, valid=other)
    front = size_quality_front(model, other)
    valid = front.columns["valid"]
    assert valid == sorted(set(valid))
    assert valid[-1] == max(model.history_[: len(model.history_)])
    assert "train" not in front.columns
    every = size_quality_front(model, other, every_length=True)
    assert every.columns["trees"][-1] == model.forest_.n_trees
    for point, value in zip(every.points, every.on_data, strict=True):
        scores = model.forest_.take_trees(slice(0, point.n_trees)).predict(other)
        measure = tie_averaged(parse_measure(model.measure))
        assert value == pytest.approx(measure.per_query(scores, other).mean(), abs=1e-9)


def test_without_validation_data_every_length_is_on_the_front(data):
    front = size_quality_front(rw.LambdaMART(5, max_leaves=2, min_leaf=3).fit(data), data)
    assert front.columns["trees"] == [1, 2, 3, 4, 5]
    assert list(front.columns) == ["trees", "data"]


def test_the_growth_of_a_search_is_that_of_its_rounds(data):
    model = hull(BASES["LambdaMART"], budget=80).fit(data)
    growth = model.tree_.growth()
    assert growth["round"] == list(range(1, model.n_rounds_ + 1))
    assert growth["models"][-1] == 80
    assert sum(growth["length"]) == 80
    for number, models, depth in zip(
        *(growth[name] for name in ("round", "models", "depth")), strict=True
    ):
        if (
            number < model.n_rounds_
        ):  # the last one may be cut off; no leader has run out of constraints
            assert number <= depth < 2 * number
            assert depth >= (np.sqrt(2 * models + 7) - 1) / 2


def test_refitting_keeps_the_length(data, other):
    model = hull(BASES["GBRT"], budget=30).fit(data, valid=other)
    again = rw.refit(model, data, other)
    assert again.forest_.n_trees <= model.forest_.n_trees
    assert again.max_trees == model.forest_.n_trees


WRONG = {
    "base": ({"base": rw.RandomForest()}, "base must be one of LambdaMART, GBRT, NDCGBoost, AdaBo"),
    "averaged": ({"base": rw.AveragedGBRT()}, "base must be one of .* got AveragedGBRT"),
    "class": ({"base": rw.GBRT}, "base must be one of"),
    "stopping": ({"base": rw.GBRT(early_stopping=3)}, "base has early_stopping=3, but a step is"),
    "subsample": ({"base": rw.GBRT(subsample=0.5)}, "base has subsample=0.5"),
    "of base": ({"base": rw.GBRT(learning_rate=7)}, "learning_rate must be"),
    "measure": ({"measure": "err@10"}, "has no mean over the orders"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parameters_are_named(case, data):
    options, message = WRONG[case]
    with pytest.raises(ParameterError, match=message):
        hull(**options).fit(data)


def test_data_without_queries_need_another_measure(data):
    with pytest.raises(DataError, match="the training data have no query ids, which ndcg needs"):
        hull(rw.GBRT()).fit(data.features, data.labels)
    with pytest.raises(DataError, match="valid has no query ids"):
        hull(rw.GBRT()).fit(data, valid=(data.features, data.labels))


def test_nothing_is_known_before_fitting():
    for name in ("forest_", "tree_"):
        with pytest.raises(AttributeError, match="not fitted yet"):
            getattr(hull(), name)
    with pytest.raises(AttributeError, match="not fitted yet"):
        hull().front()
