"""What runs the application: connections, and processes.

uvicorn speaks HTTP and calls the application. Around it stand two things of ours. ``Acceptor`` takes connections from
the listening socket: not more than a limit, and in turn with the other processes that listen there. ``Connection``
stands between the socket and uvicorn's protocol: it ends a connection whose client takes too long to say what it
wants, and closes one so that a client that is still sending can read the answer. Where the limit is reached, the
connection that has waited longest without a request makes room for the next.

A service of one process answers requests itself. With more, a supervisor listens, reads the models and starts the
*workers*. ``share`` lays a model out in memory that has no name and that all of them map, read-only.

The life of a service of several processes
    1. ``Supervisor.run`` starts the workers, as forks of itself, so that they have the models and compiled code.
    2. A worker that dies is replaced; its figures stay.
    3. A changed file is read and checked once, by the supervisor, and its memory is handed to all workers over a
       socket; of a file that cannot be used they are only told.
    4. SIGTERM and Ctrl-C end the workers, which finish what was begun, and then the supervisor. A worker whose
       supervisor has died ends too.

``JsonLines`` and ``Throttle`` shape the log: a line of a kind once a second, with a count of those left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import io
import json
import logging
import mmap
import os
import pickle
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rankwood.errors import RunError
from rankwood.serve.answers import RequestLimits
from rankwood.serve.app import REQUESTS, Figures, make_app
from rankwood.serve.store import ModelSlot, ModelStore, ServedModel

BACKLOG = 1024  # connections that the system keeps until they are accepted
_SPARE_FILES = 64  # for model files, logs and the connections that are refused
_MOST_FILES = 65536
_AT_ONCE = 16  # connections accepted before anything else is done
_WAIT_FOR_OTHERS = (
    0.002  # seconds that a process with more connections than others leaves a new one to them
)
_MOST_WAITS = 10
_RETRY_SECONDS = 1.0  # after the system refused to accept
_LAST_SECONDS = 0.1  # for requests that are on their way when the service is told to stop
_LINGER_SECONDS = (
    2.0  # without a byte from a client that was answered before it had sent everything
)
_ALIGNMENT = 64  # bytes: a cache line, and what compiled loops like
_MESSAGE_BYTES = 1 << 16
_TICK_SECONDS = 0.05
_RESTART_SECONDS = 1.0  # between two starts of the same worker
_KILL_AFTER_SECONDS = 10.0  # beyond the time to finish what was begun
_LOG = logging.getLogger(__name__)
Factory = Callable[[dict[str, Any]], asyncio.Protocol]


def _bare_answer(status: str, message: str) -> bytes:
    """An answer to a client that the application does not get to see."""
    body = json.dumps({"error": {"message": message, "field": None}})
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"retry-after: 1\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    ).encode()


_BUSY = _bare_answer("503 Service Unavailable", "too many connections are open. Try again soon.")
_LATE = _bare_answer("408 Request Timeout", "the request took too long to come.")


class Connections:
    """The connections of a process, and those of them that wait for a request, the longest first."""

    def __init__(self, most: int, seconds: float, figures: Figures) -> None:
        self.most = most
        self.seconds = (
            seconds  # a client may take so long to send a head, or the rest of what nobody wants
        )
        self.figures = figures
        self.waiting: dict[Connection, None] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.figures.own("rankwood_connections"))

    def make_room(self) -> bool:
        """Whether one more may come in; the one that has waited longest for a request goes, where there is one."""
        if self.count < self.most:
            return True
        oldest = next(iter(self.waiting), None)
        if oldest is None:
            return False
        self.figures.add("rankwood_evicted_connections_total")
        _LOG.warning("%d connections are open: one that asks for nothing was closed", self.most)
        oldest.abort()
        return True


class Connection(asyncio.Protocol):
    """A connection: passes bytes on to uvicorn's protocol, and watches the time.

    It *waits* while the head of a request has not been read, *works* while the application has a request, and
    *lingers* when the answer has been sent and the connection is to be closed: what still comes is thrown away.
    """

    def __init__(self, connections: Connections, factory: Factory) -> None:
        self._all = connections
        self._inner = factory({"connection": self})
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_counted = True  # since it was accepted
        self._is_lingering = False
        self._linger_until = self._last_byte = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._all.waiting[self] = None
        self._expect_within(self._all.seconds)
        lingering: Any = _Lingering(transport, self)
        self._inner.connection_made(lingering)

    def data_received(self, data: bytes) -> None:
        """Pass on what was read; while nobody wants it, throw it away."""
        if self._is_lingering:
            self._last_byte = time.monotonic()
            return
        if self._timer is None and self in self._all.waiting:  # the first bytes of another request
            self._expect_within(self._all.seconds)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on that the client sends no more."""
        return None if self._is_lingering else self._inner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection."""
        self._cancel_timer()
        self._leave()
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Pass on that the client reads slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client reads again."""
        self._inner.resume_writing()

    def begun(self) -> None:
        """The head of a request has been read, and the application has it."""
        self._cancel_timer()
        self._all.waiting.pop(self, None)

    def ended(self) -> None:
        """The application has answered; uvicorn closes connections on which nothing follows."""
        if self._transport is not None and not self._transport.is_closing():
            self._all.waiting[self] = None

    def linger(self) -> None:
        """Send what is to be sent, and close when the client does, or does nothing, or takes too long."""
        if self._is_lingering or self._transport is None or self._transport.is_closing():
            return
        self._is_lingering = True
        self._all.waiting[self] = None
        self._cancel_timer()
        try:
            self._transport.write_eof()
            self._transport.resume_reading()
        except (OSError, RuntimeError):
            self._transport.abort()
            return
        self._last_byte = time.monotonic()
        self._linger_until = self._last_byte + self._all.seconds
        self._go_on_lingering()

    def abort(self) -> None:
        """Close at once; its place is free from now on."""
        self._leave()
        if self._transport is not None:
            self._transport.abort()

    def _leave(self) -> None:
        self._all.waiting.pop(self, None)
        if self._is_counted:
            self._is_counted = False
            self._all.figures.add("rankwood_connections", -1.0)

    def _go_on_lingering(self) -> None:
        """Wait for the next byte, but not for ever."""
        self._timer = None
        now = time.monotonic()
        until = min(self._last_byte + _LINGER_SECONDS, self._linger_until)
        if now >= until:
            self.abort()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(until - now, self._go_on_lingering)

    def _expect_within(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._is_late)

    def _is_late(self) -> None:
        self._timer = None
        if self._transport is None or self._transport.is_closing():
            return
        self._all.figures.add("rankwood_late_connections_total")
        _LOG.warning("a client took longer than %g s to send a request", self._all.seconds)
        self._transport.write(_LATE)
        self._transport.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Lingering:
    """A transport that does not close while the client is still sending: it would not get to read the answer.

    What is written in one go, the head of an answer and its body, is sent as one.
    """

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport = transport
        self._connection = connection
        self._is_closed = False
        self._unsent: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data with what follows at once."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._send)
        self._unsent.append(data)

    def _send(self) -> None:
        data = b"".join(self._unsent)
        self._unsent.clear()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close in the client's time."""
        self._is_closed = True
        self._send()
        self._connection.linger()

    def is_closing(self) -> bool:
        """Whether it was closed, as far as uvicorn is concerned."""
        return self._is_closed or self._transport.is_closing()


class Acceptor:
    """Takes connections from a listening socket that other processes may listen at, too."""

    def __init__(
        self, listening: socket.socket, connections: Connections, factory: Factory
    ) -> None:
        self._listening = listening
        self._connections = connections
        self._factory = factory
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._n_waits = 0
        listening.setblocking(False)

    def start(self) -> None:
        """Take connections from now on."""
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def stop(self) -> None:
        """Take those that have come, and no more."""
        if self._listening.fileno() < 0:
            return
        self._loop.remove_reader(self._listening.fileno())
        for _ in range(BACKLOG):
            if not self._accept_one():
                break
        self._listening.close()

    def _accept(self) -> None:
        figures = self._connections.figures
        for _ in range(_AT_ONCE):
            has_more = self._connections.count > figures.least("rankwood_connections")
            if has_more and self._n_waits < _MOST_WAITS:  # it is another process's turn
                self._n_waits += 1
                self._pause(_WAIT_FOR_OTHERS)
                return
            self._n_waits = 0
            if not self._accept_one():
                return

    def _accept_one(self) -> bool:
        """Take a connection; False where there is none."""
        try:
            accepted, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            self._connections.figures.add("rankwood_failed_accepts_total")
            _LOG.error("no connection can be accepted: %s", error.strerror or error)
            self._pause(_RETRY_SECONDS)
            return False
        if not self._connections.make_room():
            self._connections.figures.add("rankwood_refused_connections_total")
            _LOG.warning(
                "%d connections have requests: another was refused", self._connections.most
            )
            with contextlib.suppress(OSError):
                accepted.send(_BUSY, socket.MSG_DONTWAIT)
            accepted.close()
            return True
        self._connections.figures.add("rankwood_connections")  # until it leaves
        task = self._loop.create_task(
            self._loop.connect_accepted_socket(
                lambda: Connection(self._connections, self._factory), accepted
            )
        )
        self._tasks.add(task)
        task.add_done_callback(self._has_connected)
        return True

    def _has_connected(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is not None:
            self._connections.figures.add("rankwood_connections", -1.0)

    def _pause(self, seconds: float) -> None:
        """Look at the socket again after a while."""
        self._loop.remove_reader(self._listening.fileno())
        self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        if self._listening.fileno() >= 0:
            self.start()


class Server(uvicorn.Server):
    """uvicorn's server with connections of ours."""

    def __init__(
        self, config: uvicorn.Config, listening: socket.socket, connections: Connections
    ) -> None:
        super().__init__(config)
        self._listening = listening
        self._connections = connections
        self._acceptor: Acceptor | None = None
        self.on_start: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and take connections."""
        await super().startup(sockets=sockets or [])
        self._acceptor = Acceptor(self._listening, self._connections, self._protocol)
        self._acceptor.start()
        if self.on_start is not None:
            self.on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and finish what was begun."""
        if self._acceptor is not None:
            self._acceptor.stop()
            await asyncio.sleep(_LAST_SECONDS)  # those just taken may have sent requests
        await super().shutdown(sockets=sockets)

    def _protocol(self, state: dict[str, Any]) -> asyncio.Protocol:
        return H11Protocol(
            config=self.config,
            server_state=self.server_state,
            app_state={**self.lifespan.state, **state},
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at this address; an error names it, before anything else is done."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends answers without Nagle's delay of 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise RunError(
            f"cannot listen at {host}:{port}: {reason}. Choose another --port; 0 takes a free one."
        ) from None
    return listening


def most_connections(wanted: int) -> int:
    """As many connections as wanted, or as many as the system lets the process have files open for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = min(wanted + _SPARE_FILES, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < needed:
        limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            soft = limit
    if soft == resource.RLIM_INFINITY or soft >= wanted + _SPARE_FILES:
        return wanted
    return max(1, soft - _SPARE_FILES)


# Lines of the log.


class Throttle(logging.Filter):
    """Passes on a warning of a kind once a second, with a count of those left out."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, str], float] = {}
        self._left_out: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is passed on."""
        kind = (record.name, str(record.msg)[:100])
        if record.levelno < logging.WARNING or len(self._last) > 1000:
            return True
        now = time.monotonic()
        if now - self._last.get(kind, -1.0) < 1.0:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        self._last[kind] = now
        n_left_out = self._left_out.pop(kind, 0)
        if n_left_out:
            record.msg, record.args = f"{record.getMessage()} (and {n_left_out:,} more)", ()
        return True


class JsonLines(logging.Formatter):
    """A line of JSON: time, level, message, and of a request its id, model, documents and milliseconds."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "request", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_lines(handler: logging.Handler, *, requests: bool) -> None:
    """Send the lines of uvicorn and asyncio to the handler of ours too; ``requests``: a line for each request."""
    handler.addFilter(Throttle())
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
    logging.getLogger(REQUESTS).setLevel(logging.INFO if requests else logging.WARNING)


# One copy of a model for all processes.


def share(served: ServedModel) -> ServedModel:
    """The model with all its arrays in memory that other processes can map; see ``memory_of``."""
    return opened(_laid_out(served))


def opened(memory: int) -> ServedModel:
    """The model in shared memory, given by its file descriptor, which is kept with the model."""
    size = os.fstat(memory).st_size
    view = memoryview(mmap.mmap(memory, size, access=mmap.ACCESS_READ))
    n_head = int.from_bytes(view[:8], "little")
    head = json.loads(bytes(view[8 : 8 + n_head]))
    buffers = [view[begin : begin + length].toreadonly() for begin, length in head["buffers"]]
    begin, length = head["graph"]
    # Written by this program, into memory that only it and its forks can reach.
    served: ServedModel = pickle.loads(view[begin : begin + length], buffers=buffers)
    object.__setattr__(served, "_memory", _Descriptor(memory))
    return served


def memory_of(served: ServedModel) -> int:
    """The file descriptor of a shared model's memory."""
    descriptor: _Descriptor = vars(served)["_memory"]
    return descriptor.number


class _Descriptor:
    """A file descriptor that is closed with its owner."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.number)


class _Pickler(pickle.Pickler):
    """Writes dataclasses with all they hold, layouts that were computed included, and nothing is checked again."""

    def reducer_override(self, value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            state = {name: part for name, part in vars(value).items() if name != "_memory"}
            # The state comes after the object itself, since parts of a model may refer to the whole.
            return object.__new__, (type(value),), state, None, None, _set_state
        return NotImplemented


def _set_state(value: Any, state: dict[str, Any]) -> None:
    vars(value).update(state)


def _laid_out(served: ServedModel) -> int:
    """The descriptor of memory that holds a head, the model's graph of objects, and its arrays."""
    buffers: list[pickle.PickleBuffer] = []
    graph = io.BytesIO()
    _Pickler(graph, protocol=5, buffer_callback=buffers.append).dump(served)
    parts = [graph.getbuffer(), *(buffer.raw() for buffer in buffers)]
    sizes = [part.nbytes for part in parts]
    room = 8 + 64 * (len(parts) + 1)  # of the head: two numbers for each part
    places = []
    end = room
    for size in sizes:
        begin = -(-end // _ALIGNMENT) * _ALIGNMENT
        places.append((begin, size))
        end = begin + size
    head = json.dumps({"graph": places[0], "buffers": places[1:]}).encode()
    memory = os.memfd_create("rankwood-model")
    os.ftruncate(memory, end)
    with mmap.mmap(memory, end) as room_for_all:
        room_for_all[: 8 + len(head)] = len(head).to_bytes(8, "little") + head
        for (begin, size), part in zip(places, parts, strict=True):
            room_for_all[begin : begin + size] = part
    return memory


# The supervisor and its workers.


class Supervisor:
    """Starts workers, replaces those that die, hands them new models, and ends them."""

    def __init__(self, service: Service, n_workers: int) -> None:
        self._service = service
        self._workers: list[_Fork | None] = [None] * n_workers
        self._started = [0.0] * n_workers
        self._stopped_by: int | None = None

    def run(self) -> int:
        """Serve until told to stop; returns the number of the signal."""
        before = {
            number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            self._look_after_workers()
        finally:
            self._end_workers()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._stopped_by or signal.SIGTERM

    def _stop(self, number: int, _frame: Any) -> None:
        self._stopped_by = number

    def _look_after_workers(self) -> None:
        next_look = time.monotonic() + self._service.reload_seconds
        while self._stopped_by is None:
            now = time.monotonic()
            for number in range(len(self._workers)):
                self._look_after(number, now)
            if self._service.reload_seconds and now >= next_look:
                self._hand_out(self._service.store.refresh())
                next_look = time.monotonic() + self._service.reload_seconds
            time.sleep(_TICK_SECONDS)

    def _look_after(self, number: int, now: float) -> None:
        """Start a worker that is not there, or not any more."""
        worker = self._workers[number]
        if worker is not None and not worker.is_alive():
            _LOG.warning("worker %d has died and is replaced", worker.process)
            worker.close()
            worker = self._workers[number] = None
        if worker is None and now - self._started[number] >= _RESTART_SECONDS:
            self._started[number] = now
            self._workers[number] = self._start(number)
        elif worker is not None:
            worker.tell()

    def _start(self, number: int) -> _Fork:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = os.fork()
        if process:
            theirs.close()
            return _Fork(process, ours)
        code = 1
        try:
            for signal_number in (
                signal.SIGTERM,
                signal.SIGINT,
            ):  # until there is something to finish
                signal.signal(signal_number, lambda *_: os._exit(0))
            ours.close()
            for other in self._workers:
                if other is not None:
                    other.control.close()
            self._service.work(number, theirs)
            code = 0
        except BaseException:
            _LOG.exception("worker %d failed", os.getpid())
        finally:
            os._exit(code)

    def _hand_out(self, changed: Iterable[ModelSlot]) -> None:
        for entry in changed:
            for worker in self._workers:
                if worker is not None:
                    worker.untold[entry.served.name] = entry

    def _end_workers(self) -> None:
        workers = [worker for worker in self._workers if worker is not None]
        for worker in workers:
            worker.send(signal.SIGTERM)
        deadline = time.monotonic() + self._service.drain_seconds + _KILL_AFTER_SECONDS
        while any(worker.is_alive() for worker in workers) and time.monotonic() < deadline:
            time.sleep(_TICK_SECONDS)
        for worker in workers:
            if worker.is_alive():
                worker.send(signal.SIGKILL)
            worker.close()


class _Fork:
    """A worker, as its supervisor sees it."""

    def __init__(self, process: int, control: socket.socket) -> None:
        self.process = process
        self.control = control
        self.untold: dict[str, ModelSlot] = {}
        control.setblocking(False)
        self._has_ended = False

    def is_alive(self) -> bool:
        if not self._has_ended:
            with contextlib.suppress(ChildProcessError):
                self._has_ended = os.waitpid(self.process, os.WNOHANG)[0] != 0
        return not self._has_ended

    def send(self, number: int) -> None:
        if self.is_alive():
            os.kill(self.process, number)

    def close(self) -> None:
        self.control.close()

    def tell(self) -> None:
        """Hand over the models that have changed, and what is wrong with their files; later what it cannot take now."""
        for name, entry in list(self.untold.items()):
            about = {
                "name": name,
                "problem": entry.problem,
                "reloads": entry.reloads,
                "failures": entry.failures,
            }
            message, memory = json.dumps(about).encode(), memory_of(entry.served)
            with contextlib.suppress(OSError):
                socket.send_fds(self.control, [message], [memory])
                del self.untold[name]


def receive_model(control: socket.socket, store: ModelStore) -> bool:
    """Put the model that the supervisor sends in its place; False when the supervisor has gone."""
    message, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 1)
    if not message:
        return False
    about = json.loads(message)
    try:
        store.replace(about["name"], opened(descriptors[0]), about)
    except Exception:  # too little memory, say: the old model stays
        _LOG.exception("model '%s' was not taken over", about["name"])
    return True


# A service, in one process or in several.


@dataclasses.dataclass(frozen=True)
class Service:
    """A service that is about to run."""

    store: ModelStore
    limits: RequestLimits
    figures: Figures
    listening: socket.socket
    max_connections: int
    reload_seconds: float
    drain_seconds: int

    def run(self, n_workers: int) -> int:
        """Answer requests until told to stop; returns the number of the signal."""
        gc.collect()
        gc.freeze()  # modules and models stay: no pause of a request looks through them, and forks share them
        if n_workers > 1:
            return Supervisor(self, n_workers).run()
        self._server(
            self.reload_seconds
        ).run()  # finishes what was begun, and raises the signal again
        return signal.SIGTERM

    def work(self, number: int, control: socket.socket) -> None:
        """Answer requests in a worker; its supervisor reads the files, and its end is the worker's."""
        self.figures.use_line(number)
        server = self._server(0.0)

        def receive() -> None:
            if not receive_model(control, self.store):
                asyncio.get_running_loop().remove_reader(control.fileno())
                server.should_exit = True

        server.on_start = lambda: asyncio.get_running_loop().add_reader(control.fileno(), receive)
        server.run()

    def _server(self, reload_seconds: float) -> Server:
        app = make_app(self.store, self.limits, reload_seconds=reload_seconds, figures=self.figures)
        config = uvicorn.Config(
            app,
            log_config=None,  # uvicorn's lines go the way of ours
            access_log=False,
            ws="none",
            timeout_graceful_shutdown=self.drain_seconds,
            server_header=False,
        )
        connections = Connections(self.max_connections, self.limits.timeout, self.figures)
        return Server(config, self.listening, connections)
