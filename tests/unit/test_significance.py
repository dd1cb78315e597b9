"""Paired tests, corrections and comparisons against scipy, statsmodels and textbook cases."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.paired_tests import (
    _sums_by_random_signs,
    adjusted,
    cohens_d,
    p_value,
    paired_differences,
    randomization,
    rank_biserial,
    signed_ranks,
    wilcoxon,
)
from rankwood.evaluation.significance import compare_values

pytestmark = pytest.mark.jit_only  # no kernels of its own

# Darwin's fifteen pairs of cross- and self-fertilised maize, in eighths of an inch: Fisher, The Design of Experiments (1935), §17 and §21.
DARWIN = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48.0])


def two_systems(n_queries=60, seed=0):
    """Values as NDCG has them: many equal ones, many zeros."""
    generator = np.random.default_rng(seed)
    one = generator.integers(0, 8, n_queries) / 8
    other = np.clip(one + generator.integers(-2, 4, n_queries) / 8, 0, 1)
    return one, other


# --- the tests ---------------------------------------------------------------------------------------------------------


def test_fishers_textbook_case():
    # Fisher: of the 2^15 sums, 863 are as large as 314 (one side 863, both 1,726), and t = 2.148.
    assert randomization(DARWIN, 10, 0) == 1726 / 2**15
    mean, error = DARWIN.mean(), DARWIN.std(ddof=1) / math.sqrt(15)
    assert mean / error == pytest.approx(2.148, abs=5e-4)
    assert p_value("t", DARWIN, n_resamples=1, seed=0) == pytest.approx(0.0497, abs=5e-5)


@pytest.mark.parametrize("seed", range(5))
def test_exact_randomization_is_the_enumeration(seed):
    values = np.random.default_rng(seed).normal(0.3, 1, 9)
    sums = [abs(np.dot(values, signs)) for signs in itertools.product((1, -1), repeat=9)]
    expected = np.mean(np.array(sums) >= abs(values.sum()) - 1e-12)
    assert randomization(values, 1, 0) == expected


def test_drawn_randomization_is_close_to_scipys():
    one, other = two_systems(80)
    found = other - one
    expected = stats.permutation_test(
        (found,),
        np.mean,
        permutation_type="samples",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).pvalue
    ours = randomization(found, 20_000, 3)
    # both are shares of 20,000 draws: four standard errors of their difference
    assert ours == pytest.approx(expected, abs=4 * math.sqrt(2 * expected / 20_000) + 1e-4)


def test_random_signs_have_the_moments_of_coins():
    amounts = np.random.default_rng(0).normal(size=20_000)  # more groups than one table holds
    sums = _sums_by_random_signs(amounts, 2000, 0)
    deviation = math.sqrt(np.square(amounts).sum())
    assert abs(sums.mean()) < 4 * deviation / math.sqrt(2000)
    assert sums.std() == pytest.approx(deviation, rel=4 / math.sqrt(2 * 2000))


@pytest.mark.parametrize("n_queries", [17, 30, 50])
def test_wilcoxon_is_scipys_exact_test_without_ties(n_queries):
    found = np.random.default_rng(n_queries).normal(0.2, 1, n_queries)
    expected = stats.wilcoxon(found, method="exact").pvalue
    assert wilcoxon(found) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n_queries", [40, 200, 3000])
def test_wilcoxon_is_scipys_approximation_with_ties_and_zeros(n_queries):
    one, other = two_systems(n_queries)
    expected = stats.wilcoxon(other - one, method="approx", zero_method="wilcox").pvalue
    assert wilcoxon(other - one) == pytest.approx(expected, rel=1e-9)


def test_wilcoxon_of_few_queries_with_ties_is_the_enumeration_of_signs():
    found = np.array([3.0, 3, -1, 0, 2, 2, 2, -1, 5])
    ranks = stats.rankdata(np.abs(found[found != 0]))
    reached = abs(np.sum(ranks * np.sign(found[found != 0])))
    sums = [abs(np.dot(ranks, signs)) for signs in itertools.product((1, -1), repeat=ranks.size)]
    assert wilcoxon(found) == np.mean(np.array(sums) >= reached)


def test_signed_ranks_share_ranks():
    assert signed_ranks(np.array([0.5, -0.5, 0, 2, -1])).tolist() == [1.5, -1.5, 4, -3]


def test_t_is_scipys():
    one, other = two_systems(50)
    expected = stats.ttest_rel(other, one).pvalue
    assert p_value("t", paired_differences(other, one), n_resamples=1, seed=0) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("test", ["wilcoxon", "t", "randomization"])
def test_degenerate_differences(test):
    def p(values):
        return p_value(test, np.array(values, np.float64), n_resamples=100, seed=0)

    assert p([0, 0, 0]) == 1.0
    assert math.isnan(p([0.5]))
    assert math.isnan(p([]))
    assert p([1, -1]) == 1.0


def test_differences_leave_out_nan_and_rounding():
    third = np.array([0.1 + 0.2, 0.5, np.nan, 1.0])
    assert paired_differences(third, np.array([0.3, np.nan, 0.1, 0.25])).tolist() == [0.0, 0.75]
    assert paired_differences(np.zeros(2), np.zeros(2)).tolist() == [0, 0]
    tiny = paired_differences(np.array([5e-320, 0]), np.array([0, 5e-320]))
    assert np.isfinite(tiny).all()


def test_effect_sizes():
    found = np.array([1.0, 2, 3, -2])
    assert cohens_d(found) == pytest.approx(1.0 / found.std(ddof=1))
    # amounts 1, 2, 3, 2 have ranks 1, 2.5, 4, 2.5: (1 + 2.5 + 4 - 2.5) / 10
    assert rank_biserial(found) == pytest.approx(0.5)
    assert cohens_d(np.zeros(3)) == rank_biserial(np.zeros(3)) == 0.0
    assert cohens_d(np.full(3, -0.5)) == -math.inf
    assert rank_biserial(np.full(3, -0.5)) == -1.0
    assert math.isnan(cohens_d(np.ones(1)))
    assert math.isnan(rank_biserial(np.array([])))


@pytest.mark.parametrize("correction", ["holm", "bonferroni"])
@pytest.mark.parametrize("n_tests", [1, 2, 7, 30])
def test_corrections_are_those_of_statsmodels(correction, n_tests):
    p = np.random.default_rng(n_tests).uniform(0, 0.2, n_tests)
    p[-1] = p[0]
    expected = multipletests(p, method=correction)[1]
    np.testing.assert_allclose(adjusted(p, correction), expected, rtol=1e-12)


def test_corrections_pass_over_what_has_no_p_value():
    p = np.array([0.01, np.nan, 0.04])
    np.testing.assert_allclose(adjusted(p, "holm"), [0.02, np.nan, 0.04])
    np.testing.assert_allclose(adjusted(p, "bonferroni"), [0.02, np.nan, 0.08])
    np.testing.assert_array_equal(adjusted(p, "none"), p)
    assert adjusted(np.array([]), "holm").size == 0


# --- comparisons -------------------------------------------------------------------------------------------------------


def three_systems(n_queries=100):
    one, other = two_systems(n_queries)
    return {"A": one, "B": other, "C": np.where(np.arange(n_queries) == 0, 1 - one, one)}


def test_a_comparison_puts_its_parts_together():
    values = three_systems()
    found = compare_values(values, "A")
    assert [pair.name for pair in found.pairs] == ["B", "C"]
    pair = found["B"]
    difference = values["B"] - values["A"]
    assert pair.mean - pair.baseline_mean == pytest.approx(pair.difference)
    assert pair.difference == pytest.approx(difference.mean())
    assert pair.interval[0] < pair.difference < pair.interval[1]
    assert (pair.wins, pair.ties, pair.losses) == (
        (difference > 0).sum(),
        (difference == 0).sum(),
        (difference < 0).sum(),
    )
    assert pair.wins + pair.ties + pair.losses == pair.n_queries == 100
    assert pair.p["t"] == pytest.approx(stats.ttest_rel(values["B"], values["A"]).pvalue)
    holm = multipletests([found["B"].p["t"], found["C"].p["t"]], method="holm")[1]
    assert [each.adjusted["t"] for each in found.pairs] == pytest.approx(holm.tolist())
    assert found.marks("B") == "*+r"
    assert found.marks("C") == found.marks("A") == ""
    assert found.best == "B"
    assert found.tied_with_best == {"B"}


def test_marks_follow_the_tests_asked_for():
    found = compare_values(three_systems(), "A", tests=("t",), correction="none")
    assert found.marks("B") == "+"
    assert found.tests == ("t",)


def test_without_a_baseline_the_best_is_it():
    found = compare_values(three_systems())
    assert found.baseline == found.best == "B"
    lower = compare_values(three_systems(), higher_is_better=False)
    assert lower.best != "B"
    pair = lower["B"]
    assert pair.difference > 0
    assert pair.losses > pair.wins


def test_of_several_baselines_the_strongest_counts():
    values = three_systems()
    values["D"] = values["B"] + 0.05
    found = compare_values(values, ["A", "B"])
    assert found.baseline == "B"
    assert found.candidates == ("A", "B")
    alone = compare_values(values, "B")
    assert found.to_dict() == alone.to_dict() | {"candidates": ["A", "B"]}
    assert "baseline B: the strongest of A, B" in str(found)
    assert compare_values(values, ["A", "B"], higher_is_better=False).baseline == "A"
    assert compare_values(values, ("A",)).to_dict() == compare_values(values, "A").to_dict()
    lacking = values | {"B": np.full(100, np.nan)}
    assert compare_values(lacking, ["A", "B"]).baseline == "A"


def test_ties_with_the_best_do_not_depend_on_the_baseline():
    values = three_systems()
    values["D"] = values["B"].copy()
    values["D"][3] += 1e-3
    found = compare_values(values, "A")
    assert found.best == "D"
    assert found.tied_with_best == {"B", "D"} == compare_values(values).tied_with_best


def test_equal_rankings_have_p_one():
    found = compare_values({"A": np.ones(5), "B": np.ones(5)})["B"]
    assert set(found.p.values()) == {1.0}
    assert found.interval == (0.0, 0.0)
    assert found.effect_size == 0.0
    assert (found.wins, found.ties, found.losses) == (0, 5, 0)


def test_one_query_has_no_p_value_and_says_so():
    found = compare_values({"A": [0.5], "B": [1.0]}, "A")
    assert all(math.isnan(p) for p in found["B"].p.values())
    assert found.marks("B") == ""
    assert found.notes == ("no test with fewer than two queries in common with the baseline: B.",)
    assert found.tied_with_best == {"A", "B"}


def test_missing_values_are_left_out_pair_by_pair():
    values = {"A": [0.1, 0.2, 0.3, np.nan], "B": [0.2, np.nan, 0.5, 0.9], "C": [0.0, 0.1, 0.2, 0.3]}
    found = compare_values(values, "A")
    assert found["B"].n_queries == 2
    assert found["B"].mean == pytest.approx(0.35)
    assert found["B"].baseline_mean == pytest.approx(0.2)
    assert found["C"].n_queries == 3
    assert found.means["C"] == pytest.approx(0.1)  # over the first and third query
    nothing = compare_values({"A": [0.1, np.nan], "B": [np.nan, 0.9]})
    assert nothing.best == "B"
    assert nothing.pairs[0].n_queries == 0


def test_plain_forms():
    found = compare_values(three_systems(), "A")
    row = found.to_rows()[0]
    assert row["name"] == "B"
    assert row["p_t"] == found["B"].p["t"]
    assert (row["low"], row["high"]) == found["B"].interval
    assert found.to_dict()["pairs"][0]["marks"] == "*+r"
    assert found.to_dict()["tied_with_best"] == ["B"]


def test_same_seed_same_result():
    one, other = compare_values(three_systems(), "A"), compare_values(three_systems(), "A")
    assert one.to_dict() == other.to_dict()
    assert compare_values(three_systems(), "A", seed=1).to_dict() != one.to_dict()


@pytest.mark.parametrize(
    ("values", "options", "error", "message"),
    [
        ({"A": [1.0]}, {}, ParameterError, "needs two names or more, got 1"),
        ([1.0, 2.0], {}, ParameterError, "must be a mapping"),
        ({"A": [1.0, 2.0], "B": [1.0]}, {}, DataError, "'A' has 2 values and 'B' 1"),
        ({"A": [1.0, np.inf], "B": [1.0, 2.0]}, {}, DataError, "infinite for query number 2"),
        ({"A": [[1.0]], "B": [[1.0]]}, {}, DataError, "one dimension"),
        ({"A": ["x"], "B": [1.0]}, {}, DataError, "'A' are not numbers"),
        ({"A": [1.0], "B": [1.0]}, {"baseline": "a"}, UnknownName, "Did you mean|Known: A, B"),
        ({"A": [1.0], "B": [1.0]}, {"baseline": ["A", "b"]}, UnknownName, "baseline 'b'"),
        ({"A": [1.0], "B": [1.0]}, {"baseline": []}, ParameterError, "baseline must be a name"),
        ({"A": [1.0], "B": [1.0]}, {"baseline": 3}, ParameterError, "baseline must be a name"),
        ({"A": [1.0], "B": [1.0]}, {"tests": ("wilcoxn",)}, UnknownName, "mean 'wilcoxon'"),
        ({"A": [1.0], "B": [1.0]}, {"tests": ()}, ParameterError, "tests is empty"),
        ({"A": [1.0], "B": [1.0]}, {"correction": "hommel"}, UnknownName, "correction 'hommel'"),
        ({"A": [1.0], "B": [1.0]}, {"level": 1.5}, ParameterError, "level must be in"),
        ({"A": [1.0], "B": [1.0]}, {"n_resamples": 0}, ParameterError, "n_resamples"),
    ],
)
def test_what_cannot_be_compared(values, options, error, message):
    with pytest.raises(error, match=message):
        compare_values(values, **options)


def test_an_unknown_name_has_no_marks():
    with pytest.raises(UnknownName, match="'X' is not known"):
        compare_values(three_systems(), "A").marks("X")


def test_a_comparison_prints_as_a_table():
    values = {"one": np.arange(20.0), "two": np.arange(20.0) + 1.0}
    text = str(compare_values(values, "one"))
    assert "baseline" in text.splitlines()[2]
    assert "+1.0000" in text.splitlines()[3]
    assert "marks: differs from the baseline" in text
