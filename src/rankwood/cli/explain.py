"""``rankwood explain``: why documents have their scores, and which features matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from rankwood.cli import printing
from rankwood.cli.options import (
    DATA_FORMATS,
    Csv,
    Json,
    ModelFile,
    Plot,
    Reading,
    Seed,
    argument,
    data_option,
    names_of,
    option,
    with_reading_options,
)
from rankwood.errors import DataError, ParameterError, UnknownName

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData

_PART_ROWS = 50_000
_PART_VALUES = 1 << 24  # 128 MiB of contributions: a part of wide data has fewer rows


@with_reading_options
def command(
    model: ModelFile,
    data: Annotated[
        list[str] | None,
        argument("[DATA]...", f"{DATA_FORMATS}. Importance by gain, cover and splits needs none."),
    ] = None,
    *,
    qid: Annotated[str | None, option("Explain the list of this query.", metavar="ID")] = None,
    document: Annotated[
        str | None,
        option(
            "Explain one document, by its id; without ids, by its place among the query's rows, from 1.",
            metavar="ID",
        ),
    ] = None,
    why: Annotated[
        tuple[str, str] | None,
        option("Explain why document A is above document B.", metavar="A B"),
    ] = None,
    importance: Annotated[
        str | None,
        option(
            "Which features matter: by gain, cover, splits, permutation or contribution.",
            metavar="KIND",
        ),
    ] = None,
    measure: Annotated[
        str, option("Permutation: what is lost, such as map.", "--measure", "-m")
    ] = "ndcg@10",
    repetitions: Annotated[
        int, option("Permutation: how often each feature is shuffled.", min=1)
    ] = 5,
    background: Annotated[
        list[str] | None,
        data_option("Documents to compare with, instead of the training rows."),
    ] = None,
    top: Annotated[int, option("Features, or documents of a list, to show.", min=1)] = 10,
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
    result: Any
    if importance is not None:
        result = task.importance(importance, measure, repetitions, seed)
    elif why is not None:
        result = task.why(*why, qid)
    elif document is not None:
        result = task.document(document, qid)
    elif qid is not None:
        result = task.list_of(qid)
    else:
        result = task.mean_sizes()
    if csv is not None:
        result.write_csv(csv)
    if plot is not None:
        result.plot(plot, top)
    _show(result, top, as_json)


def _refuse_together(asked: set[str]) -> None:
    for one, other in (
        ("--document", "--why"),
        ("--importance", "--qid"),
        ("--importance", "--document"),
        ("--importance", "--why"),
    ):
        if {one, other} <= asked:
            raise ParameterError(f"{one} and {other} ask for different things: choose one.")


def _show(result: Any, top: int, as_json: bool) -> None:
    if as_json:
        printing.show_json(result.to_dict(top))
        return
    rows = result.texts(top)
    printing.heading(result.title)
    printing.show_table(list(rows[0]), [list(row.values()) for row in rows])


class _Task:
    """A loaded model, and the data it is asked about."""

    def __init__(
        self, model: str, data: list[str] | None, background: list[str] | None, reading: Reading
    ):
        from rankwood.rankers.save import features_of, load

        self.reading, self.paths = reading, data
        self.model = load(model)
        self.features = features_of(self.model)
        self.n_threads: int | None = reading.options["n_threads"]
        self.background = self._read(background) if background else None

    def importance(self, by: str, measure: str, repetitions: int, seed: int) -> Any:
        from rankwood.evaluation.explain import KINDS, importance

        if by not in KINDS:
            raise UnknownName("importance", by, KINDS)
        if by == "contribution":
            return self.mean_sizes()
        data = None
        if by == "permutation":
            data = self.reading(self._given(), model=self.features)
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
        from rankwood.evaluation.explain import MeanSizes, model_of, names_of

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
        explanation = self._explain(self._documents([document], qid))
        return explanation.document(explanation.find(document, qid))

    def why(self, a: str, b: str, qid: str | None) -> Any:
        explanation = self._explain(self._documents([a, b], qid))
        return explanation.why(explanation.find(a, qid), explanation.find(b, qid))

    def _documents(self, documents: list[str], qid: str | None) -> RankingData:
        """The rows that hold the documents: the query's, or all rows with one of the ids."""
        if qid is not None:
            return self._rows_of(qid)
        data: RankingData = self._read(self._given())
        if data.doc_ids is None:
            raise DataError(
                f"{names_of(self._given())} has no document ids: say of which query with --qid."
            )
        ids = [str(given) for given in data.doc_ids.tolist()]
        for document in documents:
            if document not in ids:
                raise UnknownName("document", document, set(ids))
        return data.take_rows([row for row, given in enumerate(ids) if given in documents])

    def _rows_of(self, qid: str) -> RankingData:
        """The rows of one query; reading stops after the part that has it."""
        seen: dict[str, None] = {}
        for part in self._parts():
            if part.query_ids is None:
                raise DataError(
                    f"{names_of(self._given())} has no query ids, so no query can be asked for."
                )
            for number, query in enumerate(part.queries.tolist()):
                if str(query) == qid:
                    return part.take_queries([number])
                seen[str(query)] = None
        raise UnknownName("query", qid, seen)

    def _explain(self, data: RankingData) -> Any:
        from rankwood.data.sources import find_inputs, is_table
        from rankwood.evaluation.explain import explain

        explanation = explain(
            self.model, data, background=self.background, n_threads=self.n_threads
        )
        is_without_labels = is_table(find_inputs(self._given())[0].path)
        return replace(explanation, labels=None) if is_without_labels else explanation

    def _given(self) -> list[str]:
        if not self.paths:
            raise ParameterError(
                "this needs DATA: only importance by gain, cover and splits does not."
            )
        return self.paths

    def _read(self, paths: list[str]) -> Any:
        return self.reading(paths, **self.reading.without_labels(self.model))

    def _parts(self) -> Iterator[RankingData]:
        n_rows = max(1, min(_PART_ROWS, _PART_VALUES // self.features.n_features))
        changes = self.reading.without_labels(self.model)
        return self.reading.parts(self._given(), n_rows, **changes)
