"""The scoring service under abuse, with figures: nothing lost, memory flat, health answered at once.

Run as ``python -m benchmarks.robust_service [requests]``; without a number 10,000 requests of honest clients, and the
result is kept. While eight honest clients ask, others do their worst, all over the loopback, bounded in number, and
until the honest ones are done: half-open connections, stalled and broken uploads, bodies that are too large, malformed
HTTP and JSON. Model files are replaced, damaged, truncated and written slowly meanwhile. One client asks for
``/healthz`` every 20 ms. Honest clients, others and the health check are processes of their own, which share the
machine's cores with the service; how late the health check itself is, waiting for a core, is measured beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.common import keep
from benchmarks.serving import Service, ask, bodies_of, serving
from rankwood import GBRT, make_ranking, save

REQUESTS, CLIENTS, DOCUMENTS, FEATURES = 10_000, 8, 50, 40
HALF_OPEN, STALLED = 500, 30
_LONGEST_SECONDS = 900  # the run ends by then, whatever happens


class Abuse:
    """Clients that do what nobody should, until there is a file that tells them to stop."""

    def __init__(self, port: int, body: bytes, end: Path) -> None:
        self.port, self.body, self.end = port, body, end
        self.counts: Counter[str] = Counter()
        self.random = random.Random(1)

    @property
    def is_over(self) -> bool:
        """Whether they are to stop."""
        return self.end.exists()

    async def send(
        self, kind: str, parts: list[bytes], seconds: float, *, read: bool = True
    ) -> None:
        """Send some bytes, wait, and look at what is answered; an error is an answer too."""
        self.counts[f"{kind}: sent"] += 1
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            self.counts[f"{kind}: no connection"] += 1
            return
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            if read:
                answer = await asyncio.wait_for(reader.read(12), seconds)
                self.counts[f"{kind}: {answer[9:12].decode() or 'closed'}"] += 1
            else:
                await asyncio.sleep(seconds)
        except (OSError, TimeoutError):
            self.counts[f"{kind}: broken"] += 1
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def half_open(self) -> None:
        """Keep many connections that never finish their head."""
        heads = [b"POST /rank HTTP/1.1\r\nHost: a\r\nX-Slow: ", b"GET", b""]

        async def one() -> None:
            while not self.is_over:
                await self.send("half-open", [self.random.choice(heads)], 20.0)
                await asyncio.sleep(self.random.random())

        await asyncio.gather(*(one() for _ in range(HALF_OPEN)))

    async def stalled(self) -> None:
        """Upload most of a large body, and stop."""
        head = b"POST /rank HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n"

        async def one() -> None:
            while not self.is_over:
                await self.send("stalled", [head, b" " * 4_000_000], 15.0)
                await asyncio.sleep(1 + self.random.random())

        await asyncio.gather(*(one() for _ in range(STALLED)))

    async def broken(self) -> None:
        """Break off uploads."""
        head = b"POST /rank HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
        while not self.is_over:
            await self.send("broken off", [head, b"[" * 5000], 0.05, read=False)

    async def malformed(self) -> None:
        """Send noise, mutated requests, JSON of the worst kinds, and bodies that are too large."""
        million = b'{"documents": [' + b"{}," * 1_000_000 + b"{}]}"
        deep = b'{"documents": ' + b"[" * 1_000_000
        wide = b'{"documents": [{"id": 1, "features": {' + b'"x": "y",' * 300_000 + b'"z": 1}}]}'
        while not self.is_over:
            mutated = bytearray(_post(self.body))
            for _ in range(self.random.randint(1, 20)):
                mutated[self.random.randrange(len(mutated))] = self.random.randrange(256)
            await self.send("mutated", [bytes(mutated)], 15.0)
            await self.send("noise", [self.random.randbytes(300) + b"\r\n\r\n"], 15.0)
            json_of = self.random.choice([million, deep, wide])
            await self.send("worst JSON", [_post(json_of)], 15.0)
            await self.send("too large", [_post(b" " * 17_000_000)], 15.0)
            await asyncio.sleep(0.2)

    async def run(self) -> None:
        """Everything at once."""
        await asyncio.gather(self.half_open(), self.stalled(), self.broken(), self.malformed())


def abuse(port: int, body: bytes, end: Path) -> Counter[str]:
    """Do it all in a process of its own, which leaves the cores to the others where there are too few."""
    os.nice(5)
    clients = Abuse(port, body, end)
    asyncio.run(asyncio.wait_for(clients.run(), _LONGEST_SECONDS))
    return clients.counts


def _post(body: bytes) -> bytes:
    return b"POST /rank HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def watch_health(port: int, is_over: Any, seconds: list[float], delays: list[float]) -> None:
    """Ask for health on a connection of its own, and note how late this process itself is."""
    while not is_over():
        due = time.perf_counter() + 0.02
        await asyncio.sleep(0.02)
        delays.append(time.perf_counter() - due)
        start = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answer = await reader.read(15)
        seconds.append(time.perf_counter() - start if b" 200 " in answer else float("inf"))
        writer.close()


async def change_files(path: Path, models: list[bytes], is_over: Any, counts: Counter[str]) -> None:
    """Replace, damage, truncate and slowly write the model's file."""
    generator = random.Random(2)
    while not is_over():
        kind = generator.choice(["replaced", "truncated", "damaged", "written slowly", "removed"])
        counts[kind] += 1
        content = bytearray(generator.choice(models))
        other = path.with_name("other")
        if kind == "truncated":
            content = content[: generator.randrange(len(content))]
        elif kind == "damaged":
            content[generator.randrange(len(content))] ^= 255
        if kind == "removed":
            path.unlink(missing_ok=True)
        elif kind == "written slowly":
            with path.open("wb") as file:
                for begin in range(0, len(content), len(content) // 4 + 1):
                    file.write(content[begin : begin + len(content) // 4 + 1])
                    file.flush()
                    await asyncio.sleep(0.1)
        else:
            other.write_bytes(content)
            os.replace(other, path)
        await asyncio.sleep(0.5)
    other.write_bytes(models[0])
    os.replace(other, path)


async def abused(
    service: Service, path: Path, models: list[bytes], n_requests: int
) -> dict[str, Any]:
    """What honest clients, the health check and the memory saw while others did their worst."""
    bodies = bodies_of(16, DOCUMENTS, FEATURES)
    end = path.with_name("end")
    health: list[float] = []
    delays: list[float] = []
    memory: list[float] = []
    files: Counter[str] = Counter()

    async def look_at_memory() -> None:
        while not end.exists():
            memory.append(await asyncio.to_thread(service.figure, "process_resident_memory_bytes"))
            await asyncio.sleep(2.0)

    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        others = loop.run_in_executor(processes, abuse, service.port, bodies[0], end)
        work = [
            asyncio.create_task(each)
            for each in (
                watch_health(service.port, end.exists, health, delays),
                change_files(path, models, end.exists, files),
                look_at_memory(),
            )
        ]
        await asyncio.sleep(15.0)  # the worst has happened once: buffers have their sizes
        n_settled = len(memory)
        health.clear()
        delays.clear()
        start = time.perf_counter()
        load = await loop.run_in_executor(processes, ask, service.port, bodies, n_requests, CLIENTS)
        seconds = time.perf_counter() - start
        end.touch()
        counts = await others
        await asyncio.gather(*work)
    mib = [each / 2**20 for each in memory[n_settled:]]
    half = len(mib) // 2
    early, late = max(mib[:half]), max(mib[half:])
    return {
        "requests": n_requests,
        "statuses": load.statuses,
        "lost": load.lost,
        "requests_per_second": n_requests / seconds,
        "models_seen": len(load.versions),
        "health": _spread(health),
        "delay_of_the_clients_themselves": _spread(delays),
        "memory_mib_first_half": [round(min(mib[:half])), round(early)],
        "memory_mib_second_half": [round(min(mib[half:])), round(late)],
        "memory_growth": late / early - 1.0,
        "abuse": dict(sorted(counts.items())),
        "files": dict(files),
        **{
            name: service.figure(f"rankwood_{name}_total")
            for name in (
                "model_reloads", "model_reload_failures", "evicted_connections", "late_connections",
                "refused_connections", "failed_accepts", "aborted_uploads",
            )
        },
    }  # fmt: skip


def _spread(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    within = sum(each <= 0.1 for each in ordered) / len(ordered)
    return {
        "asked": len(ordered),
        "p50_ms": 1000 * ordered[len(ordered) // 2],
        "p99_ms": 1000 * ordered[int(0.99 * len(ordered))],
        "most_ms": 1000 * ordered[-1],
        "share_within_100_ms": within,
    }


def main(arguments: list[str] | None = None) -> None:
    n_requests = int(arguments[0]) if arguments else REQUESTS
    data = make_ranking(60, 30, FEATURES, seed=1)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.rankwood"
        models = []
        for seed in (1, 2):
            save(GBRT(200, max_leaves=16, early_stopping=None, seed=seed).fit(data), path)
            models.append(path.read_bytes())
        result: dict[str, Any] = {"load_before": os.getloadavg()}
        options = ("--timeout", "5", "--max-connections", "400", "--reload-seconds", "0.2")
        with serving(path, *options) as service:
            result |= asyncio.run(abused(service, path, models, n_requests))
            result["exit_code"] = service.stop()
            assert service.process.stderr is not None
            result["lines_of_log"] = len(service.process.stderr.read().splitlines())
    for key, value in result.items():
        print(f"{key}: {value}")
    if not arguments:
        keep("robust_service", result)


if __name__ == "__main__":
    main(sys.argv[1:])
