"""The main job, end to end, on a CSV on disk."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast import load
from forecast.checkpoints.file import load_checkpoint
from forecast.evaluation.scores import SCORES
from forecast.reports import figures
from forecast.runs.folder import digest_of, find_runs, read_config, read_metrics
from forecast.training.schedules import cosine
from tests.support.commands import PLAIN, TINY, finish, only, run_command, run_training, start
from tests.support.csv_files import write_csv
from tests.support.run_differences import differences

EPOCHS = 3


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workplace")
    write_csv(folder / "my load.csv", rows=400)
    return folder


def finished(workplace: Path, *overrides: str, pictures: str = PLAIN) -> tuple[Path, str]:
    root = workplace / f"runs{len(list(workplace.glob('runs*')))}"
    data = ("data=csv", "data.path=my load.csv", f"output_root={root}")
    given = (*data, "logger=csv", f"trainer.max_epochs={EPOCHS}")
    program = ("-m", "forecast", "train", *TINY, *given, pictures, *overrides)
    result = finish(start(workplace, program=program, settings=()))
    assert result.returncode == 0, result.stderr
    (folder,) = root.iterdir()
    return folder, result.stdout + result.stderr


@pytest.fixture(scope="module")
def run(workplace: Path) -> tuple[Path, str]:
    return finished(workplace, pictures="pictures=true")


def test_prints_the_table_and_where_everything_is(run: tuple[Path, str]) -> None:
    folder, printed = run
    for word in ("probsparse", "naive", "seasonal naive", "linear", "skill", "MASE", "stride 1"):
        assert word in printed
    assert str(folder) in printed
    assert "encoder ProbSparse (self, 12 tokens), decoder ProbSparse (causal, 11 tokens)" in printed
    assert "cross Full (cross, 5 × 6 tokens)" in printed
    assert "exact softmax attention, as attention=full does (encoder: ProbSparse keeps every one of" in printed
    slots = read_metrics(folder)["attention_slots"]
    assert {name: (slot["queries"], slot["keys"]) for name, slot in slots.items()} == {
        "encoder": (12, 12), "decoder": (11, 11), "cross": (5, 6),
    }  # fmt: skip


def test_the_run_folder_holds_everything(run: tuple[Path, str]) -> None:
    folder, _ = run
    files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert {
        "config.yaml", "overrides.yaml", "metrics.json", "metrics.csv", "forecasts.png", "error_by_step.png",
        "checkpoints/best.ckpt", "checkpoints/last.ckpt",
    } <= files  # fmt: skip
    assert "train.log" not in files  # nothing was logged
    assert not any(Path(name).name.startswith(".") for name in files)
    best = load_checkpoint(folder / "checkpoints" / "best.ckpt")
    assert best["epoch"] == pd.read_csv(folder / "metrics.csv")["val/mse"].idxmin()


def test_the_tables_agree_with_each_other(run: tuple[Path, str]) -> None:
    folder, _ = run
    metrics = read_metrics(folder)
    windows = pd.read_parquet(folder / "errors_by_window.parquet")
    steps = pd.read_csv(folder / "errors_by_step.csv")
    variables = pd.read_csv(folder / "errors_by_variable.csv")
    assert metrics["n_windows"] == {"train": 280 - 12 - 5 + 1, "val": 40 - 5 + 1, "test": 80 - 5 + 1}
    assert len(windows) == metrics["n_windows"]["test"]
    assert (len(steps), variables["variable"].tolist()) == (5, ["load", "temperature"])
    assert windows["forecast_start"].iloc[0] == pd.Timestamp("2024-01-01") + pd.Timedelta(hours=320)
    assert set(metrics["baselines"]) == {"naive", "seasonal_naive", "linear"}
    for name, scores in {"model": metrics["test"], **metrics["baselines"]}.items():
        assert set(scores) == set(SCORES)
        for table in (windows, steps, variables):
            for score in ("mse", "mae"):
                assert np.mean(table[f"{name}_{score}"]) == pytest.approx(scores[score], rel=1e-5)
    best = min(scores["mse"] for scores in metrics["baselines"].values())
    assert metrics["skill"] == pytest.approx(1 - metrics["test"]["mse"] / best)
    conformal = metrics["intervals"]["conformal"]
    assert metrics["test"]["crps"] == pytest.approx(conformal["crps"], rel=1e-5)
    for table in (steps, variables):
        assert np.mean(table["conformal_coverage_80"]) == pytest.approx(conformal["80"]["coverage"], rel=1e-5)
    for field in ("n_parameters", "seconds", "windows_per_second", "ms_per_window", "peak_memory_mb"):
        assert metrics[field] > 0
    assert metrics["ms_per_window"] * 76 < 1000 * metrics["seconds"]  # the test pass is a part of the run
    epochs = pd.read_csv(folder / "metrics.csv")
    assert epochs["epoch"].tolist() == list(range(EPOCHS))
    assert {"train/loss", "train/grad_norm", "val/mse", "val/mae", "lr", "windows_per_second"} <= set(epochs)


def test_the_pictured_forecasts_are_kept_in_original_units(run: tuple[Path, str], workplace: Path) -> None:
    folder, _ = run
    table = pd.read_parquet(folder / "forecasts.parquet")
    windows = pd.read_parquet(folder / "errors_by_window.parquet")
    read = pd.read_csv(workplace / "my load.csv", parse_dates=["date"]).set_index("date")
    season = read_metrics(folder)["season"]
    groups: Any = table.groupby(["window", "variable"])
    assert {*groups.groups} == {(n, name) for n in (0, 38, 75) for name in ("load", "temperature")}  # of 76 windows
    for (number, variable), part in groups:
        assert part["step"].tolist() == list(range(1 - 12, 5 + 1))  # the whole history: 12 < 3 · 5
        ahead = part[part["step"] > 0].set_index("date")
        assert ahead.index[0] == windows["forecast_start"][number] == part["forecast_start"].unique().item()
        np.testing.assert_array_equal(part["truth"], read.loc[part["date"], variable])
        season_before = read.loc[ahead.index - pd.Timedelta(hours=season), variable].to_numpy()
        assert ahead["seasonal_naive"].to_numpy() == pytest.approx(season_before, rel=1e-5)
    scale = read.iloc[:280].std(ddof=0)  # of the training rows, by which scores are scaled
    for number, part in table[table["step"] > 0].groupby("window"):
        scaled = (part["model"] - part["truth"]) / part["variable"].map(scale)
        assert np.mean(scaled**2) == pytest.approx(windows["model_mse"][number], rel=1e-3)


def test_the_pictured_intervals_are_those_of_a_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of columns whose names look like formulas."""
    write_csv(tmp_path / "load.csv", rows=400)
    names = ["$\\frac{1}{$", "<script>alert(1)</script> x^$ température"]
    table = pd.read_csv(tmp_path / "load.csv").set_axis(["date", *names], axis=1)
    table.to_csv(tmp_path / "load.csv", index=False)
    drawn: list[Any] = []
    draw = figures.forecast_figure
    monkeypatch.setattr(figures, "forecast_figure", lambda *given: drawn.append(given) or draw(*given))
    settings = ("pictures=true", "loss=quantile", "levels=[80]", "trainer.max_epochs=1", "logger=[]")
    assert run_training(tmp_path, *settings) == 0
    ((dates, *_, bands, _),) = drawn
    ((low, high),) = bands.values()
    monkeypatch.chdir(tmp_path)
    found = load(only(tmp_path, "runs/*")).predict(start=dates[1][-5], levels=[80])
    for v, name in enumerate(names):
        for side, values in (("lo", low), ("hi", high)):
            np.testing.assert_allclose(values[1, :, v], found[f"{name}-{side}-80"], rtol=1e-4)


def test_the_same_seed_gives_the_same_run_to_the_bit(run: tuple[Path, str], workplace: Path) -> None:
    assert differences(run[0], finished(workplace)[0]) == []


def test_only_a_run_of_the_same_configuration_is_resumed(run: tuple[Path, str], tmp_path: Path) -> None:
    copy = shutil.copytree(run[0], tmp_path / "runs" / "copy")
    config = read_config(copy / "config.yaml")
    find = lambda: find_runs(tmp_path / "runs", config, digest_of(config))  # noqa: E731
    other = tmp_path / "runs" / "of another program" / "checkpoints" / "last.ckpt"
    other.parent.mkdir(parents=True)
    other.touch()
    (other.parents[1] / "config.yaml").write_text("output_dir: ${nothing}")
    assert find() == (None, copy)
    (copy / "metrics.json").unlink()
    config.output_dir, config.resume, config.logger.mode = "elsewhere", "auto", "online"
    config.callbacks.epochs.path = "elsewhere/metrics.csv"
    assert find() == (copy, None)
    config.optimizer.lr *= 2
    assert find() == (None, None)


def test_a_named_folder_takes_the_same_run_on_the_same_table_alone(tmp_path: Path) -> None:
    write_csv(tmp_path / "load.csv", rows=300)
    given = ("trainer.max_epochs=1", "logger=[]", "hydra.run.dir=nightly", "resume=auto")
    assert run_training(tmp_path, *given) == 0
    before = (tmp_path / "nightly" / "config.yaml").read_text()
    assert run_training(tmp_path, *given, "seed=7") == 2
    assert (tmp_path / "nightly" / "config.yaml").read_text() == before
    (tmp_path / "nightly" / "metrics.json").unlink()
    frame = pd.read_csv(tmp_path / "load.csv")
    frame.assign(load=frame["load"] + 1).to_csv(tmp_path / "load.csv", index=False)
    assert run_training(tmp_path, *given) == 2
    assert not (tmp_path / "nightly" / "metrics.json").exists()


def test_a_run_is_used_elsewhere_with_its_settings_and_its_file(run: tuple[Path, str], tmp_path: Path, capsys) -> None:
    """Its data.path is relative. What is typed replaces a setting of the run."""
    given = (f"checkpoint={run[0]}", PLAIN, "logger=[]", f"trainer.max_epochs={EPOCHS + 1}")
    assert run_command("train", tmp_path, *given, "model=mlp") == 2
    assert "model" in capsys.readouterr().err
    assert run_command("train", tmp_path, *given, "data.batch_size=8") == 0
    assert "taken:     model=informer" in capsys.readouterr().err
    longer, before = (read_config(folder / "config.yaml") for folder in (only(tmp_path, "runs/*"), run[0]))
    assert longer.data.path == str(run[0].parents[1] / before.data.path)
    assert longer.data.batch_size == 8
    for key in ("seq_len", "label_len", "pred_len", "model"):
        assert longer[key] == before[key]
    assert run_command("predict", tmp_path, f"checkpoint={run[0]}", "levels=[]") == 0


def test_a_named_checkpoint_is_gone_on_from_in_a_new_folder(run: tuple[Path, str], tmp_path: Path) -> None:
    write_csv(tmp_path / "my load.csv", rows=390)
    longer, said = finished(tmp_path, f"checkpoint={run[0]}", f"trainer.max_epochs={EPOCHS + 1}")
    assert "its best epoch is not used, because its validation windows differ" in said
    before, after = (load_checkpoint(folder / "checkpoints" / "best.ckpt") for folder in (run[0], longer))
    assert after["epoch"] == EPOCHS
    assert torch.equal(*(each["LightningData"]["scaler"]["scale"] for each in (before, after)))
    assert after["LightningData"]["trained_until"] != before["LightningData"]["trained_until"]
    table = pd.read_csv(longer / "metrics.csv")
    assert table["epoch"].tolist() == [EPOCHS]
    steps = load_checkpoint(run[0] / "checkpoints" / "last.ckpt")["global_step"]
    peak = read_config(longer / "config.yaml").optimizer.lr
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=peak)
    factor = cosine(optimizer, steps * (EPOCHS + 1) // EPOCHS)["scheduler"].lr_lambdas[0]
    last = steps * (EPOCHS + 1) // EPOCHS - 1
    assert table["lr"].tolist() == pytest.approx([peak * factor(last)])  # of a schedule over all the epochs
