"""The processes of the server: workers that answer requests, and those that export models. Imports no torch."""

import asyncio
import contextlib
import io
import logging
import multiprocessing
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from forecast.checkpoints.contents import find_run, find_trained
from forecast.system.errors import CheckpointError, ConfigError, ForecastError
from forecast.system.progress import track
from forecast.tools.serve.graph import read_facts
from forecast.tools.serve.worker import run as run_worker

log = logging.getLogger(__name__)

GRACE = 5  # seconds for which `close` waits for the processes

SPAWN = multiprocessing.get_context("spawn")


def find_models(paths: Sequence[str]) -> dict[str, Path]:
    """Find the models at these paths: run folders, checkpoint files, or folders of run folders.

    A model has the name of its run folder.

    Raises:
        CheckpointError: there is no model at a path.
        ConfigError: no path is given, or two models have the same name.
    """
    if not paths:
        raise ConfigError("models=[]: name a run folder, as in forecast serve runs/MY_RUN")
    found: dict[str, Path] = {}
    for text in paths:
        path = find_run(text).absolute()  # a link keeps its name, and is followed again when it has moved
        is_model = path.is_file() or has_checkpoint(path)
        runs = [path] if is_model else [run for run in sorted(path.iterdir()) if has_checkpoint(run)]
        if not runs:
            raise CheckpointError(
                f"{path}: neither this folder nor a folder in it has checkpoints/best.ckpt: give a run folder"
            )
        for run in runs:
            folder = run.parent.parent if run.is_file() and run.parent.name == "checkpoints" else run
            name = folder.stem if folder.is_file() else folder.name
            if found.setdefault(name, run) != run:
                raise ConfigError(f"{found[name]} and {run} have the same name: rename one of the folders")
    return found


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder is a run folder with a model."""
    return any((folder / "checkpoints" / f"{name}.ckpt").is_file() for name in ("refit", "best"))


class Overloaded(Exception):
    """The number of unanswered requests has reached `max_waiting`."""


class WorkersLost(Exception):
    """The worker process of a request ended; another one takes its place."""


class WorkerProcess:
    """A process that loads the models, and answers calls one after the other."""

    def __init__(self, models: Mapping[str, Path], use_graphs: bool) -> None:
        self._connection, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(
            target=run_worker, args=(theirs, models, use_graphs), daemon=True, name="forecast-worker"
        )
        self.process.start()
        theirs.close()  # the end of the process is then the end of the connection

    def receive(self) -> Any:
        """Wait for what the process sends: first why models are unavailable, then an answer to each call.

        Raises WorkersLost if the process ends before.
        """
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            raise WorkersLost("the process ended") from None

    def call(self, arguments: tuple[Any, ...]) -> Any:
        """Let the worker answer; arguments of None end it. Raises WorkersLost if the process ends before."""
        with contextlib.suppress(OSError):  # then `receive` fails too
            self._connection.send(arguments)
        return self.receive()

    def end(self) -> None:
        """Let a process without a call end. A killed one leaves semaphores behind, of which Python warns."""
        with contextlib.suppress(OSError):
            self._connection.send(None)


class WorkerPool:
    """Processes that forecast, one request at a time each. One that ends or does not answer in time is replaced.

    Args:
        models: folder or file of each model by name.
        workers: number of processes.
        max_waiting: largest number of unanswered requests; `call` raises Overloaded beyond it.
        timeout: seconds that a call may take in a process.
        use_graphs: whether ONNX Runtime answers the requests that it can answer.

    Attributes:
        workers: the processes.
        unanswered: number of calls that wait or that a process has begun.
        unavailable: by name, why a model cannot be used; its requests are tried all the same, for its checkpoint may
            have been replaced.
    """

    def __init__(
        self, models: Mapping[str, Path], *, workers: int, max_waiting: int, timeout: int, use_graphs: bool = True
    ) -> None:
        self.models, self.max_waiting = dict(models), max_waiting
        self._timeout, self._use_graphs, self._is_closed = timeout, use_graphs, False
        self.unanswered, self.unavailable = 0, dict[str, str]()
        self._idle: asyncio.Queue[WorkerProcess] = asyncio.Queue()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads = ThreadPoolExecutor(2 * workers)  # those of killed processes end a moment later
        self.workers = [WorkerProcess(self.models, use_graphs) for _ in range(workers)]

    def wait_until_loaded(self) -> None:
        """Wait until the models are loaded. Raises ForecastError if none can be used."""
        for worker in self.workers:
            try:
                self.unavailable |= worker.receive()
            except WorkersLost:
                raise ForecastError("a worker process ended while it loaded the models") from None
            self._idle.put_nowait(worker)
        if len(self.unavailable) == len(self.models):
            raise ForecastError("; ".join(f"{name}: {reason}" for name, reason in self.unavailable.items()))

    def note(self, name: str, reason: str) -> None:
        """Note why a model is unavailable, and log it once; an empty reason: it has answered."""
        known = self.unavailable.pop(name, "")
        if reason:
            self.unavailable[name] = reason
        if reason != known:
            log.warning("%s is %s", name, f"unavailable: {reason}" if reason else "available")

    async def call(self, *arguments: Any) -> Any:
        """Let one of the processes answer, with the arguments of `forecast.tools.serve.worker.answer`.

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
            while not (worker := await self._idle.get()).process.is_alive():
                self._start(self._replace(worker))
        except asyncio.CancelledError:
            self.unanswered -= 1
            raise
        return await asyncio.shield(self._start(self._answer(worker, arguments)))

    def _start(self, work: Any) -> asyncio.Task[Any]:
        """Start work that goes on whether or not someone waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # which need not be raised
        return task

    async def _answer(self, worker: WorkerProcess, arguments: tuple[Any, ...]) -> Any:
        """Wait for the answer of a worker, which is idle again or replaced then."""
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._in_thread(worker.call, arguments)
        except (TimeoutError, WorkersLost) as error:
            if isinstance(error, TimeoutError):
                log.warning(
                    "%s: a request took longer than timeout=%d s in its worker process, which is replaced",
                    arguments[0],
                    self._timeout,
                )
            self._start(self._replace(worker))
            raise
        finally:
            self.unanswered -= 1
        self._idle.put_nowait(worker)
        return answer

    async def _replace(self, worker: WorkerProcess) -> None:
        """End a process, start another one, and wait until that has loaded the models."""
        worker.process.kill()
        place = self.workers.index(worker)
        while not self._is_closed:
            try:
                self.workers[place] = WorkerProcess(self.models, self._use_graphs)
                await self._in_thread(self.workers[place].receive)
            except (WorkersLost, OSError) as error:  # such as for want of memory
                log.warning("a worker process could not be started: %s", error)
                await asyncio.sleep(1)
            else:
                self._idle.put_nowait(self.workers[place])
                return

    async def _in_thread(self, work: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def close(self) -> None:
        """End the processes. Call it when no client waits for an answer any more."""
        self._is_closed = True
        last = time.monotonic() + GRACE
        while not self._idle.empty():
            worker = self._idle.get_nowait()
            worker.end()
            worker.process.join(max(0.0, last - time.monotonic()))
        for worker in self.workers:
            worker.process.kill()
            worker.process.join()
        self._threads.shutdown()


def export_models(models: Mapping[str, Path]) -> None:
    """Export the models without an export of their present checkpoint for ONNX Runtime, each in its own process."""
    checkpoints = {name: find_trained(path) for name, path in models.items()}
    stale = [(name, checkpoint) for name, checkpoint in checkpoints.items() if read_facts(checkpoint) is None]
    for task in track(stale, "Exporting models for ONNX Runtime") if stale else ():
        process = SPAWN.Process(target=run_export, args=task, daemon=True)
        process.start()
        process.join()


def why_not_exported(path: Path) -> str:
    """Why PyTorch answers for the model at a path; empty if ONNX Runtime does."""
    facts = read_facts(find_trained(path))
    return facts["obstacle"] if facts else "it could not be exported"


def run_export(name: str, checkpoint: Path) -> None:
    """Body of the process that exports a model. Exits with status 1 and a line on stderr if it fails."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # deletes the temporary file
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            import_module("forecast.tools.serve.trained").export_model(name, checkpoint)
    except (ForecastError, OSError, ImportError) as error:
        print(f"{name}: not exported: {error}", file=sys.stderr)
        sys.exit(1)
