"""``Result``: what every result class inherits, and that there is one place that draws."""

import csv
import inspect
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import rankwood as rw
import rankwood.evaluation
import rankwood.studies
from rankwood.errors import DataError
from rankwood.evaluation.paired_tests import weighted_values
from rankwood.evaluation.results import Result, show_interval, show_number, show_p

pytestmark = pytest.mark.jit_only  # no kernels of its own


@dataclass(frozen=True)
class Weights(Result):
    """Two tables, one of them titled, and a note."""

    values: dict[str, float]

    def _tables(self):
        rows = [{"name": name, "value": f"{value:.1f}"} for name, value in self.values.items()]
        return {"": rows, "a <title>": rows[:1]}

    def _footnotes(self):
        return ["a & b"]

    def _records(self):
        return [{"name": name, "value": value} for name, value in self.values.items()]


WEIGHTS = Weights({"a": 1.25, "long": 22.5})


def test_tables_are_aligned_under_their_titles():
    assert str(WEIGHTS).splitlines() == [
        "name  value",
        "----  -----",
        "a       1.2",
        "long   22.5",
        "",
        "a <title>",
        "name  value",
        "----  -----",
        "a       1.2",
        "",
        "a & b",
    ]


def test_notebooks_get_escaped_html():
    table = "<table><thead><tr><th>name</th><th>value</th></tr></thead><tbody>"
    shown = WEIGHTS._repr_html_()
    assert shown.startswith(table)
    assert shown.count(table) == 2
    assert "<h4>a &lt;title&gt;</h4>" in shown
    assert shown.endswith("<p>a &amp; b</p>")


def test_csv_has_numbers_in_full(tmp_path):
    WEIGHTS.write_csv(tmp_path / "w.csv")
    assert (tmp_path / "w.csv").read_bytes() == b"name,value\r\na,1.25\r\nlong,22.5\r\n"
    with pytest.raises(DataError, match="cannot be written: No such file"):
        WEIGHTS.write_csv(tmp_path / "nowhere" / "w.csv")


def test_an_evaluation_writes_a_line_per_segment_and_measure(tmp_path):
    data = rw.make_ranking(6, 5, 3, seed=1)
    evaluation = rw.evaluate(
        data.features[:, 0], data, ["ndcg@5", "map"], by=np.arange(6) % 2, n_bootstrap=10
    )
    evaluation.write_csv(tmp_path / "e.csv")
    with (tmp_path / "e.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["segment"], line["measure"]) for line in lines] == [
        (segment, text) for segment in ("all", "0", "1") for text in ("ndcg@5", "map")
    ]
    assert float(lines[1]["value"]) == evaluation["map"].value
    assert float(lines[3]["low"]) == evaluation.segments[0]["map"].interval[0]


def test_what_shows_itself_in_a_notebook_is_a_result():
    classes = set()
    for package in (rankwood.evaluation, rankwood.studies):
        for module in pkgutil.iter_modules(package.__path__):
            loaded = import_module(f"{package.__name__}.{module.name}")
            classes |= {kind for _, kind in inspect.getmembers(loaded, inspect.isclass)}
    own = {
        kind for kind in classes if kind.__module__.split(".")[1:2] in (["evaluation"], ["studies"])
    }
    shown = {
        kind
        for kind in own
        if hasattr(kind, "_repr_html_")
        and not issubclass(kind, BaseEstimator)  # which scikit-learn draws
    }
    assert len(shown) > 12
    for kind in shown:
        assert issubclass(kind, Result), kind
        assert kind.__dict__.get("write_csv") is None or kind is Result, kind


def test_matplotlib_is_imported_in_one_module_and_only_to_draw():
    source = Path(rw.__file__).parent
    importing = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if "import matplotlib" in path.read_text() or "from matplotlib" in path.read_text()
    }
    assert importing == {"evaluation/plots.py"}
    code = "import sys, rankwood.evaluation.plots, rankwood.studies.sizes; print('matplotlib' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_numbers_give_the_same_bytes(ending, tmp_path):
    pytest.importorskip("matplotlib")
    from rankwood.evaluation.plots import PlotLine, line_plot, stacked_bars

    lines = {"a": PlotLine(np.arange(3), np.arange(3.0)), "b": PlotLine(np.arange(3), np.ones(3))}
    for number in (1, 2):
        line_plot(tmp_path / f"line{number}.{ending}", lines, "x", "y")
        stacked_bars(tmp_path / f"bars{number}.{ending}", ["a"], {"p": [1.0], "q": [2.0]}, "sum")
    for name in ("line", "bars"):
        one, other = (tmp_path / f"{name}{number}.{ending}" for number in (1, 2))
        assert one.read_bytes() == other.read_bytes()


def test_numbers_as_tables_show_them():
    assert show_number(0.123456) == "0.1235"
    assert show_number(float("nan")) == "–"
    assert show_interval((-0.5, 0.25), "+") == "-0.5000 – +0.2500"
    assert show_interval((float("nan"), float("nan"))) == "–"
    assert [show_p(p) for p in (0.00001, 0.04, float("nan"))] == ["<.0001", ".0400", "–"]


def test_values_that_are_not_there_have_no_weight():
    weighted, weight = weighted_values(
        np.array([[1.0], [np.nan], [4.0]]), np.array([2.0, 3.0, 0.5])
    )
    assert weighted.tolist() == [[2.0], [0.0], [2.0]]
    assert weight.tolist() == [[2.0], [0.0], [0.5]]
