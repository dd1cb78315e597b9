"""The rules that keep the code readable, each one test that lists every offender: layers, sizes, names, who prints."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import rankwood
from rankwood._core import jit
from tests.architecture import import_map

PACKAGE = Path(rankwood.__file__).parent
ROOT = Path(__file__).parents[2]
SOURCES = sorted(PACKAGE.rglob("*.py"))

MOST_LINES_OF_A_MODULE = 800
MOST_LINES_OF_A_FUNCTION = 60
MOST_FILES = 220
MOST_ENTRIES_OF_A_FOLDER = 18
SMALL_FILE = 50  # lines; a smaller file needs a reason
MOST_SMALL_FILES = 20

# Entries of a folder beyond the limit. The package's own list is the architecture.
LONG_FOLDERS = {"": 23}
# Documented parts of the standard library whose names begin with an underscore.
PUBLIC_DESPITE_THEIR_NAME = {"_replace", "_fields", "_asdict", "_make", "_exit"}


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def nodes_of(*kinds: type[ast.AST]):
    """Every node of these kinds in the package, with the file it is in."""
    for path in SOURCES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, kinds):
                yield path, node


def n_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def n_body_lines(function: ast.FunctionDef) -> int:
    """Lines of the body without the docstring and the signature."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_layers_point_one_way():
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


def test_examples_in_package_docstrings_are_true():
    examples = 0
    for path in PACKAGE.rglob("__init__.py"):
        name = ".".join(path.parent.relative_to(PACKAGE.parent).parts)
        outcome = doctest.testmod(importlib.import_module(name))
        assert outcome.failed == 0, name
        examples += outcome.attempted
    assert examples > 0


def test_imports_are_absolute():
    relative = [
        f"{name_of(path)}:{node.lineno}" for path, node in nodes_of(ast.ImportFrom) if node.level
    ]
    assert relative == []


def test_modules_are_not_too_long():
    long = {name_of(path): n_lines(path) for path in SOURCES}
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES_OF_A_MODULE} == {}


def test_functions_are_not_too_long():
    long = [
        f"{name_of(path)}: {node.name} has {n_body_lines(node)} lines"
        for path, node in nodes_of(ast.FunctionDef, ast.AsyncFunctionDef)
        if n_body_lines(node) > MOST_LINES_OF_A_FUNCTION
    ]
    assert long == []


def test_the_package_is_not_cut_into_fragments():
    assert len(SOURCES) <= MOST_FILES
    small = [name_of(path) for path in SOURCES if n_lines(path) < SMALL_FILE]
    assert len(small) <= MOST_SMALL_FILES, small


def test_folders_are_not_too_full():
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())]
    full = {}
    for folder in folders:
        name = folder.relative_to(PACKAGE).as_posix().removeprefix(".")
        entries = [entry.name for entry in folder.iterdir() if entry.name != "__pycache__"]
        if len(entries) > LONG_FOLDERS.get(name, MOST_ENTRIES_OF_A_FOLDER):
            full[name] = sorted(entries)
    assert full == {}


def test_a_class_name_exists_once():
    files_of_class = defaultdict(list)
    for path, node in nodes_of(ast.ClassDef):
        files_of_class[node.name].append(name_of(path))
    assert {name: files for name, files in files_of_class.items() if len(files) > 1} == {}


def test_what_is_public_has_a_docstring():
    without = []

    def look_at(node: ast.AST, path: Path) -> None:
        if not ast.get_docstring(node):
            without.append(f"{name_of(path)}: {getattr(node, 'name', 'the module')}")
        if isinstance(node, ast.Module | ast.ClassDef):
            for child in node.body:
                is_named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                if is_named and not child.name.startswith("_"):
                    look_at(child, path)

    for path in SOURCES:
        look_at(parsed(path), path)
    assert without == []


def test_ranking_data_are_made_by_their_constructor():
    calls = {
        name_of(path)
        for path, node in nodes_of(ast.Call)
        if ast.unparse(node) == "object.__new__(RankingData)"
    }
    assert calls == set()


def private_names_by_folder() -> dict[Path, set[str]]:
    """Every name that a folder's files define: functions, classes, variables, attributes."""
    defined = defaultdict(set)
    for path, node in nodes_of(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        defined[path.parent].add(node.name)
    for path, node in nodes_of(ast.Name, ast.Attribute):
        if isinstance(node.ctx, ast.Store):
            defined[path.parent].add(node.id if isinstance(node, ast.Name) else node.attr)
    return defined


def test_private_attributes_stay_in_their_package():
    defined = private_names_by_folder()
    read = set()
    for path, node in nodes_of(ast.Attribute):
        is_private = node.attr.startswith("_") and not node.attr.endswith("__")
        if not is_private or node.attr in PUBLIC_DESPITE_THEIR_NAME:
            continue
        is_own = ast.unparse(node.value) in ("self", "cls", "super()", "type(self)")
        if not is_own and node.attr not in defined[path.parent]:
            read.add(f"{name_of(path.parent)}: {ast.unparse(node)}")
    for path, node in nodes_of(ast.ImportFrom):
        private = {alias.name for alias in node.names if alias.name.startswith("_")}
        for name in private - defined[path.parent] - {"__version__"}:
            read.add(f"{name_of(path.parent)}: {node.module}.{name}")
    assert sorted(read) == []


def test_only_the_command_line_prints():
    printing = {
        name_of(path)
        for path, node in nodes_of(ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert printing <= {"cli/printing.py"}


def test_three_doors_to_numba():
    using = set()
    for path, node in nodes_of(ast.Import, ast.ImportFrom):
        modules = (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
        if any(module.split(".")[0] in ("numba", "llvmlite") for module in modules):
            using.add(name_of(path))
    assert using <= {"_core/jit.py", "_core/llvm.py", "_core/team.py"}


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
    without = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            is_raises = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "raises"
            if not is_raises or ast.unparse(node.func) != "pytest.raises":
                continue
            kinds = ast.unparse(node.args[0]) if node.args else ""
            has_match = any(keyword.arg == "match" for keyword in node.keywords)
            if not has_match and kinds not in ("KeyboardInterrupt", "SystemExit"):
                without.append(f"{path.name}:{node.lineno}")
    assert without == []


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
