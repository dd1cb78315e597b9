"""Measures as text: what parses, how it prints, and what the errors say."""

import re

import numpy as np
import pytest

from rankwood.errors import InputError, ParameterError, UnknownName
from rankwood.measures.measure import FORMS, MEASURES, PRESETS, Measure, parse_measure


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ndcg@10", "ndcg@10"),
        (" NDCG @ 10 ", "ndcg@10"),
        ("ndcg@10[gain=exponential,empty=0]", "ndcg@10"),
        ("ndcg@10[empty=1, gain = linear]", "ndcg@10[gain=linear,empty=1]"),
        ("ndcg@010", "ndcg@10"),
        ("ndcg@5[discount=letor]", "ndcg@5[discount=letor]"),
        ("ndcg[gain=0/1/3/7/15]", "ndcg[gain=0/1/3/7/15]"),
        ("ndcg[gain=0/0.5/2]", "ndcg[gain=0/0.5/2]"),
        ("PAUC@[0, 5]", "pauc@[0,5]"),
        ("pauc@[0.5,5][relevant=2]", "pauc@[0.5,5][relevant=2]"),
        ("err@10[max=4]", "err@10[max=4]"),
        ("rbp[p=0.80]", "rbp"),
        ("rbp[p=.95]", "rbp[p=0.95]"),
        ("p@5[relevant=2.0]", "p@5[relevant=2]"),
        ("map@10[norm=cutoff,empty=skip]", "map@10[norm=cutoff,empty=skip]"),
    ],
)
def test_parsing_and_printing(text, canonical):
    measure = parse_measure(text)
    assert str(measure) == canonical
    assert parse_measure(canonical) == measure
    assert hash(parse_measure(canonical)) == hash(measure)


def test_every_name_has_an_example_that_parses():
    assert {parse_measure(text).name for text in MEASURES} == set(FORMS)


def test_a_measure_can_be_built_without_text():
    assert Measure("ndcg", 10, {"gain": "linear"}) == parse_measure("ndcg@10[gain=linear]")
    assert Measure("ndcg", None, {"gain": (0, 1, 3)}) == parse_measure("ndcg[gain=0/1/3]")
    assert Measure("pauc", (0, 5)) == parse_measure("pauc@[0,5]")
    assert parse_measure(Measure("map")) == Measure("map")


def test_conventions_name_every_option_in_force():
    conventions = parse_measure("ndcg@10[gain=linear]").conventions
    assert conventions == {
        "gain": "linear",
        "discount": "log2",
        "empty": "0",
        "ties": "data",
        "short": "keep",
    }
    assert parse_measure("err").conventions["max"] == "the data's largest label"
    assert parse_measure("auc").conventions == {"relevant": "1", "pooled": "over documents"}
    assert parse_measure("auc[over=queries]").conventions == {"relevant": "1", "over": "queries"}


def test_pooled_values_and_means_over_queries_have_names_of_their_own():
    for text in ("auc", "rmse", "pauc@[0,5]", "auc[relevant=2]"):
        pooled = parse_measure(text)
        assert pooled.is_pooled
        assert not pooled.over_queries.is_pooled
        assert pooled.over_queries != pooled
        assert parse_measure(str(pooled.over_queries)) == pooled.over_queries
        assert pooled.over_queries.over_queries == pooled.over_queries
    assert parse_measure("rmse[pooled]") == parse_measure("rmse[over=documents]") == Measure("rmse")
    assert str(parse_measure("AUC[relevant=2, over=queries]")) == "auc[relevant=2,over=queries]"
    assert parse_measure("ndcg@10").over_queries == parse_measure("ndcg@10")
    assert [parse_measure(t).needs_queries for t in ("rmse", "auc", "rmse[over=queries]")] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ncdg@10", r"measure 'ncdg' is not known\. Did you mean 'ndcg'\?"),
        ("", r"'' is not a measure"),
        ("@10", r"'@10' is not a measure"),
        ("ndcg@10[gain=linear", r"brackets must be closed"),
        ("ndcg@10]", r"brackets must be closed"),
        ("ndcg@10[pooled]", r"ndcg is a mean over queries; only auc, pauc, rmse can be pooled"),
        ("rmse[pooled,over=queries]", r"the option over is given twice"),
        ("rmse[over=folds]", r"over of rmse 'folds' is not known"),
        ("ndcg@10[]", r"'ndcg@10\[\]': '' is not an option; write option=value"),
        ("ndcg@10[gain]", r"'gain' is not an option"),
        ("ndcg@10[gain=]", r"'gain=' is not an option"),
        ("ndcg@10[gian=linear]", r"option of ndcg 'gian' is not known\. Did you mean 'gain'\?"),
        ("ndcg@10[gain=liner]", r"gain of ndcg 'liner' is not known\. Did you mean 'linear'\?"),
        ("ndcg@10[gain=1/0]", r"gain of ndcg must not fall as labels rise, got '1/0'"),
        ("ndcg@10[gain=0/x]", r"gain of ndcg of label 1 must be a number of at least 0, got 'x'"),
        ("ndcg@10[gain=0/-1]", r"of label 1 must be a number of at least 0, got '-1'"),
        ("ndcg@10[empty=0.3]", r"empty of ndcg must be 0, 0.5, 1 or skip, got '0.3'"),
        ("ndcg@10[empty=1,empty=0]", r"the option empty is given twice"),
        ("ndcg@10[gain=linear][empty=1]", r"is not a measure"),
        ("ndcg@0", r"'ndcg@0': the cut-off of ndcg must be a whole number between 1 and .*'0'"),
        ("ndcg@-1", r"whole number between 1 and .*got '-1'"),
        ("ndcg@1.5", r"whole number between 1 and .*got '1.5'"),
        ("ndcg@ten", r"whole number between 1 and .*got 'ten'"),
        ("ndcg@", r"whole number between 1 and .*got ''"),
        ("ndcg@99999999999999999999", r"whole number between 1 and 2147483647"),
        ("ndcg@999999999999999999999999999999", r"whole number between 1 and 2147483647"),
        ("ndcg@[0,5]", r"whole number between 1 and .*got '0,5'"),
        ("ndcg@1@2", r"is not a measure"),
        ("p", r"p needs a cut-off, as in p@10"),
        ("auc@5", r"auc takes no cut-off, got 'auc@5'"),
        ("pauc", r"pauc needs two false-positive rates in percent"),
        ("pauc@5", r"pauc needs two false-positive rates in percent.*got '5'"),
        ("pauc@[5,5]", r"0 ≤ a < b ≤ 100.*got '5,5'"),
        ("pauc@[0,101]", r"got '0,101'"),
        ("pauc@[0,5,9]", r"got '0,5,9'"),
        ("pauc@[0,nan]", r"got '0,nan'"),
        ("pauc@[0,5", r"brackets must be closed"),
        ("map[ties=average]", r"ties of map 'average' is not known"),
        ("map[relevant=0]", r"relevant of map must be a number above 0, got '0'"),
        ("map[relevant=nan]", r"relevant of map must be a number above 0, got 'nan'"),
        ("rbp[p=1]", r"p of rbp must be between 0 and 1, both excluded, got '1'"),
        ("err[max=inf]", r"max of err must be a number above 0, got 'inf'"),
    ],
)
def test_bad_text_gets_one_clear_error(text, message):
    with pytest.raises(ParameterError, match=message):
        parse_measure(text)


@pytest.mark.parametrize("value", [None, 10, ["ndcg"], b"ndcg"])
def test_what_is_not_text_is_refused(value):
    with pytest.raises(ParameterError, match="a measure is text such as 'ndcg@10', got"):
        parse_measure(value)


@pytest.mark.parametrize("cutoff", [True, 0, -3, 1.0, "10"])
def test_cutoffs_are_whole_numbers(cutoff):
    with pytest.raises(ParameterError, match="the cut-off of ndcg must be a whole number"):
        Measure("ndcg", cutoff)


def test_presets_fill_in_what_the_text_leaves_open():
    assert str(parse_measure("ndcg@10", preset="lightgbm")) == "ndcg@10[empty=1]"
    assert str(parse_measure("ndcg@10[empty=0]", preset="lightgbm")) == "ndcg@10"
    assert str(parse_measure("map@5", "xgboost")) == "map@5[norm=cutoff,empty=1]"
    assert str(parse_measure("map", "mslr")) == "map[relevant=2]"
    assert str(parse_measure("ndcg@5", "letor4")) == "ndcg@5[discount=letor,short=zero]"
    assert str(parse_measure("err", "yahoo")) == "err[max=4]"
    assert str(parse_measure("ndcg", "sklearn")) == "ndcg[gain=linear,ties=average]"
    assert str(parse_measure("map", "trec_eval")) == "map[ties=docid]"


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_works_with_every_measure(preset):
    for text in MEASURES:
        assert isinstance(parse_measure(text, preset), Measure)


def test_an_unknown_preset_is_named():
    with pytest.raises(
        UnknownName, match=r"preset 'lightgmb' is not known\. Did you mean 'lightgbm'"
    ):
        parse_measure("ndcg", preset="lightgmb")


def test_errors_are_input_errors():
    with pytest.raises(InputError, match="not known"):
        parse_measure("nothing")


def test_a_cut_off_may_come_from_numpy():
    assert Measure("ndcg", np.int64(10)) == Measure("ndcg", 10)
    assert str(Measure("ndcg", np.int64(10))) == "ndcg@10"


def test_the_docstring_names_every_measure():
    (names,) = re.findall(r"One of ([\w, ]+)\.", Measure.__doc__)
    assert sorted(names.split(", ")) == sorted(FORMS)
