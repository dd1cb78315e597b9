"""The scoring service as an ASGI application.

``make_app`` builds it: the gate in front of every request, the paths, the answers to errors. ``Workers`` do the work of
a request, on threads where it is long. ``Figures`` counts for Prometheus, for all processes of a service together.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import mmap
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankwood import __version__
from rankwood.dtypes import Floats
from rankwood.errors import DataError, UnknownName
from rankwood.models.json_text import JsonText
from rankwood.serve.answers import (
    Answered,
    ErrorAnswer,
    HealthAnswer,
    ModelsAnswer,
    RankAnswer,
    RankRequest,
    RequestLimits,
    ScoreAnswer,
    ScoreRequest,
    describe,
    describe_aliases,
    documentation_page,
    rank,
    same_best,
    score,
)
from rankwood.serve.store import FieldError, ModelStore, ScoreError, ServedModel, plain, shown

_LOG = logging.getLogger(__name__)
# Upper bounds of the buckets of histograms, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
STATUSES = (200, 400, 401, 404, 405, 408, 413, 422, 499, 500, 503)
NO_MODEL = ""  # of requests that are refused before their model is known
REQUESTS = "rankwood.serve.requests"  # the logger of lines per request
_LAST_BUCKET = ',le="+Inf"'
_PROCESS = "rankwood_process"  # its number; no figure
_COUNTERS = (
    "rankwood_aborted_uploads_total",
    "rankwood_refused_connections_total",
    "rankwood_evicted_connections_total",
    "rankwood_late_connections_total",
    "rankwood_failed_accepts_total",
)
_GAUGES = ("rankwood_in_flight", "rankwood_connections", "rankwood_body_bytes")
_REQUESTS = logging.getLogger(REQUESTS)
_OPEN = ("/healthz",)  # asked by machines that hold no token
PATHS = ("/rank", "/score", "/models", "/healthz", "/metrics", "/docs", "/openapi.json")
_REQUEST_ID = b"x-request-id"
_LONGEST_REQUEST_ID = 128
_CLOSED = 499  # nginx's status of requests whose client did not wait
_AT_ONCE_SECONDS = 0.002  # of one request; all others wait so long
_MOST_AT_ONCE_SECONDS = 0.04  # of several, before new requests and connections are looked at
_AT_ONCE_BYTES = 1 << 20
_BYTES_OF_REQUEST = 65536  # what a request costs besides its bytes, in bytes
_MEMORY = 0.999  # of how long a request took, from one to the next
_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorAnswer, "description": "The token is missing or wrong."},
    404: {"model": ErrorAnswer, "description": "There is no such model."},
    408: {"model": ErrorAnswer, "description": "It took too long."},
    413: {"model": ErrorAnswer, "description": "The body is too large."},
    422: {"model": ErrorAnswer, "description": "A field cannot be used; the answer names it."},
    500: {"model": ErrorAnswer, "description": "The model gave a score that is no number."},
    503: {"model": ErrorAnswer, "description": "Too many requests are waiting."},
}


class Refusal(Exception):
    """A request that is answered by a status and a message."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.field = field


class Workers:
    """Threads that score, and a bounded queue before them.

    A request that takes little time is answered at once: a thread would cost as much. How long it takes is known from
    those before it, by the most processor time for a byte, which is forgotten slowly, and at once where a model is
    replaced. Explanations take longer, and always have a thread.
    """

    def __init__(self, limits: RequestLimits, figures: Figures) -> None:
        self._n_threads = limits.workers
        self._most = limits.workers + limits.queue
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="rankwood-serve")
        self._figures = figures
        self._seconds_per_byte = inf
        self._seconds_at_once = 0.0
        self._generation = -1

    @property
    def in_flight(self) -> int:
        """Requests that wait or are worked on."""
        return int(self._figures.own("rankwood_in_flight"))

    @property
    def has_time(self) -> bool:
        """Whether nobody waits who has asked."""
        return self.in_flight <= self._n_threads

    async def answer(
        self, work: Callable[..., Answered], body: bytes, store: ModelStore, limits: RequestLimits
    ) -> Answered:
        """Do ``work``; what a thread has begun counts until it is done, even if nobody waits for it any more."""
        if self._generation != store.reloads:
            self._generation, self._seconds_per_byte = store.reloads, inf
        if self._has_room(len(body)):
            text = JsonText.of(body)
            if not text.may_explain:
                return self._timed(work, text, store, limits)
        if self.in_flight >= self._most:
            raise Refusal(503, f"{self.in_flight} requests are waiting already. Try again soon.")
        done = self.start(lambda: self._timed(work, JsonText.of(body), store, limits))
        answered: Answered = await asyncio.shield(done)
        return answered

    def _has_room(self, n_bytes: int) -> bool:
        """Whether a request may be answered before anything else is looked at again."""
        seconds = (n_bytes + _BYTES_OF_REQUEST) * self._seconds_per_byte
        is_short = n_bytes <= _AT_ONCE_BYTES and seconds <= _AT_ONCE_SECONDS
        if not is_short or self._seconds_at_once + seconds > _MOST_AT_ONCE_SECONDS:
            return False
        if self._seconds_at_once == 0.0:
            asyncio.get_running_loop().call_soon(self._look_around)
        self._seconds_at_once += seconds
        return True

    def _look_around(self) -> None:
        self._seconds_at_once = 0.0

    def _timed(
        self,
        work: Callable[..., Answered],
        text: JsonText,
        store: ModelStore,
        limits: RequestLimits,
    ) -> Answered:
        begin = time.thread_time()
        answered = work(text, store, limits)
        if not text.may_explain:
            seconds = (time.thread_time() - begin) / (len(text.text) + _BYTES_OF_REQUEST)
            before = 0.0 if self._seconds_per_byte == inf else _MEMORY * self._seconds_per_byte
            self._seconds_per_byte = max(seconds, before)
        return answered

    def start(self, work: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Let a thread do ``work``."""
        self._figures.add("rankwood_in_flight")
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        future.add_done_callback(self._done)
        return future

    def close(self) -> None:
        """Let the threads end after the work that has begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._figures.add("rankwood_in_flight", -1.0)
        if not future.cancelled():
            future.exception()  # retrieved, so that asyncio does not report an abandoned one


async def read_body(
    request: Request, limits: RequestLimits, count: Callable[[int], float]
) -> bytes:
    """The body of a request, refused as soon as it is known to be too large, or all bodies together are."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limits.max_body:
        raise _too_large(limits.max_body)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limits.max_body:
            raise _too_large(limits.max_body)
        if count(len(part)) > limits.body_budget:
            raise Refusal(503, "too many bytes of requests are being read. Try again soon.", "body")
        parts.append(part)
    return b"".join(parts)


@contextlib.contextmanager
def byte_budget(figures: Figures) -> Iterator[Callable[[int], float]]:
    """A function that counts bytes of a body, and says how many there are of all bodies; forgotten afterwards."""
    n_bytes = 0

    def count(more: int) -> float:
        nonlocal n_bytes
        n_bytes += more
        figures.add("rankwood_body_bytes", more)
        return figures.own("rankwood_body_bytes")

    try:
        yield count
    finally:
        figures.add("rankwood_body_bytes", -n_bytes)


def check_token(given: str, token: str | None) -> None:
    """Refuse a request without the token, if there is one."""
    if token is None:
        return
    if not hmac.compare_digest(given.encode("latin-1", "replace"), f"Bearer {token}".encode()):
        raise Refusal(401, "this service asks for a token: send 'Authorization: Bearer TOKEN'.")


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body is larger than the {most:,} bytes allowed.", "body")


def make_app(
    store: ModelStore,
    limits: RequestLimits | None = None,
    *,
    reload_seconds: float = 1.0,
    figures: Figures | None = None,
) -> FastAPI:
    """The service over these models; changed files are looked for every ``reload_seconds``, never if 0."""
    limits = limits or RequestLimits()
    figures = figures or figures_of(store)
    workers = Workers(limits, figures)

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
    app.add_middleware(Gate, limits=limits, figures=figures)
    service = _Service(store, limits, workers, figures)
    _add_scoring(app, service)
    _add_reports(app, service)
    return app


def figures_of(store: ModelStore, n_processes: int = 1) -> Figures:
    """The figures of a service over these models."""
    names = [entry.served.name for entry in store.entries()]
    shadows = sorted({name for shadow in store.shadows.values() for name, _ in shadow.shares})
    return Figures(PATHS, names, shadows, n_processes)


async def _watch(store: ModelStore, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(store.refresh)
        except (
            Exception
        ):  # any error: the old models stay in service, and the next check may succeed
            _LOG.exception("looking for changed models failed")


# The gate.


@dataclass
class Exchange:
    """A request and its answer, as the log and the figures tell of them."""

    path: str
    method: str
    request_id: str
    model: str | None = None
    n_documents: int | None = None
    status: int = 500
    begin: float = field(default_factory=time.perf_counter)

    @classmethod
    def of(cls, scope: Scope) -> Exchange:
        """The exchange that begins with a request; its id is that of the client, if it has one."""
        given = next((value for name, value in scope["headers"] if name == _REQUEST_ID), b"")
        is_sound = 0 < len(given) <= _LONGEST_REQUEST_ID and all(32 < byte < 127 for byte in given)
        request_id = given.decode() if is_sound else os.urandom(8).hex()
        return cls(scope["path"], scope["method"], request_id)

    def log(self, seconds: float) -> None:
        """Write the line of the request, if there are to be such lines."""
        if not _REQUESTS.isEnabledFor(logging.INFO):
            return
        path = shown(self.path).encode("unicode_escape").decode()
        facts: dict[str, Any] = {
            "request_id": self.request_id,
            "method": self.method,
            "path": path,
            "status": self.status,
            "model": self.model,
            "documents": self.n_documents,
            "milliseconds": round(1000 * seconds, 3),
        }
        what = "" if self.model is None else f", {self.n_documents} documents by '{self.model}'"
        _REQUESTS.info(
            "%s %s %d in %.1f ms%s (%s)",
            self.method,
            path,
            self.status,
            1000 * seconds,
            what,
            self.request_id,
            extra={"request": facts},
        )


class Gate:
    """Before each request: its id, and the token. After it: the figures, and a line of the log."""

    def __init__(self, app: ASGIApp, limits: RequestLimits, figures: Figures) -> None:
        self._app = app
        self._limits = limits
        self._figures = figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = scope["exchange"] = Exchange.of(scope)
        connection = scope.get("state", {}).get("connection")
        has_begun = False

        async def send_with_id(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                exchange.status = message["status"]
                message["headers"].append((_REQUEST_ID, exchange.request_id.encode()))
            await send(message)

        async def refuse(refusal: Refusal) -> None:
            if not has_begun:
                await _refused(refusal)(scope, receive, send_with_id)

        if connection is not None:
            connection.begun()
        try:
            if exchange.path not in _OPEN:
                check_token(_header(scope, b"authorization"), self._limits.token)
            await self._app(scope, receive, send_with_id)
        except Refusal as refusal:
            await refuse(refusal)
        except ClientDisconnect:
            exchange.status = _CLOSED
            self._figures.add("rankwood_aborted_uploads_total")
            _LOG.warning("a client broke off a request to %s", exchange.path[:20])
        except asyncio.CancelledError:  # there is no more time to finish it
            await refuse(Refusal(503, "the service is being stopped. Try again soon."))
            raise
        except Exception:
            _LOG.exception("request %s failed", exchange.request_id)
            await refuse(Refusal(500, "the request failed; the log of the service says why."))
        finally:
            if connection is not None:
                connection.ended()
            self._end(exchange)

    def _end(self, exchange: Exchange) -> None:
        seconds = time.perf_counter() - exchange.begin
        self._figures.answered(exchange.path, exchange.status)
        if exchange.path in ("/rank", "/score"):
            model = exchange.model or NO_MODEL
            self._figures.ranked(model, exchange.n_documents or 0, seconds)
        exchange.log(seconds)


def _header(scope: Scope, wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


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

    @app.exception_handler(ScoreError)
    async def confess(_: Request, error: ScoreError) -> Response:
        return _refused(Refusal(500, str(error), "model"))

    @app.exception_handler(DataError)
    async def refuse_data(_: Request, error: DataError) -> Response:
        return _refused(Refusal(422, str(error), "documents"))

    @app.exception_handler(HTTPException)
    async def refuse_path(request: Request, error: HTTPException) -> Response:
        detail = f"{request.method} {shown(request.url.path)}: {error.detail}. See /docs."
        response = _refused(Refusal(error.status_code, detail))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def refuse_request(_: Request, error: RequestValidationError) -> Response:
        return _refused(Refusal(422, str(error)))


def _refused(refusal: Refusal) -> Response:
    close = {"Connection": "close"}  # the rest of the body is not wanted
    headers = {
        401: {"WWW-Authenticate": "Bearer"},
        408: close,
        413: close,
        503: {"Retry-After": "1", **(close if refusal.field == "body" else {})},
    }
    problem: dict[str, Any] = {"message": plain(refusal.message), "field": refusal.field}
    return JSONResponse(
        {"error": problem}, status_code=refusal.status, headers=headers.get(refusal.status)
    )


# The paths.


@dataclass(frozen=True)
class _Service:
    """What the paths work with."""

    store: ModelStore
    limits: RequestLimits
    workers: Workers
    figures: Figures

    async def answer(self, request: Request, work: Callable[..., Answered]) -> Response:
        """Read the body, let a thread turn it into an answer, and let others score it unseen."""
        limits = self.limits
        with byte_budget(self.figures) as count:
            try:
                async with asyncio.timeout(limits.timeout):
                    content = await read_body(request, limits, count)
                    answered = await self.workers.answer(work, content, self.store, limits)
            except TimeoutError:
                raise Refusal(408, f"it took longer than {limits.timeout:g} s.") from None
        exchange = request.scope["exchange"]
        exchange.model, exchange.n_documents = answered.model, answered.n_documents
        for shadow in answered.shadows:
            self._score_unseen(shadow, answered)
        return Response(answered.body, media_type="application/json")

    def _score_unseen(self, shadow: ServedModel, answered: Answered) -> None:
        if not self.workers.has_time:
            self.figures.shadowed(shadow.name, "skipped")
            return
        future = self.workers.start(same_best, shadow, answered, self.limits)

        def count(done: asyncio.Future[int]) -> None:
            self.figures.shadowed(shadow.name, "requests")
            if done.cancelled() or done.exception() is not None:
                self.figures.shadowed(shadow.name, "failures")
                return
            n_queries = sum(1 for scores in answered.scores if len(scores))
            self.figures.shadowed(shadow.name, "queries", n_queries)
            self.figures.shadowed(shadow.name, "queries_same_best", done.result())

        future.add_done_callback(count)


def _add_scoring(app: FastAPI, service: _Service) -> None:
    def add(path: str, function: Any, asked: Any, answered: Any, summary: str) -> None:
        """Add a route that FastAPI documents, and Starlette calls, without looking for parameters that it lacks."""
        body = {"requestBody": _body_of(app, asked)}
        document = app.post(
            path, response_model=answered, responses=_REFUSALS, openapi_extra=body, summary=summary
        )
        app.router.routes.insert(0, Route(path, document(function), methods=["POST"]))

    async def rank_documents(request: Request) -> Response:
        return await service.answer(request, rank)

    async def score_documents(request: Request) -> Response:
        return await service.answer(request, score)

    in_order = "Put the documents of a query, or of several, in order"
    add("/rank", rank_documents, RankRequest, RankAnswer, in_order)
    scored = "Score documents, in the order of the request"
    add("/score", score_documents, ScoreRequest, ScoreAnswer, scored)


def _add_reports(app: FastAPI, service: _Service) -> None:
    store, figures = service.store, service.figures
    needs_token: dict[int | str, dict[str, Any]] = {401: _REFUSALS[401]}

    @app.get("/models", responses=needs_token, summary="The models that are served")
    async def models() -> ModelsAnswer:
        return ModelsAnswer(
            models=[describe(entry, service.limits.absent) for entry in store.entries()],
            aliases=describe_aliases(store),
        )

    @app.get("/healthz", summary="Whether the service runs")
    async def health() -> HealthAnswer:
        in_flight = int(figures.value("rankwood_in_flight"))
        return HealthAnswer(status="ok", models=len(store), in_flight=in_flight)

    @app.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses=needs_token,
        summary="Figures for Prometheus",
    )
    async def report_figures() -> str:
        return figures.text(
            {
                "rankwood_models": len(store),
                "rankwood_model_reloads_total": store.reloads,
                "rankwood_model_reload_failures_total": store.failures,
            }
        )

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def documentation(request: Request) -> str:
        return documentation_page(app.openapi(), store, request)


def _body_of(app: FastAPI, request: type[BaseModel]) -> dict[str, Any]:
    """What the OpenAPI document says of a body that is not read by FastAPI."""
    schema = request.model_json_schema(ref_template="#/components/schemas/{model}")
    definitions = schema.pop("$defs")
    made = app.openapi

    def with_definitions() -> dict[str, Any]:
        document = made()
        document.setdefault("components", {}).setdefault("schemas", {}).update(definitions)
        return document

    app.openapi = with_definitions  # type: ignore[method-assign]
    return {"required": True, "content": {"application/json": {"schema": schema}}}


# Figures.


class Figures:
    """Figures of all processes for ``GET /metrics``. Each process writes to a line of its own, so there is no lock."""

    def __init__(
        self,
        paths: Sequence[str],
        models: Sequence[str],
        shadows: Sequence[str] = (),
        n_processes: int = 1,
    ) -> None:
        self._paths = (*paths, "other")
        self._models = (NO_MODEL, *models)
        self._slots: dict[tuple[str, str], int] = {}
        for path in self._paths:
            for status in (*STATUSES, "other"):
                self._slot("rankwood_requests_total", f'path="{path}",status="{status}"')
        for model in self._models:
            label = f'model="{escaped(model)}"'
            self._slot("rankwood_documents_total", label)
            for bound in (*BOUNDS, "+Inf"):
                self._slot("rankwood_rank_seconds_bucket", f'{label},le="{bound}"')
            self._slot("rankwood_rank_seconds_sum", label)
        for model in shadows:
            for name in ("requests", "failures", "skipped", "queries", "queries_same_best"):
                self._slot(f"rankwood_shadow_{name}_total", f'model="{escaped(model)}"')
        for name in (*_COUNTERS, *_GAUGES, _PROCESS):
            self._slot(name, "")
        memory = mmap.mmap(-1, 8 * n_processes * len(self._slots))  # forks share it
        self._lines: Floats = np.frombuffer(memory, np.float64).reshape(n_processes, -1)
        self.use_line(0)

    def use_line(self, process: int) -> None:
        """Count in the line of this process from now on; what it holds of now was that of a process that has ended."""
        self._own = self._lines[process]
        for name in _GAUGES:
            self._own[self._slots[name, ""]] = 0.0
        self._own[self._slots[_PROCESS, ""]] = os.getpid()

    def add(self, name: str, amount: float = 1.0, label: str = "") -> None:
        """Add to a figure of this process."""
        self._own[self._slots[name, label]] += amount

    def answered(self, path: str, status: int) -> None:
        """Count an answer."""
        where = path if path in self._paths else "other"
        what = status if status in STATUSES else "other"
        self.add("rankwood_requests_total", 1.0, f'path="{where}",status="{what}"')

    def ranked(self, model: str, n_documents: int, seconds: float) -> None:
        """Count an answer to a request for scores, by its model."""
        label = f'model="{escaped(model)}"'
        self.add("rankwood_documents_total", n_documents, label)
        self.add("rankwood_rank_seconds_sum", seconds, label)
        first = self._slots["rankwood_rank_seconds_bucket", f'{label},le="{BOUNDS[0]}"']
        reached = int(np.searchsorted(BOUNDS, seconds))
        self._own[first + reached : first + len(BOUNDS) + 1] += 1.0

    def shadowed(self, model: str, name: str, amount: float = 1.0) -> None:
        """Count what a model did that scores unseen."""
        self.add(f"rankwood_shadow_{name}_total", amount, f'model="{escaped(model)}"')

    def value(self, name: str) -> float:
        """A figure without labels, of all processes together."""
        return float(self._lines[:, self._slots[name, ""]].sum())

    def least(self, name: str) -> float:
        """The least of the processes' figures."""
        return float(self._lines[:, self._slots[name, ""]].min())

    def own(self, name: str) -> float:
        """A figure of this process."""
        return float(self._own[self._slots[name, ""]])

    def text(self, others: dict[str, float]) -> str:
        """Everything in Prometheus's text format; ``others`` are values of the moment."""
        families: dict[str, list[str]] = {}
        totals = self._lines.sum(axis=0).tolist()
        for (name, label), slot in self._slots.items():
            family = name.removesuffix("_bucket").removesuffix("_sum")
            is_silent = label and family == name and totals[slot] == 0  # most pairs never happen
            if name == _PROCESS or is_silent:
                continue
            lines = families.setdefault(family, [])
            labels = f"{{{label}}}" if label else ""
            lines.append(f"{name}{labels} {totals[slot]:.10g}")
            if label.endswith(_LAST_BUCKET):
                lines.append(
                    f"{family}_count{{{label.removesuffix(_LAST_BUCKET)}}} {totals[slot]:.10g}"
                )
        for name, value in {**others, "process_resident_memory_bytes": self._memory()}.items():
            families[name] = [f"{name} {value:.10g}"]
        parts = [
            "\n".join([f"# TYPE {name} {_kind_of(name)}", *lines])
            for name, lines in families.items()
        ]
        return "\n".join(parts) + "\n"

    def _slot(self, name: str, label: str) -> None:
        self._slots[name, label] = len(self._slots)

    def _memory(self) -> int:
        """Bytes in memory of all processes; what they share is counted once for each."""
        processes = self._lines[:, self._slots[_PROCESS, ""]].astype(int).tolist()
        return sum(_resident_memory(process) for process in processes if process > 0)


def _kind_of(name: str) -> str:
    if name.endswith("_total"):
        return "counter"
    return "histogram" if name.endswith("_seconds") else "gauge"


def _resident_memory(process: int) -> int:
    """Bytes of a process that are in memory; 0 where the system does not say."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def escaped(text: str) -> str:
    """A text as the value of a label."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
