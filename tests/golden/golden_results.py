"""What the library gives besides models: data, files, exports, measures, studies. One function per entry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwood as rw
from rankwood.cli.main import main
from tests.golden.digesting import WRITTEN_AS, of_first_version, without_record
from tests.golden.golden_data import COSTS, part, plain_gbrt
from tests.golden.golden_models import fitted, test_scores

Entry = Callable[[Path], Any]  # of an empty folder
ENTRIES: dict[str, Entry] = {}


def entry(name: str) -> Callable[[Entry], Entry]:
    """Register a function as the entry ``name``."""

    def register(function: Entry) -> Entry:
        if name in ENTRIES:
            raise ValueError(f"two entries are called '{name}'.")
        ENTRIES[name] = function
        return function

    return register


def entries(names: dict[str, Any], way: Callable[[Path, Any], Any]) -> None:
    """Register an entry for each name, of one function that gets what stands beside it."""
    for name, given in names.items():
        entry(name)(lambda folder, given=given: way(folder, given))


def _quick_forest(**parameters: Any) -> rw.RandomForest:
    return rw.RandomForest(**{"n_trees": 4, "max_leaves": 8, "seed": 1, **parameters})


def _saved(model: Any, folder: Path) -> bytes:
    rw.save(model, folder / "model")
    return without_record(folder / "model")


# Data

entries(
    {
        "make_ranking: plain": {},
        "make_ranking: missing by chance": {"missing": 0.3, "seed": 5},
        "make_ranking: missing by low values": {"missing": 0.6, "missing_by": "low"},
        "make_ranking: costs, doc_ids": {"costs": True, "doc_ids": True},
        "make_ranking: two labels, few informative": {
            "label_shares": (0.8, 0.2),
            "n_informative": 2,
            "noise": 0.1,
            "empty_share": 0.2,
        },
    },
    lambda _, options: rw.make_ranking(20, 15, 12, **options),
)
entries(
    {"make_transfer: plain": {}, "make_transfer: shifted": {"shift": 2.0, "similar_share": 0.2}},
    lambda _, options: list(rw.make_transfer(12, 6, 15, 8, seed=2, **options)),
)
entries(
    {
        "bin: codes": ("", {}),
        "bin: gaps, 16 bins": ("gaps", {"max_bins": 16}),
        "bin: cuts of a sample": ("large", {"sample": 1000, "seed": 3, "max_bins": 63}),
    },
    lambda _, given: (
        binned := rw.bin(part(f"{given[0]}/train"), **given[1]),
        [binned.codes, binned.n_bins],
    )[1],
)
entries(
    {f"normalise_per_query: {method}": method for method in ("minmax", "zscore")},
    lambda _, method: rw.normalise_per_query(part("gaps/test"), method),
)


@entry("split_queries, sample_queries, make_folds")
def _parted(_: Path) -> Any:
    data = part("/train")
    folds = rw.make_folds(data, 3, seed=4)
    return [
        *(split.query_ids for split in rw.split_queries(data, (0.5, 0.5), seed=9)),
        rw.sample_queries(data, 0.3, seed=2).query_ids,
        rw.sample_queries(data, 5, seed=2).query_ids,
        *(each.query_ids for fold in folds for each in fold),
    ]


# Files


@entry("write_letor: doc ids")
def _letor(folder: Path) -> bytes:
    rw.write_letor(part("/test"), folder / "data.txt")
    return (folder / "data.txt").read_bytes()


@entry("write_letor: gaps, skip_zeros")
def _letor_without_zeros(folder: Path) -> bytes:
    rw.write_letor(part("gaps/test"), folder / "data.txt", skip_zeros=True)
    return (folder / "data.txt").read_bytes()


@entry("read_letor: what was written")
def _letor_read(folder: Path) -> Any:
    rw.write_letor(part("/test"), folder / "data.txt")
    return rw.read_letor(folder / "data.txt", cache=False)


@entry("write_table: csv")
def _csv(folder: Path) -> bytes:
    rw.write_table(part("gaps/test"), folder / "data.csv")
    return (folder / "data.csv").read_bytes()


@entry("write_table: csv with weights and doc ids")
def _csv_with_weights(folder: Path) -> bytes:
    rw.write_table(part("weights/test"), folder / "one.csv")
    rw.write_table(part("/test"), folder / "two.csv")
    return (folder / "one.csv").read_bytes() + (folder / "two.csv").read_bytes()


# Bytes of Parquet and Arrow name the version of pyarrow that wrote them: what is read back is looked at.
@entry("read_table: parquet, arrow, csv")
def _tables_read(folder: Path) -> Any:
    read = []
    for ending in ("parquet", "arrow", "csv"):
        path = folder / f"data.{ending}"
        rw.write_table(part("gaps/test"), path)
        read.append(rw.read_table(path))
    return read


def _converted(folder: Path, options: list[str]) -> bytes:
    """What ``rankwood convert`` makes of a LETOR file."""
    rw.write_letor(part("/test"), folder / "data.txt")
    *more, target = options
    given = ["convert", str(folder / "data.txt"), str(folder / target), "--quiet", *more]
    if main(given) != 0:
        raise AssertionError(f"rankwood {' '.join(given)} failed.")
    return (folder / target).read_bytes()


entries(
    {
        "convert: letor to csv": ["out.csv"],
        "convert: letor to letor, minmax": ["--normalise", "minmax", "out.txt"],
        "convert: letor without zeros": ["--normalise", "zscore", "--skip-zeros", "out.txt"],
    },
    _converted,
)


# Exports


def _exported(folder: Path, given: tuple[str, str, dict[str, Any]]) -> bytes:
    model, kind, options = given
    rw.export(fitted(model), folder / "model", kind, **options)
    content = (folder / "model").read_bytes()
    return content if kind != "onnx" else _onnx_of_first_version(content)


def _onnx_of_first_version(content: bytes) -> bytes:
    import onnx

    written = onnx.load_model_from_string(content)
    written.producer_version = WRITTEN_AS
    return bytes(written.SerializeToString())


_FORMATS = ("ranklib", "xgboost-json", "solr", "lightgbm", "lightgbm-json", "onnx", "json", "c")
entries(
    {
        **{
            f"export: {kind} of {model}": (model, kind, {"assume_no_missing": True})
            for kind in _FORMATS
            for model in ("GBRT", "RandomForest")
        },
        "export: json of three-way splits": ("GBRT: missing=own_child", "json", {}),
        "export: c of three-way splits": ("GBRT: missing=own_child", "c", {}),
        "export: lightgbm of learned gaps": ("GBRT: missing=learned", "lightgbm", {}),
        "export: xgboost-json of learned gaps": ("GBRT: missing=learned", "xgboost-json", {}),
        "export: solr with names, nearest thresholds": (
            "LambdaMART",
            "solr",
            {"assume_no_missing": True, "nearest_thresholds": True, "model_name": "other"},
        ),
    },
    _exported,
)


@entry("export: certificates")
def _certificates(folder: Path) -> Any:
    found = []
    for kind in _FORMATS:
        certificate = rw.export(
            fitted("GBRT"), folder / kind, kind, verify=part("/test"), assume_no_missing=True
        )
        found.append(
            [
                certificate.n_trees,
                certificate.n_splits,
                certificate.rules,
                certificate.notes,
                certificate.largest_difference,
                certificate.same_order,
            ]
        )
    return found


@entry("import_model: what was exported")
def _imported(folder: Path) -> Any:
    scores = []
    readers = {"lightgbm": "lightgbm", "xgboost-json": "xgboost", "ranklib": "ranklib"}
    for kind, reader in {**readers, "solr": "solr", "json": "json"}.items():
        rw.export(fitted("GBRT"), folder / kind, kind, assume_no_missing=True)
        names = list(part("/test").feature_names) if reader in ("xgboost", "solr") else None
        model = rw.import_model(folder / kind, reader, n_features=10, feature_names=names)
        scores.append(model.predict(part("/test").features))
    return scores


# Missing values

entries(
    {f"FillMissing: {strategy}": strategy for strategy in ("least", "greatest", "mean", "median")},
    lambda _, strategy: (
        rw.FillMissing(strategy).fit(part("gaps/train")).transform(part("gaps/test"))
    ),
)


@entry("PredictMissing")
def _predicted(_: Path) -> Any:
    step = rw.PredictMissing(n_trees=3, max_leaves=8, max_sweeps=2, seed=1)
    return step.fit(part("gaps/train")).transform(part("gaps/test"))


@entry("compare_missing")
def _compare_missing(_: Path) -> Any:
    predictor = rw.PredictMissing(n_trees=2, max_leaves=6, max_sweeps=1)
    parts = part("gaps/train"), part("gaps/test")
    return rw.compare_missing(_quick_forest(), *parts, predictor=predictor, n_bootstrap=200)


# Transfer


def _selected(_: Path, options: dict[str, Any]) -> Any:
    countries = rw.make_transfer(12, 6, 15, 8, seed=2)
    forest = _quick_forest()
    selection = rw.select_similar(
        countries.source, countries.target, 0.4, forest=forest, n_folds=3, **options
    )
    return [selection.data, selection.similarity, selection.rows, selection.auc, selection.features]


entries(
    {
        "select_similar": {},
        "select_similar: by row, not balanced, query features": {
            "folds_by": "row",
            "balance": False,
            "query_features": True,
            "seed": 3,
        },
    },
    _selected,
)


@entry("select_similar: report")
def _selected_and_measured(_: Path) -> Any:
    countries = rw.make_transfer(12, 9, 15, 8, seed=2)
    target, valid = rw.split_queries(countries.target, (0.5, 0.5), seed=1)
    forest = _quick_forest()
    selection = rw.select_similar(
        countries.source, target, 0.4, valid=valid, model=forest, forest=forest, n_folds=3
    )
    return selection.report


@entry("transfer_table")
def _transfer_table(_: Path) -> Any:
    countries = rw.make_transfer(12, 12, 15, 8, seed=2)
    target, valid, test = rw.split_queries(countries.target, (0.4, 0.3, 0.3), seed=1)
    forest = _quick_forest()
    table = rw.transfer_table(
        countries.source,
        target,
        (0.1, 1.0),
        ("Q", "QPC"),
        valid=valid,
        test=test,
        model=forest,
        measures=("rmse", "ndcg@10"),
        forest=forest,
        source_model=rw.OrdinalRanker(forest),
        n_folds=3,
    )
    return [table, table.similarity, str(table)]


@entry("common_features: one value throughout")
def _not_common(_: Path) -> Any:
    one, other = part("/train"), part("/test")
    features = other.features.copy()
    features[:, 2], features[:, 5] = 0.0, np.nan
    names = other.feature_names
    other = rw.RankingData(features, other.labels, other.query_ids, feature_names=names)
    return [
        [each.names for each in rw.common_features(one, other, keep_constant=keep_constant)]
        for keep_constant in (False, True)
    ]


@entry("add_model_features")
def _added(_: Path) -> Any:
    added = rw.add_model_features(fitted("OrdinalRanker: expected"), part("/test"), prefix="other_")
    return [added.data, added.names]


@entry("add_model_features: report")
def _added_and_measured(_: Path) -> Any:
    added = rw.add_model_features(
        fitted("RankSVM: large"), part("large/test"), "Q", valid=part("large/valid"),
        ranker=_quick_forest(),
    )  # fmt: skip
    return [added.names, added.report]


@entry("common_features, transfer_report")
def _common(_: Path) -> Any:
    one, other = rw.common_features(part("/train"), part("binary/train"))
    report = rw.transfer_report(
        _quick_forest(), part("/train"), part("/valid"), part("/test"), measure="map"
    )
    return [one.names, other.features, report]


# Early exits and costs


def _early(_: Path, given: tuple[rw.EarlyExit, str, dict[str, Any]]) -> Any:
    exits, model, options = given
    return exits.score(fitted(model), part("/test"), **options)


entries(
    {
        "EarlyExit: by query": (rw.EarlyExit(1, 0.3), "RandomForest", {}),
        "EarlyExit: of all": (rw.EarlyExit(2, 0.5, "all"), "GBRT", {"costs": COSTS}),
        "EarlyExit: costs of paths": (
            rw.EarlyExit(2, 0.25),
            "LambdaMART",
            {"costs": COSTS, "cost": "path"},
        ),
    },
    _early,
)


@entry("EarlyExit: LazyFeatures")
def _lazy(_: Path) -> Any:
    data = part("/test")
    asked: list[Any] = []

    def fetch(feature: int, rows: np.ndarray) -> np.ndarray:
        asked.append([feature, rows.copy()])
        return data.features[rows, feature]

    lazy = rw.LazyFeatures(fetch, data.query_ids)
    return [rw.EarlyExit(2, 0.3).score(fitted("GBRT"), lazy), asked]


@entry("quality_cost_curve")
def _cost_curve(_: Path) -> Any:
    curve = rw.quality_cost_curve(
        fitted("GBRT: costs"), part("costs/test"), costs=COSTS, exits=rw.EarlyExit(2, 0.3), every=1
    )
    return list(curve.rows())


@entry("best_sizes")
def _best_sizes(_: Path) -> Any:
    measures = ["ndcg@10", "p@5", "rmse"]
    names = ("GBRT", "RandomForest", "AveragedGBRT", "BROOF: absolute", "OrdinalRanker: expected")
    found = [
        rw.best_sizes(fitted(name), part("/valid"), measures, test=part("/test"), costs=COSTS)
        for name in names
    ]
    exits = rw.EarlyExit(2, 0.3)
    found.append(rw.best_sizes(fitted("GBRT"), part("/valid"), exits=exits, cost="path", every=2))
    sizes = [each["ndcg@10"].n_rounds for each in found[:-1]]
    smaller = [
        fitted(name).truncated(size).predict(part("/test"))
        for name, size in zip(names, sizes, strict=True)
    ]
    return [found, smaller, str(found[0])]


@entry("size_quality_front")
def _front(_: Path) -> Any:
    model = fitted("BoostingTree: LambdaMART")
    fronts = [
        rw.size_quality_front(model, part("/test")),
        rw.size_quality_front(model, every_length=True),
    ]
    best = [model.best(length).predict(part("/test").features) for length in (1, 3)]
    return [[front.measure, front.columns] for front in fronts] + best


# Explanations


def _explained(_: Path, given: tuple[str, bool]) -> Any:
    model, has_background = given
    of = model.partition(": ")[2]
    data = part("gaps/test" if "missing" in of else "/test")
    found = rw.explain(
        fitted(model), data, background=data.features[:5] if has_background else None
    )
    return [found.contributions, found.base, found.names, found.scores]


entries(
    {
        "explain: RandomForest": ("RandomForest", False),
        "explain: GBRT with background": ("GBRT", True),
        "explain: three-way splits": ("GBRT: missing=own_child", False),
        "explain: RankSVM": ("RankSVM", False),
        "explain: OrdinalRanker": ("OrdinalRanker: squared", False),
        "explain: BoostingTree": ("BoostingTree: LambdaMART", False),
    },
    _explained,
)


@entry("explain: one document, two documents")
def _why(_: Path) -> Any:
    found = rw.explain(fitted("LambdaMART"), part("/test"))
    return [found.to_dict(5), str(found.document(3)), str(found.why(0, 1))]


entries(
    {
        **{f"importance: {by}": ("RandomForest", by) for by in ("gain", "cover", "splits")},
        "importance: permutation": ("RandomForest", "permutation"),
        "importance: contribution": ("LambdaMART", "contribution"),
        "importance: gain of RankSVM": ("RankSVM", "gain"),
    },
    lambda _, given: rw.importance(fitted(given[0]), part("/test"), given[1], repetitions=2),
)


# Measures and studies

MEASURES = (
    "ndcg", "ndcg@10", "ndcg@5[gain=linear]", "ndcg@10[empty=1]", "ndcg@10[empty=skip]",
    "ndcg@10[discount=letor,short=zero]", "ndcg[ties=average]", "ndcg@10[ties=docid]", "dcg@10",
    "mean_ndcg", "map", "map@5", "map[relevant=2]", "p@10", "r@10", "mrr", "mrr@3", "err", "err@10",
    "err@10[max=4]", "rbp", "tau", "judged@10", "auc", "pauc@[0,5]", "pauc@[10,40]", "rmse",
)  # fmt: skip
PRESETS = ("letor3", "letor4", "mslr", "lightgbm", "xgboost", "trec_eval", "sklearn", "yahoo")


def _measured(_: Path, given: tuple[str, str | None]) -> Any:
    """A measure of scores with ties (a short model's) and without (a linear one's)."""
    text, preset = given
    texts = [text] if preset is None else ["ndcg@10", "map", "p@5", "mrr", "err@10"]
    found = []
    for model in ("GBRT: early stopping by rmse", "RankSVM"):
        result = rw.evaluate(
            test_scores(model), part("/test"), texts, preset=preset, n_bootstrap=100
        )
        found.append([result, [each.per_query for each in result.results]])
    return found


entries(
    {
        **{f"evaluate: {text}": (text, None) for text in MEASURES},
        **{f"evaluate: preset {name}": ("", name) for name in PRESETS},
    },
    _measured,
)


@entry("evaluate: segments, judged, retrieved, weights")
def _segments(_: Path) -> Any:
    data = part("weights/test")
    rows = np.arange(data.n_documents)
    scores = test_scores("GBRT: weights")
    shared = {"n_bootstrap": 50, "seed": 3, "confidence": 0.9}
    return [
        rw.evaluate(scores, data, by=np.arange(data.n_queries) % 3, **shared),
        rw.evaluate(scores, data, judged=rows % 4 > 0, **shared),
        rw.evaluate(scores, data, judged=rows % 4 > 0, unjudged="condense", **shared),
        rw.evaluate(scores, data, ["ndcg@10", "r@10"], retrieved=rows % 3 > 0, **shared),
    ]


@entry("parse_measure: texts")
def _texts(_: Path) -> Any:
    found = [rw.parse_measure(text) for text in MEASURES]
    found += [rw.parse_measure("ndcg@10", preset) for preset in PRESETS]
    return [[str(measure), measure.conventions] for measure in found]


_SYSTEMS = ("GBRT", "RandomForest", "RankSVM", "LambdaMART")


def _systems() -> dict[str, np.ndarray]:
    return {name: test_scores(name) for name in _SYSTEMS}


@entry("compare")
def _compared(_: Path) -> Any:
    options = {"n_resamples": 300, "n_bootstrap": 100, "n_changed": 3}
    by = np.arange(part("/test").n_queries) % 2
    return rw.compare(_systems(), part("/test"), baseline="GBRT", by=by, **options)


@entry("compare_values")
def _compared_values(_: Path) -> Any:
    data = part("/test")
    values = {
        name: rw.evaluate(scores, data, "ndcg@10", n_bootstrap=0).results[0].per_query
        for name, scores in _systems().items()
    }
    return [
        rw.compare_values(values, n_resamples=300, n_bootstrap=100, correction=correction)
        for correction in ("holm", "none", "bonferroni")
    ]


@entry("bias_variance")
def _bias_variance(_: Path) -> Any:
    rankers = {
        "forest": _quick_forest(),
        "deep": rw.DeepForest(n_forests=2, n_trees=2, max_leaves=6, max_layers=2, patience=None),
    }
    found = rw.bias_variance(rankers, part("/train"), part("/test"), trainings=3)
    folds = [fold for result in found.algorithms.values() for fold in result.folds]
    return [found, [fold.means for fold in folds]]


@entry("bias_variance: ties, pairs, folds")
def _bias_variance_of_folds(_: Path) -> Any:
    folds = rw.make_folds(part("/train"), 3, seed=1)
    options = {"trainings": 2, "pairs": "all", "ties": "strict", "max_pairs": 20}
    return rw.bias_variance(plain_gbrt(2, max_leaves=4, subsample=0.5), folds, **options)


@entry("factorial")
def _factorial(_: Path) -> Any:
    values = np.random.default_rng(5).normal(size=(2, 3, 4)).round(3)
    factors = {"way": ("a", "b"), "size": (1, 2, 3)}
    return [rw.factorial(values), rw.factorial(values, factors, level=0.1, response="ndcg")]


@entry("factorial_design")
def _design(_: Path) -> Any:
    return rw.factorial_design(
        _quick_forest(),
        {"max_leaves": [4, 8], "min_leaf": [1, 10]},
        part("/train"),
        part("/test"),
        repetitions=2,
    )


@entry("factorial_design: folds, repetitions, coupled factors")
def _design_of_folds(_: Path) -> Any:
    folds = rw.make_folds(part("/train"), 3, seed=1)
    broof = rw.BROOF(n_rounds=2, n_trees=4, max_leaves=6, stop=None)
    factors = {
        "loss": ["absolute", "gradient"],
        ("validation", "update_weights"): ["oob", "train"],
    }
    where = [({"loss": "gradient"}, {"update_weights": None})]
    options = {"where": where, "repetitions": 2, "n_threads": 1}
    found = [
        rw.factorial_design(broof, factors, folds, replicates=replicates, **options)
        for replicates in ("repetitions", "folds")
    ]
    return [found, [each.critical() for each in found], str(found[0])]


@entry("learning_curve")
def _learning_curve(_: Path) -> Any:
    return rw.learning_curve(
        {"forest": _quick_forest(), "boosted": plain_gbrt(3, max_leaves=4)},
        part("/train"),
        part("/test"),
        shares=(0.2, 0.6, 1.0),
        repetitions=2,
    )


@entry("convergence")
def _convergence(_: Path) -> Any:
    names = ("RandomForest", "GBRT", "InitializedGBRT", "BROOF: absolute", "DeepForest")
    models = {name: fitted(name) for name in names}
    return rw.convergence(models, {"train": part("/train"), "test": part("/test")}, every=1)


@entry("convergence: folds, AdaRank")
def _convergence_of_folds(_: Path) -> Any:
    folds = rw.make_folds(part("/train"), 3, seed=1)
    rankers = {"boosted": plain_gbrt(4, max_leaves=4), "linear": rw.AdaRank(10, "ndcg@5")}
    return rw.convergence(rankers, folds, every=2)


@entry("refit")
def _refitted(folder: Path) -> Any:
    names = (
        "GBRT: early stopping by rmse", "LambdaMART: early stopping", "AdaRank", "RankSVM", "DeepForest",
        "BROOF: lambda, rate, stops", "OrdinalRanker: least_squares", "BoostingTree: free steps, on valid",
    )  # fmt: skip
    return [
        _saved(rw.refit(fitted(name), part("/train"), part("/valid")), folder) for name in names
    ]


@entry("warm_start: two fits")
def _warm(folder: Path) -> Any:
    found = []
    for ranker in (plain_gbrt(3, max_leaves=5), rw.LambdaMART(3, max_leaves=5)):
        ranker.set_params(warm_start=True).fit(part("/train"))
        found.append(_saved(ranker.set_params(n_trees=6).fit(part("/train")), folder))
    return found


@entry("fit: binned data, frames, sparse matrices")
def _inputs(folder: Path) -> Any:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    from scipy.sparse import csr_matrix

    data = part("gaps/train")
    columns = dict(zip(data.names, data.features.T, strict=True))
    frames = [pandas.DataFrame(columns), polars.DataFrame(columns)]
    filled = np.nan_to_num(data.features)
    found = [_saved(_quick_forest().fit(rw.bin(data)), folder)]
    for table in (*frames, csr_matrix(filled), filled.tolist()):
        found.append(_saved(_quick_forest().fit(table, data.labels, data.query_ids), folder))
    whole = {"label": data.labels, "qid": data.query_ids, "dropped": data.labels, **columns}
    found += [
        rw.from_frame(make(whole), drop=["dropped"])
        for make in (pandas.DataFrame, polars.DataFrame)
    ]
    return found


@entry("score: ndcg@10, and r2 without queries")
def _method_score(_: Path) -> Any:
    data = part("no queries/test")
    return [
        fitted("GBRT").score(part("/test")),
        fitted("GBRT: no queries").score(data.features, data.labels),
    ]


@entry("DeepForest.predict_layers, OrdinalRanker.probabilities and cumulative")
def _other_scores(_: Path) -> Any:
    data = part("/test")
    ordinal = fitted("OrdinalRanker: clip")
    return [
        fitted("DeepForest").predict_layers(data),
        ordinal.probabilities(data),
        ordinal.cumulative(data),
    ]


# Checkpoints

STOPPED: dict[str, Any] = {
    "RandomForest": rw.RandomForest(n_trees=6, max_leaves=8),
    "GBRT": plain_gbrt(n_trees=6, max_leaves=5, subsample=0.7),
    "AveragedGBRT": rw.AveragedGBRT(4, n_runs=2, max_leaves=5),
    "InitializedGBRT": rw.InitializedGBRT(6, max_leaves=5, forest_trees=3, forest_leaves=6),
    "LambdaMART": rw.LambdaMART(n_trees=6, max_leaves=5),
    "NDCGBoost": rw.NDCGBoost(n_rounds=6),
    "RankBoost": rw.RankBoost(n_rounds=6),
    "AdaBoost": rw.AdaBoost(n_rounds=6),
    "BROOF": rw.BROOF("height", n_rounds=4, n_trees=2, max_leaves=6, stop=None),
    "BoostingTree": rw.BoostingTree(budget=24, search="hull"),
    "BoostingTree: beam": rw.BoostingTree(max_length=3),
    "Exp3P": rw.Exp3P(n_rounds=6),
}


def _resumed(folder: Path, ranker: Any) -> list[bytes]:
    """The bytes of a fit that was stopped halfway and went on, which are those of one that was not."""
    from sklearn.base import clone

    path = folder / "checkpoint"
    stops = [lambda news: news.iteration == 2]
    clone(ranker).set_params(checkpoint=path, callbacks=stops).fit(part("/train"))
    halfway = of_first_version(path)
    models = {
        "resumed": clone(ranker).set_params(checkpoint=path).fit(part("/train")),
        "whole": clone(ranker).fit(part("/train")),
    }
    for name, model in models.items():
        rw.save(model, folder / name)
    resumed, whole = (without_record(folder / name) for name in models)
    if resumed != whole:
        raise AssertionError("a fit that was resumed ends in other bytes than one that was not.")
    return [halfway, resumed]


entries({f"checkpoint: {name}": ranker for name, ranker in STOPPED.items()}, _resumed)


@entry("tables of results: text, page, csv")
def _tables(folder: Path) -> Any:
    data = part("/test")
    explanation = rw.explain(fitted("GBRT"), data)
    systems = {name: test_scores(name) for name in ("GBRT", "RandomForest")}
    curve = rw.quality_cost_curve(fitted("GBRT"), data, exits=rw.EarlyExit(2, 0.3), every=2)
    shown = [
        rw.evaluate(fitted("GBRT"), data, n_bootstrap=50),
        rw.compare(systems, data, n_resamples=100, n_bootstrap=50),
        rw.importance(fitted("GBRT")),
        rw.convergence({"GBRT": fitted("GBRT")}, {"test": data}, every=2),
        rw.factorial(np.arange(12.0).reshape(2, 2, 3) ** 2),
        explanation.document(0),
        explanation.why(0, 1),
    ]
    pages = [table._repr_html_() for table in shown]
    texts = [str(table) for table in shown] + [repr(data), repr(fitted("GBRT").forest_)]
    files = []
    for table in (*shown[1:], explanation, curve):
        table.write_csv(folder / "table.csv")
        files.append((folder / "table.csv").read_bytes())
    return [texts, pages, files]


@entry("BoostingTree: the explored tree as text, dot, svg")
def _explored(_: Path) -> Any:
    model = fitted("BoostingTree: LambdaMART")
    tree = model.tree_
    return [tree.text(), tree.dot(), tree.svg(), model.front()]


@entry("read_folds")
def _folds_read(folder: Path) -> Any:
    for number in (1, 2):
        place = folder / f"Fold{number}"
        place.mkdir()
        for name, of in (("train", "train"), ("vali", "valid"), ("test", "test")):
            rw.write_letor(part(f"{('', 'binary')[number - 1]}/{of}"), place / f"{name}.txt")
    return [list(fold) for fold in rw.read_folds(folder, cache=False)]


@entry("read_letor: absent, order, width")
def _letor_options(folder: Path) -> Any:
    path = folder / "data.txt"
    path.write_text(
        "2 qid:a 3:0.5 1:-1e-3 # one\n0 qid:b 2:NaN\n1 qid:b 1:7 # docid = x\n", encoding="utf-8"
    )
    options = {"order": "any", "cache": False}
    return [
        rw.read_letor(path, **options),
        rw.read_letor(path, absent="missing", n_features=5, **options),
    ]


# Chess


@entry("datasets: chess")
def _chess(_: Path) -> Any:
    return [rw.datasets.chess(), rw.datasets.chess("B84", "test").query_ids]


@entry("datasets: chess positions, boards, moves")
def _chess_positions(_: Path) -> Any:
    positions = list(rw.datasets.chess_positions("E97").values())[:20]
    boards = [rw.datasets.board_text(position.fen) for position in positions]
    drawings = [rw.datasets.board_svg(position.fen, title="a board") for position in positions[:3]]
    moves = [
        rw.datasets.move_text(position.fen, move)
        for position in positions
        for move in position.scores
    ]
    return [positions, boards, drawings, moves, rw.datasets.chess_provenance("B84")]


# Experiments


@entry("run_experiment, write_report")
def _experiment(folder: Path) -> Any:
    algorithms = [
        {"kind": "RandomForest", "name": "RF", "n_trees": 3, "max_leaves": 6},
        {"kind": "GBRT", "n_trees": 3, "tune": {"max_leaves": [2, 4]}},
        {"kind": "AdaRank", "repetitions": 1},
    ]
    given = {
        "data": {"generate": {"queries": 24, "docs": 8, "features": 6}, "folds": 3},
        "run": {"name": "golden", "jobs": 0, "repetitions": 2},
        "measures": {"primary": "ndcg@10", "also": ["map", "rmse"]},
        "algorithm": algorithms,
        "compare": {"baseline": "RF"},
    }
    results = rw.run_experiment(given, out=folder / "run")
    report = folder / "report"
    rw.write_report(rw.read_run(folder / "run"), report, formats=("csv", "svg", "tex", "md"))
    measures = ("ndcg@10", "map", "rmse")
    values = [results.values(name, measure) for name in ("RF", "GBRT") for measure in measures]
    # cells.csv and times.svg hold times, and so does the report from its table of times on
    files = [
        *(report / "tables" / f"{name}.csv" for name in ("results", "comparisons", "queries")),
        *(
            report / "figures" / f"{name}.svg"
            for name in ("differences", "folds", "means", "rounds")
        ),
        report / "tables.tex",
    ]
    text = (report / "report.md").read_text(encoding="utf-8")
    return [values, [path.read_bytes() for path in files], text.partition("## Median times")[0]]
