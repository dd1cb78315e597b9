# `make demo` and `make test` need Python >= 3.11 and make, nothing else: they create .venv and install into it.
# A stamp file per set of extras remembers what is installed, so a second call does not install again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 2
# With COVERAGE=1 the tests write down what they reach, in .coverage.* files that `make coverage-report` joins.
COVER = $(if $(COVERAGE),--cov --cov-report= --cov-fail-under=0)
export COVERAGE

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-neural coverage coverage-kernels coverage-report check format bench docs dist map clean

help:  ## list what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Rankwood needs Python 3.11 or newer, and $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev,docs,report,chess,dask,onnx,serve,tune]'
	@touch $@ $(VENV)/.core

$(VENV)/.neural: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev,neural]'
	@touch $@ $(VENV)/.core

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[bench]'
	@touch $@ $(VENV)/.core

$(VENV)/.release: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[release]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core  ## the main job end to end: rank the moves of chess positions
	$(BIN)/rankwood demo

test: $(VENV)/.dev  ## the suite without what is marked slow; networks only if PyTorch is installed
	$(if $(COVERAGE),COVERAGE_FILE=.coverage.fast) $(PYTEST) -n $(WORKERS) $(COVER) -m "not slow"

test-slow: $(VENV)/.dev  ## what is marked slow: JIT off, bounds checks, kills, fuzzing, real data
	$(PYTEST) -n $(WORKERS) --dist worksteal -m slow

test-neural: $(VENV)/.neural  ## networks, which CI does not test: PyTorch brings gigabytes
	$(PYTEST) -n 0 tests/neural tests/unit/test_neural_model.py
	$(PYTEST) -n 0 tests/contract -k MLPRanker

coverage:  ## lines and branches of Python that the tests reach; at least 95 %
	rm -f .coverage .coverage.*
	$(MAKE) test COVERAGE=1
	$(MAKE) coverage-report

coverage-kernels: $(VENV)/.dev  ## lines of kernels that the tests reach with the JIT off; takes about an hour
	COVERAGE_FILE=.coverage.kernels NUMBA_DISABLE_JIT=1 $(PYTEST) -n $(WORKERS) -m "not slow and not jit_only" \
	  -W "ignore:overflow encountered in scalar:RuntimeWarning" --cov --cov-report= --cov-fail-under=0 \
	  tests/unit tests/property tests/parity
	$(BIN)/coverage report --rcfile=/dev/null --data-file=.coverage.kernels

coverage-report: $(VENV)/.dev
	$(BIN)/coverage combine --keep
	$(BIN)/coverage report

check: $(VENV)/.dev  ## lint, format, types, layers, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs examples benchmarks README.md CHANGELOG.md CONTRIBUTING.md Makefile pyproject.toml

format: $(VENV)/.dev  ## put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench  ## every figure we claim, as ratios measured side by side
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev  ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "documentation: site/index.html"

dist: $(VENV)/.release  ## wheel and source distribution, checked, and tried in an empty environment (PYTHONS="…" for several)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m tests.wheel dist/*.whl $(PYTHONS)

map: $(VENV)/.core  ## draw the import graph of the packages again, for docs/tour.md
	$(BIN)/python -m tests.architecture.import_map

clean:  ## remove what the targets above made
	rm -rf $(VENV) site .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
