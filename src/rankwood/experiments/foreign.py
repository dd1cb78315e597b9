"""Systems that are not Rankwood's, as algorithms of an experiment: rankers of other libraries, a feature, given scores.

A ``ForeignRanker`` has the interface that a cell needs: ``check`` before anything is fitted, ``fit`` with the training
and the validation part, ``predict``, and ``facts`` for the record of the cell. Parameters of a library are passed
through under the library's own names, in ``params``; the seed and the number of threads are the cell's.

===========  ==========================================================================================
``kind``     what ranks
===========  ==========================================================================================
lightgbm     a model of LightGBM; by default ``objective = "lambdarank"``
xgboost      a model of XGBoost; by default ``objective = "rank:ndcg"``
sklearn      a regressor of scikit-learn, fitted to the labels
feature      one feature: its value, or the negative of it, is the score
scores       a file with a score for each test document, or a TREC run
===========  ==========================================================================================
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import has_fit_parameter

from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood.data.categories import refuse
from rankwood.data.dataset import RankingData
from rankwood.data.scores import distinct_scores, read_ranking
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import (
    DataError,
    DataWarning,
    InputError,
    ParameterError,
    RunError,
    UnknownName,
)
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.training.rounds import plain_parameters

N_ROUNDS = 100  # LightGBM's default, and that of XGBoost's estimators
FOLD, REPETITION = "{fold}", "{repetition}"  # in the path of given scores
ORDERS = ("descending", "ascending")
BEST_FEATURE = "best"
_SEEDS = "seeds follow from [run] seed, the fold and the repetition"
_THREADS = "threads are set by [run] threads"
_REGRESSORS = (  # of scikit-learn: where its regressors are
    *("ensemble", "linear_model", "tree", "neighbors", "svm", "neural_network", "kernel_ridge"),
    *("gaussian_process", "cross_decomposition", "dummy"),
)


class ForeignRanker(BaseEstimator):  # type: ignore[misc]
    """Base of what an experiment ranks with besides Rankwood's own rankers."""

    package: str | None = None  # what must be installed, as it is imported
    measure = "measure"  # what the history of a fit is of
    history_: Sequence[Mapping[str, float]] = ()

    @property
    def is_random(self) -> bool:
        """Whether another repetition may give another ranking."""
        return True

    @property
    def needs_measure(self) -> bool:
        """Whether the scores depend on the primary measure, besides data and parameters."""
        return False

    def check(self) -> None:
        """Raise for a parameter that is wrong whatever the data are."""

    def place(self, fold: str, repetition: int, measure: Measure) -> None:
        """Tell the ranker its cell, and the measure that decides."""
        self.fold_, self.repetition_, self.primary_ = fold, repetition, measure

    def fit(self, train: RankingData, valid: RankingData | None = None) -> ForeignRanker:
        """Learn from the training part; an error of the library is raised as ours, with its message."""
        start = time.perf_counter()
        with self._explained():
            self._fit(train, valid)
        self.training_ = {"seconds": time.perf_counter() - start}
        return self

    def predict(self, data: RankingData) -> Floats:
        """One score per document; −inf where a run has not retrieved it."""
        with self._explained():
            scores: Floats = np.asarray(self._predict(data), np.float64)
        if scores.shape != (data.n_documents,):
            raise RunError(
                f"{self._library()} gives {'×'.join(map(str, scores.shape))} numbers for {data.n_documents:,} "
                "documents: a ranking needs one for each. Choose an objective that ranks, or predicts one number."
            )
        return scores

    def facts(self) -> dict[str, Any]:
        """What the record of the cell says of the model."""
        facts: dict[str, Any] = {"parameters": plain_parameters(self)}
        if self.package is not None:
            facts["packages"] = {self.package: version_of(self.package)}
            facts["threads"] = getattr(self, "n_threads", None)
        if self.history_:
            facts["history"] = {self.measure: [one["valid"] for one in self.history_]}
        return facts

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        raise NotImplementedError

    def _predict(self, data: RankingData) -> Any:
        raise NotImplementedError

    def _library(self) -> str:
        """The library and its version, as messages name them."""
        return f"{self.package} {version_of(str(self.package))}"

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of the library into ours."""
        try:
            yield
        except (InputError, RunError):
            raise
        except Exception as error:  # whatever a library raises
            raise RunError(
                f"{self._library()}: {type(error).__name__}: {_first_lines(str(error))}"
            ) from error


def version_of(package: str) -> str:
    """The version of an imported package."""
    return str(getattr(importlib.import_module(package), "__version__", "unknown"))


def other_versions(record: Mapping[str, Any]) -> set[str]:
    """The packages that a cell was computed with and that have another version now, with that of the cell."""
    packages = record.get("packages", {})
    return {
        f"{name} {version}" for name, version in packages.items() if version != version_of(name)
    }


def is_installed(package: str) -> bool:
    """Whether a package can be imported; nothing is imported."""
    return importlib.util.find_spec(package) is not None


def lacking(kind: str) -> str | None:
    """What must be installed for algorithms of this kind, as a sentence with the command; None where nothing lacks."""
    package, named = _NEEDS.get(kind, (None, ""))
    if package is None or is_installed(package):
        return None
    return f"the package '{package}' is not installed: pip install {named}"


def _first_lines(message: str) -> str:
    """A library's message without what it lists below its first lines, and without places in its sources."""
    text = re.sub(r"^\[[\d:]+\] (\S+?:\d+: )?", "", message.strip())
    text = re.split(r"Stack trace:|Objective candidate:", text)[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:3])[:400].rstrip(": ") or "no message"


# Data as other libraries take them.


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """The documents of queries one after the other."""

    features: Array
    labels: Floats
    sizes: Rows  # documents of each query
    weights: Floats | None  # of documents: theirs times their query's
    query_weights: Floats | None
    has_row_weights: bool

    @classmethod
    def of(cls, data: RankingData) -> GroupedRows:
        """The rows of ``data``; nothing is copied where the queries' rows stand together already."""
        refuse(data.categorical, data.names, "a model of another package")
        order = data.row_order
        is_ordered = bool((order[1:] > order[:-1]).all())
        weights = None
        if data.row_weights is not None or data.query_weights is not None:
            judgments = data.judgments
            of_query = judgments.query_weights_or_ones[data.query_of_row]
            weights = (judgments.row_weights_or_ones * of_query)[order]
        return cls(
            data.features if is_ordered else data.features[order],
            data.labels if is_ordered else data.labels[order],
            np.diff(data.query_offsets),
            weights,
            data.query_weights,
            data.row_weights is not None,
        )


def _checked_params(params: Any, reserved: Mapping[str, str]) -> dict[str, Any]:
    """The table ``params``; names that the run sets are refused."""
    if params is not None and not isinstance(params, Mapping):
        raise ParameterError(
            f"params must be a table of the library's own parameters, got {params!r}."
        )
    found = dict(params or {})
    for name in found:
        if name in reserved:
            raise ParameterError(f"params: {name} cannot be set here: {reserved[name]}.")
    return found


def _scalars(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that do not depend on the shape of the data, so that a library can check them on other data."""
    return {
        name: value
        for name, value in params.items()
        if value is None or isinstance(value, str | int | float)
    }


def _tiny() -> RankingData:
    """Two queries of four documents: data to let a library look at its parameters."""
    features = np.arange(16, dtype=np.float32).reshape(8, 2)
    return RankingData(features, np.tile([0.0, 1.0], 4), np.repeat([0, 1], 4))


def _early_stopping(value: Any) -> None:
    if value is not None:
        checks.whole_number("early_stopping", value, 1)


# LightGBM and XGBoost.


class BoostingLibrary(ForeignRanker):
    """What LightGBM and XGBoost have in common: ``params``, and early stopping on the validation part by NDCG@10."""

    rounds: tuple[str, ...] = ()  # names of the number of rounds
    seeds: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    default_objective = ""
    settled_objectives: frozenset[str] = frozenset()  # with which a fit draws nothing …
    settled: frozenset[str] = frozenset()  # … as long as no other parameter than these is set

    def __init__(
        self,
        params: Mapping[str, Any] | None = None,
        early_stopping: int | None = None,
        seed: int = 0,
        n_threads: int | None = None,
    ) -> None:
        self.params, self.early_stopping = params, early_stopping
        self.seed, self.n_threads = seed, n_threads

    @property
    def is_random(self) -> bool:
        """Whether a parameter is set that may draw something; one that is not known here may."""
        params = self.params if isinstance(self.params, Mapping) else {}
        objective = params.get("objective", self.default_objective)
        return not (objective in self.settled_objectives and self.settled >= set(params))

    def check(self) -> None:
        """Let the library look at the parameters on a few rows: names it does not know are errors."""
        _early_stopping(self.early_stopping)
        params = self._given()
        trial = _scalars(params)
        trial |= {name: 1 for name in self.rounds if isinstance(trial.get(name), int)}
        with self._explained_parameters():
            unknown = self._unknown_names(trial)
        if unknown:
            raise ParameterError(
                f"params: {self.package} has no parameter '{unknown[0]}'; names are {self.package}'s own."
            )

    def facts(self) -> dict[str, Any]:
        """With the number of rounds that is scored with."""
        return {**super().facts(), "n_rounds": self.n_rounds_}

    def _given(self) -> dict[str, Any]:
        reserved = dict.fromkeys(self.seeds, _SEEDS) | dict.fromkeys(self.threads, _THREADS)
        return {"objective": self.default_objective, **_checked_params(self.params, reserved)}

    @contextlib.contextmanager
    def _explained_parameters(self) -> Iterator[None]:
        try:
            with self._explained():
                yield
        except RunError as error:
            raise ParameterError(f"params: {error}") from None

    def _unknown_names(self, params: dict[str, Any]) -> list[str]:
        raise NotImplementedError

    def _remember(self, values: Sequence[float], n_rounds: int) -> None:
        self.history_ = [{"valid": float(value)} for value in values]
        self.n_rounds_ = n_rounds


class LightGBMRanker(BoostingLibrary):
    """A model of LightGBM."""

    package = "lightgbm"
    rounds = (
        *("num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round"),
        *("num_rounds", "nrounds", "num_boost_round", "n_estimators", "max_iter"),
    )
    seeds = ("seed", "random_seed", "random_state")
    threads = ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs")
    default_objective = "lambdarank"
    settled_objectives = frozenset(("lambdarank", "regression"))
    settled = frozenset(
        (
            *("objective", "metric", "eval_at", "verbosity", "deterministic", *rounds),
            *("learning_rate", "num_leaves", "max_depth", "max_bin", "min_data_in_leaf"),
            *("min_child_samples", "min_sum_hessian_in_leaf", "min_child_weight", "lambda_l1"),
            *("lambda_l2", "reg_alpha", "reg_lambda", "min_gain_to_split", "min_split_gain"),
            *("lambdarank_truncation_level", "lambdarank_norm", "sigmoid", "label_gain"),
        )
    )

    def _settings(self) -> dict[str, Any]:
        """The parameters with those of the cell; by default results do not depend on the number of threads."""
        settings = {"verbosity": -1, "deterministic": True, **self._given()}
        if not {"force_row_wise", "force_col_wise"} & set(settings):
            settings["force_row_wise"] = True
        if not {"metric", "metrics", "metric_types"} & set(settings):
            settings |= {"metric": "ndcg", "eval_at": [10]}
        # The rows from which bins are made, of more than 200,000, are the same whatever the seed.
        settings.setdefault("data_random_seed", 1)
        return settings | {"seed": self.seed, "num_threads": self.n_threads or 0}

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        lightgbm: Any = importlib.import_module("lightgbm")
        parts = [GroupedRows.of(part) for part in (train, valid) if part is not None]
        rows, *held_out = (
            lightgbm.Dataset(part.features, part.labels, group=part.sizes, weight=part.weights)
            for part in parts
        )
        found: dict[str, dict[str, list[float]]] = {}
        listeners = [lightgbm.record_evaluation(found)] if held_out else []
        if self.early_stopping is not None:
            stop = lightgbm.early_stopping(
                self.early_stopping, first_metric_only=True, verbose=False
            )
            listeners.append(stop)
        self.model_ = lightgbm.train(
            self._settings(),
            rows,
            N_ROUNDS,
            valid_sets=held_out,
            valid_names=["valid"] * len(held_out),
            callbacks=listeners,
        )
        by_metric = next(iter(found.values()), {})
        name = next(iter(by_metric), "")
        self.measure = f"{name} (LightGBM's)"
        n_kept = self.model_.best_iteration
        n_rounds = n_kept if n_kept > 0 else self.model_.current_iteration()
        self._remember(by_metric.get(name, []), n_rounds)

    def _predict(self, data: RankingData) -> Any:
        return self.model_.predict(data.features, num_threads=self.n_threads or 0)

    def _unknown_names(self, params: dict[str, Any]) -> list[str]:
        lightgbm: Any = importlib.import_module("lightgbm")
        part = GroupedRows.of(_tiny())
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            rows = lightgbm.Dataset(part.features, part.labels, group=part.sizes)
            lightgbm.train({**params, "verbosity": 0, "num_threads": 1}, rows, 1)
        return re.findall(r"Unknown parameter: (\S+)", printed.getvalue())


class XGBoostRanker(BoostingLibrary):
    """A model of XGBoost."""

    package = "xgboost"
    rounds = ("num_boost_round", "n_estimators", "num_round")
    seeds = ("seed", "random_state")
    threads = ("nthread", "n_jobs")
    default_objective = "rank:ndcg"
    settled_objectives = frozenset(("rank:ndcg", "rank:map", "rank:pairwise", "reg:squarederror"))
    settled = frozenset(
        (
            *("objective", "eval_metric", "verbosity", "tree_method", "grow_policy", *rounds),
            *("learning_rate", "eta", "max_leaves", "max_depth", "max_bin", "min_child_weight"),
            *("lambda", "reg_lambda", "alpha", "reg_alpha", "gamma", "min_split_loss"),
            *("lambdarank_num_pair_per_sample", "ndcg_exp_gain", "base_score"),
        )
    )

    @property
    def is_random(self) -> bool:
        """As of every library; before version 2 pairs of documents were drawn."""
        if not is_installed("xgboost"):
            return True
        return super().is_random or int(version_of("xgboost").partition(".")[0]) < 2

    def _settings(self) -> tuple[dict[str, Any], int]:
        """The parameters with those of the cell, and the number of rounds."""
        settings = {"eval_metric": "ndcg@10", "verbosity": 0, **self._given()}
        given = [settings.pop(name) for name in self.rounds if name in settings]
        n_rounds = checks.whole_number(self.rounds[0], given[0], 1) if given else N_ROUNDS
        return settings | {"seed": self.seed, "nthread": self.n_threads or 0}, n_rounds

    def _matrix(self, data: RankingData, is_ranking: bool, is_train: bool) -> Any:
        """The data with queries and their weights; for a regression with weights of documents and without queries.

        XGBoost takes one of the two. The validation part of a regression has queries, since it is measured by them.
        """
        xgboost: Any = importlib.import_module("xgboost")
        part = GroupedRows.of(data)
        if is_ranking and part.has_row_weights:
            raise DataError(
                "the data have weights of documents, and ranking objectives of xgboost take weights of queries only."
            )
        has_queries = is_ranking or not is_train
        weights = part.query_weights if has_queries else part.weights
        matrix = xgboost.DMatrix(
            part.features, part.labels, weight=weights, nthread=self.n_threads or 0
        )
        if has_queries:
            matrix.set_group(part.sizes)
        return matrix

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        xgboost: Any = importlib.import_module("xgboost")
        settings, n_rounds = self._settings()
        is_ranking = str(settings["objective"]).startswith("rank:")
        held_out = (
            [] if valid is None else [(self._matrix(valid, is_ranking, is_train=False), "valid")]
        )
        found: dict[str, dict[str, list[float]]] = {}
        self.model_ = xgboost.train(
            settings,
            self._matrix(train, is_ranking, is_train=True),
            n_rounds,
            evals=held_out,
            evals_result=found,
            early_stopping_rounds=self.early_stopping,
            verbose_eval=False,
        )
        by_metric = found.get("valid", {})
        name = next(reversed(by_metric), "")  # the last is what early stopping looks at
        self.measure = f"{name} (XGBoost's)"
        n_kept = n_rounds if self.early_stopping is None else self.model_.best_iteration + 1
        self._remember(by_metric.get(name, []), n_kept)

    def _predict(self, data: RankingData) -> Any:
        xgboost: Any = importlib.import_module("xgboost")
        rows = xgboost.DMatrix(data.features, nthread=self.n_threads or 0)
        return self.model_.predict(rows, iteration_range=(0, self.n_rounds_))

    def _unknown_names(self, params: dict[str, Any]) -> list[str]:
        xgboost: Any = importlib.import_module("xgboost")
        self._settings()  # looks at the number of rounds, which is no parameter of the library's
        params = {name: value for name, value in params.items() if name not in self.rounds}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = self._matrix(_tiny(), is_ranking=True, is_train=True)
            xgboost.train({**params, "verbosity": 1, "nthread": 1}, rows, 1)
        unused = [
            text
            for one in caught
            if "are not used" in (text := str(one.message).partition(".cc")[2])
        ]
        return re.findall(r'"(\w+)"', " ".join(unused))


# scikit-learn.


class SklearnRanker(ForeignRanker):
    """A regressor of scikit-learn, fitted to the labels; the predicted label is the score."""

    package = "sklearn"

    def __init__(
        self,
        estimator: str | None = None,
        params: Mapping[str, Any] | None = None,
        seed: int = 0,
        n_threads: int | None = None,
    ) -> None:
        self.estimator, self.params = estimator, params
        self.seed, self.n_threads = seed, n_threads

    @property
    def is_random(self) -> bool:
        """Whether the regressor takes a seed."""
        if not isinstance(self.estimator, str):
            return True
        return "random_state" in inspect.signature(self._class()).parameters

    def check(self) -> None:
        """Raise for a class or a parameter that scikit-learn does not have, or a value that it does not take."""
        kind = self._class()
        given = _checked_params(self.params, {"random_state": _SEEDS, "n_jobs": _THREADS})
        known = inspect.signature(kind).parameters
        for name in given:
            if name not in known:
                raise UnknownName(f"params: parameter of {self.estimator}", name, known)
        try:  # scikit-learn checks its parameters before it looks at the data, of which there are none here
            self._unfitted().fit(np.empty((0, 1)), np.empty(0))
        except (ValueError, TypeError) as error:
            if type(error).__name__ == "InvalidParameterError" or isinstance(error, TypeError):
                raise ParameterError(f"params: {_first_lines(str(error))}") from None

    def _class(self) -> Any:
        """The regressor's class, by its name."""
        if not isinstance(self.estimator, str):
            raise ParameterError(
                "estimator must name a regressor of scikit-learn, such as 'ExtraTreesRegressor', "
                f"got {self.estimator!r}."
            )
        known: dict[str, Any] = {}
        for name in _REGRESSORS:
            module = importlib.import_module(f"sklearn.{name}")
            known |= {
                shown: value
                for shown, value in vars(module).items()
                if inspect.isclass(value) and issubclass(value, RegressorMixin)
            }
        if self.estimator not in known:
            raise UnknownName("estimator: regressor of scikit-learn", self.estimator, known)
        return known[self.estimator]

    def _unfitted(self) -> Any:
        kind = self._class()
        known = inspect.signature(kind).parameters
        of_the_cell = {"random_state": self.seed, "n_jobs": self.n_threads}
        return kind(
            **{name: value for name, value in of_the_cell.items() if name in known},
            **dict(self.params or {}),
        )

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:  # noqa: ARG002
        model = self._unfitted()
        weights = GroupedRows.of(train).weights
        options: dict[str, Any] = {}
        if weights is not None and has_fit_parameter(model, "sample_weight"):
            by_row = np.empty_like(weights)
            by_row[train.row_order] = weights
            options["sample_weight"] = by_row
        self.model_ = model.fit(train.features, train.labels, **options)

    def _predict(self, data: RankingData) -> Any:
        return self.model_.predict(data.features)


# A feature, and scores from elsewhere.


class FeatureRanker(ForeignRanker):
    """Documents by one feature; ``feature = "best"`` takes the one that ranks the training part best."""

    def __init__(self, feature: str | int = BEST_FEATURE, order: str | None = None) -> None:
        self.feature = feature
        self.order = order

    @property
    def is_random(self) -> bool:
        """A feature is the same in every repetition."""
        return False

    @property
    def needs_measure(self) -> bool:
        """Whether the feature is chosen by it."""
        return self.feature == BEST_FEATURE

    def check(self) -> None:
        """Raise for what is no feature, and no order."""
        is_name = isinstance(self.feature, str) and self.feature.strip()
        if not is_name:
            checks.whole_number("feature", self.feature, 1)
        if self.order is not None:
            checks.one_of("order", self.order, ORDERS)

    def facts(self) -> dict[str, Any]:
        """With the feature and the order that were chosen."""
        facts = super().facts()
        chosen = {"feature": self.feature_, "order": self.order_}
        facts["parameters"] |= chosen
        return facts | ({"chosen": chosen} if self.feature == BEST_FEATURE else {})

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:  # noqa: ARG002
        if self.feature == BEST_FEATURE and BEST_FEATURE not in train.names:
            self.column_, self.order_ = self._best(train)
        else:
            self.column_, self.order_ = self._column(train), self.order or ORDERS[0]
        self.feature_ = train.names[self.column_]

    def _column(self, data: RankingData) -> int:
        if isinstance(self.feature, str):
            return data.names.index(checks.one_of("feature", self.feature, data.names))
        if self.feature > data.n_features:
            raise DataError(
                f"feature is {self.feature}, but the data have {data.n_features:,} features."
            )
        return self.feature - 1

    def _best(self, train: RankingData) -> tuple[int, str]:
        """Column and order that rank the training part best by the measure that decides; of equals the first."""
        measure = getattr(self, "primary_", None) or parse_measure("ndcg@10")
        candidates = [
            (column, order)
            for column in range(train.n_features)
            for order in (ORDERS if self.order is None else (self.order,))
        ]
        values = np.array(
            [mean_value(measure, _by_feature(train, *one), train) for one in candidates]
        )
        values = np.nan_to_num(-values if is_minimised(measure) else values, nan=-np.inf)
        return candidates[int(np.argmax(values))]

    def _predict(self, data: RankingData) -> Any:
        return _by_feature(data, self.column_, self.order_)


def _by_feature(data: RankingData, column: int, order: str) -> Floats:
    """A feature as score; documents that lack it come last, whatever the order."""
    values = np.asarray(data.features[:, column], np.float64)
    values = values if order == ORDERS[0] else -values
    lowest = values[np.isfinite(values)].min(initial=0.0)
    return np.where(np.isnan(values), lowest - 1.0, values)


class ScoresRanker(ForeignRanker):
    """Scores that were computed elsewhere: nothing is fitted."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path

    @property
    def is_random(self) -> bool:
        """Whether each repetition has a file of its own."""
        return REPETITION in str(self.path)

    def check(self) -> None:
        """Raise where no file is named."""
        if not isinstance(self.path, str) or not self.path.strip():
            raise ParameterError(
                "path must name a file with a score for each test document, or a TREC run, such as "
                f"'bm25-{FOLD}.txt', got {self.path!r}."
            )

    def file(self, fold: str, repetition: int) -> Path:
        """The file of a cell."""
        return Path(str(self.path).replace(FOLD, fold).replace(REPETITION, str(repetition)))

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        """Nothing is learned."""

    def _predict(self, data: RankingData) -> Any:
        path = self.file(self.fold_, self.repetition_)
        scores = read_ranking(path, data)
        n_missed = int((scores == -np.inf).sum())
        if n_missed:
            warnings.warn(
                f"{path} lacks {n_missed:,} of {data.n_documents:,} test documents: they count as not retrieved.",
                DataWarning,
                stacklevel=2,
            )
        return scores


FOREIGN: dict[str, Any] = {
    "lightgbm": LightGBMRanker,
    "xgboost": XGBoostRanker,
    "sklearn": SklearnRanker,
    "feature": FeatureRanker,
    "scores": ScoresRanker,
}
_NEEDS = {  # kind -> the package that it imports, and what pip installs it by
    "lightgbm": ("lightgbm", "lightgbm"),
    "xgboost": ("xgboost", "xgboost"),
    "MLPRanker": ("torch", "'rankwood[neural]'"),
}


def check_score_files(path: str, folds: Sequence[str], repetitions: int) -> None:
    """Raise for a file of given scores that is not there, or that cannot be of several folds."""
    from rankwood.data.reading import is_run_file

    ranker = ScoresRanker(path)
    for fold in folds:
        for repetition in range(1, repetitions + 1):
            file = ranker.file(fold, repetition)
            if not file.is_file():
                raise ParameterError(f"there is no file {file}.")
    if FOLD not in path and len(folds) > 1 and not is_run_file(path):
        raise ParameterError(
            f"{path} would be the scores of all {len(folds)} folds. Write {FOLD} where their paths differ, or give a "
            "TREC run of all queries."
        )


# Runs for other programs.


def write_trec(results: Any, folder: str | os.PathLike[str]) -> list[Path]:
    """What ``RunResults.write_trec`` says."""
    queries = [query for _, query in results.queries]
    is_shared = len(set(queries)) < len(queries)
    written: list[Path] = []
    for fold in results.folds if is_shared else [None]:
        numbers = [n for n, (of, _) in enumerate(results.queries) if fold in (None, of)]
        written += _write_trec(results, numbers, Path(folder) / (fold or ""))
    return written


def _write_trec(results: Any, numbers: Sequence[int], folder: Path) -> list[Path]:
    """The qrels and runs of these queries; cells that failed are left out of a run, and of the qrels if all did."""
    labels: dict[tuple[str, str], float] = {}
    texts: dict[str, list[str]] = {}
    for algorithm in results.algorithms:
        lines = texts.setdefault(_word(algorithm), [])
        if lines:
            raise DataError(
                f"'{algorithm}' and another algorithm have the same name in a TREC run."
            )
        for number in numbers:
            query = results.queries[number][1]
            ranked = results.rankings(algorithm, number)
            if ranked is not None:
                _refuse_ids([query, *ranked.names])
                labels |= {(query, name): label for name, label in _pairs(query, ranked)}
                lines += _run_lines(query, ranked, _word(algorithm))
    if not labels:
        raise DataError(
            "this run kept no scores, so there is nothing to export: set keep_scores = true under [run]."
        )
    qrels = [f"{query} 0 {name} {_whole(label)}" for (query, name), label in labels.items()]
    files = {"qrels.txt": qrels, **{f"{tag}.run": lines for tag, lines in texts.items() if lines}}
    with explained_writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in files.items():
            with atomic_path(folder / name) as temporary:
                temporary.write_text("\n".join([*lines, ""]), encoding="utf-8", newline="\n")
    return [folder / name for name in files]


def _pairs(query: str, ranked: Any) -> list[tuple[str, float]]:
    if len(set(ranked.names)) < len(ranked.names):
        twice = next(name for name in ranked.names if ranked.names.count(name) > 1)
        raise DataError(
            f"document '{twice}' stands more than once in query {query}, which qrels and runs cannot express."
        )
    return list(zip(ranked.names, ranked.labels.tolist(), strict=True))


def _run_lines(query: str, ranked: Any, tag: str) -> list[str]:
    """A line per retrieved document, best first."""
    kept = np.flatnonzero(ranked.scores > -np.inf)
    scores = distinct_scores(np.zeros(kept.size, np.int64), ranked.scores[kept])
    best_first = np.argsort(-scores, kind="stable")
    return [
        f"{query} Q0 {ranked.names[kept[place]]} {rank} {scores[place]!s} {tag}"
        for rank, place in enumerate(best_first.tolist(), 1)
    ]


def _word(name: str) -> str:
    """An algorithm's name as one word that may name a file."""
    return re.sub(r"[^\w.+@=-]+", "-", name).strip("-.") or "run"


def _refuse_ids(ids: Sequence[str]) -> None:
    for one in ids:
        if not one or len(one.split()) != 1 or one != one.strip():
            raise DataError(
                f"the id '{one}' cannot stand in a TREC file, whose fields are words between blanks."
            )


def _whole(label: float) -> int:
    if not float(label).is_integer():
        raise DataError(f"qrels hold whole numbers, and there is a label {label:g}.")
    return int(label)
