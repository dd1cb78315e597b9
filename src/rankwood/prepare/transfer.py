"""``select_similar``: documents of another collection that could be the target's own (Mohan 2010, chapter 5).

Words used here
    source      the collection with many judgements, from which documents are taken
    target      the collection that is to be ranked better
    domain      which of the two a document is from: 0 the source, 1 the target
    similarity  P(target): how likely a source document is from the target, as a forest says that has not seen it
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core import checks
from rankwood._core.random import stream
from rankwood.data.dataset import RankingData
from rankwood.data.judgments import Judgments
from rankwood.data.splits import deal_folds
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError, ParameterError
from rankwood.measures.compute import mean_value, paired_t_test
from rankwood.measures.measure import Measure, parse_measure
from rankwood.models.inputs import features_in_order, some_names
from rankwood.rankers.base import Ranker
from rankwood.rankers.forests import RandomForest
from rankwood.rankers.save import join
from rankwood.training.bags import UNITS
from rankwood.training.scores import is_minimised

DOMAIN_TREES = 100  # of each domain forest: more than that changes the order of documents little


@dataclass(frozen=True, eq=False)
class Selection:
    """The target with the source documents that are most like its own.

    Attributes
    ----------
    data
        The target's rows, then the chosen ones of the source in the source's order, with the features that both
        have. Queries are numbered anew, so those of the two collections stay apart.
    similarity
        P(target) of every source document.
    rows
        The rows of the source that were chosen, ascending.
    auc
        How well a forest tells documents of the two collections apart that it has not seen: 0.5 not at all, 1 always.
    features
        The names of the common features, or their 1-based numbers.
    report
        What the chosen rows changed; None without validation data.
    """

    data: RankingData
    similarity: Floats
    rows: Rows
    auc: float
    features: tuple[str, ...]
    report: TransferReport | None = None

    def __str__(self) -> str:
        n_added = self.rows.size
        chosen = self.similarity[self.rows]
        lines = [
            f"{n_added:,} of {self.similarity.size:,} source documents added to "
            f"{self.data.n_documents - n_added:,} of the target; {len(self.features):,} common features",
            f"similarity of those added: {chosen.min():.3f} to {chosen.max():.3f} "
            f"(mean {chosen.mean():.3f}, of all {self.similarity.mean():.3f})",
            f"AUC of the domain forest: {self.auc:.3f} (0.5: the collections look the same)",
            "",
            "not measured: pass valid= to see whether this helps or harms"
            if self.report is None
            else str(self.report),
        ]
        return "\n".join(lines)


def select_similar(
    source: RankingData,
    target: RankingData,
    share: float,
    *,
    valid: RankingData | None = None,
    model: Ranker | None = None,
    measure: str | Measure = "ndcg@10",
    forest: Ranker | None = None,
    n_folds: int = 5,
    folds_by: str | None = None,
    balance: bool = True,
    query_features: bool = False,
    seed: int = 0,
    n_threads: int | None = None,
) -> Selection:
    """The target with the ``share`` of the source's documents that most look like the target's.

    The source is cut into folds. A domain forest learns 0 from the source without one fold and 1 from the target, and
    says of each document in that fold how likely it is the target's.

    Parameters
    ----------
    source, target
        Training rows of the two collections, as RankingData. Only features that both have are used: by name where both
        have names, else by position, and then there must be equally many.
    share
        How much of the source is added, in (0, 1]; of equally similar documents the first in the source.
    valid, model, measure
        With validation data of the target, ``model`` (None: ``RandomForest()``) is trained without and with the chosen
        rows, and ``report`` says what they changed.
    forest
        The domain forest; None is a ``RandomForest`` of 100 trees with ``seed`` and ``n_threads``.
    n_folds, folds_by
        How many folds; whether they are made of whole queries ("query", the default where there are queries) or of
        rows. Documents of one query resemble each other: a forest that has seen some of them as the source's
        recognises the query.
    balance
        Whether both collections weigh the same in the domain forest, so that a similarity of ½ says that a document
        could as well be of either. The order of documents hardly depends on it.
    query_features
        Whether features that are constant within every query may tell the collections apart. They let a forest
        learn the queries by heart, which says nothing about documents, so they are left out by default.
    seed
        Decides the folds, and the domain forest if none is given.
    """
    share = checks.real_number("share", share, "(0, 1]")
    n_folds = checks.whole_number("n_folds", n_folds, 2)
    seed = checks.whole_number("seed", seed, 0)
    parsed = parse_measure(measure)
    _check_collections(source, target)
    n_chosen = _n_chosen(share, source.n_documents)
    model = RandomForest(seed=seed, n_threads=n_threads) if model is None else model
    if forest is None:
        forest = RandomForest(DOMAIN_TREES, seed=seed, n_threads=n_threads)
    check_ranker("forest", forest)
    in_source, in_target = common_columns(source, target)
    if valid is not None:  # before anything takes long
        valid = _like_the_target(valid, target, model)
    near, own = take_columns(source, in_source), take_columns(target, in_target)
    unit = _unit(folds_by, source)
    folds = _folds(near, "source", n_folds, unit, seed)
    folds_of_target = _folds(own, "target", n_folds, unit, seed)
    domains = _Domains(near, own, forest, balance, query_features)
    similarity = _similarity(domains, folds, n_folds)
    auc = _auc(domains, folds == 0, folds_of_target == 0)
    rows = np.sort(np.argsort(-similarity, kind="stable")[:n_chosen])
    joined = join(own, near.take_rows(rows))
    report = None
    if valid is not None:
        report = _report(model, (target, own, joined), valid, in_target, parsed)
    return Selection(joined, similarity, rows, auc, own.names, report)


@dataclass(frozen=True, eq=False)
class _Domains:
    """The two collections, and how a forest learns to tell them apart."""

    source: RankingData
    target: RankingData
    forest: Ranker
    balance: bool
    query_features: bool

    def __post_init__(self) -> None:
        if self.query_features or self.source.query_ids is None:
            return
        telling = varying_columns(self.source) | varying_columns(self.target)
        if telling.any():  # none are where every query has one document
            for name in ("source", "target"):
                part = take_columns(getattr(self, name), np.flatnonzero(telling))
                object.__setattr__(self, name, part)

    def fit(self, source_rows: Array, target_rows: Array) -> Any:
        """A forest that has learned 0 from some rows of the source and 1 from some of the target."""
        rows = join(self.source.take_rows(source_rows), self.target.take_rows(target_rows))
        counts = np.array([np.count_nonzero(source_rows), np.count_nonzero(target_rows)])
        weights = None
        if self.balance:  # on average 1
            weights = np.repeat(counts.sum() / (2.0 * counts), counts)
        domain = np.repeat([0.0, 1.0], counts)
        data = RankingData(
            rows.features, domain, rows.query_ids, None, weights, None, rows.feature_names
        )
        return clone(self.forest).fit(data)


def _similarity(domains: _Domains, folds: Rows, n_folds: int) -> Floats:
    """P(target) of each source document, by a forest that has not seen its fold."""
    similarity = np.empty(folds.size)
    everything = np.ones(domains.target.n_documents, bool)
    for fold in range(n_folds):
        left_out = folds == fold
        forest = domains.fit(~left_out, everything)
        similarity[left_out] = forest.predict(domains.source.take_rows(left_out))
    return similarity


def _auc(domains: _Domains, of_source: Array, of_target: Array) -> float:
    """The area under the ROC curve of a forest that has not seen these rows of both collections."""
    forest = domains.fit(~of_source, ~of_target)
    parts = [domains.source.take_rows(of_source), domains.target.take_rows(of_target)]
    scores = np.concatenate([forest.predict(part) for part in parts])
    domain = np.repeat([0.0, 1.0], [part.n_documents for part in parts])
    # One query for all: the area is taken over documents, whatever their queries.
    everything = Judgments(domain, np.zeros(domain.size, np.int64))
    return mean_value(parse_measure("auc"), scores, everything)


def _report(
    model: Ranker,
    parts: tuple[RankingData, RankingData, RankingData],
    valid: RankingData,
    places: Rows,
    measure: Measure,
) -> TransferReport:
    """What the joined rows changed; and the target by itself, where it has features that the source lacks."""
    target, own, joined = parts
    report = transfer_report(model, own, joined, take_columns(valid, places), measure=measure)
    if own.n_features == target.n_features:
        return report
    alone = mean_value(report.measure, trained_scores(model, target, valid), valid)
    return dataclasses.replace(report, all_features=alone)


def _like_the_target(valid: RankingData, target: RankingData, model: Ranker) -> RankingData:
    """Validation data with the target's features in the target's order."""
    check_comparison(model, valid)
    try:
        matrix = features_in_order(valid, target.n_features, target.feature_names)
    except DataError:
        lacking = sorted(set(target.names) - set(valid.names))
        what = f"it lacks {some_names(lacking)}" if lacking else f"it has {valid.n_features:,}"
        raise DataError(
            f"valid must have the target's {target.n_features:,} features, but {what}."
        ) from None
    return dataclasses.replace(valid, features=matrix, feature_names=target.feature_names)


def _check_collections(source: RankingData, target: RankingData) -> None:
    for name, data in (("source", source), ("target", target)):
        if not isinstance(data, RankingData):
            raise ParameterError(f"{name} must be RankingData, got {type(data).__name__}.")
        if data.n_documents == 0:
            raise DataError(f"{name} has no documents.")
        if data.labels.min() == data.labels.max():
            raise DataError(
                f"all labels of {name} are {data.labels[0]:g}: there is no ranking to be learned from them. "
                "Judge some documents first."
            )
    if (source.query_ids is None) != (target.query_ids is None):
        with_ids, without = ("source", "target")[:: -1 if source.query_ids is None else 1]
        raise DataError(
            f"{with_ids} has query ids and {without} has none. Pass query_ids= for both, or for neither."
        )


def _unit(folds_by: str | None, source: RankingData) -> str:
    if folds_by is None:
        return "row" if source.query_ids is None else "query"
    return checks.one_of("folds_by", folds_by, UNITS)


def _n_chosen(share: float, n_documents: int) -> int:
    n_chosen = int(share * n_documents + 1e-9)  # 0.7 of 10 is 7, whatever floats say
    if n_chosen == 0:
        raise ParameterError(
            f"a share of {share:g} of {n_documents:,} source documents is less than one: nothing would be "
            f"transferred. Use a share of at least {1 / n_documents:.2g}."
        )
    return n_chosen


def _folds(data: RankingData, name: str, n_folds: int, unit: str, seed: int) -> Rows:
    """The fold of each row, drawn by ``seed``; folds differ by at most one query or row in size."""
    n_units = data.n_queries if unit == "query" else data.n_documents
    if name == "target":  # only one fold of it is left out, for the AUC
        n_folds = min(n_folds, max(2, n_units))
    kind = {"query": "queries", "row": "rows"}[unit]
    if n_units < n_folds:
        count = f"one {unit}" if n_units == 1 else f"{n_units:,} {kind}"
        remedy = "Use fewer folds (n_folds=)" if n_units > 1 else "Use more data"
        other = ", or folds_by='row'" if unit == "query" else ""
        raise DataError(f"{name} has {count}, too few for {n_folds} folds. {remedy}{other}.")
    generator = stream(seed, f"folds of the {name}")
    fold_of_unit = deal_folds(np.arange(n_units), n_units, n_folds, generator)
    return fold_of_unit[data.query_of_row] if unit == "query" else fold_of_unit


# Features that two collections share, and what a model of one can tell the other: ``add_model_features``.
#
# Words used here, as in Mohan (2010), chapter 5
#     Q   the score H(x) that the model of another collection gives a document
#     P   the probability P(y = c) of each grade
#     C   the cumulative probability P(y ≤ c) of each grade but the highest


KINDS = "QPC"
_METHOD_OF = {"Q": "predict", "P": "probabilities", "C": "cumulative"}


@dataclass(frozen=True, eq=False)
class AddedFeatures:
    """Data with what a model says of each document as further features.

    Attributes
    ----------
    data, valid
        The data given, with the new columns behind their own; ``valid`` is None where none were given.
    names
        What the new columns are called.
    report
        What the columns changed; None without validation data.
    """

    data: RankingData
    names: tuple[str, ...]
    valid: RankingData | None = None
    report: TransferReport | None = None

    def __str__(self) -> str:
        n_before = self.data.n_features - len(self.names)
        lines = [
            f"{len(self.names)} features added to {n_before:,}: {', '.join(self.names)}",
            "",
            "not measured: pass valid= to see whether this helps or harms"
            if self.report is None
            else str(self.report),
        ]
        return "\n".join(lines)


def add_model_features(
    model: Any,
    data: RankingData,
    kinds: str = KINDS,
    *,
    prefix: str = "",
    valid: RankingData | None = None,
    ranker: Any = None,
    measure: str = "ndcg@10",
) -> AddedFeatures:
    """The data with what a model of another collection says of each document, as further features.

    Parameters
    ----------
    model
        A fitted model of the other collection. It may know fewer features than the data have, if both have names.
    data
        Documents of the collection that is to be ranked better.
    kinds
        Letters: Q the score, P the probability of each grade, C the cumulative ones. P and C need a model with
        ``probabilities``, ``cumulative`` and ``grades_``, which ``OrdinalRanker`` has.
    prefix
        Stands before the names of the new features, which are Q, P0, P1, …, C0, C1, … by grade.
    valid, ranker, measure
        With validation data, ``ranker`` (None: ``RandomForest()``) is trained without and with the new features, and
        ``report`` says what they changed.
    """
    kinds = _check_kinds(model, kinds)
    said, columns = _say(model, data, kinds)
    names = tuple(f"{prefix}{name}" for name in said)
    added = _widen(data, names, columns)
    if valid is None:
        return AddedFeatures(added, names)
    more = _widen(valid, names, _say(model, valid, kinds)[1])
    if ranker is None:
        from rankwood.rankers.forests import RandomForest

        ranker = RandomForest()
    report = transfer_report(ranker, data, added, valid, valid_with=more, measure=measure)
    return AddedFeatures(added, names, more, report)


def _check_kinds(model: Any, kinds: str) -> str:
    """The kinds in the order Q, P, C, if the model can give them."""
    if (
        not isinstance(kinds, str)
        or not kinds
        or set(kinds) - set(KINDS)
        or len(set(kinds)) < len(kinds)
    ):
        raise ParameterError(
            f"kinds must be some of the letters Q, P and C, each once, got {checks.plain(kinds)}."
        )
    lacking = [kind for kind in KINDS if not callable(getattr(model, _METHOD_OF[kind], None))]
    if "Q" in lacking:
        raise ParameterError(f"model must be a ranker, got {type(model).__name__}.")
    refused = [kind for kind in lacking if kind in kinds]
    if refused:
        possible = "".join(kind for kind in KINDS if kind not in lacking)
        raise ParameterError(
            f"kinds has {' and '.join(refused)}, but {type(model).__name__} gives no class probabilities. "
            f"Use kinds='{possible}', or a model that does, such as OrdinalRanker."
        )
    return "".join(kind for kind in KINDS if kind in kinds)


def _say(model: Any, data: RankingData, kinds: str) -> tuple[list[str], Floats]:
    """The names of the new columns, and the columns: rows × new features."""
    if not isinstance(data, RankingData):
        raise ParameterError(
            f"features are added to RankingData, not to {type(data).__name__}: pass RankingData(X, y, qid)."
        )
    if data.n_documents == 0:
        raise DataError("there are no documents to add features to.")
    known = _as_the_model_knows_them(model, data)
    names: list[str] = []
    columns: list[Floats] = []
    for kind in kinds:
        said = np.asarray(getattr(model, _METHOD_OF[kind])(known), np.float64)
        columns.append(said.reshape(data.n_documents, -1))
        grades = [] if kind == "Q" else model.grades_[: columns[-1].shape[1]]
        names += ["Q"] if kind == "Q" else [f"{kind}{grade:g}" for grade in grades]
    return names, np.concatenate(columns, axis=1)


def _as_the_model_knows_them(model: Any, data: RankingData) -> RankingData:
    """The data without features that the model has never seen, where both have names."""
    known = getattr(model, "feature_names_in_", None)
    if known is None or data.feature_names is None:
        return data
    names = [str(name) for name in known]
    lacking = sorted(set(names) - set(data.feature_names))
    if lacking:
        common = sorted(set(names) & set(data.feature_names))
        raise DataError(
            f"the data lack {some_names(lacking)}, which the model needs; common are "
            f"{some_names(common) if common else 'none'}. Train the model on common_features(source, target)."
        )
    return take_columns(data, np.array([data.feature_names.index(name) for name in names]))


def _widen(data: RankingData, names: tuple[str, ...], columns: Floats) -> RankingData:
    """The data with columns added on the right."""
    own = data.feature_names
    twice = [] if own is None else sorted(set(own) & set(names))
    if twice:
        raise DataError(
            f"the data have features called {some_names(twice)} already. Pass prefix= for the new ones."
        )
    return dataclasses.replace(
        data,
        features=np.concatenate([data.features, checks.feature_matrix(columns)], axis=1),
        feature_names=None if own is None else own + names,
    )


def common_features(source: RankingData, target: RankingData) -> tuple[RankingData, RankingData]:
    """Both collections with the features that both have, in the target's order.

    By name where both have names, else by position, and then there must be equally many.
    """
    in_source, in_target = common_columns(source, target)
    return take_columns(source, in_source), take_columns(target, in_target)


def common_columns(source: RankingData, target: RankingData) -> tuple[Rows, Rows]:
    """Where the common features stand in the source, and where in the target."""
    if source.feature_names is None or target.feature_names is None:
        if source.n_features != target.n_features:
            least = min(source.n_features, target.n_features)
            raise DataError(
                f"source has {source.n_features:,} features and target {target.n_features:,}, and without names "
                f"in both only their positions can be compared: at most the first {least:,} are common. Pass "
                "feature_names= for both, or cut both to the columns that mean the same."
            )
        places = np.arange(target.n_features)
        return places, places
    place_of = {name: place for place, name in enumerate(source.feature_names)}
    common = [name for name in target.feature_names if name in place_of]
    if not common:
        raise DataError(
            f"source and target have no feature in common: source has {some_names(source.feature_names)}, "
            f"target {some_names(target.feature_names)}. Rename the columns that mean the same."
        )
    in_target = [place for place, name in enumerate(target.feature_names) if name in place_of]
    return np.array([place_of[name] for name in common]), np.array(in_target)


def take_columns(data: RankingData, places: Rows) -> RankingData:
    """The data with the features at these places, in this order."""
    if np.array_equal(places, np.arange(data.n_features)):
        return data
    own = data.feature_names
    return dataclasses.replace(
        data,
        features=np.ascontiguousarray(data.features[:, places]),
        feature_names=None if own is None else tuple(own[place] for place in places.tolist()),
    )


def varying_columns(data: RankingData) -> Array:
    """Whether each feature differs between documents of some query; missing values equal each other."""
    starts = data.query_offsets[:-1]
    grouped = data.features[data.row_order]
    np.copyto(
        grouped, np.inf, where=np.isnan(grouped)
    )  # equal to itself, other than any finite value
    highest, lowest = np.maximum.reduceat(grouped, starts), np.minimum.reduceat(grouped, starts)
    found: Array = (highest != lowest).any(axis=0)
    return found


# ``transfer_report``: whether rows or columns from another collection help or harm.


HELPS, HARMS, UNCLEAR = "helps", "harms", "no clear difference"


@dataclass(frozen=True, eq=False)
class TransferReport:
    """The validation measure of one ranker trained without and with what was transferred.

    Attributes
    ----------
    without, with_transfer, difference
        The measure of the two, and the second less the first.
    p_value
        Of Student's paired t test over the queries: how likely differences as large as these are by chance. NaN where
        fewer than two queries have a value.
    differences
        The difference of each query's own value, NaN where it has none.
    verdict
        "helps", "harms", or "no clear difference" if the p value is not below ``level``.
    all_features
        The measure without the transfer and with all features of the target; None where it lost none of them.
    """

    model: str
    measure: Measure
    without: float
    with_transfer: float
    p_value: float
    differences: Floats = field(repr=False)
    level: float = 0.05
    all_features: float | None = None

    @property
    def difference(self) -> float:
        """With the transfer less without it."""
        return self.with_transfer - self.without

    @property
    def verdict(self) -> str:
        """Whether the transfer helps, harms, or makes no clear difference."""
        mean = float(np.nanmean(self.differences)) if self.n_queries else 0.0
        # Of measures over all documents the sign of the whole may differ from that of the queries' mean.
        if not self.p_value < self.level or mean * self.difference <= 0:
            return UNCLEAR
        return HELPS if (self.difference < 0) == is_minimised(self.measure) else HARMS

    @property
    def n_queries(self) -> int:
        """How many queries the test looks at."""
        return int(np.count_nonzero(~np.isnan(self.differences)))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, without the values of single queries."""
        return {
            "model": self.model,
            "measure": str(self.measure),
            "without": self.without,
            "with": self.with_transfer,
            "difference": self.difference,
            "p_value": self.p_value,
            "queries": self.n_queries,
            "verdict": self.verdict,
            "without_with_all_features": self.all_features,
        }

    def __str__(self) -> str:
        lines = [
            f"{self.measure} of {self.model} on {self.n_queries:,} validation queries",
            f"  without  {self.without:.4f}",
            f"  with     {self.with_transfer:.4f}",
            f"  change  {self.difference:+.4f}  ({_shown(self.p_value)}, paired t test over queries)",
            f"  the transfer {self.verdict}"
            if self.verdict != UNCLEAR
            else f"  {UNCLEAR}: the change may be chance",
        ]
        if self.all_features is not None:
            lines.append(f"  without, but with all features of the target: {self.all_features:.4f}")
        return "\n".join(lines)


def transfer_report(
    model: Ranker,
    without: RankingData,
    with_transfer: RankingData,
    valid: RankingData,
    *,
    valid_with: RankingData | None = None,
    measure: str | Measure = "ndcg@10",
    level: float = 0.05,
) -> TransferReport:
    """Train copies of ``model`` without and with what was transferred, and compare them on validation data.

    Parameters
    ----------
    model
        The ranker to train; it is not changed. If it needs validation data, for early stopping say, it gets these.
    without, with_transfer
        The two sets of training rows.
    valid, valid_with
        Validation data of the target; ``valid_with`` are the same rows with what was transferred, where that is
        columns.
    measure
        What is compared, such as "ndcg@10". Values of queries weigh by ``valid.query_weights``, in the test they
        weigh the same.
    level
        p values below this make a verdict.
    """
    parsed = parse_measure(measure)
    level = checks.real_number("level", level, "(0, 1)")
    check_comparison(model, valid)
    valid_with = valid if valid_with is None else valid_with
    scores = trained_scores(model, without, valid)
    scores_with = trained_scores(model, with_transfer, valid_with)
    differences = parsed.per_query(scores_with, valid_with) - parsed.per_query(scores, valid)
    return TransferReport(
        type(model).__name__,
        parsed,
        mean_value(parsed, scores, valid),
        mean_value(parsed, scores_with, valid_with),
        paired_t_test(differences),
        differences,
        level,
    )


def check_ranker(name: str, model: Any) -> None:
    """Raise for what is no estimator of ours; classes are meant to be called first."""
    if not isinstance(model, Ranker):
        shown = model.__name__ if isinstance(model, type) else checks.plain(model)
        raise ParameterError(f"{name} must be a ranker such as RandomForest(), got {shown}.")


def check_comparison(model: Any, valid: Any) -> None:
    """Raise for a ranker that cannot be trained, or for validation data that cannot tell rankings apart."""
    check_ranker("model", model)
    if not isinstance(valid, RankingData):
        raise ParameterError(f"valid must be RankingData, got {type(valid).__name__}.")
    if valid.n_documents == 0:
        raise DataError("valid has no documents.")
    if valid.n_queries < 2:
        raise DataError(
            "valid has one query: whether a difference is chance can be told from two on."
        )
    if valid.labels.min() == valid.labels.max():
        raise DataError(
            f"all labels of valid are {valid.labels[0]:g}: every ranking of them is as good as any other."
        )


def trained_scores(model: Ranker, train: RankingData, valid: RankingData) -> Floats:
    """The validation scores of a copy of ``model`` that was trained on ``train``."""
    needed = valid if _needs_validation(model) else None
    scores: Floats = clone(model).fit(train, valid=needed).predict(valid)
    return scores


def _needs_validation(model: Ranker) -> bool:
    """Whether the ranker, or one that it is built on, stops early or fits its weights by validation data."""
    values = model.get_params(deep=True).items()
    stops = any(name.endswith("early_stopping") and value is not None for name, value in values)
    return stops or getattr(model, "fitted_on", "train") != "train"


def _shown(p_value: float) -> str:
    if math.isnan(p_value):
        return "no p value"
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
