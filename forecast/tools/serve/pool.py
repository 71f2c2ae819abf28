"""The processes that forecast, and the limits on the requests that wait for them. Imports no torch."""

import asyncio
import contextlib
import logging
import multiprocessing
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from forecast.system.errors import ForecastError

log = logging.getLogger(__name__)

WORKER = "forecast.tools.serve.worker"
GRACE = 5
"""Seconds for which `close` waits for the processes."""


class Overloaded(Exception):
    """The number of unanswered requests has reached `max_waiting`."""


class WorkersLost(Exception):
    """The worker process of a request ended; another one takes its place."""


class Worker:
    """A process that has loaded the models, and calls functions of `WORKER` one after the other."""

    def __init__(self, models: Mapping[str, Path], use_graphs: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=run_worker, args=(theirs, models, use_graphs), daemon=True, name="forecast-worker"
        )
        self._process.start()
        theirs.close()  # the end of the process is then the end of the connection
        self.process_id = self._process.pid

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a function and wait for its result. Raises WorkersLost if the process ends before."""
        try:
            self._connection.send((function, arguments))
            return self._connection.recv()
        except (EOFError, OSError):
            raise WorkersLost from None

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


class WorkerPool:
    """Processes that forecast, one request at a time each.

    Args:
        models: folder or file of each model by name.
        workers: number of processes.
        max_waiting: largest number of unanswered requests; `call` raises Overloaded beyond it.
        timeout: seconds that a call may take in a process, which is then ended and replaced.
        use_graphs: whether ONNX Runtime answers the requests that it can answer.
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
        self.models, self.max_waiting, self.timeout = dict(models), max_waiting, timeout
        self.use_graphs = use_graphs
        self.unanswered = 0
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads = ThreadPoolExecutor(workers)  # each waits for one worker
        self._starting = threading.Lock()
        self._is_closed = False
        self.workers: list[Worker] = []
        for _ in range(workers):
            self._start_worker()

    def _start_worker(self) -> Worker | None:
        """Start a worker; None if the pool is closed."""
        with self._starting:
            if self._is_closed:
                return None
            worker = Worker(self.models, self.use_graphs)
            self.workers.append(worker)
            return worker

    def wait_until_loaded(self) -> None:
        """Wait until the models are loaded. Raises ForecastError if one of them cannot be."""
        for worker in self.workers:
            try:
                message = worker.call("check_started")
            except WorkersLost:
                message = "a worker process ended while it loaded the models"
            if message:
                raise ForecastError(message)
            self._idle.put_nowait(worker)

    async def call(self, function: str, *arguments: Any) -> Any:
        """Call a function of `WORKER` in one of the processes.

        A call that a process has begun goes on if the caller is cancelled, and is ended after `timeout` seconds. Until
        then it counts as unanswered.

        Raises:
            Overloaded: `max_waiting` requests are unanswered.
            WorkersLost: the process ended.
            TimeoutError: the call took longer than `timeout` seconds.
        """
        if self.unanswered >= self.max_waiting:
            raise Overloaded
        self.unanswered += 1
        try:
            while not (worker := await self._idle.get()).is_alive():
                self._replace(worker)
        except asyncio.CancelledError:
            self.unanswered -= 1
            raise
        return await asyncio.shield(self._keep(self._call_worker(worker, function, *arguments)))

    async def _call_worker(self, worker: Worker, function: str, *arguments: Any) -> Any:
        """Call a function of this worker, and then return the worker, or another one in its place, to the idle ones."""
        try:
            async with asyncio.timeout(self.timeout):
                result = await self._in_thread(worker.call, function, *arguments)
        except (TimeoutError, WorkersLost) as error:
            if isinstance(error, TimeoutError):
                log.warning(
                    "%s: a request took longer than timeout=%d s in its worker process, which is replaced",
                    arguments[0] if arguments else function,
                    self.timeout,
                )
            self._replace(worker)
            raise
        else:
            self._idle.put_nowait(worker)
            return result
        finally:
            self.unanswered -= 1

    def _replace(self, worker: Worker) -> None:
        """End a worker, and let another one take its place once it has loaded the models."""
        worker.kill()
        self.workers.remove(worker)
        self._keep(self._add_worker())

    async def _add_worker(self) -> None:
        while (worker := await self._in_thread(self._start_worker)) is not None:
            try:
                await self._in_thread(worker.call, "check_started")
            except WorkersLost:  # while it loaded the models, such as for want of memory
                self.workers.remove(worker)
                await asyncio.sleep(1)
            else:
                self._idle.put_nowait(worker)
                return

    def _in_thread(self, function: Any, *arguments: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def _keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task that goes on if nobody waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # or asyncio logs an exception that no client waited for

    def close(self) -> None:
        """End the processes. Call it when no client waits for an answer any more."""
        with self._starting:
            self._is_closed = True
        for worker in self.workers:
            worker.end()
        last = time.monotonic() + GRACE
        for worker in self.workers:
            worker.join(last - time.monotonic())
            worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)


def run_worker(calls: Connection, models: Mapping[str, Path], use_graphs: bool) -> None:
    """Body of a worker process."""
    import_module(WORKER).run(calls, models, use_graphs)
