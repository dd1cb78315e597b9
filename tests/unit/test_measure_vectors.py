"""Measures on hand-made rankings whose values can be worked out with pen and paper."""

import math

import numpy as np
import pytest

from rankwood.data.dataset import RankingData
from rankwood.measures.measure import parse_measure


def one_query(labels, **columns):
    return RankingData(np.zeros((len(labels), 1)), labels, np.ones(len(labels), int), **columns)


def value(text, labels, scores=None, **documents):
    """The measure of one query; without scores, the labels are in ranked order."""
    scores = -np.arange(len(labels)) if scores is None else scores
    return parse_measure(text).per_query(scores, one_query(labels), **documents)[0]


RANKED = [3, 2, 3, 0, 1, 2]


@pytest.mark.parametrize(
    ("options", "at_3", "at_5", "at_6"),
    [
        # DCG@3 = 7 + 3/log2(3) + 7/2 = 12.392789, ideal 7 + 7/log2(3) + 3/2 = 12.916508: 0.959454
        ("", 0.959454, 0.875594, 0.948811),
        # DCG@3 = 3 + 2/log2(3) + 3/2 = 5.761860, ideal 3 + 3/log2(3) + 2/2 = 5.892789: 0.977781
        ("[gain=linear]", 0.977781, 0.861044, 0.960808),
        # DCG@3 = 7 + 3 + 7/log2(3) = 14.416508, ideal 7 + 7 + 3/log2(3) = 15.892789: 0.907110
        ("[discount=letor]", 0.907110, 0.833013, 0.898127),
    ],
)
def test_ndcg_of_the_worked_example(options, at_3, at_5, at_6):
    found = [value(f"ndcg@{k}{options}", RANKED) for k in (3, 5, 6)]
    assert found == pytest.approx([at_3, at_5, at_6], abs=5e-7)
    assert value(f"ndcg{options}", RANKED) == pytest.approx(at_6, abs=5e-7)


def test_ties_keep_the_order_of_the_data_or_are_averaged():
    # Data order shows 0, 3, 1: (7/log2(3) + 1/2) / (7 + 1/log2(3)) = 0.644287; the other order
    # gives (7 + 1/2) / (7 + 1/log2(3)) = 0.982842; their mean is 0.813565.
    assert value("ndcg@3", [0, 3, 1], [1, 1, 0]) == pytest.approx(0.644287, abs=5e-7)
    assert value("ndcg@3[ties=average]", [0, 3, 1], [1, 1, 0]) == pytest.approx(0.813565, abs=5e-7)


def test_a_table_of_gains():
    assert value("dcg[gain=0/1/5]", [2, 0, 1]) == pytest.approx(5 + 1 / 2)


def test_mean_ndcg_is_the_mean_over_all_cutoffs():
    expected = np.mean([value(f"ndcg@{k}", RANKED) for k in range(1, 7)])
    assert value("mean_ndcg", RANKED) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("map", (1 / 2 + 2 / 4 + 3 / 5) / 3),
        ("map@2", (1 / 2) / 3),  # of three relevant documents
        ("map@2[norm=cutoff]", (1 / 2) / 2),  # at most two can be found
        ("map@2[norm=found]", 1 / 2),
        ("p@2", 1 / 2),
        ("p@10", 3 / 10),  # ranks without a document are not relevant
        ("p@10[norm=retrieved]", 3 / 5),
        ("r@4", 2 / 3),
        ("mrr", 1 / 2),
        ("mrr@1", 0.0),
        ("mrr[relevant=2]", 1 / 4),
        ("p@2[relevant=2]", 0.0),
    ],
)
def test_measures_of_relevant_documents(text, expected):
    assert value(text, [0, 1, 0, 2, 1]) == pytest.approx(expected, abs=1e-12)


def test_err_stops_with_the_probability_of_the_grade():
    # R = 3/16 at rank 1, 15/16 at rank 2: 3/16 + 1/2 · 13/16 · 15/16
    assert value("err[max=4]", [2, 4]) == pytest.approx(3 / 16 + 13 * 15 / 512, abs=1e-12)
    assert value("err@1[max=4]", [2, 4]) == pytest.approx(3 / 16, abs=1e-12)
    assert value("err", [1, 0]) == pytest.approx(1 / 2, abs=1e-12)  # the data's largest label is 1


def test_rbp_weighs_ranks_geometrically():
    # gains 1 and 0 and 3 of at most 3: 0.5 · 1/3 + 0.125 · 1
    assert value("rbp[p=0.5]", [1, 0, 2]) == pytest.approx(0.5 / 3 + 0.125, abs=1e-12)
    assert value("rbp@2[p=0.5,max=3]", [1, 0, 2]) == pytest.approx(0.5 / 7, abs=1e-12)


def test_tau_b_corrects_for_ties():
    # pairs: (2,1) right, (2,0) right, (1,0) tied in score: 2 / √(3 · 2)
    assert value("tau", [2, 1, 0], [5, 3, 3]) == pytest.approx(2 / math.sqrt(6), abs=1e-12)


def test_areas_under_the_roc_curve():
    # relevant above 1 of 2 others, tied with the second: (1/2 + 0) / 2 lost, 0.5 · 1/2 won
    assert value("auc", [0, 1, 0], [3, 2, 2]) == pytest.approx(0.25, abs=1e-12)
    # A straight line through the middle: everything is tied.
    tied = [1, 0] * 10
    assert value("pauc@[0,5]", tied, np.zeros(20)) == pytest.approx(0.00125, abs=1e-12)
    assert value("pauc@[20,40]", tied, np.zeros(20)) == pytest.approx((0.16 - 0.04) / 2, abs=1e-12)
    # All relevant documents first: the whole strip.
    assert value("pauc@[0,5]", [1, 1, 0, 0, 0]) == pytest.approx(0.05, abs=1e-12)


def test_rmse_is_the_root_of_the_mean():
    assert value("rmse", [0, 2], [3, 2]) == pytest.approx(math.sqrt(9 / 2), abs=1e-12)


@pytest.mark.parametrize(
    "text", ["ndcg@5", "map", "p@3", "r@1", "mrr", "err", "rbp", "dcg", "mean_ndcg"]
)
def test_empty_queries_get_the_named_value(text):
    option = "{}[empty={}]"
    assert value(text, [0, 0]) == 0.0
    assert value(option.format(text, "0.5"), [0, 0]) == 0.5
    assert value(option.format(text, "1"), [0, 0]) == 1.0
    assert math.isnan(value(option.format(text, "skip"), [0, 0]))
    assert value(option.format(text, "1"), [0, 1, 0]) < 1.0


def test_short_lists_count_nothing_on_request():
    assert value("ndcg@3[short=zero]", [1, 0]) == 0.0
    assert value("ndcg@2[short=zero]", [1, 0]) == 1.0
    assert value("ndcg@3", [1, 0]) == 1.0


def test_judged_counts_known_labels():
    judged = np.array([True, False, True])
    assert value("judged@2", [1, 0, 0], judged=judged) == 0.5
    assert value("judged@5", [1, 0, 0], judged=judged) == pytest.approx(2 / 3)
    assert value("judged@2", [1, 0, 0]) == 1.0


def test_unjudged_documents_count_as_zero_or_are_removed():
    judged = np.array([False, True, True])
    labels = [3, 1, 0]  # the label of the first is not known, whatever it says
    assert value("mrr", labels, judged=judged) == 0.5
    assert value("mrr", labels, judged=judged, unjudged="condense") == 1.0


def test_documents_that_were_not_retrieved_count_as_missed():
    retrieved = np.array([True, True, False])
    assert value("map", [1, 0, 1], retrieved=retrieved) == pytest.approx(1 / 2)  # one of two found
    assert value("r@3", [1, 0, 1], retrieved=retrieved) == pytest.approx(1 / 2)
    # ideal 1 + 1/log2(3); shown: 1
    assert value("ndcg", [1, 0, 1], retrieved=retrieved) == pytest.approx(
        1 / (1 + 1 / math.log2(3))
    )
    # A document retrieved with the lowest score there is still stands before those that were not.
    scores = [-np.inf, 0.0, 5.0]
    assert value("mrr", [1, 0, 1], scores, retrieved=retrieved) == pytest.approx(1 / 2)


def test_ties_by_descending_document_id():
    data = one_query([1, 0, 0], doc_ids=["a", "c", "b"])
    assert parse_measure("mrr[ties=docid]").per_query([1, 1, 1], data)[0] == pytest.approx(1 / 3)
    assert parse_measure("mrr").per_query([1, 1, 1], data)[0] == 1.0


def test_infinite_scores_rank_first_and_last():
    assert value("mrr", [0, 1, 0], [0.0, np.inf, -np.inf]) == 1.0
    assert value("mrr", [0, 1, 0], [0.0, -np.inf, 3.0]) == pytest.approx(1 / 3)


def test_signed_zeros_are_tied():
    assert value("mrr", [0, 1], [-0.0, 0.0]) == 0.5


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_whole_numbers_that_float64_would_tie_are_refused(kind):
    from rankwood.errors import DataError
    from rankwood.measures.ranking import check_scores

    exact = np.array([2**53, 2**53 - 1, 0], kind)
    assert check_scores(exact, 3).tolist() == [2.0**53, 2.0**53 - 1, 0.0]
    with pytest.raises(DataError, match="9,007,199,254,740,993, beyond the whole numbers"):
        check_scores(np.array([2**53 + 1, 2**53, 0], kind), 3)
