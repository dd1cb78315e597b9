"""``read_data`` and ``write_data``: one interface to all kinds of files, chosen by the file's name.

Data for a model (``ReadOptions.model``) are read as the model's own columns: of a table those with the names of its
features, whatever else there is; of LETOR text those with its numbers.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from rankwood.data import table_files
from rankwood.data.categories import Categorical, asked_for
from rankwood.data.dataset import RankingData
from rankwood.data.letor.text import read_letor, with_positions, write_letor
from rankwood.data.sources import (
    InputFile,
    Paths,
    display_name,
    find_inputs,
    is_regular_file,
    is_table,
    open_source,
    refuse_foreign_format,
)
from rankwood.data.tables import TableFiles, given_roles, read_files, write_table
from rankwood.dtypes import FEATURE, Features
from rankwood.errors import DataError, DataWarning, ParameterError, named

_HEAD_BYTES = 4096
_LETOR_OPTIONS = (
    "n_features",
    "absent",
    "order",
    "overflow",
    "strict",
    "cache",
    "verify",
    "n_threads",
    "progress",
)


@dataclass(frozen=True)
class ModelFeatures:
    """The features that a model takes: how many, and their names if they have any.

    ``may_have_more`` says that the number may only be that of the features that an imported file names.
    """

    n_features: int
    names: tuple[str, ...] | None = None
    may_have_more: bool = False
    categorical: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # categories by name

    def hint(self, width: int) -> str:
        """What to do about data of more features, if the model was imported from a file that does not know them."""
        if not self.may_have_more:
            return ""
        return f" If the model was imported, import it again with {named('n_features')} {width}."

    @property
    def are_numbered(self) -> bool:
        """Whether the names are numbers of features of LETOR text."""
        return self.names is not None and all(_is_number(name) for name in self.names)


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading. The first group is for tables, the second for LETOR text, the third for both."""

    label: str | None = "label"  # None: the table has no labels, or they are ignored
    query: str | None = "qid"
    doc: str | None = None
    row_weight: str | None = None
    query_weight: str | None = None

    absent: Literal["zero", "missing"] = "zero"
    order: Literal["ascending", "any"] = "ascending"
    n_features: int | None = None
    overflow: Literal["error", "missing"] = "error"
    cache: bool | None = None
    verify: bool = False

    features: Sequence[str] | None = None  # names of columns, or numbers of features of LETOR text
    drop: tuple[str, ...] = ()
    categorical: Categorical = ()  # columns of tables; those of a model have its categories
    model: ModelFeatures | None = None  # takes its own features, unless ``features`` says which
    position: str | None = None  # a column of a table, or the number of a feature of LETOR text
    strict: bool = False
    n_threads: int | None = None
    progress: Callable[[int, int | None], None] | None = None

    def chosen(self, names: Sequence[str]) -> dict[str, Any]:
        """The options of these names, as arguments of a reader."""
        return {name: getattr(self, name) for name in names}

    @property
    def wanted_model(self) -> ModelFeatures | None:
        """The model whose features are wanted; None where they are named."""
        return self.model if self.features is None else None


def listed(names: Sequence[str]) -> tuple[str, ...]:
    """Names as a tuple; text stays text, which is refused where columns are chosen: it is no list of letters."""
    return names if isinstance(names, str) else tuple(names)  # type: ignore[return-value]


def read_data(paths: Paths, options: ReadOptions = ReadOptions()) -> RankingData:
    """Ranking data from tables or LETOR text, by the names of the files; ``-`` reads LETOR text from standard input."""
    inputs = find_inputs(paths)
    if is_table(inputs[0].path):
        return read_files(tables_of(inputs, options), options.strict)
    for each in inputs:
        refuse_foreign_format(each.path)
    for name in asked_for(options.categorical):
        raise ParameterError(
            f"{display_name(inputs[0].path)} is LETOR text, whose features are numbers: {named('categorical', [name])} "
            "is for tables."
        )
    columns = LetorColumns(inputs, without_position(inputs, options))
    data = read_letor(inputs, **options.chosen(_LETOR_OPTIONS))
    columns.check(data.n_features)
    features, judgments = columns.of(data.features), data.judgments
    if options.position is not None:
        name = str(display_name(inputs[0].path))
        judgments = with_positions(data, options.position, name).judgments
    if features is data.features:
        return data
    chosen = RankingData.from_judgments(features, judgments, columns.names(data.n_features))
    return chosen.with_absent(data.absent)


def roles_in(options: ReadOptions) -> dict[str, str | None]:
    """The column of each role, as far as the options name one."""
    return given_roles(
        options.label,
        options.query,
        options.doc,
        options.row_weight,
        options.query_weight,
        options.position,
    )


def tables_of(inputs: Sequence[InputFile], options: ReadOptions) -> TableFiles:
    """Table files, with the columns that the options say."""
    given = roles_in(options)
    model, asked = options.wanted_model, asked_for(options.categorical)
    if options.model is not None:
        wanted = options.features
        known = options.model.categorical.items()
        asked |= {name: one for name, one in known if wanted is None or name in wanted}
    if model is None:
        return TableFiles(inputs, given, options.features, options.drop, None, asked)
    if model.names is None:
        return TableFiles(inputs, given, None, options.drop, model.n_features, asked)
    return TableFiles(inputs, given, model.names, (), model.n_features, asked)


class LetorColumns:
    """The columns of LETOR text that the options say: all, some by their numbers, or those that a model knows."""

    def __init__(self, inputs: Sequence[InputFile], options: ReadOptions) -> None:
        more = f" and {len(inputs) - 1:,} more" if len(inputs) > 1 else ""
        self._name = f"{display_name(inputs[0].path)}{more}"
        self._model = options.wanted_model
        self._absent = options.absent
        self._chosen: list[int] | None = None
        self._dropped: set[int] = set()
        if self._model is not None and self._model.are_numbered:
            self._chosen = self._numbers(self._model.names or ())
            return
        self._dropped = set(self._numbers(options.drop))
        if options.features is not None:
            self._chosen = self._numbers(options.features)
            twice = self._dropped.intersection(self._chosen)
            if twice or len(set(self._chosen)) < len(self._chosen):
                raise ParameterError(
                    f"a feature is given more than once by {named('features')} and {named('drop')}."
                )

    def _numbers(self, names: Sequence[str]) -> list[int]:
        for name in names:
            if not _is_number(name):
                raise ParameterError(
                    f"{self._name} is LETOR text, whose features are numbered from 1: '{name}' is none of them."
                )
        return [int(name) for name in names]

    @property
    def width(self) -> int | None:
        """How many features the text should have; None where that is for the text to say."""
        if self._model is None:
            return None
        return max(self._chosen) if self._chosen else self._model.n_features + len(self._dropped)

    def check(self, width: int, *, is_over: bool = True) -> None:
        """Compare the width of the text, or of its lines so far, with what is wanted; warn, or raise."""
        if self._model is None:
            lacking = sorted(
                number for number in (*(self._chosen or ()), *self._dropped) if number > width
            )
            if lacking and is_over:
                raise DataError(
                    f"{self._name} has features up to {width:,}: there is no {lacking[0]:,}."
                )
            return
        wanted = self.width or 0
        known = (
            f"{self._name} has features up to {width:,}, but the model was trained on {wanted:,}"
        )
        if width > wanted and self._chosen is None:
            raise DataError(
                f"{known}. Say which to take with {named('features')}, or {named('drop')} others."
                f"{self._model.hint(width)}"
            )
        if width >= wanted or not is_over:
            return
        if self._model.names is not None and self._chosen is None:
            raise DataError(
                f"{known}, which have names. LETOR text has none, so it is not known which features these are: convert "
                "it to a table with the names."
            )
        absent = "missing" if self._absent == "missing" else "0"
        warnings.warn(f"{known}: the others are {absent} in every row.", DataWarning, stacklevel=4)

    def of(self, features: Features) -> Features:
        """The wanted columns of some rows; features that the rows do not reach are absent."""
        width = features.shape[1]
        numbers = self._of_width(width)
        if numbers is None:
            return features
        least = max(numbers, default=0)
        if width < least:
            wide = np.full(
                (len(features), least), np.nan if self._absent == "missing" else 0.0, FEATURE
            )
            wide[:, :width] = features
            features, width = wide, least
        if numbers == list(range(1, width + 1)):
            return features
        return np.ascontiguousarray(features[:, np.array(numbers, int) - 1])

    def names(self, width: int) -> tuple[str, ...] | None:
        """The names of the wanted columns: their numbers, where these are not 1, 2, 3 and so on."""
        numbers = self._of_width(width)
        if numbers is None or numbers == list(range(1, len(numbers) + 1)):
            return None
        return tuple(map(str, numbers))

    def _of_width(self, width: int) -> list[int] | None:
        """The numbers of the wanted columns of text of this width; None where all are."""
        if self._chosen is not None:
            return self._chosen
        if self._model is None and not self._dropped:
            return None
        return [
            number for number in range(1, (self.width or width) + 1) if number not in self._dropped
        ]


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and not name.startswith("0")


def position_if_there(paths: Paths, options: ReadOptions) -> ReadOptions:
    """The options without the column of positions where a table has none: judged data beside a log."""
    file = find_inputs(paths)[0]
    if options.position is None or not is_table(file.path) or not is_regular_file(file.path):
        return options
    with table_files.open_table(file.path) as source:
        is_there = options.position in {*source.names, *dict(file.keys)}
    return options if is_there else dataclasses.replace(options, position=None)


def without_position(paths: Paths, options: ReadOptions) -> ReadOptions:
    """The options with the positions left out, as scores need none."""
    if options.position is None:
        return options
    here = position_if_there(paths, options)
    drop = options.drop if here.position is None else (*options.drop, options.position)
    return dataclasses.replace(options, position=None, drop=drop)


def write_data(
    data: RankingData, path: str | os.PathLike[str], *, skip_zeros: bool = False
) -> None:
    """Write a table or LETOR text, by the file's name; ``-`` writes LETOR text to standard output."""
    if is_table(path):
        write_table(data, path)
    else:
        refuse_foreign_format(path)
        write_letor(data, path, skip_zeros=skip_zeros)


def is_run_file(path: str | os.PathLike[str]) -> bool:
    """Whether the first line has the six fields of a TREC run; False for a pipe, which cannot be read twice."""
    return len(_first_fields(path)) == 6  # qid Q0 docid rank score tag


def is_qrels_file(path: str | os.PathLike[str]) -> bool:
    """Whether the first line has the four fields of qrels, and is no line of LETOR text; False for a pipe."""
    fields = _first_fields(path)  # qid iteration docid label
    return len(fields) == 4 and not fields[1].startswith(b"qid:") and not is_table(path)


def _first_fields(path: str | os.PathLike[str]) -> list[bytes]:
    """The words of the first line that is not empty; none for a pipe."""
    if not is_regular_file(path):
        return []
    head = bytearray(_HEAD_BYTES)
    with open_source(path) as source:
        n_bytes = source.fill(memoryview(head))
    lines = bytes(head[:n_bytes]).split(b"\n")
    return next((line for line in lines if line.strip()), b"").split()
