"""``tune``: the parameters of a ranker, chosen on documents that its models have not seen.

A search (``studies.searches``) proposes candidates, each is judged as ``AutoRanker`` judges its trials
(``studies.trials``), and the best is fitted. ``Tuned`` has the fitted ranker and all trials. ``StudyFile`` keeps them
as they are done, so that a tuning that was stopped goes on: the search proposes the same candidates again, and those
that were judged are not fitted a second time.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from rankwood import __version__
from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood.binning.folder import refuse_codes
from rankwood.data.dataset import RankingData
from rankwood.errors import DataError, InputError, ParameterError, UnknownName
from rankwood.measures.measure import Measure, parse_measure
from rankwood.rankers.base import Ranker, check_parameters
from rankwood.rankers.linear import in_order_of
from rankwood.rankers.parameters import measure_of_rankings
from rankwood.rankers.save import refit as fit_again
from rankwood.studies.fits import digest_of_part
from rankwood.studies.searches import METHODS, Space, candidate_search, importance_of
from rankwood.studies.trials import (
    AutoReport,
    Judging,
    OnFolds,
    OnValidation,
    TrainingPart,
    Trial,
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
        numbers = {"n_folds": checks.whole_number("n_folds", n_folds, 2), "seed": self.seed}
        if n_threads is not None:
            self.ranker = clone(self.ranker).set_params(n_threads=n_threads)
        if valid is None:
            return OnFolds(train, self.measure, **numbers, n_threads=n_threads)
        part = TrainingPart(train, n_threads)
        return OnValidation(part, in_order_of(train, valid), self.measure, **numbers)

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
        record["settled"] = {n: v for n, v in found.items() if isinstance(v, int) and own[n] != v}
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
    is_settled = isinstance(settled, dict) and all(type(one) is int for one in settled.values())
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
