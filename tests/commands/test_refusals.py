"""Command lines, and calls in Python, that are refused, with the text of each message; for files: `test_bad_input`."""

import os
import runpy
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
import torch

import forecast
from forecast import Model, load
from forecast.__main__ import list_commands, main
from forecast.cli.compose import compose_config
from forecast.system.errors import CheckpointError, ConfigError, DataError
from forecast.tools.benchmark import list_cases, make_work
from forecast.tools.export import metadata
from forecast.training import preparation
from tests.support.commands import ROOT, TINY, run_command
from tests.support.csv_files import write_csv
from tests.support.long_files import long_frame
from tests.support.refusals import Refusal, describe_options, is_said
from tests.support.synthetic_runs import configuration, make_run


class Case(NamedTuple):
    """The arguments of a command, and the end of its message, with `…` for text that varies."""

    arguments: str
    says: str


SMALL = " ".join([*TINY, "logger=[]"])  # settings of a model with windows of 12 → 5 steps
HOURLY = f"{SMALL} data=csv data.path=load.csv"
REFUSED: dict[tuple[str, str], list[Case]] = {
    ("backtest", "table"): [
        Case(f"{HOURLY} steps=100000", "steps=100,000: load.csv has 300 rows: give fewer steps"),
        Case(f"{HOURLY} resume=auto", "resume=auto: a backtest has no resume: leave it out"),
        Case("checkpoint={run}/checkpoints/last.ckpt data.path=newer.csv", "checkpoints/last.ckpt: its run was not tested, so it holds no baselines and no calibration; give the folder of a finished run"),
    ],
    ("backtest", "series_files"): [
        Case("checkpoint={series_run} data.path=long.csv model=informer", "model=informer: with checkpoint=, a backtest takes its settings from the checkpoint: leave this one out"),
        Case("checkpoint={series_run} data.path=long.csv steps=52", "long.csv: there are 8 rows before the first origin, and the model reads seq_len=12: give fewer steps"),
    ],
    ("check", "table"): [
        Case("data.path=texts.csv data.target=load", "texts.csv: target 'load' is text: choose a column of numbers (data.target)"),
        Case("data.path=four.csv", "4 rows leave none for the test part: give more rows, or another data.split"),
        Case("data.path=load.csv data.columns=[load] data.target=temperature", "data.target=temperature is no column to forecast (load): set data.target to one of them, or add it to data.columns"),
        Case("data.path=load.csv features=MS", "features=MS needs data.target, one of: load, temperature"),
    ],
    ("compare", "runs"): [
        Case("", "no runs given; name their folders, for example: forecast compare runs"),
        Case("nowhere", "nowhere: no such folder; give run folders, sweep folders or globs such as 'runs/*'"),
        Case("empty", "no finished run in empty (empty: not a run folder)"),
        Case("stopped", "no finished run in stopped (stopped: did not finish)"),
        Case("runs reference=nystrom", "reference=nystrom: sample, 24 steps ahead, features=M has no variant or baseline of this name, but full, linear, linear baseline, seasonal naive, naive"),
    ],
    ("convert", "table"): [
        Case("data.path=offsets.csv chunk=600", "offsets.csv, line 22, column 'date': '2024-03-30 20:00:00+01:00' and the dates above have no format in common: set data.date_format, with %z for offsets from UTC that change, or give dates in UTC"),
    ],
    ("dashboard", "bare"): [
        Case("", "forecast.dashboard: wandb-workspaces is not installed: pip install -c constraints.txt -e '.[dashboard]'"),
    ],
    ("explain", "table"): [
        Case("checkpoint={run} slot=variables", "slot=variables: this model has the slots encoder, decoder, cross; give one, or all"),
    ],
    ("export", "table"): [
        Case("checkpoint={run} output=there.onnx", "there.onnx.json: already exists: give another output, or overwrite=true"),
    ],
    ("export", "bare"): [
        Case("checkpoint={run}", "forecast.export: onnx is not installed: pip install -c constraints.txt -e '.[export]'"),
    ],
    ("monitor", "table"): [
        Case("checkpoint={run}", "data.path=null: name the file with the newer rows"),
    ],
    ("predict", "table"): [
        Case("", "checkpoint= is needed: checkpoint=runs/RUN, or a checkpoint file"),
    ],
    ("serve", "table"): [
        Case("", "models=[]: name a run folder, as in forecast serve runs/MY_RUN"),
        Case("empty", "empty: neither this folder nor a folder in it has checkpoints/best.ckpt: give a run folder"),
        Case("{run} port={port}", "host=127.0.0.1 port=…: Address already in use: give another port, or port=0"),
    ],
    ("train", "table"): [
        Case(f"{HOURLY} checkpoint=empty", "empty: …no checkpoints/last.ckpt…"),
        Case(f"{HOURLY} checkpoint=other.ckpt", "other.ckpt…not written by forecast.train…"),
        Case(f"{SMALL} checkpoint={{run}} trainer.max_epochs=1 data=csv data.path={{load}}", "checkpoints/last.ckpt: trained for 1 epochs already; to continue, set trainer.max_epochs above that"),
        Case(f"{SMALL} data=sample trainer.max_epochs=2 checkpoint={{run}}", "sample: feature columns HUFL, HULL, MUFL, MULL, LUFL, LULL, OT, where the checkpoint was trained on load, temperature: choose the same (data, data.columns, data.target, data.past_covariates, features)"),
        Case(f"{HOURLY} +trainer.limit_val_batches=2", "trainer.limit_val_batches: every epoch is validated once, on the whole split; to use fewer windows, set data.eval_stride=24"),
        Case(f"-m {HOURLY} trainer.devices=2 seed=1,2", "trainer.devices=2 cannot be used in a multirun (-m): each process would start the sweep again; start one command for each configuration instead, or sweep with one device per job"),
    ],
    ("train", "bare"): [
        Case(f"{SMALL} data=csv data.path=no.csv logger=tensorboard", "logger=tensorboard: a package is not installed: pip install -c constraints.txt -e '.[tensorboard]'"),
        Case(f"{HOURLY} logger=[wandb,csv] logger.mode=online", "W&B cannot be reached (No API key configured. Use `wandb login` to log in.); set up an account with `wandb login`, or use logger.mode=offline, which needs neither account nor network"),
        Case(f"-m {HOURLY} search=informer seed=1,2", "hydra/sweeper=optuna: a package is not installed: pip install -c constraints.txt -e '.[optuna]'"),
        Case(f"-m {HOURLY} hydra/launcher=submitit_local seed=1,2", "hydra/launcher=submitit_local: a package is not installed: pip install -c constraints.txt -e '.[submitit]'"),
    ],
}  # fmt: skip


@pytest.fixture
def table(tmp_path: Path, run: Path) -> Iterator[dict[str, object]]:
    """Files with hourly rows in the working directory; names that arguments refer to."""
    write_csv(tmp_path / "load.csv", rows=300)
    write_csv(tmp_path / "newer.csv", rows=400)
    frame = pd.read_csv(tmp_path / "load.csv")
    frame[:4].to_csv(tmp_path / "four.csv", index=False)
    frame.assign(load="much").to_csv(tmp_path / "texts.csv", index=False)
    summer = pd.date_range("2024-03-30", periods=72, freq="h", tz="Europe/Berlin")
    offsets = frame[:72].assign(date=[date.isoformat(sep=" ") for date in summer])
    offsets.to_csv(tmp_path / "offsets.csv", index=False)
    (tmp_path / "there.onnx.json").touch()
    (tmp_path / "empty").mkdir()
    torch.save({"weights": torch.zeros(3)}, tmp_path / "other.ckpt")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield {"run": run, "load": run.parents[1] / "load.csv", "port": taken.getsockname()[1]}


@pytest.fixture
def bare(table: dict[str, object], tmp_path_factory, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """An environment without the packages of the extras, and without an account of W&B."""
    for package in ("optuna", "submitit", "ray", "wandb_workspaces"):
        monkeypatch.setitem(sys.modules, package, None)
    for name in ("mlflow", "tensorboard"):
        monkeypatch.setitem(preparation.LOGGER_PACKAGES, name, ("no_such_package",))
    monkeypatch.setattr(metadata, "list_missing_packages", lambda: ["onnx"])
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NETRC", str(home / "none"))
    return table


@pytest.fixture
def series_files(tmp_path: Path, series_run: Path) -> dict[str, object]:
    long_frame().to_csv(tmp_path / "long.csv", index=False)
    return {"series_run": series_run}


@pytest.fixture
def runs(tmp_path: Path, pair: Path) -> dict[str, object]:
    (tmp_path / "empty").mkdir()
    make_run(tmp_path / "stopped", configuration(), mse=1.0)
    (tmp_path / "stopped" / "metrics.json").unlink()
    return {}


@pytest.mark.parametrize(
    ("command", "place", "case"),
    [
        pytest.param(
            command, place, case, id=f"{command}-{case.arguments.replace(HOURLY, '').replace(SMALL, '').strip()}"
        )
        for (command, place), cases in REFUSED.items()
        for case in cases
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_refused(
    command: str, place: str, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    names = request.getfixturevalue(place)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    monkeypatch.setattr(sys, "argv", [command, *shlex.split(case.arguments.format(**names))])
    capfd.readouterr()
    with pytest.raises(SystemExit) as exit:
        runpy.run_module(f"forecast.{command}", run_name="__main__")
    assert exit.value.code == 2
    (error,) = (line for line in capfd.readouterr().err.splitlines() if not line.startswith("warning: "))
    assert error.startswith("error: ")
    assert is_said(case.says, error), error
    assert sorted(tmp_path.rglob("*")) == before


INVALID = {
    "train": [
        "levels=[100]", "refit=half", "logger.mode=never", "callbacks.checkpoint=null", "callbacks.epochs.path=elsewhere.csv",
        "callbacks.early_stopping.monitor=val/loss", "+trainer.max_steps=2", "trainer.max_epochs=0",
        "trainer.precision=bf16-true", "data.split=[0.5,0.6]", "data.scaler=log", "data.holidays=XX", "data.fill=magic",
        "data.lower=low", "refit=full schedule=plateau", "data.steps=rows data.calendar=weekly",
        "trainer=ddp_cpu data.batch_size=31",
    ],
    "backtest": [
        "steps=3", "stride=0", "refit_every=9 retrain=often", "retrain=[never,scratch]", "intervals=quantile",
    ],
    "predict": ["baseline=best", "baseline=naive intervals=quantile", "levels=[0]", "horizon=0", "samples=0", "start=soon", "output=a.txt"],
    "evaluate": ["split=all"],
    "explain": ["slot=middle", "repeats=1"],
    "export": ["tolerance=0"],
    "monitor": ["output=a.txt"],
    "convert": ["data.stamp=middle", "data.duplicates=maybe"],
}  # fmt: skip
"""Settings that are invalid whatever the data, so that the message names the last one, and no file that is missing."""


@pytest.mark.parametrize(
    ("command", "settings"), [(command, each) for command, settings in INVALID.items() for each in settings]
)
def test_settings_are_refused_before_the_data(command: str, settings: str, tmp_path: Path, capsys) -> None:
    is_trained = command in ("train", "backtest")
    given = ["data.path=no.csv", *((*TINY, "data=csv") if is_trained else ())]
    if command in ("predict", "evaluate", "explain", "export", "monitor"):
        given.append("checkpoint=no_run")
        (tmp_path / "no_run").touch()  # a checkpoint that cannot be read
    assert run_command(command, tmp_path, *given, *settings.split()) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert settings.split()[-1].partition("=")[0].lstrip("+").split(".")[-1] in error
    assert "no.csv" not in error
    assert "no_run" not in error


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *typed: str) -> tuple:
    monkeypatch.setattr(sys, "argv", ["forecast", *typed])
    try:
        main()
        status = 0
    except SystemExit as exit:
        status = exit.code
    return status, *capsys.readouterr()


def test_help_lists_every_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    _, out, _ = said(monkeypatch, capsys, "--help")
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert listed == [
        "backtest", "benchmark", "check", "compare", "convert", "dashboard", "evaluate", "explain", "export",
        "monitor", "predict", "serve", "train",
    ]  # fmt: skip
    assert said(monkeypatch, capsys, "--version")[1] == f"forecast {forecast.__version__}\n"
    message = "error: forecast trian: there is no such command; did you mean train?\n"
    assert said(monkeypatch, capsys, "trian") == (2, "", message)
    status, _, error = said(monkeypatch, capsys, "completion")
    assert (status, error[:54]) == (2, "error: forecast completion bash|zsh|fish prints a scri")


LINES = [
    ("forecast pre", {"predict"}),
    ("forecast train atten", {"attention=", "attention_window="}),
    ("forecast train seed=1 attention=f", {"attention=full", "attention=fastformer"}),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_completion_in_bash(tmp_path: Path) -> None:
    program = tmp_path / "forecast"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m forecast "$@"\n')
    program.chmod(0o755)
    places = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    script = 'eval "$(forecast completion bash)"\n' + "".join(
        f'COMP_LINE="{line}" COMP_WORDS=({line}) COMP_CWORD={len(line.split()) - 1}\n'
        '_forecast\necho "${COMPREPLY[@]}"\n'
        for line, _ in LINES
    )
    command = ["bash", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | places, capture_output=True, text=True, check=True)
    for (_, choices), found in zip(LINES, done.stdout.splitlines(), strict=True):
        assert set(found.split()) == choices


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_the_scripts_of_other_shells_are_whole(monkeypatch: pytest.MonkeyPatch, capsys, name: str) -> None:
    """They need no such shell: quotes are closed, and the list of commands stands in them."""
    status, script, _ = said(monkeypatch, capsys, "completion", name)
    shlex.split(script)  # an open quote is refused
    assert [script.count(sign) for sign in "({"] == [script.count(sign) for sign in ")}"]
    assert (status, " ".join(list_commands()) in script) == (0, True)


# ---- forecasts and data that a trained model refuses, and its warnings

Change = Callable[[pd.DataFrame], Any]


@pytest.fixture
def quantile_model(quantile_run: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """As `model`, with trained quantiles, refitted on all rows."""
    monkeypatch.chdir(quantile_run.parents[1])
    return load(quantile_run)


def hourly() -> pd.DataFrame:
    return pd.read_csv("load.csv", parse_dates=["date"], index_col="date")


def option(says: str, kind: type[Exception] = ConfigError, **options: Any) -> Refusal:
    return Refusal(describe_options(options), says, kind, lambda model: model.predict(**options))


def frame(what: str, says: str, change: Change, kind: type[Exception] = DataError) -> Refusal:
    return Refusal(what, says, kind, lambda model: model.predict(change(hourly())))


def series(what: str, says: str, kind: type[Exception], change: Change, **options: Any) -> Refusal:
    return Refusal(what, says, kind, lambda model: model.predict(change(long_frame(future=10)), **options))


def known_days(days: int) -> Change:
    """Leave the prices out after this many days that follow each series."""

    def change(table: pd.DataFrame) -> pd.DataFrame:
        ends = table.loc[table["y"].notna()].groupby("unique_id")["ds"].max()
        last = table["unique_id"].map(ends) + pd.Timedelta(days=days)
        return pd.DataFrame(table[table["ds"] <= last])

    return change


def without_region(model: Model) -> None:
    long_frame().drop(columns="region").to_csv("bare.csv", index=False)
    model.read_panel({"path": "bare.csv"})


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Model], None]:
    def call(model: Model) -> None:
        content = torch.load(model.path, weights_only=True)
        change(content)
        torch.save(content, "hostile.ckpt")
        try:
            load("hostile.ckpt").predict()
        finally:
            Path("hostile.ckpt").unlink()

    return call


def hostile(change: Callable[[dict[str, Any]], object]) -> Callable[[Model], None]:
    return changed(lambda content: change(content["hyper_parameters"]))


def benchmark(override: str, says: str) -> Refusal:
    def call(folder: Path) -> None:
        config = compose_config(override, config_name="benchmark")
        make_work(config, list_cases(config)[0], "cpu")

    return Refusal(override, says, ConfigError, call)


FUNCTION = {"_target_": "pandas.read_pickle", "filepath_or_buffer": "evil.pickle"}
DOWNLOAD = {"_target_": "forecast.data.downloaded_data", "name": "etth1", "root": ".", "path": "precious", "url": "file://x", "hash": "0" * 64, "by_hand": None}  # fmt: skip
REFUSED_IN_PYTHON = {
    "tmp_path": [
        Refusal("no run", "checkpoint=latest: no finished run is below runs: give a run folder or a file", CheckpointError, lambda folder: load("latest")),
        benchmark("attention_types=[full,sparse]", "attention_types=sparse is not one of …uniform"),
        benchmark("benchmark.widths=[60]", "benchmark.widths: 60 must be a multiple of benchmark.n_heads=8"),
    ],
    "model": [
        frame("a column left out", "the DataFrame: no column 'load'; there are 'temperature'", lambda f: f.drop(columns="load")),
        frame("every third row", "the data: one row every 3h, but …/best.ckpt was trained on one every h: give such data", lambda f: f[::3], CheckpointError),
        frame("no dates", "the DataFrame: neither the index nor one column 'date' holds dates: give the rows an index of dates, such as pd.date_range('2024-01-01', periods=300, freq='h')", lambda f: f.reset_index(drop=True)),
        option("start=2024-01-01 03:00 is not a date of the data, or has too little history: with seq_len=12 a forecast may begin from 2024-01-01 12:00:00 to 2024-01-13 12:00:00, every hour", start="2024-01-01 03:00"),
        option("start=soon is not a date: write it as 2018-01-31 or 2018-01-31T06:00", start="soon"),
        option("start=2024-01-10T06:00Z: leave the UTC offset out: the dates of the data have no UTC offset", start="2024-01-10T06:00Z"),
        option("intervals=quantile is not possible, because the model has no trained quantiles (it was trained with another loss than quantile, or no epoch of its training was kept): use intervals=conformal", levels=[80], intervals="quantile"),
        Refusal("a longer horizon than that of the model", "h=6 is beyond pred_len=5: train with pred_len=6", ConfigError, lambda model: model.cross_validation(6)),
        Refusal("more windows than rows", "n_windows=99, step_size=9: steps=887: load.csv has 300 rows: give fewer steps", ConfigError, lambda model: model.cross_validation(5, 99, 9)),
        Refusal("windows in training rows", "of 200 origins, 114 in training rows (to 2024-01-09 17:00:00) and 30 in validation rows (to 2024-01-10 23:00:00): their errors say little about the errors of new dates; backtest fewer of the last rows", UserWarning, lambda model: model.cross_validation(5, 200)),
        Refusal("a folder that is there", "there: already exists: give another folder", ConfigError, lambda model: (Path("there").mkdir(exist_ok=True), model.save("there"))),
        Refusal("another root", "data.root=other: …/best.ckpt was trained on a file of its own: give another by data.path", ConfigError, lambda model: model.data({"root": "other"})),
        Refusal("a checkpoint without the calibrations of baselines", "hostile.ckpt: it does not have the layout of a checkpoint of this version; train again", CheckpointError, changed(lambda content: content.pop("baseline_calibrations"))),
        Refusal("a checkpoint that names a function", "hostile.ckpt: the checkpoint names pandas.read_pickle, which this project does not write into checkpoints; nothing was executed. For a class of your own, set FORECAST_CONF or FORECAST_TARGETS as in training", CheckpointError, hostile(lambda c: c["model"].update(dropout=FUNCTION))),
        Refusal("a checkpoint that downloads", "precious: no such file: put it there by hand: the file itself, or its folder as data.root=FOLDER", DataError, hostile(lambda c: c["data"].update(DOWNLOAD))),
    ],
    "quantile_model": [
        option("intervals=quantile is not possible, because the model was trained for levels=[20,40,60,80,95], not for 50: use intervals=conformal", levels=[50], intervals="quantile"),
        option("intervals=quantile is not possible, because the trained quantiles reach pred_len=5 steps, not horizon=9: use intervals=conformal", levels=[60], horizon=9, intervals="quantile"),
    ],
    "series_model": [
        series("no prices", "series 'a': price is not known for 2024-02-10 00:00:00: this forecast needs future covariates for 5 steps after its start (a multiple of pred_len): add rows with these covariates and empty targets, or give their rows with future=; a model trained with data.known_steps needs fewer; start=2024-02-05T00:00:00 tries the forecast on known rows", DataError, known_days(0)),
        series("too few prices for two passes", "series 'a': price is not known for 2024-02-19 00:00:00: this forecast needs future covariates for 10 steps after its start (a multiple of pred_len): add rows with these covariates and empty targets, or give their rows with future=; a model trained with data.known_steps needs fewer; start=2024-01-31T00:00:00 tries the forecast on known rows", DataError, known_days(9), horizon=8),
        series("series left out", "1 of 4 series left out, because a column has no value before the forecast, or no row is right before it: 'a'", UserWarning, known_days(10), start="2024-02-11"),
        series("few validation rows for the horizon", "horizon=8: intervals beyond pred_len=5 are calibrated on 18 validation rows, which hold 2 such horizons: they are rough, and may leave out the forecast itself; train with a longer pred_len, or give validation more rows (data.split)", UserWarning, known_days(10), horizon=8, levels=[50]),
        Refusal("no static column", "bare.csv: no column 'region'; there are 'unique_id', 'y', 'temperature', 'price', 'size' (data.static_covariates)", DataError, without_region),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "refusal"),
    [
        pytest.param(place, refusal, id=f"{place}-{refusal.what}")
        for place, refusals in REFUSED_IN_PYTHON.items()
        for refusal in refusals
    ],
)
def test_what_is_refused_in_python(place: str, refusal: Refusal, request: pytest.FixtureRequest) -> None:
    refusal.check(request.getfixturevalue(place))
