"""`forecast serve`: a server on real runs, asked over HTTP, and its answers by ONNX Runtime.

These equal those of PyTorch, which answers what the graph cannot. Of two runs, the server exports one.
"""

import asyncio
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
import psutil
import pytest

import forecast
from forecast.checkpoints.contents import find_trained
from forecast.inference.model import load
from forecast.system.errors import DataError
from forecast.tools.serve import processes
from forecast.tools.serve.graph import NeedsTorch, facts_file, graph_file, read_facts
from forecast.tools.serve.processes import WorkerPool, WorkersLost
from forecast.tools.serve.request import read_request
from forecast.tools.serve.trained import export_model, find_obstacle
from forecast.tools.serve.worker import ServedModel, load_models
from tests.support.browser import opened
from tests.support.commands import MLP, PLAIN, run_command, wait_for
from tests.support.covariate_file import COVARIATES, FUTURE, table
from tests.support.csv_files import write_csv
from tests.support.fork_server import start_python
from tests.support.long_files import long_frame

MAX_WAITING = 3
DAMAGED = "damaged"
REASON = f"{DAMAGED}/checkpoints/best.ckpt: the file is damaged, or it is not a checkpoint"
MODELS = {"models": ["hours", "long"], "unavailable": {DAMAGED: REASON}}
STATE = {**MODELS, "status": "ready", "unanswered": 0}

SMALL = (*MLP, PLAIN, "logger=[]", "trainer.max_epochs=1", "callbacks.progress.refresh_rate=0")
RUNS: dict[str, tuple[str, ...]] = {
    "hours": (
        "data=csv", "data.path=hours.csv", *COVARIATES, "data.holidays=DE", "data.transform={load: log1p}",
        "data.lower=0", "loss=quantile", "levels=[50,80]",
    ),
    "long": (
        "data=long", "data.path=long.csv", "data.id_column=unique_id", "data.date_column=ds", "data.target=y",
        "data.static_covariates=[region,size]", "data.future_covariates=[price]", "refit=full", "levels=[80]",
    ),
}  # fmt: skip


def hours() -> pd.DataFrame:
    """Local hours with covariates of every type, and a load that is large beside the scale of its logarithm."""
    frame = table()
    frame["load"] = np.exp(13 + (frame["load"] - frame["load"].mean()) / frame["load"].std() / 2)
    return frame.set_axis(frame.index.tz_localize("UTC").tz_convert("Europe/Berlin").rename("date"))


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
        cwd=folder, stdout=subprocess.PIPE, stderr=log, env=dict(os.environ),  # closed here after the start
    )  # fmt: skip
    with process:  # closes its end of the pipe
        try:
            assert process.stdout is not None
            said = ""
            while "address" not in said and (line := process.stdout.readline()):
                said += line
            found = re.search(r"serving +hours, long\naddress +(http\S+)", said)
            assert found is not None, (folder / log_file).read_text()
            yield process, Server(found[1], folder / "runs", process.pid)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with one worker, and a damaged model beside the others; SIGTERM ends it and its worker."""
    folder = tmp_path_factory.mktemp("serve")
    hours().to_csv(folder / "hours.csv")
    long_frame(future=10).to_csv(folder / "long.csv", index=False)
    for name, options in RUNS.items():
        given = (*SMALL, "data.split=[0.5,0.3,0.2]", *options, f"hydra.run.dir=runs/{name}")
        assert run_command("train", folder, *given) == 0
    export_model("hours", find_trained(folder / "runs" / "hours"))
    damaged = folder / DAMAGED / "checkpoints" / "best.ckpt"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes((folder / "runs" / "hours" / "checkpoints" / "best.ckpt").read_bytes()[:20_000])
    limits = (f"max_waiting={MAX_WAITING}", "workers=1", "max_body_mb=1", "max_rows=1000", "timeout=200")
    with serving(folder, DAMAGED, *limits) as (process, server):
        yield server
        workers = psutil.Process(process.pid).children(recursive=True)
        assert workers
        process.terminate()
        assert process.wait(60) == 0
        assert psutil.wait_procs(workers, timeout=20)[1] == []


def to_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    dated = frame.assign(date=[date.isoformat() for date in frame.index])
    return json.loads(str(dated.to_json(orient="records")))


def test_a_forecast_equals_that_of_python_with_covariates_of_every_type(server: Server) -> None:
    history, ahead = hours().iloc[:-8], hours()[FUTURE].iloc[-8:]
    expected = forecast.load(server.models / "hours").predict(history, future=ahead, levels=[80])
    request = {"rows": to_rows(history), "future": to_rows(ahead), "levels": [80]}
    reply = server.forecast("hours", request)
    assert reply.status == 200, reply.content
    found = pd.DataFrame(reply.content["forecast"])
    assert list(found) == ["date", "load", "load-lo-80", "load-hi-80"]
    assert [pd.Timestamp(date) for date in found["date"]] == expected.index.tolist()
    for column in expected:
        assert found[column].to_numpy() == pytest.approx(expected[column].to_numpy(), rel=1e-4)
    assert any("80% interval" in note for note in reply.content["notes"])


def test_the_example_of_a_model_is_answered(server: Server) -> None:
    for model in RUNS:
        example = server.get(f"v1/models/{model}/example").content
        reply = server.forecast(model, example)
        assert reply.status == 200, reply.content
        about = server.get(f"v1/models/{model}").content
        assert len(reply.content["forecast"]) == about["pred_len"]
        read = {about["date_column"], *about["columns"], *about["future_covariates"]}
        assert set(example["rows"]) >= read
        assert about["refitted"] is (model == "long")


def test_a_mistake_in_a_request_is_named_with_its_field(server: Server) -> None:
    example = server.get("v1/models/hours/example").content
    rows, future = example["rows"], example["future"]
    n = len(future["date"])
    cases = [
        (b'{"rows": [{"date": NaN}]}', "the body is not JSON"),
        ({**example, "horizont": 1}, "horizont: there is no such field; the fields are rows, future, hor"),
        ({**example, "rows": {**rows, "load": [[1]] * len(rows["date"])}}, "rows, row 0, column load: [1] is not a"),
        ({"rows": [{"date": "2024-01-01"}] * 1001}, "rows: 1,001 rows are more than the 1,000"),
        ({"rows": rows}, "future: temperature is not known for"),
        ({**example, "future": {**future, "temperature": ["?"] * n}}, "future, row 0, column 'temperature': '?'"),
    ]  # fmt: skip
    for body, words in cases:
        reply = server.forecast("hours", body)
        assert (reply.status, words in reply.content.get("error", "")) == (422, True), (words, reply.content)


def test_other_paths_and_large_bodies_are_refused(server: Server) -> None:
    names = f"hours, long, {DAMAGED}"
    assert server.forecast("nope", {}).content == {"error": f"there is no model 'nope'; there are {names}"}
    assert server.get("v1/models/..%2Flong").status == 404
    assert server.get("docs").status == 404
    reply = server.forecast("hours", b" " * (2**20 + 1))
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
    counted = sum(reply.status == 503 for reply in replies)
    line = f'forecast_requests_total{{model="long",status="503"}} {counted:.1f}'
    assert line in server.get("metrics").content


def test_a_newer_checkpoint_is_loaded_without_a_restart(server: Server) -> None:
    checkpoints = server.models / "long" / "checkpoints"
    assert server.get("v1/models/long").content["refitted"]
    shutil.move(checkpoints / "refit.ckpt", checkpoints / "other.ckpt")
    assert not server.get("v1/models/long").content["refitted"]
    shutil.move(checkpoints / "other.ckpt", checkpoints / "refit.ckpt")
    assert server.get("v1/models/long").content["refitted"]


def test_a_damaged_model_is_named_with_the_reason_while_the_others_answer(server: Server) -> None:
    assert server.get("health").content == STATE
    assert server.get("v1/models").content == MODELS
    for reply in (server.get(f"v1/models/{DAMAGED}"), server.forecast(DAMAGED, {"rows": [{"date": "2024-01-01"}]})):
        assert (reply.status, reply.content) == (503, {"error": f"{DAMAGED} is unavailable: {REASON}"})
    checkpoint = server.models.parent / DAMAGED / "checkpoints" / "best.ckpt"
    content = checkpoint.read_bytes()
    shutil.copy(server.models / "hours" / "checkpoints" / "best.ckpt", checkpoint)
    assert server.get(f"v1/models/{DAMAGED}").status == 200
    assert server.get("health").content["unavailable"] == {}
    checkpoint.write_bytes(content)
    assert server.get(f"v1/models/{DAMAGED}").status == 503
    assert server.get("health").content == STATE


@pytest.mark.slow
def test_the_page_sends_a_request(server: Server, tmp_path: Path) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    with opened(server.url, tmp_path) as driver:
        wait = WebDriverWait(driver, 20)
        answer_of = lambda: driver.find_element("id", "answer").text  # noqa: E731
        wait.until(lambda _: driver.find_element("id", "request").get_property("value"))
        driver.find_element("id", "send").click()
        wait.until(lambda _: answer_of())
        assert answer_of().startswith("status 200")
        assert len(driver.find_elements("css selector", "#plot polyline")) == 1
        assert driver.get_log("browser") == []


def is_refused(server: Server) -> bool:
    address = urlsplit(server.url)
    try:
        socket.create_connection((address.hostname, address.port), timeout=60).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.slow
def test_requests_in_flight_are_answered_after_sigterm(server: Server) -> None:
    folder, options = server.models.parent, ("workers=2", "timeout=200")
    with serving(folder, *options, log_file="stopped.log") as (process, stopped):
        example = stopped.get("v1/models/long/example").content
        started = psutil.Process(process.pid).children()
        workers = [each for each in started if "spawn_main" in " ".join(each.cmdline())]
        assert len(workers) == 2
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


MAX_ROWS = 10_000


@pytest.fixture(scope="module")
def runs(server: Server) -> dict[str, Path]:
    """A run of each kind of data, exported for the server."""
    return {name: server.models / name for name in RUNS}


def ask(run: Path, request: dict[str, Any], *, use_graph: bool) -> dict[str, Any]:
    served = ServedModel("m", run, use_graph=use_graph)
    return json.loads(served.forecast(json.dumps(request).encode(), MAX_ROWS))


def example_of(run: Path) -> dict[str, Any]:
    return json.loads(ServedModel("m", run, use_graph=True).example())


def is_answered_by_graph(run: Path, request: dict[str, Any]) -> bool:
    graph = ServedModel("m", run, use_graph=True).graph_engine()
    assert graph is not None
    try:
        graph.forecast(read_request(json.dumps(request).encode()), MAX_ROWS)
    except NeedsTorch:
        return False
    return True


def ask_both(run: Path, request: dict[str, Any], *, by_graph: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers of the server, which come from the graph or not, and of PyTorch."""
    assert is_answered_by_graph(run, request) == by_graph
    return ask(run, request, use_graph=True), ask(run, request, use_graph=False)


def check_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same notes and warnings, and forecasts that differ by rounding."""
    assert {**found, "forecast": []} == {**expected, "forecast": []}
    tables = [pd.DataFrame(each["forecast"]) for each in (found, expected)]
    pd.testing.assert_frame_equal(*tables, rtol=1e-4, atol=1e-4)  # type: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("name", "options"),
    [("hours", {"levels": None}), ("hours", {"horizon": 2, "levels": [80]}), ("long", {"levels": []})],
)
def test_the_graph_answers_as_pytorch_does(runs: dict[str, Path], name: str, options: dict[str, Any]) -> None:
    run, random = runs[name], np.random.default_rng(0)
    example, about = example_of(run), json.loads(ServedModel("m", run, use_graph=True).describe())
    rows = example["rows"]
    columns = [*about["columns"], *about["future_covariates"]]
    numbers = {key: rows[key] for key in columns if not isinstance(rows[key][0], str)}
    varied = {key: random.permutation(cells).tolist() for key, cells in numbers.items()}
    request = {**example, **options, "rows": {**rows, **varied}}
    found, expected = ask_both(run, request)
    check_same(found, expected)
    assert found["trained_until"] == about["trained_until"]
    last = pd.Timestamp(rows[about["date_column"]][-1])
    assert str(pd.Timestamp(found["trained_until"])) == str(last)  # in the zone of the data


@pytest.mark.parametrize("what", ["a longer horizon", "another level", "a missing value", "a new series"])
def test_pytorch_answers_what_the_graph_does_not(
    runs: dict[str, Path], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs["long"].parents[1])  # other levels are calibrated on the training data
    run = runs["long" if what == "a new series" else "hours"]
    request = example_of(run)
    rows, future = request["rows"], request["future"]
    if what == "a longer horizon":
        dates = pd.date_range(future["date"][0], periods=10, freq="h").map(str).tolist()
        request |= {"horizon": 8, "future": {name: 2 * cells for name, cells in future.items()} | {"date": dates}}
    elif what == "another level":
        request["levels"] = [33]
    elif what == "a missing value":
        rows["load"][-2] = None
    else:
        for part in (rows, future):
            part["unique_id"] = ["new"] * len(part["unique_id"])
    found, expected = ask_both(run, request, by_graph=False)
    assert found == expected
    assert found["forecast"]
    monkeypatch.setattr("forecast.tools.serve.worker.list_missing_packages", list)
    with pytest.raises(DataError, match="this server runs without it"):
        ask(run, request, use_graph=True)


def test_a_model_whose_package_is_missing_is_left_out(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The model reads the dates of public holidays, which the package `holidays` knows."""
    monkeypatch.setitem(sys.modules, "holidays", None)
    served = load_models(runs, True)
    assert served["long"].unavailable == ""
    assert served["hours"].unavailable.startswith("data.holidays=DE: holidays is not installed: pip install")
    monkeypatch.delitem(sys.modules, "holidays")
    assert served["hours"].answer("describe")[0] == 200
    assert served["hours"].unavailable == ""


def test_both_refuse_a_value_outside_the_domain_that_is_read(runs: dict[str, Path]) -> None:
    run = runs["hours"]
    request = example_of(run)
    dates = pd.date_range(end=pd.Timestamp(request["rows"]["date"][-1]), periods=100, freq="h")
    rows = {name: np.resize(np.array(cells, object), 100).tolist() for name, cells in request["rows"].items()}
    rows |= {"date": [date.isoformat() for date in dates], "load": [-5.0, *np.arange(1.0, 100)]}
    request["rows"] = rows
    check_same(*ask_both(run, request))  # a value long before the window is not read
    for row in (70, 97):  # before the window, and in it
        request["rows"]["load"] = [*np.arange(1.0, row + 1), -5.0, *np.arange(1.0, 100 - row)]
        messages = []
        for use_graph in (True, False):
            with pytest.raises(DataError, match="takes values above -1") as caught:
                ask(run, request, use_graph=use_graph)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


FAR = "far outside the training data, so that the forecast extrapolates: y is 1,000,000,000, expected "


@pytest.mark.parametrize(
    ("name", "column", "changed", "says"),
    [
        ("long", "y", lambda cells: [1e9, *cells[1:]], FAR),
        ("hours", "load", lambda cells: cells[:1] * len(cells), "constant in the 12 rows before the forecast: load"),
        ("hours", "temperature", lambda cells: cells[:1] * len(cells), ""),  # a covariate may be constant
        ("hours", "load", lambda cells: [*cells[1:], True], "true and false in load are read as 1 and 0"),
    ],
    ids=["far", "constant", "constant covariate", "boolean"],
)  # fmt: skip
def test_inputs_unlike_the_training_data_give_a_warning(
    runs: dict[str, Path], name: str, column: str, changed: Callable[[list[Any]], list[Any]], says: str
) -> None:
    """The graph and PyTorch, which answers `forecast predict` too, say the same."""
    request = example_of(runs[name])
    request["rows"][column] = changed(request["rows"][column])
    of_graph, of_torch = (each["warnings"] for each in ask_both(runs[name], request))
    assert of_graph == of_torch
    assert of_graph[0].startswith(says) if says else of_graph == []


def test_pytorch_answers_without_an_intact_graph_of_the_checkpoint(runs: dict[str, Path], tmp_path: Path) -> None:
    run = shutil.copytree(runs["hours"], tmp_path / "run")
    checkpoint = find_trained(run)
    facts, graph = facts_file(checkpoint), graph_file(checkpoint)
    served, request = ServedModel("m", run, use_graph=True), example_of(run)
    expected = ask(run, request, use_graph=False)
    whole = {file: file.read_bytes() for file in (facts, graph)}
    assert served.graph_engine() is not None
    for file in (facts, graph):
        file.write_bytes(whole[file][:-100])
        assert served.graph_engine() is None
        assert ask(run, request, use_graph=True) == expected
        file.write_bytes(whole[file])
    os.utime(checkpoint)  # it has changed, and is not exported yet
    assert read_facts(checkpoint) is None
    assert ask(run, request, use_graph=True) == expected


def test_requests_after_others_are_answered_as_first_ones(tmp_path: Path) -> None:
    """Dates without a UTC offset, the same as before, earlier, and the same again with other values."""
    write_csv(tmp_path / "load.csv", rows=300)
    run = tmp_path / "plain"
    assert run_command("train", tmp_path, *SMALL, "data.path=load.csv", f"hydra.run.dir={run}") == 0
    export_model("plain", find_trained(run))
    rows = example_of(run)["rows"]
    earlier = [str(pd.Timestamp(date) - pd.Timedelta(hours=5)) for date in rows["date"]]
    values = {"load": [2 * value for value in rows["load"]]}
    served = ServedModel("m", run, use_graph=True)
    for changed in ({}, values, {"date": earlier}, values, {"date": earlier, **values}):
        request = {"rows": {**rows, **changed}}
        found = json.loads(served.forecast(json.dumps(request).encode(), MAX_ROWS))
        assert found == ask(run, request, use_graph=True)


def test_a_model_that_cannot_be_exported_has_a_reason(runs: dict[str, Path]) -> None:
    model = load(runs["hours"])
    assert find_obstacle(model) == ""
    for option, value in {"as_of": {"temperature": "outlook"}, "known_steps": [3, None, None]}.items():
        model.data_state = {**load(runs["hours"]).data_state, option: value}
        assert f"data.{option}" in find_obstacle(model)


@pytest.fixture
def pool(runs: dict[str, Path]) -> Iterator[WorkerPool]:
    pool = WorkerPool({"m": runs["hours"]}, workers=2, max_waiting=9, timeout=5)
    pool.wait_until_loaded()
    yield pool
    pool.close()
    assert not multiprocessing.active_children()


def workers_of(pool: WorkerPool) -> list[int]:
    return [worker.process.pid or 0 for worker in pool.workers]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.slow
def test_a_lost_worker_is_replaced_and_the_other_one_stays(pool: WorkerPool, runs: dict[str, Path]) -> None:
    body = json.dumps(example_of(runs["hours"])).encode()
    lost, other = workers_of(pool)

    async def ask_after_a_loss() -> list[Any]:
        os.kill(lost, signal.SIGSTOP)
        calls = [asyncio.create_task(pool.call("m", "forecast", body, MAX_ROWS)) for _ in range(9)]
        await until(lambda: pool.unanswered == 9)
        with pytest.raises(processes.Overloaded):
            await pool.call("m", "describe")
        await until(lambda: pool.unanswered == 1)  # the stopped worker has one of the calls
        os.kill(lost, signal.SIGKILL)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: lost not in workers_of(pool))
        assert other in workers_of(pool)
        return answers

    answers = asyncio.run(ask_after_a_loss())
    assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [WorkersLost]
    assert [answer[0] for answer in answers if not isinstance(answer, Exception)] == [200] * 8


@pytest.mark.slow
def test_a_worker_that_takes_too_long_is_replaced_and_named_once_in_the_log(
    pool: WorkerPool, runs: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps(example_of(runs["hours"])).encode()
    stuck = workers_of(pool)
    for worker in stuck:
        os.kill(worker, signal.SIGSTOP)  # it is busy for ever, and ends only by SIGKILL

    async def ask() -> list[Any]:
        bodies = [body, b" " * 2_000_000, body, body, body]  # the second does not fit into the pipe
        calls = [asyncio.create_task(pool.call("m", "forecast", each, MAX_ROWS)) for each in bodies]
        await asyncio.sleep(0.5)  # both workers have begun a call
        calls[0].cancel()  # its client has gone: the worker is replaced all the same
        answers = await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: not set(stuck) & set(workers_of(pool)))
        return answers

    gone, late, *others = asyncio.run(ask())
    assert isinstance(gone, asyncio.CancelledError)
    assert isinstance(late, TimeoutError)
    assert [(status, len(json.loads(content)["forecast"])) for status, content, _ in others] == [(200, 5)] * 3
    assert pool.unanswered == 0
    line = "m: a request took longer than timeout=5 s in its worker process, which is replaced"
    assert [record.getMessage() for record in caplog.records] == [line] * 2
