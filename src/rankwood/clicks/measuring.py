"""Rankings measured without judgments: ``counterfactual`` from a log, ``interleave`` with readers.

Counterfactual estimates. A new ranking would have earned Σ γ_d · w(rank_d) in a session, where γ is the relevance of
the documents and w the weight of a rank: 1 / log2(rank + 1) for dcg, 1 / k for precision. Readers of the log looked at
position k with a known chance, so that (click - offset_k) / slope_k is γ on average, and::

    ips              mean over sessions of Σ (click - offset) / slope · w(new rank)
    clipped          the same with slopes of at least 1 / clip: less spread, and too low where looks are rare
    self-normalised  Σ Σ (click - offset) / slope · w  over  Σ Σ (click - offset) / slope: the weight of the rank that
                     a relevant document gets

Intervals are normal, with the variance between sessions; for clicks out of impressions the variance within lists is
that of independent clicks. The bias is taken as known. The effective number of sessions is (Σ u)² / Σ u², where u is
what the clicks of a session count: rare looks at low positions make it small.

Interleaving. Team draft (Radlinski, Kurup & Joachims 2008) lets both rankings choose by turns, each round begun by one
drawn at random; a click counts for the team of the document. Balanced (Joachims 2003) goes down both at the same pace;
clicks count for the rankings that have the document among their first k, where k reaches down to the last click.
Probabilistic (Hofmann, Whiteson & de Rijke 2011) draws a ranking and from it a document with chance 1 / rank³; a click
counts for both rankings by their chance to have contributed the document.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwood._core import checks, random
from rankwood.clicks.simulation import MODELS, lists_of, read_lists, relevance_of, true_bias
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError, DataWarning, ParameterError
from rankwood.evaluation.paired_tests import paired_t_test
from rankwood.evaluation.results import Result, Tables, show_interval, show_number, show_p
from rankwood.losses.position_bias import Propensities, as_propensities, positions_of
from rankwood.measures.ranking import check_scores, order
from rankwood.training.inputs import multiplied_weights

MEASURES = ("dcg", "precision")
METHODS = ("team_draft", "balanced", "probabilistic")
_DECAY = 3.0  # of the chances of ranks in probabilistic interleaving (Hofmann et al. 2011)
_LEAST_SUPPORT = 0.99  # of the weight of the new ranks: below, a warning


class Estimate(NamedTuple):
    """A value with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Earned:
    """What one ranking would have earned per session, by three estimators."""

    ips: Estimate
    self_normalised: Estimate
    clipped: Estimate
    effective_sessions: float
    support: float  # share of the weight of its ranks that documents of the log have


@dataclass(frozen=True, eq=False)
class Counterfactual(Result):
    """What rankings would have earned: ``result["new"].ips.value``; differences are to the first ranking.

    Attributes
    ----------
    differences
        By name: the difference of ``ips`` to the first ranking, with its interval, and the p value of the paired test.
    """

    measure: str
    n_sessions: float
    clip: float
    level: float
    earned: Mapping[str, Earned]
    differences: Mapping[str, tuple[Estimate, float]]

    def __getitem__(self, name: str) -> Earned:
        if name not in self.earned:
            raise ParameterError(f"there is no ranking '{name}'. Known: {', '.join(self.earned)}.")
        return self.earned[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON."""
        return {
            "measure": self.measure,
            "sessions": self.n_sessions,
            "clip": self.clip,
            "level": self.level,
            "rankings": {
                name: {
                    **{kind: getattr(one, kind)._asdict() for kind in _KINDS},
                    "effective_sessions": one.effective_sessions,
                    "support": one.support,
                }
                for name, one in self.earned.items()
            },
            "differences": {
                name: {**difference._asdict(), "p": p}
                for name, (difference, p) in self.differences.items()
            },
        }

    def _tables(self) -> Tables:
        rows = [
            {
                "name": name,
                **{
                    kind.replace("_", "-"): show_number(getattr(one, kind).value) for kind in _KINDS
                },
                f"{self.level:.0%} interval of ips": show_interval(one.ips[1:]),
                "effective sessions": f"{one.effective_sessions:,.0f}",
                "support": f"{one.support:.1%}",
            }
            for name, one in self.earned.items()
        ]
        tables = {"": rows}
        if self.differences:
            first = next(iter(self.earned))
            tables[f"difference to {first}"] = [
                {
                    "name": name,
                    "ips": f"{difference.value:+.4f}",
                    "interval": show_interval(difference[1:], sign="+"),
                    "p": show_p(p),
                }
                for name, (difference, p) in self.differences.items()
            ]
        return tables

    def _footnotes(self) -> list[str]:
        return [
            f"{self.measure} per session, from {self.n_sessions:,.0f} sessions; clipped at {self.clip:g}"
        ]

    def _records(self) -> Iterator[Mapping[str, Any]]:
        for name, one in self.earned.items():
            for kind in _KINDS:
                yield {"name": name, "estimator": kind, **getattr(one, kind)._asdict()}


_KINDS = ("ips", "self_normalised", "clipped")


def counterfactual(
    scores: Any,
    log: RankingData,
    bias: Any,
    measure: str = "dcg@10",
    *,
    candidates: RankingData | None = None,
    clip: float | None = None,
    level: float = 0.95,
) -> Counterfactual:
    """What new rankings of the queries of a log would have earned per session.

    Parameters
    ----------
    scores
        A fitted ranker or one score per row; or a mapping from names to these, of which the first is what the others
        are compared with.
    log
        A click log with positions.
    bias
        Its position bias: what ``rankwood.position_bias`` gives, or the path of a saved one.
    measure
        "dcg@k" or "precision@k" of the relevance that clicks stand for; without @k, of the whole list.
    candidates
        The documents that the new rankings choose from: ``scores`` are theirs, and documents are joined by id (without
        ids by row number, as simulated logs have it). By default a ranking orders the documents of each list anew.
    clip
        The most that a click counts in the clipped estimate; by default that of the bias.

    A warning says so where documents of the new ranking were never shown, or the bias does not know positions.
    """
    kind, k = _parsed(measure)
    propensities = as_propensities(bias)
    positions = positions_of(log, "counterfactual()")
    level = checks.real_number("level", level, "(0, 1)")
    clip = checks.real_number("clip", propensities.clip if clip is None else clip, "[1, inf)")
    beyond = int((~np.isin(positions, propensities.positions)).sum())
    if beyond:
        _warn(
            f"the bias does not know the positions of {beyond:,} rows; it takes the nearest above"
        )
    named = dict(scores) if isinstance(scores, Mapping) else {"ranking": scores}
    sessions = _Sessions.of(log, propensities, clip)
    weights, earned = {}, {}
    for name, given in named.items():
        ranks, support = _new_ranks(given, log, candidates, kind, k)
        if support < _LEAST_SUPPORT:
            _warn(
                f"{name}: documents with {1.0 - support:.1%} of the weight of its ranks were never shown, and count "
                "nothing: estimates are too low"
            )
        weights[name] = rank_weights(ranks, kind, k)
        earned[name] = sessions.earned(weights[name], support, level)
    first, *others = earned
    differences = {
        name: sessions.difference(weights[name] - weights[first], level) for name in others
    }
    return Counterfactual(measure, float(sessions.n.sum()), clip, level, earned, differences)


def _warn(message: str) -> None:
    warnings.warn(f"{message}.", DataWarning, stacklevel=4)


def _parsed(measure: str) -> tuple[str, int | None]:
    kind, at, cutoff = str(measure).partition("@")
    if kind not in MEASURES or (at and not cutoff.isdigit()) or cutoff == "0":
        raise ParameterError(
            f"measure must be dcg or precision with a cut-off, as in dcg@10, got '{measure}': others are no sums over "
            "documents, and clicks do not say what they would be."
        )
    if kind == "precision" and not at:
        raise ParameterError("precision needs a cut-off, as in precision@10.")
    return kind, int(cutoff) if at else None


def rank_weights(ranks: Array, kind: str, k: int | None) -> Floats:
    """The weight of each of these ranks (1 is best); 0 beyond the cut-off, and for rank 0, which is none."""
    counts = (ranks > 0) & (ranks <= (k or np.iinfo(np.int64).max))
    each = 1.0 / np.log2(np.maximum(ranks, 1) + 1.0)
    if kind == "precision" and k is not None:
        each = np.full(ranks.shape, 1.0 / k)
    weights: Floats = np.where(counts, each, 0.0)
    return weights


def _new_ranks(
    given: Any, log: RankingData, candidates: RankingData | None, kind: str, k: int | None
) -> tuple[Rows, float]:
    """The new rank of each row of the log, and the share of the ranks' weight that the log knows documents of."""
    data = log if candidates is None else candidates
    scores = check_scores(
        given.predict(data) if hasattr(given, "predict") else given, data.n_documents
    )
    ranks = ranks_of(scores, data)
    if candidates is None:
        return ranks, 1.0
    if log.doc_ids is None:
        raise DataError("candidates are joined by document id, and the log has none.")
    ids = np.arange(data.n_documents) if data.doc_ids is None else data.doc_ids
    row_of: dict[Any, int] = {}
    for row, document in enumerate(ids.tolist()):
        if row_of.setdefault(document, row) != row:
            raise DataError(
                f"document {document!r} comes twice among the candidates. An id must name a document of one query: "
                "join query and document in it."
            )
    try:
        rows = np.array([row_of[document] for document in log.doc_ids.tolist()], np.int64)
    except KeyError as error:
        raise DataError(
            f"document {error.args[0]!r} of the log is not among the candidates."
        ) from None
    is_asked = np.zeros(data.n_queries, bool)
    is_asked[data.query_of_row[rows]] = True
    is_shown = np.zeros(data.n_documents, bool)
    is_shown[rows] = True
    weights = rank_weights(ranks, kind, k) * is_asked[data.query_of_row]
    return ranks[rows], float(weights[is_shown].sum() / max(weights.sum(), 1e-300))


def ranks_of(scores: Floats, data: RankingData) -> Rows:
    """The rank of each row in its query, 1 for the highest score; equal scores keep the data's order."""
    grouping = data.grouping
    in_order = checks.read_only(np.ascontiguousarray(scores[grouping.row_order]))
    ranked = grouping.row_order[order(in_order, grouping.offsets).order]
    sizes = np.diff(grouping.offsets)
    ranks = np.empty(scores.size, np.int64)
    ranks[ranked] = np.arange(scores.size) - np.repeat(grouping.offsets[:-1], sizes) + 1
    return ranks


@dataclass(frozen=True, eq=False)
class _Sessions:
    """The lists of a log: what each click of theirs counts, and how many sessions saw them."""

    log: RankingData
    liked: Floats  # (click - offset) / slope of each row
    clipped: Floats
    spread: Floats  # the variance of ``liked`` in a session of a list that stands for several
    n: Floats  # sessions of each list

    @classmethod
    def of(cls, log: RankingData, bias: Propensities, clip: float) -> _Sessions:
        """The lists of a log; its row weights are impressions, alike in all rows of a list."""
        positions = positions_of(log)
        slope, offset = Propensities(bias.positions, bias.slope, bias.offset, math.inf).at(
            positions
        )
        weights = multiplied_weights(log)
        weights = np.ones(log.n_documents) if weights is None else weights
        n = np.zeros(log.n_queries)
        np.maximum.at(n, log.query_of_row, weights)
        if (weights != n[log.query_of_row]).any():
            raise DataError(
                "the rows of a list have different weights: these are the sessions that saw the list."
            )
        clicks = log.labels
        of_clip = (clicks - offset) / np.maximum(slope, 1.0 / clip)
        spread = clicks * (1.0 - clicks) / slope**2
        return cls(log, (clicks - offset) / slope, of_clip, spread, n)

    def _sums(self, values: Floats) -> Floats:
        """Sums of values of rows by list."""
        sums: Floats = np.bincount(self.log.query_of_row, values, self.n.size).astype(np.float64)
        return sums

    def _mean(self, values: Floats, within: Floats, level: float) -> Estimate:
        """The mean over sessions of a value of lists whose variance within a list is ``within``."""
        total = self.n.sum()
        mean = float((self.n * values).sum() / total)
        variance = (self.n * ((values - mean) ** 2 + within)).sum() / max(total - 1.0, 1.0) / total
        return _around(mean, float(variance), level)

    def earned(self, weights: Floats, support: float, level: float) -> Earned:
        """The estimates for these weights of the new ranks of rows."""
        values, counted = self._sums(self.liked * weights), self._sums(self.liked)
        within = self._sums(self.spread * weights**2)
        total = float((self.n * counted).sum())
        share = float((self.n * values).sum()) / total if total > 0.0 else math.nan
        rest = values - share * counted
        of_rest = self._sums(self.spread * (weights - share) ** 2)
        error = float((self.n * (rest**2 + of_rest)).sum()) / total**2 if total > 0.0 else math.nan
        squares = float((self.n * (counted**2 + self._sums(self.spread))).sum())
        return Earned(
            self._mean(values, within, level),
            _around(share, error, level),
            self._mean(self._sums(self.clipped * weights), within * self._shrunk(weights), level),
            total**2 / squares if squares > 0.0 else 0.0,
            support,
        )

    def _shrunk(self, weights: Floats) -> Floats:
        """The share of the variance within lists that clipping leaves."""
        whole = self._sums(self.spread * weights**2)
        ratio = np.divide(
            self.clipped, self.liked, out=np.ones_like(self.liked), where=self.liked != 0
        )
        left = self._sums(self.spread * (weights * ratio) ** 2)
        return np.divide(left, whole, out=np.ones_like(whole), where=whole > 0)

    def difference(self, weights: Floats, level: float) -> tuple[Estimate, float]:
        """The mean difference per session for these differences of weights, and the p value of the paired test."""
        differences = self._sums(self.liked * weights)
        estimate = self._mean(differences, self._sums(self.spread * weights**2), level)
        if (self.n == 1.0).all():
            return estimate, paired_t_test(differences)
        error = estimate.high - estimate.value
        return estimate, _p_of_normal(estimate.value, error / _normal_quantile(level))


def _around(value: float, variance: float, level: float) -> Estimate:
    """The normal interval."""
    half = _normal_quantile(level) * math.sqrt(max(variance, 0.0))
    return Estimate(value, value - half, value + half)


def _normal_quantile(level: float) -> float:
    """Between plus and minus this lies the share ``level`` of the normal distribution."""
    from scipy.special import ndtri  # heavy to load

    return float(ndtri((1.0 + level) / 2.0))


def _p_of_normal(value: float, error: float) -> float:
    """The two-sided p value of a normal mean."""
    if error == 0.0:
        return 1.0 if value == 0.0 else 0.0
    return math.erfc(abs(value) / error / math.sqrt(2.0))


# Interleaving.


@dataclass(frozen=True)
class Interleaving:
    """One list of two rankings, to be shown; ``credit`` says for whom its clicks speak.

    Attributes
    ----------
    documents
        The list that is shown.
    teams
        For each of its documents the chance that the first ranking contributed it: 1 or 0 for team draft; for
        balanced, which credits by ranks, one half.
    """

    documents: tuple[Hashable, ...]
    teams: tuple[float, ...]
    method: str
    rankings: tuple[tuple[Hashable, ...], tuple[Hashable, ...]]

    def credit(self, clicked: Iterable[Hashable]) -> tuple[float, float]:
        """What the clicked documents count for the first ranking and for the second."""
        wanted = set(clicked)
        unknown = wanted.difference(self.documents)
        if unknown:
            raise DataError(
                f"document {next(iter(unknown))!r} was clicked, but is not in the list."
            )
        if self.method != "balanced":
            chances = [c for d, c in zip(self.documents, self.teams, strict=True) if d in wanted]
            return sum(chances), sum(1.0 - chance for chance in chances)
        if not wanted:
            return 0.0, 0.0
        last = [document for document in self.documents if document in wanted][-1]
        places = [ranking.index(last) + 1 for ranking in self.rankings if last in ranking]
        depth = min(places)
        one, other = (len(wanted.intersection(ranking[:depth])) for ranking in self.rankings)
        return float(one), float(other)


@dataclass(frozen=True, eq=False)
class InterleavingTest(Result):
    """How often each of two rankings won, and whether that is more than chance.

    Attributes
    ----------
    credits
        Sessions × 2.
    p
        Of the sign test over sessions that one of them won.
    """

    credits: Floats
    names: tuple[str, str] = ("a", "b")

    @property
    def wins(self) -> tuple[int, int]:
        """Sessions in which each had more credit."""
        one, other = self.credits.T
        return int((one > other).sum()), int((other > one).sum())

    @property
    def preference(self) -> float:
        """Δ_AB of Chapelle et al. (2012): the share of wins of the first, ties counting half, less one half."""
        one, other = self.wins
        return (one - other) / (2.0 * len(self.credits)) if len(self.credits) else math.nan

    @property
    def p(self) -> float:
        """The p value of the two-sided sign test."""
        from scipy.stats import binomtest  # heavy to load

        one, other = self.wins
        return float(binomtest(one, one + other).pvalue) if one + other else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON."""
        return {
            "sessions": len(self.credits),
            "wins": dict(zip(self.names, self.wins, strict=True)),
            "credit": dict(zip(self.names, self.credits.sum(axis=0).tolist(), strict=True)),
            "preference": self.preference,
            "p": self.p,
        }

    def _tables(self) -> Tables:
        return {
            "": [
                {
                    "name": name,
                    "wins": f"{wins:,}",
                    "credit": f"{credit:,.1f}",
                }
                for name, wins, credit in zip(
                    self.names, self.wins, self.credits.sum(axis=0), strict=True
                )
            ]
        }

    def _footnotes(self) -> list[str]:
        return [
            f"{len(self.credits):,} sessions; preference for {self.names[0]} {self.preference:+.4f}, sign test p "
            f"{show_p(self.p)}"
        ]

    def _records(self) -> Iterator[Mapping[str, Any]]:
        for one, other in self.credits.tolist():
            yield dict(zip(self.names, (one, other), strict=True))


def interleave(
    a: Any,
    b: Any,
    *,
    method: str = "team_draft",
    k: int = 10,
    seed: Any = 0,
    data: RankingData | None = None,
    sessions: int = 1000,
    model: str = "position",
    eta: float = 1.0,
    noise: float = 0.1,
) -> Any:
    """Two rankings in one list, for a live service; or, with ``data``, the test that readers would decide.

    Parameters
    ----------
    a, b
        Document ids, best first; with ``data``, fitted rankers or one score per row.
    method
        "team_draft", "balanced" or "probabilistic"; see the module.
    k
        How many documents are shown.
    seed
        A number, or a ``numpy.random.Generator``, as a service keeps one.
    data
        Judged documents, over which ``sessions`` readers are simulated as ``simulate_clicks`` does.

    Returns
    -------
    An ``Interleaving`` with ``documents`` and ``credit(clicked)``; with ``data`` an ``InterleavingTest``. A service
    collects credits and passes them to ``InterleavingTest``.

    Examples
    --------
    >>> shown = interleave(["x", "y", "z"], ["z", "x", "w"], k=3, seed=1)
    >>> shown.documents, shown.credit(["z"])
    (('x', 'z', 'y'), (0.0, 1.0))
    """
    checks.one_of("method", method, METHODS)
    k = checks.whole_number("k", k, 1)
    if data is None:
        generator = seed if isinstance(seed, np.random.Generator) else _stream(seed)
        return _interleaved(tuple(a), tuple(b), method, k, generator)
    checks.one_of("model of clicks", model, MODELS)
    relevance = relevance_of(data.labels, checks.real_number("noise", noise, "[0, 1)"))
    rankings = []
    for given in (a, b):
        scores = check_scores(
            given.predict(data) if hasattr(given, "predict") else given, data.n_documents
        )
        rankings.append(lists_of(data, scores, int(np.diff(data.query_offsets).max())))
    n_sessions = checks.whole_number("sessions", sessions, 1)
    generator = _stream(checks.whole_number("seed", seed, 0))
    bias = true_bias(
        model,
        checks.real_number("eta", eta, "[0, inf)"),
        np.append(relevance, 0.0)[rankings[0][:, :k]],
    )
    earned = np.zeros((n_sessions, 2))
    for session in range(n_sessions):
        query = int(generator.integers(data.n_queries))
        one, other = (tuple(ranking[query][ranking[query] >= 0].tolist()) for ranking in rankings)
        shown = _interleaved(one, other, method, k, generator)
        gamma = relevance[np.array(shown.documents)]
        clicks = read_lists(model, bias, gamma[np.newaxis], generator)[0]
        earned[session] = shown.credit(d for d, c in zip(shown.documents, clicks, strict=True) if c)
    return InterleavingTest(earned)


def _stream(seed: Any) -> np.random.Generator:
    return random.stream(checks.whole_number("seed", seed, 0), "interleaving")


def _interleaved(
    one: tuple[Hashable, ...],
    other: tuple[Hashable, ...],
    method: str,
    k: int,
    generator: np.random.Generator,
) -> Interleaving:
    for name, ranking in (("a", one), ("b", other)):
        if len(set(ranking)) != len(ranking):
            raise DataError(f"a ranking names each document once, and {name} does not.")
    draw = {"team_draft": _draft, "balanced": _balanced, "probabilistic": _probabilistic}[method]
    documents, teams = draw((one, other), k, generator)
    return Interleaving(tuple(documents), tuple(teams), method, (one, other))


Drawn = tuple[list[Hashable], list[float]]
Pair = tuple[Sequence[Hashable], Sequence[Hashable]]


def _draft(rankings: Pair, k: int, generator: np.random.Generator) -> Drawn:
    """Each round, in an order drawn at random, both choose their best document that is not there yet."""
    shown: list[Hashable] = []
    teams: list[float] = []
    while len(shown) < k:
        before = len(shown)
        first = int(generator.integers(2))
        for side in (first, 1 - first):
            left = next((d for d in rankings[side] if d not in shown), None)
            if left is not None and len(shown) < k:
                shown.append(left)
                teams.append(float(side == 0))
        if len(shown) == before:
            break
    return shown, teams


def _balanced(rankings: Pair, k: int, generator: np.random.Generator) -> Drawn:
    """Both are gone down at the same pace; one drawn at random is ahead."""
    ahead = int(generator.integers(2))
    shown: list[Hashable] = []
    at = [0, 0]
    while len(shown) < k and (at[0] < len(rankings[0]) or at[1] < len(rankings[1])):
        behind = at[ahead] > at[1 - ahead]
        side = 1 - ahead if behind else ahead
        if at[side] >= len(rankings[side]):
            side = 1 - side
        document = rankings[side][at[side]]
        at[side] += 1
        if document not in shown:
            shown.append(document)
    return shown, [0.5] * len(shown)


def _probabilistic(rankings: Pair, k: int, generator: np.random.Generator) -> Drawn:
    """A ranking is drawn, and from it one of the documents that are left, by the power of its rank."""
    chances = [
        {document: (rank + 1.0) ** -_DECAY for rank, document in enumerate(ranking)}
        for ranking in rankings
    ]
    shown: list[Hashable] = []
    teams: list[float] = []
    while len(shown) < k and (chances[0] or chances[1]):
        side = int(generator.integers(2))
        side = side if chances[side] else 1 - side
        left = list(chances[side])
        each = np.array([chances[side][document] for document in left])
        document = left[int(np.searchsorted(np.cumsum(each), generator.random() * each.sum()))]
        shares = [own.get(document, 0.0) / sum(own.values()) if own else 0.0 for own in chances]
        for own in chances:
            own.pop(document, None)
        shown.append(document)
        teams.append(shares[0] / (shares[0] + shares[1]))
    return shown, teams
