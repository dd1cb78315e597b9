"""The service under abuse, as a process: slow and silent clients, bodies without end, noise, dying workers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

import rankwood as rw
from benchmarks.serving import ask, bodies_of, serving
from tests.serve.test_process import wait_until

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def connected(port: int, n_connections: int, first: bytes):
    """So many connections that have sent their first bytes."""
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(n_connections):
            client = socket.create_connection(("127.0.0.1", port), 30)
            clients.append(stack.enter_context(client))
            client.sendall(first)
        yield clients


def head_of(length: int, *others: str, path: str = "/rank") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: a", f"Content-Length: {length}", *others, "", ""]
    return "\r\n".join(lines).encode()


def status_of(client: socket.socket) -> int:
    """The status of the answer; 0 where there is none."""
    client.settimeout(30)
    answer = b""
    with contextlib.suppress(OSError):
        while b"\r\n" not in answer and (part := client.recv(4096)):
            answer += part
    return int(answer.split(b" ", 2)[1]) if answer else 0


def lines_of(service) -> list[str]:
    """Everything that an ended service has written to its log."""
    return service.process.stderr.read().splitlines()


def test_half_open_connections_lock_nobody_out(model_file):
    body = bodies_of(1, 5, 6)[0]
    with serving(model_file, "--timeout", "2", "--max-connections", "20") as service:
        with connected(service.port, 80, b"POST /rank HTTP/1.1\r\nHo") as clients:
            assert ask(service.port, [body], 20, 4).statuses == {200: 20}
            assert service.figure("rankwood_evicted_connections_total") >= 40
            assert service.figure("rankwood_connections") <= 20
            wait_until(lambda: service.figure("rankwood_late_connections_total") >= 10)
            assert {status_of(client) for client in clients} <= {0, 408, 503}
        assert service.stop() == 0
        assert len(lines_of(service)) < 40


def test_a_small_limit_of_open_files_is_kept(model_file):
    body = bodies_of(1, 5, 6)[0]
    with serving(model_file, limit_files=100) as service:
        with connected(service.port, 150, b"GET /heal"):
            assert ask(service.port, [body], 10, 2).statuses == {200: 10}
            assert service.figure("rankwood_connections") <= 36
            assert service.figure("rankwood_failed_accepts_total") == 0
        assert service.stop() == 0
        assert len(lines_of(service)) < 40


@pytest.mark.parametrize("keep", ["close", "keep-alive"])
def test_a_body_that_is_too_large_is_answered_to_clients_that_send_it_whole(model_file, keep):
    with serving(model_file, "--max-body-mb", "1") as service:
        for _ in range(5):
            client = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
            client.request("POST", "/rank", b" " * 8_000_000, {"Connection": keep})
            answer = client.getresponse()
            assert answer.status == 413
            assert json.load(answer)["error"]["field"] == "body"
            client.close()
        with connected(service.port, 1, head_of(10**9, "Expect: 100-continue")) as (client,):
            assert status_of(client) == 413  # before a byte of the body was sent
        assert service.get("/healthz")


def test_an_upload_that_is_broken_off_is_a_line_and_a_figure(model_file):
    with serving(model_file) as service:
        with connected(service.port, 3, head_of(1000) + b"{"):
            wait_until(lambda: service.figure("rankwood_body_bytes") == 3)
        wait_until(lambda: service.figure("rankwood_aborted_uploads_total") == 3)
        assert service.figure("rankwood_body_bytes") == 0
        assert 'requests_total{path="/rank",status="499"} 3' in service.get("/metrics")
        assert service.stop() == 0
        lines = lines_of(service)
    assert not any("Traceback" in line for line in lines)
    assert sum("broke off" in line for line in lines) == 1


def test_bodies_that_stall_do_not_fill_the_memory(model_file):
    body = bodies_of(1, 5, 6)[0]
    options = ("--body-budget-mb", "2", "--timeout", "5")
    with serving(model_file, *options) as service:
        stalled = head_of(900_000) + b" " * 800_000
        with connected(service.port, 6, stalled) as clients:
            wait_until(lambda: service.figure("rankwood_body_bytes") > 1_500_000)
            assert service.figure("rankwood_body_bytes") <= 2.2 * 2**20
            assert [status_of(client) for client in clients].count(503) >= 3
        wait_until(lambda: service.figure("rankwood_body_bytes") == 0)
        assert ask(service.port, [body], 5, 1).statuses == {200: 5}


def test_what_cannot_be_finished_in_time_is_told_so(model_file):
    begun = head_of(1000) + b"{"
    with (
        serving(model_file, "--drain-seconds", "1", "--timeout", "60") as service,
        connected(service.port, 2, begun) as clients,
    ):
        wait_until(lambda: service.figure("rankwood_body_bytes") == 2)
        assert service.stop() == 0
        assert [status_of(client) for client in clients] == [503, 503]


def test_connections_that_wait_in_line_are_answered_at_the_end(model_file):
    """Clients whose connection the system has, and nobody has accepted, when the service is told to stop."""
    with serving(model_file) as service:
        assert service.get("/healthz")
        os.kill(service.process.pid, signal.SIGSTOP)
        with connected(service.port, 10, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n") as clients:
            service.process.send_signal(signal.SIGTERM)
            os.kill(service.process.pid, signal.SIGCONT)
            assert [status_of(client) for client in clients] == [200] * 10
        assert service.process.wait(60) == 0


def test_noise_is_refused_in_a_few_lines(model_file):
    generator = random.Random(3)
    body = bodies_of(1, 5, 6)[0]
    heads = [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"POST /rank HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /rank HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
        b"POST /rank HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ]
    with serving(model_file, "--timeout", "2") as service:
        for number in range(300):
            noise = generator.choice(heads) if number % 2 else generator.randbytes(200)
            with connected(service.port, 1, b"") as (client,), contextlib.suppress(OSError):
                client.sendall(noise)
                client.shutdown(socket.SHUT_WR)
                client.settimeout(5)
                answer = client.recv(12)
                assert answer in (b"", b"HTTP/1.1 400", b"HTTP/1.1 200", b"HTTP/1.1 404"), answer
        assert ask(service.port, [body], 20, 4).statuses == {200: 20}
        assert service.stop() == 0
        assert len(lines_of(service)) < 100


# Several processes.


def workers_of(service) -> list[int]:
    path = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children")
    return [int(child) for child in path.read_text().split()]


def test_two_workers_share_a_port_and_a_reload(model_file, data, tmp_path):
    other, damaged = tmp_path / "other", tmp_path / "damaged"
    rw.save(rw.GBRT(n_trees=20, min_leaf=2, seed=5).fit(data), other)
    damaged.write_bytes(other.read_bytes()[:-100])
    bodies = bodies_of(8, 50, 6)
    with serving(model_file, "--workers", "2", "--reload-seconds", "0.1") as service:
        wait_until(lambda: len(workers_of(service)) == 2)
        first = workers_of(service)
        maps = [Path(f"/proc/{worker}/maps").read_text() for worker in first]
        assert all("memfd:rankwood-model" in each for each in maps)

        def both(name: str, value: int):
            """Ask until every worker must have been asked."""
            return lambda: all(service.figure(name) == value for _ in range(20))

        events = {
            500: lambda: (
                os.replace(other, model_file),
                wait_until(both("rankwood_model_reloads_total", 1)),
            ),
            1000: lambda: (
                os.replace(damaged, model_file),
                wait_until(both("rankwood_model_reload_failures_total", 1)),
            ),
        }
        load = ask(service.port, bodies, 2000, 8, after=events)
        assert (load.statuses, load.lost, len(load.versions)) == ({200: 2000}, 0, 2)
        text = service.get("/metrics")
        assert 'rankwood_documents_total{model="boosted"} 100000' in text  # of both together
        assert json.loads(service.get("/models"))["models"][0]["problem"]
        os.kill(first[0], signal.SIGKILL)
        wait_until(lambda: len(set(workers_of(service)) - {first[0]}) == 2)
        assert ask(service.port, bodies, 100, 8).statuses == {200: 100}
        assert len({*load.versions, *ask(service.port, bodies, 100, 8).versions}) == 2
        total = 'rankwood_documents_total{model="boosted"} 110000'
        wait_until(lambda: total in service.get("/metrics"))
        assert service.stop() == 0


def test_workers_end_with_their_supervisor(model_file):
    with serving(model_file, "--workers", "2") as service:
        wait_until(lambda: len(workers_of(service)) == 2)
        workers = workers_of(service)
        service.process.kill()
        service.process.wait()
        wait_until(lambda: not any(os.path.exists(f"/proc/{worker}") for worker in workers))


def test_workers_finish_what_was_begun(model_file):
    body = bodies_of(1, 100, 6)[0]
    with serving(model_file, "--workers", "2") as service:
        with connected(service.port, 6, head_of(len(body)) + body[:50]) as clients:
            wait_until(lambda: service.figure("rankwood_body_bytes") == 300)
            stopping = threading.Thread(target=service.stop)
            stopping.start()
            time.sleep(0.5)
            for client in clients:
                client.sendall(body[50:])
            assert [status_of(client) for client in clients] == [200] * 6
        stopping.join()
        assert service.process.returncode == 0
