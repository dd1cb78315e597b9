"""Transfer between collections: ``select_similar``, ``add_model_features``, and ``transfer_report`` on their effect.

``select_similar`` adds rows of another collection to the training data, ``add_model_features`` adds columns; both can
measure whether that helps. ``transfer_report`` trains a ranker without and with what was transferred, and compares the
two on validation data. The methods are those of Mohan (2010), chapter 5; ``rankwood.prepare.transfer`` computes them
and defines source, target, domain and similarity.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats, Rows
from rankwood.engines.bags import UNITS
from rankwood.errors import DataError, ParameterError
from rankwood.evaluation.paired_tests import paired_t_test
from rankwood.evaluation.results import Result, Tables
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.models.validate import features_in_order, some_names
from rankwood.prepare.transfer import (
    KINDS,
    CommonColumns,
    DomainForests,
    add_columns,
    check_kinds,
    common_columns,
    folds_of_rows,
    model_columns,
    shown_reasons,
    take_columns,
)
from rankwood.rankers.base import Ranker, parameters_called
from rankwood.rankers.forests import RandomForest
from rankwood.rankers.save import join

DOMAIN_TREES = 100  # of each domain forest: more change the order of documents little
DOMAIN_LEAVES = 100  # of each of their trees
_TOLD_APART = 0.999  # an AUC from which on similarity is mostly noise
HELPS, HARMS, UNCLEAR = "helps", "harms", "no clear difference"


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
        How well a forest tells unseen documents of the two collections apart: 0.5 not at all, 1 always.
    features
        The names of the common features, or their 1-based numbers.
    report
        What the chosen rows changed; None without validation data.
    dropped
        Why each of the other features is not common, by name.
    """

    data: RankingData
    similarity: Floats
    rows: Rows
    auc: float
    features: tuple[str, ...]
    report: TransferReport | None = None
    dropped: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        n_added = self.rows.size
        chosen = self.similarity[self.rows]
        lines = [
            f"{n_added:,} of {self.similarity.size:,} source documents added to "
            f"{self.data.n_documents - n_added:,} of the target; {len(self.features):,} common features",
            *dropped_lines(self.dropped),
            f"similarity of those added: {chosen.min():.3f} to {chosen.max():.3f} "
            f"(mean {chosen.mean():.3f}, of all {self.similarity.mean():.3f})",
            auc_line(self.auc),
        ]
        return "\n".join([*lines, "", _effect(self.report)])


def dropped_lines(dropped: Mapping[str, str]) -> list[str]:
    """The line that says which features are not common and why; none where all are."""
    return [f"not common: {shown_reasons(dropped)}"] if dropped else []


def auc_line(auc: float) -> str:
    """How well the collections are told apart, and what an AUC near 1 means for the choice."""
    if auc < _TOLD_APART:
        return f"AUC of the domain forest: {auc:.3f} (0.5: the collections look the same)"
    return (
        f"AUC of the domain forest: {auc:.3f}: nearly every document is told apart, so that the similarity hardly "
        "ranks them. Look for features that are made differently in the two collections, and leave them out."
    )


def select_similar(
    source: RankingData,
    target: RankingData,
    share: float,
    *,
    valid: RankingData | None = None,
    model: Ranker | None = None,
    measure: str | Measure = "ndcg@10",
    level: float = 0.05,
    forest: Ranker | None = None,
    n_folds: int = 5,
    folds_by: str | None = None,
    balance: bool = True,
    query_features: bool = False,
    keep_constant: bool = False,
    seed: int = 0,
    n_threads: int | None = None,
) -> Selection:
    """The target with the ``share`` of the source's documents that most look like the target's.

    The source is divided into folds. A domain forest is fitted to 0 for the source without one fold and to 1 for the
    target, and predicts for each document in that fold how likely it is from the target.

    Parameters
    ----------
    source, target
        Training rows of the two collections, as RankingData. Only features that both have are used: by name where both
        have names, else by position, and then there must be equally many.
    share
        How much of the source is added, in (0, 1]; equally similar documents are taken in the source's order.
    valid, model, measure, level
        With validation data of the target, ``model`` (None: ``RandomForest()``) is trained without and with the chosen
        rows, and ``report`` says what they changed; p values below ``level`` make a verdict.
    forest
        The domain forest; None is a ``RandomForest`` of 100 trees with ``seed`` and ``n_threads``.
    n_folds, folds_by
        How many folds; whether they are made of whole queries ("query", the default where there are queries) or of
        rows. Documents of one query resemble each other: a forest that has seen some of them as the source's
        recognises the query.
    balance
        Whether both collections have the same weight in the domain forest, so that a similarity of ½ means that a
        document could be from either. The order of documents hardly depends on it.
    query_features
        Whether features that are constant within every query may tell the collections apart. They let a forest
        memorise the queries, which says nothing about documents, so they are left out by default.
    keep_constant
        Whether a feature that has one value throughout a collection, or is missing throughout, is common. LETOR text
        reads so where a feature is never written. By default it counts as absent, and ``dropped`` names it.
    seed
        Decides the folds, and the domain forest if none is given.
    """
    parsed = parse_measure(measure)
    pair = CollectionPair.of(source, target, keep_constant)
    n_chosen = n_documents_of(share, source)
    seed = checks.whole_number("seed", seed, 0)
    model = RandomForest(seed=seed, n_threads=n_threads) if model is None else model
    if valid is not None:  # before anything takes long
        valid = pair.like_the_target(valid, "valid", model)
    options = DomainOptions(forest, n_folds, folds_by, balance, query_features, seed, n_threads)
    similarity, auc = pair.similarity(options)
    rows = most_similar(similarity, n_chosen)
    joined = pair.with_rows(rows)
    report = None
    if valid is not None:
        report = transfer_report(
            model, pair.own, joined, pair.cut(valid), measure=parsed, level=level
        )
        if pair.own.n_features < target.n_features:
            alone = mean_value(parsed, trained_scores(model, target, valid), valid)
            report = dataclasses.replace(report, all_features=alone)
    return Selection(joined, similarity, rows, auc, pair.own.names, report, pair.columns.dropped)


@dataclass(frozen=True)
class DomainOptions:
    """How similarity is computed; the parameters of ``select_similar`` of the same names."""

    forest: Ranker | None = None
    n_folds: int = 5
    folds_by: str | None = None
    balance: bool = True
    query_features: bool = False
    seed: int = 0
    n_threads: int | None = None

    def checked_forest(self) -> Ranker:
        """The domain forest; one of 100 trees where none is given."""
        if self.forest is None:
            return RandomForest(
                DOMAIN_TREES, DOMAIN_LEAVES, seed=self.seed, n_threads=self.n_threads
            )
        check_ranker("forest", self.forest)
        return self.forest


@dataclass(frozen=True, eq=False)
class CollectionPair:
    """Source and target, and both cut to their common features: ``near`` and ``own``."""

    target: RankingData
    near: RankingData
    own: RankingData
    columns: CommonColumns

    @classmethod
    def of(cls, source: RankingData, target: RankingData, keep_constant: bool) -> CollectionPair:
        """The pair, if both collections have documents, labels to learn from, and features in common."""
        _check_collections(source, target)
        columns = common_columns(source, target, keep_constant)
        near = take_columns(source, columns.in_source)
        return cls(target, near, take_columns(target, columns.in_target), columns)

    def similarity(self, options: DomainOptions) -> tuple[Floats, float]:
        """P(target) of every source document, and the AUC of the domain forest."""
        n_folds = checks.whole_number("n_folds", options.n_folds, 2)
        forest = options.checked_forest()
        unit = _unit(options.folds_by, self.near)
        folds = folds_of_rows(self.near, "source", n_folds, unit, options.seed)
        of_target = folds_of_rows(self.own, "target", n_folds, unit, options.seed)
        forests = DomainForests(
            self.near, self.own, forest, options.balance, options.query_features
        )
        return forests.similarity(folds, n_folds), forests.auc(folds == 0, of_target == 0)

    def with_rows(self, rows: Rows) -> RankingData:
        """The target, then these rows of the source, with the common features."""
        return join(self.own, self.near.take_rows(rows))

    def cut(self, part: RankingData) -> RankingData:
        """A part of the target with the common features."""
        return take_columns(part, self.columns.in_target)

    def like_the_target(self, part: RankingData, name: str, model: Ranker) -> RankingData:
        """Validation or test data with the target's features in the target's order."""
        return _like_the_target(part, self.target, name, model)


def most_similar(similarity: Floats, n_chosen: int) -> Rows:
    """The rows of the highest similarity, ascending; of equal ones the first."""
    rows: Rows = np.sort(np.argsort(-similarity, kind="stable")[:n_chosen])
    return rows


def _like_the_target(
    valid: RankingData, target: RankingData, name: str, model: Ranker
) -> RankingData:
    check_comparison(model, valid, name)
    try:
        matrix = features_in_order(valid, target.n_features, target.feature_names)
    except DataError:
        lacking = sorted(set(target.names) - set(valid.names))
        what = f"it lacks {some_names(lacking)}" if lacking else f"it has {valid.n_features:,}"
        raise DataError(
            f"{name} must have the target's {target.n_features:,} features, but {what}."
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


def n_documents_of(share: float, source: RankingData) -> int:
    """How many documents a share of the source is; an error where it is none."""
    share = checks.real_number("share", share, "(0, 1]")
    n_documents = source.n_documents
    n_chosen = int(share * n_documents + 1e-9)  # 0.7 of 10 is 7, whatever floats say
    if n_chosen == 0:
        raise ParameterError(
            f"a share of {share:g} of {n_documents:,} source documents is less than one: nothing would be "
            f"transferred. Use a share of at least {1 / n_documents:.2g}."
        )
    return n_chosen


@dataclass(frozen=True, eq=False)
class AddedFeatures:
    """Data with the predictions of a model as further features.

    Attributes
    ----------
    data, valid
        The data passed, with the new columns after their own; ``valid`` is None if there were none.
    names
        The names of the new columns.
    report
        What the columns changed; None without validation data.
    """

    data: RankingData
    names: tuple[str, ...]
    valid: RankingData | None = None
    report: TransferReport | None = None

    def __str__(self) -> str:
        n_before = self.data.n_features - len(self.names)
        added = f"{len(self.names)} features added to {n_before:,}: {', '.join(self.names)}"
        return f"{added}\n\n{_effect(self.report)}"


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
    """The data with the predictions of a model of another collection as further features.

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
    kinds = check_kinds(model, kinds)
    plain_names, columns = model_columns(model, data, kinds)
    names = tuple(f"{prefix}{name}" for name in plain_names)
    added = add_columns(data, names, columns)
    if valid is None:
        return AddedFeatures(added, names)
    more = add_columns(valid, names, model_columns(model, valid, kinds)[1])
    ranker = RandomForest() if ranker is None else ranker
    report = transfer_report(ranker, data, added, valid, valid_with=more, measure=measure)
    return AddedFeatures(added, names, more, report)


@dataclass(frozen=True, eq=False)
class TransferReport(Result):
    """The validation measure of one ranker trained without and with what was transferred.

    Attributes
    ----------
    without, with_transfer, difference
        The measure of the two, and the second minus the first.
    p_value
        Of Student's paired t test over the queries: how likely differences as large as these are by chance. NaN where
        fewer than two queries have a value.
    differences
        The difference of each query's own value, NaN where it has none. Of a measure of all documents together (auc,
        rmse) they are those of ``measure.over_queries``, and a verdict needs both to agree.
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
        """The measure with the transfer minus the one without it."""
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
        """How many queries the test is computed from."""
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
            "tested": str(self.measure.over_queries),
            "queries": self.n_queries,
            "verdict": self.verdict,
            "without_with_all_features": self.all_features,
        }

    def _records(self) -> list[dict[str, Any]]:
        return [self.to_dict()]

    def _tables(self) -> Tables:
        values = {
            "without": f"{self.without:.4f}",
            "with": f"{self.with_transfer:.4f}",
            "change": f"{self.difference:+.4f}",
        }
        rows = [{"training": name, str(self.measure): value} for name, value in values.items()]
        return {self._title: rows}

    def _footnotes(self) -> list[str]:
        return [f"{_shown(self.p_value)}, {self._test}", *self._verdict_lines()]

    @property
    def _test(self) -> str:
        """The test, and what was tested where that has another name than the measure."""
        tested = f" of {self.measure.over_queries}" if self.measure.is_pooled else ""
        return f"paired t test over queries{tested}"

    def _verdict_lines(self) -> list[str]:
        """The verdict; and the value of the target by itself, where it has features that the source lacks."""
        lines = [
            f"the transfer {self.verdict}"
            if self.verdict != UNCLEAR
            else f"{UNCLEAR}: the change may be chance"
        ]
        if self.all_features is not None:
            lines.append(f"without, but with all features of the target: {self.all_features:.4f}")
        return lines

    @property
    def _title(self) -> str:
        return f"{self.measure} of {self.model} on {self.n_queries:,} validation queries"

    def __str__(self) -> str:
        lines = [
            f"without  {self.without:.4f}",
            f"with     {self.with_transfer:.4f}",
            f"change  {self.difference:+.4f}  ({_shown(self.p_value)}, {self._test})",
            *self._verdict_lines(),
        ]
        return "\n".join([self._title, *(f"  {line}" for line in lines)])


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
    return report_of_scores(model, parsed, (valid, scores), (valid_with, scores_with), level)


def report_of_scores(
    model: Ranker,
    measure: Measure,
    without: tuple[RankingData, Floats],
    with_transfer: tuple[RankingData, Floats],
    level: float,
) -> TransferReport:
    """The comparison of two rankings of the same rows, each given as its data and scores."""
    (data, scores), (data_with, scores_with) = without, with_transfer
    differences = measure.per_query(scores_with, data_with) - measure.per_query(scores, data)
    return TransferReport(
        type(model).__name__,
        measure,
        mean_value(measure, scores, data),
        mean_value(measure, scores_with, data_with),
        paired_t_test(differences),
        differences,
        level,
    )


def _effect(report: TransferReport | None) -> str:
    """What a transfer changed, as text."""
    if report is None:
        return "not measured: pass valid= to see whether this helps or harms"
    return str(report)


def check_ranker(name: str, model: Any) -> None:
    """Raise unless ``model`` is an instance of one of Rankwood's rankers."""
    if not isinstance(model, Ranker):
        shown = model.__name__ if isinstance(model, type) else checks.plain(model)
        raise ParameterError(f"{name} must be a ranker such as RandomForest(), got {shown}.")


def check_comparison(model: Any, valid: Any, name: str = "valid") -> None:
    """Raise for a ranker that cannot be trained, or for data, ``name``, that cannot compare rankings."""
    check_ranker("model", model)
    if not isinstance(valid, RankingData):
        raise ParameterError(f"{name} must be RankingData, got {type(valid).__name__}.")
    if valid.n_documents == 0:
        raise DataError(f"{name} has no documents.")
    if valid.n_queries < 2:
        raise DataError(
            f"{name} has one query: whether a difference is chance can be told from two on."
        )
    if valid.labels.min() == valid.labels.max():
        raise DataError(
            f"all labels of {name} are {valid.labels[0]:g}: every ranking of them is as good as any other."
        )


def trained_scores(model: Ranker, train: RankingData, valid: RankingData) -> Floats:
    """The validation scores of a copy of ``model`` that was trained on ``train``."""
    return scores_of_parts(model, train, {"valid": valid}, valid)["valid"]


def scores_of_parts(
    model: Ranker, train: RankingData, parts: Mapping[str, RankingData], valid: RankingData
) -> dict[str, Floats]:
    """The scores of each part by one copy of ``model``, trained on ``train`` and, if it needs that, ``valid``."""
    needed = valid if _needs_validation(model) else None
    fitted = clone(model).fit(train, valid=needed)
    return {name: checks.read_only(fitted.predict(part)) for name, part in parts.items()}


def _needs_validation(model: Ranker) -> bool:
    """Whether the ranker, or one that it is built on, stops early or fits its weights by validation data."""
    stopping = parameters_called(model, "early_stopping")
    stops = any(value is not None for value in stopping.values())
    return stops or getattr(model, "fitted_on", "train") != "train"


def _shown(p_value: float) -> str:
    if math.isnan(p_value):
        return "no p value"
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
