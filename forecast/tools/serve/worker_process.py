"""A process that forecasts, and the thread that gives it calls and replaces it. Imports no torch."""

import contextlib
import logging
import multiprocessing
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

log = logging.getLogger(__name__)

WORKER = "forecast.tools.serve.worker"


class WorkersLost(Exception):
    """The worker process of a request ended; another one takes its place."""


@dataclass(frozen=True)
class Call:
    """A call of a function of `WORKER`, and its result."""

    function: str
    arguments: tuple[Any, ...]
    result: Future[Any] = field(default_factory=Future)


class WorkerProcess:
    """A process that has loaded the models, and calls functions of `WORKER` one after the other."""

    def __init__(self, models: Mapping[str, Path], use_graphs: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=run_worker, args=(theirs, models, use_graphs), daemon=True, name="forecast-worker"
        )
        self._process.start()
        theirs.close()  # the end of the process is then the end of the connection
        self.id = self._process.pid
        self._lock, self._is_late = threading.Lock(), False
        self._deadline: float | None = None  # of the call that it has

    def call(self, function: str, *arguments: Any, timeout: int | None = None) -> Any:
        """Call a function and wait for its result.

        Raises:
            WorkersLost: the process ended before.
            TimeoutError: the call took longer than `timeout` seconds, and `kill_if_late` killed the process.
        """
        with self._lock:
            self._deadline = None if timeout is None else time.monotonic() + timeout
        try:
            self._connection.send((function, arguments))
            return self._connection.recv()
        except (EOFError, OSError):
            raise (TimeoutError if self._is_late else WorkersLost) from None
        finally:
            with self._lock:
                self._deadline = None

    def kill_if_late(self) -> None:
        """Kill the process if its call has taken longer than the timeout."""
        with self._lock:
            if self._deadline is not None and time.monotonic() > self._deadline:
                self._is_late = True
                self._process.kill()

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.is_alive()

    def end(self) -> None:
        """Let the process end once it has no call. A killed one leaves semaphores behind, of which Python warns."""
        with contextlib.suppress(OSError):
            self._connection.send(None)

    def join(self, seconds: float) -> None:
        """Wait for the end of the process."""
        self._process.join(max(0.0, seconds))

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()


class WorkerThread(threading.Thread):
    """A thread that takes calls from a queue, one at a time, and has them answered by a process.

    It does not depend on the event loop, which may be busy with the requests that it refuses. A process that ends, or
    does not answer in time, is replaced.

    Args:
        models: folder or file of each model by name.
        calls: the queue, which several threads may share. None ends one thread and its process.
        timeout: seconds that a call may take in the process.
        use_graphs: whether ONNX Runtime answers the requests that it can answer.
    """

    def __init__(
        self, models: Mapping[str, Path], calls: SimpleQueue[Call | None], timeout: int, use_graphs: bool
    ) -> None:
        super().__init__(daemon=True, name="forecast-worker")
        self._models, self._calls, self._timeout, self._use_graphs = models, calls, timeout, use_graphs
        self._is_closed = threading.Event()
        self.process = WorkerProcess(models, use_graphs)

    def run(self) -> None:
        while (call := self._calls.get()) is not None:
            if not self.process.is_alive() and not self._is_closed.is_set():
                self._calls.put(call)  # another process may be idle
                self._replace_process()
            elif call.result.set_running_or_notify_cancel():
                self._answer(call)
        self.process.end()

    def _answer(self, call: Call) -> None:
        try:
            result = self.process.call(call.function, *call.arguments, timeout=self._timeout)
        except Exception as error:  # the caller of the pool raises it
            if isinstance(error, TimeoutError):
                log.warning(
                    "%s: a request took longer than timeout=%d s in its worker process, which is replaced",
                    call.arguments[0] if call.arguments else call.function,
                    self._timeout,
                )
            self.process.kill()
            call.result.set_exception(error)
            self._replace_process()
        else:
            call.result.set_result(result)

    def _replace_process(self) -> None:
        """Start another process, and wait until it has loaded the models."""
        while not self._is_closed.is_set():
            try:
                self.process = WorkerProcess(self._models, self._use_graphs)
                self.process.call("list_unavailable")
            except (WorkersLost, OSError) as error:  # such as for want of memory
                log.warning(
                    "a worker process could not be started: %s",
                    error or "it ended while it loaded the models",
                )
                self._is_closed.wait(1)
            else:
                return

    def close(self) -> None:
        """Start no other process, and end this one once the calls in the queue are answered."""
        self._is_closed.set()
        if self.is_alive():
            self._calls.put(None)
        else:
            self.process.end()

    def wait_until_closed(self, seconds: float) -> None:
        """Wait for the end of the thread and of its process, which is killed if it takes longer."""
        last = time.monotonic() + seconds
        if self.is_alive():
            self.join(max(0.0, seconds))
        self.process.join(last - time.monotonic())
        self.process.kill()


def run_worker(calls: Connection, models: Mapping[str, Path], use_graphs: bool) -> None:
    """Body of a worker process."""
    import_module(WORKER).run(calls, models, use_graphs)
