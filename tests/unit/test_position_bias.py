"""``position_bias``: estimates against slow twins and the truth, intervals, files, logs that say nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rankwood as rw
from rankwood.clicks import bias as module
from rankwood.clicks.bias import Cells
from rankwood.errors import DataError, ParameterError, UnknownName
from tests.reference import clicks as reference


def simulated(sessions: int, n_queries: int = 30, **options):
    judged = rw.make_ranking(n_queries=n_queries, docs_per_query=8, n_features=5, noise=0.5, seed=2)
    noise = np.random.default_rng(1).normal(size=(3, judged.n_documents))
    scores = [judged.labels + column for column in noise]
    return rw.simulate_clicks(judged, scores, sessions=sessions, cutoff=4, seed=3, **options)


LOG = simulated(600).data()
CELLS = Cells.of(LOG)


def slow_cells():
    return reference.cells_of(LOG.doc_ids.tolist(), LOG.positions.tolist(), LOG.labels.tolist())


def test_cells_count_impressions_and_clicks() -> None:
    documents, number = [], {}
    for document in LOG.doc_ids.tolist():
        documents.append(number.setdefault(document, len(number)))
    slow = reference.cells_of(documents, LOG.positions.tolist(), LOG.labels.tolist())
    found = {
        (document, int(CELLS.known[place])): (shown, clicked)
        for document, place, shown, clicked in zip(
            *(part.tolist() for part in (CELLS.document, CELLS.place, CELLS.shown, CELLS.clicked)),
            strict=True,
        )
    }
    assert found == slow


def test_harvesting_equals_the_slow_twin() -> None:
    wins = module.harvested(CELLS, module.pairs_of_cells(CELLS.document))
    slow = reference.harvested(slow_cells())
    known = CELLS.known.tolist()
    expected = [[slow.get((k, other), 0.0) for other in known] for k in known]
    np.testing.assert_allclose(wins, expected, rtol=1e-9)
    bias = rw.position_bias(LOG, "harvest", n_bootstrap=0)
    np.testing.assert_allclose(bias.examination, reference.strengths(slow, known), rtol=1e-6)
    assert rw.position_bias(LOG, "power", n_bootstrap=0).eta == pytest.approx(
        reference.power(slow), abs=1e-6
    )


def test_the_steps_of_em_equal_the_slow_twin() -> None:
    gamma = np.random.default_rng(3).uniform(0.05, 0.9, CELLS.first_rows.size)
    of_cell, looks = gamma[CELLS.document], np.array([0.9, 0.6, 0.3, 0.2])[CELLS.place]
    likely = module.passed_likings(CELLS, of_cell, looks)
    expected = [reference.passed_liking(g, look) for g, look in zip(of_cell, looks, strict=True)]
    np.testing.assert_allclose(likely, (CELLS.shown - CELLS.clicked) * expected, rtol=1e-9)
    ids = LOG.doc_ids[CELLS.first_rows].tolist()
    gammas = dict(zip(ids, gamma.tolist(), strict=True))
    slow = [reference.best_look(slow_cells(), k, gammas) for k in CELLS.known.tolist()]
    found = module.best_looks(CELLS, of_cell)
    inside = np.array(slow) < 0.99  # the slow one ends at 1
    np.testing.assert_allclose(found[inside], np.array(slow)[inside], atol=3e-4)


def test_trust_equals_the_slow_twin() -> None:
    data = simulated(300_000, n_queries=12, model="trust").counted()
    parts = (data.doc_ids, data.positions, data.labels, data.row_weights)
    cells = reference.cells_of(*(part.tolist() for part in parts))
    slope, _ = module.affine(Cells.of(data))
    np.testing.assert_allclose(slope / slope[0], reference.affine(cells, [1, 2, 3, 4]), rtol=2e-3)


@pytest.mark.parametrize("method", ["em", "harvest", "power"])
def test_estimates_are_near_the_truth_and_intervals_around_them(method: str) -> None:
    log = simulated(60_000)
    bias = rw.position_bias(log.counted(), method, n_bootstrap=30)
    near = 0.3 if method == "em" else 0.15  # its trees do not know all that the logging scores do
    np.testing.assert_allclose(bias.examination, log.truth.bias.slope, rtol=near)
    assert (bias.low <= bias.examination).all()
    assert (bias.examination <= bias.high).all()
    assert bias.low[1] < bias.high[1]
    assert bias.counts["lists"] == log.counted().n_queries


def test_the_power_is_found() -> None:
    assert rw.position_bias(simulated(60_000, eta=2.0).counted(), "power").eta == pytest.approx(
        2, abs=0.1
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "harvest"])
@pytest.mark.parametrize("eta", [0.5, 1.0, 2.0])
def test_a_million_sessions_give_the_bias_within_ten_percent(method: str, eta: float) -> None:
    judged = rw.make_ranking(n_queries=300, docs_per_query=20, n_features=15, noise=0.5, seed=1)
    rankers = [
        rw.GBRT(20, 8, min_leaf=5).fit(rw.sample_queries(judged, 6, seed=seed)) for seed in range(3)
    ]
    log = rw.simulate_clicks(judged, rankers, sessions=1_000_000, eta=eta, seed=1)
    bias = rw.position_bias(log.counted(), method, n_bootstrap=0)
    np.testing.assert_allclose(bias.examination, log.truth.bias.slope, rtol=0.1)


def test_clicks_of_sessions_and_counted_clicks_give_the_same() -> None:
    log = simulated(600)
    for method in ("harvest", "power"):
        one, other = (
            rw.position_bias(data, method, n_bootstrap=0) for data in (log.data(), log.counted())
        )
        np.testing.assert_allclose(one.examination, other.examination, rtol=1e-6)


def test_a_seed_gives_the_same_intervals() -> None:
    one, two, other = (
        rw.position_bias(LOG, "harvest", n_bootstrap=10, seed=seed) for seed in (1, 1, 2)
    )
    assert one.low.tolist() == two.low.tolist() != other.low.tolist()


def test_a_bias_is_saved_loaded_drawn_and_printed(tmp_path) -> None:
    bias = rw.position_bias(LOG, "power", n_bootstrap=5)
    bias.save(tmp_path / "bias.json")
    again = rw.PositionBias.load(tmp_path / "bias.json")
    assert again.to_dict() == bias.to_dict() == json.loads((tmp_path / "bias.json").read_text())
    assert "power, η = " in str(bias)
    assert bias.with_clip(5.0).propensities.clip == 5.0
    bias.write_csv(tmp_path / "bias.csv")
    assert (tmp_path / "bias.csv").read_text().startswith("position,examination,low,high")
    pytest.importorskip("matplotlib")
    bias.plot(tmp_path / "bias.svg")
    assert (tmp_path / "bias.svg").stat().st_size > 1000


def test_given_values_are_taken_as_they_are() -> None:
    assert rw.position_bias(None, {1: 1.0, 3: 0.4}).positions.tolist() == [1, 3]
    bias = rw.position_bias(None, [1.0, 0.5], clip=7.0)
    assert (bias.method, bias.propensities.clip, str(bias).splitlines()[-1]) == (
        "given",
        7.0,
        "given values",
    )
    assert rw.position_bias(None, bias).examination.tolist() == [1.0, 0.5]
    assert [rw.position_bias(None, bias, clip=clip).propensities.clip for clip in (None, 3.0)] == [
        7.0,
        3.0,
    ]
    with pytest.raises(ParameterError, match="clip"):
        rw.position_bias(None, bias, clip=0.5)
    ranker = rw.GBRT(2, position_bias=bias).fit(LOG)
    assert np.isfinite(ranker.predict(LOG)).all()


def log_of(labels, positions, lists=None, **options) -> rw.RankingData:
    lists = np.arange(len(labels)) if lists is None else lists
    features = np.arange(len(labels), dtype=float).reshape(-1, 1)
    return rw.RankingData(features, labels, lists, positions=positions, **options)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (log_of([0, 0], [1, 2]), "the log has no clicks"),
        (log_of([1, 1], [1, 2]), "everything in the log is clicked"),
        (log_of([1, 0], [3, 3]), "all documents of the log stood at position 3"),
        (log_of([], []), "no rows"),
        (rw.RankingData([[1.0]], [1], [1]), "needs the position of each document"),
        (log_of([2, 0], [1, 2]), "labels are clicks"),
    ],
)
@pytest.mark.parametrize("method", ["em", "harvest", "power"])
def test_a_log_that_says_nothing_is_refused(method: str, log: rw.RankingData, said: str) -> None:
    with pytest.raises(DataError, match=said):
        rw.position_bias(log, method)


def test_one_session_has_no_documents_at_two_positions() -> None:
    one = log_of([1, 0, 1], [1, 2, 3], [7, 7, 7])
    for method in ("harvest", "power"):
        with pytest.raises(DataError, match="seen at two positions"):
            rw.position_bias(one, method)
    bias = rw.position_bias(one, "em", n_bootstrap=3)  # what its clicks say
    assert bias.examination[1] < 0.01


def test_unlinked_positions_are_refused() -> None:
    log = log_of([1, 1, 1, 0], [1, 2, 3, 4], doc_ids=["a", "a", "b", "b"])
    with pytest.raises(DataError, match="position 3 shares no clicked documents"):
        rw.position_bias(log, "harvest")


def test_auto_harvests_where_documents_move_and_models_elsewhere() -> None:
    def found(log, **options):
        return rw.position_bias(log, n_bootstrap=0, **options)

    many = simulated(20_000).counted()
    harvested = rw.position_bias(many, "harvest", n_bootstrap=0)
    assert str(found(many)) == str(harvested)
    assert np.array_equal(found(many).examination, harvested.examination)
    few = simulated(
        200
    ).counted()  # the last position has fewer than 25 clicks on documents seen elsewhere
    assert found(few).method == "em"
    ids_of_cells = rw.RankingData(
        many.features,
        many.labels,
        many.query_ids,
        row_weights=many.row_weights,
        positions=many.positions,
    )
    assert found(ids_of_cells).method == "em"  # nobody knows which rows are one document
    assert found(many, ranker=rw.GBRT(5)).method == "em"
    assert found(many, trust=True).method == "harvest"
    assert found(many, trust=True).propensities.offset.any()


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'harvest'"):
        rw.position_bias(LOG, "harvst")
    with pytest.raises(ParameterError, match="trust=True needs method='harvest'"):
        rw.position_bias(LOG, "em", trust=True)
    with pytest.raises(ParameterError, match="ranker is the relevance model of method='em'"):
        rw.position_bias(LOG, "harvest", ranker=rw.GBRT())
    with pytest.raises(ParameterError, match="must estimate labels"):
        rw.position_bias(LOG, "em", ranker=rw.LambdaMART())
    with pytest.raises(ParameterError, match="pass one as data"):
        rw.position_bias(None, "em")
