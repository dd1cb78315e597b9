"""``rankwood serve``: models over HTTP."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.options import argument, file_option, option, switch
from rankwood.errors import MissingExtra, ParameterError, RunError

_TOKEN_VARIABLE = "RANKWOOD_TOKEN"


def command(
    models: Annotated[
        list[Path],
        argument("MODEL", "Model files; each is served under its name without .rankwood."),
    ],
    *,
    host: Annotated[
        str, option("The address to listen at; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, option("0 takes a free one.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None,
        file_option(
            f"A file that holds the token every request must bring; or set {_TOKEN_VARIABLE}."
        ),
    ] = None,
    threads: Annotated[int, option("Requests that are scored at once.", min=1)] = 1,
    max_documents: Annotated[int, option("The most documents of a request.", min=1)] = 1000,
    max_body_mb: Annotated[float, option("The largest body of a request.", min=0.001)] = 16,
    queue: Annotated[
        int, option("Requests that may wait; one more is answered with 503.", min=0)
    ] = 64,
    timeout: Annotated[float, option("Seconds until a request is given up.", min=0.1)] = 10,
    reload_seconds: Annotated[
        float, option("How often to look for changed model files; 0: never.", min=0)
    ] = 1,
    drain_seconds: Annotated[
        int, option("How long to finish what was begun when told to stop.", min=0)
    ] = 30,
    refuse_missing: Annotated[
        bool, switch("--refuse-missing", "Refuse documents that lack a feature.")
    ] = False,
    access_log: Annotated[bool, switch("--access-log", "A line per request.")] = False,
) -> None:
    """Answer POST /rank with the order of a query's documents.

    A changed model file replaces its model without a pause; a damaged one leaves the old model in service. SIGTERM and
    Ctrl-C finish what was begun. GET /docs explains requests, /models, /healthz and /metrics tell how it goes.

    Example: rankwood serve model.rankwood --port 8000

    Example: curl -s localhost:8000/rank -d '{"documents": [{"id": "a", "features": [0.3, 11]}]}'
    """
    try:
        import uvicorn

        from rankwood.serve.app import make_app
    except ImportError as error:
        raise MissingExtra(error.name or "fastapi", "serve", "The scoring service") from None
    from rankwood.serve.app import RequestLimits
    from rankwood.serve.store import ModelStore

    limits = RequestLimits(
        max_documents=max_documents,
        max_body=int(max_body_mb * 2**20),
        queue=queue,
        timeout=timeout,
        workers=threads,
        token=_token(token_file),
        refuse_missing=refuse_missing,
    )
    printing.log_to_terminal(True)  # says when a model was replaced, or could not be
    store = ModelStore(models)
    config = uvicorn.Config(
        make_app(store, limits, reload_seconds=reload_seconds),
        log_level="warning" if not access_log else "info",
        access_log=access_log,
        timeout_graceful_shutdown=drain_seconds,
        server_header=False,
    )
    listening = _listen(config, host, port)
    address = f"http://{host}:{listening.getsockname()[1]}"
    names = ", ".join(entry.served.name for entry in store.entries())
    printing.notice(
        f"serving {names} at {address}   ({address}/docs explains requests; Ctrl-C stops)"
    )
    # uvicorn finishes what was begun, then raises the signal again: that one ends the process.
    signal.signal(signal.SIGTERM, _end)
    uvicorn.Server(config).run(sockets=[listening])


def _end(_number: int, _frame: Any) -> None:
    raise typer.Exit(0)


def _token(path: Path | None) -> str | None:
    """The token that requests must bring; None where none is asked for."""
    if path is None:
        return os.environ.get(_TOKEN_VARIABLE) or None
    token = path.read_text().strip()
    if not token:
        raise ParameterError(f"--token-file: {path} is empty.")
    return token


def _listen(config: Any, host: str, port: int) -> Any:
    """A socket that listens at this address; binding fails before the address is printed."""
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise RunError(
            f"cannot listen at {host}:{port}: {reason}. Choose another --port; 0 takes a free one."
        ) from None
    listening.listen(config.backlog)
    return listening
