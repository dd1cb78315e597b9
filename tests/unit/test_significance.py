"""Paired tests, corrections and comparisons against scipy, statsmodels and textbook cases."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import ttost_paired

from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.paired_tests import (
    TESTS,
    _sums_by_random_signs,
    adjusted,
    all_pairs_p,
    bayesian_signed_rank,
    cohens_d,
    detectable_difference,
    detectable_effect,
    equivalence_p,
    equivalent_within,
    hodges_lehmann,
    interval_of,
    p_value,
    paired_differences,
    randomization,
    rank_biserial,
    signed_ranks,
    variance_components,
    wilcoxon,
)
from rankwood.evaluation.significance import compare_values, corrected_across

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
    assert found.marks("B") == "+*r"
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
    assert [pair.p for pair in found.pairs] == [pair.p for pair in alone.pairs]
    assert (found.family, found.n_compared) == ("all pairs", 6)  # it was picked by its mean
    assert (alone.family, alone.n_compared) == ("baseline", 3)
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
    assert found.to_dict()["pairs"][0]["marks"] == "+*r"
    assert found.to_dict()["tied_with_best"] == ["B"]


def test_same_seed_same_result():
    noise = np.random.default_rng(4).normal(0, 1, (3, 40))
    values = {"A": noise[0], "B": noise[1], "C": noise[2]}
    one, other = (compare_values(values, "A", margin=0.1) for _ in range(2))
    assert one.to_dict() == other.to_dict()
    assert compare_values(values, "A", margin=0.1, seed=1).to_dict() != one.to_dict()


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
        ({"A": [1.0], "B": [1.0]}, {"margin": 0.0}, ParameterError, "margin must be in"),
        ({"A": [1.0], "B": [1.0]}, {"margin": "x"}, ParameterError, "margin must be"),
        ({"A": [1.0], "B": [1.0]}, {"test": "z"}, UnknownName, "test 'z'"),
        (
            {"A": [1.0], "B": [1.0]},
            {"test": "t", "tests": ["wilcoxon"]},
            ParameterError,
            "tests leaves it out: wilcoxon. Add it there",
        ),
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


# --- intervals of tests --------------------------------------------------------------------------------------------------


def test_the_interval_of_t_is_scipys():
    one, other = two_systems()
    expected = stats.ttest_rel(other, one).confidence_interval(0.95)
    found = interval_of("t", paired_differences(other, one), 0.05, n_resamples=1, seed=0)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("n_queries", [9, 40, 75])
def test_the_interval_of_wilcoxon_is_of_walsh_averages(n_queries):
    # The averages of two differences at the ranks c + 1 from both ends, where c is the largest sum of positive ranks
    # that scipy's own distribution rejects.
    differences = np.random.default_rng(n_queries).normal(0.2, 1, n_queries)
    averages = np.sort(
        [(a + b) / 2 for a, b in itertools.combinations_with_replacement(differences, 2)]
    )
    low, high = interval_of("wilcoxon", differences, 0.05, n_resamples=1, seed=0)
    rank = int(np.searchsorted(averages, low))
    assert (averages[rank], averages[-1 - rank]) == (low, high)

    def p_of(rank_sum):
        ranks = np.arange(1.0, n_queries + 1)
        for place in range(n_queries, 0, -1):  # signs whose positive ranks have this sum
            taken = place <= rank_sum
            ranks[place - 1] *= 1 if taken else -1
            rank_sum -= place * taken
        return p_value("wilcoxon", ranks, n_resamples=1, seed=0)

    assert p_of(rank) < 0.05 <= p_of(rank + 1)


@pytest.mark.parametrize("n_queries", [1, 2, 9, 40])
def test_the_hodges_lehmann_median_is_of_walsh_averages(n_queries):
    changed = np.random.default_rng(n_queries).normal(0.2, 1, n_queries)
    averages = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(changed, 2)]
    with_zeros = np.concatenate([changed, np.zeros(3)])
    assert hodges_lehmann(with_zeros) == pytest.approx(np.median(averages), abs=1e-12)
    assert hodges_lehmann(np.zeros(3)) == 0.0
    assert math.isnan(hodges_lehmann(np.zeros(0)))


def test_only_wilcoxons_interval_is_of_a_median():
    one, other = two_systems()
    for test in TESTS:
        pair = compare_values({"one": one, "other": other}, "one", test=test)["other"]
        differences = paired_differences(other, one)
        median = hodges_lehmann(differences) if test == "wilcoxon" else None
        assert pair.median == pair.to_dict().get("median") == median
        assert pair.interval[0] < pair.center < pair.interval[1]


def test_the_interval_of_randomization_is_what_the_test_does_not_reject():
    interval = interval_of("randomization", DARWIN, 0.05, n_resamples=1, seed=0)
    for end, inwards in zip(interval, (1e-6, -1e-6), strict=True):
        assert randomization(DARWIN - end - inwards, 1, 0) >= 0.05
        assert randomization(DARWIN - end + inwards, 1, 0) < 0.05


@pytest.mark.parametrize("test", TESTS)
def test_an_interval_excludes_zero_where_p_is_below_the_level(test):
    generator = np.random.default_rng(7)
    outcomes = set()
    for _ in range(120):
        size = int(generator.integers(3, 130))
        drawn = generator.normal(0.3, 1, size) * (generator.random(size) < 0.7)
        differences = paired_differences(drawn, np.zeros(size))
        p = p_value(test, differences, n_resamples=400, seed=1)
        low, high = interval_of(test, differences, 0.05, n_resamples=400, seed=1)
        if not math.isnan(low):
            assert (p < 0.05) == (low > 0.0 or high < 0.0)
        outcomes.add((math.isnan(low), p < 0.05))
    assert {(False, True), (False, False)} <= outcomes
    assert (True, True) not in outcomes


def test_the_interval_is_that_of_the_test_that_decides():
    values = three_systems()
    differences = paired_differences(values["B"], values["A"])
    for test in TESTS:
        found = compare_values(values, "A", test=test, level=0.1, n_resamples=300)
        expected = interval_of(test, differences, 0.1, n_resamples=300, seed=0)
        assert found["B"].interval == expected
        assert found.test == test
        assert found.interval_title == "90 % interval"
        assert (
            f"decides: {'randomisation' if test == 'randomization' else test.title() if test != 't' else 't'}"
            in str(found)
        )


def test_what_seems_to_disagree_is_explained():
    generator = np.random.default_rng(0)
    base = generator.normal(0, 1, 60)
    shifted = base + 0.27 + generator.normal(0, 1, 60) - 0.0
    shifted += 0.27 - (shifted - base).mean()  # p of about 0.04, and 0.2 over five comparisons
    values = {"A": base, "B": shifted} | {
        f"N{n}": base + generator.normal(0, 1, 60) for n in range(4)
    }
    found = compare_values(values, "A", tests="t")
    assert found["B"].p["t"] < 0.05 < found["B"].adjusted["t"]
    assert found["B"].interval[0] > 0.0
    assert any("B" in note and "corrected over 5 comparisons" in note for note in found.notes)
    assert "not significant" in str(found)
    alone = compare_values({"A": base, "B": shifted}, "A", tests="t")
    assert alone.is_significant("B")
    assert alone.notes == ()


# --- all pairs, and the best ---------------------------------------------------------------------------------------------


def test_all_pairs_of_two_are_the_test_itself():
    one, other = two_systems()
    differences = paired_differences(one, other)
    for test in TESTS:
        p = all_pairs_p(test, [one, other], n_resamples=500, seed=0)
        assert p == {(0, 1): p_value(test, differences, n_resamples=500, seed=0)}


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_all_pairs_are_the_enumeration_of_signs(test):
    values = np.random.default_rng(1).normal([[0.0], [0.4], [1.2]], 1, (3, 9))
    pairs = list(itertools.combinations(range(3), 2))
    parts = np.array([values[a] - values[b] for a, b in pairs])
    if test == "wilcoxon":
        parts = np.array([signed_ranks(part) for part in parts])
    parts /= np.sqrt((parts**2).sum(axis=1, keepdims=True))
    signs = np.array(list(itertools.product((1, -1), repeat=9)))
    greatest = np.abs(signs @ parts.T).max(axis=1)
    found = all_pairs_p(test, list(values), n_resamples=20_000, seed=0)
    for pair, part in zip(pairs, parts, strict=True):
        expected = np.mean(greatest >= abs(part.sum()) - 1e-12)
        assert found[pair] == pytest.approx(expected, abs=0.015)  # four standard errors


def test_all_pairs_pass_over_missing_values_and_equal_systems():
    generator = np.random.default_rng(2)
    one = generator.normal(0, 1, 50)
    lacking = np.where(np.arange(50) < 25, one + 1.0, np.nan)
    nothing = np.where(np.arange(50) >= 49, one, np.nan)
    p = all_pairs_p("t", [one, lacking, one.copy(), nothing], n_resamples=500, seed=0)
    assert p[0, 1] == 1 / 501
    assert p[0, 2] == 1.0
    assert math.isnan(p[1, 3])


@pytest.mark.parametrize("test", ["t", "wilcoxon", "randomization"])
def test_a_correction_over_all_pairs_never_makes_p_smaller(test):
    # One query far from the others: of 2⁸ choices of signs only two are as extreme (p = .0078), and Student's p is .31.
    one, far = np.zeros(8), np.array([10, 0.1, 0.1, 0.1, 0.1, 0.1, 0.12, 0.13])
    values = {"one": one, "far": far, "copy": one}
    found = compare_values(values, tests=test, n_resamples=500)
    for pair in found.pairs:
        assert pair.adjusted[test] >= pair.p[test]
        assert found.against_best[pair.name] >= pair.p[test]
        is_clear = not pair.interval[0] <= 0.0 <= pair.interval[1]
        assert found.is_significant(pair.name) == is_clear == (test != "t")
        assert (pair.name in found.tied_with_best) != is_clear


def test_very_many_queries_are_compared_in_blocks():
    generator = np.random.default_rng(3)
    values = generator.normal(0, 1, (3, 5000))
    values[2] += 0.2
    p = all_pairs_p("t", list(values), n_resamples=500, seed=0)
    assert p[0, 2] == p[1, 2] == 1 / 501
    assert p[0, 1] > 0.05


def equal_systems(generator, n_systems, n_queries=106):
    """Values as NDCG has them: hard and easy queries, skewed noise, many zeros and ones, no system better than another."""
    difficulty = generator.beta(0.8, 0.8, n_queries)
    changes = generator.gamma(1.5, 0.08, (n_systems, n_queries))
    changes *= generator.random((n_systems, n_queries)) < 0.6
    return np.clip(difficulty + changes - 0.1, 0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_systems", "test"), [(2, "t"), (5, "t"), (23, "t"), (5, "wilcoxon"), (5, "randomization")]
)
def test_equal_systems_are_told_apart_as_rarely_as_the_level_says(n_systems, test):
    # A nominal 5 %. In 600 draws the standard error is 0.9 %.
    generator = np.random.default_rng(2)
    n_draws, against_baseline, against_best, unnamed = 600, 0, 0, 0
    for _ in range(n_draws):
        values = {str(n): each for n, each in enumerate(equal_systems(generator, n_systems))}
        found = compare_values(values, "0", tests=test, n_resamples=600)
        against_baseline += any(found.is_significant(pair.name) for pair in found.pairs)
        against_best += len(found.tied_with_best) < n_systems
        if n_systems == 5 and test == "t":  # the best as the baseline, which nobody named
            picked = compare_values(values, tests=test, n_resamples=600)
            unnamed += any(picked.is_significant(pair.name) for pair in picked.pairs)
    assert against_baseline / n_draws <= 0.06
    assert against_best / n_draws <= 0.06
    assert unnamed / n_draws <= 0.06
    assert against_best / n_draws >= 0.02  # nor does it say nothing at all


def test_a_clear_winner_is_told_from_all_others():
    generator = np.random.default_rng(5)
    values = equal_systems(generator, 6)
    named = {str(n): each for n, each in enumerate(values)} | {"best": values[0] + 0.08}
    found = compare_values(named, "0", n_resamples=500)
    assert found.tied_with_best == {"best"}
    assert max(found.against_best.values()) < 0.05


def test_a_correction_across_measures_counts_all_comparisons():
    by_measure = {m: compare_values(three_systems(60 + m), "A") for m in (0, 20, 40)}
    found = corrected_across(by_measure)
    raw = [pair.p["t"] for each in by_measure.values() for pair in each.pairs]
    expected = multipletests(raw, method="holm")[1]
    after = [pair.adjusted["t"] for each in found.values() for pair in each.pairs]
    assert after == pytest.approx(expected.tolist())
    assert found[0].n_compared == 6
    assert found[0].against_best["A"] == pytest.approx(3 * by_measure[0].against_best["A"])
    picked = {m: compare_values(three_systems(60 + m)) for m in (0, 20)}
    twice = corrected_across(picked)[0]["C"].adjusted["t"]
    assert twice == pytest.approx(min(2 * picked[0]["C"].adjusted["t"], 1.0))
    plain = {m: compare_values(three_systems(), "A", correction="none") for m in (0, 1)}
    assert corrected_across(plain) == plain


# --- small differences ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", [0.05, 0.3, 1.0])
def test_equivalence_is_statsmodels(margin):
    one, other = two_systems()
    expected = ttost_paired(other, one, -margin, margin)[0]
    assert equivalence_p(paired_differences(other, one), margin) == pytest.approx(
        expected, rel=1e-9
    )


def test_equivalent_within_is_where_the_test_turns():
    one, other = two_systems()
    differences = paired_differences(other, one)
    margin = equivalent_within(differences, 0.05)
    assert equivalence_p(differences, margin) == pytest.approx(0.05)
    assert equivalence_p(np.full(9, 0.1), 0.2) == 0.0
    assert equivalence_p(np.full(9, 0.1), 0.1) == 1.0
    assert math.isnan(equivalence_p(np.ones(1), 0.1))
    assert math.isnan(equivalent_within(np.ones(1), 0.1))


@pytest.mark.parametrize(
    ("n_queries", "level", "power"), [(106, 0.05, 0.8), (30, 0.002, 0.9), (3, 0.05, 0.8)]
)
def test_the_detectable_effect_is_statsmodels(n_queries, level, power):
    expected = TTestPower().solve_power(nobs=n_queries, alpha=level, power=power)
    assert detectable_effect(n_queries, level, power) == pytest.approx(expected, rel=1e-4)


def test_the_detectable_difference_is_found_as_often_as_the_power_says():
    generator = np.random.default_rng(6)
    noise = generator.normal(0, 0.2, 40)
    size = detectable_difference(noise, 0.05, 0.8)
    drawn = generator.normal(size, noise.std(ddof=1), (2000, 40))
    found = stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.04)
    assert detectable_difference(np.full(5, 0.1), 0.05, 0.8) == 0.0
    assert math.isnan(detectable_difference(np.ones(1), 0.05, 0.8))


def test_the_bayesian_test_is_its_definition():
    # The slow twin: a matrix of pairs and Dirichlet weights, as in the authors' program.
    differences = np.random.default_rng(8).normal(0.02, 0.05, 25)
    margin = 0.01
    z = np.append(differences, 0.0)
    sums = z[:, np.newaxis] + z
    lower, higher = sums < -2 * margin, sums > 2 * margin
    weights = np.random.default_rng(9).dirichlet(np.append(np.ones(25), 0.5), 4000)
    left = np.einsum("di,ij,dj->d", weights, lower.astype(float), weights)
    right = np.einsum("di,ij,dj->d", weights, higher.astype(float), weights)
    winners = np.stack([left, 1 - left - right, right], axis=1).argmax(axis=1)
    expected = np.bincount(winners, minlength=3) / 4000
    found = bayesian_signed_rank(differences, margin, n_resamples=4000, seed=0)
    assert found == pytest.approx(expected.tolist(), abs=0.04)  # four standard errors
    assert sum(found) == pytest.approx(1.0)


def test_the_bayesian_test_says_what_is_likely():
    generator = np.random.default_rng(10)
    noise = generator.normal(0, 0.05, 300)
    assert bayesian_signed_rank(noise + 0.1, 0.01, n_resamples=500, seed=0)[2] > 0.99
    assert bayesian_signed_rank(noise - 0.1, 0.01, n_resamples=500, seed=0)[0] > 0.99
    assert bayesian_signed_rank(noise / 50, 0.01, n_resamples=500, seed=0)[1] > 0.99
    assert bayesian_signed_rank(np.zeros(20), 0.01, n_resamples=500, seed=0) == (0.0, 1.0, 0.0)
    below, within, above = bayesian_signed_rank(noise, 0.0, n_resamples=500, seed=0)
    assert within == 0.0
    assert below + above == pytest.approx(1.0)
    assert all(map(math.isnan, bayesian_signed_rank(np.ones(1), 0.1, n_resamples=5, seed=0)))


def test_a_margin_adds_a_table():
    text = str(compare_values(three_systems(), "A", margin=0.02, n_resamples=300))
    assert "differences of less than 0.02 count as none" in text
    assert "p TOST" in text
    assert "P(within)" in text
    assert "TOST" not in str(compare_values(three_systems(), "A"))
    row = compare_values(three_systems(), "A", margin=0.02, n_resamples=300).to_rows()[0]
    assert row["bayes_below"] + row["bayes_within"] + row["bayes_above"] == pytest.approx(1.0)


# --- spread over seeds ---------------------------------------------------------------------------------------------------


def test_variance_components_are_those_of_the_analysis_of_variance():
    import pandas as pd
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    values = np.random.default_rng(11).normal(0, 1, (4, 12)) + np.arange(12) / 3
    rows = [
        {"seed": seed, "query": query, "value": values[seed, query]}
        for seed in range(4)
        for query in range(12)
    ]
    table = anova_lm(ols("value ~ C(query) + C(seed)", pd.DataFrame(rows)).fit())
    found = variance_components(values, np.zeros(12, np.int64))
    rest = table.loc["Residual", "mean_sq"]
    assert found.query_by_seed == pytest.approx(rest)
    assert found.query == pytest.approx((table.loc["C(query)", "mean_sq"] - rest) / 4)
    assert found.seed == pytest.approx(max((table.loc["C(seed)", "mean_sq"] - rest) / 12, 0.0))


def test_variance_components_are_those_that_were_put_in():
    generator = np.random.default_rng(12)
    folds = np.repeat(np.arange(40), 30)
    seeds = generator.normal(0, 0.3, (5, 40))[:, folds]  # a fit per fold and repetition
    values = generator.normal(0, 1.0, 1200) + seeds + generator.normal(0, 0.5, (5, 1200))
    values[3, folds == 0] = np.nan  # a repetition that failed on one fold
    found = variance_components(values, folds)
    assert found.query == pytest.approx(1.0, rel=0.1)
    assert found.seed == pytest.approx(0.09, rel=0.25)
    assert found.query_by_seed == pytest.approx(0.25, rel=0.1)
    assert sum(found.shares) == pytest.approx(1.0)
    once = variance_components(values[:1], folds)
    assert math.isnan(once.query)
    assert all(map(math.isnan, once.shares))
