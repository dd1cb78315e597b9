"""Files of other systems that are damaged, truncated or hostile: one of our errors each, in bounded time and memory."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import ModelError, RankwoodError
from rankwood.exports import exporting
from rankwood.exports.exporting import FORMATS, READERS, _read
from tests.reference import engines
from tests.reference.hostile import (
    TOKENS,
    lightgbm_json,
    mutated,
    saved_as_ubjson,
    saved_by_xgboost,
    valid_file,
)

pytestmark = pytest.mark.jit_only  # no kernels of its own


def fuzz(name, rng, n_cases):
    content = valid_file(name, rng)
    saved = json.dumps(saved_by_xgboost()).encode()
    others = {"xgboost": [saved, saved_as_ubjson()]}
    if name == "lightgbm":
        others[name] = [lightgbm_json(rng)]
    sources = [content, *others.get(name, ())]
    outcomes = {"read": 0, "refused": 0}
    for case in range(n_cases):
        source = sources[case % len(sources)]
        damaged = mutated(source, rng, TOKENS)
        try:
            forest = _read(damaged, name, None, None)
            forest.predict(
                np.zeros((1, forest.n_features), np.float32)
            ) if forest.n_features < 1000 else None
            outcomes["read"] += 1
        except RankwoodError:
            outcomes["refused"] += 1
    return outcomes


@pytest.mark.parametrize("name", sorted(READERS))
def test_damaged_files_give_one_of_our_errors(name, rng):
    outcomes = fuzz(name, rng, 150)
    assert outcomes["refused"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(READERS))
def test_many_damaged_files(name, rng):
    outcomes = fuzz(name, rng, 5_000)
    assert outcomes["refused"] > 2_000


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_file_cut_anywhere_is_refused_or_whole(name, rng, tmp_path):
    content = valid_file(name, rng)
    path = tmp_path / "cut"
    for end in np.linspace(0, len(content) * 0.95, 25).astype(int).tolist():
        path.write_bytes(content[:end])
        with pytest.raises(ModelError, match=f"cut is no usable {name} model: "):
            rw.import_model(path, name)


@pytest.mark.parametrize("name", sorted(READERS))
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 100,
        b"PK\x03\x04",
        b"tree\n",
        b"[]",
        b"{}",
        b"null",
        b"\xff\xff",
        b"## LambdaMART\n",
    ],
    ids=["empty", "zeros", "zip", "tree", "list", "object", "null", "not text", "head"],
)
def test_what_is_no_model_is_refused(name, content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ModelError, match="x is no usable"):
        rw.import_model(tmp_path / "x", name)


def edited(name, rng, *pairs):
    text = valid_file(name, rng).decode()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text.encode()


def lightgbm_text(**changes):
    fields = {
        "num_leaves": "3",
        "num_cat": "0",
        "split_feature": "0 1",
        "threshold": "0.5 0.25",
        "decision_type": "10 8",
        "left_child": "1 -1",
        "right_child": "-2 -3",
        "leaf_value": "1 2 3",
        **changes,
    }
    head = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=1\nobjective=lambdarank\nfeature_names=a b\n"
    return (
        f"{head}\nTree=0\n"
        + "\n".join(f"{k}={v}" for k, v in fields.items())
        + "\n\nend of trees\n"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"left_child": "0 -1"}, "child 0 is out of range, or has two parents"),
        ({"left_child": "1 0"}, "child 0 is out of range, or has two parents"),
        ({"right_child": "7 -3"}, "child 7 is out of range"),
        ({"right_child": "-9 -3"}, "child -9 is out of range"),
        ({"right_child": "-1 -3"}, "two parents"),
        ({"split_feature": "0 5"}, "test feature 5, but it has 2 features"),
        ({"split_feature": "0 99999999999"}, "features from 0 to"),
        ({"split_feature": "0 -1"}, "tests feature -1"),
        ({"split_feature": "0 0.5"}, "split_feature must be whole numbers"),
        ({"threshold": "nan 1"}, "threshold holds nan"),
        ({"threshold": "-inf 1"}, "threshold holds -inf"),
        ({"threshold": "1"}, "threshold must be 2 numbers, got 1"),
        ({"threshold": "-1e300 1"}, "only -inf lies left of it"),
        ({"leaf_value": "1 inf 3"}, "leaf_value holds inf"),
        ({"num_leaves": "-4"}, "num_leaves is -4"),
        ({"num_leaves": "9" * 30}, "num_leaves must be a whole number"),
        ({"num_leaves": "4000000000"}, "num_leaves is 4,000,000,000"),
        ({"num_cat": "1"}, "cat_boundaries must be 2 numbers, got 0"),
        ({"num_cat": "-1"}, "num_cat is -1"),
        ({"num_cat": "1", "cat_boundaries": "0 2", "cat_threshold": "1"}, "ascend from 0"),
        ({"num_cat": "1", "cat_boundaries": "0 1", "cat_threshold": "-1"}, "32 bits"),
        ({"decision_type": "1 8"}, "the set of categories .* of 0"),
        ({"decision_type": "4 8"}, "zero_as_missing"),
    ],
)
def test_lightgbm_trees_that_are_wrong(changes, reason, tmp_path):
    (tmp_path / "ok").write_text(lightgbm_text())
    assert rw.import_model(tmp_path / "ok", "lightgbm").n_leaves == 3
    (tmp_path / "bad").write_text(lightgbm_text(**changes))
    with pytest.raises(ModelError, match=reason):
        rw.import_model(tmp_path / "bad", "lightgbm")


def xgboost_split(**changes):
    leaf = [{"nodeid": 1, "leaf": 0.5}, {"nodeid": 2, "leaf": 1.5}]
    split = {
        "nodeid": 0,
        "split": "f0",
        "split_condition": 0.5,
        "yes": 1,
        "no": 2,
        "missing": 1,
        "children": leaf,
    }
    return [{**split, **changes}]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"children": []}, "must have two children"),
        ({"yes": 2}, "must have two children"),
        ({"yes": "1"}, "yes must be a whole number, got '1'"),
        ({"missing": 0}, "neither its 'yes' nor its 'no'"),
        ({"split": "f99999999999"}, "has no number"),
        ({"split": "f12345678"}, "has no number"),
        ({"split": 3}, "split must be a text, got 3"),
        ({"split_condition": "0.5"}, "split_condition must be a finite number"),
        ({"split_condition": True}, "split_condition must be a finite number, got True"),
        (
            {"children": [{"nodeid": 1}, {"nodeid": 2, "leaf": 0}]},
            "split_condition must be a finite",
        ),
        ({"children": [[], {}]}, "a node must be an object, got an array"),
    ],
)
def test_xgboost_dumps_that_are_wrong(changes, reason, tmp_path):
    (tmp_path / "ok").write_text(json.dumps(xgboost_split()))
    assert rw.import_model(tmp_path / "ok", "xgboost").n_leaves == 2
    (tmp_path / "bad").write_text(json.dumps(xgboost_split(**changes)))
    with pytest.raises(ModelError, match=reason):
        rw.import_model(tmp_path / "bad", "xgboost")


def test_the_binary_form_of_xgboost(tmp_path):
    (tmp_path / "x.ubj").write_bytes(saved_as_ubjson())
    (tmp_path / "x.json").write_text(json.dumps(saved_by_xgboost()))
    forest = rw.import_model(tmp_path / "x.ubj", "xgboost")
    assert forest == rw.import_model(tmp_path / "x.json", "xgboost")
    content = saved_as_ubjson()
    for end in range(1, len(content), 3):
        (tmp_path / "cut").write_bytes(content[:end])
        with pytest.raises(ModelError, match=r"cut is no usable xgboost model: "):
            rw.import_model(tmp_path / "cut", "xgboost")


HUGE = b"L" + (2**62).to_bytes(8, "big")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{i\x01a" + b"[" * 100_000, "nested too deep"),
        (b"{i\x01a" + b"{i\x01a" * 100_000, "nested too deep"),
        (b"{i\x01a[$l#" + HUGE, "a length is 4,611,686,018,427,387,904, more than the rest"),
        (b"{i\x01a[#" + HUGE, "more than the rest of the file"),
        (b"{#" + HUGE, "more than the rest of the file"),
        (b"{" + HUGE + b"a", "more than the rest of the file"),
        (b"{i\x01a[$D#i\x05" + b"\0" * 20, "it ends within a value"),
        (b"{i\xffa", "a length is -1"),
        (b"{d\0\0\0\0", "it is not valid JSON"),
        (b"{i\x01aSd\0\0\0\0}", "a length must be a whole number"),
        (b"{i\x01a[$Z#i\x7f}", "an array is typed as b'Z'"),
        (b"{i\x01a[$li\x01\0\0\0\0}", "only numbers with a count can be"),
        (b"{$i#i\x01i\x01a\0", "an object is typed"),
        (b"{i\x01a?}", r"marker b'\?' at byte 4"),
        (b"{i\x01\xffZ}", "a text is not UTF-8"),
        (b"{i\x01aZ}}", "it goes on after its end"),
        (b"{i\x01aC", "no UBJSON that can be read"),
        (b"binf" + b"\0" * 50, "binary form of old versions of XGBoost"),
        (b"{#i\x02i\x01aT" + b"i\x01bNF", "the list of trees must be an array"),
        (b"{i\x01a[NTF]N}", "the list of trees must be an array"),
    ],
)
def test_binary_forms_that_are_wrong(content, reason, tmp_path):
    (tmp_path / "x").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ModelError, match=reason):
        rw.import_model(tmp_path / "x", "xgboost")
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"attributes": {"best_iteration": "1"}}, "its best_iteration is 1, but it has 1 trees"),
        ({"attributes": {"best_iteration": "-1"}}, "its best_iteration is -1"),
        ({"attributes": {"best_iteration": "x"}}, "best_iteration must be a whole number, got 'x'"),
        ({"attributes": []}, "attributes must be an object"),
        ({"objective": {"name": "binary:hinge"}}, "objective 'binary:hinge' changes the scores"),
        (
            {
                "objective": {"name": "binary:logistic"},
                "learner_model_param": {"base_score": "[1E0]", "num_feature": "1"},
            },
            "its base_score is 1; for binary:logistic it is between 0 and 1",
        ),
    ],
)
def test_saved_xgboost_models_that_are_wrong(changes, reason, tmp_path):
    (tmp_path / "x").write_bytes(saved_as_ubjson(**changes))
    with pytest.raises(ModelError, match=reason):
        rw.import_model(tmp_path / "x", "xgboost")


def test_the_best_iteration_counts_parallel_trees(tmp_path):
    document = saved_by_xgboost()
    model = document["learner"]["gradient_booster"]["model"]
    model |= {"trees": model["trees"] * 6, "gbtree_model_param": {"num_parallel_tree": "2"}}
    document["learner"]["attributes"] = {"best_iteration": "1"}
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    assert rw.import_model(path, "xgboost").n_trees == 4
    assert rw.import_model(path, "xgboost", all_trees=True).n_trees == 6
    for wrong in ("0", "7"):
        model["gbtree_model_param"]["num_parallel_tree"] = wrong
        path.write_text(json.dumps(document))
        with pytest.raises(ModelError, match=f"6 trees, {wrong} per iteration"):
            rw.import_model(path, "xgboost")


def lightgbm_dump(**changes):
    leaves = [{"leaf_index": number, "leaf_value": number + 0.5} for number in range(2)]
    split = {
        "split_feature": 1,
        "threshold": 0.25,
        "decision_type": "<=",
        "default_left": True,
        "missing_type": "NaN",
        "left_child": leaves[0],
        "right_child": leaves[1],
        **changes,
    }
    return {
        "version": "v4",
        "max_feature_idx": 1,
        "objective": "lambdarank",
        "feature_names": ["a", "b"],
        "tree_info": [{"tree_structure": split}],
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"left_child": None}, "tree 0: a node must be an object, got None"),
        ({"split_feature": 2}, "test feature 2, but it has 2 features"),
        ({"split_feature": "0"}, "split_feature must be a whole number, got '0'"),
        ({"threshold": "0"}, "threshold must be a finite number"),
        ({"decision_type": "=="}, "threshold must be a text"),
        ({"decision_type": "==", "threshold": "0||x"}, "a category must be a whole number"),
        ({"decision_type": "==", "threshold": "300"}, "tests category 300"),
        ({"decision_type": ">"}, "neither '<=' nor '=='"),
        ({"missing_type": "Maybe"}, "a missing_type is 'Maybe'; it must be None, Zero, NaN"),
        ({"missing_type": None}, "missing_type must be a text"),
        ({"missing_type": "Zero", "default_left": False}, "zero_as_missing"),
        ({"right_child": {"leaf_value": 1, "leaf_coeff": []}}, "leaves are linear models"),
        ({"right_child": {"leaf_value": "1"}}, "leaf_value must be a finite number"),
    ],
)
def test_dumps_of_lightgbm_that_are_wrong(changes, reason):
    forest = rw.import_model(lightgbm_dump())
    assert forest.predict([[0, 0.25], [0, 0.3], [0, np.nan]]).tolist() == [0.5, 1.5, 0.5]
    with pytest.raises(ModelError, match=reason):
        rw.import_model(lightgbm_dump(**changes))
    deep = {"leaf_value": 1.0}
    for _ in range(100_000):
        deep = {"left_child": deep}
    with pytest.raises(ModelError, match="is not what dump_model returns"):
        rw.import_model(lightgbm_dump(left_child=deep))


def test_a_condition_beyond_float32_has_everything_finite_below_it(tmp_path):
    (tmp_path / "x").write_text(json.dumps(xgboost_split(split_condition=1e300)))
    assert rw.import_model(tmp_path / "x", "xgboost").threshold[0] == np.finfo(np.float32).max


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"left_children": [0, -1, -1]}, "out of range, or a node with two parents"),
        ({"left_children": [9, -1, -1]}, "out of range"),
        ({"left_children": [1, -1]}, "not of one length"),
        ({"left_children": []}, "empty"),
        ({"split_indices": [7, 0, 0]}, "num_feature is 1, which its trees do not fit"),
        ({"split_indices": [10**12, 0, 0]}, "features from 0 to"),
        ({"split_type": [1, 0, 0]}, "splits by categories"),
        ({"split_conditions": [None, 0, 0]}, "split_conditions must be a finite number, got None"),
        ({"left_children": "abc"}, "left_children must be an array"),
    ],
)
def test_saved_xgboost_trees_that_are_wrong(change, reason, tmp_path):
    document = saved_by_xgboost()
    (tmp_path / "ok").write_text(json.dumps(document))
    forest = rw.import_model(tmp_path / "ok", "xgboost")
    assert forest.predict([[0.4], [0.5], [np.nan]]).tolist() == [
        -0.5,
        1.5,
        -0.5,
    ]  # base 0.5, 0.5 < 0.5 is no
    document["learner"]["gradient_booster"]["model"]["trees"][0].update(change)
    (tmp_path / "bad").write_text(json.dumps(document))
    with pytest.raises(ModelError, match=reason):
        rw.import_model(tmp_path / "bad", "xgboost")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<tree weight='1'></tree>", "a <tree> is empty"),
        ("<tree weight='1'><split></split></tree>", "a <split> is not complete"),
        ("<tree><split><output>1</output></split></tree>", "a <tree> has no weight"),
        (
            "<tree weight='x'><split><output>1</output></split></tree>",
            "weight must be a finite number",
        ),
        (
            "<tree weight='1'><split><output>NaN</output></split></tree>",
            "<output> must be a finite number, got 'NaN'",
        ),
        ("<tree weight='1'><split><feature>0</feature></split></tree>", "RankLib counts from 1"),
        ("<tree weight='1'><split><feature>1</feature></split></tree>", "is not complete"),
        (
            "<tree weight='1'><split><feature>99999999</feature><threshold>1</threshold></split></tree>",
            "features from",
        ),
        (
            "<tree weight='1'><split><threshold>1</threshold></split></tree>",
            "where RankLib does not look",
        ),
        (
            "<tree weight='1'><split><output>1</output></split><split><output>1</output></split></tree>",
            "more than one",
        ),
        ("<split><output>1</output></split>", "<split> may not stand in <ensemble>"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]>", "damaged near"),
        ("<tree weight='1'><split><output>1</output></split>", "</ensemble> closes nothing"),
        ("", "holds no <tree>"),
    ],
)
def test_ranklib_files_that_are_wrong(body, reason, tmp_path):
    (tmp_path / "x").write_text(f"## LambdaMART\n<ensemble>\n{body}\n</ensemble>\n")
    with pytest.raises(ModelError, match=reason):
        rw.import_model(tmp_path / "x", "ranklib")


def test_ranklib_as_ranklib_itself_writes_it(tmp_path):
    """Tabs, spaces around numbers, several lines of comments, weights that are learning rates."""
    text = (
        '## LambdaMART\n## No. of trees = 1\n## Learning rate = 0.1\n\n<ensemble>\n\t<tree id="1" weight="0.1">\n'
        "\t\t<split>\n\t\t\t<feature> 3 </feature>\n\t\t\t<threshold> 0.5 </threshold>\n"
        '\t\t\t<split pos="left">\n\t\t\t\t<output> -2.0 </output>\n\t\t\t</split>\n'
        '\t\t\t<split pos="right">\n\t\t\t\t<output> 2.0 </output>\n\t\t\t</split>\n\t\t</split>\n\t</tree>\n</ensemble>\n'
    )
    (tmp_path / "x").write_text(text)
    forest = rw.import_model(tmp_path / "x", "ranklib")
    tenth = float(np.float32(0.1))
    documents = np.array([[0, 0, 0.5], [0, 0, 0.6], [0, 0, np.nan]], np.float32)  # NaN is 0: left
    assert forest.predict(documents).tolist() == [-2 * tenth, 2 * tenth, -2 * tenth]


def test_ranklib_forests_of_boosted_bags(tmp_path):
    """Bags of several weighted trees: each bag is a float32 sum, and bags are averaged."""
    bag = "".join(
        f"<tree id='{n}' weight='0.1'><split><feature>1</feature><threshold>{n}</threshold><split><output>{n}.5</output>"
        f"</split><split><output>-{n}.25</output></split></split></tree>"
        for n in (1, 2)
    )
    content = (
        f"## Random Forests\n<ensemble>{bag}</ensemble>\n<ensemble>{bag}</ensemble>\n".encode()
    )
    (tmp_path / "x").write_bytes(content)
    documents = np.array([[0.0], [1.0], [1.5], [2.0], [2.5], [np.nan]], np.float32)
    engine = engines.RankLib(content)
    expected = [engine.score(document) for document in documents]
    ours = FORMATS["ranklib"]
    assert ours.read(content).score(documents, ours.rules).tolist() == expected
    forest = rw.import_model(tmp_path / "x", "ranklib")
    assert forest.predict(documents) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["xgboost", "solr", "json"])
@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"children":'])
def test_deep_nesting_is_refused(name, opened, tmp_path):
    (tmp_path / "x").write_text(opened * 200_000)
    with pytest.raises(ModelError, match=r"nested too deep|not valid JSON"):
        rw.import_model(tmp_path / "x", name)


def test_deep_ranklib_trees_are_read_without_recursion(tmp_path):
    n = 3_000
    opened = (
        "<split><feature>1</feature><threshold>1</threshold><split><output>1</output></split>" * n
    )
    text = f"<tree weight='1'>{opened}<split><output>2</output></split>{'</split>' * n}</tree>"
    (tmp_path / "x").write_text(f"## MART\n<ensemble>{text}</ensemble>")
    assert rw.import_model(tmp_path / "x", "ranklib").max_depth == n


def test_hostile_numbers_take_no_memory_and_no_time(tmp_path):
    cases = {
        "lightgbm": lightgbm_text().replace("max_feature_idx=1", "max_feature_idx=999999999"),
        "json": '{"format": "rankwood-forest", "version": 1, "n_features": 999999999999, "trees": []}',
        "xgboost": "[" + "9" * 1_000_000 + "]",
        "ranklib": "## MART\n" + "<" * 500_000,
        "solr": '{"class": ' * 1000,
    }
    tracemalloc.start()
    started = time.process_time()
    for name, text in cases.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(ModelError, match="is no usable"):
            rw.import_model(tmp_path / name, name)
    assert time.process_time() - started < 20
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        rw.import_model(tmp_path / "none", "lightgbm")
    with pytest.raises(ModelError, match="cannot be read: Is a directory"):
        rw.import_model(tmp_path, "lightgbm")
    (tmp_path / "x").write_text("")
    with pytest.raises(rw.errors.UnknownName, match="format 'lightgmb' is not known"):
        rw.import_model(tmp_path / "x", "lightgmb")


# The worst case of every pattern that a reader of foreign files matches: what makes it fail at the very end, after as
# many divisions as there are. Doubling a text may take twice the time, not four times.
WORST = {
    ("reading", "_NUMBER", "fullmatch"): lambda n: "1" * n + "x",
    ("reading", "_WHOLE", "fullmatch"): lambda n: "1" * n + "x",
    ("ranklib", "_TAG", "match"): lambda n: "<" + "a" * n + " " * n,
    ("ranklib", "_WEIGHT", "search"): lambda n: "weight" + " " * n + " weight=" * (n // 8),
    ("xgboost", "_NUMBERED", "fullmatch"): lambda n: "f" + "1" * n + "x",
    ("c_source", "_TABLE", "search"): lambda n: "static const int score_root[1] = {" * (n // 34),
    ("c_source", "_SCALAR", "search"): lambda n: "static const double score_base = \n" * (n // 36),
    ("c_source", "_PLAIN", "match"): lambda n: "a" * n + "\n",
    ("c_source", "_N_FEATURES", "search"): lambda n: "#define a_N_FEATURES " * (n // 21),
    ("c_source", "_IDENTIFIER", "fullmatch"): lambda n: "a" * n + " ",
}


def patterns_of_readers():
    """Every pattern that a module of the exports defines."""
    for path in sorted(Path(exporting.__file__).parent.glob("*.py")):
        module = importlib.import_module(f"rankwood.exports.{path.stem}")
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield path.stem, name


def test_every_pattern_of_a_reader_has_its_worst_case_here():
    assert set(patterns_of_readers()) == {key[:2] for key in WORST}


@pytest.mark.parametrize("key", WORST, ids=lambda key: f"{key[0]}{key[1]}")
def test_no_pattern_is_tried_in_every_division(key):
    """A million characters would take hours where time grows with the square; a child is ended after a minute."""
    module, name, how = key
    text = WORST[key](1_000_000)
    code = (
        f"import sys; from rankwood.exports.{module} import {name} as pattern\n"
        f"pattern.{how}(sys.stdin.read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, text=True, timeout=60, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("n_digits", [32_000, 1_000_000])
def test_numbers_of_thousands_of_digits_are_refused_at_once(n_digits, tmp_path):
    path = tmp_path / "model.txt"
    path.write_text(
        '## LambdaMART\n\n<ensemble><tree id="1" weight="1"><split><output>'
        + "1" * n_digits
        + "x</output></split></tree></ensemble>"
    )
    with pytest.raises(ModelError, match="must be a finite number"):
        rw.import_model(path, "ranklib")
