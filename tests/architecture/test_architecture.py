"""The rules that keep the code readable, enforced: layers, sizes, who prints, one door to numba."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rankwood
from rankwood._core import jit
from rankwood._core import map as import_map

PACKAGE = Path(rankwood.__file__).parent
ROOT = Path(__file__).parents[2]
SOURCES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES_OF_A_MODULE = 800
MOST_LINES_OF_A_FUNCTION = 60


def names_of(paths):
    return [str(path.relative_to(PACKAGE)) for path in paths]


@pytest.fixture(params=SOURCES, ids=names_of(SOURCES))
def source(request):
    return request.param


def functions_of(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines_of(function: ast.FunctionDef) -> int:
    """Lines of the body without the docstring and the signature."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def imports_of(path: Path) -> set[str]:
    """Every module that the file imports at its top level or inside a function, by full name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def test_layers_point_one_way(monkeypatch):
    # In a process of its own: import-linter keeps state, and its contracts stand in pyproject.toml.
    outcome = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout
    assert "Contracts: 3 kept, 0 broken." in outcome.stdout


def test_the_drawing_of_the_import_graph_is_up_to_date():
    packages = import_map.layers()
    drawn = import_map.draw(packages, import_map.import_graph(packages))
    assert import_map.TARGET.read_text(encoding="utf-8") == drawn, "run: make map"


def test_the_import_graph_counts_pairs_of_modules(tmp_path):
    path = tmp_path / "importer.py"
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "import os, rankwood.errors\n"
        "from rankwood._core import checks, jit\n"
        "from rankwood.data.dataset import RankingData, group_rows\n"
        "if TYPE_CHECKING:\n    from rankwood.models.forest import Forest\n"
        "def later():\n    from rankwood.binning.bins import Bins\n"
    )
    assert import_map.imported_modules(path) == {
        "rankwood.errors",
        "rankwood._core.checks",
        "rankwood._core.jit",
        "rankwood.data.dataset",
        "rankwood.binning.bins",
    }


def test_a_module_can_be_read_in_one_sitting(source):
    assert len(source.read_text().splitlines()) <= MOST_LINES_OF_A_MODULE


def test_functions_fit_on_a_screen(source):
    for function in functions_of(source):
        length = lines_of(function)
        assert length <= MOST_LINES_OF_A_FUNCTION, f"{function.name}: {length} lines"


def test_only_the_command_line_prints(source):
    is_printing = source.relative_to(PACKAGE).as_posix() == "cli/printing.py"
    calls = [
        node.func for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Call)
    ]
    prints = [call for call in calls if isinstance(call, ast.Name) and call.id == "print"]
    assert not prints or is_printing


def test_two_doors_to_numba(source):
    uses_numba = any(name.split(".")[0] in ("numba", "llvmlite") for name in imports_of(source))
    assert not uses_numba or source.name in ("jit.py", "lanes.py")


def test_the_digest_covers_every_name_that_a_kernel_uses():
    """Otherwise an edit elsewhere would leave old machine code in use."""
    sources = jit.kernel_sources()
    for full, value in jit.kernels().items():
        function = getattr(value, "py_func", value)
        used = set(function.__code__.co_names) & set(function.__globals__)
        missing = {
            name
            for name in used
            if f"{function.__module__}.{name}" not in sources
            and not isinstance(function.__globals__[name], type(ast))  # numpy, math
        }
        assert full in sources
        assert not missing, f"{full} uses {missing}"


def test_every_test_of_an_error_says_which_error():
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "pytest.raises":
                continue
            kinds = ast.unparse(node.args[0]) if node.args else ""
            has_match = any(keyword.arg == "match" for keyword in node.keywords)
            assert has_match or kinds in ("KeyboardInterrupt", "SystemExit"), (
                f"{path.name}:{node.lineno}"
            )


def modules_after(statement: str) -> set[str]:
    outcome = subprocess.run(
        [sys.executable, "-c", f"import sys; {statement}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in outcome.stdout.split()}


def test_importing_rankwood_imports_nothing_heavy():
    heavy = {"numba", "numpy", "pyarrow", "scipy", "sklearn", "pandas", "polars", "rich", "typer"}
    assert not modules_after("import rankwood") & heavy


def test_the_command_line_starts_without_the_heavy_parts():
    heavy = {"numba", "numpy", "pyarrow", "scipy", "sklearn", "pandas", "polars"}
    assert not modules_after("import rankwood.cli.main") & heavy


def test_every_public_name_exists_and_is_listed():
    assert sorted(rankwood.__all__) == sorted(rankwood._MODULE_OF)
    for name in rankwood.__all__:
        assert callable(getattr(rankwood, name))
    assert set(rankwood.__all__) < set(dir(rankwood))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = rankwood.no_such_name


def test_the_version_is_the_same_everywhere():
    import tomllib

    assert (
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        == rankwood.__version__
    )
