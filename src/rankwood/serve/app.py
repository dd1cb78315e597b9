"""The scoring service as an ASGI application.

``make_app`` builds it: the gate in front of every request, the paths, the answers to errors. ``RequestLimits`` bounds
the size of a body, the length of the queue and the time of a request. ``rank`` turns the body of a request into the
body of its answer, on a worker's thread. ``Metrics`` counts for Prometheus. ``documentation_page`` explains the
service, from its own schema; the page loads nothing from elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import html
import json
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from rankwood import __version__
from rankwood.dtypes import Features
from rankwood.errors import DataError, ModelError, UnknownName
from rankwood.models.format import kind_of
from rankwood.models.shapley import contributions
from rankwood.serve.schema import (
    Contribution,
    ErrorAnswer,
    HealthAnswer,
    ModelAnswer,
    ModelsAnswer,
    RankAnswer,
    Ranked,
    RankRequest,
    parse_request,
)
from rankwood.serve.store import FieldError, ModelSlot, ModelStore, ServedModel, order_of

_LOG = logging.getLogger(__name__)
_OPEN = ("/healthz",)  # asked by machines that hold no token
_PATHS = ("/rank", "/models", "/healthz", "/metrics", "/docs", "/openapi.json")
_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorAnswer, "description": "The token is missing or wrong."},
    404: {"model": ErrorAnswer, "description": "There is no such model."},
    408: {"model": ErrorAnswer, "description": "It took too long."},
    413: {"model": ErrorAnswer, "description": "The body is too large."},
    422: {"model": ErrorAnswer, "description": "A field cannot be used; the answer names it."},
    503: {"model": ErrorAnswer, "description": "Too many requests are waiting."},
}
# Upper bounds of the buckets of the histogram, in seconds.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { padding: .8rem; overflow-x: auto; border: 1px solid #8885; border-radius: .4rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .25rem 1rem .25rem 0; vertical-align: top; }
h2 { margin-top: 2.2rem; } .method { font-weight: 700; }
"""


@dataclass(frozen=True)
class RequestLimits:
    """The limits of the service."""

    max_documents: int = 1000
    max_body: int = 16 * 2**20  # bytes
    queue: int = 64  # requests that may wait for a worker
    timeout: float = 10.0  # seconds, from the first byte of a request to its answer
    workers: int = 1  # threads that score
    token: str | None = None
    refuse_missing: bool = False


class Refusal(Exception):
    """A request that is answered by a status and a message."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.field = field


class Workers:
    """Threads that score, and a bounded queue before them."""

    def __init__(self, limits: RequestLimits) -> None:
        self._most = limits.workers + limits.queue
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="rankwood-serve")
        self.in_flight = 0

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do ``work`` on a thread; what was begun counts until it is done, even if nobody waits for it any more."""
        if self.in_flight >= self._most:
            raise Refusal(503, f"{self.in_flight} requests are waiting already. Try again soon.")
        self.in_flight += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def close(self) -> None:
        """Let the threads end after the work that has begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self.in_flight -= 1
        if not future.cancelled():
            future.exception()  # retrieved, so that asyncio does not report an abandoned one


async def read_body(request: Request, most: int) -> bytes:
    """The body of a request, refused as soon as it is known to be too large."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
    return b"".join(parts)


def check_token(request: Request, token: str | None) -> None:
    """Refuse a request without the token, if there is one."""
    if token is None:
        return
    given = request.headers.get("authorization", "").encode("latin-1", "replace")
    if not hmac.compare_digest(given, f"Bearer {token}".encode()):
        raise Refusal(401, "this service asks for a token: send 'Authorization: Bearer TOKEN'.")


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body is larger than the {most:,} bytes allowed.", "body")


def make_app(
    store: ModelStore, limits: RequestLimits | None = None, *, reload_seconds: float = 1.0
) -> FastAPI:
    """The service over these models; changed files are looked for every ``reload_seconds``, never if 0."""
    limits = limits or RequestLimits()
    workers, metrics = Workers(limits), Metrics()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watcher = asyncio.create_task(_watch(store, reload_seconds)) if reload_seconds else None
        yield
        if watcher is not None:
            watcher.cancel()
        workers.close()

    app = FastAPI(
        title="Rankwood scoring service",
        version=__version__,
        description="Puts documents in order.",
        docs_url=None,  # the ready-made pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    _add_error_answers(app)
    _add_gate(app, limits, metrics)
    _add_rank(app, store, limits, workers, metrics)
    _add_reports(app, store, workers, metrics)
    return app


async def _watch(store: ModelStore, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(store.refresh)
        except (
            Exception
        ):  # any error: the old models stay in service, and the next check may succeed
            _LOG.exception("looking for changed models failed")


def _add_rank(
    app: FastAPI, store: ModelStore, limits: RequestLimits, workers: Workers, metrics: Metrics
) -> None:
    schema = RankRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    _share_definitions(app, schema.pop("$defs"))
    body = {"required": True, "content": {"application/json": {"schema": schema}}}

    @app.post(
        "/rank",
        response_model=RankAnswer,
        responses=_REFUSALS,
        openapi_extra={"requestBody": body},
        summary="Put the documents of a query in order",
    )
    async def rank_documents(request: Request) -> Response:
        try:
            async with asyncio.timeout(limits.timeout):
                content = await read_body(request, limits.max_body)
                answered = await workers.run(
                    lambda: rank(
                        content, store, limits.max_documents, refuse_missing=limits.refuse_missing
                    )
                )
        except TimeoutError:
            raise Refusal(408, f"it took longer than {limits.timeout:g} s.") from None
        metrics.documents[answered.model] += answered.n_documents
        return Response(answered.body, media_type="application/json")


def _add_reports(app: FastAPI, store: ModelStore, workers: Workers, metrics: Metrics) -> None:
    needs_token: dict[int | str, dict[str, Any]] = {401: _REFUSALS[401]}

    @app.get("/models", responses=needs_token, summary="The models that are served")
    async def models() -> ModelsAnswer:
        return ModelsAnswer(models=[describe(entry) for entry in store.entries()])

    @app.get("/healthz", summary="Whether the service runs")
    async def health() -> HealthAnswer:
        return HealthAnswer(status="ok", models=len(store), in_flight=workers.in_flight)

    @app.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses=needs_token,
        summary="Figures for Prometheus",
    )
    async def figures() -> str:
        return metrics.text(
            {
                "rankwood_models": len(store),
                "rankwood_in_flight": workers.in_flight,
                "rankwood_model_reloads_total": store.reloads,
                "rankwood_model_reload_failures_total": store.failures,
            }
        )

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def documentation() -> str:
        return documentation_page(app.openapi(), store)


def _add_gate(app: FastAPI, limits: RequestLimits, metrics: Metrics) -> None:
    """Before each request: the token. After it: the counters."""

    @app.middleware("http")
    async def gate(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        begin = time.perf_counter()
        path = request.url.path if request.url.path in _PATHS else "other"
        try:
            if path not in _OPEN:
                check_token(request, limits.token)
            response = await answer(request)
        except Refusal as refusal:
            response = _refused(refusal)
        metrics.answered(path, response.status_code, time.perf_counter() - begin)
        return response


def _add_error_answers(app: FastAPI) -> None:
    @app.exception_handler(Refusal)
    async def refuse(_: Request, refusal: Refusal) -> Response:
        return _refused(refusal)

    @app.exception_handler(FieldError)
    async def refuse_field(_: Request, error: FieldError) -> Response:
        return _refused(Refusal(422, str(error), error.field))

    @app.exception_handler(UnknownName)
    async def refuse_model(_: Request, error: UnknownName) -> Response:
        return _refused(Refusal(404, str(error), "model"))

    @app.exception_handler(DataError)
    async def refuse_data(_: Request, error: DataError) -> Response:
        return _refused(Refusal(422, str(error), "documents"))

    @app.exception_handler(HTTPException)
    async def refuse_path(request: Request, error: HTTPException) -> Response:
        detail = f"{request.method} {request.url.path}: {error.detail}. See /docs."
        response = _refused(Refusal(error.status_code, detail))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def refuse_request(_: Request, error: RequestValidationError) -> Response:
        return _refused(Refusal(422, str(error)))


def _refused(refusal: Refusal) -> Response:
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}
    problem: dict[str, Any] = {"message": refusal.message, "field": refusal.field}
    return JSONResponse(
        {"error": problem}, status_code=refusal.status, headers=headers.get(refusal.status)
    )


def _share_definitions(app: FastAPI, definitions: dict[str, Any]) -> None:
    """Put the schemas a request refers to where the others of the OpenAPI document are."""
    made = app.openapi

    def with_definitions() -> dict[str, Any]:
        document = made()
        document.setdefault("components", {}).setdefault("schemas", {}).update(definitions)
        return document

    app.openapi = with_definitions  # type: ignore[method-assign]


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
    answer = RankAnswer(
        model=served.name,
        version=served.digest,
        query_id=request.query_id,
        documents=[
            Ranked(rank=rank, id=request.documents[number].id, score=float(scores[number]))
            for rank, number in enumerate(order, start=1)
        ],
    )
    if request.explain:
        _explain(answer, request, served, matrix[order])
    text = answer.model_dump_json(exclude_none=True)
    return Answered(text.encode(), served.name, len(request.documents))


def _explain(
    answer: RankAnswer, request: RankRequest, served: ServedModel, matrix: Features
) -> None:
    """Add the largest contributions to each score."""
    try:
        values, base = contributions(served.model, matrix, n_threads=1)
    except ModelError as error:
        raise FieldError("explain", f"model '{served.name}': {error}") from None
    answer.base = float(base)
    for document, row, added in zip(answer.documents, matrix, values, strict=True):
        largest = sorted(range(len(added)), key=lambda feature: -abs(added[feature]))
        document.contributions = [
            Contribution(
                feature=served.features[feature],
                value=None if isnan(row[feature]) else float(row[feature]),
                contribution=float(added[feature]),
            )
            for feature in largest[: request.explain]
            if added[feature] != 0.0
        ]


def describe(entry: ModelSlot) -> ModelAnswer:
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


class Metrics:
    """Counters of one process. Only the event loop touches them, so they need no lock."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.documents: Counter[str] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._answers = 0

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests[path, status] += 1
        if path == "/rank":
            self._answers += 1
            self._seconds += seconds
            for bound in _BOUNDS:
                if seconds <= bound:
                    self._buckets[bound] += 1

    def text(self, gauges: dict[str, float]) -> str:
        """Everything in Prometheus's text format; ``gauges`` are values of the moment."""
        lines = ["# TYPE rankwood_requests_total counter"]
        for (path, status), count in sorted(self.requests.items()):
            lines.append(f'rankwood_requests_total{{path="{path}",status="{status}"}} {count}')
        lines.append("# TYPE rankwood_documents_total counter")
        for model, count in sorted(self.documents.items()):
            lines.append(f'rankwood_documents_total{{model="{_escaped(model)}"}} {count}')
        lines.append("# TYPE rankwood_rank_seconds histogram")
        for bound in _BOUNDS:
            lines.append(f'rankwood_rank_seconds_bucket{{le="{bound}"}} {self._buckets[bound]}')
        lines.append(f'rankwood_rank_seconds_bucket{{le="+Inf"}} {self._answers}')
        lines.append(f"rankwood_rank_seconds_sum {self._seconds:.6f}")
        lines.append(f"rankwood_rank_seconds_count {self._answers}")
        for name, value in {**gauges, "process_resident_memory_bytes": _resident_memory()}.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# TYPE {name} {kind}", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def _resident_memory() -> int:
    """Bytes of this process that are in memory; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def documentation_page(schema: dict[str, Any], store: ModelStore) -> str:
    """Paths, their answers, an example that works, and the models at hand."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{_text(schema['info']['title'])}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(schema['info']['title'])}</h1>",
        "<p>Version " + _text(schema["info"]["version"]) + ". ",
        "The schema for machines: <a href='openapi.json'>openapi.json</a>.</p>",
        "<h2>Try it</h2><pre><code>" + _text(_example(store)) + "</code></pre>",
        "<h2>Models</h2>" + _models(store),
    ]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation(path, method, operation))
    parts.append("<h2>Fields of a request to /rank</h2>")
    parts.append(_fields(schema["paths"]["/rank"]["post"]))
    return "".join(parts) + "</body></html>"


def _example(store: ModelStore) -> str:
    entry = store.entries()[0]
    names = entry.served.features[:2]
    documents = [
        {"id": "a", "features": dict.fromkeys(names, 0.5)},
        {"id": "b", "features": dict.fromkeys(names, 1.5)},
    ]
    body = json.dumps({"model": entry.served.name, "documents": documents}).replace("'", "'\\''")
    return f"curl -s localhost:8000/rank -H 'Content-Type: application/json' -d '{body}'"


def _models(store: ModelStore) -> str:
    rows = "".join(
        f"<tr><td><code>{_text(entry.served.name)}</code></td><td>{len(entry.served.features)} features</td>"
        f"<td>{_text(str(entry.served.meta.get('estimator') or ''))}</td></tr>"
        for entry in store.entries()
    )
    return f"<table>{rows}</table>"


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
        "order, or by name; null, and names left out, are missing values.</p>"
    )


def _text(value: str) -> str:
    return html.escape(str(value))
