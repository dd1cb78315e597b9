"""The service as a process: what it says, how it is told to end, how it bears load and changed files."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from urllib.request import urlopen

import pytest

import rankwood as rw
from benchmarks.serving import ask, bodies_of, serving
from rankwood.cli.main import main

pytestmark = pytest.mark.slow


def test_load_with_a_reload_and_a_damaged_file_loses_nothing(model_file, data, tmp_path):
    other = tmp_path / "other"
    rw.save(rw.GBRT(n_trees=20, min_leaf=2, seed=5).fit(data), other)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(other.read_bytes()[:-100])
    bodies = bodies_of(8, 100, 6)
    with serving(model_file, "--reload-seconds", "0.1") as service:
        ask(service.port, bodies, 300)
        before = service.figure("process_resident_memory_bytes")

        def wait_for(name):
            return lambda: wait_until(lambda: service.figure(name) == 1)

        events = {
            700: lambda: (
                os.replace(other, model_file),
                wait_for("rankwood_model_reloads_total")(),
            ),
            1500: lambda: (
                os.replace(damaged, model_file),
                wait_for("rankwood_model_reload_failures_total")(),
            ),
        }
        load = ask(service.port, bodies, 3000, after=events)
        assert load.statuses == {200: 3000}
        assert load.lost == 0
        assert len(load.versions) == 2
        grown = service.figure("process_resident_memory_bytes") - before
        assert grown < 30 * 2**20
        assert json.loads(service.get("/models"))["models"][0]["problem"]
        assert service.stop() == 0


def wait_until(claim, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_sigterm_answers_what_was_begun(model_file):
    body = bodies_of(1, 500, 6)[0]
    with serving(model_file) as service:
        answered = []

        async def one_request_in_two_halves():
            reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
            head = b"POST /rank HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
            writer.write(head + body[:100])
            await writer.drain()
            await asyncio.sleep(0.5)
            told.set()  # SIGTERM arrives while the request is under way
            await asyncio.sleep(1.0)
            writer.write(body[100:])
            answered.append(await reader.readuntil(b"\r\n"))
            writer.close()

        told = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(one_request_in_two_halves()))
        thread.start()
        told.wait(30)
        assert service.stop() == 0
        thread.join()
        assert answered == [b"HTTP/1.1 200 OK\r\n"]


def test_the_first_request_is_not_slower_than_the_rest(model_file):
    bodies = bodies_of(4, 100, 6)
    with serving(model_file) as service:
        load = ask(service.port, bodies, 50, 1)
        # Compiling the kernel would take seconds; whatever else the machine does, that is far away.
        assert load.seconds[0] < 1.0
        assert load.statuses == {200: 50}


def test_every_line_of_a_json_log_is_json(model_file):
    """The first line too, which says where the service is."""
    command = [sys.executable, "-c", "from rankwood.cli.main import run; run()", "serve"]
    with subprocess.Popen(
        [*command, str(model_file), "--port", "0", "--log-format", "json"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        first = json.loads(process.stderr.readline())
        address = re.search(r"http://127\.0\.0\.1:\d+", first["message"])[0]
        assert first["level"] == "info"
        assert urlopen(f"{address}/healthz", timeout=30).status == 200
        process.terminate()
        assert [json.loads(line)["level"] for line in process.stderr] == ["info"]


def test_a_port_that_is_taken(model_file, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", str(model_file), "--port", str(port)]) == 1
    assert f"cannot listen at 127.0.0.1:{port}" in capsys.readouterr().err


def test_mistakes_on_the_command_line(model_file, tmp_path, capsys):
    empty = tmp_path / "token"
    empty.write_text("\n")
    damaged = tmp_path / "damaged.rankwood"
    damaged.write_bytes(b"PK\x03\x04 and then nothing")
    for arguments, message in (
        ([str(tmp_path / "nowhere.rankwood")], "nowhere.rankwood"),
        ([str(damaged)], "damaged.rankwood"),
        ([str(model_file), str(model_file)], "both be served"),
        ([str(model_file), "--token-file", str(empty)], "is empty"),
        ([str(model_file), "--port", "70000"], "65535"),
    ):
        assert main(["serve", *arguments]) in (1, 2)
        assert message in capsys.readouterr().err
