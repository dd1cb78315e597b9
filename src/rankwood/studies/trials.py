"""Trials of rankers on documents that they have not seen: what ``AutoRanker`` does again and again, and its record.

A trial fits one setting of a candidate and measures it query by query, on validation data (``OnValidation``) or on
query folds of the training data (``OnFolds``). ``SPACES`` has the values that tuning tries, ``propose`` draws from
them, and ``AutoReport`` is what a user reads of all trials.

Terms
    candidate   a ranker with a name, as it was given
    setting     a candidate with some of its parameters changed
    held-out    scores of documents that the models which gave them have not seen
    limit       the seconds that a trial may take; a trial that takes longer is given up
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from rankwood._core import checks, random
from rankwood._core.threads import lazy
from rankwood.binning.binned import BinnedData
from rankwood.data.dataset import RankingData
from rankwood.data.splits import deal_folds, rows_of_queries
from rankwood.dtypes import Floats, Rows
from rankwood.errors import InputError, ParameterError
from rankwood.evaluation.paired_tests import Resampling, weighted_values
from rankwood.evaluation.results import (
    Result,
    Table,
    Tables,
    attributes,
    show_interval,
    show_number,
    tables_as_html,
    write_page,
)
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.rankers.base import chosen_parameters, parameters_called
from rankwood.rankers.linear import in_order_of
from rankwood.training.inputs import bins_of
from rankwood.training.rounds import Progress

DONE, OUT_OF_TIME = "done", "given up: it took too long"
NOT_BEGUN = "not tried: less time was left than an earlier candidate took"
BLEND = "blend"
ON_VALIDATION = "the validation data, which early stopping looks at too"

_N_BOOTSTRAP, _CONFIDENCE = 1_000, 0.95
_STOPPING_SHARE = (
    5  # one query in so many is set apart for early stopping, where there are no validation data
)
_SHOWN = 20  # trials in a table that is printed
_LOOK_AFTER = (
    0.25  # of the limit: a fit that has taken so long is given up if it will not end in time
)
_FAR_TOO_LONG = 4.0  # times the limit; less may be mended by early stopping
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}

# What tuning tries, by kind of ranker: values of each parameter that was left at its default.
_FORESTS: dict[str, Sequence[Any]] = {
    "max_leaves": (100, 400, 1600, None),
    "min_leaf": (1, 3, 10),
    "features_per_node": (0.1, 0.2, 0.3, 0.5, 0.7),
}
_BOOSTING: dict[str, Sequence[Any]] = {
    "learning_rate": (0.03, 0.05, 0.1, 0.2),
    "max_leaves": (4, 8, 16, 31, 63),
    "min_leaf": (5, 20, 50, 100),
    "l2": (0.0, 1.0, 5.0, 20.0),
    "features_per_node": (0.3, 0.5, 0.7, None),
    "subsample": (0.5, 0.7, 1.0),
}
SPACES: dict[str, dict[str, Sequence[Any]]] = {
    "RandomForest": _FORESTS,
    "ExtraTrees": _FORESTS,
    "CompletelyRandomForest": {name: _FORESTS[name] for name in ("max_leaves", "min_leaf")},
    "GBRT": _BOOSTING,
    "LambdaMART": _BOOSTING | {"truncation": (10, 30, None)},
    "NDCGBoost": {
        "learning_rate": (0.1, 0.3, 0.5, 1.0),
        "max_leaves": (2, 4, 8, 16),
        "min_leaf": (5, 20, 50),
        "features_per_node": (0.3, 0.5, None),
    },
    "BROOF": {
        "learning_rate": (None, 0.05, 0.1, 0.3),
        "max_leaves": (16, 32, 100, 400),
        "min_leaf": (1, 3, 10),
        "features_per_node": (0.1, 0.3, 0.5),
    },
    "DeepForest": {
        "max_leaves": (100, 400, 1600, None),
        "min_split": (2, 11, 30),
        "features_per_node": (0.1, 0.3, 0.5),
    },
    "RankSVM": {"C": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1)},
}


def seconds_of(value: Any, name: str = "time") -> float | None:
    """The parameter ``name`` in seconds: a number, or a text such as "90s", "10m" or "1h"; None is no limit."""
    if value is None:
        return None
    seconds = math.nan
    if isinstance(value, str):
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([smh]?)", value.strip())
        seconds = float(found[1]) * _SECONDS[found[2]] if found else math.nan
    elif isinstance(value, int | float | np.number) and not isinstance(value, bool):
        seconds = float(value)
    if not 0 < seconds < math.inf:
        raise ParameterError(
            f"{name} must be a number of seconds above 0, or a text such as '90s', '10m' or '1h', "
            f"got {checks.plain(value)}."
        )
    return seconds


class OutOfTime(Exception):
    """Raised within a fit that takes longer than its limit."""


class Limit:
    """The seconds that a trial may take from now on; None is no limit. A callback of every ranker in the trial."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.keeps = False  # whether a fit ends with what it has, and is not given up
        self.has_cut = False
        self._start = perf_counter()

    @property
    def spent(self) -> float:
        """Seconds since the trial began."""
        return perf_counter() - self._start

    def __call__(self, news: Progress) -> bool:
        """Raise ``OutOfTime``, or end the fit, when the time is up; raise also when it would take far longer."""
        if self.seconds is None:
            return False
        spent = self.spent
        if self.keeps:
            self.has_cut |= spent > self.seconds
            return spent > self.seconds
        is_known = news.seconds > _LOOK_AFTER * self.seconds  # the first rounds tell little
        is_hopeless = is_known and spent + news.seconds_left > _FAR_TOO_LONG * self.seconds
        if spent > self.seconds or is_hopeless:
            raise OutOfTime
        return False

    def look_ahead(self, done: int, total: int) -> None:
        """Raise ``OutOfTime`` if ``total`` fits will not end in time, after ``done`` of them."""
        will_take = self.spent / done * total
        if self.seconds is not None and done < total and will_take > self.seconds:
            raise OutOfTime


@dataclass
class Trial:
    """A setting of a candidate, and what it reached on held-out documents."""

    name: str  # of the candidate
    changes: dict[str, Any]  # parameters that differ from the candidate's own
    ranker: Any = field(repr=False)  # unfitted
    outcome: str = DONE  # else why there is no value
    seconds: float = 0.0
    mean: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    values: Floats | None = field(default=None, repr=False)  # by query
    scores: Floats | None = field(default=None, repr=False)  # by held-out row
    fitted: Any = field(default=None, repr=False)  # the model, where it can be used as it is
    settled: Any = field(default=None, repr=False)  # unfitted, with the rounds that folds found
    is_chosen: bool = False
    is_cut: bool = False  # the time ended the fit: the model has fewer trees or rounds

    @property
    def is_done(self) -> bool:
        """Whether the setting was fitted and measured."""
        return self.outcome == DONE

    def forget(self) -> None:
        """Drop what only leaders need: models and scores of all trials may be large."""
        self.values = self.scores = self.fitted = None

    def record(self) -> dict[str, Any]:
        """Plain numbers and texts."""
        low, high = self.interval
        return {
            "name": self.name,
            "parameters": dict(self.changes),
            "mean": self.mean,
            "low": low,
            "high": high,
            "seconds": self.seconds,
            "outcome": self.outcome,
            "chosen": self.is_chosen,
            "cut_short": self.is_cut,
        }


class TrainingPart:
    """Training data whose rows are binned once for all rankers with as many bins."""

    def __init__(self, data: RankingData, n_threads: int | None, binned: Any = None) -> None:
        self.data = data
        self._n_threads = n_threads
        self._given = binned  # bins of the user's own
        self._binned: dict[int, BinnedData] = {}

    def fit(self, ranker: Any, valid: RankingData | None, limit: Limit) -> Any:
        """A copy of ``ranker``, fitted to the data within the limit."""
        model = clone(ranker)
        hears = "callbacks" in model.get_params(
            deep=False
        )  # estimators of other libraries have none
        if hears:
            model.set_params(callbacks=(limit,))
        model.fit(self._table(model), valid=valid)
        return model.set_params(callbacks=()) if hears else model

    def _table(self, ranker: Any) -> Any:
        max_bins = getattr(ranker, "max_bins", None)
        if max_bins is None or self._given is not None:
            return self.data if max_bins is None else self._given
        if max_bins not in self._binned:
            bins = bins_of(self.data, max_bins, self._n_threads)
            codes = checks.read_only(bins.transform(self.data.features, self._n_threads))
            self._binned[max_bins] = BinnedData(codes, bins, self.data)
        return self._binned[max_bins]


class StoppedPart:
    """Training data of which some queries are set apart for rankers that stop early.

    Such a ranker is fitted to the other queries first, and then to all of them with the rounds that were best.
    """

    def __init__(
        self, data: RankingData, n_threads: int | None, seed: int, binned: Any = None
    ) -> None:
        self.whole = TrainingPart(data, n_threads, binned)
        self._most: TrainingPart | None = None
        self._apart: RankingData | None = None
        n_apart = data.n_queries // _STOPPING_SHARE
        if n_apart:
            order = random.stream(seed, "queries for early stopping").permutation(data.n_queries)
            self._most = TrainingPart(rows_of_queries(data, order[n_apart:]), n_threads)
            self._apart = rows_of_queries(data, order[:n_apart])

    def fit(self, ranker: Any, limit: Limit) -> Any:
        """A copy of ``ranker``, fitted to all the data within the limit."""
        asked = parameters_called(ranker, "early_stopping")
        stopping = [name for name, value in asked.items() if value is not None]
        if stopping and self._most is not None:
            first = self._most.fit(ranker, self._apart, limit)
            known = ranker.get_params(deep=False)
            chosen = {k: v for k, v in chosen_parameters(first).items() if k in known}
            ranker = clone(ranker).set_params(**chosen)
        elif stopping:
            ranker = clone(ranker).set_params(**dict.fromkeys(stopping))
        return self.whole.fit(ranker, None, limit)


class Judging:
    """How settings are judged: their measure on held-out documents, query by query.

    Attributes
    ----------
    data
        The held-out documents.
    fold_of_row
        The fold of each of them: weights of a blend are judged on other folds than they were learned on.
    model_of_row
        Which of a trial's models scores each of them.
    judged_on
        What the documents are, in words.
    """

    data: RankingData
    fold_of_row: Rows
    model_of_row: Rows
    judged_on: str

    def __init__(self, measure: Measure, seed: int) -> None:
        self.measure = measure
        self._seed = seed

    @property
    def trained_on(self) -> RankingData:
        """The training data, all of them."""
        raise NotImplementedError

    def judge(self, trial: Trial, seconds: float | None) -> Trial:
        """Fit and measure the setting of a trial; the outcome says why where that is not possible."""
        limit = Limit(seconds)
        try:
            self._score(trial, limit)
            self.measured(trial)
        except OutOfTime:
            trial.outcome = OUT_OF_TIME
        except InputError as error:  # data that this ranker cannot learn from
            trial.outcome = str(error)
        trial.seconds = limit.spent
        return trial

    def measured(self, trial: Trial) -> Trial:
        """Set the trial's values, mean and interval from its held-out scores."""
        values = self.measure.per_query(trial.scores, self.data)
        trial.values = -values if is_minimised(self.measure) else values
        above, below = weighted_values(values[:, np.newaxis], self._weights())
        trial.mean = float(above.sum() / below.sum()) if below.sum() > 0 else math.nan
        resampling = Resampling.of(values.size, _N_BOOTSTRAP, _CONFIDENCE, self._seed)
        trial.interval = resampling.ratio_intervals(above, below)[0]
        return trial

    def rank(self, trial: Trial) -> float:
        """What trials are sorted by: the greater, the better."""
        if math.isnan(trial.mean):
            return -math.inf
        return -trial.mean if is_minimised(self.measure) else trial.mean

    def is_ahead(self, one: Trial, other: Trial) -> bool:
        """Whether a trial is better than another by more than the standard error over queries."""
        assert one.values is not None
        assert other.values is not None
        gains, weights = one.values - other.values, self._weights()
        known = ~np.isnan(gains)
        gains, weights = gains[known], weights[known]
        if gains.size < 2 or weights.sum() == 0:
            return False
        rise = float((weights * gains).sum() / weights.sum())
        spread = float(np.sqrt((weights**2 * (gains - rise) ** 2).sum()) / weights.sum())
        return rise > spread * math.sqrt(gains.size / (gains.size - 1))

    def train(self, trial: Trial) -> Any:
        """The setting of a trial fitted to all the training data, without a limit."""
        raise NotImplementedError

    def _score(self, trial: Trial, limit: Limit) -> None:
        """Fit the setting of a trial, and set the scores of the held-out documents."""
        raise NotImplementedError

    def _weights(self) -> Floats:
        weights = self.data.query_weights
        return np.ones(self.data.n_queries) if weights is None else weights


class OnValidation(Judging):
    """Fits settings to all the training data, and judges them on the validation data."""

    def __init__(
        self,
        train: TrainingPart,
        valid: RankingData,
        measure: Measure,
        *,
        n_folds: int,
        seed: int,
    ) -> None:
        super().__init__(measure, seed)
        self.data, self._train = valid, train
        self.fold_of_row = _fold_of_row(valid, n_folds, seed)
        self.model_of_row = np.zeros_like(self.fold_of_row)
        self.judged_on = ON_VALIDATION

    @property
    def trained_on(self) -> RankingData:
        """The training data."""
        return self._train.data

    def train(self, trial: Trial) -> Any:
        """The setting fitted to the training data, stopped on the validation data."""
        return trial.fitted or self._train.fit(trial.ranker, self.data, Limit(None))

    def _score(self, trial: Trial, limit: Limit) -> None:
        limit.keeps = True
        trial.fitted = self._train.fit(trial.ranker, self.data, limit)
        trial.is_cut = limit.has_cut
        trial.scores = trial.fitted.predict(self.data)


class OnFolds(Judging):
    """Judges settings on the queries of each fold, by models of the other folds."""

    def __init__(
        self,
        data: RankingData,
        measure: Measure,
        *,
        n_folds: int,
        seed: int,
        n_threads: int | None,
        binned: Any = None,
    ) -> None:
        super().__init__(measure, seed)
        self.data = data
        self.n_folds = min(n_folds, data.n_queries)
        self.fold_of_row = self.model_of_row = _fold_of_row(data, self.n_folds, seed)
        self.judged_on = f"{self.n_folds} query folds of the training data"
        self._all = StoppedPart(data, n_threads, seed, binned)
        self._n_threads = n_threads

    @lazy
    def _parts(self) -> list[StoppedPart]:
        """The training data of each fold."""
        return [
            StoppedPart(self.data.take_rows(self.fold_of_row != fold), self._n_threads, self._seed)
            for fold in range(self.n_folds)
        ]

    @property
    def trained_on(self) -> RankingData:
        """The training data, which are the held-out data by folds."""
        return self.data

    def train(self, trial: Trial) -> Any:
        """The setting fitted to all the data, with as many rounds as the models of the folds have in the middle."""
        return self._all.fit(trial.settled or trial.ranker, Limit(None))

    def _score(self, trial: Trial, limit: Limit) -> None:
        scores = np.empty(self.data.n_documents)
        models = []
        for fold, part in enumerate(self._parts):
            rows = self.fold_of_row == fold
            models.append(part.fit(trial.ranker, limit))
            scores[rows] = models[-1].predict(self.data.take_rows(rows))
            limit.look_ahead(fold + 1, self.n_folds)
        trial.scores, trial.settled = scores, _settled(models)


def judging_on(
    data: RankingData,
    valid: RankingData | None,
    measure: Measure,
    *,
    n_folds: int,
    seed: int,
    n_threads: int | None,
    binned: Any = None,
) -> Judging:
    """Trials judged on validation data, or, where there are none, on query folds of the training data."""
    if valid is None:
        return OnFolds(
            data, measure, n_folds=n_folds, seed=seed, n_threads=n_threads, binned=binned
        )
    part = TrainingPart(data, n_threads, binned)
    return OnValidation(part, in_order_of(data, valid), measure, n_folds=n_folds, seed=seed)


def _settled(models: Sequence[Any]) -> Any:
    """A ranker like those fitted to folds; a number that they differ in becomes the median.

    None where they differ in something else.
    """
    middle = {}
    for name, value in models[0].get_params(deep=False).items():
        values = [model.get_params(deep=False)[name] for model in models]
        if all(each is value or each == value for each in values):
            continue
        if not all(isinstance(each, int) for each in values):
            return None
        middle[name] = sorted(values)[len(values) // 2]
    return clone(models[0]).set_params(**middle)


def _fold_of_row(data: RankingData, n_folds: int, seed: int) -> Rows:
    """The fold of each row; queries stay whole, and folds differ by at most one query in size."""
    queries = np.arange(data.n_queries)
    dealt = deal_folds(queries, queries.size, n_folds, random.stream(seed, "folds of trials"))
    folds: Rows = dealt[data.query_of_row]
    return folds


def space_of(ranker: Any) -> dict[str, Sequence[Any]]:
    """The values that tuning tries, of parameters that the user has left at their defaults."""
    defaults = type(ranker)().get_params(deep=False)
    kinds = [kind.__name__ for kind in type(ranker).__mro__ if kind.__name__ in SPACES]
    space = SPACES[kinds[0]] if kinds else {}
    return {
        name: values for name, values in space.items() if getattr(ranker, name) == defaults[name]
    }


def propose(
    ranker: Any,
    best: Mapping[str, Any],
    tried: Iterable[Mapping[str, Any]],
    generator: np.random.Generator,
) -> dict[str, Any] | None:
    """Changes of parameters that were not tried yet; None where a hundred draws found none.

    Most proposals change one to three parameters of the best setting so far, some are drawn from the whole space.
    """
    space = space_of(ranker)
    known = [dict(changes) for changes in tried]
    names = list(space)
    for _ in range(100 if names else 0):
        is_near = generator.random() < 0.7
        n_drawn = int(generator.integers(1, min(3, len(names)) + 1)) if is_near else len(names)
        changes = dict(best) if is_near else {}
        for index in generator.permutation(len(names))[:n_drawn].tolist():
            values = space[names[index]]
            changes[names[index]] = values[int(generator.integers(len(values)))]
        changed = [k for k in names if k in changes and changes[k] != getattr(ranker, k)]
        changes = {name: changes[name] for name in changed}
        if changes not in known:
            return changes
    return None


@dataclass(frozen=True, eq=False)
class AutoReport(Result):
    """What ``AutoRanker`` tried: a row per trial, the best first.

    ``trials`` are plain mappings in the order in which they were made. A mean and its 95 % interval are over the
    held-out queries; the value of the trial that was chosen is a little too good, since it was chosen by it.
    """

    measure: str
    judged_on: str
    stopped_because: str
    trials: list[dict[str, Any]] = field(repr=False)

    title: ClassVar[str] = "What AutoRanker tried"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return attributes(self, "measure", "judged_on", "stopped_because", "trials")

    def write_html(self, path: str | os.PathLike[str], chart: str = "") -> None:
        """Write a page with all trials, below a chart (SVG) where there is one; it needs no network."""
        n_trials = len(self.trials)
        body = tables_as_html({"": self._rows(n_trials)}, self._notes(n_trials))
        write_page(path, self.title, chart + body)

    def _rows(self, most: int) -> Table:
        return [
            {
                "": "→" if trial["chosen"] else "",
                "name": trial["name"],
                "settings": settings_text(trial["parameters"]),
                self.measure: show_number(trial["mean"]),
                "95 % interval": show_interval((trial["low"], trial["high"])),
                "seconds": f"{trial['seconds']:,.1f}",
            }
            for trial in self.ranked()[:most]
        ]

    def ranked(self) -> list[dict[str, Any]]:
        """The trials that have a value, the best first; of equal ones, the chosen and then the earlier."""
        sign = 1.0 if is_minimised(parse_measure(self.measure)) else -1.0
        done = [trial for trial in self.trials if trial["outcome"] == DONE]

        def place(trial: dict[str, Any]) -> tuple[float, bool]:
            mean = trial["mean"]
            return (math.inf if math.isnan(mean) else sign * mean, not trial["chosen"])

        return sorted(done, key=place)

    def _tables(self) -> Tables:
        return {"": self._rows(_SHOWN)}

    def _footnotes(self) -> list[str]:
        return self._notes(_SHOWN)

    def _notes(self, most: int) -> list[str]:
        n_done = len(self.ranked())
        notes = [f"→ is the model; {self.measure} on {self.judged_on}; {self.stopped_because}"]
        if n_done > most:
            notes.insert(0, f"the {most} best of {n_done:,} trials")
        failed = [trial for trial in self.trials if trial["outcome"] != DONE]
        cut = [trial["name"] for trial in self.trials if trial["cut_short"]]
        if cut:
            notes.append(f"cut short by the time, with fewer trees or rounds: {', '.join(cut)}")
        for trial in failed:
            settings = settings_text(trial["parameters"])
            shown = f"{trial['name']} ({settings})" if settings else trial["name"]
            notes.append(f"{shown}: {trial['outcome']}")
        return notes

    def _records(self) -> list[dict[str, Any]]:
        return [trial | {"parameters": settings_text(trial["parameters"])} for trial in self.trials]


def settings_text(changes: Mapping[str, Any]) -> str:
    """Changed parameters as ``name=value, …``."""
    return ", ".join(f"{name}={value}" for name, value in changes.items())
