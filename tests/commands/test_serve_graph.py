"""Answers by ONNX Runtime: they equal those of PyTorch, and PyTorch answers what the graph cannot."""

import asyncio
import json
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forecast.checkpoints.settings import find_trained
from forecast.inference.model import load
from forecast.system.errors import DataError, ForecastError
from forecast.tools.serve import processes
from forecast.tools.serve.graph import GraphEngine, NeedsTorch
from forecast.tools.serve.models import facts_file, graph_file, read_facts
from forecast.tools.serve.processes import WorkerPool, WorkerProcess, WorkersLost
from forecast.tools.serve.request import ForecastRequest, read_request
from forecast.tools.serve.trained import export_model, make_example
from forecast.tools.serve.worker import ServedModel, Worker
from tests.support.commands import TINY, answer, only
from tests.support.covariate_file import COVARIATES, table
from tests.support.long_files import long_frame

MAX_ROWS = 10_000
SMALL = (*TINY, "logger=[]", "pictures=false", "trainer.max_epochs=1", "callbacks.progress.refresh_rate=0")
LONG = (
    "data=long", "data.path=long.csv", "data.id_column=unique_id", "data.date_column=ds", "data.target=y",
    "data.static_covariates=[region,size]", "data.future_covariates=[price]",
)  # fmt: skip
RUNS: dict[str, tuple[str, ...]] = {
    "covariates": ("data=csv", "data.path=table.csv", *COVARIATES),
    "long": (*LONG, "refit=full"),
    "zone": (
        "data=csv",
        "data.path=zone.csv",
        "data.columns=[load]",
        "data.holidays=DE",
        "data.transform=log1p",
        "data.lower=0",
        "loss=quantile",
        "levels=[50,80]",
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each kind of data, exported for the server."""
    folder = tmp_path_factory.mktemp("graphs")
    table().to_csv(folder / "table.csv")
    load = table()[["load"]]
    zone = np.exp(13 + (load - load.mean()) / load.std() / 2)  # large beside the scale of its logarithm
    zone.set_axis(zone.index.tz_localize("UTC").tz_convert("Europe/Berlin").rename("date")).to_csv(
        folder / "zone.csv"
    )
    long_frame(future=10).to_csv(folder / "long.csv", index=False)
    found = {}
    options_of_all = (
        *SMALL, "attention=full", "model.encoder_layers=1", "levels=[80]", "data.split=[0.5,0.3,0.2]",
    )  # fmt: skip
    for name, options in RUNS.items():
        place = folder / "runs" / name
        with pytest.MonkeyPatch.context() as patch:
            assert answer(patch, "train", folder, *options_of_all, *options, f"hydra.run.dir={place}") == 0
        export_model(name, find_trained(place))
        found[name] = place
    return found


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


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("options", [{}, {"horizon": 2}, {"levels": []}, {"levels": [80]}])
def test_the_graph_answers_as_pytorch_does(runs: dict[str, Path], name: str, options: dict[str, Any]) -> None:
    run = runs[name]
    example = example_of(run)
    about = json.loads(ServedModel("m", run, use_graph=True).describe())
    columns = [*about["columns"], *about["future_covariates"]]
    request = {**example, **options, "rows": vary(example["rows"], columns)}
    request.pop("levels", None) if not options else None
    assert is_answered_by_graph(run, request)
    found, expected = (ask(run, request, use_graph=use_graph) for use_graph in (True, False))
    assert {**found, "forecast": []} == {**expected, "forecast": []}
    found_table, table_of_torch = (pd.DataFrame(each["forecast"]) for each in (found, expected))
    pd.testing.assert_frame_equal(found_table, table_of_torch, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {"baseline": "naive"},
        {"horizon": 8},
        {"intervals": "adaptive"},
        {"levels": [33]},
        {"start": "LAST"},
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
    elif "start" in change:
        later = pd.date_range(rows["date"][0], periods=len(rows["date"]) + 1, freq="h")
        request["rows"] = {name: [*cells, cells[-1]] for name, cells in rows.items()}
        request["rows"]["date"] = [date.isoformat() for date in later]
        request["start"] = later[-1].isoformat()
    else:
        request |= change
    assert not is_answered_by_graph(run, request)
    found, expected = (ask(run, request, use_graph=use_graph) for use_graph in (True, False))
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
    worker = Worker({name: runs[name] for name in ("zone", "long")}, use_graphs)
    assert list(worker.unavailable) == ["zone"]
    assert worker.unavailable["zone"].startswith("data.holidays=DE: holidays is not installed: pip install")
    monkeypatch.delitem(sys.modules, "holidays")
    assert worker.answer("zone", "describe")[0] == 200
    assert worker.unavailable == {}


def test_both_refuse_a_value_outside_the_domain(runs: dict[str, Path]) -> None:
    request = example_of(runs["zone"])
    request["rows"]["load"][3] = -5
    messages = []
    for use_graph in (True, False):
        with pytest.raises(Exception, match="takes values above -1") as caught:
            ask(runs["zone"], request, use_graph=use_graph)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            lambda cells: [1e9, *cells[1:]],
            "far outside the training data, so that the forecast extrapolates: {} is 1e+09",
        ),
        (lambda cells: [cells[0]] * len(cells), "constant in the 12 rows before the forecast: {} is "),
        (lambda cells: [*cells[1:], True], "true and false in {} are read as 1 and 0"),
        (lambda cells: cells, ""),
    ],
    ids=["far", "constant", "boolean", "usual"],
)
@pytest.mark.parametrize(
    ("name", "column"),
    [("covariates", "load"), ("covariates", "temperature"), ("long", "y"), ("zone", "load")],
)
def test_inputs_unlike_the_training_data_give_a_warning(
    runs: dict[str, Path], name: str, column: str, changed: Callable[[list[Any]], list[Any]], says: str
) -> None:
    """The graph and PyTorch, which answers `forecast predict` too, say the same."""
    request = example_of(runs[name])
    request["rows"][column] = changed(request["rows"][column])
    if column == "temperature" and says.startswith("constant"):
        says = ""  # a covariate may be constant
    of_graph, of_torch = (ask(runs[name], request, use_graph=use)["warnings"] for use in (True, False))
    assert of_graph == of_torch
    assert is_answered_by_graph(runs[name], request)
    assert of_graph[0].startswith(says.format(column)) if says else of_graph == []


def test_neither_reads_a_value_long_before_the_window(runs: dict[str, Path]) -> None:
    request = example_of(runs["zone"])
    last = pd.Timestamp(request["rows"]["date"][-1])
    dates = pd.date_range(end=last, periods=100, freq="h")
    request["rows"] = {"date": [date.isoformat() for date in dates], "load": [-5.0, *np.arange(1.0, 100)]}
    assert is_answered_by_graph(runs["zone"], request)
    found, expected = (ask(runs["zone"], request, use_graph=use_graph) for use_graph in (True, False))
    found_table, table_of_torch = (pd.DataFrame(each["forecast"]) for each in (found, expected))
    pd.testing.assert_frame_equal(found_table, table_of_torch, rtol=1e-4)
    request["rows"]["load"] = [
        *np.arange(1.0, 71),
        -5.0,
        *np.arange(1.0, 30),
    ]  # before the window, and near it
    for use_graph in (True, False):
        with pytest.raises(Exception, match="takes values above -1"):
            ask(runs["zone"], request, use_graph=use_graph)


def test_pytorch_resolves_the_settings_of_the_data_once(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, body = (
        ServedModel("m", runs["zone"], use_graph=False),
        json.dumps(example_of(runs["zone"])).encode(),
    )
    first = served.forecast(body, MAX_ROWS)
    monkeypatch.setattr("forecast.tools.serve.trained.reading_settings", None)
    assert served.forecast(body, MAX_ROWS) == first


def test_the_end_of_training_is_in_the_zone_of_the_data(runs: dict[str, Path]) -> None:
    answer = ask(runs["zone"], example_of(runs["zone"]), use_graph=True)
    about = json.loads(ServedModel("m", runs["zone"], use_graph=True).describe())
    until = pd.Timestamp(answer["trained_until"])
    assert about["trained_until"] == answer["trained_until"]
    assert until.tz is not None
    last = pd.Timestamp(example_of(runs["zone"])["rows"]["date"][-1])
    assert until == last


def test_the_example_is_of_a_series_with_a_scale(runs: dict[str, Path]) -> None:
    model = load(runs["long"])
    model.data_state["has_scale"][0] = False
    assert set(make_example(model)["rows"]["unique_id"]) == {model.data_state["ids"][1]}


def test_a_damaged_graph_is_named_in_the_log_and_pytorch_answers(
    runs: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    run = runs["zone"]
    file, request = graph_file(find_trained(run)), example_of(run)
    content, times = file.read_bytes(), file.stat()
    try:
        file.write_bytes(content[: len(content) // 2])
        assert read_facts(find_trained(run)) is None  # the server exports it again
        file.write_bytes(content[:-100] + bytes(100))
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as if it had always been so
        with caplog.at_level(logging.ERROR):
            found = ask(run, request, use_graph=True)
    finally:
        file.write_bytes(content)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert found == ask(run, request, use_graph=False)
    assert sum("its graph cannot be loaded" in line for line in caplog.text.splitlines()) == 1


def test_damaged_facts_are_those_of_no_checkpoint(runs: dict[str, Path]) -> None:
    checkpoint = find_trained(runs["zone"])
    file = facts_file(checkpoint)
    content = file.read_bytes()
    try:
        for damaged in (content[:100], b"", b"[]", b'{"checkpoint": null}'):
            file.write_bytes(damaged)
            assert read_facts(checkpoint) is None
            assert ServedModel("m", runs["zone"], use_graph=True).graph_engine() is None
    finally:
        file.write_bytes(content)


def test_the_graph_before_answers_only_while_a_changed_checkpoint_is_exported(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, checkpoint = ServedModel("m", runs["long"], use_graph=True), find_trained(runs["long"])
    graph, times = served.graph_engine(), checkpoint.stat()
    assert graph is not None
    os.utime(checkpoint)
    try:
        assert served.graph_engine() is graph
        monkeypatch.setattr("forecast.tools.serve.worker.EXPORT_SECONDS", -1)
        assert served.graph_engine() is None
    finally:
        os.utime(checkpoint, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert served.graph_engine() is not None


def test_a_model_that_cannot_be_exported_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table().assign(outlook=lambda t: t["temperature"]).to_csv(tmp_path / "table.csv")
    options = (
        "data=csv", "data.path=table.csv", "data.columns=[load]", "data.as_of={temperature:outlook}",
        "data.future_covariates=[temperature]",
    )  # fmt: skip
    assert answer(monkeypatch, "train", tmp_path, *SMALL, *options) == 0
    run = only(tmp_path, "runs/*")
    export_model("m", find_trained(run))
    facts = read_facts(find_trained(run))
    assert facts is not None
    assert "data.as_of" in facts["obstacle"]
    assert not graph_file(find_trained(run)).exists()
    assert ask(run, json.loads(ServedModel("m", run, use_graph=True).example()), use_graph=True)["forecast"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
CELLS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", "1e400", "2024-01-12", "2024-01-12T04:00:00+02:00", "0001-01-01", "nan", "é" * 9, "2024-02-30"]
    )
)


@st.composite
def damaged_requests(draw: st.DrawFn, example: dict[str, Any]) -> dict[str, Any]:
    """The example with a cell, a column, a field or rows that are something else."""
    request = json.loads(json.dumps(example))
    for _ in range(draw(st.integers(1, 3))):
        field = draw(st.sampled_from(["rows", *(["future"] if "future" in request else [])]))
        what = draw(st.sampled_from(["cell", "column", "field", "order", "less"]))
        columns = request[field]
        if what == "field" or not isinstance(columns, dict) or not columns:
            request[draw(st.sampled_from([*ForecastRequest.model_fields, "other"]))] = draw(JSON_VALUES)
            continue
        name = draw(st.sampled_from(sorted(columns)))
        cells = columns[name]
        if what == "cell" and isinstance(cells, list) and cells:
            cells[draw(st.integers(0, len(cells) - 1))] = draw(CELLS)
        elif what == "column":
            columns[draw(st.sampled_from([name, "x"]))] = draw(st.lists(CELLS, max_size=20) | JSON_VALUES)
        elif what == "order" and isinstance(cells, list):
            columns[name] = draw(st.permutations(cells))
        elif what == "less":
            n = draw(st.integers(0, 12))
            request[field] = {k: v[:n] if isinstance(v, list) else v for k, v in columns.items()}
    return request


@pytest.mark.parametrize("name", ["covariates", "long", "zone"])
@pytest.mark.parametrize(
    "examples", [15, pytest.param(2_500, marks=[pytest.mark.long, pytest.mark.timeout(7200)])]
)
def test_a_damaged_request_is_answered_or_refused_in_words(
    runs: dict[str, Path], name: str, examples: int
) -> None:
    """No request ends in an error of the program, and both engines agree on what they refuse."""
    served = [ServedModel("m", runs[name], use_graph=use_graph) for use_graph in (True, False)]

    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(damaged_requests(example_of(runs[name])))
    def check(request: dict[str, Any]) -> None:
        outcomes = []
        for each in served:
            try:
                outcomes.append(json.loads(each.forecast(json.dumps(request).encode(), MAX_ROWS)))
            except ForecastError as error:
                outcomes.append(str(error))
        found, expected = outcomes
        if isinstance(found, str) or isinstance(expected, str):
            assert found == expected
        else:
            assert found["warnings"] == expected["warnings"]

    check()


def wait_for_no_children() -> None:
    """The thread of the pool may need a moment after the end of a process."""
    end = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < end:
        time.sleep(0.01)
    assert not multiprocessing.active_children()


@pytest.fixture
def pool(runs: dict[str, Path]) -> Iterator[WorkerPool]:
    pool = WorkerPool({"m": runs["zone"]}, workers=2, max_waiting=9, timeout=5)
    pool.wait_until_loaded()
    yield pool
    pool.close()
    wait_for_no_children()


def test_a_lost_worker_is_replaced_and_the_other_one_stays(pool: WorkerPool, runs: dict[str, Path]) -> None:
    body = json.dumps(example_of(runs["zone"])).encode()
    lost, other = workers_of(pool)

    async def ask_after_a_loss() -> list[Any]:
        os.kill(lost, signal.SIGSTOP)
        calls = [asyncio.create_task(pool.call("m", "forecast", body, MAX_ROWS)) for _ in range(9)]
        await asyncio.sleep(0)
        while pool.unanswered > 1:  # the stopped worker has one of the calls
            await asyncio.sleep(0.01)
        os.kill(lost, signal.SIGKILL)
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(ask_after_a_loss())
    (failed,) = (answer for answer in answers if isinstance(answer, Exception))
    assert isinstance(failed, WorkersLost)
    assert [answer[0] for answer in answers if answer is not failed] == [200] * 8
    wait_until_replaced([lost], pool)
    assert other in workers_of(pool)
    assert pool.unanswered == 0


def test_a_worker_that_takes_too_long_is_replaced_and_named_once_in_the_log(
    pool: WorkerPool, runs: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps(example_of(runs["zone"])).encode()
    stuck = workers_of(pool)
    for worker in stuck:
        os.kill(worker, signal.SIGSTOP)  # it is busy for ever, and ends only by SIGKILL

    async def ask() -> list[Any]:
        calls = [asyncio.create_task(pool.call("m", "forecast", body, MAX_ROWS)) for _ in range(5)]
        await asyncio.sleep(0.5)  # both workers have begun a call
        calls[0].cancel()  # its client has gone: the worker is replaced all the same
        return await asyncio.gather(*calls, return_exceptions=True)

    gone, late, *others = asyncio.run(ask())
    assert isinstance(gone, asyncio.CancelledError)
    assert isinstance(late, TimeoutError)
    assert [(status, len(json.loads(content)["forecast"])) for status, content, _ in others] == [(200, 5)] * 3
    wait_until_replaced(stuck, pool)
    assert pool.unanswered == 0
    line = "m: a request took longer than timeout=5 s in its worker process, which is replaced"
    assert [record.getMessage() for record in caplog.records] == [line] * 2


def test_a_process_that_cannot_be_started_is_tried_again(
    pool: WorkerPool, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    body, failures = json.dumps(example_of(runs["zone"])).encode(), [OSError("no memory")]

    def start_once_in_vain(*given: Any) -> WorkerProcess:
        if failures:
            raise failures.pop()
        return WorkerProcess(*given)

    monkeypatch.setattr(processes, "WorkerProcess", start_once_in_vain)
    lost = workers_of(pool)
    for worker in lost:
        os.kill(worker, signal.SIGKILL)
    for thread in pool.workers:
        thread.process.process.join(10.0)

    async def ask() -> list[Any]:
        return await asyncio.gather(*(pool.call("m", "forecast", body, MAX_ROWS) for _ in range(4)))

    assert [status for status, *_ in asyncio.run(ask())] == [200] * 4
    wait_until_replaced(lost, pool)
    assert [record.getMessage() for record in caplog.records] == [
        "a worker process could not be started: no memory"
    ]


def test_a_large_request_to_a_stuck_worker_ends_in_time(pool: WorkerPool) -> None:
    """It does not fit into the pipe, so sending it waits too."""
    for worker in workers_of(pool):
        os.kill(worker, signal.SIGSTOP)

    async def ask() -> list[Any]:
        calls = [pool.call("m", "forecast", b" " * 2_000_000, MAX_ROWS) for _ in range(2)]
        return await asyncio.gather(*calls, return_exceptions=True)

    assert [type(answer) for answer in asyncio.run(ask())] == [TimeoutError] * 2


def wait_until_replaced(workers: list[int], pool: WorkerPool) -> None:
    """Wait until the pool has other workers in place of these."""
    end = time.monotonic() + 10
    while set(workers) & set(workers_of(pool)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not set(workers) & set(workers_of(pool))


def workers_of(pool: WorkerPool) -> list[int]:
    """The processes of a pool."""
    return [worker.process.process.pid or 0 for worker in pool.workers]
