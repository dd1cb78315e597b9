"""``transfer_report``: whether rows or columns from another collection help or harm."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.ensembles.base import Ranker
from rankwood.ensembles.validation import is_minimised, mean_value
from rankwood.errors import DataError, ParameterError
from rankwood.measures.measure import Measure
from rankwood.measures.paired import paired_t_test
from rankwood.measures.parsing import parse_measure

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
    level = _checks.real_number("level", level, "(0, 1)")
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
        shown = model.__name__ if isinstance(model, type) else _checks.plain(model)
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
