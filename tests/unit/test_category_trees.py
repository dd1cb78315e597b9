"""Trees that split by sets of categories: the split, the bytes, the model, its file and its explanations."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import rankwood as rw
from rankwood.binning.bins import fit_bins, with_categories
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.exports.exporting import FORMATS, export, import_model
from rankwood.exports.writing import without_categories
from rankwood.models.forest import Forest, binary_subsets
from rankwood.models.shapley import contributions
from rankwood.trees.grower import Growth, Policies, grow_tree
from rankwood.trees.row_order import as_matrix
from tests.reference import categories as reference

RANKERS = {
    "GBRT": rw.GBRT(n_trees=4, max_leaves=8),
    "AveragedGBRT": rw.AveragedGBRT(n_runs=2, n_trees=3, max_leaves=8),
    "LambdaMART": rw.LambdaMART(n_trees=4, max_leaves=8),
    "NDCGBoost": rw.NDCGBoost(n_rounds=3),
    "RandomForest": rw.RandomForest(n_trees=4, max_leaves=20),
    "ExtraTrees": rw.ExtraTrees(n_trees=4, max_leaves=20),
    "CompletelyRandomForest": rw.CompletelyRandomForest(n_trees=4, bag="row"),
    "CompletelyRandomForest of few leaves": rw.CompletelyRandomForest(n_trees=4, max_leaves=20),
    "InitializedGBRT": rw.InitializedGBRT(n_trees=3, forest_trees=3),
    "BROOF": rw.BROOF(n_rounds=2, n_trees=2),
    "OrdinalRanker": rw.OrdinalRanker(rw.RandomForest(n_trees=2, max_leaves=8)),
}


def frame_of(n_queries=40, n_categories=30, seed=0):
    """A table with a categorical column that decides the label, with rare and missing categories."""
    draw = np.random.default_rng(seed)
    n_rows = n_queries * 10
    category = np.minimum(draw.geometric(2.0 / n_categories, n_rows) - 1, n_categories - 1)
    effect = draw.normal(size=n_categories)
    table = pd.DataFrame(draw.normal(size=(n_rows, 3)), columns=["a", "b", "c"])
    names = pd.Series([f"brand {number:02d}" for number in category])
    table["brand"] = names.where(draw.random(n_rows) > 0.05)
    labels = np.clip(np.round(1.5 + effect[category] + 0.5 * table["a"]), 0, 4).to_numpy()
    return table, labels, np.repeat(np.arange(n_queries), 10)


@pytest.fixture(scope="module")
def frame():
    return frame_of()


@pytest.fixture(scope="module")
def data(frame):
    return rw.RankingData(*frame, categorical=["brand"])


@pytest.fixture(scope="module")
def model(data):
    return rw.LambdaMART(n_trees=6, max_leaves=8).fit(data)


def stump(targets, codes, n_codes, **options):
    """The gain of the root's split and its categories on the left; None without a split."""
    features = np.asarray(codes, np.float32)[:, np.newaxis]
    bins = with_categories(fit_bins(features), [tuple(map(str, range(n_codes - 1)))])
    matrix = as_matrix(bins.transform(features), bins)
    policies = Policies(Growth(max_leaves=2), **options)
    tree = grow_tree(matrix, np.asarray(targets, np.float64), policies)
    if tree.n_nodes == 1:
        return 0.0, set()
    assert tree.threshold[0] == 0.0
    bits = np.unpackbits(tree.subsets[:1].view(np.uint8), bitorder="little")
    left = set(np.flatnonzero(bits).tolist())
    assert tree.cover[1] == sum(code in left for code in codes)
    return tree.gain[0], left


@pytest.mark.parametrize("seed", range(6))
def test_without_smoothing_no_division_of_the_categories_is_better(seed):
    draw = np.random.default_rng(seed)
    codes = draw.integers(0, 8, 60).tolist()
    targets = draw.integers(-9, 10, 60).tolist()
    gain, _ = stump(targets, codes, 9, category_rows=0.0, category_smoothing=0.0)
    assert gain == pytest.approx(reference.best_of_all_subsets(targets, codes), rel=1e-9)


@pytest.mark.parametrize("n_codes", [2, 3, 5, 6, 40, 255])
@pytest.mark.parametrize("least_rows", [0, 4, 10])
def test_split_is_that_of_the_slow_twin(n_codes, least_rows):
    draw = np.random.default_rng(n_codes)
    codes = np.minimum(draw.geometric(min(1.0, 3.0 / n_codes), 500) - 1, n_codes - 1).tolist()
    targets = draw.integers(0, 5, 500).tolist()
    gain, left = stump(
        targets, codes, n_codes, category_rows=float(least_rows), category_smoothing=10.0
    )
    expected, chosen = reference.best_split(targets, codes, n_codes, 10.0, least_rows)
    assert gain == pytest.approx(expected, rel=1e-9)
    assert left == chosen


def test_one_of_few_categories_is_split_off():
    codes, targets = [0, 0, 1, 1, 2, 2], [0, 0, 9, 9, 1, 1]
    assert stump(targets, codes, 4) == (
        pytest.approx(18**2 / 2 + 2**2 / 4 - 20**2 / 6, rel=1e-9),
        {1},
    )


def test_equal_means_and_a_single_category_give_no_split():
    assert stump([1, 2, 1, 2], [0, 0, 1, 1], 3) == (0.0, set())
    assert stump([1, 2, 3, 4], [7, 7, 7, 7], 20) == (0.0, set())


@pytest.mark.parametrize("name", sorted(RANKERS))
def test_every_ranker_learns_the_same_bytes_by_any_number_of_threads(name, data, frame):
    ranker = RANKERS[name]
    one = ranker.fit(data)
    scores = one.predict(data)
    for n_threads in (2, 3):
        again = type(ranker)(**{**ranker.get_params(deep=False), "n_threads": n_threads}).fit(data)
        assert again.predict(data).tobytes() == scores.tobytes()
    assert one.predict(frame[0]).tobytes() == scores.tobytes()


def test_a_team_of_threads_grows_the_same_tree():
    table, labels, _ = frame_of(n_queries=300, n_categories=200, seed=3)
    data = rw.RankingData(table, labels, categorical=["brand"])
    bins = with_categories(fit_bins(data.features), data.categorical)
    matrix = as_matrix(bins.transform(data.features), bins)
    weights = np.random.default_rng(1).random(labels.size)
    for given in (None, weights):
        for missing in ("learned", "own_child"):
            policies = Policies(Growth(max_leaves=40, min_leaf=5), missing=missing)
            trees = []
            for n_threads in (1, 2, 3, 8):
                import rankwood.trees.grower as grower

                before = grower._LEAST_FOR_TEAM
                grower._LEAST_FOR_TEAM = 1
                try:
                    trees.append(
                        grow_tree(matrix, labels, policies, weights=given, n_threads=n_threads)
                    )
                finally:
                    grower._LEAST_FOR_TEAM = before
            assert trees[0].subsets.any()
            for tree in trees[1:]:
                for field in vars(trees[0]):
                    assert getattr(tree, field).tobytes() == getattr(trees[0], field).tobytes()


@pytest.mark.parametrize("n_codes", [4, 60])
def test_weighted_leaves_have_enough_rows(n_codes):
    draw = np.random.default_rng(n_codes)
    codes = draw.integers(0, n_codes, 800)
    targets, weights = draw.normal(size=n_codes)[codes], draw.random(800)
    features = codes.astype(np.float32)[:, np.newaxis]
    bins = with_categories(fit_bins(features), [tuple(map(str, range(n_codes - 1)))])
    matrix = as_matrix(bins.transform(features), bins)
    tree = grow_tree(matrix, targets, Policies(Growth(max_leaves=12, min_leaf=40)), weights=weights)
    assert tree.n_leaves > 2
    n_rows = np.bincount(tree.leaf_of_row, minlength=tree.n_nodes)
    assert n_rows[tree.left == 0].min() >= 40
    in_leaves = np.bincount(tree.leaf_of_row, weights, tree.n_nodes)
    assert_allclose(in_leaves[tree.left == 0], tree.cover[tree.left == 0], rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_completely_random_trees_draw_a_side_for_each_category(seed):
    """Every category has a leaf of its own in the end, about half of them go left, and no two nodes draw the same."""
    draw = np.random.default_rng(seed)
    n_codes = (3, 70, 129, 255)[seed]
    codes = draw.integers(0, n_codes, 900)
    features = codes.astype(np.float32)[:, np.newaxis]
    bins = with_categories(fit_bins(features), [tuple(map(str, range(n_codes - 1)))])
    matrix = as_matrix(bins.transform(features), bins)
    targets = draw.normal(size=900)
    policies = Policies(Growth(max_leaves=None), thresholds="completely_random")
    tree = grow_tree(matrix, targets, policies, stream=seed)
    assert tree.n_leaves == np.unique(codes).size  # each category ends in a leaf of its own
    left = np.unpackbits(tree.subsets[:1].view(np.uint8), bitorder="little")[:n_codes]
    assert 0 < left.sum() < n_codes
    assert abs(left.mean() - 0.5) < 4 * np.sqrt(0.25 / n_codes)
    inner = tree.subsets[tree.left > 0]
    assert (tree.subsets.any(axis=1) == (tree.left > 0)).all()
    assert n_codes < 10 or np.unique(inner, axis=0).shape == inner.shape
    assert not np.unpackbits(inner.view(np.uint8), axis=1, bitorder="little")[:, n_codes:].any()


@pytest.mark.parametrize(
    "ranker",
    [
        rw.RandomForest(n_trees=3, max_leaves=30),
        rw.CompletelyRandomForest(n_trees=3, bag="row"),
        rw.CompletelyRandomForest(n_trees=3, max_leaves=30, missing="own_child"),
    ],
)
def test_training_rows_land_in_the_leaf_that_scoring_finds(ranker, data, tmp_path):
    forest = ranker.fit(data).forest_
    rw.save(forest, tmp_path / "forest.rankwood")
    assert rw.load(tmp_path / "forest.rankwood") == forest
    assert forest.subsets.any()
    assert_allclose(forest.predict(data), slowly(forest, data.features), rtol=1e-12)
    bins = with_categories(fit_bins(data.features), data.categorical)
    codes = bins.transform(data.features)
    assert (forest.predict_binned(codes, bins) == forest.predict(data)).all()
    assert forest.leaf_ids(data).shape == (data.n_documents, 3)
    numbers = fit_bins(data.features)
    with pytest.raises(DataError, match="feature 3 is categorical for the model, but the bins"):
        forest.predict_binned(numbers.transform(data.features), numbers)


def slowly(forest, features):
    """Scores by a walk per document and tree."""
    goes_left = binary_subsets(forest)
    scores = np.zeros(len(features))
    for row, values in enumerate(features):
        for tree, root in enumerate(forest.tree_offsets[:-1].tolist()):
            node = root
            while forest.feature[node] >= 0:
                value = values[forest.feature[node]]
                if np.isnan(value):
                    node = forest.missing[node]
                elif forest.is_categorical[forest.feature[node]]:
                    left = goes_left[node, int(value)]
                    node = forest.left[node] if left else forest.right[node]
                else:
                    left = value <= forest.threshold[node]
                    node = forest.left[node] if left else forest.right[node]
            scores[row] += forest.value[node] * forest.tree_weights[tree]
    total = forest.tree_weights.sum() if forest.average else 1.0
    return forest.base + scores / total


def test_unknown_categories_score_as_the_rest_and_missing_ones_as_missing(model, frame):
    table = frame[0].head(6).copy()
    for unknown in ("never seen", "brand 99"):
        table["brand"] = unknown
        scores = model.predict(table)
        codes = table[["a", "b", "c"]].to_numpy(np.float32)
        rest = len(model.forest_.categorical[3])
        assert (scores == model.predict(np.c_[codes, np.full(6, rest)].astype(np.float32))).all()
    table["brand"] = None
    missing = np.c_[codes, np.full(6, np.nan)].astype(np.float32)
    assert (model.predict(table) == model.predict(missing)).all()


def test_other_data_get_the_codes_of_the_model(model, frame):
    table, labels, queries = (part[200:] for part in frame)
    alone = rw.RankingData(table, labels, queries, categorical=["brand"])
    assert alone.categorical != model.forest_.categorical
    assert (model.predict(alone) == model.predict(table)).all()


def test_validation_data_get_the_codes_of_training(frame, data):
    table, labels, queries = frame_of(seed=4)
    given = rw.RankingData(table, labels, queries, categorical=["brand"])
    ranker = rw.LambdaMART(n_trees=5, max_leaves=8)
    by_data = ranker.fit(data, valid=given).history_
    by_frame = ranker.fit(data, valid=(table, labels, queries)).history_
    assert by_data == by_frame


def test_file_has_the_second_format_and_gives_the_model_back(model, data, frame, tmp_path):
    path = tmp_path / "model.rankwood"
    rw.save(model, path)
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("model.json"))["format_version"] == 2
    loaded = rw.load(path)
    assert loaded.forest_ == model.forest_
    assert (loaded.predict(frame[0]) == model.predict(data)).all()
    plain = rw.LambdaMART(n_trees=2).fit(data.features[:, :3], *frame[1:])
    rw.save(plain, path)
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("model.json"))["format_version"] == 1


def test_checkpoint_goes_on_to_the_same_bytes(data, tmp_path):
    path = tmp_path / "fit.checkpoint"

    def stop(state):
        if state.iteration == 3:
            raise KeyboardInterrupt

    ranker = rw.GBRT(n_trees=6, max_leaves=8)
    with pytest.raises(KeyboardInterrupt):
        rw.GBRT(n_trees=6, max_leaves=8, checkpoint=path, callbacks=[stop]).fit(data)
    resumed = rw.GBRT(n_trees=6, max_leaves=8, checkpoint=path).fit(data)
    assert resumed.forest_ == ranker.fit(data).forest_


def test_trees_are_taken_and_joined_with_their_categories(model, data):
    forest = model.forest_
    parts = [forest.take_trees(slice(0, 2)), forest.take_trees(slice(2, None))]
    assert Forest.concatenate(parts) == Forest.concatenate([forest.take_trees(slice(0, None))])
    stages = dict(model.predict_stages(data, every=2))
    assert (stages[2] == parts[0].predict(data)).all()


def test_contributions_sum_to_the_score_and_are_those_of_all_orders(model, data):
    parts, base = contributions(model.forest_, data)
    assert_allclose(parts.sum(axis=1) + base, model.predict(data), rtol=1e-9, atol=1e-9)
    assert np.abs(parts[:, 3]).mean() > np.abs(parts[:, 1]).mean()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: {"subsets": f.subsets[:-1]}, "4 words for each"),
        (lambda f: {"subsets": np.zeros_like(f.subsets)}, "lacks a set of categories"),
        (lambda f: {"categorical": f.categorical[:-1]}, "an entry for each"),
        (lambda f: {"categorical": (*f.categorical[:-1], ("x",))}, "is none of its feature's"),
        (lambda f: {"categorical": (*f.categorical[:-1], ("x", "x"))}, "all different"),
        (lambda _: {"categorical": None}, "has a set of categories"),
    ],
)
def test_forest_refuses_sets_that_are_none(model, change, message):
    import dataclasses

    with pytest.raises(ModelError, match=message):
        dataclasses.replace(model.forest_, **change(model.forest_))


@pytest.mark.parametrize(
    "ranker",
    [
        rw.AdaBoost(n_rounds=2),
        rw.RankBoost(n_rounds=2),
        rw.DeepForest(n_forests=2, n_trees=2, max_layers=1),
        rw.RankSVM(),
        rw.BoostingTree(max_trees=2),
    ],
)
def test_rankers_that_cannot_split_by_categories_say_so(ranker, data):
    with pytest.raises(DataError, match=f"'brand' is categorical, which {type(ranker).__name__}"):
        ranker.fit(data)


# Blends.

PARTS = {
    "row": rw.RandomForest(n_trees=4, max_leaves=20),
    "query": rw.RandomForest(n_trees=3, max_leaves=8, bag="query"),
}
CLIPPED = {
    "boosting": rw.LambdaMART(n_trees=3, max_leaves=8),
    "classes": rw.OrdinalRanker(rw.RandomForest(n_trees=2, max_leaves=8), clip=True),
}
BLENDS = {
    "equal": rw.Blend(CLIPPED, weights="equal"),
    "oob": rw.Blend(PARTS, weights="oob"),
    "validation": rw.Blend(PARTS, weights="validation"),
    "gates": rw.Blend(PARTS, weights="per-document", strength=1.0),
}


@pytest.mark.parametrize("name", sorted(BLENDS))
def test_blends_have_the_same_bytes_by_any_number_of_threads_and_from_their_file(
    name, data, frame, tmp_path
):
    valid = frame_of(seed=4) if name == "validation" else None
    blend = BLENDS[name].fit(data, valid=valid)
    assert bool(blend.blend_.gates) == (name == "gates")
    assert blend.blend_.categorical == data.categorical
    scores = blend.predict(data)
    for n_threads in (2, 3):
        again = rw.Blend(**{**blend.get_params(deep=False), "n_threads": n_threads})
        assert again.fit(data, valid=valid).predict(data).tobytes() == scores.tobytes()
    rw.save(blend, tmp_path / "blend.rankwood")
    loaded = rw.load(tmp_path / "blend.rankwood")
    table, labels, queries = (part[200:] for part in frame)
    alone = rw.RankingData(table, labels, queries, categorical=["brand"])
    for part in (table, alone):
        assert loaded.predict(part).tobytes() == scores[200:].tobytes()
    unknown = table.assign(brand="never seen")
    assert (loaded.predict_parts(unknown) == blend.predict_parts(unknown)).all()


def test_validation_data_of_a_blend_get_the_codes_of_training(data):
    table, labels, queries = frame_of(seed=4)
    given = rw.RankingData(table, labels, queries, categorical=["brand"])
    assert given.categorical != data.categorical
    ranker = rw.Blend(PARTS, weights="validation")
    by_data = ranker.fit(data, valid=given).held_out_
    assert ranker.fit(data, valid=(table, labels, queries)).held_out_ == by_data


def test_contributions_of_a_blend_sum_to_its_score(data):
    blend = BLENDS["oob"].fit(data)
    parts, base = contributions(blend.forest_, data)
    assert_allclose(parts.sum(axis=1) + base, blend.predict(data), rtol=1e-9, atol=1e-9)


def test_blends_refuse_parts_without_categories_and_parts_with_others(data, frame):
    with pytest.raises(DataError, match=r"'brand' is categorical, which part 'line' \(RankSVM\)"):
        rw.Blend({"row": PARTS["row"], "line": rw.RankSVM()}, weights="equal").fit(data)
    table, labels, queries = (part[200:] for part in frame)
    alone = rw.RankingData(table, labels, queries, categorical=["brand"])
    models = {name: rw.GBRT(n_trees=2).fit(rows) for name, rows in (("x", data), ("y", alone))}
    with pytest.raises(ModelError, match="part 'y' has other categories than part 'x'"):
        rw.Blend.of(models, data)
    same = rw.RankingData(table, labels, queries, categorical={"brand": data.categorical[3]})
    models["y"] = rw.GBRT(n_trees=2).fit(same)
    blend = rw.Blend.of(models, data, weights="equal")
    assert blend.predict(frame[0]).tobytes() == blend.predict(data).tobytes()


def test_monotone_categories_are_refused(data):
    with pytest.raises(ParameterError, match="'brand', which is categorical"):
        rw.GBRT(n_trees=1, monotone={"brand": 1}).fit(data)
    rw.GBRT(n_trees=1, monotone={"a": 1}).fit(data)


def test_early_exits_refuse_categories(model, data):
    with pytest.raises(DataError, match="'brand' is categorical, which an early exit"):
        rw.EarlyExit(every=2, drop=0.5).score(model, data)


# Other formats.


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_every_format_scores_as_the_model(kind, model, data, tmp_path):
    path = tmp_path / "model.c"
    known = data if kind != "ranklib" else without_missing(data)
    names = ["a", "b", "c", "brand"]
    options = {"assume_no_missing": True} if kind == "ranklib" else {}
    options |= {"nearest_thresholds": True} if kind == "solr" else {}
    certificate = export(model, path, kind, verify=known, feature_names=names, **options)
    assert certificate.largest_difference < 1e-5
    assert any("code of its category" in note for note in certificate.notes)


def without_missing(data):
    """Rows whose category is known."""
    return data.take_rows(~np.isnan(data.features).any(axis=1))


@pytest.mark.parametrize("missing", ["learned", "left", "right", "own_child"])
def test_thresholds_on_codes_decide_as_the_sets(missing, data):
    forest = rw.RandomForest(n_trees=2, max_leaves=10, missing=missing).fit(data).forest_
    chained = without_categories(forest)
    assert chained.categorical is None
    codes = np.append(np.arange(len(forest.categorical[3]) + 1), np.nan)
    rows = np.repeat(data.features[:20], codes.size, axis=0)
    rows[:, 3] = np.tile(codes, 20)
    rows[::7, 0] = np.nan
    assert (chained.predict(rows) == forest.predict(rows)).all()


def test_trees_that_would_grow_too_large_are_refused(model, monkeypatch):
    monkeypatch.setattr("rankwood.exports.writing.MOST_CHAINED", 100)
    with pytest.raises(ModelError, match="nodes with thresholds on codes, and 100 are allowed"):
        without_categories(model.forest_)


def test_lightgbm_scores_our_categories_as_we_do(data, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    for missing in ("learned", "left", "right"):
        ours = rw.LambdaMART(n_trees=4, max_leaves=8, missing=missing).fit(data)
        export(ours, tmp_path / "model.txt", "lightgbm", verify=data)
        booster = lightgbm.Booster(model_file=str(tmp_path / "model.txt"))
        assert_allclose(booster.predict(data.features), ours.predict(data), rtol=1e-12)
        back = import_model(tmp_path / "model.txt", "lightgbm")
        assert_allclose(back.predict(data.features), ours.predict(data), rtol=1e-12)
        dumped = import_model(booster.dump_model())
        assert_allclose(dumped.predict(data.features), ours.predict(data), rtol=1e-12)


def test_models_of_lightgbm_with_categories_are_imported(data, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    rows = lightgbm.Dataset(data.features, data.labels, categorical_feature=[3])
    options = {"objective": "regression", "num_leaves": 8, "verbose": -1, "num_threads": 1}
    options |= {"min_data_per_group": 5, "cat_smooth": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train(options, rows, 5)
    forest = import_model(booster)
    assert forest.subsets.any()
    assert_allclose(forest.predict(data.features), booster.predict(data.features), rtol=1e-12)
    rw.save(forest, tmp_path / "model.rankwood")
    again = rw.load(tmp_path / "model.rankwood")
    assert_allclose(again.predict(data.features), booster.predict(data.features), rtol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num_cat=", "num_cat=9", "num_cat|cat_boundaries"),
        ("cat_boundaries=0 ", "cat_boundaries=1 ", "must ascend from 0"),
        ("cat_threshold=", "cat_threshold=-1 ", "cat_boundaries must ascend|32 bits"),
    ],
)
def test_damaged_sets_of_lightgbm_are_refused(old, new, message, model, tmp_path):
    export(model, tmp_path / "model.txt", "lightgbm")
    text = (tmp_path / "model.txt").read_text()
    (tmp_path / "model.txt").write_text(text.replace(old, new))
    with pytest.raises(ModelError, match=message):
        import_model(tmp_path / "model.txt", "lightgbm")
