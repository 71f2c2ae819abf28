"""What the loggers keep of a real run, read back with their own readers."""

import json
import signal
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pandas as pd
import psutil
import pytest

from forecast.system.keys import flatten, variant_id
from tests.commands.test_secrets import CANARY, ENVIRONMENT, holding
from tests.support.commands import finish, only, run_command, start, train, workplace
from tests.support.wandb_file import WandbRun, records

KEYS = {name: value for name, value in ENVIRONMENT.items() if not name.endswith("PROXY")}
CURVES = {"train/loss", "train/grad_norm", "val/mse", "val/mae", "lr", "windows_per_second"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    """A run with every logger, in an environment that holds secrets."""
    folder = workplace(tmp_path_factory.mktemp("loggers"))
    given = ("logger=[wandb,csv,tensorboard,mlflow]", "pictures=true", "trainer.max_epochs=3", "seed=7")
    result = train(folder, *given, **KEYS)
    assert result.returncode == 0, result.stderr
    return only(folder, "runs/*-s7_*"), result


@pytest.fixture(scope="module")
def wandb_run(ran) -> WandbRun:
    return WandbRun(only(ran[0], "wandb/offline-run-*/*.wandb"))


@pytest.fixture(scope="module")
def metrics(ran) -> dict[str, Any]:
    return json.loads((ran[0] / "metrics.json").read_text())


def test_wandb_has_the_resolved_configuration_without_local_paths(ran, wandb_run: WandbRun) -> None:
    """Nor are they in the metadata of W&B."""
    assert (wandb_run.run.project, wandb_run.run.display_name) == ("forecast", "probsparse-csv-5-s7")
    assert list(wandb_run.run.tags) == ["probsparse", "csv"]
    assert (wandb_run.run.run_group, wandb_run.exit_code) == ("", 0)
    logged = dict(wandb_run.config)
    assert logged["model"]["attention"]["encoder"]["factor"] == 5
    assert logged["data"]["path"] == "load.csv"
    assert "${" not in json.dumps(logged)
    assert "output_dir" not in logged
    assert logged.pop("variant_id") == variant_id({**logged, "seed": logged["seed"] + 1})
    text = [str(one) for one in records(only(ran[0], "wandb/offline-run-*/*.wandb"))]
    for path in (ran[0].parents[1], Path.home(), Path(sys.executable).parent):
        assert not [one for one in text if str(path) in one]


def test_wandb_has_the_curves_and_the_final_scores(ran, wandb_run: WandbRun, metrics: dict[str, Any]) -> None:
    epochs = pd.read_csv(ran[0] / "metrics.csv").set_index("epoch")
    assert list(epochs.index) == [0, 1, 2]
    for name in CURVES:
        assert wandb_run.curve(name) == pytest.approx(epochs[name].to_dict(), rel=1e-6), name
    expected = {f"test/{name}": value for name, value in metrics["test"].items()}
    for baseline, scores in metrics["baselines"].items():
        expected |= {f"baseline/{baseline}/{name}": value for name, value in scores.items()}
    for name in ("skill", "seconds", "windows_per_second", "n_parameters", "best_epoch", "shrinkage_weight"):
        expected[name] = metrics[name]
    for level, scores in metrics["intervals"]["conformal"].items():
        of_level = scores if isinstance(scores, dict) else {"": scores}  # pinball and crps, over all levels
        names = {name: f"intervals/conformal/{level}/{name}".rstrip("/") for name in of_level}
        expected |= {names[name]: value for name, value in of_level.items()}
    for slot, sides in metrics["attention_slots"].items():
        expected |= {f"tokens/{slot}/{side}": sides[side] for side in ("queries", "keys")}
    expected |= {f"val/{name}": metrics[f"validation_{name}"] for name in ("mse", "mae")}
    assert len(expected) == 4 * 8 + 6 + 2 * 6 + 4 + 6 + 2
    assert {name: wandb_run.summary[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert not [name for name in wandb_run.summary if "validation" in name or "memory" in name]


def test_wandb_has_the_error_by_step_as_curves_and_the_pictures(ran, wandb_run: WandbRun) -> None:
    rows = [row for row in wandb_run.history if "horizon/step" in row]
    by_step = pd.read_csv(ran[0] / "errors_by_step.csv")
    assert [row["horizon/step"] for row in rows] == [1, 2, 3, 4, 5]
    for name in ("model", "naive", "seasonal_naive", "linear"):
        assert [row[f"horizon/{name}_mse"] for row in rows] == pytest.approx(list(by_step[f"{name}_mse"]))
    files = only(ran[0], "wandb/offline-run-*/files")
    for picture in ("forecasts", "error_by_step"):
        (name,) = wandb_run.summary[f"pictures/{picture}/filenames"]
        assert (files / name).read_bytes() == (ran[0] / f"{picture}.png").read_bytes()


def test_each_service_says_one_line(ran, mlflow_run) -> None:
    folder, result = ran
    offline = only(folder, "wandb/offline-run-*").relative_to(folder.parent.parent)
    said = (result.stdout + result.stderr).splitlines()
    assert [line for line in said if "wandb" in line.lower()] == [
        f"W&B: offline run; upload it with: wandb sync {folder.parent.parent / offline}"
    ]
    view = "mlflow ui --backend-store-uri sqlite:///runs/mlflow.db"
    assert [line for line in said if "mlflow" in line.lower()] == [
        f"MLflow: run {mlflow_run[0].info.run_id}; view it with: {view}"
    ]


def test_a_run_its_comparison_and_its_dashboard_keep_no_secret(
    ran, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, result = ran
    folder = run.parents[1]
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert run_command("compare", folder, "runs=[runs]") == 0
    assert run_command("dashboard", folder, "mode=offline") == 0
    assert CANARY not in "".join((result.stdout, result.stderr, *capfd.readouterr()))
    assert holding(folder) == []
    (run / "planted").write_text(f"x{CANARY}")
    assert holding(folder) == [run / "planted"]


def test_csv_and_tensorboard_have_the_same(ran, metrics: dict[str, Any]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows = pd.read_csv(ran[0] / "logs" / "csv" / "version_0" / "metrics.csv")
    assert set(rows["epoch"].dropna()) >= {0, 1, 2}
    assert rows[list(CURVES)].notna().sum().min() >= 3
    assert rows["skill"].dropna().item() == pytest.approx(metrics["skill"])
    events = EventAccumulator(str(ran[0] / "logs" / "tensorboard")).Reload()
    assert set(events.Tags()["scalars"]) >= {*CURVES, "skill", "test/mse", "baseline/naive/mae"}
    curve = [event.value for event in events.Scalars("val/mse")]
    assert curve == pytest.approx(list(pd.read_csv(ran[0] / "metrics.csv")["val/mse"]), rel=1e-5)


@pytest.fixture(scope="module")
def mlflow_run(ran) -> Any:
    """The MLflow run, read from the database with MLflow."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{ran[0].parent / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("forecast")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    return run, client


def test_mlflow_has_what_wandb_has(ran, mlflow_run, wandb_run: WandbRun, metrics: dict[str, Any]) -> None:
    run, client = mlflow_run
    logged = {key: str(value) for key, value in flatten(wandb_run.config)}
    assert {key: run.data.params[key] for key in logged} == logged
    assert run.data.tags == {
        "mlflow.runName": "probsparse-csv-5-s7",
        "attention": "probsparse",
        "data": "csv",
        "variant_id": wandb_run.config["variant_id"],
    }
    prefixes = ("test/", "baseline/", "intervals/", "tokens/", "skill", "best_epoch")
    expected = {name: value for name, value in wandb_run.summary.items() if name.startswith(prefixes)}
    assert len(expected) > 40
    assert {name: run.data.metrics[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    epochs, by_step = (pd.read_csv(ran[0] / name) for name in ("metrics.csv", "errors_by_step.csv"))
    for name in CURVES:
        found = [point.value for point in client.get_metric_history(run.info.run_id, name)]
        assert found[: len(epochs)] == pytest.approx(list(epochs[name]), rel=1e-6), name
    points = client.get_metric_history(run.info.run_id, "horizon/model_mse")
    found = {point.step: point.value for point in points}
    assert found == pytest.approx(dict(zip(by_step["step"], by_step["model_mse"], strict=True)))
    assert run.info.status == "FINISHED"
    files = Path(run.info.artifact_uri.removeprefix("file://"))
    assert files.is_relative_to(ran[0].parent)
    assert json.loads((files / "metrics.json").read_text()) == metrics
    for picture in ("forecasts.png", "error_by_step.png"):
        assert (files / "pictures" / picture).read_bytes() == (ran[0] / picture).read_bytes()


def test_an_interrupted_run_closes_wandb(tmp_path: Path) -> None:
    process = start(
        workplace(tmp_path), "trainer.max_epochs=100000", "callbacks.early_stopping.patience=100000",
        "callbacks.progress.refresh_rate=1", "logger=wandb", **ENVIRONMENT,  # type: ignore
    )  # fmt: skip
    assert process.stderr
    for line in process.stderr:
        if "epoch 2:" in line:
            break
    process.send_signal(signal.SIGINT)
    result = finish(process)
    assert result.returncode == 130
    assert result.stderr.splitlines()[-1].startswith("interrupted; repeat the command with resume=auto")
    folder = only(tmp_path, "runs/*")
    assert (folder / "checkpoints" / "last.ckpt").exists()
    assert WandbRun(only(folder, "wandb/offline-run-*/*.wandb")).exit_code == 1
    assert holding(tmp_path) == []


@pytest.mark.slow
def test_a_run_goes_on_when_wandb_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # another test's, in this process: the run starts its own
    monkeypatch.delenv("WANDB_SERVICE", raising=False)
    process = start(
        workplace(tmp_path), "trainer.max_epochs=15", "callbacks.early_stopping.patience=100", "logger=[wandb,csv]",
        "callbacks.progress.refresh_rate=1",
    )  # fmt: skip
    assert process.stderr
    for line in process.stderr:
        if "epoch 3:" in line:
            break
    begun = psutil.Process(process.pid).children()
    (service,) = (child for child in begun if "wandb" in " ".join(child.cmdline()))
    service.kill()
    result = finish(process)
    assert result.returncode == 0, result.stderr
    warnings = [line for line in result.stderr.splitlines() if "W&B" in line]
    assert len(warnings) == 1, result.stderr
    folder = only(tmp_path, "runs/*")
    assert json.loads((folder / "metrics.json").read_text())["epochs"] == 15
    assert len(pd.read_csv(folder / "logs/csv/version_0/metrics.csv")["train/loss"].dropna()) == 15
