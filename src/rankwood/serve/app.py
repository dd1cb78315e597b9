"""The scoring service as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from rankwood import __version__
from rankwood.errors import DataError, UnknownName
from rankwood.serve.answering import describe, rank
from rankwood.serve.limits import Limits, Refusal, Workers, check_token, read_body
from rankwood.serve.metrics import Metrics
from rankwood.serve.page import documentation_page
from rankwood.serve.schema import (
    ErrorAnswer,
    HealthAnswer,
    ModelsAnswer,
    RankAnswer,
    RankRequest,
)
from rankwood.serve.scorer import FieldError
from rankwood.serve.store import ModelStore

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


def make_app(
    store: ModelStore, limits: Limits | None = None, *, reload_seconds: float = 1.0
) -> FastAPI:
    """The service over these models; changed files are looked for every ``reload_seconds``, never if 0."""
    limits = limits or Limits()
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
        except Exception:  # whatever it was, the next look may go well, and the old models serve
            _LOG.exception("looking for changed models failed")


def _add_rank(
    app: FastAPI, store: ModelStore, limits: Limits, workers: Workers, metrics: Metrics
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
                found = await workers.run(
                    lambda: rank(
                        content, store, limits.max_documents, refuse_missing=limits.refuse_missing
                    )
                )
        except TimeoutError:
            raise Refusal(408, f"it took longer than {limits.timeout:g} s.") from None
        metrics.documents[found.model] += found.n_documents
        return Response(found.body, media_type="application/json")


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


def _add_gate(app: FastAPI, limits: Limits, metrics: Metrics) -> None:
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
