"""Requests and answers: what a request may say, as one schema for checks and documentation, and how it is answered.

``rank`` and ``score`` turn the text of a request into the body of its answer. ``parse_request`` reads the text. Its
features are not looked at there: only the skeleton of a ``JsonText`` becomes Python objects, and what is wrong with
features is found where the model is known. How many documents and values there are is counted before anything is made
of them.

``documentation_page`` explains the service, from its own schema; the page loads nothing from elsewhere.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError, to_json
from starlette.requests import HTTPConnection

from rankwood.dtypes import Features, Floats
from rankwood.errors import ModelError
from rankwood.models.format import kind_of
from rankwood.models.json_text import JsonText
from rankwood.models.shapley import contributions
from rankwood.serve.store import (
    FieldError,
    ModelSlot,
    ModelStore,
    RequestRows,
    ServedModel,
    order_of,
    plain,
    shown,
)

_LARGEST_ID = 1000  # characters
_TOKENS_PER_DOCUMENT = 8  # braces, commas, and some room
_TOKENS_OF_REQUEST = 1000
_QUERIES: Any = {
    "queries": [
        {"query_id": "q1", "documents": [{"id": "a", "features": [0.3, 11.0]}]},
        {"query_id": "q2", "documents": [{"id": "b", "features": [0.7, None]}]},
    ]
}
_DOCUMENTS: Any = {
    "query_id": "q1",
    "documents": [{"id": "a", "features": [0.3, 11.0]}, {"id": "b", "features": [0.7, None]}],
    "top_k": 10,
}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { padding: .8rem; overflow-x: auto; border: 1px solid #8885; border-radius: .4rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .25rem 1rem .25rem 0; vertical-align: top; }
h2 { margin-top: 2.2rem; } .method { font-weight: 700; }
"""
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
_VALUE = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]}


def _refuse_other_than_values(features: Any) -> Any:
    if type(features) in (
        int,
        list,
        dict,
    ):  # the number of a row, or what is not to be taken for one
        return features
    raise PydanticCustomError(
        "features", "Input should be a list of values, or an object of values by name"
    )


Id = Annotated[str, Field(max_length=_LARGEST_ID)] | int
FeatureValues = Annotated[
    Any,
    AfterValidator(_refuse_other_than_values),
    WithJsonSchema(
        {
            "description": "Values in the model's order, or by name; null is a missing value. What a name is that is "
            "left out, the model's training says, or who runs the service. A categorical feature takes the name of a "
            "category as text, every other one a number; GET /models says which are categorical.",
            "anyOf": [
                {"type": "array", "items": _VALUE},
                {"type": "object", "additionalProperties": _VALUE},
            ],
        }
    ),
]


Item = TypeVar("Item")
FirstError = Annotated[list[Item], Field(fail_fast=True)]  # of which one error is named, not all
ModelName = Annotated[
    str | None, Field(description="Which model; may be left out where one is served.")
]
QueryId = Annotated[Id | None, Field(description="Given back in the answer.")]
OfOneQuery = Annotated[FirstError[Item] | None, Field(description="Of one query.")]
OfSeveralQueries = Annotated[
    FirstError[Item] | None,
    Field(description="Instead of documents: several queries, each with its own."),
]


@dataclass(frozen=True)
class RequestLimits:
    """The limits of the service, and what it does with what is left out."""

    max_documents: int = 1000
    max_body: int = 16 * 2**20  # bytes
    body_budget: int = 128 * 2**20  # bytes of all bodies that are being read or waiting
    queue: int = 64  # requests that may wait for a worker
    timeout: float = 10.0  # seconds, from the first byte of a request to its answer
    workers: int = 1  # threads that score
    token: str | None = None
    absent: str | None = None  # zero, missing or refuse; None: as the model was trained
    refuse_missing: bool = False


class Unnamed(BaseModel):
    """A document to be scored."""

    model_config = ConfigDict(extra="forbid")
    id: Annotated[Id | None, Field(description="Not looked at.")] = None
    features: FeatureValues


class Document(BaseModel):
    """A document to be ranked."""

    model_config = ConfigDict(extra="forbid")
    id: Id
    features: FeatureValues


class UnnamedOfQuery(BaseModel):
    """The documents of one query, to be scored."""

    model_config = ConfigDict(extra="forbid")
    query_id: QueryId = None
    documents: FirstError[Unnamed]


class DocumentsOfQuery(BaseModel):
    """The documents of one query, to be put in order."""

    model_config = ConfigDict(extra="forbid")
    query_id: QueryId = None
    documents: FirstError[Document]


class ScoreRequest(BaseModel):
    """Documents to be scored, of one query or of several."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _DOCUMENTS})
    model: ModelName = None
    query_id: QueryId = None
    documents: OfOneQuery[Unnamed] = None
    queries: OfSeveralQueries[UnnamedOfQuery] = None


class RankRequest(BaseModel):
    """Documents to be put in order, for one query or for several."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [_DOCUMENTS, _QUERIES]}
    )
    model: ModelName = None
    query_id: QueryId = None
    documents: OfOneQuery[Document] = None
    queries: OfSeveralQueries[DocumentsOfQuery] = None
    top_k: Annotated[
        int | None, Field(ge=1, description="Answer with the best so many only; all by default.")
    ] = None
    explain: Annotated[
        int,
        Field(ge=0, le=1000, description="Give the so many largest contributions to each score."),
    ] = 0


class Contribution(BaseModel):
    """What one feature adds to a document's score."""

    feature: str
    value: Annotated[
        float | str | None,
        Field(description="Text of a categorical feature; left out where it is missing."),
    ] = None
    contribution: float


class Ranked(BaseModel):
    """A document at its place; rank 1 is the best."""

    rank: int
    id: str | int
    score: float
    contributions: list[Contribution] | None = None


class RankedQuery(BaseModel):
    """The documents of a query from the best to the worst; equal scores keep the order of the request."""

    query_id: str | int | None = None
    documents: list[Ranked]


class ScoredQuery(BaseModel):
    """The scores of a query's documents, in the order of the request."""

    query_id: str | int | None = None
    scores: list[float]


class _Answer(BaseModel):
    model: str
    alias: Annotated[
        str | None, Field(description="What the request called the model, if an alias.")
    ] = None
    version: Annotated[str, Field(description="The digest of the model's file.")]
    query_id: str | int | None = None


class ScoreAnswer(_Answer):
    """Scores, in the order of the request: of the documents, or of each query where the request has several."""

    scores: list[float] | None = None
    queries: list[ScoredQuery] | None = None


class RankAnswer(_Answer):
    """Documents in order: those of the query, or of each query where the request has several."""

    base: Annotated[
        float | None, Field(description="With explain: base + contributions = score.")
    ] = None
    documents: list[Ranked] | None = None
    queries: list[RankedQuery] | None = None


class ModelAnswer(BaseModel):
    """A model that is served."""

    name: str
    version: str
    kind: str
    estimator: str | None
    features: list[str]
    categorical: Annotated[
        dict[str, list[str]],
        Field(description="The categories of each categorical feature; other names are unknown."),
    ]
    n_trees: int | None
    absent: Annotated[
        str, Field(description="What a name is that is left out: zero, missing, or refuse.")
    ]
    reloads: int
    failures: int
    problem: Annotated[
        str | None, Field(description="Why the file as it is now could not be loaded, if so.")
    ]


class AliasAnswer(BaseModel):
    """A further name, for shares of models in per cent."""

    name: str
    shares: dict[str, float]
    shadows: dict[str, float]


class ModelsAnswer(BaseModel):
    """All models that are served, and further names of theirs."""

    models: list[ModelAnswer]
    aliases: list[AliasAnswer]


class HealthAnswer(BaseModel):
    """The service runs."""

    status: str
    models: int
    in_flight: int


class Problem(BaseModel):
    """What was wrong, and in which field."""

    message: str
    field: str | None = None


class ErrorAnswer(BaseModel):
    """An answer that is none."""

    error: Problem


Request = TypeVar("Request", RankRequest, ScoreRequest)


@dataclass(frozen=True)
class RequestLists:
    """The lists of documents of a request: one, or one for each of its queries."""

    rows: RequestRows
    lists: Sequence[
        tuple[str | int | None, Sequence[Any]]
    ]  # the id of each query, and its documents
    key: str | int | None  # the query's id, or that of the first one


def parse_request(
    kind: type[Request], text: JsonText, max_documents: int, n_features: int
) -> tuple[Request, RequestLists]:
    """The request in a text, or a ``FieldError`` that names the field.

    ``n_features`` is that of the widest model: a request has no use for more values than its documents can have.
    """
    if text.is_too_deep:
        raise FieldError("body", "Invalid JSON: brackets are nested too deeply.")
    if text.n_documents > max_documents:
        raise FieldError(
            "documents",
            f"{text.n_documents:,} documents are more than the {max_documents:,} allowed at once.",
        )
    most_tokens = max_documents * (_TOKENS_PER_DOCUMENT + 2 * n_features) + _TOKENS_OF_REQUEST
    if text.n_tokens > most_tokens:
        raise FieldError(
            "body", f"{text.n_tokens:,} values are more than any request needs ({most_tokens:,})."
        )
    try:
        request = kind.model_validate_json(text.skeleton)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise FieldError(_field_path(first["loc"]), f"{first['msg']}.") from None
    return request, _lists_of(request, text)


def _lists_of(request: RankRequest | ScoreRequest, text: JsonText) -> RequestLists:
    if request.documents is not None and request.queries is not None:
        raise FieldError("queries", "send documents, or queries of them, not both.")
    if request.queries is not None:
        if request.query_id is not None:
            raise FieldError("query_id", "each of the queries has an id of its own.")
        lists: list[Any] = [(query.query_id, query.documents) for query in request.queries]
        paths = [
            f"queries.{query}.documents.{document}"
            for query, (_, documents) in enumerate(lists)
            for document in range(len(documents))
        ]
    elif request.documents is not None:
        lists = [(request.query_id, request.documents)]
        paths = []
    else:
        raise FieldError("documents", "Field required: documents, or queries of them.")
    features = [document.features for _, documents in lists for document in documents]

    def path_of(document: int) -> str:
        return paths[document] if paths else f"documents.{document}"

    expected = 0
    for document, values in enumerate(features):
        if type(values) is int:
            if values != expected or values >= len(text.rows):  # the text has a number there
                raise FieldError(
                    f"{path_of(document)}.features",
                    "Input should be a list of values, or an object of values by name.",
                )
            expected += 1
    rows = RequestRows(text, features, path_of)
    return RequestLists(rows, lists, lists[0][0] if lists else None)


def _field_path(location: tuple[Any, ...]) -> str:
    """The path to the field of an error, without the names of the alternatives that were tried."""
    tried = ("list[", "dict[", "nullable[", "constrained-", "str", "int", "function-")
    parts = [str(part) for part in location]
    return ".".join(shown(part) for part in parts if not part.startswith(tried)) or "body"


# Answers.


@dataclass(frozen=True)
class Answered:
    """An answer, ready to be sent, and what is counted of it or compared with it."""

    body: bytes
    model: str
    n_documents: int
    lists: RequestLists
    scores: Sequence[Floats]  # of each query
    shadows: Sequence[ServedModel]


def rank(text: JsonText, store: ModelStore, limits: RequestLimits) -> Answered:
    """Score and order the documents of a request."""
    request, lists = parse_request(RankRequest, text, limits.max_documents, _widest(store))
    served, matrix, scores = _scored(request, lists, store, limits)
    answer = _head_of_answer(request, served)
    ranked = []
    first = 0
    for (query_id, documents), part in zip(lists.lists, scores, strict=True):
        order = order_of(part, request.top_k)
        values = part.tolist()
        in_order: list[dict[str, Any]] = [
            {"rank": place, "id": documents[number].id, "score": values[number]}
            for place, number in enumerate(order, start=1)
        ]
        if request.explain:
            rows = matrix[first : first + len(documents)][order]
            sent = [lists.rows.features[first + number] for number in order]
            answer["base"] = _explain(in_order, served, rows, sent, request.explain)
        first += len(documents)
        ranked.append(_of_query(query_id, documents=in_order))
    return _answered(request, answer, ranked, served, store, lists, scores)


def score(text: JsonText, store: ModelStore, limits: RequestLimits) -> Answered:
    """Score the documents of a request."""
    request, lists = parse_request(ScoreRequest, text, limits.max_documents, _widest(store))
    served, _, scores = _scored(request, lists, store, limits)
    scored = [
        _of_query(query_id, scores=part.tolist())
        for (query_id, _), part in zip(lists.lists, scores, strict=True)
    ]
    answer = _head_of_answer(request, served)
    return _answered(request, answer, scored, served, store, lists, scores)


def same_best(shadow: ServedModel, answered: Answered, limits: RequestLimits) -> int:
    """Of how many queries a model that scores unseen puts the same document first."""
    matrix = shadow.matrix(answered.lists.rows, limits.absent, refuse_missing=limits.refuse_missing)
    scores = _by_query(shadow.score(matrix), answered.lists)
    return sum(
        int(theirs.argmax()) == int(ours.argmax())
        for theirs, ours in zip(scores, answered.scores, strict=True)
        if len(ours)
    )


def _widest(store: ModelStore) -> int:
    return max(len(entry.served.features) for entry in store.entries())


def _scored(
    request: RankRequest | ScoreRequest,
    lists: RequestLists,
    store: ModelStore,
    limits: RequestLimits,
) -> tuple[ServedModel, Features, Sequence[Floats]]:
    """The model of a request, its documents' features, and the scores of each query's documents."""
    served = store.get(request.model, lists.key)
    matrix = served.matrix(lists.rows, limits.absent, refuse_missing=limits.refuse_missing)
    return served, matrix, _by_query(served.score(matrix), lists)


def _by_query(scores: Floats, lists: RequestLists) -> list[Floats]:
    parts = []
    first = 0
    for _, documents in lists.lists:
        parts.append(scores[first : first + len(documents)])
        first += len(documents)
    return parts


def _head_of_answer(request: RankRequest | ScoreRequest, served: ServedModel) -> dict[str, Any]:
    head: dict[str, Any] = {"model": served.name}
    if request.model is not None and request.model != served.name:
        head["alias"] = request.model
    head["version"] = served.digest
    return head


def _of_query(query_id: str | int | None, **content: Any) -> dict[str, Any]:
    return content if query_id is None else {"query_id": query_id, **content}


def _answered(
    request: RankRequest | ScoreRequest,
    answer: dict[str, Any],
    queries: list[dict[str, Any]],
    served: ServedModel,
    store: ModelStore,
    lists: RequestLists,
    scores: Sequence[Floats],
) -> Answered:
    answer.update({"queries": queries} if request.queries is not None else queries[0])
    shadows = store.shadows_of(request.model, lists.key)
    n_documents = sum(len(part) for part in scores)
    return Answered(to_json(answer), served.name, n_documents, lists, scores, shadows)


def _explain(
    documents: list[dict[str, Any]],
    served: ServedModel,
    matrix: Features,
    sent: Sequence[Any],
    n_largest: int,
) -> float:
    """Add the largest contributions to each score; returns what they are added to.

    ``sent`` are the features as the request has them, which say what a category was called.
    """
    try:
        values, base = contributions(served.model, matrix, n_threads=1)
    except ModelError as error:
        raise FieldError("explain", f"model '{served.name}': {error}") from None

    def value_of(row: Features, features: Any, column: int) -> float | str:
        if column not in served.codes:
            return float(row[column])
        key = served.features[column] if isinstance(features, dict) else column
        return plain(features[key])

    for document, row, features, added in zip(documents, matrix, sent, values, strict=True):
        largest = sorted(range(len(added)), key=lambda feature: -abs(added[feature]))
        document["contributions"] = [
            {
                "feature": served.features[feature],
                **({} if isnan(row[feature]) else {"value": value_of(row, features, feature)}),
                "contribution": float(added[feature]),
            }
            for feature in largest[:n_largest]
            if added[feature] != 0.0
        ]
    return float(base)


def describe(entry: ModelSlot, absent: str | None = None) -> ModelAnswer:
    """What ``GET /models`` says of a model."""
    served = entry.served
    kind: Any = kind_of(served.model)
    estimator = served.meta.get("estimator")
    return ModelAnswer(
        name=served.name,
        version=served.digest,
        kind=str(kind),
        estimator=None if estimator is None else plain(str(estimator)),
        features=list(served.features),
        categorical={
            name: [plain(category) for category in categories]
            for name, categories in served.categories.items()
        },
        n_trees=getattr(served.model, "n_trees", None),
        absent=absent or served.absent or "refuse",
        reloads=entry.reloads,
        failures=entry.failures,
        problem=entry.problem,
    )


def describe_aliases(store: ModelStore) -> list[AliasAnswer]:
    """What ``GET /models`` says of the other names of models."""
    names = dict.fromkeys([*store.aliases, *store.shadows])
    return [
        AliasAnswer(
            name=name,
            shares=dict(store.aliases[name].shares) if name in store.aliases else {name: 100.0},
            shadows=dict(store.shadows[name].shares) if name in store.shadows else {},
        )
        for name in names
    ]


# The page of documentation.


def documentation_page(schema: dict[str, Any], store: ModelStore, request: HTTPConnection) -> str:
    """Paths, their answers, an example that works, and the models at hand."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{_text(schema['info']['title'])}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(schema['info']['title'])}</h1>",
        "<p>Version " + _text(schema["info"]["version"]) + ". ",
        "The schema for machines: <a href='openapi.json'>openapi.json</a>.</p>",
        "<h2>Try it</h2><pre><code>" + _text(_example(store, _address(request))) + "</code></pre>",
        "<h2>Models</h2>" + _models(store),
    ]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation(path, method, operation))
    for path in ("/rank", "/score"):
        parts.append(f"<h2>Fields of a request to {path}</h2>")
        parts.append(_fields(schema["paths"][path]["post"]))
    return "".join(parts) + "</body></html>"


def _address(request: HTTPConnection) -> str:
    """Where the page was asked for; where a client claims a strange host, where the service listens."""
    host = request.headers.get("host", "")
    server = request.scope.get("server") or ("localhost", None)
    if not _HOST.fullmatch(host):
        name, port = server
        host = f"[{name}]:{port}" if ":" in name else f"{name}:{port}" if port else name
    return f"{request.scope.get('scheme', 'http')}://{host}"


def _example(store: ModelStore, address: str) -> str:
    entry = store.entries()[0]
    served = entry.served
    documents = [
        {
            "id": name,
            "features": {
                feature: next(iter(served.codes[column]), None) if column in served.codes else value
                for column, feature in enumerate(served.features[:2])
            },
        }
        for name, value in (("a", 0.5), ("b", 1.5))
    ]
    body = json.dumps({"model": entry.served.name, "documents": documents}).replace("'", "'\\''")
    return f"curl -s {address}/rank -H 'Content-Type: application/json' -d '{body}'"


def _models(store: ModelStore) -> str:
    rows = "".join(
        f"<tr><td><code>{_text(entry.served.name)}</code></td><td>{_features(entry.served)}</td>"
        f"<td>{_text(str(entry.served.meta.get('estimator') or ''))}</td></tr>"
        for entry in store.entries()
    )
    return f"<table>{rows}</table>"


def _features(served: ServedModel) -> str:
    """How many features a model has, and the names of those that are categorical."""
    names = ", ".join(f"<code>{_text(shown(name))}</code>" for name in served.categories)
    return f"{len(served.features)} features" + (f", categorical: {names}" if names else "")


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    answers = "".join(
        f"<tr><td>{_text(status)}</td><td>{_text(answer.get('description', ''))}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<h2><span class='method'>{method.upper()}</span> <code>{_text(path)}</code></h2>"
        f"<p>{_text(operation.get('summary', ''))}.</p><table>{answers}</table>"
    )


def _fields(operation: dict[str, Any]) -> str:
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    rows = "".join(
        f"<tr><td><code>{_text(name)}</code></td><td>{_text(field.get('description', ''))}</td></tr>"
        for name, field in schema["properties"].items()
    )
    return (
        f"<table>{rows}</table><p>A document has an <code>id</code> and <code>features</code>: values in the model's "
        "order, or by name; null is a missing value. A categorical feature takes the name of a category as text. What "
        "a name is that is left out, <code>GET /models</code> says of each model: <code>absent</code>.</p>"
    )


def _text(value: str) -> str:
    return html.escape(str(value))
