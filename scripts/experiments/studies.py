"""Measurements that pages of docs/ quote: intervals, attention maps, many series, the server, wrong verdicts."""

import asyncio
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, combinations, product
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.cells import ALL_TYPES, DATA, Cell
from experiments.run import ROOT, CellFailed, Context, Cost, describe_commit
from experiments.store import Row
from forecast.evaluation.significance import SIGNIFICANCE_LEVEL, SeedVariance, add_seed_variance, diebold_mariano

ETT = ("data=csv", "data.split=[12,4,4]", "pred_len=96")
PRICES = ("data=csv", "features=MS", "data.target=OT", "pred_len=24")
INTERVALS = {
    "ETTh1": (*ETT, "data.path=ROOT/ETTh1.csv"),
    "ETTh2": (*ETT, "data.path=ROOT/ETTh2.csv"),
    "EPF NP": (*PRICES, "data.path=ROOT/epf/NP.csv"),
    "EPF DE": (*PRICES, "data.path=ROOT/epf/DE.csv"),
    "load": ("data=load", "pred_len=96"),
}
SERVE_SECONDS = 10
SEEDS, DRAWS = 20, 1000
EQUAL_TYPES = {
    "full": "attention=full",
    "probsparse": "attention=probsparse factor=100",  # every query is exact
    "sliding_window": "attention=sliding_window attention_window=1000",  # every token is in the window
}
"""Settings that compute softmax attention by the code of three types."""
QUIET = ("logger=[]", "pictures=false")
MAPS = {
    f"{data}/{attention}": (*DATA[data], f"pred_len={horizon}", f"attention={attention}", *QUIET)
    for data, horizon in (("sample", 24), ("load", 168))
    for attention in ALL_TYPES
    if attention != "none"
}
VERDICTS = {
    data: (*given, "pred_len=24", "trainer.max_epochs=2", "windows_per_epoch=2048", *QUIET)
    for data, given in (("sample", ("data=sample",)), ("load", ("data=load", "data.holidays=TR", "seq_len=504")))
}
SMALL = (
    "seq_len=168", "attention=linear", "model.d_model=64", "model.d_ff=64", "trainer.max_epochs=2",
    "windows_per_epoch=2048", *QUIET,
)  # fmt: skip


def run_intervals(cell: Cell, context: Context) -> Row:
    """Compare adaptive with conformal intervals in a backtest of the test rows, with an origin every 24 rows."""
    with tempfile.TemporaryDirectory() as folder:
        given = [override.replace("=ROOT", f"={context.root}", 1) for override in cell.overrides]
        context.python("-m", "forecast.train", *given, f"hydra.run.dir={folder}/run")
        context.python(
            "-m", "forecast.backtest", f"checkpoint={folder}/run", "intervals=adaptive", "stride=24",
            f"hydra.run.dir={folder}/backtest",
        )  # fmt: skip
        return json.loads(Path(folder, "backtest", "backtest.json").read_text())["intervals"]


def run_series(cell: Cell, context: Context) -> Row:
    """Convert many daily series, train on a hundredth of them, and forecast all: in one process, and in parts by two.

    The last part is killed after five seconds, before the parts are forecast again.
    """
    series, rows, parts = (int(text.split("=")[1]) for text in cell.overrides)
    with tempfile.TemporaryDirectory() as folder:
        write_series(Path(folder, "made.parquet"), series, rows)
        data = f"data.path={folder}/made.store"
        conversion = context.python(
            "-m", "forecast.convert", f"data.path={folder}/made.parquet", f"output={folder}/made.store",
            "data.id_column=unique_id", "data.date_column=ds",
        )  # fmt: skip
        training = context.python(
            "-m", "forecast.train", "data=store", data, "data.ids=1of100", "model=mlp", "seq_len=56", "pred_len=14",
            "trainer.max_epochs=1", "callbacks.progress=null", f"hydra.run.dir={folder}/run", *QUIET,
        )  # fmt: skip
        given = ("-m", "forecast.predict", f"checkpoint={folder}/run", data, "levels=[80]")

        def predict(part: str) -> Cost:
            return context.python(*given, f"data.ids={part}", f"output={folder}/{part}.parquet")

        whole, names = predict("1of1"), [f"{number}of{parts}" for number in range(1, parts + 1)]
        options = (f"data.ids={names[-1]}", f"output={folder}/{names[-1]}.parquet")
        subprocess.run(["timeout", "-s", "KILL", "5", sys.executable, *given, *options], cwd=ROOT, check=False)
        if Path(folder, f"{names[-1]}.parquet").exists():
            raise CellFailed("a killed process left a file")
        with ThreadPoolExecutor(2) as pool:
            costs = [*pool.map(predict, names)]
        one, other = (
            pd.concat(pd.read_parquet(Path(folder, f"{name}.parquet")) for name in group)
            .set_index(["unique_id", "ds"])
            .sort_index()
            for group in (["1of1"], names)
        )
        pd.testing.assert_frame_equal(one, other, rtol=1e-5, atol=1e-4)  # float32, of values near 20
        stages = {"conversion": conversion, "training": training, "whole": whole}
        shown = {name: cost._asdict() for name, cost in stages.items()}
        return {**shown, "largest_part": {key: max(each._asdict()[key] for each in costs) for key in Cost._fields}}


def write_series(path: Path, series: int, rows: int) -> None:
    """Write a Parquet file of daily series with a weekly season."""
    random, first_day = np.random.default_rng(0), np.datetime64("2020-01-01", "us")
    schema = pa.schema([("unique_id", pa.string()), ("ds", pa.timestamp("us")), ("y", pa.float32())])
    with pq.ParquetWriter(path, schema, use_dictionary=True) as writer:
        for first in range(0, series, 1000):
            count = min(1000, series - first)
            week = np.sin(2 * np.pi * (np.arange(rows) + random.integers(7, size=(count, 1))) / 7)
            values = random.lognormal(3, 1, (count, 1)) * (week + random.normal(size=(count, rows)))
            ids = np.repeat([f"series_{number:06d}" for number in range(first, first + count)], rows)
            dates = np.tile(first_day + np.arange(rows).astype("m8[D]"), count)
            writer.write_table(pa.table([ids, dates, values.ravel().astype("f4")], schema=schema))


def run_serve(cell: Cell, context: Context) -> Row:
    """Measure the latency of `forecast.serve` over loopback, with the run folder of --run, for ten seconds.

    Each client keeps its connection, and waits for its answer before it sends the next request. The clients share the
    machine with the server, and one process: threads would wait for each other, which would count as latency.
    """
    if not context.run:
        raise CellFailed("give the run folder of a trained model: --run RUN")
    clients, run = int(cell.overrides[0].split("=")[1]), Path(context.run).resolve()
    command = [sys.executable, "-m", "forecast.serve", str(run), "port=0", f"workers={os.cpu_count()}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = next((line for line in server.stdout if line.startswith("address")), None)
            if line is None:
                raise CellFailed("the server did not start")
            url = f"{line.split()[1]}/v1/models/{run.name}"
            with urlopen(f"{url}/example") as example:
                body = example.read()
            times, n_refused = asyncio.run(send_from_clients(f"{url}/forecast", body, clients))
        finally:
            server.terminate()
    p50, p99 = 1e3 * np.percentile(times, [50, 99])
    return {"p50_ms": p50, "p99_ms": p99, "per_second": len(times) / SERVE_SECONDS, "refused": n_refused}


async def send_from_clients(url: str, body: bytes, clients: int) -> tuple[list[float], int]:
    """Send requests from several clients; return the seconds of the answers, and the number of refusals."""
    address, end = urlsplit(url), time.perf_counter() + SERVE_SECONDS
    head = f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    async def send_requests() -> list[tuple[bytes, float]]:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        found = []
        while (began := time.perf_counter()) < end:
            writer.write(head + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.search(rb"content-length: *(\d+)", answer.lower())[1]))  # type: ignore[reportOptionalSubscript]
            status = answer.split()[1]
            found.append((status, time.perf_counter() - began))
            if status == b"503":
                await asyncio.sleep(0.1)
        writer.close()
        return found

    found = [*chain.from_iterable(await asyncio.gather(*(send_requests() for _ in range(clients))))]
    if others := {status for status, _ in found} - {b"200", b"503"}:
        raise CellFailed(f"the server answered with status {others}")
    times = [seconds for status, seconds in found if status == b"200"]
    return times, len(found) - len(times)


def run_verdicts(cell: Cell, context: Context) -> Row:
    """Train some types with `SEEDS` seeds, and count how often the test of a comparison tells two types apart.

    On `sample`, where `none` is level, these are wrong verdicts; on `load`, where it is worse, power. Each
    draw takes as many seeds for each type, of the same numbers or of other ones, as a user would have trained.
    """
    equal = EQUAL_TYPES if cell.name == "sample" else ("full",)
    losses: dict[str, dict[int, np.ndarray]] = {name: {} for name in (*equal, "none")}
    place = context.choose_folder(cell, describe_commit())
    for seed, (name, runs) in product(range(1, SEEDS + 1), losses.items()):
        given = (*cell.overrides, *EQUAL_TYPES.get(name, f"attention={name}").split(), f"seed={seed}")
        folder = place / hashlib.sha256(" ".join(given).encode()).hexdigest()[:12]
        if not (folder / "metrics.json").exists():  # a finished run of these settings
            context.python("-m", "forecast.train", *given, f"hydra.run.dir={folder}")
        runs[seed] = pd.read_parquet(folder / "errors_by_window.parquet")["model_mse"].to_numpy()
    shutil.rmtree(place)
    random = np.random.default_rng(0)
    draws = [random.permutation(range(1, SEEDS + 1)).tolist() for _ in range(DRAWS)]
    pairs = [*combinations(equal, 2), *((name, "none") for name in equal)]
    means = {name: float(np.mean([*runs.values()])) for name, runs in losses.items()}
    return {f"{name}_mse": mean for name, mean in means.items()} | {
        f"{one}/{other}/{count}/{which}": np.mean(
            [is_told_apart(losses[one], losses[other], draw[:count], draw[first:][:count]) for draw in draws]
        )
        for (one, other), count in product(pairs, (2, 3, 5))
        for which, first in (("equal", 0), ("other", count))
    }


def is_told_apart(
    one: Mapping[int, np.ndarray], other: Mapping[int, np.ndarray], seeds: Sequence[int], others: Sequence[int]
) -> bool:
    """Whether the losses of two types on the windows differ significantly, by their runs with these seeds."""
    runs = [{seed: each[seed] for seed in chosen} for each, chosen in ((one, seeds), (other, others))]
    means = [{seed: float(losses.mean()) for seed, losses in each.items()} for each in runs]
    over_windows = diebold_mariano(*(np.mean(list(each.values()), 0) for each in runs), overlap=24)
    found = add_seed_variance(over_windows, SeedVariance.estimate(means), *means)
    return found.p_value < SIGNIFICANCE_LEVEL


def run_maps(cell: Cell, context: Context) -> Row:
    """Train a model, and measure the attention maps of its encoder on the last test window; means over the layers."""
    with tempfile.TemporaryDirectory() as folder:
        context.python("-m", "forecast.train", *cell.overrides, f"hydra.run.dir={folder}/run")
        context.python(
            "-m", "forecast.explain", f"checkpoint={folder}/run", "slot=encoder", "importance_windows=0",
            f"output={folder}/maps",
        )  # fmt: skip
        table = pd.read_csv(Path(folder, "maps", "numbers.csv"))
        numbers = table.pivot_table("value", "number")["value"]
        metrics = json.loads(Path(folder, "run", "metrics.json").read_text())
        tokens = metrics["attention_slots"]["encoder"]["keys"]
        return {"mse": metrics["test"]["mse"], "tokens": tokens, "numbers": numbers.to_dict()}


STUDIES: dict[str, tuple[dict[str, tuple[str, ...]], Callable[[Cell, Context], Row]]] = {
    "intervals": ({name: (*given, *SMALL) for name, given in INTERVALS.items()}, run_intervals),
    "series": ({"100,000 of 500 days": ("series=100000", "rows=500", "parts=8")}, run_series),
    "maps": (MAPS, run_maps),
    "verdicts": (VERDICTS, run_verdicts),
    "serve": ({f"{n} clients": (f"clients={n}",) for n in (1, 8, 32, 200)}, run_serve),
}


def list_cells(table: str) -> list[Cell]:
    return [Cell(table, name, overrides, {"case": name}) for name, overrides in STUDIES[table][0].items()]


def run_study(cell: Cell, context: Context) -> Row:
    return STUDIES[cell.table][1](cell, context)
