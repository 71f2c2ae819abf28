"""The MLflow logger: parts of one run, runs that start together, a service that cannot be reached or is lost."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from forecast.system.errors import ConfigError
from forecast.training.loggers import MlflowLogger

SETTINGS = {"seed": 1, "data": {"path": "load.csv"}, "trainer": {"max_epochs": 2}}


def make(root: Path, name: str = "run", address: str | None = None) -> MlflowLogger:
    return MlflowLogger(
        experiment="forecast", name=name, tags={"data": "csv", "group": None}, root=str(root),
        save_dir=str(root / name), tracking_uri=address,
    )  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one database for all tests: MLflow takes seconds to create it."""
    return tmp_path_factory.mktemp("mlflow")


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def read(logger: MlflowLogger) -> Any:
    return logger.experiment.get_run(logger.run_id)


def test_jobs_that_start_together_share_an_experiment(root: Path) -> None:
    """The first test: the jobs create the tables of the database."""
    loggers = [make(root, f"run{i}") for i in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(MlflowLogger.begin, loggers))
    assert len({logger.run_id for logger in loggers}) == 4
    assert len({read(logger).info.experiment_id for logger in loggers}) == 1


def test_a_resumed_run_continues_its_mlflow_run(root: Path) -> None:
    first, second = make(root), make(root)
    first.begin()
    first.log_hyperparams(SETTINGS)
    first.log_metrics({"val/mse": 0.5}, step=3)
    first.end(succeeded=False)
    assert read(first).info.status == "FAILED"

    second.begin()
    second.log_hyperparams({**SETTINGS, "trainer": {"max_epochs": 4}, "loss": "mae"})
    second.log_metrics({"val/mse": float("nan"), "skill": None}, step=6)
    second.end(succeeded=True)
    assert second.run_id == first.run_id
    run = read(second)
    assert run.info.status == "FINISHED"
    assert run.data.params["trainer.max_epochs"] == "2"  # MLflow refuses another value
    assert run.data.params["loss"] == "mae"
    assert run.data.tags["data"] == "csv"
    assert "group" not in run.data.tags
    assert [p.step for p in second.experiment.get_metric_history(run.info.run_id, "val/mse")] == [3, 6]


def test_an_unreachable_server_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"http://127\.0\.0\.1:9 cannot be used") as caught:
        make(tmp_path).begin()
    assert "\n" not in str(caught.value)
    assert "me:secret" not in str(caught.value)


def test_a_lost_connection_ends_no_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger = make(root, "lost")
    logger.begin()
    logger.run_id = "0" * 32
    for step in (1, 2):
        logger.log_metrics({"val/mse": 0.5}, step)
    assert capsys.readouterr().err.count("the connection to MLflow was lost") == 1
