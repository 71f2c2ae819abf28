"""The workers that answer requests, and the limit on the requests that wait for them. Imports no torch."""

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from forecast.system.errors import ForecastError
from forecast.tools.serve.worker_process import Call, WorkersLost, WorkerThread

log = logging.getLogger(__name__)

GRACE = 5
"""Seconds for which `close` waits for the processes."""

WATCH = 0.2
"""Seconds between two looks at the calls that take too long."""


class Overloaded(Exception):
    """The number of unanswered requests has reached `max_waiting`."""


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
                self.unavailable |= worker.process.call("list_unavailable")
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

    async def call(self, function: str, *arguments: Any) -> Any:
        """Call a function of `WORKER` in one of the processes.

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
        call = Call(function, arguments)
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
