"""Errors of places: cases worked by hand, and kernels against their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwood as rw
from rankwood.losses.placement import REGIONS, height_errors, median_errors
from tests.reference import broof as slow

NAN = float("nan")


def ranking(labels, query_ids=None):
    ids = np.zeros(len(labels), int) if query_ids is None else query_ids
    return rw.RankingData(np.zeros((len(labels), 1)), labels, ids)


# Two relevant documents among eight; predictions 0.8, 0.7, … 0.1 from the first place to the last.
LABELS = [0, 0, 0, 4, 0, 4, 0, 0]
PREDICTIONS = np.array([0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_medians_of_regions_by_hand():
    # Grade 4's region is places 1 and 2: median (0.8 + 0.7) / 2 = 0.75. Grade 0's is places 3 to 8: (0.4 + 0.3) / 2.
    # Places 1 and 2 hold grade 0: |0.35 - 0.8|, |0.35 - 0.7|. Places 4 and 6 hold grade 4: |0.75 - 0.5|, |0.75 - 0.3|.
    expected = [0.45, 0.35, 0, 0.25, 0, 0.45, 0, 0]
    assert median_errors(PREDICTIONS, ranking(LABELS)) == pytest.approx(expected)


def test_medians_of_grades_by_hand():
    # Grade 4 is predicted 0.5 and 0.3: median 0.4. Grade 0: 0.8 0.7 0.6 0.4 0.2 0.1, median (0.6 + 0.4) / 2 = 0.5.
    expected = [0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.3, 0.4]
    assert median_errors(PREDICTIONS, ranking(LABELS), "grade") == pytest.approx(expected)


def test_medians_of_positions_by_hand():
    # Places from 1: grade 4 belongs on 1 and 2, median 1.5; grade 0 on 3 to 8, median 5.5. Own places are 1 to 8.
    expected = [4.5, 3.5, 2.5, 2.5, 0.5, 4.5, 1.5, 2.5]
    assert median_errors(PREDICTIONS, ranking(LABELS), "position").tolist() == expected


def test_heights_by_hand():
    # The relevant at place 4 has three irrelevant above it, that at place 6 four. The irrelevant at places 1 to 3 have
    # two relevant below them, that at place 5 has one.
    expected = [2, 2, 2, 3, 1, 4, 0, 0]
    assert height_errors(PREDICTIONS, ranking(LABELS)).tolist() == expected


def test_several_grades_by_hand():
    labels, predictions = [1, 2, 0, 1], np.array([0.9, 0.6, 0.5, 0.1])
    # Ideal: 2 1 1 0. Grade 2's region is place 1 (0.9), grade 1's places 2 and 3 (0.55), grade 0's place 4 (0.1).
    expected = [0.35, 0.3, 0.4, 0.45]
    assert median_errors(predictions, ranking(labels)) == pytest.approx(expected)
    # First: one higher below (the 2). Second: one lower above. Third: one higher below. Fourth: one lower above.
    assert height_errors(predictions, ranking(labels)).tolist() == [1, 1, 1, 1]


def test_ties_keep_the_order_of_the_data():
    tied = np.array([0.5, 0.5])
    assert height_errors(tied, ranking([0, 1])).tolist() == [1, 1]
    assert height_errors(tied, ranking([1, 0])).tolist() == [0, 0]
    assert median_errors(tied, ranking([0, 1])).tolist() == [0, 0]  # wrong places, no distance
    # 0.9 stands first. Of the tied, the 1 that comes first in the data stands on place 2: both regions hold 0.9 | 0.5.
    three = np.array([0.9, 0.5, 0.5])
    assert median_errors(three, ranking([1, 1, 0])).tolist() == [0, 0, 0]
    # The 0 comes first: the 1 stands on place 3, outside its region of places 1 and 2, whose median is 0.7.
    assert median_errors(three, ranking([1, 0, 1])) == pytest.approx([0, 0, 0.2])


def test_a_query_with_one_grade_has_nothing_wrong():
    predictions = np.array([0.3, 0.9, 0.6])
    assert height_errors(predictions, ranking([2, 2, 2])).tolist() == [0, 0, 0]
    assert median_errors(predictions, ranking([2, 2, 2])).tolist() == [0, 0, 0]
    expected = [0.3, 0.3, 0]  # the median is 0.6, and nothing is forgiven
    assert median_errors(predictions, ranking([2, 2, 2]), "grade") == pytest.approx(expected)


def test_rows_without_a_prediction_are_no_part_of_the_lists():
    # Without the first two rows the lists of LABELS are 0 4 0 4 0 0: n₄ = 2, n₀ = 4.
    predictions = np.where(np.arange(8) < 2, NAN, PREDICTIONS)
    heights = height_errors(predictions, ranking(LABELS))
    assert heights[2:].tolist() == [2, 1, 1, 2, 0, 0]
    assert np.isnan(heights[:2]).all()
    medians = median_errors(predictions, ranking(LABELS))
    # Grade 4's region: 0.6 and 0.5, median 0.55. Grade 0's: 0.4 0.3 0.2 0.1, median 0.25.
    assert medians[2:] == pytest.approx([0.35, 0, 0, 0.25, 0, 0])
    assert np.isnan(median_errors(np.full(8, NAN), ranking(LABELS))).all()


@st.composite
def predicted(draw):
    n_rows = draw(st.integers(1, 40))
    labels = draw(st.lists(st.sampled_from([0, 1, 2, 3.5, 4]), min_size=n_rows, max_size=n_rows))
    queries = draw(st.lists(st.integers(0, 4), min_size=n_rows, max_size=n_rows))
    values = st.one_of(st.none(), st.sampled_from([0.0, 0.5, -1.0]), st.floats(-9, 9, width=16))
    guesses = draw(st.lists(values, min_size=n_rows, max_size=n_rows))
    return labels, queries, guesses


def as_list(errors):
    return [None if np.isnan(error) else error for error in errors]


@settings(max_examples=25)
@given(predicted())
def test_kernels_equal_their_slow_twins(case):
    labels, queries, guesses = case
    data = ranking(labels, queries)
    predictions = np.array([NAN if guess is None else guess for guess in guesses])
    assert as_list(height_errors(predictions, data)) == slow.height_errors(*case)
    for region in REGIONS:
        found = as_list(median_errors(predictions, data, region))
        assert found == pytest.approx(slow.median_errors(*case, region), abs=1e-12)


def test_a_long_list_and_many_short_ones(rng):
    sizes = [300, *[3] * 60]
    queries = np.repeat(np.arange(len(sizes)), sizes)
    labels = rng.integers(0, 5, queries.size)
    predictions = rng.normal(size=queries.size).round(1)
    data = ranking(labels, queries)
    lists = (labels.tolist(), queries.tolist(), predictions.tolist())
    assert height_errors(predictions, data, 1).tolist() == slow.height_errors(*lists)
    assert np.array_equal(height_errors(predictions, data, 2), height_errors(predictions, data, 1))
    expected = slow.median_errors(*lists)
    assert median_errors(predictions, data, n_threads=2) == pytest.approx(expected)
