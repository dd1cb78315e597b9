"""``tune``: the parameters of a ranker, chosen on documents that its models have not seen.

A search proposes candidates: all of them (``Grid``), drawn at random (``RandomSearch``), or by Optuna's sampler
(``OptunaSearch``). It is a function of its seed and of the values that it was told, so that a search that was stopped
can be repeated. The cells of experiments (``experiments.tuning``) search by these, too.

``tune`` has each candidate judged as ``AutoRanker`` judges its trials (``studies.trials``), and fits the best.
``Tuned`` has the fitted ranker and all trials. ``StudyFile`` keeps them as they are done, so that a tuning that was
stopped goes on: the search proposes the same candidates again, and those that were judged are not fitted a second time.

Terms
    space        by parameter its values, or a range ``{"low": …, "high": …, "log": …, "int": …, "step": …}``
    candidate    values of the tuned parameters
    trial        a candidate that was judged, as a plain mapping with ``parameters`` and ``value``
    importance   the share of a parameter in the variance of the candidates' values
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from rankwood import __version__
from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood._core.random import stream
from rankwood.binning.folder import refuse_codes
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataError, InputError, MissingExtra, ParameterError, UnknownName
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.rankers.base import Ranker, check_parameters
from rankwood.rankers.parameters import measure_of_rankings
from rankwood.rankers.save import refit as fit_again
from rankwood.studies.fits import digest_of_part
from rankwood.studies.trials import (
    AutoReport,
    Judging,
    Trial,
    judging_on,
    seconds_of,
    space_of,
)
from rankwood.training.rounds import Callback, ProgressReporter, Rounds, plain, plain_parameters

_RANGE = ("low", "high", "log", "int", "step")
_FORMAT = 1  # of the file of a study
ALL_TRIALS, TIME_IS_UP = "all trials are done", "the time is up"
NOTHING_LEFT, INTERRUPTED = "every candidate was tried", "Ctrl-C ended the search"


def tune(
    ranker: Any,
    space: Space | None,
    train: RankingData,
    valid: RankingData | None = None,
    *,
    trials: int | None = 20,
    method: str = "random",
    measure: str = "ndcg@10",
    n_folds: int = 5,
    refit: bool = False,
    time: Any = None,
    seed: int = 0,
    n_threads: int | None = None,
    study: str | os.PathLike[str] | None = None,
    progress: Callback | None = None,
) -> Tuned:
    """Choose parameters of a ranker, and fit it with the best.

    Parameters
    ----------
    ranker
        An unfitted ranker, with the parameters that are not tuned.
    space
        By parameter the values to try: a list, or a range ``{"low": 0.01, "high": 0.3, "log": True}`` whose numbers are
        whole where both ends are. ``base.n_trees`` is a parameter of the ranker that it is built on. None: the values
        that ``AutoRanker`` tries of this ranker.
    train, valid
        Candidates are fitted to ``train`` and judged on ``valid``; without it on query folds of ``train``.
    trials
        The most candidates that are tried. A grid tries all by default.
    method
        ``"random"`` draws candidates, ``"grid"`` tries all, ``"optuna"`` (extra tune) lets Optuna's sampler propose.
    measure
        What candidates are judged by: a measure with a value by query.
    n_folds
        Query folds, without ``valid``.
    refit
        Fit the best once more to ``train`` and ``valid`` together, with the rounds that were chosen.
    time
        Seconds, or a text such as "10m", after which no candidate is begun. Results then depend on the machine.
    seed
        Of the candidates and the folds.
    study
        A file that keeps every trial as soon as it is done. A call that was stopped, made again, goes on with it.
    progress
        Called after each trial.

    Returns
    -------
    Tuned
        ``ranker`` is fitted; ``trials`` has what was tried. It prints as a table and writes pages and CSV.

    Examples
    --------
    >>> space = {"learning_rate": {"low": 0.02, "high": 0.3, "log": True}, "max_leaves": [8, 16, 31]}
    >>> tuned = tune(rankwood.GBRT(), space, train, valid=valid, trials=20)    # doctest: +SKIP
    >>> tuned.ranker.predict(test)                                              # doctest: +SKIP
    """
    tuning = _Tuning(ranker, space, method, trials, parse_measure(_of_queries(measure)), seed)
    tuning.check_data(train, valid)
    judging = tuning.judging(train, valid, n_folds, n_threads)
    kept = StudyFile(study, tuning.key(train, valid, judging))
    reporter = ProgressReporter(tuning.most, progress, (), unit="trial")
    rounds = Rounds(reporter, total=tuning.most, all_done=ALL_TRIALS)
    seconds = seconds_of(time)
    with rounds.keep_on_interrupt(INTERRUPTED), tuning.search() as search:
        for _ in rounds:
            candidate = search.propose()
            if candidate is None:
                rounds.stop(NOTHING_LEFT)
                break
            trial = tuning.judged(candidate, judging, kept)
            search.learn(trial.mean)
            rounds.finish(None if math.isnan(trial.mean) else trial.mean, tuning.news(judging))
            if seconds is not None and sum(one.seconds for one in tuning.trials) >= seconds:
                rounds.stop(TIME_IS_UP)
        tuning.importance = search.importance()
    return tuning.finished(judging, str(rounds.stopped_because), valid if refit else None)


class _Tuning:
    """The state of one call of ``tune``: what is proposed, and the trials so far."""

    def __init__(
        self,
        ranker: Any,
        space: Space | None,
        method: str,
        most: int | None,
        measure: Measure,
        seed: int,
    ) -> None:
        if not isinstance(ranker, Ranker):
            raise ParameterError(f"tune takes a ranker of ours, such as GBRT(); got {ranker!r}.")
        self.ranker, self.measure = ranker, measure
        self.method = checks.one_of("method", method, METHODS)
        self.seed = checks.whole_number("seed", seed, 0)
        self.space = checked_space(ranker, space, method)
        n_all = math.prod(len(v) if isinstance(v, list) else math.inf for v in self.space.values())
        most = None if most is None else checks.whole_number("trials", most, 1)
        if method == "grid" and (most is None or most > n_all):
            most = int(n_all)
        if most is None:
            raise ParameterError(f"{method} search needs trials, the most candidates to try.")
        self.most = most
        self.trials: list[Trial] = []
        self.importance: dict[str, float] = {}

    def search(self) -> Any:
        """A new search; two of them propose the same."""
        return candidate_search(self.method, self.space, self.measure, self.seed, self.seed)

    def check_data(self, train: RankingData, valid: RankingData | None) -> None:
        """Raise for data that candidates cannot be judged on."""
        refuse_codes(train, valid)  # folds are cut out of them
        for name, part in (("train", train), ("valid", valid)):
            if part is not None and part.query_ids is None:
                raise DataError(f"{name} has no query ids, and candidates are judged by query.")
        if valid is None and train.n_queries < 2:
            raise DataError("train has one query: it cannot be cut into folds. Pass valid.")

    def judging(
        self, train: RankingData, valid: RankingData | None, n_folds: int, n_threads: int | None
    ) -> Judging:
        """How candidates are judged."""
        n_folds = checks.whole_number("n_folds", n_folds, 2)
        if n_threads is not None:
            self.ranker = clone(self.ranker).set_params(n_threads=n_threads)
        return judging_on(
            train, valid, self.measure, n_folds=n_folds, seed=self.seed, n_threads=n_threads
        )

    def key(
        self, train: RankingData, valid: RankingData | None, judging: Judging
    ) -> dict[str, Any]:
        """What trials follow from: those of another key are not gone on with."""
        key = {
            "version": __version__,
            "ranker": type(self.ranker).__name__,
            "parameters": plain_parameters(self.ranker),
            "space": {name: plain(name, values) for name, values in self.space.items()},
            "method": self.method,
            "measure": str(self.measure),
            "judged_on": judging.judged_on,
            "seed": self.seed,
            "data": [digest_of_part(part) for part in (train, valid) if part is not None],
        }
        known: dict[str, Any] = json.loads(json.dumps(key, sort_keys=True, default=str))
        return known

    def judged(self, candidate: dict[str, Any], judging: Judging, study: StudyFile) -> Trial:
        """The trial of a candidate: of the study, of an equal candidate, or a new one."""
        trial = Trial("", candidate, with_parameters(self.ranker, candidate))
        same = next((one for one in self.trials if one.changes == candidate), None)
        known = study.trial(len(self.trials), candidate)
        if known is not None:
            _take_record(trial, known)
        elif same is not None:
            _take_record(trial, _record_of(same))
            trial.seconds = 0.0
        else:
            judging.judge(trial, None)
        self.trials.append(trial)
        if known is None:
            study.keep([_record_of(one) for one in self.trials])
        best = self.best(judging)
        for one in self.trials:
            if one is not best:
                one.forget()
        return trial

    def best(self, judging: Judging) -> Trial | None:
        """The first of the best trials that were done."""
        done = [trial for trial in self.trials if trial.is_done]
        return max(done, key=judging.rank) if done else None

    def news(self, judging: Judging) -> dict[str, float]:
        """The best value so far."""
        best = self.best(judging)
        return {} if best is None else {"best": best.mean}

    def finished(self, judging: Judging, reason: str, valid: RankingData | None) -> Tuned:
        """The best candidate, fitted, and all trials."""
        best = self.best(judging)
        if best is None:
            if reason == INTERRUPTED:
                raise KeyboardInterrupt
            outcomes = [trial.outcome for trial in self.trials]
            raise InputError(f"no candidate could be fitted; the last one: {outcomes[-1]}")
        best.is_chosen = True
        fitted = judging.train(best)
        if valid is not None:
            fitted = fit_again(fitted, judging.trained_on, valid)
        records = [
            {"number": number, **trial.record(), "name": type(self.ranker).__name__}
            for number, trial in enumerate(self.trials)
        ]
        values = [{"parameters": one["parameters"], "value": one["mean"]} for one in records]
        tuned = Tuned(
            str(self.measure),
            judging.judged_on,
            reason,
            records,
            self.method,
            self.seed,
            self.importance or importance_of([values]),
            fitted,
        )
        fitted.training_ = {**fitted.training_, "tuned": tuned.summary()}
        return tuned


@dataclass(frozen=True, eq=False)
class Tuned(AutoReport):
    """What ``tune`` found: the fitted ranker, and a row per trial, the best first.

    Attributes
    ----------
    ranker
        The ranker with the best parameters, fitted.
    trials
        What was tried, in order, as plain mappings: parameters, mean, interval, seconds, outcome, and whether it was
        chosen.
    importance
        The share of each parameter in the variance of the means; NaN where the trials cannot tell.
    """

    method: str = "random"
    seed: int = 0
    importance: Mapping[str, float] = field(default_factory=dict)
    ranker: Any = field(default=None, repr=False)

    title: ClassVar[str] = "What tune tried"

    @property
    def best(self) -> dict[str, Any]:
        """The parameters that were chosen."""
        return next(dict(trial["parameters"]) for trial in self.trials if trial["chosen"])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        more = {"method": self.method, "seed": self.seed, "importance": dict(self.importance)}
        return {**super().to_dict(), "best": self.best, **more}

    def summary(self) -> dict[str, Any]:
        """What the model's file records: how parameters were chosen, and which."""
        chosen = next(trial for trial in self.trials if trial["chosen"])
        return {
            "measure": self.measure,
            "value": chosen["mean"],
            "judged_on": self.judged_on,
            "method": self.method,
            "seed": self.seed,
            "trials": len(self.trials),
            "chosen": {name: plain(name, value) for name, value in self.best.items()},
        }

    def _notes(self, most: int) -> list[str]:
        known = {name: share for name, share in self.importance.items() if not math.isnan(share)}
        listed = ", ".join(
            f"{name} {share:.0%}" for name, share in sorted(known.items(), key=lambda one: -one[1])
        )
        shares = [f"share of the variance of the means: {listed}"] if known else []
        return [*super()._notes(most), *shares]


class StudyFile:
    """The trials of a tuning in a file, so that a run that was stopped goes on; without a path nothing is kept."""

    def __init__(self, path: str | os.PathLike[str] | None, key: Mapping[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        self._key = dict(key)
        self._trials: list[dict[str, Any]] = []
        if self._path is not None and self._path.exists():
            self._trials = self._read(self._path)

    def _read(self, path: Path) -> list[dict[str, Any]]:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            key, trials = found["key"], found["trials"]
            is_study = found["format"] == _FORMAT and isinstance(trials, list)
        except (OSError, ValueError, KeyError, TypeError):
            is_study = False
        if not is_study or not all(map(_is_record, trials)):
            raise DataError(
                f"{path} is no study, or is damaged. Choose another file, or remove it."
            )
        for name, value in self._key.items():
            if key.get(name) != value:
                raise DataError(
                    f"{path} is of another study: its {name} differs. Choose another file, or remove it to start anew."
                )
        return list(trials)

    def trial(self, number: int, candidate: Mapping[str, Any]) -> dict[str, Any] | None:
        """The record of a trial, if this candidate was tried at this place before; else later ones do not count."""
        if number < len(self._trials) and self._trials[number]["parameters"] == _as_json(candidate):
            return self._trials[number]
        del self._trials[number:]
        return None

    def keep(self, trials: list[dict[str, Any]]) -> None:
        """Write all trials so far."""
        if self._path is None:
            return
        text = json.dumps({"format": _FORMAT, "key": self._key, "trials": trials}, indent=1)
        with explained_writing(self._path), atomic_path(self._path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")


_NUMBERS_OF_RECORD = ("mean", "low", "high", "seconds")


def _record_of(trial: Trial) -> dict[str, Any]:
    """A trial for the file of a study; None stands for NaN, which JSON lacks."""
    record = {
        name: value for name, value in trial.record().items() if name not in ("name", "chosen")
    }
    for name in _NUMBERS_OF_RECORD:
        record[name] = None if math.isnan(record[name]) else record[name]
    if trial.settled is not None:
        own = trial.ranker.get_params(deep=False)
        found = trial.settled.get_params(deep=False)
        record["settled"] = {  # None: folds stopped a fit, which then stops no more
            n: v for n, v in found.items() if (v is None or isinstance(v, int)) and own[n] != v
        }
    record["parameters"] = _as_json(record["parameters"])
    return record


def _is_record(record: Any) -> bool:
    """Whether a record has what a trial is made of."""
    if not isinstance(record, dict) or not isinstance(record.get("parameters"), dict):
        return False
    numbers = [record.get(name, "") for name in _NUMBERS_OF_RECORD]
    are_numbers = all(
        one is None or (isinstance(one, int | float) and not isinstance(one, bool))
        for one in numbers
    )
    settled = record.get("settled", {})
    is_settled = isinstance(settled, dict) and all(
        one is None or type(one) is int for one in settled.values()
    )
    return are_numbers and is_settled and isinstance(record.get("outcome"), str)


def _take_record(trial: Trial, record: Mapping[str, Any]) -> None:
    """Set what a trial of an earlier run has found."""
    mean, low, high, seconds = (
        math.nan if record[name] is None else float(record[name]) for name in _NUMBERS_OF_RECORD
    )
    trial.mean, trial.interval, trial.seconds = mean, (low, high), seconds
    trial.outcome, trial.is_cut = str(record["outcome"]), bool(record.get("cut_short", False))
    if record.get("settled") is not None:
        trial.settled = clone(trial.ranker).set_params(**record["settled"])


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(dict(values), default=str))
    return found


def _of_queries(measure: str) -> str:
    measure_of_rankings("measure", measure)
    if parse_measure(measure).is_pooled:
        raise ParameterError(
            f"{measure} has no value by query, which candidates are judged by. Choose another measure, such as "
            f"{parse_measure(measure).over_queries}."
        )
    return measure


# Spaces.


def with_parameters(ranker: Any, candidate: Mapping[str, Any]) -> Any:
    """A copy of a ranker with other parameters; ``base.n_trees`` is one of the ranker ``base``."""
    return clone(ranker).set_params(
        **{name.replace(".", "__"): value for name, value in candidate.items()}
    )


def checked_space(ranker: Any, space: Space | None, method: str) -> dict[str, Any]:
    """The space with lists and ranges, every value of which the ranker has looked at."""
    if space is None:
        space = {name: list(values) for name, values in space_of(ranker).items()}
        if not space:
            raise ParameterError(
                f"what to try of {type(ranker).__name__} is not known: name parameters and their values in space."
            )
    if not isinstance(space, Mapping) or not space:
        raise ParameterError(
            "space must be a mapping from parameters to the values to try, such as {'max_leaves': [8, 31]}."
        )
    known = {name.replace("__", ".") for name in ranker.get_params()}
    checked = {}
    for name, values in space.items():
        if name not in known:
            raise UnknownName(f"parameter of {type(ranker).__name__}", str(name), known)
        checked[name] = _checked_values(name, values, method)
        examples = checked[name]
        if isinstance(examples, dict):
            examples = [examples["low"], examples["high"]]
        for value in examples:
            check_parameters(with_parameters(ranker, {name: value}))
    return checked


def _checked_values(name: str, values: Any, method: str) -> Any:
    """A list of values, or a range with its two ends."""
    if isinstance(values, Mapping):
        if method == "grid":
            raise ParameterError(
                f"{name} has a range, which a grid cannot try: give a list, or another method."
            )
        unknown = [key for key in values if key not in _RANGE]
        ends = [values.get(end) for end in ("low", "high")]
        are_numbers = all(
            isinstance(one, int | float) and not isinstance(one, bool) for one in ends
        )
        if unknown or not are_numbers or not ends[0] < ends[1]:  # type: ignore[operator]
            raise ParameterError(
                f"{name}: a range is {{'low': …, 'high': …}}, low below high, perhaps with log, int or step; got "
                f"{dict(values)!r}."
            )
        if values.get("log") and (ends[0] <= 0 or "step" in values):  # type: ignore[operator]
            raise ParameterError(f"{name}: with log, low must be above 0 and there is no step.")
        return dict(values)
    if (
        isinstance(values, str)
        or not isinstance(values, list | tuple | np.ndarray)
        or not len(values)
    ):
        raise ParameterError(f"{name} needs a list of values to try, or a range; got {values!r}.")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


Space = Mapping[str, Any]
TrialRecord = Mapping[str, Any]
METHODS = ("grid", "random", "optuna")
_DRAWS = 100  # of which one must be new, or random search ends
_GROUPS = 5  # of the numbers of a range, for their importance


class CandidateSearch:
    """What proposes candidates, one at a time, and is told the value of each."""

    def propose(self) -> dict[str, Any] | None:
        """The next candidate; None where there is none left."""
        raise NotImplementedError

    def learn(self, value: float) -> None:
        """Take the value of the candidate that was proposed last into account."""

    def importance(self) -> dict[str, float]:
        """The shares of the parameters, where the search itself can tell."""
        return {}


@contextlib.contextmanager
def candidate_search(
    method: str, space: Space, measure: Measure, seed_of_draws: int, seed: int
) -> Iterator[CandidateSearch]:
    """The search of this name; ``seed`` is that of Optuna's sampler."""
    if method == "grid":
        yield Grid(all_candidates(space))
    elif method == "random":
        yield RandomSearch(space, seed_of_draws)
    else:
        with _quiet(need_optuna()) as optuna:
            yield OptunaSearch(optuna, space, is_minimised(measure), seed)


def all_candidates(space: Space) -> list[dict[str, Any]]:
    """What a grid tries: every combination of the values, the last parameter's changing fastest."""
    names = list(space)
    return [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*(space[name] for name in names))
    ]


class Grid(CandidateSearch):
    """All candidates, in their order."""

    def __init__(self, candidates: Sequence[dict[str, Any]]) -> None:
        self._left = iter(candidates)

    def propose(self) -> dict[str, Any] | None:
        """The next candidate."""
        return next(self._left, None)


class RandomSearch(CandidateSearch):
    """Candidates drawn at random (Bergstra & Bengio 2012), none of them twice."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        self._drawn: list[dict[str, Any]] = []

    def propose(self) -> dict[str, Any] | None:
        """A new candidate; its draws depend on the seed and on how many there were before."""
        generator = stream(self._seed, "candidates", len(self._drawn))
        for _ in range(_DRAWS):
            candidate = {name: _draw(values, generator) for name, values in self._space.items()}
            if candidate not in self._drawn:
                self._drawn.append(candidate)
                return candidate
        return None


def _draw(values: Any, generator: np.random.Generator) -> Any:
    """One of a list, or a number of a range: evenly, or with ``log`` evenly in its logarithm."""
    if isinstance(values, list):
        return values[int(generator.integers(len(values)))]
    low, high, is_whole = values["low"], values["high"], is_of_whole_numbers(values)
    if "step" in values:
        n_steps = math.floor((high - low) / values["step"] + 1e-9)  # 0.3 / 0.1 is 2.9999…
        return low + int(generator.integers(n_steps + 1)) * values["step"]
    if not values.get("log"):
        return (
            int(generator.integers(low, high + 1))
            if is_whole
            else float(generator.uniform(low, high))
        )
    margin = 0.5 if is_whole else 0.0  # so that the ends are as likely as their neighbours
    number = math.exp(generator.uniform(math.log(low - margin), math.log(high + margin)))
    return min(max(round(number), low), high) if is_whole else min(max(number, low), high)


def is_of_whole_numbers(values: Mapping[str, Any]) -> bool:
    """Whether a range has whole numbers only: as ``int`` says, else where both ends are whole."""
    ends = (values["low"], values["high"])
    return bool(values.get("int", all(isinstance(end, int) for end in ends)))


def need_optuna() -> Any:
    """The package, or an error that says which extra brings it."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "tune", 'tune_method = "optuna"') from None
    return optuna


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[Any]:
    """Optuna without its log."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(before)


class OptunaSearch(CandidateSearch):
    """Optuna's tree-structured Parzen estimator, one trial after the other, so that a seed repeats it."""

    def __init__(self, optuna: Any, space: Space, is_falling: bool, seed: int) -> None:
        self._optuna, self._space, self._seed = optuna, space, seed
        self._study = optuna.create_study(
            direction="minimize" if is_falling else "maximize",
            sampler=optuna.samplers.TPESampler(seed=seed),
        )
        self._trial: Any = None

    def propose(self) -> dict[str, Any] | None:
        """What the sampler makes of the values so far."""
        self._trial = self._study.ask()
        return _suggested(self._trial, self._space)

    def learn(self, value: float) -> None:
        """Tell the study; a candidate without a value has failed."""
        failed = self._optuna.trial.TrialState.FAIL
        if math.isnan(value):
            self._study.tell(self._trial, state=failed)
        else:
            self._study.tell(self._trial, value)

    def importance(self) -> dict[str, float]:
        """The shares by Optuna's functional ANOVA (Hutter et al. 2014); none where the values do not differ."""
        importance = self._optuna.importance
        evaluator = importance.FanovaImportanceEvaluator(seed=self._seed)
        try:
            found = importance.get_param_importances(self._study, evaluator=evaluator)
        except (RuntimeError, ValueError):  # fewer than two trials, or no spread
            return {}
        return {name: float(share) for name, share in found.items() if math.isfinite(share)}


def _suggested(trial: Any, space: Space) -> dict[str, Any]:
    """A value for each parameter: one of a list, or a number of a range."""
    values_of: dict[str, Any] = {}
    for name, values in space.items():
        if isinstance(values, list):
            # by index: Optuna takes numbers and texts as choices, but no lists
            values_of[name] = values[trial.suggest_categorical(name, list(range(len(values))))]
            continue
        suggest = trial.suggest_int if is_of_whole_numbers(values) else trial.suggest_float
        options = {key: values[key] for key in ("log", "step") if key in values}
        values_of[name] = suggest(name, values["low"], values["high"], **options)
    return values_of


# What the values of candidates tell.


def mean_values(cells: Sequence[Sequence[TrialRecord]]) -> list[tuple[dict[str, Any], list[float]]]:
    """Each candidate of one or several cells, with its value in every cell that has tried it."""
    found: dict[str, tuple[dict[str, Any], list[float]]] = {}
    for trials in cells:
        for key, trial in {_text(one["parameters"]): one for one in reversed(trials)}.items():
            if trial["value"] is not None and not math.isnan(trial["value"]):
                parameters = dict(trial["parameters"])
                found.setdefault(key, (parameters, []))[1].append(float(trial["value"]))
    return list(found.values())


def as_numbers(trial: TrialRecord) -> dict[str, Any]:
    """A trial that was read from JSON, which has no NaN."""
    found = dict(trial)
    found["value"] = math.nan if trial["value"] is None else trial["value"]
    if "folds" in trial:
        found["folds"] = [math.nan if value is None else value for value in trial["folds"]]
    return found


def importance_of(cells: Sequence[Sequence[TrialRecord]]) -> dict[str, float]:
    """The share of the variance of the candidates' values that each parameter explains by itself; NaN where unknown.

    A value counts as its distance from the mean of its cell, and a candidate as its mean over cells. The share is ε² of
    a one-way analysis of variance: what lies between the values of the parameter, less what as many groups would
    explain by chance. Numbers of a range are cut into five groups. What only several parameters together explain
    belongs to none of them.
    """
    centred = []
    for trials in cells:
        known = [one for one in map(as_numbers, trials) if not math.isnan(one["value"])]
        mean = sum(one["value"] for one in known) / max(1, len(known))
        centred.append([{**one, "value": one["value"] - mean} for one in known])
    candidates = mean_values(centred)
    values: Floats = np.array([np.mean(of) for _, of in candidates], np.float64)
    names = list(dict.fromkeys(name for parameters, _ in candidates for name in parameters))
    return {
        name: _explained(values, _groups([parameters[name] for parameters, _ in candidates]))
        for name in names
    }


def _groups(values: Sequence[Any]) -> list[Any]:
    """The group of each value: the value itself, or of many numbers the fifth that it lies in."""
    is_number = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
    if not is_number or len(set(values)) <= _GROUPS:
        return [_text(value) for value in values]
    edges = np.quantile(values, np.linspace(0, 1, _GROUPS + 1)[1:-1])
    groups: list[Any] = np.searchsorted(edges, values, side="left").tolist()
    return groups


def _explained(values: Floats, groups: Sequence[Any]) -> float:
    """ε² = (SSB - (k - 1) · MSE) / SST of k groups, at least 0."""
    numbers = np.unique(np.array([str(group) for group in groups]), return_inverse=True)[1]
    sizes = np.bincount(numbers)
    total = float(((values - values.mean()) ** 2).sum()) if values.size else 0.0
    n_spare = values.size - sizes.size
    if total == 0 or n_spare < 1 or sizes.size < 2:
        return math.nan
    means = np.bincount(numbers, values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum())
    error = (total - between) / n_spare
    return max(0.0, (between - (sizes.size - 1) * error) / total)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
