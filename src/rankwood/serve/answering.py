"""From the body of a request to the body of its answer, on a worker's thread."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

from rankwood.dtypes import Features
from rankwood.errors import ModelError
from rankwood.models.explain import contributions
from rankwood.models.kinds import kind_of
from rankwood.serve.schema import (
    Contribution,
    ModelAnswer,
    RankAnswer,
    Ranked,
    RankRequest,
    parse_request,
)
from rankwood.serve.scorer import FieldError, ServedModel, order_of
from rankwood.serve.store import Entry, ModelStore


@dataclass(frozen=True)
class Answered:
    """An answer, ready to be sent, and what is counted of it."""

    body: bytes
    model: str
    n_documents: int


def rank(body: bytes, store: ModelStore, max_documents: int, *, refuse_missing: bool) -> Answered:
    """Score and order the documents of a request."""
    request = parse_request(body)
    if len(request.documents) > max_documents:
        raise FieldError(
            "documents",
            f"{len(request.documents):,} documents are more than the {max_documents:,} allowed at once.",
        )
    served = store.get(request.model)
    matrix = served.matrix(request.documents, refuse_missing=refuse_missing)
    scores = served.score(matrix)
    order = order_of(scores, request.top_k)
    found = RankAnswer(
        model=served.name,
        version=served.digest,
        query_id=request.query_id,
        documents=[
            Ranked(rank=place + 1, id=request.documents[number].id, score=float(scores[number]))
            for place, number in enumerate(order)
        ],
    )
    if request.explain:
        _explain(found, request, served, matrix[order])
    text = found.model_dump_json(exclude_none=True)
    return Answered(text.encode(), served.name, len(request.documents))


def _explain(
    found: RankAnswer, request: RankRequest, served: ServedModel, matrix: Features
) -> None:
    """Add the largest contributions to each score."""
    try:
        values, base = contributions(served.model, matrix, n_threads=1)
    except ModelError as error:
        raise FieldError("explain", f"model '{served.name}': {error}") from None
    found.base = float(base)
    for document, row, added in zip(found.documents, matrix, values, strict=True):
        largest = sorted(range(len(added)), key=lambda place: -abs(added[place]))
        document.contributions = [
            Contribution(
                feature=served.features[place],
                value=None if isnan(row[place]) else float(row[place]),
                contribution=float(added[place]),
            )
            for place in largest[: request.explain]
            if added[place] != 0.0
        ]


def describe(entry: Entry) -> ModelAnswer:
    """What ``GET /models`` says of a model."""
    served = entry.served
    kind: Any = kind_of(served.model)
    return ModelAnswer(
        name=served.name,
        version=served.digest,
        kind=str(kind),
        estimator=served.meta.get("estimator"),
        features=list(served.features),
        n_trees=getattr(served.model, "n_trees", None),
        problem=entry.problem,
    )
