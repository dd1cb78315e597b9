"""``AutoRanker``: tries strong rankers, tunes the leaders within the time given, and blends them if that helps.

Terms
    candidate   a ranker with a name, as it was given
    trial       one setting of a candidate, fitted and judged on documents that it has not seen
    champion    the setting that stands for a candidate: its own, unless a tuned one is clearly ahead
    leader      the champion with the best mean, if it is clearly ahead of the simple leader
    simple      the simple leader: the best candidate as it was given
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from rankwood._core import checks, random
from rankwood.binning.binned import BinnedData
from rankwood.binning.folder import refuse_codes
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats, Rows
from rankwood.errors import DataError, ParameterError
from rankwood.measures.measure import parse_measure
from rankwood.models.family import ModelStages
from rankwood.rankers.base import (
    Ranker,
    check_parameters,
    estimates_labels,
    learned_model,
    stages_of,
)
from rankwood.rankers.blend import Blend, named_rankers
from rankwood.rankers.boosted import LambdaMART
from rankwood.rankers.broof.broof import BROOF
from rankwood.rankers.deep_forest.deep_forest import DeepForest
from rankwood.rankers.forests import ExtraTrees, RandomForest
from rankwood.rankers.linear import RankSVM
from rankwood.rankers.pairs import NDCGBoost
from rankwood.rankers.parameters import OrNone, Whole, measure_of_rankings, parameter
from rankwood.studies.trials import (
    BLEND,
    NOT_BEGUN,
    AutoReport,
    Judging,
    OnFolds,
    Trial,
    judging_on,
    propose,
    seconds_of,
    space_of,
)
from rankwood.training.blending import HeldOut, blended, equal_shares, least_squares_shares
from rankwood.training.inputs import rows_that_count, weights_of_rows
from rankwood.training.rounds import Rounds, plain, plain_parameters

TIME_IS_UP = "the time is up"
ALL_TRIALS = "all trials are done"
NOTHING_LEFT = "every setting was tried"
INTERRUPTED = "Ctrl-C ended the search"
ONE_QUERY = "nothing: there is one query only, so the first candidate that can be fitted was taken"
TOO_SHORT = "nothing: the time was up before a trial was done, so the first candidate was taken"

_LEADERS = (0, 1, 0, 2)  # whose turn it is in tuning: the first of the leaders twice as often
_MOST_PARTS = 5  # of a blend
_MOST_TRIALS = 1_000_000  # where time alone ends the search
_SLACK = 1.2  # a fit may take so much longer than those before it
_DEFAULT_SHARE = 0.5  # of the time left: no candidate may take more for its first trial
_RULES: dict[str, Callable[[HeldOut, Floats], Floats]] = {
    "least squares": least_squares_shares,
    "equal": lambda held_out, _: equal_shares(held_out.n_parts),
}


def default_candidates() -> dict[str, Ranker]:
    """Rankers that are strong without tuning, by name; the cheap ones come first."""
    return {
        "RankSVM": RankSVM(),
        "NDCGBoost": NDCGBoost(500, early_stopping=50),
        "LambdaMART": LambdaMART(1000, early_stopping=50),
        "ExtraTrees": ExtraTrees(),
        "RandomForest": RandomForest(),
        "BROOF": BROOF("lambda"),
        "DeepForest": DeepForest(),
    }


def _check_candidates(_: str, value: Any) -> None:
    if value is None:
        return
    named = named_rankers(value, "candidates")
    names = [name for name, _ in named]
    if len(set(names)) < len(names) or BLEND in names:
        raise ParameterError(
            f"the names of candidates must differ from each other and from '{BLEND}', got {', '.join(names)}."
        )
    for name, ranker in named:
        if not isinstance(ranker, Ranker) or isinstance(ranker, Blend | AutoRanker):
            shown = type(ranker).__name__ if isinstance(ranker, Ranker) else checks.plain(ranker)
            raise ParameterError(
                f"candidates must be rankers of ours other than Blend and AutoRanker, got {shown} as '{name}'."
            )
        try:
            check_parameters(ranker)
        except ParameterError as error:
            raise ParameterError(f"candidate '{name}' ({type(ranker).__name__}): {error}") from None


def _measure_of_queries(name: str, value: Any) -> None:
    measure_of_rankings(name, value)
    if parse_measure(value).is_pooled:
        raise ParameterError(
            f"{value} has no value by query, which differences between rankers are judged by. "
            f"Choose another measure, such as {parse_measure(value).over_queries}."
        )


class Clock:
    """How much of the time for the search is left; None is no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._start = perf_counter()

    @property
    def spent(self) -> float:
        """Seconds since the search began."""
        return perf_counter() - self._start

    @property
    def left(self) -> float:
        """Seconds until the time is up."""
        return math.inf if self.seconds is None else self.seconds - self.spent


class Search:
    """The trials so far, and which comes next: each candidate as it is, then tuned settings of the leaders."""

    def __init__(
        self, candidates: Mapping[str, Any], judging: Judging, clock: Clock, seed: int
    ) -> None:
        self.candidates, self.judging, self.clock = candidates, judging, clock
        self.trials: list[Trial] = []
        self.nothing_left = TIME_IS_UP  # why there is no next trial
        self._seed = seed
        self._waiting = list(candidates)
        self._turn = 0

    def next_trial(self) -> tuple[Trial, float | None] | None:
        """The next setting, and the seconds that it may take; None where nothing is left, or fits into the time."""
        left = self.clock.left - self._seconds_of_the_end()
        if left <= 0:
            self._give_up_waiting()
            self.nothing_left = TIME_IS_UP
            return None
        if left < max((trial.seconds for trial in self.trials if trial.is_done), default=0.0):
            self._give_up_waiting()  # cheap candidates come first
        if self._waiting:
            name = self._waiting.pop(0)
            limit = None if math.isinf(left) else left * _DEFAULT_SHARE
            return Trial(name, {}, self.candidates[name]), limit
        for name in self._by_turn():
            if self._seconds_of_a_trial(name) > left:
                self.nothing_left = TIME_IS_UP
                continue
            changes = self._proposal(name)
            if changes is not None:
                ranker = clone(self.candidates[name]).set_params(**changes)
                return Trial(name, changes, ranker), None if math.isinf(left) else left
        return None

    def _give_up_waiting(self) -> None:
        """Record that the candidates that were not tried yet will not be."""
        for name in self._waiting:
            self.trials.append(Trial(name, {}, self.candidates[name], NOT_BEGUN))
        self._waiting = []

    def run(self, trial: Trial, limit: float | None) -> None:
        """Make a trial; models and scores are kept of each candidate's first and best trial only."""
        self.trials.append(self.judging.judge(trial, limit))
        done = self.done_of(trial.name)
        for each in done:
            if each is not done[0] and each is not self.best(done):
                each.forget()

    def done_of(self, name: str) -> list[Trial]:
        """The trials of a candidate that have a value."""
        return [trial for trial in self.trials if trial.name == name and trial.is_done]

    def best(self, trials: list[Trial]) -> Trial:
        """The trial with the best mean; of equal ones the first."""
        return max(trials, key=self.judging.rank)

    def champions(self) -> list[Trial]:
        """A setting per candidate, the best first."""
        chosen = []
        for name in self.candidates:
            done = self.done_of(name)
            if done:
                tuned = self.best(done)
                is_ahead = tuned is not done[0] and self.judging.is_ahead(tuned, done[0])
                chosen.append(tuned if is_ahead else done[0])
        return sorted(chosen, key=self.judging.rank, reverse=True)

    def simple_leader(self) -> Trial:
        """The best candidate as it was given, without tuning."""
        given = [trial for trial in self.trials if trial.is_done and not trial.changes]
        return self.best(given)

    def _by_turn(self) -> list[str]:
        """Candidates that can be tuned, in the order in which they are considered now."""
        ranked = sorted(
            (name for name in self.candidates if self.done_of(name)),
            key=lambda name: self.judging.rank(self.best(self.done_of(name))),
            reverse=True,
        )
        leaders = [name for name in ranked if space_of(self.candidates[name])][: max(_LEADERS) + 1]
        self.nothing_left = NOTHING_LEFT
        if not leaders:
            return []
        turn = _LEADERS[self._turn % len(_LEADERS)] % len(leaders)
        self._turn += 1
        return leaders[turn:] + leaders[:turn]

    def _proposal(self, name: str) -> dict[str, Any] | None:
        tried = [trial.changes for trial in self.trials if trial.name == name]
        best = self.best(self.done_of(name)).changes
        generator = random.stream(self._seed, "proposals of AutoRanker", len(self.trials))
        return propose(self.candidates[name], best, tried, generator)

    def _seconds_of_a_trial(self, name: str) -> float:
        """How long the next trial of a candidate will probably take."""
        return _SLACK * float(np.mean([trial.seconds for trial in self.done_of(name)]))

    def _seconds_of_the_end(self) -> float:
        """How long the fits to all the data will probably take after the search."""
        if math.isinf(self.clock.left) or not isinstance(self.judging, OnFolds):
            return 0.0
        parts = self.champions()[:_MOST_PARTS]
        return _SLACK * sum(trial.seconds for trial in parts) / (self.judging.n_folds - 1)


class BlendTrial(Trial):
    """Several champions as one: their weights, and what they reach together."""

    parts: list[Trial]
    weights: Floats  # of the parts' scores as they are; they sum to 1


def choose(champions: list[Trial], simple: Trial, judging: Judging) -> Trial:
    """The champion that leads, if it is clearly ahead of the best candidate as it was given; else that candidate."""
    leader = champions[0]
    return leader if leader is simple or judging.is_ahead(leader, simple) else simple


def blend_champions(
    champions: list[Trial], leader: Trial, simple: Trial, judging: Judging
) -> tuple[BlendTrial | None, bool]:
    """A blend of the leading champions, None where there is none, and whether it takes the place of the leader.

    The two, three … leading champions are blended with equal weights, and with those that least squares finds. A
    blend is judged as a ranker is: the weights for a fold of queries are learned on the other folds. It must not be
    below the leader, and ahead of the best candidate as it was given by more than the standard error. (A leader that
    was tuned was chosen by its luck, too.) Of such blends, the one of most parts is taken that is not clearly behind
    the best: what several models agree on depends less on chance.
    """
    blends = []
    for n_parts in range(2, min(len(champions), _MOST_PARTS) + 1):
        parts = champions[:n_parts]
        columns = [trial.scores for trial in parts if trial.scores is not None]
        held_out = HeldOut(judging.data, np.stack(columns, axis=1))
        made = [_blend_trial(parts, held_out, rule, judging) for rule in _RULES]
        blends += [blend for blend in made if (blend.weights > 0).sum() > 1]
    if not blends:
        return None, False
    best = max(blends, key=judging.rank)
    fit = [
        blend
        for blend in blends
        if judging.rank(blend) >= judging.rank(leader)
        and judging.is_ahead(blend, simple)
        and not judging.is_ahead(best, blend)
    ]
    if not fit:
        return best, False
    most = max(len(blend.parts) for blend in fit)
    return max((each for each in fit if len(each.parts) == most), key=judging.rank), True


def _blend_trial(parts: list[Trial], held_out: HeldOut, rule: str, judging: Judging) -> BlendTrial:
    start = perf_counter()
    units, spreads = _units_of_models(held_out, judging.model_of_row)
    scores = np.empty(len(units))
    for fold in np.unique(judging.fold_of_row).tolist():
        rows = judging.fold_of_row == fold
        others = HeldOut(held_out.data.take_rows(~rows), held_out.scores[~rows])
        scores[rows] = blended(units[rows], _RULES[rule](others, units[~rows]))
    factors = _RULES[rule](held_out, units) / spreads
    named = {"parts": " + ".join(trial.name for trial in parts), "weights": rule}
    trial = BlendTrial(BLEND, named, None, scores=scores)
    trial.parts, trial.weights = parts, factors / factors.sum()
    judging.measured(trial)
    trial.seconds = perf_counter() - start
    return trial


def _units_of_models(held_out: HeldOut, model_of_row: Rows) -> tuple[Floats, Floats]:
    """Scores in units of the spread of the model that gave them, and the median spread of each part.

    Models of different folds have different scales where they stopped after different rounds.
    """
    units, spreads = np.empty_like(held_out.scores), []
    for model in np.unique(model_of_row).tolist():
        rows = model_of_row == model
        centre, spread = HeldOut(held_out.data.take_rows(rows), held_out.scores[rows]).scaled(
            "query"
        )
        units[rows] = (held_out.scores[rows] - centre) / spread
        spreads.append(spread)
    return units, np.median(spreads, axis=0)


class AutoRanker(Ranker):
    """The best of several rankers, found within the time given: tried, tuned, and blended where that helps.

    Each candidate is first tried as it is, and then settings of the leaders are tried until the time is up. A trial is
    judged on documents that its model has not seen: on the validation data where ``valid`` is given, else on query
    folds of the training data. A tuned setting or a blend takes the place of the best candidate as it was given only
    if it is ahead of it by more than the standard error of the difference over queries.

    The model is that of the ranker that was chosen, or of a ``Blend``; ``save`` writes it as such. Where there are
    folds, it is trained on all the data at the end. With ``n_trials`` and ``time=None``, the same data and seed give
    the same bytes on every machine; with ``time``, a faster machine makes more trials. Ctrl-C ends the search and
    keeps the best so far.

    Attributes
    ----------
    ranker_
        The fitted ranker that was chosen, or a fitted ``Blend``.
    model_
        What it has learned: a ``Forest``, a ``LinearModel``, a ``BlendModel`` …
    trials_
        What was tried, in order: name, parameters, mean, interval, seconds, outcome, and whether it was chosen.
    judged_on_
        The documents that trials were judged on.
    stopped_because_
        Why there were no more trials.
    feature_importances_
        Those of the ranker that was chosen.
    """

    _signature = "time n_trials candidates n_folds blend measure seed n_threads progress callbacks"
    _model = "model_"

    time: Any = parameter(
        default=600.0,
        doc="""How long the search may take, in seconds or as a text such as "90s", "10m" or "1h". The model is there
        soon after: at most a fifth later, or one short fit. None is no limit, and needs ``n_trials``.""",
        check=lambda _, value: seconds_of(value),
    )
    n_trials: int | None = parameter(
        default=None,
        doc="""The most settings that are tried; None: as many as the time allows. With ``time=None``, results do not
        depend on the machine.""",
        check=OrNone(Whole(1)),
    )
    candidates: Any = parameter(
        default=None,
        doc="""The rankers to try, as ``parts`` of ``Blend`` are given; cheap ones first. Tuning leaves alone what was
        set to another value than the default. None: RankSVM, NDCGBoost, LambdaMART, ExtraTrees, RandomForest, BROOF
        with the loss "lambda", DeepForest.""",
        check=_check_candidates,
    )
    n_folds: int = parameter(
        default=5,
        doc="Query folds on which trials are judged where there are no validation data.",
        check=Whole(2),
    )
    blend: bool = parameter(
        default=True,
        doc="Whether the leaders may be blended.",
        check=checks.true_or_false,
    )
    measure: str = parameter(
        default="ndcg@10",
        doc="What trials are judged by: a measure with a value by query.",
        check=_measure_of_queries,
        kw_only=True,
    )
    seed: int = parameter(default=0, kw_only=True)
    n_threads: int | None = parameter(default=None, kw_only=True)

    def _learn(self, X: Any, data: RankingData, valid: RankingData | None) -> None:  # noqa: N803
        refuse_codes(data, valid)  # folds are cut out of them, and linear rankers are tried
        clock = Clock(seconds_of(self.time))
        binned = X if isinstance(X, BinnedData) else None
        if (present := rows_that_count(weights_of_rows(data))) is not None:
            data, binned = data.take_rows(present), None
        self._check_data(data, valid)
        judging = self._judging(data, valid, binned)
        search = Search(self._prepared(), judging, clock, self.seed)
        if valid is None and data.n_queries < 2:
            reason, judged_on = NOTHING_LEFT, ONE_QUERY
        else:
            reason, judged_on = self._tried(search), judging.judged_on
        champions = search.champions()
        if champions:
            chosen = self._chosen_of(champions, search)
        else:
            judged_on = judged_on if judged_on == ONE_QUERY else TOO_SHORT
            chosen = self._first_of(search)
        self._chosen = chosen
        self._features_with_missing = chosen.training_.get("features_with_missing")
        self.model_ = learned_model(chosen)
        self.trials_ = [trial.record() for trial in search.trials]
        self.judged_on_, self.stopped_because_ = judged_on, reason

    def _tried(self, search: Search) -> str:
        """Make trials until there is a reason to stop, and give that reason."""
        most = _MOST_TRIALS if self.n_trials is None else self.n_trials
        reporter = self._reporter(most, unit="trial")
        rounds = Rounds(reporter, total=most, all_done=ALL_TRIALS)
        with rounds.keep_on_interrupt(INTERRUPTED):
            for number in rounds:
                following = search.next_trial()
                if following is None:
                    rounds.stop(search.nothing_left)
                    break
                search.run(*following)
                if search.clock.seconds is not None:  # as many as there will be at this rate
                    rate = (number + 1) / search.clock.spent
                    reporter.total = min(most, max(number + 1, round(rate * search.clock.seconds)))
                rounds.finish(*_news(search))
        done = [trial for trial in search.trials if trial.is_done]
        if rounds.stopped_because == INTERRUPTED and not done:
            raise KeyboardInterrupt
        return str(rounds.stopped_because)

    def _chosen_of(self, champions: list[Trial], search: Search) -> Any:
        """The leader, or a blend of the champions where that is clearly ahead; fitted to all training data."""
        judging, simple = search.judging, search.simple_leader()
        leader = choose(champions, simple, judging)
        best, is_ahead = None, False
        if self.blend:
            best, is_ahead = blend_champions(champions, leader, simple, judging)
        if best is not None:
            search.trials.append(best)
        if best is None or not is_ahead:
            leader.is_chosen = True
            return judging.train(leader)
        best.is_chosen = True
        kept = [(t, w) for t, w in zip(best.parts, best.weights.tolist(), strict=True) if w > 0]
        fitted = {t.name: judging.train(t) for t, _ in kept}
        chosen = Blend.of(
            fitted, judging.data, weights=[w for _, w in kept], scaling=None, measure=self.measure
        )
        chosen.set_params(n_threads=self.n_threads)
        chosen.learned_on_ = judging.judged_on
        chosen.held_out_ = {t.name: t.mean for t, _ in kept} | {BLEND: best.mean}
        return chosen

    def _first_of(self, search: Search) -> Any:
        """The first candidate that can be fitted, where no trial was done; else the first reason why none can."""
        errors: list[Exception] = []
        for name, ranker in search.candidates.items():
            start = perf_counter()
            trial = Trial(name, {}, ranker, is_chosen=True)
            try:
                fitted = search.judging.train(trial)
            except DataError as error:
                errors.append(error)
                continue
            trial.seconds = perf_counter() - start
            search.trials = [each for each in search.trials if each.name != name] + [trial]
            return fitted
        raise errors[0]

    def _judging(self, data: RankingData, valid: RankingData | None, binned: Any) -> Judging:
        return judging_on(
            data,
            valid,
            parse_measure(self.measure),
            n_folds=self.n_folds,
            seed=self.seed,
            n_threads=self.n_threads,
            binned=binned,
        )

    def _prepared(self) -> dict[str, Any]:
        """The candidates as they are fitted: with the seed and the threads of this ranker, and no checkpoint."""
        prepared = {}
        for name, ranker in self._named():
            own = ranker.get_params(deep=False)
            changes: dict[str, Any] = {"progress": None, "checkpoint": None, "warm_start": False}
            if own.get("seed") is not None and own["seed"] == type(ranker)().seed:
                changes["seed"] = self.seed
            if self.n_threads is not None:
                changes["n_threads"] = self.n_threads
            changes = {key: value for key, value in changes.items() if key in own}
            prepared[name] = clone(ranker).set_params(**changes)
        return prepared

    def _named(self) -> Iterator[tuple[str, Ranker]]:
        if self.candidates is None:
            yield from default_candidates().items()
        else:
            yield from named_rankers(self.candidates, "candidates")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.time is None and self.n_trials is None:
            raise ParameterError(
                "time and n_trials are both None, and the search would not end: set one of them."
            )

    def _check_data(self, data: RankingData, valid: RankingData | None) -> None:
        if data.n_documents == 0:
            raise DataError("there are no rows to learn from.")
        for name, part in (("the training data have", data), ("valid has", valid)):
            if part is not None and part.query_ids is None:
                raise DataError(
                    f"{name} no query ids, and AutoRanker judges rankers by query. Pass qid, or for valid (X, y, qid)."
                )

    @property
    def ranker_(self) -> Any:
        """The fitted ranker that was chosen, or a fitted ``Blend``."""
        if not hasattr(self, "_chosen"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet.")
        return self._chosen

    def report(self) -> AutoReport:
        """What was tried, as a table: means, intervals, seconds, and what was chosen."""
        check_is_fitted(self, self._model)
        measure = str(parse_measure(self.measure))
        return AutoReport(measure, self.judged_on_, self.stopped_because_, self.trials_)

    def truncated(self, n_rounds: int) -> Any:
        """The chosen ranker after its first rounds."""
        return self.ranker_.truncated(n_rounds)

    @property
    def feature_importances_(self) -> Floats:
        """Those of the ranker that was chosen."""
        importances: Floats = self.ranker_.feature_importances_
        return importances

    def _stages(self) -> ModelStages:
        return stages_of(self.ranker_)

    def _weights_by_name(self) -> dict[str, float]:
        return dict(getattr(self.ranker_, "weights_", {}))

    def _standing_for(self) -> Any:
        return self.ranker_

    @property
    def _estimates_labels(self) -> bool:
        return estimates_labels(self.ranker_)

    def _remember(self, data: RankingData, seconds: float) -> None:
        """Record the training in this ranker, and in the chosen one with all trials, so that they can be repeated."""
        super()._remember(data, seconds)
        record = {
            "judged_on": self.judged_on_,
            "measure": str(parse_measure(self.measure)),
            "stopped_because": self.stopped_because_,
            "settings": {
                "seed": self.seed,
                "n_folds": self.n_folds,
                "n_trials": self.n_trials,
                "time": plain("time", self.time),
                "blend": self.blend,
            },
            "candidates": {
                name: {"estimator": type(ranker).__name__, "parameters": plain_parameters(ranker)}
                for name, ranker in self._prepared().items()
            },
            "trials": self.trials_,
        }
        self._chosen.training_ = {**self._chosen.training_, **self.training_, "auto": record}


def _news(search: Search) -> tuple[float | None, dict[str, float]]:
    """The mean of the last trial, and the best so far."""
    last = search.trials[-1]
    done = [trial for trial in search.trials if trial.is_done]
    notes = {"best": search.best(done).mean} if done else {}
    return (None if math.isnan(last.mean) else last.mean), notes
