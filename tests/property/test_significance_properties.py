"""What holds for any two rankings: swapping them changes signs only, shifting both changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankwood.evaluation.paired_tests import CORRECTIONS, adjusted
from rankwood.evaluation.significance import compare_values

# Eighths, as measures of short lists have them, so that there are ties and zeros.
EIGHTHS = st.integers(0, 8).map(lambda eighth: eighth / 8)
QUERIES = st.integers(2, 40).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, n, elements=EIGHTHS), arrays(np.float64, n, elements=EIGHTHS)
    )
)
FEW = {"n_resamples": 200, "n_bootstrap": 50}


def against(one, other, **options):
    return compare_values({"A": one, "B": other}, "A", **FEW, **options)["B"]


@settings(max_examples=25, deadline=None)
@given(QUERIES)
def test_swapping_the_two_changes_the_sign_and_nothing_else(pair):
    one, other = pair
    forth = against(one, other)
    back = compare_values({"A": one, "B": other}, "B", **FEW)["A"]
    assert back.difference == -forth.difference
    assert back.effect_size == pytest.approx(-forth.effect_size)
    assert back.rank_biserial == -forth.rank_biserial
    assert back.p == pytest.approx(forth.p)
    assert (back.wins, back.losses) == (forth.losses, forth.wins)
    assert back.interval == pytest.approx((-forth.interval[1], -forth.interval[0]), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(QUERIES, st.floats(-3, 3))
def test_shifting_both_changes_nothing(pair, shift):
    one, other = pair
    before, after = against(one, other), against(one + shift, other + shift)
    assert after.difference == pytest.approx(before.difference, abs=1e-9)
    assert after.p == pytest.approx(before.p, abs=1e-6)
    assert after.interval == pytest.approx(before.interval, abs=1e-9)
    assert (after.wins, after.ties, after.losses) == (before.wins, before.ties, before.losses)


@settings(max_examples=25, deadline=None)
@given(QUERIES, st.randoms(use_true_random=False))
def test_the_order_of_queries_moves_no_exact_test(pair, random):
    one, other = pair
    order = list(range(one.size))
    random.shuffle(order)
    before, after = against(one, other), against(one[order], other[order])
    for test in ("t", "wilcoxon"):
        assert after.p[test] == pytest.approx(before.p[test])
    assert all(0.0 <= p <= 1.0 for p in before.p.values())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=12).map(np.array))
def test_corrections_only_raise_p_and_keep_the_order(p):
    none, holm, bonferroni = (adjusted(p, name) for name in ("none", "holm", "bonferroni"))
    assert set(CORRECTIONS) == {"none", "holm", "bonferroni"}
    assert (none <= holm).all()
    assert (holm <= bonferroni).all()
    assert (bonferroni <= 1).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(holm[order]) >= 0).all()
