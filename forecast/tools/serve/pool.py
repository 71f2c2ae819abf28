"""The processes that forecast, and the limit on the requests that wait for them. Imports no torch."""

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import connection
from pathlib import Path
from typing import Any

from forecast.system.errors import ForecastError

WORKER = "forecast.tools.serve.worker"


class Overloaded(Exception):
    """The number of unanswered requests has reached `max_waiting`."""


class WorkersLost(Exception):
    """A worker process ended while requests were unanswered; new processes have been started."""


class WorkerPool:
    """Processes that forecast, one request at a time each.

    Args:
        models: folder or file of each model by name.
        workers: number of processes.
        max_waiting: largest number of unanswered requests; `call` raises Overloaded beyond it.
        use_graphs: whether ONNX Runtime answers the requests that it can answer.
    """

    def __init__(
        self, models: Mapping[str, Path], *, workers: int, max_waiting: int, use_graphs: bool = True
    ) -> None:
        self.models, self.workers, self.max_waiting = dict(models), workers, max_waiting
        self.use_graphs = use_graphs
        self.unanswered = 0
        self._pool = self._start_processes()

    def _start_processes(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        all_loaded = context.Barrier(self.workers)
        return ProcessPoolExecutor(
            self.workers, mp_context=context, initializer=run_in_worker,
            initargs=("start", self.models, self.use_graphs, all_loaded),
        )  # fmt: skip

    def wait_until_loaded(self) -> None:
        """Wait until the models are loaded. Raises ForecastError if one of them cannot be."""
        for call in [self._submit("check_started") for _ in range(self.workers)]:
            if message := call.result():
                raise ForecastError(message)

    def _submit(self, function: str, *arguments: Any) -> Future[Any]:
        return self._pool.submit(run_in_worker, function, *arguments)

    async def call(self, function: str, *arguments: Any) -> Any:
        """Call a function of `forecast.tools.serve.worker` in one of the processes.

        Raises:
            Overloaded: `max_waiting` requests are unanswered.
            WorkersLost: a process ended.
        """
        if self.unanswered >= self.max_waiting:
            raise Overloaded
        self.unanswered += 1
        pool = self._pool
        try:
            call = self._submit(function, *arguments)
            call.add_done_callback(self._count_answer_from(asyncio.get_running_loop()))
        except BrokenProcessPool:
            self.unanswered -= 1
            self._replace(pool)
            raise WorkersLost from None
        try:
            return await asyncio.wrap_future(call)
        except BrokenProcessPool:
            self._replace(pool)
            raise WorkersLost from None

    def _count_answer_from(self, loop: asyncio.AbstractEventLoop) -> Callable[[Future[Any]], None]:
        """A callback that counts an answer in the thread of the loop, whether or not its client still waits."""

        def count() -> None:
            self.unanswered -= 1

        def count_in_loop(_: Future[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the server has ended, and its loop is closed
                loop.call_soon_threadsafe(count)

        return count_in_loop

    def _replace(self, broken: ProcessPoolExecutor) -> None:
        if self._pool is not broken:
            return
        broken.shutdown(wait=False)
        self._pool = self._start_processes()
        for _ in range(
            self.workers
        ):  # a call starts a process, and each waits until all have loaded their models
            self._submit("check_started")

    def close(self, seconds: int) -> None:
        """End the processes after the requests that they are answering, at the latest after some seconds."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        end = time.monotonic() + seconds
        for process in multiprocessing.active_children():
            # not join(): the pool joins its processes in a thread, and a second one would take them for alive
            if not connection.wait([process.sentinel], max(0.0, end - time.monotonic())):
                process.kill()


def run_in_worker(function: str, *arguments: Any) -> Any:
    """Call a function of `WORKER`."""
    return getattr(import_module(WORKER), function)(*arguments)
