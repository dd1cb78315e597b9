"""``rankwood check``: other data against what a model file says of its training data; and that record as text.

The functions at the end show the record itself, for ``rankwood inspect``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.options import (
    Csv,
    DataFiles,
    Json,
    Outputs,
    Reading,
    file_option,
    option,
    switch,
    with_reading_options,
)
from rankwood.errors import DataError, ModelError

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData
    from rankwood.training.record import Spread

_FEATURES_SHOWN = 15


@with_reading_options
def check_command(
    data: DataFiles,
    *,
    model: Annotated[
        str, file_option("A model file; it records what its training data were like.", "--model")
    ],
    psi: Annotated[
        float, option("The largest population stability index that is no finding.", min=0.0)
    ] = 0.2,
    missing: Annotated[
        float,
        option("How much the share of missing values may change, from 0 to 1.", min=0.0, max=1.0),
    ] = 0.05,
    outside: Annotated[
        float,
        option(
            "How much the share of values beyond the training data's outermost bins may grow.",
            min=0.0,
            max=1.0,
        ),
    ] = 0.05,
    ignore_labels: Annotated[
        bool, switch("--ignore-labels", "Do not compare the labels, as of documents not judged.")
    ] = False,
    csv: Csv = None,
    html: Annotated[
        Path | None, file_option("Also a page with drawings of what changed (.html).", "--html")
    ] = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Compare data with what a model records of its training data.

    It reports columns that are not there, other shares of missing values, values beyond the range of the training
    data, and distributions that have moved: of features, labels and the lengths of queries. Tables need no labels.

    Exit code 0: nothing has changed. 1: something has. 2: the call or a file is wrong, or the model has no record.

    Example: rankwood check today.parquet --model model.rankwood --html check.html
    """
    from rankwood.evaluation.drift import check_data
    from rankwood.rankers.save import load

    outputs = Outputs(as_json=as_json, csv=csv, html=html)
    with _errors_end_in_2():
        known = load(model)
        read, new_columns, has_labels = _read(data, known, reading)
        found = check_data(
            known,
            read,
            psi=psi,
            missing=missing,
            outside=outside,
            labels=has_labels and not ignore_labels,
        )
        found = found.with_new_columns(new_columns)
        outputs.show(found, csv=found.write_csv, html=found.write_html)
    if found.has_drift:
        raise typer.Exit(1)


@contextlib.contextmanager
def _errors_end_in_2() -> Iterator[None]:
    """Keep exit code 1 for drift: other commands give it for a lack of memory and for errors of the system."""
    try:
        yield
    except BrokenPipeError:
        raise
    except MemoryError:
        raise DataError("not enough memory for this. Try fewer rows.") from None
    except OSError as error:
        file = f" ({error.filename})" if error.filename else ""
        raise DataError(f"{error.strerror or error}{file}.") from None


def _read(
    paths: Sequence[str], model: Any, reading: Reading
) -> tuple[RankingData, tuple[str, ...], bool]:
    """The data with the model's features, as far as they are there; further columns; whether there are labels."""
    from rankwood.data.sources import find_inputs, is_table
    from rankwood.data.table_files import open_table
    from rankwood.data.tables import RESERVED
    from rankwood.rankers.save import features_of

    known, options = features_of(model), reading.options
    inputs = find_inputs(paths)
    if not is_table(inputs[0].path):
        return _read_text(paths, model, reading), (), True
    with open_table(inputs[0].path) as source:
        names = (*source.names, *dict(inputs[0].keys))
    changes: dict[str, Any] = {
        role: None
        for role, usual in _OPTIONAL.items()
        if options[role] == usual and usual not in names
    }
    has_labels = options["label"] in names
    if known.names is None or options["features"] is not None:
        return reading(paths, **changes), (), has_labels
    kept = [name for name in names if name not in options["drop"]]
    present = tuple(name for name in known.names if name in kept)
    if not present:
        raise DataError(
            f"{' '.join(paths)}: none of the model's {len(known.names):,} features is a column, such as "
            f"'{known.names[0]}'."
        )
    roles = {options[role] for role in ("label", "query", "doc", *_OTHER_ROLES)} | RESERVED
    new = tuple(name for name in kept if name not in {*known.names, *roles})
    own = {name: one for name, one in known.categorical.items() if name in present}
    data = reading(paths, features=present, drop=(), categorical=own, **changes)
    return data, new, has_labels


_OPTIONAL = {"label": "label", "query": "qid"}  # columns that a table may do without
_OTHER_ROLES = ("row_weight", "query_weight", "position")


def _read_text(paths: Sequence[str], model: Any, reading: Reading) -> RankingData:
    """LETOR text, where features that a row leaves out are what they were in the training data."""
    from rankwood.data.splits import widened
    from rankwood.rankers.save import features_of

    known = features_of(model)
    absent = reading.options["absent"]
    recorded = getattr(model, "training_", {}).get("absent")
    if recorded == "missing" and not reading.given["absent_missing"]:
        absent = recorded
    if known.are_numbered and reading.options["features"] is None:
        return reading(paths, absent=absent, features=known.names)  # type: ignore[no-any-return]
    read = reading(paths, absent=absent)
    return widened(read, known.n_features, absent) if reading.options["features"] is None else read


# The record of a model file.


def spreads_in(
    training: dict[str, Any], names: Sequence[str]
) -> Mapping[str, Mapping[str, Spread]]:
    """The spreads of features, and of labels and lengths of queries, by name; they are taken out of the record."""
    from rankwood.training.record import FEATURES, STATISTICS, statistics_in

    found = statistics_in(training)
    training.pop(STATISTICS, None)
    if found is None:
        return {}
    features = found.pop(FEATURES)
    if len(features) != len(names):
        raise ModelError("its record of the training data is damaged.")
    others = {name.replace("_", " "): each for name, (each,) in found.items()}
    return {FEATURES: dict(zip(names, features, strict=True)), "judgments": others}


def validation_figures(
    parameters: Mapping[str, Any], training: Mapping[str, Any]
) -> dict[str, Any]:
    """The values on validation data of the model that was kept, by measure, and by set where sets have names."""
    history = training.get("history")
    if isinstance(history, list):
        history = {"": {str(parameters.get("measure") or "measure"): history}}
    n_kept = training.get("best_iteration")
    if not isinstance(history, dict) or n_kept == 0:  # of 0 rounds there is no value
        return {}
    figures: dict[str, Any] = {}
    for part, by_measure in history.items():
        for measure, values in by_measure.items():
            if values:
                last = n_kept if isinstance(n_kept, int) and 1 <= n_kept <= len(values) else 0
                value = values[last - 1]
                if isinstance(value, dict):  # BROOF's history has other figures too
                    value = value.get("valid")
                if value is not None:
                    figures[f"{part}: {measure}" if part else measure] = value
    return figures


def show_spreads(spreads: Mapping[str, Mapping[str, Spread]], leading: Sequence[str]) -> None:
    """The labels, the queries and the ``leading`` features of the training data; the first ones where none lead."""
    if not spreads:
        return
    features, others = spreads.values()
    shown = [*others, *(leading or list(features)[:_FEATURES_SHOWN])]
    printing.heading("training data")
    rows = [[name, *_figures(others.get(name) or features[name])] for name in shown]
    printing.show_table(("", "mean", "5 %", "median", "95 %", "missing"), rows)


def _figures(spread: Spread) -> list[str]:
    quantiles = spread.quantiles or (None,) * 5
    numbers = (spread.mean, quantiles[0], quantiles[2], quantiles[-1])
    shown = ["–" if number is None else f"{number:.4g}" for number in numbers]
    return [*shown, f"{spread.missing_share:.1%}"]
