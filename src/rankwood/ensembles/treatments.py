"""The treatments of missing values by name, put before a ranker or into it: see ``ensembles.missing``."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from rankwood import _checks
from rankwood.ensembles.missing import STRATEGIES, FillMissing
from rankwood.ensembles.missing_prediction import PredictMissing
from rankwood.errors import ParameterError

POLICIES = {"learned": "learned", "three_way": "own_child"}  # as the rankers call them
TREATMENTS = ("learned", *STRATEGIES, "predict", "three_way")


def treated(ranker: Any, treatment: str, predictor: PredictMissing | None = None) -> Any:
    """A new ranker that treats missing values so: a policy of its own, or a ``Pipeline`` of a step and the ranker.

    ``predictor`` is the step of the treatment "predict"; without one it has the ranker's seed and threads.
    """
    _checks.one_of("treatment of missing values", treatment, TREATMENTS)
    model = clone(ranker)
    known = model.get_params(deep=False)
    if treatment in POLICIES:
        if "missing" not in known:
            raise ParameterError(
                f"{type(ranker).__name__} has no policy for missing values, which the treatment "
                f"'{treatment}' needs. Leave it out, or fill the values."
            )
        return model.set_params(missing=POLICIES[treatment])
    if treatment != "predict":
        return Pipeline([("missing", FillMissing(treatment)), ("ranker", model)])
    same = {name: known[name] for name in ("seed", "n_threads") if name in known}
    step = PredictMissing(**same) if predictor is None else clone(predictor)
    return Pipeline([("missing", step), ("ranker", model)])


def described(treatment: str) -> str:
    """How a table says what a treatment is."""
    if treatment in POLICIES:
        return f"missing={POLICIES[treatment]!r}"
    return "PredictMissing()" if treatment == "predict" else f"FillMissing({treatment!r})"
