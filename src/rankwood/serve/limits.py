"""Limits of a request: the size of its body, the length of the queue, the time it may take, and the token."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request


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
    """Threads that score, and a bounded line before them."""

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
        """Let the threads end when they have done what was begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self.in_flight -= 1
        if not future.cancelled():
            future.exception()  # looked at, so that an abandoned one is not reported as lost


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
