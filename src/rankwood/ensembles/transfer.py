"""``select_similar``: documents of another collection that could be the target's own (Mohan 2010, chapter 5).

Words used here
    source      the collection with many judgements, from which documents are taken
    target      the collection that is to be ranked better
    domain      which of the two a document is from: 0 the source, 1 the target
    similarity  P(target): how likely a source document is from the target, as a forest says that has not seen it
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood import _checks
from rankwood._random import stream
from rankwood.data.dataset import RankingData
from rankwood.dtypes import FEATURE, Array, Floats, Rows
from rankwood.ensembles.bags import UNITS
from rankwood.ensembles.base import Ranker
from rankwood.ensembles.forests import RandomForest
from rankwood.ensembles.refitting import join
from rankwood.ensembles.transfer_features import common_columns, take_columns, varying_columns
from rankwood.ensembles.transfer_report import (
    TransferReport,
    check_comparison,
    check_ranker,
    trained_scores,
    transfer_report,
)
from rankwood.ensembles.validation import mean_value
from rankwood.errors import DataError, ParameterError
from rankwood.measures.measure import Measure
from rankwood.measures.parsing import parse_measure
from rankwood.models.inputs import features_in_order, some_names

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
    share = _checks.real_number("share", share, "(0, 1]")
    n_folds = _checks.whole_number("n_folds", n_folds, 2)
    seed = _checks.whole_number("seed", seed, 0)
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
    everything = RankingData(
        np.zeros((domain.size, 1), FEATURE), domain, np.zeros(domain.size, np.int64)
    )
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
    return _checks.one_of("folds_by", folds_by, UNITS)


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
    order = stream(seed, f"folds of the {name}").permutation(n_units)
    fold_of_unit = np.empty(n_units, np.int64)
    fold_of_unit[order] = np.arange(n_units) % n_folds
    return fold_of_unit[data.query_of_row] if unit == "query" else fold_of_unit
