"""What holds for every ranking, and that the kernels agree with their slow twins on all of them."""

import contextlib
import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rankwood.data.dataset import RankingData
from rankwood.errors import ParameterError
from rankwood.measures import ranking
from rankwood.measures.measure import FORMS, Measure, parse_measure
from tests.reference import measures as reference

# Few distinct values, so that ties, equal labels and empty queries are common; a few nasty ones.
label_values = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 0.5, 72])
score_values = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.5, 1e-300, 1e300, math.inf, -math.inf])


@st.composite
def rankings(draw, max_documents=9):
    """A list of (labels, scores), one per query; as data, and as scores in the data's order."""
    queries = draw(
        st.lists(
            st.lists(st.tuples(label_values, score_values), min_size=1, max_size=max_documents),
            min_size=1,
            max_size=5,
        )
    )
    labels = [label for query in queries for label, _ in query]
    scores = np.array([score for query in queries for _, score in query])
    query_ids = np.repeat(np.arange(len(queries)), [len(query) for query in queries])
    data = RankingData(np.zeros((len(labels), 1)), labels, query_ids)
    return (
        [([row[0] for row in query], [row[1] for row in query]) for query in queries],
        data,
        scores,
    )


def twins(largest):
    """Each measure's text with the slow function of (labels, scores) that gives the same."""
    shown = {
        "dcg@3": lambda r: reference.dcg(r, 3),
        "ndcg": lambda r: reference.ndcg(r, None),
        "ndcg@2": lambda r: reference.ndcg(r, 2),
        "ndcg@40": lambda r: reference.ndcg(r, 40),
        "ndcg@4[gain=linear,discount=letor]": lambda r: reference.ndcg(r, 4, "linear", "letor"),
        "mean_ndcg": reference.mean_ndcg,
        "mean_ndcg[discount=letor]": lambda r: reference.mean_ndcg(r, discount="letor"),
        "map": lambda r: reference.average_precision(r, None),
        "map@3": lambda r: reference.average_precision(r, 3),
        "map@3[norm=cutoff,relevant=2]": lambda r: reference.average_precision(r, 3, 2, "cutoff"),
        "map@3[norm=found]": lambda r: reference.average_precision(r, 3, 1, "found"),
        "p@4": lambda r: reference.precision(r, 4),
        "r@2[relevant=2]": lambda r: reference.recall(r, 2, 2),
        "mrr@3": lambda r: reference.reciprocal_rank(r, 3),
        "mrr": lambda r: reference.reciprocal_rank(r, None),
        "err": lambda r: reference.err(r, None, largest),
        "err@3[max=80]": lambda r: reference.err(r, 3, 80),
        "rbp@6[p=0.6]": lambda r: reference.rbp(r, 6, 0.6, largest),
        "rbp[gain=linear]": lambda r: reference.rbp(r, None, 0.8, largest, "linear"),
    }
    functions = {
        text: (lambda labels, scores, twin=twin: twin(reference.ranked(labels, scores)))
        for text, twin in shown.items()
    }
    return functions | {
        "tau": reference.tau_b,
        "auc": reference.auc,
        "pauc@[10,45]": functools.partial(reference.pauc, low=0.1, high=0.45),
    }


@given(rankings())
def test_kernels_equal_their_slow_twins(case):
    queries, data, scores = case
    for text, twin in twins(float(data.labels.max())).items():
        expected = [twin(labels, scores) for labels, scores in queries]
        expected = [0.0 if value is None else value for value in expected]
        assert_allclose(
            parse_measure(text).per_query(scores, data),
            expected,
            rtol=1e-11,
            atol=1e-12,
            err_msg=text,
        )


@given(rankings(max_documents=5))
def test_averaging_ties_is_the_mean_over_all_orders(case):
    queries, data, scores = case
    texts = {
        "ndcg@2[ties=average]": lambda r: reference.ndcg(r, 2),
        "dcg[ties=average]": lambda r: reference.dcg(r, None),
        "mean_ndcg[ties=average]": reference.mean_ndcg,
        "p@3[ties=average]": lambda r: reference.precision(r, 3),
        "r@1[ties=average]": lambda r: reference.recall(r, 1),
        "rbp[ties=average,max=80]": lambda r: reference.rbp(r, None, 0.8, 80),
    }
    for text, twin in texts.items():
        expected = [
            reference.mean_over_ties(lambda r, twin=twin: twin(r) or 0.0, labels, scores)
            for labels, scores in queries
        ]
        assert_allclose(
            parse_measure(text).per_query(scores, data),
            expected,
            rtol=1e-9,
            atol=1e-12,
            err_msg=text,
        )


NORMALISED = (
    *("ndcg", "ndcg@3[ties=average]", "mean_ndcg", "map", "map@2[norm=cutoff]"),
    *("p@3", "r@3", "mrr", "err", "rbp", "auc"),
)


@given(rankings())
def test_normalised_measures_lie_between_0_and_1(case):
    _, data, scores = case
    for text in NORMALISED:
        values = parse_measure(text).per_query(scores, data)
        values = values[~np.isnan(values)]
        assert ((values >= 0) & (values <= 1 + 1e-12)).all(), text


@given(rankings(), st.randoms(use_true_random=False))
def test_permuting_queries_permutes_results(case, random):
    _, data, scores = case
    order = list(range(data.n_queries))
    random.shuffle(order)
    rows = np.concatenate([np.flatnonzero(data.query_ids == query) for query in order])
    for text in (*NORMALISED, "tau", "pauc@[0,30]"):
        measure = parse_measure(text)
        straight = measure.per_query(scores, data)
        assert_array_equal(measure.per_query(scores[rows], data.take_rows(rows)), straight[order])


@given(rankings())
def test_only_the_order_of_scores_matters(case):
    _, data, scores = case
    ranks = np.unique(scores, return_inverse=True)[1]
    for text in (*NORMALISED, "tau", "pauc@[0,30]"):
        measure = parse_measure(text)
        expected = measure.per_query(scores, data)
        assert_array_equal(measure.per_query(ranks, data), expected)
        assert_array_equal(measure.per_query(ranks * 3.0 - 7.0, data), expected)


@given(rankings())
def test_a_perfect_ranking_gives_1(case):
    _, data, _ = case
    for text in (
        "ndcg",
        "ndcg@2",
        "ndcg@3[ties=average]",
        "mean_ndcg[discount=letor]",
        "map",
        "mrr",
    ):
        values = parse_measure(text + ("[empty=1]" if "[" not in text else "")).per_query(
            data.labels, data
        )
        filled = np.array(
            [data.labels[data.query_ids == query].max() >= 1 for query in data.queries]
        )
        assert_allclose(values[filled], 1.0, atol=1e-12)


@given(st.lists(score_values, max_size=700), st.integers(1, ranking.LARGEST_BUFFER), st.data())
def test_rankings_are_stable_sorts(values, cutoff, data):
    """Lists longer than a run of the sorter, cut at any places; whole and at the top."""
    cuts = data.draw(st.lists(st.integers(0, len(values)), max_size=4))
    offsets = np.array([0, *sorted(cuts), len(values)])
    offsets.flags.writeable = False
    array = np.array(values)
    array.flags.writeable = False
    whole = ranking.order(array, offsets)
    best = ranking.top(array, offsets, cutoff)
    for query in range(offsets.size - 1):
        begin, end = offsets[query], offsets[query + 1]
        expected = [begin + place for place in reference.order(values[begin:end])]
        assert whole.order[begin:end].tolist() == expected
        start = best.starts[query]
        assert best.order[start : start + best.lengths[query]].tolist() == expected[:cutoff]


@pytest.mark.parametrize("n_documents", [127, 128, 129, 256, 257, 1000, 2500])
@pytest.mark.parametrize("kind", ["random", "ascending", "descending", "tied", "few"])
def test_long_lists_are_ordered_whatever_their_shape(n_documents, kind):
    rng = np.random.default_rng(n_documents)
    values = {
        "random": rng.normal(size=n_documents),
        "ascending": np.arange(n_documents, dtype=float),
        "descending": -np.arange(n_documents, dtype=float),
        "tied": np.zeros(n_documents),
        "few": rng.integers(0, 4, n_documents).astype(float),
    }[kind]
    values.flags.writeable = False
    offsets = np.array([0, n_documents])
    offsets.flags.writeable = False
    expected = reference.order(values.tolist())
    assert ranking.order(values, offsets).order.tolist() == expected
    assert ranking.top(values, offsets, 32).order.tolist() == expected[:32]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "DOCUMENTS_PER_BLOCK", 50)
        for n_threads in (1, 2, 5):
            assert ranking.order_together(values, n_threads).tolist() == expected


option_values = {
    "gain": st.sampled_from(["exponential", "linear"])
    | st.lists(st.floats(0, 100), min_size=2, max_size=5).map(lambda gains: tuple(sorted(gains))),
    "discount": st.sampled_from(["log2", "letor"]),
    "empty": st.sampled_from([0, 0.5, 1, "skip", "0", "1"]),
    "ties": st.sampled_from(["data", "docid"]),
    "relevant": st.floats(1e-3, 1e6),
    "max": st.floats(0.5, 900),
    "short": st.sampled_from(["keep", "zero"]),
    "p": st.floats(0.001, 0.999),
}


@st.composite
def measures(draw):
    name = draw(st.sampled_from(sorted(FORMS)))
    form = FORMS[name]
    cutoff = None
    if form.cutoff == "range":
        cutoff = tuple(
            sorted(draw(st.lists(st.floats(0, 100), min_size=2, max_size=2, unique=True)))
        )
    elif form.cutoff == "required" or (form.cutoff == "optional" and draw(st.booleans())):
        cutoff = draw(st.integers(1, 2**31 - 1))
    chosen = [option for option in form.options if option in option_values and draw(st.booleans())]
    return Measure(name, cutoff, {option: draw(option_values[option]) for option in chosen})


@given(measures())
def test_parsing_undoes_printing(measure):
    assert parse_measure(str(measure)) == measure
    assert str(parse_measure(str(measure))) == str(measure)


@given(st.text(max_size=30) | st.text("ndcgmap@[]=,0123.- ", max_size=20))
def test_any_text_is_a_measure_or_one_of_our_errors(text):
    with contextlib.suppress(ParameterError):
        measure = parse_measure(text)
        assert parse_measure(str(measure)) == measure
