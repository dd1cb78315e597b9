"""One run of the search: its budget, its checkpoints, and what is left of it when it ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rankwood.ensembles.boosting_tree_models import Constraints, ScoredModels
from rankwood.ensembles.boosting_tree_search import RAN_OUT, Models, boosting_tree
from rankwood.ensembles.checkpointing import Checkpoint, Resumed
from rankwood.ensembles.early_stopping import ASKED_TO
from rankwood.ensembles.inputs import TrainingSet
from rankwood.ensembles.progress import Callback, Watch
from rankwood.models.explored import NO_CONSTRAINT, ExploredTree
from rankwood.models.forest import Forest
from rankwood.trees.grower import Tree
from rankwood.trees.state_kernels import Matrix

SPENT = "the budget is spent"
INTERRUPTED = "interrupted by Ctrl-C"
_FINAL = (SPENT, RAN_OUT)  # a search that ended so has nothing to go on with
_ARRAYS = ("attempts", "constraints", "measured", "on_valid", "rounds", "state")
_FAILED = -1  # in the log: no hypothesis was found


class _EndOfSearchError(Exception):
    """Raised where no further hypothesis is wanted."""


@dataclass(eq=False)
class SearchRun:
    """A search under way. Its log says which model each unit of the budget went to, and what came of it."""

    scored: ScoredModels
    constraints: Constraints
    budget: int
    train: TrainingSet
    checkpoint: Checkpoint
    listeners: tuple[Callback | None, Sequence[Callback]]
    models: Models = field(init=False)
    log: list[tuple[int, int]] = field(default_factory=list)  # (model, new model or _FAILED)
    _watch: Watch = field(init=False)
    _whole: tuple[int, int] = (0, 0)  # entries of the log, and rounds, up to the last whole round

    def __post_init__(self) -> None:
        self.models = Models(self.constraints.count)
        self.scored.parent = self.models.parent

    def search(self) -> str:
        """Search, from the start or from a checkpoint, until the budget is spent; gives why it ended."""
        saved = self.checkpoint.load(*_ARRAYS)
        if saved is None:
            self.models.add(-1, self.scored.measure(0, self.scored.scores(0)))
        else:
            self._resume(saved)
            if int(saved.arrays["state"][1]) > 0:
                return _FINAL[int(saved.arrays["state"][1]) - 1]
        self._watch = Watch(self.budget, *self.listeners, len(self.log), unit="model")
        try:
            reason = boosting_tree(self.models, self._extend, self._end_round)
        except _EndOfSearchError as end:
            reason = str(end)
        except KeyboardInterrupt:
            reason = INTERRUPTED
        if self.checkpoint.is_kept:
            self._save(reason)
        return reason

    def _extend(self, model: int) -> None:
        """Use one constraint of a model: fit a hypothesis, measure the new model, tell who listens."""
        models, scored = self.models, self.scored
        constraint = self.constraints.of(model, models.tried[model])
        found = scored.extend(model, models.depth[model], constraint)
        models.use_constraint(model)
        new = _FAILED
        if found is not None:
            tree, factor, scores = found
            new = models.add(model, scored.add(tree, factor, constraint, scores))
        self.log.append((model, new))  # last: Ctrl-C before it undoes the step
        if self._watch.says_stop(len(self.log), *self._news()):
            raise _EndOfSearchError(ASKED_TO)
        if len(self.log) >= self.budget:
            raise _EndOfSearchError(SPENT)

    def _news(self) -> tuple[float, dict[str, float]]:
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
        if self.checkpoint.is_due():
            self._save(None)

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

    def _save(self, reason: str | None) -> None:
        """Write everything where the search is at its end, else what there was after the last whole round."""
        is_final = reason in _FINAL
        n_entries, n_rounds = (len(self.log), self.models.n_rounds) if is_final else self._whole
        log = self.log[:n_entries]
        n_models = _n_models(log)
        found = self.explored(n_models)
        state = [n_rounds, _FINAL.index(str(reason)) + 1 if is_final else 0]
        arrays = {
            "attempts": np.array(log, np.int64).reshape(-1, 2),
            "constraints": found.constraint,
            "measured": found.f,
            "on_valid": found.valid,
            "rounds": found.round,
            "state": np.array(state, np.int64),
        }
        self.checkpoint.write(self.forest(n_models), arrays)

    def _resume(self, saved: Resumed) -> None:
        """Go through the log once more; nothing is fitted or measured again."""
        arrays, models, scored = saved.arrays, self.models, self.scored
        scored.measured = arrays["measured"].tolist()
        scored.on_valid = arrays["on_valid"].tolist()
        scored.constraints = arrays["constraints"].tolist()[1:]
        scored.trees = trees_of(saved.forest, self.train.matrix)
        scored.factors = saved.forest.tree_weights.tolist()
        worths = [scored.worth(value) for value in scored.measured]
        models.add(-1, worths[0])
        for model, new in arrays["attempts"].tolist():
            models.use_constraint(model)
            if new != _FAILED:
                models.n_rounds = int(arrays["rounds"][new])
                models.add(model, worths[new])
            self.log.append((model, new))
        models.n_rounds = int(arrays["state"][0])
        self._whole = len(self.log), models.n_rounds


def _n_models(log: Sequence[tuple[int, int]]) -> int:
    """The empty model, and those that came of the log."""
    return 1 + sum(new != _FAILED for _, new in log)


def _natural(worths: Sequence[float], scored: ScoredModels) -> list[float]:
    """Worths as values of the measure: less may be better there, and what is no number is none."""
    return [math.nan if math.isinf(worth) else scored.sign * worth for worth in worths]


def trees_of(forest: Forest, matrix: Matrix) -> list[Tree]:
    """The trees of a forest with the codes behind their thresholds, which are cut points of ``matrix``."""
    is_inner = forest.feature >= 0
    code = np.zeros(forest.n_nodes, np.uint8)
    for node in np.flatnonzero(is_inner).tolist():
        feature = int(forest.feature[node])
        cuts = matrix.thresholds[matrix.offsets[feature] : matrix.offsets[feature + 1]]
        code[node] = np.searchsorted(cuts, forest.threshold[node])
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
