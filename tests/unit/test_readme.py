"""README says what was measured: its figures are those of the last results, and it stays a page of 150 lines."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import rankwood

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def result(name: str) -> dict[str, object]:
    """What a benchmark found when it was run last."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["result"]


def row(start: str) -> str:
    """The figures of a row of the table."""
    (line,) = [line for line in README.splitlines() if line.startswith(f"| {start}")]
    return line.split("|")[-2]


@pytest.mark.parametrize(
    ("start", "benchmark", "figures"),
    [
        ("grow a random forest", "bench_forest", {"{:.2f}× the time": "ratio_lightgbm"}),
        ("the same |", "bench_forest", {"1/{:.0f} of the time": "1/ratio_sklearn"}),
        (
            "boosted forests",
            "bench_broof",
            {"1/{:.0f} of the time": "1/ratio_sklearn", "{:.2f}× one forest": "ratio_forest"},
        ),
        (
            "completely random trees",
            "bench_deep_forest",
            {
                "1/{:.1f} of the time;": "1/ratio_blind_out_of_bag",
                "; 1/{:.1f}": "1/ratio_sklearn_blind",
            },
        ),
        ("grow boosted trees", "bench_boosting", {"{:.2f}× the time": "ratio_lightgbm"}),
        (
            "LambdaMART",
            "bench_lambdamart",
            {"{:.2f}× the time": "ratio_lightgbm", "alone {:.2f}×": "ratio_gradients_lightgbm"},
        ),
        ("score 720,191", "bench_scoring", {"{:.2f}× the time": "ratio_lightgbm"}),
        (
            "explain 4,000",
            "bench_explain",
            {"{:.2f}× the time": "ratio_31_leaves", "single document: {:.1f}×": "ratio_1"},
        ),
        ("bin 720,191", "bench_binning", {"{:.2f}× the time": "ratio_lightgbm"}),
        (
            "read 238 MB",
            "bench_parse",
            {"{:.0f}× faster": "ratio_sklearn", "memory {:.2f}×": "peak_over_result"},
        ),
        (
            "NDCG@10 of 720,000",
            "bench_measures",
            {"{:.0f}× faster": "ratio ndcg@10, rankwood, 2 threads"},
        ),
    ],
)
def test_a_row_has_the_figures_of_its_benchmark(start, benchmark, figures):
    found = result(benchmark)
    for text, name in figures.items():
        value = found[name.removeprefix("1/")]
        expected = text.format(1 / value if name.startswith("1/") else value)
        assert expected in row(start), f"{benchmark}: {expected}"


def test_what_growing_a_forest_takes_of_memory():
    ratio = result("bench_scaling")["ratio_memory"]
    assert f"Peak memory of growing a forest is {ratio:.2f} times" in README


def test_how_long_the_first_run_takes():
    cases = result("cold_start")["cases"]
    commands = ("score", "evaluate", "explain", "serve")
    fits = [case["first_call"] for name, case in cases.items() if name not in commands]
    assert f"for {min(fits):.0f} to {max(fits):.0f} seconds on two cores, once" in README


def test_it_is_a_page_with_a_picture_before_anything_to_type():
    assert len(README.splitlines()) <= 150
    assert README.index("![") < README.index("```")


def test_the_version_to_cite_is_this_one():
    assert f"version {rankwood.__version__}." in README
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## (Unreleased|{re.escape(rankwood.__version__)} \()", changelog, re.M)


def test_no_example_measures_on_what_it_was_trained_on():
    (example,) = re.findall(r"```python\n(.*?)```", README, re.S)
    measured = re.findall(r"rw\.(?:compare|evaluate|explain)\(.*, (\w+)\)", example)
    assert measured
    assert set(measured) == {"test"}
    shell = re.findall(r"^\$ rankwood (?:evaluate|compare) .*$", README, re.M)
    assert shell
    assert all("test.txt.gz" in line and "train.txt.gz" not in line for line in shell)
