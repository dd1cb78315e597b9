"""Verification: a written file must decide and score as the model does, under the rules of its reader.

``check_decisions`` compares every split of the file with the model's. ``compare_scores`` scores documents from the
file. The results go into a ``Certificate``.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import DataError, ModelError
from rankwood.exports.reading import into_forest
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.models.forest import Forest
from rankwood.models.inputs import features_in_order


@dataclass(frozen=True)
class Certificate:
    """The result of an export: the file, the rules it was checked by, and the outcome.

    Parameters
    ----------
    format, path, n_bytes, sha256
        The file.
    n_trees, n_splits
        Its content; every split decides as the model's does for every float32 value.
    rules, notes
        How the reader of the file scores, and assumptions.
    n_documents, n_queries
        The documents and queries that were scored; None without data, or without queries.
    largest_difference
        Between a score of the file and the model's; more than rounding is an error.
    same_order
        Queries whose documents have the same order by both scores.
    """

    format: str
    path: str
    n_bytes: int
    sha256: str
    n_trees: int
    n_splits: int
    rules: tuple[str, ...]
    notes: tuple[str, ...]
    n_documents: int | None = None
    n_queries: int | None = None
    largest_difference: float | None = None
    same_order: int | None = None

    def facts(self) -> list[tuple[str, str]]:
        """Pairs of a name and a text, for display."""
        listed = [
            ("file", f"{self.path} ({self.format}, {self.n_bytes:,} bytes)"),
            ("sha256", self.sha256),
            ("trees", f"{self.n_trees:,}, {self.n_splits:,} splits compared with the model's"),
            *(("rule", rule) for rule in self.rules),
            *(("note", note) for note in self.notes),
        ]
        if self.n_documents is None:
            return [*listed, ("verified", "no data given")]
        listed.append(("documents", f"{self.n_documents:,}"))
        listed.append(("largest score difference", f"{self.largest_difference:.3g}"))
        if self.n_queries:
            share = (self.same_order or 0) / self.n_queries
            text = f"{self.same_order:,} of {self.n_queries:,} ({share:.2%})"
            listed.append(("queries in the same order", text))
        return listed

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.facts())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.facts())


def check_decisions(
    forest: Forest, trees: FileTrees, rules: EngineRules, *, n_inexact: int
) -> None:
    """Raise unless every split of the file decides as the model's does, for every float32 value.

    ``n_inexact`` thresholds may differ.
    """
    read = into_forest(dataclasses.replace(trees, feature_names=None), rules)
    if read.n_trees < forest.n_trees:
        raise ModelError(f"the file holds {read.n_trees:,} trees of {forest.n_trees:,}.")
    ours = forest.tree_offsets[:-1]
    theirs = read.tree_offsets[: forest.n_trees]
    n_off = 0
    while ours.size:
        if (forest.feature[ours] != read.feature[theirs]).any():
            raise ModelError("the file has other splits than the model.")
        is_inner = forest.feature[ours] >= 0
        ours, theirs = ours[is_inner], theirs[is_inner]
        n_off += int((forest.threshold[ours] != read.threshold[theirs]).sum())
        if rules.missing == "child" and not _same_side(forest, ours, read, theirs).all():
            raise ModelError("the file sends missing values elsewhere than the model.")
        third = (forest.missing[ours] != forest.left[ours]) & (
            forest.missing[ours] != forest.right[ours]
        )
        next_ours = [forest.left[ours], forest.right[ours], forest.missing[ours[third]]]
        next_theirs = [read.left[theirs], read.right[theirs], read.missing[theirs[third]]]
        ours, theirs = np.concatenate(next_ours), np.concatenate(next_theirs)
    if n_off > n_inexact:
        raise ModelError(f"{n_off:,} thresholds of the file decide otherwise than the model's.")


def compare_scores(
    forest: Forest, written: Forest, trees: FileTrees, rules: EngineRules, data: Any
) -> dict[str, Any]:
    """Score ``data`` from the file and by the model; a difference of more than rounding is an error.

    ``written`` is the forest in the form that was written, whose numbers were rounded.
    """
    if isinstance(data, tuple | list):
        data = RankingData(*data)
    features = features_in_order(data, forest.n_features, forest.feature_names)
    if len(features) == 0:
        raise DataError("there are no documents to verify with.")
    ours = forest.predict(features)
    theirs = trees.score(features, rules)
    difference = np.abs(ours - theirs)
    allowed = rounding(written, features, rules)
    wrong = ~(difference <= allowed)
    if wrong.any():
        _refuse(features, forest, rules, int(np.argmax(difference - allowed)), difference)
    outcome = {"n_documents": len(features), "largest_difference": float(difference.max())}
    if isinstance(data, RankingData) and data.query_ids is not None:
        outcome |= _orders(ours, theirs, data)
    return outcome


def rounding(forest: Forest, features: Features, rules: EngineRules) -> Floats:
    """The largest difference of scores by rounding: each leaf and each sum is rounded once."""
    unit = float(np.finfo(rules.summed_in).eps)
    least = float(np.finfo(rules.summed_in).smallest_subnormal)
    sizes = dataclasses.replace(
        forest,
        value=np.abs(forest.value),
        tree_weights=np.abs(forest.tree_weights),
        base=abs(forest.base),
    )
    steps = forest.n_trees + 4  # trees, the constant, the division, and the last rounding
    allowed: Floats = steps * (unit * sizes.predict(features) + least)
    return allowed


def file_facts(content: bytes) -> dict[str, Any]:
    """Size and digest of a file."""
    return {"n_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _same_side(forest: Forest, ours: Array, read: Forest, theirs: Array) -> Array:
    """Whether missing values go to the same side: left, right, or neither."""
    is_same = np.ones(ours.size, bool)
    for side in ("left", "right"):
        by_us = forest.missing[ours] == getattr(forest, side)[ours]
        by_them = read.missing[theirs] == getattr(read, side)[theirs]
        is_same &= by_us == by_them
    return is_same


def _refuse(
    features: Features, forest: Forest, rules: EngineRules, row: int, difference: Floats
) -> None:
    if rules.missing == "zero" and np.isnan(features[row]).any():
        raise DataError(
            f"row {row + 1} of the data has missing values, which the format takes for 0 and the model does not: "
            f"scores are up to {float(np.nanmax(difference)):.3g} apart. The file was not written."
        )
    raise ModelError(
        f"row {row + 1} of the data scores {float(difference[row]):.3g} apart from the model's "
        f"{float(forest.predict(features[row : row + 1])[0]):.6g}, more than rounding. The file was not written."
    )


def _orders(ours: Floats, theirs: Floats, data: RankingData) -> dict[str, int]:
    from rankwood.measures.ranking import rank_rows

    moved = rank_rows(ours, data)[0] != rank_rows(theirs, data)[0]
    has_moved = np.zeros(data.n_queries, bool)
    has_moved[data.query_of_row[moved]] = True
    return {"n_queries": data.n_queries, "same_order": int((~has_moved).sum())}
