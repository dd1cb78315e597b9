"""A scoring service in a process of its own, and clients that ask it over the loopback; for tests and benchmarks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

_START_SECONDS = 120  # a first start may compile kernels


@dataclass
class Service:
    """A running service."""

    process: subprocess.Popen[str]
    port: int

    def get(self, path: str) -> str:
        """The answer to GET."""
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def figure(self, name: str) -> float:
        """One of the figures of /metrics."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics"), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def stop(self, seconds: float = 60) -> int:
        """Tell it to end, and give its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)


@contextlib.contextmanager
def serving(*arguments: str | Path, limit_files: int | None = None) -> Iterator[Service]:
    """``rankwood serve`` at a free port; with ``limit_files``, it cannot have more files open."""
    run = "from rankwood.cli.main import run; run()"
    if limit_files is not None:
        limits = f"({limit_files}, {limit_files})"
        run = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, {limits}); {run}"
    process = subprocess.Popen(
        [sys.executable, "-c", run, "serve", *map(str, arguments), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    try:
        yield Service(process, _port_of(process))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def _port_of(process: subprocess.Popen[str]) -> int:
    assert process.stderr is not None
    said = []
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        line = process.stderr.readline()
        said.append(line)
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if found:
            return int(found[1])
        if not line and process.poll() is not None:
            break
    raise RuntimeError("the service did not start:\n" + "".join(said))


@dataclass
class Load:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    lost: int = 0  # requests without an answer
    versions: set[str] = field(default_factory=set)

    def percentile(self, share: float) -> float:
        """Seconds within which so large a share was answered."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


def ask(
    port: int,
    bodies: list[bytes],
    n_requests: int,
    n_clients: int = 16,
    *,
    after: dict[int, Callable[[], Any]] | None = None,
) -> Load:
    """Clients that send the bodies in turn, each its next when it has an answer.

    ``after`` holds what to do when so many requests have been answered.
    """
    load = Load()
    waiting = dict(after or {})
    begun = iter(range(n_requests))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for number in begun:
                start = time.perf_counter()
                body = bodies[number % len(bodies)]
                writer.write(_head(body) + body)
                status, answer = await _read(reader)
                load.seconds.append(time.perf_counter() - start)
                load.statuses[status] = load.statuses.get(status, 0) + 1
                if status == 200:
                    load.versions.add(_version_in(answer))
                for count in [count for count in waiting if len(load.seconds) >= count]:
                    await asyncio.to_thread(waiting.pop(count))
        except (OSError, asyncio.IncompleteReadError):
            load.lost += 1
        finally:
            writer.close()

    async def everyone() -> None:
        await asyncio.gather(*(client() for _ in range(n_clients)))

    asyncio.run(everyone())
    return load


def _head(body: bytes) -> bytes:
    return (
        b"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    )


def _version_in(answer: bytes) -> str:
    """The version in an answer; reading all of it would cost the cores that the service needs."""
    begin = answer.index(b'"version":"') + len(b'"version":"')
    return answer[begin : answer.index(b'"', begin)].decode()


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    assert length is not None
    return int(head.split(b" ", 2)[1]), await reader.readexactly(int(length[1]))


def bodies_of(n_bodies: int, n_documents: int, n_features: int, seed: int = 1) -> list[bytes]:
    """Requests with drawn values, as JSON."""
    import numpy as np

    generator = np.random.default_rng(seed)
    bodies = []
    for number in range(n_bodies):
        values = generator.normal(size=(n_documents, n_features)).round(4)
        documents = [{"id": place, "features": row} for place, row in enumerate(values.tolist())]
        bodies.append(json.dumps({"query_id": number, "documents": documents}).encode())
    return bodies
