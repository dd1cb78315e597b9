"""What BROOF looks at before it begins: its parameters, and whether the data have what they need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.ensembles.bags import UNITS
from rankwood.ensembles.broof_forests import check_folds
from rankwood.ensembles.broof_parts import INITIAL_WEIGHTS, UPDATES, VALIDATIONS
from rankwood.ensembles.validation import mean_value
from rankwood.errors import DataError, ParameterError
from rankwood.losses.placement import REGIONS
from rankwood.measures.measure import Measure
from rankwood.measures.parsing import parse_measure
from rankwood.trees.policies import FeatureChoice, Growth

_LOSSES = ("absolute", "median", "height", "gradient", "lambda")
_OF_QUERIES = ("median", "height", "lambda")  # losses that compare documents of a query
_WEIGHTINGS = ("resample", "reweight")
_STOPS = ("oob", "valid")


def check_data(model: Any, data: RankingData, valid: RankingData | None) -> None:
    """Raise unless the data have what the parameters ask of them."""
    needs_queries = {
        f"loss='{model.loss}'": isinstance(model.loss, str) and model.loss in _OF_QUERIES,
        "validation='query-folds'": isinstance(model.validation, str)
        and model.validation == "query-folds",
        "bag='query'": model.bag == "query",
    }
    for what, is_needed in needs_queries.items():
        if is_needed and data.query_ids is None:
            raise DataError(
                f"{what} looks at the documents of a query, but the training data have no "
                "query ids. Pass qid=, one id per row."
            )
    if model.stop == "valid" and valid is None:
        raise ParameterError("stop='valid' needs validation data: pass valid= to fit.")
    takes_rows = parse_measure(model.measure).name == "rmse"
    if valid is not None and valid.query_ids is None and not takes_rows:
        raise DataError(
            f"valid has no query ids, which {model.measure} needs. "
            "Pass (X, y, qid), or measure='rmse'."
        )


def check_parameters(model: Any) -> None:
    """Raise for parameters that are wrong whatever the data."""
    if isinstance(model.loss, str) or not (callable(model.loss) or hasattr(model.loss, "targets")):
        _checks.one_of("loss", model.loss, _LOSSES)
    _checks.whole_number("n_rounds", model.n_rounds, 1)
    _checks.whole_number("n_trees", model.n_trees, 1)
    if model.learning_rate is not None:
        _checks.real_number("learning_rate", model.learning_rate, "(0, 1]")
    _check_choices(model)
    _checks.whole_number("n_folds", model.n_folds, 2)
    if isinstance(model.validation, str) and model.validation == "query-folds":
        check_folds(model.n_folds, model.n_trees)
    if model.stop is not None:
        _checks.one_of("stop", model.stop, _STOPS)
    _checks.whole_number("patience", model.patience, 1)
    _check_measure(model)
    _checks.one_of("bag", model.bag, UNITS)
    _checks.real_number("bag_share", model.bag_share, "(0, 1]")
    Growth(model.max_leaves, model.max_depth, model.min_leaf, model.min_gain)
    FeatureChoice(model.features_per_node).count(1)


def _check_measure(model: Any) -> None:
    """The measure can be parsed, and, for lambda, can be learned."""
    parse_measure(model.measure)
    if isinstance(model.loss, str) and model.loss == "lambda":
        from rankwood.losses.lambdarank import parse_target

        try:
            parse_target(model.measure)
        except ParameterError as error:
            raise ParameterError(f"loss='lambda' learns the measure, but {error}") from None


def _check_choices(model: Any) -> None:
    """Each extension point is a known name, or something to be called."""
    known: dict[str, Iterable[str]] = {
        "validation": VALIDATIONS,
        "update_weights": UPDATES,
        "initial_weights": INITIAL_WEIGHTS,
    }
    for name, names in known.items():
        value = getattr(model, name)
        if not callable(value) and not (name == "update_weights" and value is None):
            _checks.one_of(name, value, names)
    _checks.one_of("weighting", model.weighting, _WEIGHTINGS)
    _checks.one_of("region", model.region, REGIONS)
    if model.normalize is not None:
        _checks.one_of("normalize", model.normalize, ("max",))


def judged_data(measure: Measure, data: RankingData, must: bool = False) -> RankingData | None:
    """The data where the measure can be taken on them; some need queries, or small labels."""
    try:
        if data.query_ids is None and measure.name != "rmse":
            raise DataError(
                f"the training data have no query ids, which {measure} needs. Pass qid=, or measure='rmse'."
            )
        mean_value(measure, np.zeros(data.n_documents), data)
    except DataError:
        if must:
            raise
        return None
    return data
