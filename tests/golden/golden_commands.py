"""What the command line prints: the help of every command, and answers on tiny generated data.

Commands run in process, in a folder with the files that ``prepare`` writes, and are given relative paths, so that no
path of a machine gets into what they print.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import rankwood as rw
from rankwood.cli.main import app, main
from tests.golden.golden_data import COSTS, part
from tests.golden.golden_models import fitted

FOLDER = Path(__file__).with_name("snapshots")
WIDTH = "100"
# Set while commands run: the width of help texts, and no colour.
ENVIRONMENT = {"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
DIGITS, LEAST = 10, 1e-12  # of floats; their last bits are what digests look at

_MODELS = {
    "forest": "RandomForest",
    "boosted": "GBRT",
    "lambdas": "LambdaMART",
    "linear": "AdaRank",
    "search": "BoostingTree: LambdaMART",
    "deep": "DeepForest",
    "ordinal": "OrdinalRanker: expected",
    "broof": "BROOF: absolute",
}
_DATA = "--data train.csv --test test.csv"
_SMALL = "RandomForest:n_trees=3,max_leaves=6"

# Every command with --json has at least one call here: a test sees to it.
JSON_CALLS = {
    "inspect": "inspect test.csv --against train.csv",
    "inspect-gaps": "inspect gaps.csv",
    "inspect-letor": "inspect test.txt",
    **{f"inspect-model-{name}": f"inspect {name}.rankwood" for name in _MODELS},
    "evaluate": "evaluate forest.rankwood test.csv --bootstrap 100",
    "evaluate-measures": "evaluate boosted.rankwood test.csv -m ndcg@5[gain=linear] -m p@5 -m auc --preset mslr",
    "compare": "compare forest.rankwood boosted.rankwood linear.rankwood --data test.csv --baseline forest.rankwood --queries 2",
    "compare-one-measure": "compare lambdas.rankwood linear.rankwood --data test.csv -m map --tests t --queries 2",
    "explain-importance": "explain forest.rankwood --importance gain",
    "explain-permutation": "explain boosted.rankwood test.csv --importance permutation --repetitions 2",
    "explain-query": "explain boosted.rankwood test.csv --qid {query} --top 3",
    "explain-document": "explain linear.rankwood test.csv --qid {query} --document {document}",
    "explain-why": "explain forest.rankwood test.csv --qid {query} --why {document} {other}",
    "explain-data": "explain lambdas.rankwood test.csv",
    "export": "export boosted.rankwood out.model --to lightgbm --verify test.csv",
    "export-ranklib": "export boosted.rankwood out.model --to ranklib --assume-no-missing",
    "cost-curve": "cost-curve boosted.rankwood test.csv --costs costs.tsv --every 2 --early-exit every=2,drop=0.3",
    "cost-curve-paths": "cost-curve forest.rankwood test.csv --path-costs --early-exit none -m p@5",
    "front": "front search.rankwood --data test.csv",
    "front-every-length": "front search.rankwood --every-length",
    "compare-missing": (
        "compare-missing --data gaps.csv --folds 2 --n-trees 2 --max-leaves 6 "
        "--treatment learned --treatment mean --treatment three_way"
    ),
    "transfer": (
        "transfer --source train.csv --target valid.csv --valid test.csv --share 0.3 "
        "--set n_trees=3 --set max_leaves=6"
    ),
    "bias-variance": f"bias-variance {_DATA} --model {_SMALL} --trainings 2",
    "learning-curve": f"learning-curve {_DATA} --model {_SMALL} --share 0.5 --share 1 --repetitions 2",
    "convergence": "convergence forest.rankwood boosted.rankwood deep.rankwood --test test.csv --every 2",
    "convergence-trained": f"convergence --model {_SMALL} {_DATA} --every 1",
    "factorial": (
        f"factorial {_DATA} --model {_SMALL} --factor min_leaf=1,10 --factor features_per_node=0.3,0.9 "
        "--repetitions 2"
    ),
    "versions": "versions",
}  # fmt: skip

# Tables and texts; a command that writes a file is followed by what shows it.
TEXT_CALLS = {
    **{
        name: JSON_CALLS[name]
        for name in (
            "inspect",
            "inspect-gaps",
            "inspect-model-forest",
            "inspect-model-linear",
            "inspect-model-search",
            "inspect-model-deep",
            "evaluate",
            "compare",
            "explain-importance",
            "explain-query",
            "explain-document",
            "explain-why",
            "export",
            "cost-curve",
            "front",
            "transfer",
            "bias-variance",
            "learning-curve",
            "convergence",
            "factorial",
        )
    },
    "train": "train --model RandomForest --data train.csv --valid valid.csv --n-trees 3 --max-leaves 6 --out new.rankwood",
    "train-refit": (
        "train --model GBRT --data train.csv --valid valid.csv --n-trees 8 --max-leaves 4 --early-stopping 2 "
        "--refit --out new.rankwood"
    ),
    "train-config": "train settings.toml",
    "score": "score boosted.rankwood few.csv",
    "score-trec": "score linear.rankwood few.txt --format trec --run-tag golden",
    "score-early-exit": "score boosted.rankwood few.csv --format numbers --early-exit every=2,drop=0.5",
    "convert": "convert few.csv -",
    "import": "import trees.json new.rankwood --from json",
    "data-synth": "data synth new.txt --queries 3 --docs 4 --features 5 --seed 2",
    "data-cache": "data cache",
    "experiment-dry-run": "experiment run.toml --dry-run",
    "version": "--version",
    "error-no-file": "evaluate forest.rankwood nothing.csv",
    "error-no-measure": "evaluate forest.rankwood test.csv -m ndgc@10",
    "error-no-model": "train --model RandomForrest --data train.csv",
    "error-no-option": "train --model RankSVM --data train.csv --n-trees 5",
    "error-other-features": "score forest.rankwood narrow.csv",
}  # fmt: skip

_SETTINGS = """\
model = "BROOF"
data = "train.csv"
out = "new.rankwood"

[parameters]
loss = "height"
n_rounds = 2
n_trees = 2
"""
_RUN = """\
[data]
generate = { queries = 24, docs = 8, features = 6 }
folds = 3

[run]
jobs = 0
repetitions = 2

[[algorithm]]
name = "RF"
kind = "RandomForest"
n_trees = 3

[[algorithm]]
kind = "GBRT"
n_trees = 3
tune = { max_leaves = [2, 4] }

[compare]
baseline = "RF"
"""


def prepare(folder: Path) -> None:
    """Write the files that the calls are about."""
    for name in ("train", "valid", "test"):
        rw.write_table(part(f"/{name}"), folder / f"{name}.csv")
    few = part("/test").take_queries([1, 2])
    rw.write_table(few, folder / "few.csv")
    rw.write_letor(few, folder / "few.txt")
    rw.write_letor(part("/test"), folder / "test.txt")
    rw.write_table(part("binary/test"), folder / "narrow.csv")
    rw.write_table(part("gaps/test"), folder / "gaps.csv")
    for name, case in _MODELS.items():
        rw.save(fitted(case), folder / f"{name}.rankwood")
    rw.export(fitted("GBRT"), folder / "trees.json", "json")
    lines = [f"{name}\t{cost:g}" for name, cost in zip(part("/test").names, COSTS, strict=True)]
    (folder / "costs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "settings.toml").write_text(_SETTINGS, encoding="utf-8")
    (folder / "run.toml").write_text(_RUN, encoding="utf-8")


def arguments(call: str) -> list[str]:
    """The arguments of a call, with a query of the test part and two of its documents put in."""
    data = part("/test")
    query, rows = max(data.iter_queries(), key=lambda each: len(each[1]))
    places = {"query": query, "document": data.doc_ids[rows[0]], "other": data.doc_ids[rows[3]]}
    return call.format(**places).split()


def command_names() -> list[str]:
    """Every command and group, as it is typed after ``rankwood``; the first, empty one is rankwood itself."""
    return list(_walk(typer.main.get_command(app), ()))


def _walk(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    yield " ".join(path)
    for name, inner in getattr(command, "commands", {}).items():
        yield from _walk(inner, (*path, name))


def has_json(help_text: str) -> bool:
    """Whether a command's help says that it has ``--json``."""
    return re.search(r"(^|\s)--json\s", help_text) is not None


def words(text: str) -> list[str]:
    """The words of a help text, whatever its layout: in order of the alphabet, without frames and ellipses."""
    return sorted(set(re.findall(r"[^\s│─╭╮╰╯┃━…]+", text)))


def help_file(command: str) -> Path:
    """Where the help of a command is kept."""
    return FOLDER / "help" / f"{command.replace(' ', '-') or 'rankwood'}.txt"


def answer_file(kind: str, name: str) -> Path:
    """Where the answer to a call is kept; ``kind`` is json or text."""
    return FOLDER / kind / f"{name}.{'json' if kind == 'json' else 'txt'}"


# What differs from run to run, or from machine to machine

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SECONDS = re.compile(r"\b\d[\d,]*(\.\d+)? s\b")


def plain_text(text: str) -> str:
    """A text without colours, trailing spaces, times and Rankwood's own version."""
    text = _SECONDS.sub("<seconds> s", _ANSI.sub("", text)).replace(rw.__version__, "<version>")
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"


def plain_json(text: str) -> str:
    """JSON, laid out anew, with rounded floats and without what is not of the answer itself."""
    value = json.loads(text)
    if {"python", "system", "threads"} <= set(
        value
    ):  # versions: what is installed is the machine's
        value = {name: f"<{name}>" for name in list(value)[: list(value).index("cache folder") + 1]}
    return json.dumps(_plain(value), indent=1, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: f"<{name}>" if name == "seconds" else _plain(item) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return 0.0 if abs(value) < LEAST else float(f"{value:.{DIGITS}g}")
    return "<version>" if value == rw.__version__ else value


# Running


def run(arguments: list[str]) -> tuple[int, str, str]:
    """Call the command line in process; gives exit code, output and error output."""
    logger = logging.getLogger("rankwood")
    kept = logger.handlers, logger.level
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            code = main(arguments)
    finally:
        logger.handlers, logger.level = kept
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    return code, out, err


def help_now(command: str) -> str:
    """The help of a command as it is now."""
    code, out, err = run([*command.split(), "--help"])
    if code != 0:
        raise AssertionError(f"rankwood {command} --help failed: {err}")
    return plain_text(out)


def answer_now(kind: str, name: str) -> str:
    """The answer to a call as it is now, in the folder prepared; texts begin with the exit code and end with notices."""
    if kind == "json":
        code, out, err = run([*arguments(JSON_CALLS[name]), "--json"])
        if code != 0:
            raise AssertionError(f"rankwood {JSON_CALLS[name]} --json failed: {err}")
        return plain_json(out)
    code, out, err = run(arguments(TEXT_CALLS[name]))
    return plain_text(f"exit code {code}\n--- output\n{out}\n--- notices\n{err}")
