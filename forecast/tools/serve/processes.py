"""The processes of the server: workers that answer requests, and those that export models. Imports no torch."""

import asyncio
import contextlib
import io
import logging
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from forecast.checkpoints.settings import find_trained
from forecast.system.errors import ForecastError
from forecast.system.progress import track
from forecast.tools.serve.models import file_state, read_facts

log = logging.getLogger(__name__)

GRACE = 5
"""Seconds for which `close` waits for the processes."""

WATCH = 0.2
"""Seconds between two looks at the calls that take too long."""

WATCH_CHECKPOINTS = 5
"""Seconds between two looks at the checkpoints."""

SPAWN = multiprocessing.get_context("spawn")


class Overloaded(Exception):
    """The number of unanswered requests has reached `max_waiting`."""


class WorkersLost(Exception):
    """The worker process of a request ended; another one takes its place."""


@dataclass(frozen=True)
class Call:
    """A call with the arguments of `forecast.tools.serve.worker.Worker.answer`, and its result."""

    arguments: tuple[Any, ...]
    result: Future[Any] = field(default_factory=Future)


class WorkerProcess:
    """A process that has loaded the models, and answers calls one after the other.

    Attributes:
        process: the process.
    """

    def __init__(self, models: Mapping[str, Path], use_graphs: bool) -> None:
        self._connection, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(
            target=run_worker, args=(theirs, models, use_graphs), daemon=True, name="forecast-worker"
        )
        self.process.start()
        theirs.close()  # the end of the process is then the end of the connection
        self._lock, self._is_late = threading.Lock(), False
        self._deadline: float | None = None  # of the call that it has

    def list_unavailable(self) -> dict[str, str]:
        """Wait until the models are loaded; return why some cannot be used. Raises WorkersLost if the process ended."""
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            raise WorkersLost from None

    def call(self, arguments: tuple[Any, ...], timeout: int) -> Any:
        """Let the worker answer.

        Raises:
            WorkersLost: the process ended before.
            TimeoutError: the call took longer than `timeout` seconds, and `kill_if_late` killed the process.
        """
        with self._lock:
            self._deadline = time.monotonic() + timeout
        try:
            self._connection.send(arguments)
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
                self.process.kill()

    def end(self) -> None:
        """Let the process end once it has no call. A killed one leaves semaphores behind, of which Python warns."""
        with contextlib.suppress(OSError):
            self._connection.send(None)

    def kill(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join()


def run_worker(calls: Connection, models: Mapping[str, Path], use_graphs: bool) -> None:
    """Body of a worker process."""
    import_module("forecast.tools.serve.worker").run(calls, models, use_graphs)


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
            if not self.process.process.is_alive() and not self._is_closed.is_set():
                self._calls.put(call)  # another process may be idle
                self._replace_process()
            elif call.result.set_running_or_notify_cancel():
                self._answer(call)
        self.process.end()

    def _answer(self, call: Call) -> None:
        try:
            result = self.process.call(call.arguments, self._timeout)
        except Exception as error:  # the caller of the pool raises it
            if isinstance(error, TimeoutError):
                log.warning(
                    "%s: a request took longer than timeout=%d s in its worker process, which is replaced",
                    call.arguments[0],
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
                self.process.list_unavailable()
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
        self.process.process.join(max(0.0, last - time.monotonic()))
        self.process.kill()


class WorkerPool:
    """Processes that forecast, one request at a time each.

    Args:
        models: folder or file of each model by name.
        workers: number of processes.
        max_waiting: largest number of unanswered requests; `call` raises Overloaded beyond it.
        timeout: seconds that a call may take in a process, which is then ended and replaced.
        use_graphs: whether ONNX Runtime answers the requests that it can answer.

    Attributes:
        unavailable: by name, why a model cannot be used; its requests are tried all the same, for its checkpoint may
            have been replaced.
    """

    def __init__(
        self,
        models: Mapping[str, Path],
        *,
        workers: int,
        max_waiting: int,
        timeout: int,
        use_graphs: bool = True,
    ) -> None:
        self.models, self.max_waiting = dict(models), max_waiting
        self.unanswered, self.unavailable = 0, dict[str, str]()
        self._counting, self._is_closed = threading.Lock(), threading.Event()
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self.workers = [WorkerThread(self.models, self._calls, timeout, use_graphs) for _ in range(workers)]

    def wait_until_loaded(self) -> None:
        """Wait until the models are loaded, and start to answer. Raises ForecastError if none can be used."""
        for worker in self.workers:
            try:
                self.unavailable |= worker.process.list_unavailable()
            except WorkersLost:
                raise ForecastError("a worker process ended while it loaded the models") from None
        if len(self.unavailable) == len(self.models):
            raise ForecastError("; ".join(f"{name}: {reason}" for name, reason in self.unavailable.items()))
        for worker in self.workers:
            worker.start()
        threading.Thread(target=self._watch, daemon=True, name="forecast-watch").start()

    def note(self, name: str, reason: str) -> None:
        """Note why a model is unavailable, and log it once; an empty reason: it has answered."""
        known = self.unavailable.pop(name, "")
        if reason:
            self.unavailable[name] = reason
        if reason != known:
            log.warning("%s is %s", name, f"unavailable: {reason}" if reason else "available")

    def _watch(self) -> None:
        """Kill the processes whose calls take too long."""
        while not self._is_closed.wait(WATCH):
            for worker in self.workers:
                worker.process.kill_if_late()

    async def call(self, *arguments: Any) -> Any:
        """Let one of the processes answer, with the arguments of `forecast.tools.serve.worker.Worker.answer`.

        A call that a process has begun goes on if the caller is cancelled, and is ended after `timeout` seconds. Until
        then it counts as unanswered.

        Raises:
            Overloaded: `max_waiting` requests are unanswered.
            WorkersLost: the process ended.
            TimeoutError: the call took longer than `timeout` seconds.
        """
        with self._counting:
            if self.unanswered >= self.max_waiting:
                raise Overloaded
            self.unanswered += 1
        call = Call(arguments)
        call.result.add_done_callback(self._count_answer)
        self._calls.put(call)
        return await asyncio.wrap_future(call.result)

    def _count_answer(self, result: Future[Any]) -> None:
        with self._counting:
            self.unanswered -= 1

    def close(self) -> None:
        """End the processes. Call it when no client waits for an answer any more."""
        self._is_closed.set()
        for worker in self.workers:
            worker.close()
        last = time.monotonic() + GRACE
        for worker in self.workers:
            worker.wait_until_closed(last - time.monotonic())


class Exporter:
    """Exports the models whose checkpoints have changed.

    Args:
        models: run folder or checkpoint file of each model by name.
    """

    def __init__(self, models: Mapping[str, Path]) -> None:
        self.models = dict(models)
        self._failed: dict[str, Any] = {}
        self._closed = threading.Event()

    def export_all(self) -> None:
        """Export the models that have no export of their present checkpoint, and show the progress."""
        if stale := self._find_stale():
            for name, checkpoint in track(list(stale.items()), "Exporting models for ONNX Runtime"):
                self._export(name, checkpoint)

    def watch(self) -> None:
        """Export models whose checkpoints change, until `close`, in a thread."""
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def describe(self, names: Iterable[str]) -> Iterable[str]:
        """Yield a line for each of these models that PyTorch answers."""
        for name in names:
            path = self.models[name]
            facts = read_facts(find_trained(path))
            reason = facts["obstacle"] if facts else "it could not be exported"
            if reason:
                yield f"PyTorch    answers for {name}: {reason}"

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_CHECKPOINTS):
            for name, checkpoint in self._find_stale().items():
                self._export(name, checkpoint)

    def _find_stale(self) -> dict[str, Path]:
        """The checkpoint of each model without an export of it, other than those whose export failed."""
        stale = {}
        for name, path in self.models.items():
            with contextlib.suppress(OSError, ForecastError):  # a refit may be replacing the file
                checkpoint = find_trained(path)
                if self._failed.get(name) != file_state(checkpoint) and read_facts(checkpoint) is None:
                    stale[name] = checkpoint
        return stale

    def _export(self, name: str, checkpoint: Path) -> None:
        with contextlib.suppress(FileNotFoundError):  # it was replaced: the next look finds its successor
            state = file_state(checkpoint)
            process = SPAWN.Process(target=run_export, args=(name, checkpoint), daemon=True)
            process.start()
            process.join()
            if process.exitcode:
                self._failed[name] = state


def run_export(name: str, checkpoint: Path) -> None:
    """Body of the process that exports a model. Exits with status 1 and a line on stderr if it fails."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # deletes the temporary file
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            import_module("forecast.tools.serve.trained").export_model(name, checkpoint)
    except (ForecastError, OSError, ImportError) as error:
        print(f"{name}: not exported: {error}", file=sys.stderr)
        sys.exit(1)
