"""BoostingTree(search="beam"): its loop and front against a slow twin, what it keeps, and what interruptions change."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import rankwood as rw
from rankwood.binning.binned import bin_data
from rankwood.errors import ModelError, ParameterError
from rankwood.measures.compute import tie_averaged
from rankwood.measures.measure import parse_measure
from rankwood.models.family import FREE
from rankwood.rankers.search.tree_search import (
    SHARES,
    Beam,
    Models,
    beam_search,
    hold_out,
    is_clearly_ahead,
    most_steps,
    n_steps,
    share_of,
)
from rankwood.studies.sizes import size_quality_front
from tests.reference import beam as reference

BASES = {
    "LambdaMART": rw.LambdaMART(max_leaves=4, learning_rate=0.2, min_leaf=3, l2=0.0),
    "LambdaMART, stumps": rw.LambdaMART(max_leaves=2, learning_rate=0.2, min_leaf=3, l2=0.0),
    "NDCGBoost": rw.NDCGBoost(max_leaves=3, min_leaf=3),
    "AdaBoost": rw.AdaBoost(),
    "AdaBoost, 3 leaves": rw.AdaBoost(max_leaves=3),
    "GBRT": rw.GBRT(max_leaves=3, learning_rate=0.3, min_leaf=3),
}
BASE = BASES["LambdaMART"]


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 12, 6, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(15, 12, 6, seed=4)


@pytest.fixture(scope="module")
def model(data, other):
    return rw.BoostingTree(BASE, max_length=6).fit(data, valid=other)


@pytest.fixture(params=BASES, scope="module")
def base(request):
    return BASES[request.param]


def averaged(model, data, measure="ndcg@10"):
    return float(by_query(model, data, measure).mean())


def by_query(model, data, measure="ndcg@10"):
    return tie_averaged(parse_measure(measure)).per_query(model.predict(data), data)


def saved(model, path):
    rw.save(model, path)
    return path.read_bytes()


# The loop and the front, on made-up models


def made_up(seed, fails=0.1, free_ends=99):
    """A function (model, place, is_free) → worth of the new model, or None; it depends on nothing else."""

    def fit(model, place, is_free):
        random = np.random.default_rng([seed, model, place])
        if (is_free and model >= free_ends) or (not is_free and random.random() < fails):
            return None
        return round(float(random.normal(0.1 * model**0.5, 0.3)), 2)  # ties happen

    return fit


def run(fit, n_sizes, width):
    beam = Beam(Models(None), width, n_sizes)
    beam.models.add(-1, 0.0)
    sizes = []
    for model, is_free in beam_search(beam, lambda: sizes.append(beam.models.n_rounds)):
        worth = fit(model, beam.models.tried[model], is_free)
        beam.models.use_constraint(model, worth is not None)
        if worth is not None:
            new = beam.models.add(model, worth)
            if is_free:
                beam.plain.append(new)
    return beam, sizes


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("free_ends", [99999, 40, 0])
def test_the_search_and_its_front_equal_their_slow_twin(seed, width, free_ends):
    fit = made_up(seed, free_ends=free_ends)
    beam, sizes = run(fit, 12, width)
    expected = reference.search(0.0, fit, 12, width)
    assert beam.models.parent == [each.parent for each in expected]
    assert beam.models.worth == [each.worth for each in expected]
    assert beam.plain == [number for number, each in enumerate(expected) if each.is_plain]
    assert sizes == list(range(1, sizes[-1] + 1))

    def values(number):
        random = np.random.default_rng([seed, 7, number])
        worth = expected[number].worth
        return [random.normal(worth, 0.5, size) for size in (9, 5)]

    def weighted(number):
        return [(part, np.ones(part.size)) for part in values(number)]

    front = beam.front(weighted)
    # an alternative of no greater worth is not compared query by query: worth is the mean of the values there
    expected_front = reference.front(expected, values)
    plain = [max(p for p in beam.plain if beam.models.depth[p] <= n) for n in range(len(front))]
    for ours, theirs, prefix in zip(front, expected_front, plain, strict=True):
        is_better = beam.models.worth[theirs] > beam.models.worth[prefix]
        assert ours == (theirs if is_better else prefix)


def test_the_steps_are_those_of_the_specification():
    assert [n_steps(size) for size in (1, 3, 4, 10, 11, 100)] == [8, 8, 5, 5, 3, 3]
    assert most_steps(50, 4) == 766
    assert most_steps(100, 4) == 1416
    beam, _ = run(lambda model, place, _: float(model) + 0.01 * place, 50, 4)
    assert len(beam.models) == 767


def test_shares_are_drawn_alike():
    drawn = [share_of(number) for number in range(300)]
    assert all(drawn.count(share) == 100 for share in SHARES)


def test_a_search_without_models_ends():
    beam, sizes = run(lambda *_: None, 12, 4)
    assert (len(beam.models), sizes) == (1, [1])
    assert beam.front(lambda _: []) == [0]


def test_a_lead_is_measured_in_standard_errors():
    ones = np.ones(4)
    theirs = [(np.array([0.1, 0.2, 0.3, 0.4]), ones), (np.array([0.5, 0.1, 0.2, 0.2]), ones)]
    better = [(part + 0.1, weights) for part, weights in theirs]
    assert is_clearly_ahead(better, theirs)
    assert not is_clearly_ahead(theirs, better)
    assert not is_clearly_ahead(theirs, theirs)
    noisy = [(part + np.array([0.5, -0.4, 0.3, -0.2]), weights) for part, weights in theirs]
    assert not is_clearly_ahead(noisy, theirs)
    blank = [(np.array([0.9, np.nan, np.nan, np.nan]), ones), theirs[1]]
    assert not is_clearly_ahead(blank, theirs)  # one query has no standard error
    # a query without weight has no say
    weights = np.array([1.0, 1.0, 1.0, 0.0])
    spoiled = [(part + np.array([0.1, 0.1, 0.1, -9.0]), weights) for part, _ in theirs]
    assert is_clearly_ahead(spoiled, [(part, weights) for part, _ in theirs])


# What a fit finds


def test_every_model_is_worth_what_it_says(base, data, other):
    model = rw.BoostingTree(base, max_length=4).fit(data, valid=other)
    tree = model.tree_
    assert model.stopped_because_ == "the models have the greatest length"
    assert (model.n_rounds_, model.n_held_out_) == (4, 0)
    assert len(model.front()) == 5
    for size, point in enumerate(model.front()):
        forest = model.family_.model(point.model)
        assert point.n_trees == size
        assert forest.n_trees == tree.depth[point.model] <= size
        assert averaged(forest, data) == pytest.approx(point.f, abs=1e-12)
        assert averaged(forest, other) == pytest.approx(point.valid, abs=1e-12)
    assert model.forest_ == model.family_.model(model.family_.best())
    assert averaged(model, other) == max(point.valid for point in model.front())


def plain_prefixes(base, data, n_trees):
    length = "n_trees" if "n_trees" in base.get_params() else "n_rounds"
    forest = type(base)(**{**base.get_params(), length: n_trees}).fit(data).forest_
    return [forest.take_trees(slice(0, size)) for size in range(n_trees + 1)]


@pytest.mark.parametrize("name", ["LambdaMART", "NDCGBoost", "AdaBoost", "GBRT"])
def test_the_front_is_plain_boosting_or_clearly_ahead_of_it(name, data, other):
    base = BASES[name]
    model = rw.BoostingTree(base, max_length=5).fit(data, valid=other)
    tree = model.tree_
    prefixes = plain_prefixes(base, data, 5)
    free = [0, *np.flatnonzero(tree.constraint == FREE).tolist()]
    assert tree.depth[free].tolist() == list(range(6))
    for point, plain, number in zip(model.front(), prefixes, free, strict=True):
        assert averaged(plain, data) == pytest.approx(tree.f[number], abs=1e-12)
        if point.model == number:
            continue
        ours = model.family_.model(point.model)
        pairs = [[by_query(each, part) for part in (data, other)] for each in (ours, plain)]
        assert reference.lead_in_errors(*pairs) > 2.0


def test_alternatives_are_taken_where_they_are_ahead():
    data = rw.make_ranking(80, 10, 12, seed=8)
    train, valid = rw.split_queries(data, (0.5, 0.5), seed=1)
    base = rw.LambdaMART(max_leaves=8, learning_rate=0.3, min_leaf=2, l2=0.0)
    model = rw.BoostingTree(base, max_length=8).fit(train, valid=valid)
    constraint = model.tree_.constraint
    assert any(constraint[point.model] != FREE for point in model.front()[1:])


def test_the_beam_has_plain_boosting_and_the_best_others(model):
    tree = model.tree_
    mean = 0.5 * (tree.f + tree.valid)
    for size in range(1, 6):
        of_size = np.flatnonzero(tree.depth == size)
        extended = set(tree.parent[tree.depth == size + 1].tolist())
        plain = [number for number in of_size.tolist() if tree.constraint[number] == FREE]
        assert len(plain) == 1
        assert plain[0] in extended
        others = sorted(set(mean[of_size]) - {mean[plain[0]]}, reverse=True)[:3]
        assert {mean[number] for number in extended - set(plain)} == set(others)


def test_no_tree_divides_queries_at_its_root():
    data = rw.make_ranking(30, 12, 6, seed=5)
    features = data.features.copy()
    of_query = np.random.default_rng(5).integers(0, 6, (data.n_queries, 4)).astype(np.float32)
    features[:, [0, 2, 3, 5]] = of_query[data.query_of_row]
    data = rw.RankingData(features, data.labels, data.query_ids)
    model = rw.BoostingTree(BASE, max_length=3).fit(data)
    forest = model.family_.trees
    assert set(forest.feature[forest.tree_offsets[:-1]].tolist()) <= {1, 4}
    assert model.n_failed_ > 0


# Data


def test_without_validation_data_a_fifth_of_the_queries_is_held_out(data, tmp_path):
    model = rw.BoostingTree(BASE, max_length=3).fit(data)
    assert model.n_held_out_ == 6
    train, held = hold_out(data, 0)
    assert (train.n_queries, held.n_queries) == (24, 6)
    assert not set(train.query_ids) & set(held.query_ids)
    same = rw.BoostingTree(BASE, max_length=3).fit(train, valid=held)
    assert same.tree_ == model.tree_
    assert model.training_["queries"] == 30
    rw.save(model, tmp_path / "model")
    assert rw.load(tmp_path / "model").n_held_out_ == 6
    other = rw.BoostingTree(BASE, max_length=3, seed=1).fit(data)
    assert other.tree_ != model.tree_


def test_binned_data_stay_binned(data, other):
    coarse = bin_data(data, max_bins=5)
    model = rw.BoostingTree(BASE, max_length=2).fit(coarse)
    assert model.n_held_out_ == 6
    forest = model.family_.trees
    used = set(forest.threshold[forest.feature >= 0].tolist())
    assert used <= set(coarse.bins.thresholds.tolist())
    with_valid = rw.BoostingTree(BASE, max_length=2).fit(coarse, valid=other)
    assert with_valid.n_held_out_ == 0


def test_one_query_alone_is_all_there_is(data):
    one = data.take_queries([0])
    model = rw.BoostingTree(rw.LambdaMART(max_leaves=2, min_leaf=1), max_length=2).fit(one)
    assert model.n_held_out_ == 0
    assert np.isnan(model.tree_.valid).all()
    assert set(model.tree_.constraint[[point.model for point in model.front()[1:]]]) == {FREE}


def test_rmse_is_to_fall_with_and_without_queries(data):
    base = rw.GBRT(max_leaves=4, learning_rate=0.5, min_leaf=2)
    model = rw.BoostingTree(base, max_length=4, measure="rmse").fit(data.features, data.labels)
    assert model.n_held_out_ == round(0.2 * data.n_documents)
    assert model.tree_.f.argmin() > 0
    chosen = model.family_.chosen
    assert model.tree_.valid[chosen] == min(point.valid for point in model.front())
    by_query = rw.BoostingTree(base, max_length=3, measure="rmse").fit(data, valid=data)
    assert by_query.forest_.n_trees > 0


def test_labels_that_are_all_alike_give_the_empty_model(data):
    flat = rw.RankingData(data.features, np.ones(data.n_documents), data.query_ids)
    model = rw.BoostingTree(rw.GBRT(max_leaves=2, min_leaf=1), max_length=3).fit(flat)
    assert model.forest_.n_trees == 0
    assert model.stopped_because_ == "every constraint of every model was tried"


# Runs


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_and_cache_change_nothing(n_threads, model, data, other, tmp_path):
    again = rw.BoostingTree(BASE, max_length=6, n_threads=n_threads, cache_mb=0)
    again.fit(data, valid=other).set_params(cache_mb=256)
    assert saved(again, tmp_path / "again") == saved(model, tmp_path / "model")


def at(iteration, what):
    def act(news):
        if news.iteration == iteration:
            raise what

    return act


@pytest.mark.parametrize("stop", [5, 60, 120])
def test_ctrl_c_keeps_what_was_found_and_can_be_gone_on_from(stop, model, data, other, tmp_path):
    path = tmp_path / "checkpoint"
    stopped = rw.BoostingTree(
        BASE, max_length=6, checkpoint=path, callbacks=[at(stop, KeyboardInterrupt())]
    ).fit(data, valid=other)
    assert stopped.stopped_because_ == "interrupted by Ctrl-C"
    assert len(stopped.tree_) == stop + 1
    assert np.array_equal(stopped.tree_.f, model.tree_.f[: stop + 1])
    assert stopped.forest_.n_trees > 0
    resumed = rw.BoostingTree(BASE, max_length=6, checkpoint=path).fit(data, valid=other)
    assert saved(resumed, tmp_path / "resumed") == saved(model, tmp_path / "model")
    finished = rw.BoostingTree(BASE, max_length=6, checkpoint=path).fit(data, valid=other)
    assert saved(finished, tmp_path / "finished") == saved(model, tmp_path / "model")


def test_the_budget_and_callbacks_end_it_too(data, other):
    spent = rw.BoostingTree(BASE, budget=50).fit(data, valid=other)
    assert (len(spent.tree_), spent.stopped_because_) == (51, "the budget is spent")
    asked = rw.BoostingTree(BASE, callbacks=[lambda news: news.iteration == 40])
    asked.fit(data, valid=other)
    assert asked.stopped_because_ == "a callback asked for it"
    assert len(asked.tree_) == 41


def test_progress_tells_sizes_models_and_the_best(data, other):
    seen = []
    model = rw.BoostingTree(BASE, max_length=2, progress=seen.append).fit(data, valid=other)
    assert [news.iteration for news in seen] == list(range(1, len(model.tree_)))
    assert (seen[-1].unit, seen[-1].total) == ("model", most_steps(2, 4))
    assert seen[-1].notes["round"] == 2
    assert seen[-1].measure == pytest.approx((0.5 * (model.tree_.f + model.tree_.valid)).max())


# Models


def test_saved_searches_load_to_the_same_models(base, data, other, tmp_path):
    model = rw.BoostingTree(base, max_length=3).fit(data, valid=other)
    first = saved(model, tmp_path / "model")
    loaded = rw.load(tmp_path / "model")
    assert loaded.front() == model.front()
    assert (loaded.search, loaded.tree_) == ("beam", model.tree_)
    for limit in (0, 1, 2, None):
        assert loaded.best(limit) == model.best(limit)
    assert saved(loaded, tmp_path / "again") == first


def test_the_front_as_a_result(model, other):
    every = size_quality_front(model, other, every_length=True)
    assert every.columns["trees"] == list(range(7))
    assert every.columns["data"] == pytest.approx(every.columns["valid"])
    growth = model.tree_.growth()
    assert growth["round"] == [1, 2, 3, 4, 5, 6]
    assert sum(growth["length"]) == len(model.tree_) - 1


def test_a_smaller_model_is_the_best_of_its_sizes(model, data, other):
    limited = rw.BoostingTree(BASE, max_length=6, max_trees=2).fit(data, valid=other)
    assert limited.tree_ == model.tree_
    assert limited.forest_ == model.best(2)
    assert model.best(0).n_trees == 0
    values = [point.valid for point in model.front()[:3]]
    assert averaged(limited, other) == pytest.approx(max(values))


def test_refitting_searches_no_further_than_the_chosen_size(model, data, other):
    again = rw.refit(model, data, other)
    assert again.max_length == max(1, model.forest_.n_trees)
    assert again.n_held_out_ == 9
    assert again.forest_.n_trees <= again.max_length


@pytest.mark.parametrize(
    ("sizes", "message"),
    [([0, 1], "a model for each"), ([0, 0, -1], "a model for each"), ([1, 1, 1], "at most so")],
)
def test_a_damaged_front_is_refused(sizes, message, data, other):
    family = rw.BoostingTree(BASE, max_length=2).fit(data, valid=other).family_
    with pytest.raises(ModelError, match=message):
        dataclasses.replace(family, chosen_of_size=np.array(sizes, np.int32))


# Parameters

OF_HULL = {
    "evaluate_on": "valid",
    "n_constraints": 3,
    "free_steps": True,
    "select_by": "p@3",
    "constraints": "bandit",
    "exploration": 0.2,
    "smoothing": 0.2,
    "exponent": 0.3,
}


@pytest.mark.parametrize("name", OF_HULL)
def test_parameters_of_the_other_search_are_refused(name, data):
    with pytest.raises(ParameterError, match=f"{name}=.* is of search='hull', .* pass search="):
        rw.BoostingTree(**{name: OF_HULL[name]}).fit(data, valid=data)


def test_wrong_parameters_are_named(data):
    for options, message in (
        ({"search": "beams"}, "search 'beams' is not known. Did you mean 'beam'"),
        ({"beam_width": 0}, "beam_width must be"),
        ({"beam_width": 2.5}, "beam_width must be"),
        ({"search": "hull", "beam_width": 2}, "beam_width=2 is of search='beam'"),
        ({"max_length": 0}, "max_length must be"),
    ):
        with pytest.raises(ParameterError, match=message):
            rw.BoostingTree(**options).fit(data)


def test_the_default_base_is_that_of_the_search():
    assert rw.BoostingTree()._base().max_leaves == 31
    assert rw.BoostingTree(search="hull")._base().max_leaves == 2


def test_seeds_and_widths_give_other_searches(data, other):
    fits = [
        rw.BoostingTree(BASE, max_length=3, **options).fit(data, valid=other)
        for options in ({}, {"seed": 1}, {"beam_width": 1}, {"beam_width": 6})
    ]
    for one, two in itertools.combinations(fits, 2):
        assert one.tree_ != two.tree_
    narrow = fits[2].tree_
    assert (narrow.constraint[np.unique(narrow.parent[narrow.depth > 1])] == FREE).all()
