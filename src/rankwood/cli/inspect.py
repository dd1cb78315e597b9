"""``rankwood inspect`` and ``rankwood explain``: what data and models hold, and why a model scores as it does.

``inspect`` shows a data set, a folder of folds or a model file. Of data: counts, labels, missing and constant features,
and what two parts have in common. Of a folder: the counts of each fold's parts, the queries that parts share, and how
they differ from a public collection. Of a model: its estimator, parameters, training, size and most important features;
``_OF_KIND`` has the two functions that each kind of model is described by.

``explain`` shows why documents have their scores, and which features matter.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwood.cli import printing
from rankwood.cli.check import show_spreads, spreads_in, validation_figures
from rankwood.cli.options import (
    DATA_FORMATS,
    DATA_OR_STDIN,
    Csv,
    Json,
    ModelFile,
    Plot,
    Reading,
    Seed,
    argument,
    data_option,
    names_of,
    option,
    read_alike,
    with_reading_options,
)
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankwood.data.dataset import RankingData
    from rankwood.data.splits import Overlap, Summary
    from rankwood.dtypes import Floats
    from rankwood.models.blend import BlendModel
    from rankwood.models.cascade import Cascade
    from rankwood.models.family import Family
    from rankwood.models.forest import Forest
    from rankwood.models.linear import LinearModel
    from rankwood.models.neural import NeuralModel


_NAMES_SHOWN = 12  # of a list of features
_SHARED = 5  # queries named of those that two parts share
_FEATURES_SHOWN = 15  # of a model, the most important
_WEIGHT_COLUMNS = ("feature", "weight", "weight × spread", "missing counts as")


@with_reading_options
def command(
    paths: Annotated[
        list[str],
        argument("DATA_OR_MODEL...", f"{DATA_OR_STDIN} Or a folder of folds, or a model file."),
    ],
    *,
    against: Annotated[
        list[str] | None,
        data_option("Also say which queries and documents are in this data too."),
    ] = None,
    collection: Annotated[
        str | None,
        option(
            "Of a folder: the public collection in it, whose counts are compared; see rankwood data list.",
            metavar="NAME",
        ),
    ] = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show documents, queries, features, labels, missing and constant features, empty queries, duplicates.

    Of a folder with Fold1, Fold2, …: the counts of every part, and the queries that parts share. Of a model file: its
    estimator, parameters, training, trees and most important features.

    Example: rankwood inspect Fold1/train.txt.gz --against Fold1/test.txt.gz

    Example: rankwood inspect MQ2008 --collection mq2008
    """
    from rankwood.data.splits import shared, summarise
    from rankwood.models.format import is_model_file

    path = paths[0] if len(paths) == 1 else ""
    if path and _holds_folds(path, collection):
        if against:
            raise ParameterError("--against compares data; DATA is a folder of folds.")
        _show_folder(path, collection, reading, as_json)
        return
    if collection is not None:
        raise ParameterError(f"--collection goes with a folder, and {path} is not one.")
    if path and is_model_file(path):
        if against:
            raise ParameterError("--against compares data; DATA is a model file.")
        _show_model(path, as_json)
        return
    if path.endswith(".rankwood") and Path(path).is_file():
        raise DataError(f"{path} is not a model file of Rankwood, though it is called one.")
    data = reading(paths)
    summary = summarise(data)
    overlap = shared(data, reading(against)) if against else None
    if as_json:
        result = {"data": path or paths, **_plain(summary)}
        if overlap is not None:
            other = against[0] if against and len(against) == 1 else against
            result["against"] = {"data": other, **dataclasses.asdict(overlap)}
        printing.show_json(result)
        return
    printing.heading(" ".join(paths))
    printing.show_facts(facts(summary))
    if overlap is not None:
        printing.heading(f"shared with {' '.join(against or ())}")
        printing.show_facts(_overlap_facts(overlap))


def _holds_folds(path: str, collection: str | None) -> bool:
    """Whether a folder holds Fold1, Fold2, … or the parts of one fold, rather than files of one data set."""
    from rankwood.data.sources import PART_NAMES
    from rankwood.data.splits import files_of_parts, fold_folders

    folder = Path(path)
    if collection is not None or not folder.is_dir():
        return folder.is_dir()
    n_parts = sum(bool(files) for files in files_of_parts(folder, PART_NAMES).values())
    return bool(fold_folders(folder)) or n_parts > 1


def _show_folder(path: str, name: str | None, reading: Reading, as_json: bool) -> None:
    """The counts of every fold's parts, the queries that parts share, and what differs from the collection ``name``."""
    folder = _FolderFacts(path, name, reading)
    if as_json:
        printing.show_json(
            {
                "data": path,
                "collection": name,
                "folds": folder.folds,
                "shared": folder.shared,
                "differences": folder.differences,
            }
        )
        return
    printing.heading(path)
    columns = ("fold", "part", "documents", "queries", "features", "labels", "empty queries")
    printing.show_table(columns, folder.rows(), left=2)
    printing.say()
    for text in folder.sentences():
        printing.say(text)


class _FolderFacts:
    """What the folds of a folder hold; one fold is in memory at a time."""

    def __init__(self, path: str, name: str | None, reading: Reading) -> None:
        from rankwood.data import collections

        self.collection = None if name is None else collections.known_collection(name)
        self.folds: list[dict[str, Any]] = []
        self.shared: list[dict[str, Any]] = []
        self.differences: dict[
            str, list[str]
        ] = {}  # what was expected and found, and in which folds
        self._tested: Counter[str] = Counter()  # queries, by the folds that test on them
        changes = {} if self.collection is None else dict(self.collection.reading)
        for fold, files in self._files(path).items():
            parts = read_alike([str(file) for file in files.values()], reading, **changes)
            self._add(fold, dict(zip(files, parts, strict=True)))
        repeated = [query for query, count in self._tested.items() if count > 1]
        if repeated:
            self._add_shared("the test parts of several folds", repeated)

    def _files(self, path: str) -> dict[str, dict[str, Path]]:
        from rankwood.data.collections import collection_files
        from rankwood.data.splits import Fold, fold_files

        if self.collection is not None:
            files = collection_files(self.collection, path, "off")
            if len(files) != self.collection.n_folds:
                self.differences[f"{self.collection.n_folds} folds, found {len(files)}"] = []
            return files
        try:
            found = fold_files(path)
        except DataError as error:
            hint = "If it is a public collection, name it: --collection NAME (rankwood data list)."
            raise DataError(f"{error} {hint}") from None
        return {fold: dict(zip(Fold._fields, paths, strict=True)) for fold, paths in found.items()}

    def _add(self, fold: str, parts: dict[str, RankingData]) -> None:
        from rankwood.data.collections import PartCounts, differences
        from rankwood.data.splits import shared_queries, summarise

        summaries = {part: _plain(summarise(data)) for part, data in parts.items()}
        self.folds.append({"fold": fold, "parts": summaries})
        for (one, data), (other, more) in itertools.combinations(parts.items(), 2):
            queries = shared_queries(data, more)
            if queries:
                self._add_shared(f"{one} and {other} of {fold}", queries)
        self._tested.update(str(query) for query in parts["test"].queries.tolist())
        if self.collection is not None:
            counts = {part: PartCounts.of(data) for part, data in parts.items()}
            for text in differences(self.collection, counts):
                self.differences.setdefault(text, []).append(fold)

    def _add_shared(self, where: str, queries: list[str]) -> None:
        self.shared.append({"where": where, "queries": len(queries), "examples": queries[:_SHARED]})

    def rows(self) -> list[list[str]]:
        """A row per part: fold, part, documents, queries, features, labels, empty queries."""
        rows = []
        for fold in self.folds:
            for part, summary in fold["parts"].items():
                labels = list(summary["label_counts"])
                shown = labels[0] if len(labels) == 1 else f"{labels[0]}–{labels[-1]}"
                counts = [f"{summary[name]:,}" for name in ("documents", "queries", "features")]
                rows.append([fold["fold"], part, *counts, shown, f"{summary['empty_queries']:,}"])
        return rows

    def sentences(self) -> list[str]:
        """What the parts share, and how they compare with the collection."""
        said = [
            f"{counted(one['queries'], 'query')} in {one['where']}{_examples(tuple(one['examples']))}"
            for one in self.shared
        ]
        said = said or ["no query is in two parts of a fold, or in the test parts of two folds"]
        if self.collection is not None:
            title = self.collection.title
            for text, folds in self.differences.items():
                where = f" ({', '.join(folds)})" if folds else ""
                said.append(f"not as in {title}: expected {text}{where}")
            said += (
                [] if self.differences else [f"all counts that are checked are those of {title}"]
            )
        return said


def _plain(summary: Summary) -> dict[str, Any]:
    """A summary for JSON, with labels as texts."""
    values = dataclasses.asdict(summary)
    values["label_counts"] = {f"{label:g}": n for label, n in summary.label_counts.items()}
    return values


def facts(summary: Summary) -> list[tuple[str, str]]:
    """The summary as names and what they are, for a person."""
    lengths = summary.documents_per_query
    labels = [
        f"{label:g}: {count:,} ({count / summary.documents:.1%})"
        for label, count in summary.label_counts.items()
    ]
    listed = [
        ("documents", f"{summary.documents:,}"),
        ("queries", f"{summary.queries:,}"),
        ("features", f"{summary.features:,}"),
        ("labels", _shorten(labels, "values")),
        (
            "documents per query",
            f"least {lengths['least']:,}, median {lengths['median']:,.10g}, "
            f"mean {lengths['mean']:,.1f}, most {lengths['most']:,}",
        ),
        ("empty queries", f"{summary.empty_queries:,} (no document with a label above 0)"),
        ("one-document queries", f"{summary.one_document_queries:,}"),
        ("constant features", _counted(summary.constant_features)),
        ("missing values", _values(summary.missing_values, summary)),
        (
            "duplicates",
            _repeats(summary.duplicate_rows),
        ),
    ]
    if summary.infinite_values:
        listed.append(("infinite values", _values(summary.infinite_values, summary)))
    if summary.separated_queries:
        listed.append(
            ("separated queries", f"{summary.separated_queries:,} (their rows are not together)")
        )
    return listed


def _overlap_facts(overlap: Overlap) -> list[tuple[str, str]]:
    facts = [("queries", f"{overlap.n_queries:,}" + _examples(overlap.queries))]
    if overlap.n_documents is not None:
        facts.append(("documents", f"{overlap.n_documents:,} with the same query and document id"))
    facts.append(("rows", f"{overlap.n_rows:,} with exactly the same features"))
    if overlap.n_queries:
        facts.append(("", "A query in both parts makes a test measure look better than it is."))
    return facts


def _repeats(n_rows: int) -> str:
    verb = "repeats" if n_rows == 1 else "repeat"
    return f"{counted(n_rows, 'row')} {verb} the features of an earlier row of their query"


def _examples(examples: tuple[str, ...]) -> str:
    return f" (for example {', '.join(examples[:3])})" if examples else ""


def _counted(names: list[str]) -> str:
    return f"{len(names):,}: {_shorten(names, 'features')}" if names else "none"


def _values(counts: dict[str, int], summary: Summary) -> str:
    if not counts:
        return "none"
    total = sum(counts.values())
    share = total / (summary.documents * summary.features)
    listed = [
        f"{name} ({count:,})" for name, count in sorted(counts.items(), key=lambda item: -item[1])
    ]
    return f"{total:,} ({share:.1%}) in {counted(len(counts), 'feature')}: {_shorten(listed, 'features')}"


def _shorten(parts: list[str], kind: str) -> str:
    more = len(parts) - _NAMES_SHOWN
    return ", ".join(parts[:_NAMES_SHOWN]) + (f" … and {more:,} more {kind}" if more > 0 else "")


def _show_model(path: str, as_json: bool) -> None:
    """The model's kind, parameters, training, size and most important features."""
    from rankwood.models.format import KINDS, kind_of, load_model

    model, meta = load_model(path)
    kind = str(kind_of(model))
    describe, show_features = _OF_KIND[kind]
    facts = {"estimator": meta.get("estimator") or f"a bare {KINDS[kind].noun}", **describe(model)}
    parameters, training = meta.get("parameters") or {}, meta.get("training") or {}
    searched = None if as_json else training.pop("auto", None)
    tuned = None if as_json else training.pop("tuned", None)
    spreads = spreads_in(training, _names(model))
    validation = validation_figures(parameters, training)
    measures = meta.get("measures") or {}
    if as_json:
        more: dict[str, Any] = {
            "parameters": parameters,
            "training": training,
            "measures": measures,
            "validation": validation,
            "data": {
                part: {name: dataclasses.asdict(each) for name, each in by_name.items()}
                for part, by_name in spreads.items()
            },
        }
        if kind == "linear":
            more["weights"] = {
                row[0]: dict(zip(_WEIGHT_COLUMNS[1:], row[1:], strict=True))
                for row in _weights(model)
            }
        if hasattr(model, "importance"):
            more["importance"] = dict(_shares(model))
        printing.show_json({"model": path, **facts, **more})
        return
    printing.heading(path)
    printing.show_facts([(name, _shown(value)) for name, value in facts.items()])
    printing.show_facts([(name, _shown(value)) for name, value in measures.items()])
    notes = training.pop("notes", {})
    for title, part in (
        ("parameters", parameters),
        ("training", training),
        ("on validation data", validation),
        ("notes", notes),
    ):
        if part or title in ("parameters", "training"):
            printing.heading(title)
            printing.show_facts([(name, _shown(value)) for name, value in part.items()])
    if searched is not None:
        _show_trials(searched)
    if tuned is not None:
        printing.heading("chosen by tune")
        chosen = {**tuned, **tuned["chosen"]}
        printing.show_facts([(k, _shown(v)) for k, v in chosen.items() if k != "chosen"])
    show_features(model)
    leading = [name for name, _ in _shares(model)] if hasattr(model, "importance") else []
    show_spreads(spreads, leading[:_FEATURES_SHOWN])


def _show_trials(searched: dict[str, Any]) -> None:
    """What ``AutoRanker`` chose the model from."""
    try:
        settings = [(name, _shown(value)) for name, value in searched["settings"].items()]
        facts = [
            ("trials", f"{len(searched['trials']):,}; all are in --json"),
            ("judged by", f"{searched['measure']} on {searched['judged_on']}"),
            ("stopped because", _shown(searched["stopped_because"])),
        ]
    except (AttributeError, LookupError, TypeError):
        raise ModelError("its record of AutoRanker's trials is damaged.") from None
    printing.heading("chosen by AutoRanker")
    printing.show_facts([*facts, *settings])


def _describe_forest(forest: Forest | Cascade | Family | BlendModel) -> dict[str, Any]:
    known = getattr(forest, "categorical", None)  # cascades and blends have none
    given = zip(_names(forest), known or (), strict=False)
    categories = {name: len(one) for name, one in given if one is not None}
    return {
        "trees": forest.n_trees,
        "leaves": forest.n_leaves,
        "deepest": forest.max_depth,
        "features": forest.n_features,
        "features used": int((forest.importance("splits") > 0).sum()),
        **({"categories of features": categories} if categories else {}),
    }


def _describe_cascade(cascade: Cascade) -> dict[str, Any]:
    layers = [len(layer.models) for layer in cascade.layers]
    return {"layers": cascade.n_layers, "models per layer": layers, **_describe_forest(cascade)}


def _describe_family(family: Family) -> dict[str, Any]:
    search = {"models searched": len(family.explored), "lengths": len(family.front) - 1}
    return {**search, **_describe_forest(family)}


def _describe_blend(blend: BlendModel) -> dict[str, Any]:
    weights = dict(zip(blend.names, blend.weights.tolist(), strict=True))
    kinds = {"weights": "by document"} if blend.gates else {}
    factors = dict(zip(blend.names, blend.factors.tolist(), strict=True))
    return {
        "parts": len(blend.parts),
        **kinds,
        **{f"weight of {name}": weight for name, weight in weights.items()},
        **{f"factor of {name}": factor for name, factor in factors.items()},
        "one sum of trees": blend.is_sum_of_trees,
        **_describe_forest(blend),
    }


def _show_gains(forest: Forest) -> None:
    printing.heading("most important features, by their share of the gain")
    shares = _shares(forest)[:_FEATURES_SHOWN]
    printing.show_facts([(name, f"{share:.1%}") for name, share in shares])


def _describe_linear(model: LinearModel) -> dict[str, Any]:
    return {
        "intercept": model.intercept,
        "features": model.n_features,
        "features used": int(model.used.size),
    }


def _weights(model: LinearModel) -> list[tuple[str, float, float, float]]:
    """A row of ``_WEIGHT_COLUMNS`` per feature with a weight, the heaviest in units of its spread first."""
    scaled = model.weights * model.spread
    rows = zip(
        _names(model), model.weights.tolist(), scaled.tolist(), model.fill.tolist(), strict=True
    )
    return sorted((row for row in rows if row[1] != 0), key=lambda row: -abs(row[2]))


def _show_weights(model: LinearModel) -> None:
    printing.heading(
        "heaviest features, by weight in units of the feature's spread in the training data"
    )
    rows = [
        [name, *(_shown(number) for number in numbers)]
        for name, *numbers in _weights(model)[:_FEATURES_SHOWN]
    ]
    printing.show_table(_WEIGHT_COLUMNS, rows)


def _describe_neural(model: NeuralModel) -> dict[str, Any]:
    return {
        "layers": "-".join(map(str, model.widths.tolist())),
        "weights": int(model.weights.size + model.biases.size),
        "features": model.n_features,
        "features used": int((model.spread > 0).sum()),
    }


def _show_skewed(model: NeuralModel) -> None:
    names = [name for name, skewed in zip(_names(model), model.is_skewed, strict=True) if skewed]
    printing.heading(f"skewed features, whose logarithm is taken: {len(names):,}")
    if names:
        printing.say(", ".join(names[:_FEATURES_SHOWN]) + (", …" * (len(names) > _FEATURES_SHOWN)))


_OF_KIND: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[[Any], None]]] = {
    "forest": (_describe_forest, _show_gains),
    "linear": (_describe_linear, _show_weights),
    "neural": (_describe_neural, _show_skewed),
    "family": (_describe_family, _show_gains),
    "ordinal": (_describe_forest, _show_gains),
    "cascade": (_describe_cascade, _show_gains),
    "blend": (_describe_blend, _show_gains),
}


def _names(model: Any) -> tuple[str, ...]:
    return model.feature_names or tuple(str(number + 1) for number in range(model.n_features))


def _shares(model: Any) -> list[tuple[str, float]]:
    """Features by their share of the importance, the greatest first; those without any are left out."""
    importance: Floats = model.importance()
    total = float(importance.sum()) or 1.0
    shares = [
        (name, float(part) / total)
        for name, part in zip(_names(model), importance, strict=True)
        if part > 0
    ]
    return sorted(shares, key=lambda pair: -pair[1])


def _shown(value: Any) -> str:
    if isinstance(value, list) and len(value) > 6:
        return f"{len(value):,} values, the last {_shown(value[-1])}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


_PART_ROWS = 50_000
_PART_VALUES = 1 << 24  # 128 MiB of contributions: a part of wide data has fewer rows


@with_reading_options
def explain_command(
    model: ModelFile,
    data: Annotated[
        list[str] | None,
        argument("[DATA]...", f"{DATA_FORMATS}. Importance by gain, cover and splits needs none."),
    ] = None,
    *,
    qid: Annotated[str | None, option("Explain the list of this query.", metavar="ID")] = None,
    document: Annotated[
        str | None,
        option(
            "Explain one document, by its id; without ids, by its place among the query's rows, from 1.",
            metavar="ID",
        ),
    ] = None,
    why: Annotated[
        tuple[str, str] | None,
        option("Explain why document A is above document B.", metavar="A B"),
    ] = None,
    importance: Annotated[
        str | None,
        option(
            "Which features matter: by gain, cover, splits, permutation or contribution.",
            metavar="KIND",
        ),
    ] = None,
    measure: Annotated[
        str, option("Permutation: what is lost, such as map.", "--measure", "-m")
    ] = "ndcg@10",
    repetitions: Annotated[
        int, option("Permutation: how often each feature is shuffled.", min=1)
    ] = 5,
    background: Annotated[
        list[str] | None,
        data_option("Documents to compare with, instead of the training rows."),
    ] = None,
    top: Annotated[int, option("Features, or documents of a list, to show.", min=1)] = 10,
    plot: Plot = None,
    csv: Csv = None,
    seed: Seed = 0,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Explain scores: of one document, of the order of two, of a query's list, or of a whole data set.

    What each feature adds is its exact Shapley value: the parts and the base sum to the score. A data set is read part
    by part; what is shown is the mean size of each feature's part.

    Example: rankwood explain model.rankwood test.txt.gz --qid 17 --why A B --plot why.svg

    Example: rankwood explain model.rankwood vali.txt.gz --importance permutation --measure map
    """
    from rankwood.evaluation.plots import refuse_other_plots

    asked = {"--qid": qid, "--document": document, "--why": why, "--importance": importance}
    _refuse_together({name for name, value in asked.items() if value is not None})
    if plot is not None:
        refuse_other_plots(plot)
    task = _Task(model, data, background, reading)
    result: Any
    if importance is not None:
        result = task.importance(importance, measure, repetitions, seed)
    elif why is not None:
        result = task.why(*why, qid)
    elif document is not None:
        result = task.document(document, qid)
    elif qid is not None:
        result = task.list_of(qid)
    else:
        result = task.mean_sizes()
    if csv is not None:
        result.write_csv(csv)
    if plot is not None:
        result.plot(plot, top)
    _show(result, top, as_json)


def _refuse_together(asked: set[str]) -> None:
    for one, other in (
        ("--document", "--why"),
        ("--importance", "--qid"),
        ("--importance", "--document"),
        ("--importance", "--why"),
    ):
        if {one, other} <= asked:
            raise ParameterError(f"{one} and {other} ask for different things: choose one.")


def _show(result: Any, top: int, as_json: bool) -> None:
    if as_json:
        printing.show_json(result.to_dict(top))
        return
    rows = result.texts(top)
    printing.heading(result.title)
    printing.show_table(list(rows[0]), [list(row.values()) for row in rows])


class _Task:
    """A loaded model, and the data it is asked about."""

    def __init__(
        self, model: str, data: list[str] | None, background: list[str] | None, reading: Reading
    ):
        from rankwood.rankers.save import features_of, load

        self.reading, self.paths = reading, data
        self.model = load(model)
        self.features = features_of(self.model)
        self.n_threads: int | None = reading.options["n_threads"]
        self.background = self._read(background) if background else None

    def importance(self, by: str, measure: str, repetitions: int, seed: int) -> Any:
        from rankwood.evaluation.explain import KINDS, importance

        if by not in KINDS:
            raise UnknownName("importance", by, KINDS)
        if by == "contribution":
            return self.mean_sizes()
        data = None
        if by == "permutation":
            data = self.reading(self._given(), model=self.features)
        return importance(
            self.model,
            data,
            by,
            measure=measure,
            repetitions=repetitions,
            seed=seed,
            n_threads=self.n_threads,
        )

    def mean_sizes(self) -> Any:
        """Features by the mean size of their contributions, over all of the data."""
        from rankwood.evaluation.explain import MeanSizes, model_of, names_of

        stored = model_of(self.model)
        sizes = MeanSizes.of(stored, self.background, self.n_threads)
        names = names_of(stored)
        for part in self._parts():
            sizes.add(part)
            names = names_of(stored, part)
        return sizes.importance(names)

    def list_of(self, qid: str) -> Any:
        return self._explain(self._rows_of(qid)).query(qid)

    def document(self, document: str, qid: str | None) -> Any:
        explanation = self._explain(self._documents([document], qid))
        return explanation.document(explanation.find(document, qid))

    def why(self, a: str, b: str, qid: str | None) -> Any:
        explanation = self._explain(self._documents([a, b], qid))
        return explanation.why(explanation.find(a, qid), explanation.find(b, qid))

    def _documents(self, documents: list[str], qid: str | None) -> RankingData:
        """The rows that hold the documents: the query's, or all rows with one of the ids."""
        if qid is not None:
            return self._rows_of(qid)
        data: RankingData = self._read(self._given())
        if data.doc_ids is None:
            raise DataError(
                f"{names_of(self._given())} has no document ids: say of which query with --qid."
            )
        ids = [str(given) for given in data.doc_ids.tolist()]
        for document in documents:
            if document not in ids:
                raise UnknownName("document", document, set(ids))
        return data.take_rows([row for row, given in enumerate(ids) if given in documents])

    def _rows_of(self, qid: str) -> RankingData:
        """The rows of one query; reading stops after the part that has it."""
        seen: dict[str, None] = {}
        for part in self._parts():
            if part.query_ids is None:
                raise DataError(
                    f"{names_of(self._given())} has no query ids, so no query can be asked for."
                )
            for number, query in enumerate(part.queries.tolist()):
                if str(query) == qid:
                    return part.take_queries([number])
                seen[str(query)] = None
        raise UnknownName("query", qid, seen)

    def _explain(self, data: RankingData) -> Any:
        from rankwood.data.sources import find_inputs, is_table
        from rankwood.evaluation.explain import explain

        explanation = explain(
            self.model, data, background=self.background, n_threads=self.n_threads
        )
        is_without_labels = is_table(find_inputs(self._given())[0].path)
        return replace(explanation, labels=None) if is_without_labels else explanation

    def _given(self) -> list[str]:
        if not self.paths:
            raise ParameterError(
                "this needs DATA: only importance by gain, cover and splits does not."
            )
        return self.paths

    def _read(self, paths: list[str]) -> Any:
        return self.reading(paths, **self.reading.without_labels(self.model))

    def _parts(self) -> Iterator[RankingData]:
        n_rows = max(1, min(_PART_ROWS, _PART_VALUES // self.features.n_features))
        changes = self.reading.without_labels(self.model)
        return self.reading.parts(self._given(), n_rows, **changes)
