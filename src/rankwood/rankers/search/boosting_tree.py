"""``BoostingTree``: a search for small, strong models among boosting sequences (Kocsis, György & Bán 2013).

``search="hull"`` is the paper's search (``tree_search.boosting_tree``), ``search="beam"`` ours
(``tree_search.beam_search``). Both extend models by one hypothesis at a time, which ``SearchRun`` does, with budget,
checkpoints and progress.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.binning.binned import BinnedData
from rankwood.data.dataset import RankingData
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.measures.compute import RepeatedMeasure, tie_averaged
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.models.family import NO_CONSTRAINT, ExploredTree, Family, FrontPoint
from rankwood.models.forest import Forest
from rankwood.models.validate import ArrayRule
from rankwood.rankers.base import Ranker
from rankwood.rankers.boosted import LambdaMART
from rankwood.rankers.parameters import OneOf, OrNone, Real, Whole, declared_parameters, parameter
from rankwood.rankers.search import tree_search
from rankwood.rankers.search.bandit import Bandit
from rankwood.rankers.search.steps import (
    BASE_DOC,
    FREE,
    BuiltOnBooster,
    Constraint,
    Constraints,
    MeasuredRows,
    ScoredModels,
    booster_of,
    check_base,
    check_tie_averaged,
)
from rankwood.rankers.search.tree_search import RAN_OUT, Beam, Models, beam_search, boosting_tree
from rankwood.training.inputs import TrainingSet, codes_of
from rankwood.training.rounds import Callback, Checkpoint, Resumed, Rounds
from rankwood.trees.grower import Tree
from rankwood.trees.one_feature import in_data_order
from rankwood.trees.workspace import Matrix

_RESUME = "A file that a stopped search goes on from, at the round it was in."
_LISTENERS = """Functions that are told of every hypothesis: see ``Progress``; the round, the number of models, the best
    measure so far and its number of trees are among ``notes``. A callback that returns True ends the search."""
SPENT = "the budget is spent"
INTERRUPTED = "interrupted by Ctrl-C"
_FINAL = (SPENT, RAN_OUT, tree_search.LONGEST)  # such a search cannot be continued
_MOST_ROUNDS = (
    1 << 24
)  # of a checkpoint: more are not done in years, and further ones must fit into int32
_FAILED = -1  # in the log: no hypothesis was found
_OF_ONE_SEARCH = {  # parameters that the other search would not look at
    "hull": (
        "evaluate_on",
        "n_constraints",
        "free_steps",
        "select_by",
        "constraints",
        "exploration",
        "smoothing",
        "exponent",
    ),
    "beam": ("beam_width",),
}
_ONLY_HULL = """ Of ``search="hull"`` alone."""


class BoostingTree(BuiltOnBooster, Ranker):
    """A search over boosting sequences that gives the best model of every length (Kocsis, György & Bán 2013).

    A node of the search tree is a model, an edge a weak hypothesis that was fitted under a constraint. The search can
    be stopped at any time, also by Ctrl-C, and keeps what it has found.

    ``search="beam"`` goes through the sizes of models, 1, 2, and so on. It extends plain boosting's model and the best
    others, by hypotheses whose nodes see a random share of the features; models are compared by the mean of the
    training and the validation measure. The model for n trees is plain boosting's, unless another one of at most n is
    ahead of it by more than two standard errors of the paired differences by query. Without validation data a fifth of
    the queries is held out of training.

    ``search="hull"`` is the paper's search. A hypothesis has one feature per node of a tree, so that a step costs a
    column and not the data. Each round extends the models that may lead furthest, for every trade-off of quality and
    length; then the best one until it is the longest.

    Attributes
    ----------
    forest_
        The best model of at most ``max_trees`` trees.
    family_
        The best models of all lengths, as a ``Family``.
    tree_
        The explored tree: parent, depth, f, f̂, constraint, round and validation measure of every model.
    n_rounds_
        Rounds that were begun; of the beam these are sizes.
    n_failed_
        Constraints that were tried without finding a hypothesis; they are not part of the budget.
    n_held_out_
        Of the beam: queries, or rows without queries, that were held out of training to compare models by.
    stopped_because_
        Why there are no more models.
    feature_importances_
        The share of each feature in the gain of all splits of the model used for scoring.
    """

    _signature = (
        "base budget evaluate_on measure max_trees n_constraints free_steps cache_mb select_by constraints exploration "
        "smoothing exponent max_length search beam_width seed n_threads progress callbacks checkpoint"
    )
    _model = "family_"

    base: Ranker | None = parameter(
        default=None,
        doc=BASE_DOC.format("BoostingTree")
        + " For the beam None is LambdaMART(learning_rate=0.1, l2=5.0), of 31 leaves.",
        check=check_base,
    )
    budget: int = parameter(
        default=5000,
        doc="""Most weak hypotheses to fit. Constraints under which there is none are counted apart, as ``n_failed_``.
        The beam needs fewer: 766 for models of up to 50 trees, 1,416 for 100.""",
        check=Whole(1),
    )
    evaluate_on: str = parameter(
        default="train",
        doc="""What the search maximises the measure on: "train", or "valid", which needs validation data."""
        + _ONLY_HULL,
        check=OneOf(("train", "valid")),
    )
    measure: str = parameter(
        default="ndcg@10",
        doc="""f, what the search compares models by, as a mean over all orders of documents with equal scores; rmse is
        to fall, the others are to rise. Of the models of all lengths the best is chosen on the validation data where
        there are any (hull: by ``select_by``).""",
        check=check_tie_averaged,
    )
    max_trees: int | None = parameter(
        default=None,
        doc="Most trees of the model that is used for scoring; None is no limit. ``best`` gives others.",
        check=OrNone(Whole(0)),
    )
    n_constraints: int | None = parameter(
        default=None,
        doc="""Constraints a model may be extended under. None is one per feature for stumps, and no limit for larger
        trees."""
        + _ONLY_HULL,
        check=OrNone(Whole(1)),
    )
    free_steps: bool = parameter(
        default=False,
        doc="""Whether the step without constraint, that of plain boosting, is among them; it costs as much as in plain
        boosting."""
        + _ONLY_HULL,
        check=checks.true_or_false,
    )
    cache_mb: float = parameter(
        default=256,
        doc="""Room for scores of models, in MiB; others are added up again when they are needed. The result does not
        depend on it.""",
        check=Real("[0, inf)"),
    )
    select_by: str | None = parameter(
        default=None,
        doc="""What the best models are chosen by on the validation data, likewise averaged; None is ``measure``."""
        + _ONLY_HULL,
        check=OrNone(check_tie_averaged),
        kw_only=True,
    )
    constraints: str = parameter(
        default="uniform",
        doc="""How the feature of a node is drawn: all alike ("uniform"), or by the probabilities of Exp3.P ("bandit"),
        which features gain by the change of ``measure`` that a hypothesis with them brought."""
        + _ONLY_HULL,
        check=OneOf(("uniform", "bandit")),
        kw_only=True,
    )
    exploration: float = parameter(
        default=0.3,
        doc="λ of Exp3.P, the share of draws that go to all features alike." + _ONLY_HULL,
        check=Real("[0, 1]"),
        kw_only=True,
    )
    smoothing: float = parameter(
        default=0.1,
        doc="η of Exp3.P, what features that were not drawn gain." + _ONLY_HULL,
        check=Real("[0, inf)"),
        kw_only=True,
    )
    exponent: float = parameter(
        default=0.5,
        doc="""Of t in ``h(n) = exp(-n / t^exponent)``, which weighs the length n of models against their measure; t
        is the number of models. A larger one prefers better models to shorter ones."""
        + _ONLY_HULL,
        check=Real("[0, 1]"),
        kw_only=True,
    )
    max_length: int | None = parameter(
        default=None,
        doc="""Models of so many hypotheses are not extended any more. None is 100 for the beam, and no limit for the
        hull; where only small models are wanted, its whole budget goes to them.""",
        check=OrNone(Whole(1)),
        kw_only=True,
    )
    search: str = parameter(
        default="beam",
        doc="""Which models are extended: those of a beam, size by size, with plain boosting among them ("beam"), or the
        corners of a convex hull, as in the paper ("hull").""",
        check=OneOf(("beam", "hull")),
        kw_only=True,
    )
    beam_width: int = parameter(
        default=4,
        doc="Models of each size that the beam extends, plain boosting's among them.",
        check=Whole(1),
        kw_only=True,
    )
    seed: int = parameter(default=0, doc="What the constraints follow from.", kw_only=True)
    n_threads: int | None = parameter(default=None, kw_only=True)
    progress: Callback | None = parameter(default=None, doc=_LISTENERS, kw_only=True)
    callbacks: Sequence[Callback] = parameter(default=(), doc=_LISTENERS, kw_only=True)
    checkpoint: str | os.PathLike[str] | None = parameter(default=None, doc=_RESUME, kw_only=True)

    def best(self, max_trees: int | None = None) -> Forest:
        """The best model of at most ``max_trees`` trees, the shortest of equal ones; None is no limit."""
        if max_trees is not None:
            max_trees = checks.whole_number("max_trees", max_trees, 0)
        family = self._learned
        return family.model(family.best(max_trees))

    def front(self) -> list[FrontPoint]:
        """The best model of every length: trees, model, measures, and whether it beats every shorter one."""
        return list(self._learned.front)

    @property
    def forest_(self) -> Forest:
        """The model used for scoring."""
        return self._learned.forest

    @property
    def tree_(self) -> ExploredTree:
        """All models of the search."""
        return self._learned.explored

    @property
    def _learned(self) -> Family:
        model: Family = super()._learned
        return model

    def _check_parameters(self) -> None:
        super()._check_parameters()
        other = "hull" if self.search == "beam" else "beam"
        for name in _OF_ONE_SEARCH[other]:
            value = getattr(self, name)
            if value != declared_parameters(type(self))[name].default:
                raise ParameterError(
                    f"{name}={value!r} is of search='{other}', and this is search='{self.search}': "
                    f"pass search='{other}', or leave {name} out."
                )

    def _new_base(self) -> LambdaMART:
        return super()._new_base() if self.search == "hull" else LambdaMART()

    def _learn(self, X: Any, data: RankingData, valid: RankingData | None) -> None:  # noqa: N803
        held: RankingData | None = None
        if self.search == "beam" and valid is None:
            X, held = tree_search.hold_out(X if isinstance(X, BinnedData) else data, self.seed)  # noqa: N806
            data = X.data if isinstance(X, BinnedData) else X
        super()._learn(X, data, valid if held is None else held)
        if held is not None:
            self.n_held_out_ = held.n_documents if held.query_ids is None else held.n_queries
        elif self.search == "beam":
            self.n_held_out_ = 0

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        self._refuse_nothing_to_judge_by(valid)
        booster = booster_of(self._base(), train, self.n_threads)
        run = self._run(booster, train, valid)
        checkpoint = Checkpoint(self, train, valid, most_trees=self.budget)
        saved = checkpoint.load(functools.partial(_rules, train.data.n_features))
        with checkpoint.explained():
            reason = run.start(saved)
        if reason is None:
            save = checkpoint.saver(run.save)
            n_done = _n_models(run.log) - 1
            budget, all_done = self._budget(run)
            rounds = self._rounds(budget, n_done, unit="model", save=save, all_done=all_done)
            reason = run.search(rounds)
        self.stopped_because_ = reason
        self.n_rounds_ = run.models.n_rounds
        self.n_failed_ = sum(new == _FAILED for _, new in run.log)
        measure = parse_measure(self.select_by or self.measure)
        self.family_ = Family.of(
            run.forest(),
            run.explored(),
            str(measure),
            is_minimised(measure),
            self.max_trees,
            None if run.beam is None else run.beam.front(run.scored.values, _n_models(run.log)),
        )

    def _budget(self, run: SearchRun) -> tuple[int, str]:
        """How many hypotheses are fitted at most, and why no more."""
        if run.beam is not None:
            n_steps = tree_search.most_steps(run.beam.n_sizes, run.beam.width)
            if n_steps < self.budget:
                return n_steps, tree_search.LONGEST
        return self.budget, SPENT

    def _refuse_nothing_to_judge_by(self, valid: RankingData | None) -> None:
        if self.evaluate_on == "valid" and valid is None:
            raise ParameterError("evaluate_on='valid' needs validation data: pass valid= to fit.")
        if self.select_by is not None and valid is None:
            raise ParameterError(
                f"select_by='{self.select_by}' chooses on validation data: pass valid= to fit, or leave select_by out."
            )

    def _run(self, booster: Any, train: TrainingSet, valid: RankingData | None) -> SearchRun:
        """The search, before its first model."""
        n_features = train.data.n_features
        models = self._models(booster, train, valid)
        if self.search == "beam":
            constraints = Constraints(n_features, False, None, False, self.seed)
            n_sizes = tree_search.MOST_TREES if self.max_length is None else self.max_length
            beam = Beam(Models(None), self.beam_width, n_sizes)
            return SearchRun(models, constraints, train, beam.models, beam=beam)
        constraints = Constraints(
            n_features,
            booster.grower.grows_stumps,
            self.n_constraints,
            bool(self.free_steps),
            self.seed,
        )
        bandit = None
        if self.constraints == "bandit":
            bandit = Bandit(np.zeros(n_features), float(self.exploration), float(self.smoothing))
        search = Models(constraints.count, float(self.exponent), self.max_length)
        return SearchRun(models, constraints, train, search, bandit)

    def _models(self, booster: Any, train: TrainingSet, valid: RankingData | None) -> ScoredModels:
        """The parts that models are measured on."""
        measure = tie_averaged(parse_measure(self.measure))
        choosing = None
        codes = in_data_order(train.matrix).columns
        parts = [_part("the training data have", codes, measure, train.data, self.n_threads)]
        if valid is not None:
            codes = codes_of(valid, train, self.n_threads)
            parts.append(_part("valid has", codes, measure, valid, self.n_threads))
            choosing = parts[1].measure
            if self.select_by is not None:
                select_by = tie_averaged(parse_measure(self.select_by))
                choosing = _part("valid has", codes, select_by, valid, self.n_threads).measure
        return ScoredModels(
            booster,
            parts[0],
            None if valid is None else parts[1],
            choosing,
            self.evaluate_on == "valid",
            self.search == "beam",
            -1.0 if is_minimised(measure) else 1.0,
            int(self.cache_mb * 2**20),
            [],
        )

    def _as_chosen(self) -> dict[str, Any]:
        """The same search, for a model that is as long as the one chosen; chosen on the training data."""
        chosen = {"max_trees": self.family_.n_trees, "evaluate_on": "train"}
        if self.search == "beam":  # longer models are of no use then
            chosen["max_length"] = max(1, self.family_.n_trees)
        return chosen


def _part(
    subject: str, codes: Any, measure: Measure, data: RankingData, n_threads: int | None
) -> MeasuredRows:
    """Rows that models are measured on; without queries there is nothing to rank."""
    if data.query_ids is None and measure.needs_queries:
        raise DataError(
            f"{subject} no query ids, which {measure.name} needs. Pass qid, or measure='rmse'."
        )
    return MeasuredRows(codes, RepeatedMeasure.of(measure, data, resolve_threads(n_threads)))


# One run of the search.


@dataclass(eq=False)
class SearchRun:
    """A search in progress. Its log has, for each constraint, the model that was extended and the new one."""

    scored: ScoredModels
    constraints: Constraints
    train: TrainingSet
    models: Models
    bandit: Bandit | None = None  # that draws the features; None: all alike
    beam: Beam | None = None  # that selects the models to extend; None: the paper's search does
    log: list[tuple[int, int]] = field(default_factory=list)  # (model, new model or _FAILED)
    _rounds: Rounds = field(init=False)
    _whole: tuple[int, int] = (0, 0)  # entries of the log, and rounds, up to the last whole round
    _used: dict[int, list[int]] = field(default_factory=dict)  # features of stumps, by model

    def __post_init__(self) -> None:
        self.scored.parent = self.models.parent

    def start(self, saved: Resumed | None) -> str | None:
        """Begin with the empty model, or take over a checkpoint; returns why that search ended, if it did."""
        if saved is None:
            self.models.add(-1, self.scored.measure(0, self.scored.scores(0)))
            return None
        self._resume(saved)
        ended = int(saved.arrays["state"][1])
        return _FINAL[ended - 1] if ended > 0 else None

    def search(self, rounds: Rounds) -> str | None:
        """Extend models until the budget is spent; returns why the search ended."""
        self._rounds = rounds
        with rounds.keep_on_interrupt(INTERRUPTED):
            steps = self._steps()
            for number in rounds:
                if not any(self._extend(*step) for step in steps):  # up to the next hypothesis
                    rounds.stop(self._out_of_steps())
                    break
                rounds.report(number + 1, *self._best_so_far())
        return rounds.stopped_because

    def _steps(self) -> Iterable[tuple[int, bool]]:
        """The models to extend, and whether by the free step of plain boosting, whatever their constraints."""
        if self.beam is not None:
            return beam_search(self.beam, self._end_round)
        return ((model, False) for model in boosting_tree(self.models, self._end_round))

    def _out_of_steps(self) -> str:
        """Why there is no next step."""
        beam = self.beam
        return (
            RAN_OUT
            if beam is None or max(self.models.depth) < beam.n_sizes
            else tree_search.LONGEST
        )

    def _extend(self, model: int, is_free: bool) -> bool:
        """Use one constraint of a model: fit a hypothesis and measure the new model; says whether there is one."""
        models, scored = self.models, self.scored
        constraint = Constraint(FREE) if is_free else self._next_constraint(model)
        extended = scored.extend(model, models.depth[model], constraint)
        models.use_constraint(model, extended is not None)
        new = _FAILED
        if extended is not None:
            tree, factor, scores = extended
            new = models.add(model, scored.add(tree, factor, constraint.value, scores))
            self._learn(model, new)
            if self.beam is not None and is_free:
                self.beam.plain.append(new)
        self._used.setdefault(model, []).append(constraint.value)
        self.log.append((model, new))  # last: Ctrl-C before it undoes the step
        return extended is not None

    def _next_constraint(self, model: int) -> Constraint:
        """The constraint that is tried next, with the bandit's probabilities where it draws."""
        index, bandit = self.models.tried[model], self.bandit
        if self.beam is not None:
            number = self.constraints.of(model, index)
            return Constraint(number, share=tree_search.share_of(number))
        if bandit is None:
            return Constraint(self.constraints.of(model, index))
        probabilities = bandit.probabilities
        if self.constraints.of_stumps:
            used = self._used.get(model, ())
            return Constraint(self.constraints.by_probability(model, index, probabilities, used))
        return Constraint(self.constraints.of(model, index), probabilities)

    def _learn(self, parent: int, new: int) -> None:
        """Reward the features of a new model's hypothesis with the change of the measure."""
        if self.bandit is None:
            return
        reward = self.models.worth[new] - self.models.worth[parent]
        feature = self.scored.trees[new - 1].feature
        self.bandit.learn(np.unique(feature[feature >= 0]), reward if math.isfinite(reward) else 0)

    def _best_so_far(self) -> tuple[float, dict[str, float]]:
        """The best measure so far, and the round, the models and the length of the best."""
        models = self.models
        best = models.leader
        while best > 0 and models.worth[best] < models.best[best]:
            best = models.parent[best]
        notes: dict[str, float] = {
            "round": models.n_rounds,
            "models": len(models),
            "trees": models.depth[best],
        }
        return _natural([models.best[best]], self.scored)[0], notes

    def _end_round(self) -> None:
        self._whole = len(self.log), self.models.n_rounds
        self._rounds.save_if_due()

    def explored(self, n_models: int | None = None) -> ExploredTree:
        """The models found, or the first of them."""
        scored, models = self.scored, self.models
        size = slice(0, _n_models(self.log) if n_models is None else n_models)
        constraints = [NO_CONSTRAINT, *scored.constraints]
        return ExploredTree(
            np.array(models.parent[size], np.int32),
            np.array(models.depth[size], np.int32),
            np.array(scored.measured[size], np.float64),
            np.array(_natural(models.best[size], scored), np.float64),
            np.array(scored.on_valid[size], np.float64),
            np.array(constraints[size], np.int64),
            np.array(models.round_of_model[size], np.int32),
        )

    def forest(self, n_models: int | None = None) -> Forest:
        """The hypotheses of all models but the empty one, in their order; weights are their factors."""
        size = (_n_models(self.log) if n_models is None else n_models) - 1
        data = self.train.data
        return Forest.from_trees(
            self.scored.trees[:size],
            n_features=data.n_features,
            tree_weights=np.array(self.scored.factors[:size], np.float64),
            base=self.scored.booster.start,
            feature_names=data.feature_names,
        )

    def save(self, checkpoint: Checkpoint) -> None:
        """Write everything where the search has ended, else the models of the whole rounds."""
        reason = self._rounds.stopped_because
        is_final = reason in _FINAL
        n_entries, n_rounds = (len(self.log), self.models.n_rounds) if is_final else self._whole
        log = self.log[:n_entries]
        n_models = _n_models(log)
        explored = self.explored(n_models)
        state = [n_rounds, _FINAL.index(str(reason)) + 1 if is_final else 0]
        arrays = {
            "attempts": np.array(log, np.int64).reshape(-1, 2),
            "constraints": explored.constraint,
            "measured": explored.f,
            "on_valid": explored.valid,
            "rounds": explored.round,
            "state": np.array(state, np.int64),
        }
        checkpoint.write(self.forest(n_models), arrays)

    def _resume(self, saved: Resumed) -> None:
        """Go through the log once more; nothing is fitted or measured again."""
        arrays, models, scored = saved.arrays, self.models, self.scored
        scored.measured = arrays["measured"].tolist()
        scored.on_valid = arrays["on_valid"].tolist()
        scored.constraints = arrays["constraints"].tolist()[1:]
        scored.trees = trees_of(saved.forest, self.train.matrix)
        self._refuse_impossible(arrays["attempts"].tolist(), len(scored.measured))
        scored.factors = saved.forest.tree_weights.tolist()
        worths = [scored.worth(model) for model in range(len(scored.measured))]
        models.add(-1, worths[0])
        for model, new in arrays["attempts"].tolist():
            if self.bandit is not None:
                self._used.setdefault(model, []).append(self._next_constraint(model).value)
            models.use_constraint(model, new != _FAILED)
            if new != _FAILED:
                models.n_rounds = int(arrays["rounds"][new])
                models.add(model, worths[new])
                self._learn(model, new)
            self.log.append((model, new))
        if self.beam is not None:
            free = [model for model, value in enumerate(scored.constraints, 1) if value == FREE]
            self.beam.plain.extend(free)
        models.n_rounds = int(arrays["state"][0])
        self._whole = len(self.log), models.n_rounds

    def _refuse_impossible(self, log: Sequence[tuple[int, int]], n_models: int) -> None:
        """Raise for a log in which a model is extended before it is there, or models are not numbered in order."""
        n_known = 1
        for model, new in log:
            if not 0 <= model < n_known or new not in (_FAILED, n_known):
                raise ModelError(f"its log extends model {model} to model {new} of {n_known:,}.")
            n_known += new != _FAILED
        if n_known != n_models:
            raise ModelError(f"its log is of {n_known:,} models, but it holds {n_models:,}.")


def _rules(n_features: int, n_trees: int) -> dict[str, ArrayRule]:
    """The arrays of a checkpoint of ``n_trees`` hypotheses besides the trees."""
    n_models = n_trees + 1
    most = float(max(n_features, 1 << 62))  # a feature, or a number that features are hashed from
    return {
        "attempts": ArrayRule(np.int64, (None, 2), _FAILED, n_models),
        "constraints": ArrayRule(np.int64, (n_models,), NO_CONSTRAINT, most),
        "measured": ArrayRule(np.float64, (n_models,), may_be_nan=True),
        "on_valid": ArrayRule(np.float64, (n_models,), may_be_nan=True),
        "rounds": ArrayRule(np.int32, (n_models,), 0, _MOST_ROUNDS),
        "state": ArrayRule(np.int64, (2,), 0, _MOST_ROUNDS),
    }


def _n_models(log: Sequence[tuple[int, int]]) -> int:
    """The empty model, and those that came of the log."""
    return 1 + sum(new != _FAILED for _, new in log)


def _natural(worths: Sequence[float], scored: ScoredModels) -> list[float]:
    """Worths as values of the measure: negated where less is better, and NaN where they are infinite."""
    return [math.nan if math.isinf(worth) else scored.sign * worth for worth in worths]


def trees_of(forest: Forest, matrix: Matrix) -> list[Tree]:
    """The trees of a forest with the codes behind their thresholds, which are cut points of ``matrix``."""
    is_inner = forest.feature >= 0
    code = np.zeros(forest.n_nodes, np.uint8)
    for node in np.flatnonzero(is_inner).tolist():
        feature = int(forest.feature[node])
        cuts = matrix.thresholds[matrix.offsets[feature] : matrix.offsets[feature + 1]]
        code[node] = place = int(np.searchsorted(cuts, forest.threshold[node]))
        if place == cuts.size or cuts[place] != forest.threshold[node]:
            raise ModelError(f"node {node} splits where feature {feature} has no cut point.")
    trees = []
    for first, last in itertools.pairwise(forest.tree_offsets.tolist()):
        nodes = slice(first, last)
        left, right, missing = (
            np.where(is_inner[nodes], getattr(forest, name)[nodes] - first, 0).astype(np.int32)
            for name in ("left", "right", "missing")
        )
        trees.append(
            Tree(
                forest.feature[nodes].copy(),
                forest.threshold[nodes].copy(),
                code[nodes].copy(),
                left,
                right,
                missing,
                forest.value[nodes].copy(),
                forest.cover[nodes].copy(),
                forest.gain[nodes].copy(),
                np.zeros(0, np.int32),
            )
        )
    return trees
