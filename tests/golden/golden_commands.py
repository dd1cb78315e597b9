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
from tests.golden.golden_models import fitted, test_scores

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
    "blend": "Blend: held-out",
    "gated": "Blend: per document",
}
_DATA = "--data train.csv --test test.csv"
_SMALL = "RandomForest:n_trees=3,max_leaves=6"

# Every command with --json has at least one call here: a test sees to it.
JSON_CALLS = {
    "inspect": "inspect test.csv --against train.csv",
    "inspect-gaps": "inspect gaps.csv",
    "inspect-letor": "inspect test.txt",
    "data-list": "data list mq2008",
    **{f"inspect-model-{name}": f"inspect {name}.rankwood" for name in _MODELS},
    "auto": (
        "auto train.csv --valid valid.csv --time none --n-trials 3 --out new.rankwood "
        "--candidates RandomForest(n_trees=3,max_leaves=6),RankSVM"
    ),
    "tune": (
        "tune train.csv --valid valid.csv --model RandomForest:n_trees=3 --space max_leaves=2,6 --trials 2 "
        "--out new.rankwood"
    ),
    "evaluate": "evaluate forest.rankwood test.csv --bootstrap 100",
    "clicks-simulate": "clicks simulate test.csv --ranking forest.rankwood --ranking scores.txt --sessions 40 --out new.csv",
    "clicks-bias": "clicks bias log.csv --method harvest --bootstrap 20 --out new.json",
    "clicks-judge": "clicks judge log.csv --bias bias.json --out new.csv",
    "clicks-evaluate": "clicks evaluate log.csv --ranking forest.rankwood --ranking boosted.rankwood --bias bias.json",
    "clicks-interleave": "clicks interleave forest.rankwood boosted.rankwood test.csv --sessions 50",
    "evaluate-measures": "evaluate boosted.rankwood test.csv -m ndcg@5[gain=linear] -m p@5 -m auc --preset mslr",
    "compare": "compare forest.rankwood boosted.rankwood linear.rankwood --data test.csv --baseline forest.rankwood --queries 2",
    "compare-one-measure": "compare lambdas.rankwood linear.rankwood --data test.csv -m map --tests t --queries 2",
    "explain-importance": "explain forest.rankwood --importance gain",
    "explain-permutation": "explain boosted.rankwood test.csv --importance permutation --repetitions 2",
    "explain-query": "explain boosted.rankwood test.csv --qid {query} --top 3",
    "explain-document": "explain linear.rankwood test.csv --qid {query} --document {document}",
    "explain-why": "explain forest.rankwood test.csv --qid {query} --why {document} {other}",
    "check": "check test.csv --model forest.rankwood",
    "explain-data": "explain lambdas.rankwood test.csv",
    "export": "export boosted.rankwood out.model --to lightgbm --verify test.csv",
    "export-ranklib": "export boosted.rankwood out.model --to ranklib --assume-no-missing",
    "best-sizes": "best-sizes boosted.rankwood train.csv --test test.csv -m ndcg@10 -m p@5 --costs costs.tsv",
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
    "transfer-table": (
        "transfer --source train.csv --target valid.csv --valid test.csv --share 0.1 --share 1 --columns Q "
        "-m ndcg@10 -m rmse --set n_trees=3 --set max_leaves=6 --quiet"
    ),
    "bias-variance": f"bias-variance {_DATA} --model {_SMALL} --trainings 2",
    "learning-curve": f"learning-curve {_DATA} --model {_SMALL} --share 0.5 --share 1 --repetitions 2",
    "convergence": "convergence forest.rankwood boosted.rankwood deep.rankwood --test test.csv --every 2",
    "convergence-trained": f"convergence --model {_SMALL} {_DATA} --every 1",
    "factorial": (
        f"factorial {_DATA} --model {_SMALL} --factor min_leaf=1,10 --factor features_per_node=0.3,0.9 "
        "--repetitions 2"
    ),
    "factorial-coupled": (
        f"factorial {_DATA} --model BROOF:n_rounds=2,n_trees=4,max_leaves=6,stop=none --factor loss=absolute,gradient "
        "--factor validation+update_weights=oob,train --where loss=gradient:update_weights=none --repetitions 2 --quiet"
    ),
    "evaluate-trec": "evaluate run.trec qrels.txt --preset trec_eval -m ndcg@10 -m map --complete",
    "evaluate-trec-condensed": "evaluate run.trec qrels.txt -m ndcg@10 -m judged@10 --condense",
    "evaluate-by-column": "evaluate boosted.rankwood segments.csv --by country --drop country --bootstrap 50",
    "evaluate-scores": "evaluate scores.txt test.csv --bootstrap 50",
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
            "inspect-model-broof",
            "inspect-model-blend",
            "evaluate",
            "clicks-bias",
            "clicks-judge",
            "clicks-evaluate",
            "clicks-interleave",
            "compare",
            "explain-importance",
            "explain-query",
            "explain-document",
            "explain-why",
            "check",
            "export",
            "best-sizes",
            "cost-curve",
            "front",
            "transfer",
            "transfer-table",
            "bias-variance",
            "learning-curve",
            "convergence",
            "factorial",
            "factorial-coupled",
        )
    },
    "train": "train --model RandomForest --data train.csv --valid valid.csv --n-trees 3 --max-leaves 6 --out new.rankwood",
    "train-refit": (
        "train --model GBRT --data train.csv --valid valid.csv --n-trees 8 --max-leaves 4 --early-stopping 2 --learning-rate 0.1 --features-per-node 1.0 "
        "--refit --out new.rankwood"
    ),
    "train-config": "train settings.toml",
    "train-blend": (
        "train --model Blend --parts forest=RandomForest(n_trees=3),boosting=GBRT(n_trees=5) --data train.csv "
        "--valid valid.csv --out new.rankwood"
    ),
    "train-deep": (
        "train --model DeepForest --n-forests 2 --n-trees 3 --max-layers 4 --patience 1 --data train.csv "
        "--valid valid.csv --out new.rankwood"
    ),
    "train-ordinal": (
        "train --model OrdinalRanker --base RandomForest --n-trees 3 --scoring least_squares --data train.csv "
        "--out new.rankwood"
    ),
    "score": "score boosted.rankwood few.csv",
    "score-trec": "score linear.rankwood few.txt --format trec --run-tag golden",
    "score-early-exit": "score boosted.rankwood few.csv --format numbers --early-exit every=2,drop=0.5",
    "check-gaps": "check gaps.csv --model forest.rankwood --psi 0.1 --csv shown.csv",
    "convert": "convert few.csv -",
    "import": "import trees.json new.rankwood --from json",
    "data-synth": "data synth new.txt --queries 3 --docs 4 --features 5 --seed 2",
    "data-cache": "data cache",
    "experiment-dry-run": "experiment run.toml --dry-run",
    "version": "--version",
    "experiment-dry-run-set": (
        "experiment run.toml --dry-run --small --set algorithm.RF.n_trees=5 --set run.repetitions=1 --only RF"
    ),
    # calls that write a file: it is shown
    "evaluate-per-query": "evaluate boosted.rankwood test.csv --per-query shown.tsv --quiet",
    "compare-csv": "compare forest.rankwood linear.rankwood --data test.csv -m map --queries 0 --csv shown.csv",
    "explain-csv": "explain boosted.rankwood few.csv --qid 7 --csv shown.csv",
    "cost-curve-csv": "cost-curve boosted.rankwood test.csv --early-exit none --csv shown.csv",
    "factorial-files": f"{JSON_CALLS['factorial']} --csv shown.csv --html shown.html",
    "learning-curve-csv": f"{JSON_CALLS['learning-curve']} --csv shown.csv",
    "convergence-csv": "convergence boosted.rankwood --test test.csv --csv shown.csv",
    "bias-variance-csv": f"{JSON_CALLS['bias-variance']} --csv shown.csv",
    "export-c": "export boosted.rankwood shown.c --to c --quiet",
    "data-synth-shown": "data synth shown.csv --queries 2 --docs 3 --features 8 --missing 0.3 --doc-ids --quiet",
    "front-out": "front search.rankwood --max-trees 2 --out new.rankwood",
    "error-not-a-sum": "export gated.rankwood new.txt --to ranklib",
    "error-one-size": "best-sizes linear.rankwood test.csv",
    "error-label": "inspect broken-label.txt",
    "error-query": "inspect broken-query.txt",
    "error-order": "inspect broken-order.txt",
    "error-value": "inspect broken-value.txt",
    "error-column": "inspect test.csv --label relevance",
    "error-not-a-model": "score test.csv test.csv",
    "error-no-trees": "cost-curve linear.rankwood test.csv",
    "error-no-file": "evaluate forest.rankwood nothing.csv",
    "error-no-measure": "evaluate forest.rankwood test.csv -m ndgc@10",
    "error-no-model": "train --model RandomForrest --data train.csv",
    "error-no-option": "train --model RankSVM --data train.csv --n-trees 5",
    "error-other-features": "score forest.rankwood narrow.csv",
}  # fmt: skip

_BROKEN = {
    "label": "1 qid:1 1:2\nhigh qid:1 1:3\n",
    "query": "1 qid:1 1:2\n1 1:3\n",
    "order": "1 qid:1 2:2 1:5\n",
    "value": "1 qid:1 1:2 2:1e99\n",
}
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
learning_rate = 0.1
features_per_node = 1.0
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
    for name, text in _BROKEN.items():
        (folder / f"broken-{name}.txt").write_text(text, encoding="utf-8")
    _prepare_rankings(folder)
    _prepare_clicks(folder)
    for name, case in _MODELS.items():
        rw.save(fitted(case), folder / f"{name}.rankwood")
    rw.export(fitted("GBRT"), folder / "trees.json", "json")
    lines = [f"{name}\t{cost:g}" for name, cost in zip(part("/test").names, COSTS, strict=True)]
    (folder / "costs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "settings.toml").write_text(_SETTINGS, encoding="utf-8")
    (folder / "run.toml").write_text(_RUN, encoding="utf-8")


def _prepare_clicks(folder: Path) -> None:
    """A click log of the test part, and a bias."""
    test = part("/test")
    scores = [test.features[:, number].astype(float) for number in (0, 1)]
    rw.simulate_clicks(test, scores, sessions=3000, cutoff=4, noise=0.3, seed=1).write(
        folder / "log.csv"
    )
    rw.position_bias(None, [1.0, 0.5, 0.4, 0.3]).save(folder / "bias.json")


def _prepare_rankings(folder: Path) -> None:
    """A run file and its qrels, scores of the test part, and the test part with a column of segments."""
    data, scores = part("/test"), test_scores("RandomForest")
    columns = (data.query_ids, data.doc_ids, data.labels, scores.tolist())
    rows = list(zip(*columns, strict=True))
    run = [f"{query} Q0 {document} 0 {score!r} run" for query, document, _, score in rows]
    qrels = [f"{query} 0 {document} {label:g}" for query, document, label, _ in rows]
    lines = (folder / "test.csv").read_text(encoding="utf-8").splitlines()
    segments = [
        f"{line},{('no', 'se')[int(query) % 2]}"
        for line, query in zip(lines[1:], data.query_ids, strict=True)
    ]
    texts = {
        "run.trec": run[:-20],
        "qrels.txt": [*qrels[::2], "999 0 d1 1"],
        "scores.txt": [repr(score) for *_, score in rows],
        "segments.csv": [f"{lines[0]},country", *segments],
    }
    for name, content in texts.items():
        (folder / name).write_text("\n".join(content) + "\n", encoding="utf-8")


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
    is_versions = isinstance(value, dict) and {"python", "system", "threads"} <= set(value)
    if is_versions:  # what is installed is the machine's
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
    text = f"exit code {code}\n--- output\n{out}\n--- notices\n{err}"
    for path in sorted(Path().glob("shown.*")):
        text += f"\n--- {path}\n{path.read_text(encoding='utf-8')}"
        path.unlink()
    return plain_text(text)
