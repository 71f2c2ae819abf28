"""Answers by ONNX Runtime: they equal those of PyTorch, and PyTorch answers what the graph cannot."""

import asyncio
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.checkpoints.contents import find_trained
from forecast.inference.model import load
from forecast.system.errors import DataError
from forecast.tools.serve import processes
from forecast.tools.serve.graph import GraphEngine, NeedsTorch, facts_file, graph_file, read_facts
from forecast.tools.serve.processes import WorkerPool, WorkerProcess, WorkersLost
from forecast.tools.serve.request import read_request
from forecast.tools.serve.trained import export_model, find_obstacle, make_example
from forecast.tools.serve.worker import ServedModel, load_models
from tests.support.served_runs import RUNS

MAX_ROWS = 10_000


@pytest.fixture(scope="module")
def runs(served_runs: dict[str, Path]) -> dict[str, Path]:
    """A run of each kind of data, exported for the server."""
    for name, place in served_runs.items():
        export_model(name, find_trained(place))
    return served_runs


def ask(run: Path, request: dict[str, Any], *, use_graph: bool) -> dict[str, Any]:
    served = ServedModel("m", run, use_graph=use_graph)
    return json.loads(served.forecast(json.dumps(request).encode(), MAX_ROWS))


def example_of(run: Path) -> dict[str, Any]:
    return json.loads(ServedModel("m", run, use_graph=True).example())


def load_graph(run: Path) -> GraphEngine:
    graph = ServedModel("m", run, use_graph=True).graph_engine()
    assert graph is not None
    return graph


def is_answered_by_graph(run: Path, request: dict[str, Any]) -> bool:
    try:
        load_graph(run).forecast(read_request(json.dumps(request).encode()), MAX_ROWS)
    except NeedsTorch:
        return False
    return True


def vary(rows: dict[str, list[Any]], columns: list[str]) -> dict[str, list[Any]]:
    """The rows with other numbers in these columns, within the range of those they have."""
    random = np.random.default_rng(0)
    return {
        name: random.permutation(cells).tolist()
        if name in columns and not isinstance(cells[0], str)
        else cells
        for name, cells in rows.items()
    }


def ask_both(run: Path, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return ask(run, request, use_graph=True), ask(run, request, use_graph=False)


def check_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same notes and warnings, and forecasts that differ by rounding."""
    assert {**found, "forecast": []} == {**expected, "forecast": []}
    tables = [pd.DataFrame(each["forecast"]) for each in (found, expected)]
    pd.testing.assert_frame_equal(*tables, rtol=1e-4, atol=1e-4)  # type: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {"levels": None}) for name in RUNS),
        ("zone", {"horizon": 2, "levels": [80]}),
        ("long", {"levels": []}),
    ],
)
def test_the_graph_answers_as_pytorch_does(runs: dict[str, Path], name: str, options: dict[str, Any]) -> None:
    run = runs[name]
    example, about = example_of(run), json.loads(ServedModel("m", run, use_graph=True).describe())
    columns = [*about["columns"], *about["future_covariates"]]
    request = {**example, **options, "rows": vary(example["rows"], columns)}
    assert is_answered_by_graph(run, request)
    found, expected = ask_both(run, request)
    check_same(found, expected)
    assert found["trained_until"] == about["trained_until"]
    until = pd.Timestamp(found["trained_until"])
    assert str(until) == str(
        pd.Timestamp(example["rows"][about["date_column"]][-1])
    )  # in the zone of the data


@pytest.mark.parametrize(
    "change",
    [
        {"horizon": 8},
        {"levels": [33]},
        {"rows": "a missing value"},
        {"rows": "a new series"},
    ],
    ids=str,
)
def test_pytorch_answers_what_the_graph_does_not(
    runs: dict[str, Path], change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs["long"].parents[1])  # other levels are calibrated on the training data
    run = runs["long" if change == {"rows": "a new series"} else "zone"]
    request = example_of(run)
    rows = request["rows"]
    if change.get("rows") == "a missing value":
        rows["load"][-2] = None
    elif change.get("rows") == "a new series":
        rows["unique_id"] = ["new"] * len(rows["unique_id"])
        request["future"]["unique_id"] = ["new"] * len(request["future"]["unique_id"])
    else:
        request |= change
    assert not is_answered_by_graph(run, request)
    found, expected = ask_both(run, request)
    assert found == expected
    assert found["forecast"]
    monkeypatch.setattr("forecast.tools.serve.worker.list_missing_packages", list)
    with pytest.raises(DataError, match="this server runs without it"):
        ask(run, request, use_graph=True)


@pytest.mark.parametrize("use_graphs", [True, False])
def test_a_model_whose_package_is_missing_is_left_out(
    runs: dict[str, Path], use_graphs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model reads the dates of public holidays, which the package `holidays` knows."""
    monkeypatch.setitem(sys.modules, "holidays", None)
    served = load_models({name: runs[name] for name in ("zone", "long")}, use_graphs)
    assert served["long"].unavailable == ""
    assert served["zone"].unavailable.startswith("data.holidays=DE: holidays is not installed: pip install")
    monkeypatch.delitem(sys.modules, "holidays")
    assert served["zone"].answer("describe")[0] == 200
    assert served["zone"].unavailable == ""


def test_both_refuse_a_value_outside_the_domain_that_is_read(runs: dict[str, Path]) -> None:
    run = runs["zone"]
    request = example_of(run)
    dates = pd.date_range(end=pd.Timestamp(request["rows"]["date"][-1]), periods=100, freq="h")
    request["rows"] = {"date": [date.isoformat() for date in dates], "load": [-5.0, *np.arange(1.0, 100)]}
    assert is_answered_by_graph(run, request)
    check_same(*ask_both(run, request))  # a value long before the window is not read
    for row in (70, 97):  # before the window, and in it
        request["rows"]["load"] = [*np.arange(1.0, row + 1), -5.0, *np.arange(1.0, 100 - row)]
        messages = []
        for use_graph in (True, False):
            with pytest.raises(DataError, match="takes values above -1") as caught:
                ask(run, request, use_graph=use_graph)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


UNUSUAL: dict[str, tuple[Callable[[list[Any]], list[Any]], str]] = {
    "far": (
        lambda cells: [1e9, *cells[1:]],
        "far outside the training data, so that the forecast extrapolates: {} is 1e+09",
    ),
    "constant": (
        lambda cells: [cells[0]] * len(cells),
        "constant in the 12 rows before the forecast: {} is ",
    ),
    "boolean": (lambda cells: [*cells[1:], True], "true and false in {} are read as 1 and 0"),
}


@pytest.mark.parametrize(
    ("what", "name", "column"),
    [
        ("far", "long", "y"), ("constant", "zone", "load"), ("constant", "covariates", "temperature"),
        ("boolean", "covariates", "load"),
    ],
)  # fmt: skip
def test_inputs_unlike_the_training_data_give_a_warning(
    runs: dict[str, Path], what: str, name: str, column: str
) -> None:
    """The graph and PyTorch, which answers `forecast predict` too, say the same."""
    request, (changed, says) = example_of(runs[name]), UNUSUAL[what]
    request["rows"][column] = changed(request["rows"][column])
    if (what, column) == ("constant", "temperature"):
        says = ""  # a covariate may be constant
    of_graph, of_torch = (each["warnings"] for each in ask_both(runs[name], request))
    assert of_graph == of_torch
    assert is_answered_by_graph(runs[name], request)
    assert of_graph[0].startswith(says.format(column)) if says else of_graph == []


def test_the_example_is_of_a_series_with_a_scale(runs: dict[str, Path]) -> None:
    model = load(runs["long"])
    model.data_state["has_scale"][0] = False
    assert set(make_example(model)["rows"]["unique_id"]) == {model.data_state["ids"][1]}


def test_pytorch_answers_without_an_intact_graph_of_the_checkpoint(
    runs: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    run, checkpoint = runs["zone"], find_trained(runs["zone"])
    graph, facts = graph_file(checkpoint), facts_file(checkpoint)
    contents, request = {file: (file.read_bytes(), file.stat()) for file in (graph, facts)}, example_of(run)
    served, expected = ServedModel("m", run, use_graph=True), ask(run, request, use_graph=False)
    assert served.graph_engine() is not None
    try:
        for damaged in (contents[facts][0][:100], b"", b"[]", b'{"checkpoint": null}'):
            facts.write_bytes(damaged)
            assert read_facts(checkpoint) is None  # the server exports it again
            assert served.graph_engine() is None
        facts.write_bytes(contents[facts][0])
        graph.write_bytes(contents[graph][0][:1000])
        assert read_facts(checkpoint) is None
        graph.write_bytes(contents[graph][0][:-100] + bytes(100))
        os.utime(graph, ns=(0, contents[graph][1].st_mtime_ns))  # as if it had always been so
        assert ask(run, request, use_graph=True) == expected
        assert [record.getMessage()[:29] for record in caplog.records] == ["m: its graph cannot be loaded"]
    finally:
        for file, (content, times) in contents.items():
            file.write_bytes(content)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    times = checkpoint.stat()
    os.utime(checkpoint)  # it has changed, and is not exported yet
    try:
        assert served.graph_engine() is None
        assert served.forecast(json.dumps(request).encode(), MAX_ROWS)
    finally:
        os.utime(checkpoint, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert served.graph_engine() is not None


def test_a_model_that_cannot_be_exported_has_a_reason(runs: dict[str, Path]) -> None:
    model = load(runs["covariates"])
    assert find_obstacle(model) == ""
    for option, value in {"as_of": {"temperature": "outlook"}, "known_steps": [3, None, None]}.items():
        model.data_state = {**load(runs["covariates"]).data_state, option: value}
        assert f"data.{option}" in find_obstacle(model)


@pytest.fixture
def pool(runs: dict[str, Path]) -> Iterator[WorkerPool]:
    pool = WorkerPool({"m": runs["zone"]}, workers=2, max_waiting=9, timeout=5)
    pool.wait_until_loaded()
    yield pool
    pool.close()
    assert not multiprocessing.active_children()


def workers_of(pool: WorkerPool) -> list[int]:
    """The processes of a pool."""
    return [worker.process.pid or 0 for worker in pool.workers]


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


def test_a_lost_worker_is_replaced_and_the_other_one_stays(
    pool: WorkerPool, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    body, failures = json.dumps(example_of(runs["zone"])).encode(), [OSError("no memory")]
    lost, other = workers_of(pool)

    def start_once_in_vain(*given: Any) -> WorkerProcess:
        if failures:
            raise failures.pop()
        return WorkerProcess(*given)

    async def ask_after_a_loss() -> list[Any]:
        os.kill(lost, signal.SIGSTOP)
        calls = [asyncio.create_task(pool.call("m", "forecast", body, MAX_ROWS)) for _ in range(9)]
        await wait_until(lambda: pool.unanswered == 9)
        with pytest.raises(processes.Overloaded):
            await pool.call("m", "describe")
        await wait_until(lambda: pool.unanswered == 1)  # the stopped worker has one of the calls
        monkeypatch.setattr(processes, "WorkerProcess", start_once_in_vain)
        os.kill(lost, signal.SIGKILL)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        await wait_until(lambda: lost not in workers_of(pool))
        assert other in workers_of(pool)
        for worker in pool.workers:
            os.kill(worker.process.pid or 0, signal.SIGKILL)  # while they are idle: the next call waits
        await wait_until(lambda: not any(worker.process.is_alive() for worker in pool.workers))
        return [*answers, await pool.call("m", "forecast", body, MAX_ROWS)]

    answers = asyncio.run(ask_after_a_loss())
    assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [WorkersLost]
    assert [answer[0] for answer in answers if not isinstance(answer, Exception)] == [200] * 9
    assert pool.unanswered == 0
    assert "a worker process could not be started: no memory" in caplog.text


def test_a_worker_that_takes_too_long_is_replaced_and_named_once_in_the_log(
    pool: WorkerPool, runs: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps(example_of(runs["zone"])).encode()
    stuck = workers_of(pool)
    for worker in stuck:
        os.kill(worker, signal.SIGSTOP)  # it is busy for ever, and ends only by SIGKILL

    async def ask() -> list[Any]:
        bodies = [body, b" " * 2_000_000, body, body, body]  # the second does not fit into the pipe
        calls = [asyncio.create_task(pool.call("m", "forecast", each, MAX_ROWS)) for each in bodies]
        await asyncio.sleep(0.5)  # both workers have begun a call
        calls[0].cancel()  # its client has gone: the worker is replaced all the same
        answers = await asyncio.gather(*calls, return_exceptions=True)
        await wait_until(lambda: not set(stuck) & set(workers_of(pool)))
        return answers

    gone, late, *others = asyncio.run(ask())
    assert isinstance(gone, asyncio.CancelledError)
    assert isinstance(late, TimeoutError)
    assert [(status, len(json.loads(content)["forecast"])) for status, content, _ in others] == [(200, 5)] * 3
    assert pool.unanswered == 0
    line = "m: a request took longer than timeout=5 s in its worker process, which is replaced"
    assert [record.getMessage() for record in caplog.records] == [line] * 2
