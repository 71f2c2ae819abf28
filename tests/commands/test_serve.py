"""`python -m forecast.serve`: a server on real runs, asked over HTTP."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pandas as pd
import psutil
import pytest

import forecast
from tests.support.browser import opened
from tests.support.covariate_file import FUTURE, table
from tests.support.fork_server import start_python

ROOT = Path(__file__).parents[2]
MAX_WAITING = 3
DAMAGED = "damaged"
REASON = f"{DAMAGED}/checkpoints/best.ckpt: the file is damaged, or it is not a checkpoint"
STATE = {
    "status": "ready",
    "models": ["covariates", "long"],
    "unavailable": {DAMAGED: REASON},
    "unanswered": 0,
}


class Reply(NamedTuple):
    status: int
    content: Any
    headers: Any


class Server(NamedTuple):
    url: str
    models: Path
    pid: int

    def get(self, path: str, body: object = None) -> Reply:
        """Ask for a path; `body` is sent as JSON unless it is bytes."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with urlopen(Request(f"{self.url}/{path}", data), timeout=300) as response:
                text, status, headers = response.read(), response.status, response.headers
        except HTTPError as error:
            text, status, headers = error.read(), error.code, error.headers
        is_json = headers.get_content_type() == "application/json"
        return Reply(status, json.loads(text) if is_json else text.decode(), headers)

    def forecast(self, model: str, body: object) -> Reply:
        return self.get(f"v1/models/{model}/forecast", body)


@contextmanager
def serving(
    folder: Path, *settings: str, log_file: str = "serve.log"
) -> Iterator[tuple[subprocess.Popen[str], Server]]:
    """A server on the runs of a folder, which writes its log to a file there."""
    log = os.open(folder / log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    process = start_python(
        ["-m", "forecast.serve", "runs", "port=0", *settings],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=log,  # which is closed here after the start
        env=dict(os.environ),
    )
    try:
        assert process.stdout is not None
        said = ""
        while "address" not in said and (line := process.stdout.readline()):
            said += line
        found = re.search(r"serving +covariates, long\naddress +(http\S+)", said)
        assert found is not None, (folder / log_file).read_text()
        yield process, Server(found[1], folder / "runs", process.pid)
    finally:
        process.kill()
        process.wait(60)


@pytest.fixture(scope="module")
def server(served_runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with one worker, and a damaged model beside the others; SIGTERM ends it and its worker."""
    folder = tmp_path_factory.mktemp("serve")
    for name in ("covariates", "long"):
        shutil.copytree(served_runs[name], folder / "runs" / name)
    damaged = folder / DAMAGED / "checkpoints" / "best.ckpt"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes((folder / "runs" / "covariates" / "checkpoints" / "best.ckpt").read_bytes()[:20_000])
    limits = (f"max_waiting={MAX_WAITING}", "workers=1", "max_body_mb=1", "max_rows=1000", "timeout=200")
    with serving(folder, DAMAGED, *limits) as (process, server):
        yield server
        workers = psutil.Process(process.pid).children(recursive=True)
        assert workers
        process.terminate()
        assert process.wait(60) == 0
        assert psutil.wait_procs(workers, timeout=20)[1] == []


def to_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a DataFrame as a request has them."""
    frame = frame.reset_index() if frame.index.name else frame
    dates = frame.select_dtypes("datetime").columns
    return json.loads(
        str(frame.assign(**{name: frame[name].astype(str) for name in dates}).to_json(orient="records"))
    )


def test_a_forecast_equals_that_of_python_with_covariates_of_every_type(server: Server) -> None:
    history, ahead = table().iloc[:-8], table()[FUTURE].iloc[-8:]
    expected = forecast.load(server.models / "covariates").predict(history, future=ahead, levels=[80])
    reply = server.forecast(
        "covariates", {"rows": to_rows(history), "future": to_rows(ahead), "levels": [80]}
    )
    assert reply.status == 200, reply.content
    found = pd.DataFrame(reply.content["forecast"])
    assert list(found) == ["date", "load", "load-lo-80", "load-hi-80"]
    pd.testing.assert_index_equal(
        pd.DatetimeIndex(pd.to_datetime(found["date"])), expected.index, exact=False
    )
    for column in expected:
        assert found[column].to_numpy() == pytest.approx(expected[column].to_numpy(), rel=1e-5)
    assert any("80% interval" in note for note in reply.content["notes"])


def test_the_example_of_a_model_is_answered(server: Server) -> None:
    for model in ("covariates", "long"):
        example = server.get(f"v1/models/{model}/example").content
        reply = server.forecast(model, example)
        assert reply.status == 200, reply.content
        about = server.get(f"v1/models/{model}").content
        assert len(reply.content["forecast"]) == about["pred_len"]
        assert set(example["rows"]) >= {
            about["date_column"],
            *about["columns"],
            *about["future_covariates"],
        }
        assert about["refitted"] is (model == "long")


def change(example: dict[str, Any], **rows: Any) -> dict[str, Any]:
    return {**example, "rows": {**example["rows"], **rows}}


def test_a_mistake_in_a_request_is_named_with_its_field(server: Server) -> None:
    example = server.get("v1/models/covariates/example").content
    n_rows = len(example["rows"]["date"])
    without_load = {name: column for name, column in example["rows"].items() if name != "load"}
    cases = [
        (b'{"rows": [{"date": NaN}]}', "the body is not JSON"),
        (b"[1, 2]", "the body is not a JSON object"),
        (
            {**example, "horizont": 1},
            "horizont: there is no such field; the fields are rows, future, horizon",
        ),
        ({**example, "horizon": 10**9}, "horizon: Input should be less than or equal to 10000"),
        ({**example, "rows": without_load}, "rows: no column 'load'"),
        (change(example, load=[[1]] * n_rows), "rows, row 0, column load: [1] is not a number"),
        (change(example, date=["x"] * n_rows), "rows, row 0, column 'date': 'x' is not a date"),
        ({"rows": [{"date": "2024-01-01"}] * 1001}, "rows: 1,001 rows are more than the 1,000"),
        ({"rows": example["rows"]}, "temperature"),
    ]
    for body, words in cases:
        reply = server.forecast("covariates", body)
        assert (reply.status, words in reply.content.get("error", "")) == (422, True), (words, reply.content)


def test_other_paths_and_large_bodies_are_refused(server: Server) -> None:
    names = f"covariates, long, {DAMAGED}"
    assert server.forecast("nope", {}).content == {"error": f"there is no model 'nope'; there are {names}"}
    assert server.get("v1/models/..%2Flong").status == 404
    assert server.get("docs").status == 404
    reply = server.forecast("covariates", b" " * (2**20 + 1))
    assert (reply.status, reply.content) == (413, {"error": "the body is larger than 1,048,576 bytes"})


def test_more_requests_than_may_wait_are_refused_and_none_is_lost(server: Server) -> None:
    example = server.get("v1/models/long/example").content
    with ThreadPoolExecutor(20) as threads:
        replies = list(threads.map(lambda _: server.forecast("long", example), range(60)))
    statuses = {reply.status for reply in replies}
    assert statuses == {200, 503}
    refused = next(reply for reply in replies if reply.status == 503)
    assert refused.content == {"error": f"{MAX_WAITING} requests are unanswered: try again later"}
    assert refused.headers["Retry-After"] == "1"
    assert server.get("health").content == STATE
    metrics = server.get("metrics").content
    assert (
        f'forecast_requests_total{{model="long",status="503"}} {sum(r.status == 503 for r in replies):.1f}'
        in metrics
    )


def test_a_newer_checkpoint_is_loaded_without_a_restart(server: Server) -> None:
    checkpoints = server.models / "long" / "checkpoints"
    assert server.get("v1/models/long").content["refitted"]
    shutil.move(checkpoints / "refit.ckpt", checkpoints / "other.ckpt")
    wait_for(
        lambda: not server.get("v1/models/long").content["refitted"]
    )  # PyTorch answers with the other one
    shutil.move(checkpoints / "other.ckpt", checkpoints / "refit.ckpt")
    assert server.get("v1/models/long").content["refitted"]


def test_a_damaged_model_is_named_with_the_reason_while_the_others_answer(server: Server) -> None:
    assert server.get("health").content == STATE
    assert server.get("v1/models").content == {key: STATE[key] for key in ("models", "unavailable")}
    for reply in (
        server.get(f"v1/models/{DAMAGED}"),
        server.forecast(DAMAGED, {"rows": [{"date": "2024-01-01"}]}),
    ):
        assert (reply.status, reply.content) == (503, {"error": f"{DAMAGED} is unavailable: {REASON}"})
    checkpoint = server.models.parent / DAMAGED / "checkpoints" / "best.ckpt"
    content = checkpoint.read_bytes()
    shutil.copy(server.models / "covariates" / "checkpoints" / "best.ckpt", checkpoint)
    assert server.get(f"v1/models/{DAMAGED}").status == 200
    assert server.get("health").content["unavailable"] == {}
    checkpoint.write_bytes(content)
    assert server.get(f"v1/models/{DAMAGED}").status == 503
    assert server.get("health").content == STATE


def test_clients_that_leave_before_their_body_arrives_are_no_errors(server: Server) -> None:
    log, counted = server.models.parent / "serve.log", 'forecast_requests_total{model="long",status="499"}'
    before, address = log.read_text(), urlsplit(server.url)
    head = b"POST /v1/models/long/forecast HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
    for _ in range(20):
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall(head)
    wait_for(lambda: f"{counted} 20.0" in server.get("metrics").content)
    assert 'status="500"' not in server.get("metrics").content
    assert log.read_text() == before


def wait_for(holds: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_the_usual_requests_load_no_torch(server: Server) -> None:
    (worker,) = find_workers(server)
    end(worker)  # its successor has no torch from earlier requests
    wait_for(lambda: server.get("v1/models/long/example").status == 200)  # once the loss is noticed
    example = server.get("v1/models/long/example").content
    assert server.forecast("long", example).status == 200
    (worker,) = find_workers(server)
    assert not has_torch(worker)
    y = example["rows"]["y"]
    missing = change(example, y=[*y[:5], None, *y[6:]])  # which the graph does not complete
    assert server.forecast("long", missing).status == 200
    assert has_torch(worker)


def find_workers(server: Server, number: int = 1) -> list[psutil.Process]:
    """The workers of the server, once the processes that export models have ended."""

    def is_spawned(process: psutil.Process) -> bool:
        try:
            return "spawn_main" in " ".join(process.cmdline())
        except (psutil.NoSuchProcess, psutil.ZombieProcess):  # it has just ended
            return False

    def list_processes() -> list[psutil.Process]:
        return [each for each in psutil.Process(server.pid).children() if is_spawned(each)]

    wait_for(lambda: len(list_processes()) == number)
    return list_processes()


def end(worker: psutil.Process) -> None:
    """Kill a worker, and wait until all its threads have ended."""
    worker.kill()
    wait_for(lambda: not worker.is_running() or is_zombie(worker))


def is_zombie(process: psutil.Process) -> bool:
    """Whether a process has ended and waits for its parent. Its other threads may end after the first one."""
    threads = list(Path(f"/proc/{process.pid}/task").iterdir())
    return process.status() == psutil.STATUS_ZOMBIE and len(threads) == 1


def has_torch(process: psutil.Process) -> bool:
    return any("libtorch" in each.path for each in process.memory_maps())


def test_the_page_sends_a_request(server: Server, tmp_path: Path) -> None:
    with opened(server.url, tmp_path) as driver:
        answer_of = lambda: driver.find_element("id", "answer").text  # noqa: E731
        wait_until(driver, lambda: driver.find_element("id", "request").get_property("value"))
        driver.find_element("id", "send").click()
        wait_until(driver, answer_of)
        assert answer_of().startswith("status 200")
        assert len(driver.find_elements("css selector", "#plot polyline")) == 1
        assert driver.get_log("browser") == []


def wait_until(driver: Any, holds: Any) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(driver, 20).until(lambda _: holds())


def is_refused(server: Server) -> bool:
    """Whether the server takes no new connections."""
    try:
        urlopen(f"{server.url}/health", timeout=60).close()
    except URLError as error:
        return isinstance(error.reason, ConnectionRefusedError)
    return False


def test_requests_in_flight_are_answered_after_sigterm(server: Server) -> None:
    folder, options = server.models.parent, ("workers=2", "timeout=200")
    with serving(folder, *options, log_file="stopped.log") as (process, stopped):
        example = stopped.get("v1/models/long/example").content
        workers = find_workers(stopped, 2)
        for worker in workers:
            worker.suspend()
        with ThreadPoolExecutor(6) as threads:
            asked = [threads.submit(stopped.forecast, "long", example) for _ in range(6)]
            wait_for(lambda: stopped.get("health").content["unanswered"] == 6)
            process.terminate()
            wait_for(lambda: is_refused(stopped))
            for worker in workers:
                worker.terminate()  # a service manager may tell all processes to end
                worker.resume()
            replies = [each.result() for each in asked]
        assert [(reply.status, len(reply.content["forecast"])) for reply in replies] == [(200, 5)] * 6
        assert process.wait(60) == 0
        assert psutil.wait_procs(workers, timeout=20)[1] == []
    assert (folder / "stopped.log").read_text() == ""
