"""``rankwood explain``: why documents have their scores, and which features matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.options import Csv, Json, Plot, Reading, Seed, with_reading_options
from rankwood.errors import DataError, ParameterError, UnknownName

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData

_PART_ROWS = 50_000
_PART_VALUES = 1 << 24  # 128 MiB of contributions: a part of wide data has fewer rows


@with_reading_options
def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file, as rankwood train writes it.")
    ],
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="LETOR text, Parquet, CSV or Arrow. Importance by gain, cover and splits needs none.",
        ),
    ] = None,
    *,
    qid: Annotated[
        str | None, typer.Option(metavar="ID", help="Explain the list of this query.")
    ] = None,
    document: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Explain one document, by its id; without ids, by its place among the query's rows, from 1.",
        ),
    ] = None,
    why: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Explain why document A is above document B."),
    ] = None,
    importance: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Which features matter: by gain, cover, splits, permutation or contribution.",
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option("--measure", "-m", help="Permutation: what is lost, such as map.")
    ] = "ndcg@10",
    repetitions: Annotated[
        int, typer.Option(min=1, help="Permutation: how often each feature is shuffled.")
    ] = 5,
    background: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Documents to compare with, instead of the training rows."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, help="Features, or documents of a list, to show.")
    ] = 10,
    plot: Plot = None,
    csv: Csv = None,
    seed: Seed = 0,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Explain scores: of one document, of the order of two, of a query's list, or of a whole data set.

    What each feature adds is its exact Shapley value: the parts and the base sum to the score. A data set is read part
    by part; what is shown is the mean size of each feature's part.

    Example: rankwood explain model.rankwood test.txt.gz --qid 17 --why A B --plot why.svg

    Example: rankwood explain model.rankwood vali.txt.gz --importance permutation --measure map
    """
    from rankwood.evaluation.plots import refuse_other_plots

    asked = {"--qid": qid, "--document": document, "--why": why, "--importance": importance}
    _refuse_together({name for name, value in asked.items() if value is not None})
    if plot is not None:
        refuse_other_plots(plot)
    task = _Task(model, data, background, reading)
    found: Any
    if importance is not None:
        found = task.importance(importance, measure, repetitions, seed)
    elif why is not None:
        found = task.why(*why, qid)
    elif document is not None:
        found = task.document(document, qid)
    elif qid is not None:
        found = task.list_of(qid)
    else:
        found = task.mean_sizes()
    if csv is not None:
        found.write_csv(csv)
    if plot is not None:
        found.plot(plot, top)
    _show(found, top, as_json)


def _refuse_together(asked: set[str]) -> None:
    for one, other in (
        ("--document", "--why"),
        ("--importance", "--qid"),
        ("--importance", "--document"),
        ("--importance", "--why"),
    ):
        if {one, other} <= asked:
            raise ParameterError(f"{one} and {other} ask for different things: choose one.")


def _show(found: Any, top: int, as_json: bool) -> None:
    if as_json:
        printing.show_json(found.to_dict(top))
        return
    rows = found.texts(top)
    printing.heading(found.title)
    printing.show_table(list(rows[0]), [list(row.values()) for row in rows])


class _Task:
    """A loaded model, and the data it is asked about."""

    def __init__(self, model: str, data: str | None, background: str | None, reading: Reading):
        from rankwood.rankers.save import load, n_features_of

        self.reading, self.path = reading, data
        self.model = load(model)
        self.n_features = n_features_of(self.model)
        self.n_threads: int | None = reading.options["n_threads"]
        self.background = None if background is None else self._read(background)

    def importance(self, by: str, measure: str, repetitions: int, seed: int) -> Any:
        from rankwood.evaluation.importance import KINDS, importance

        if by not in KINDS:
            raise UnknownName("importance", by, KINDS)
        if by == "contribution":
            return self.mean_sizes()
        data = None
        if by == "permutation":
            data = self.reading(self._path(), n_features=self.n_features)
        return importance(
            self.model,
            data,
            by,
            measure=measure,
            repetitions=repetitions,
            seed=seed,
            n_threads=self.n_threads,
        )

    def mean_sizes(self) -> Any:
        """Features by the mean size of their contributions, over all of the data."""
        from rankwood.evaluation.explain import model_of, names_of
        from rankwood.evaluation.importance import MeanSizes

        stored = model_of(self.model)
        sizes = MeanSizes.of(stored, self.background, self.n_threads)
        names = names_of(stored)
        for part in self._parts():
            sizes.add(part)
            names = names_of(stored, part)
        return sizes.importance(names)

    def list_of(self, qid: str) -> Any:
        return self._explain(self._rows_of(qid)).query(qid)

    def document(self, document: str, qid: str | None) -> Any:
        found = self._explain(self._documents([document], qid))
        return found.document(found.find(document, qid))

    def why(self, a: str, b: str, qid: str | None) -> Any:
        found = self._explain(self._documents([a, b], qid))
        return found.why(found.find(a, qid), found.find(b, qid))

    def _documents(self, documents: list[str], qid: str | None) -> RankingData:
        """The rows among which the documents are found: the query's, or all that have one of the ids."""
        if qid is not None:
            return self._rows_of(qid)
        data: RankingData = self._read(self._path())
        if data.doc_ids is None:
            raise DataError(f"{self.path} has no document ids: say of which query with --qid.")
        ids = [str(given) for given in data.doc_ids.tolist()]
        for document in documents:
            if document not in ids:
                raise UnknownName("document", document, set(ids))
        return data.take_rows([row for row, given in enumerate(ids) if given in documents])

    def _rows_of(self, qid: str) -> RankingData:
        """The rows of one query; reading ends where it is found."""
        seen: dict[str, None] = {}
        for part in self._parts():
            if part.query_ids is None:
                raise DataError(f"{self.path} has no query ids, so no query can be asked for.")
            for number, query in enumerate(part.queries.tolist()):
                if str(query) == qid:
                    return part.take_queries([number])
                seen[str(query)] = None
        raise UnknownName("query", qid, seen)

    def _explain(self, data: RankingData) -> Any:
        from rankwood.data.reading import is_table
        from rankwood.evaluation.explain import explain

        found = explain(self.model, data, background=self.background, n_threads=self.n_threads)
        return replace(found, labels=None) if is_table(self._path()) else found

    def _path(self) -> str:
        if self.path is None:
            raise ParameterError(
                "this needs DATA: only importance by gain, cover and splits does not."
            )
        return self.path

    def _changes(self) -> dict[str, Any]:
        """How documents are read: whatever labels they have are left aside."""
        changes: dict[str, Any] = {"label": None, "n_features": self.n_features}
        label = self.reading.options["label"]
        if label != "label":  # a column of this name is no feature in any case
            changes["drop"] = (*self.reading.options["drop"], label)
        return changes

    def _read(self, path: str) -> Any:
        return self.reading(path, **self._changes())

    def _parts(self) -> Iterator[RankingData]:
        n_rows = max(1, min(_PART_ROWS, _PART_VALUES // self.n_features))
        return self.reading.parts(self._path(), n_rows, **self._changes())
