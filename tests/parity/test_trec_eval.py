"""Under the ``trec_eval`` preset, every query's value is trec_eval's, on 10,000 random queries."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwood.data.dataset import RankingData
from rankwood.evaluation.evaluate import evaluate

pytrec_eval = pytest.importorskip("pytrec_eval")

N_QUERIES = 10_000
NAMES = {
    "ndcg": "ndcg",
    "ndcg@5": "ndcg_cut_5",
    "ndcg@10": "ndcg_cut_10",
    "map": "map",
    "map@5": "map_cut_5",
    "mrr": "recip_rank",
    "p@5": "P_5",
    "p@10": "P_10",
    "r@5": "recall_5",
}


@pytest.fixture(scope="module")
def case():
    """Queries of 1 to 12 documents; many scores are tied, some queries have nothing relevant."""
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 13, N_QUERIES)
    query_of_row = np.repeat(np.arange(N_QUERIES), sizes)
    n_rows = query_of_row.size
    labels = rng.choice([0, 0, 0, 1, 2, 3], n_rows) * (query_of_row % 9 > 0)
    # Multiples of 1/4 are exact in trec_eval's single precision, and often equal.
    scores = rng.integers(-8, 8, n_rows) / 4
    numbers = rng.permutation(n_rows)  # ids of mixed lengths: "d10" comes before "d9"
    doc_ids = np.array([f"d{number}" for number in numbers], object)
    query_ids = np.array([f"q{query}" for query in query_of_row], object)
    return RankingData(np.zeros((n_rows, 1)), labels, query_ids, doc_ids=doc_ids), scores


def nested(data, values):
    """``{query: {document: value}}``, as pytrec_eval wants it."""
    documents = {}
    rows = zip(data.query_ids.tolist(), data.doc_ids.tolist(), values.tolist(), strict=True)
    for query, document, value in rows:
        documents.setdefault(query, {})[document] = value
    return documents


def test_every_query_has_the_value_of_trec_eval(case):
    data, scores = case
    qrels = nested(data, data.labels.astype(int))
    wanted = {"ndcg", "ndcg_cut.5,10", "map", "map_cut.5", "recip_rank", "P.5,10", "recall.5"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(nested(data, scores))
    ours = evaluate(scores, data, list(NAMES), preset="trec_eval", n_bootstrap=0)
    queries = data.queries.tolist()
    for text, name in NAMES.items():
        expected = [theirs[query][name] for query in queries]
        assert_allclose(ours[text].per_query, expected, atol=1e-12, err_msg=text)
        assert ours[text].n_empty > 1_000


def test_documents_outside_the_run_count_as_missed(case):
    data, scores = case
    rng = np.random.default_rng(8)
    retrieved = rng.random(len(data)) < 0.7
    retrieved[data.row_order[data.query_offsets[:-1]]] = (
        True  # trec_eval leaves out queries without a run
    )
    run = nested(data.take_rows(retrieved), scores[retrieved])
    qrels = nested(data, data.labels.astype(int))
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg", "map", "recall.5"}).evaluate(run)
    ours = evaluate(
        scores, data, ["ndcg", "map", "r@5"], preset="trec_eval", retrieved=retrieved, n_bootstrap=0
    )
    for text, name in {"ndcg": "ndcg", "map": "map", "r@5": "recall_5"}.items():
        expected = [theirs[query][name] for query in data.queries.tolist()]
        assert_allclose(ours[text].per_query, expected, atol=1e-12, err_msg=text)


def test_the_tie_rule_matters_here(case):
    """Without the preset's rule the values differ, so the comparison above can fail."""
    data, scores = case
    ours = evaluate(
        scores, data, ["ndcg[gain=linear]", "ndcg[gain=linear,ties=docid]"], n_bootstrap=0
    )
    one, other = (result.per_query for result in ours)
    assert (np.abs(one - other) > 0.01).sum() > 1_000
