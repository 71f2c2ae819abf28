"""`budget=`: a time for training and validation, from which the number of epochs follows."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from forecast import load
from forecast.evaluation.baselines import FittedBaselines
from forecast.system.errors import ConfigError
from forecast.training import auto_settings, preparation
from forecast.training.checkpointing import Checkpointing, RunStart
from forecast.training.module import Forecaster
from tests.support.commands import only, train_here, workplace

GIVEN = ("logger=[]", "callbacks.early_stopping=null")


def metrics(folder: Path, root: str) -> dict:
    return json.loads(only(folder, f"{root}/*/metrics.json").read_text())


def checkpoint(folder: Path, root: str) -> dict:
    return torch.load(only(folder, f"{root}/*/checkpoints/last.ckpt"), weights_only=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two minutes in `timed`, with a second for a batch, and one of as many epochs in `counted`."""
    place = workplace(tmp_path_factory.mktemp("budget"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto_settings, "time_batch", measure_a_second)
        assert train_here(patch, place, *GIVEN, "budget=2min", "output_root=timed") == 0
        epochs = metrics(place, "timed")["epochs"]
        assert train_here(patch, place, *GIVEN, f"trainer.max_epochs={epochs}", "output_root=counted") == 0
    return place


def measure_a_second(times: list[float]) -> float:
    """A second for every batch, whatever was measured."""
    assert len(times) > 1
    assert times[-1] > times[0]
    return 1.0


def test_as_many_epochs_are_trained_as_fit(folder: Path) -> None:
    content = checkpoint(folder, "timed")["hyper_parameters"]
    windows, data = metrics(folder, "timed")["n_windows"], content["data"]
    assert 1 < content["budget_epochs"] < 120 // (windows["train"] // data["batch_size"])
    assert metrics(folder, "timed")["epochs"] == content["budget_epochs"]


def test_the_learning_rate_falls_to_its_end_within_the_budget(folder: Path) -> None:
    (schedule,) = checkpoint(folder, "timed")["lr_schedulers"]
    assert schedule["_last_lr"] == pytest.approx([0.0], abs=1e-12)


def test_the_measurement_changes_nothing_else(folder: Path) -> None:
    timed, counted = (checkpoint(folder, root)["state_dict"] for root in ("timed", "counted"))
    assert metrics(folder, "timed")["validation_mse"] == metrics(folder, "counted")["validation_mse"]
    for name, weight in timed.items():
        torch.testing.assert_close(weight, counted[name], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([0.0, 5.0, 6.0, 8.5], 1.75),  # the first starts the loader
        ([0.0, 2.0], 2.0),
    ],
)
def test_the_mean_time_of_a_batch(times: list[float], seconds: float) -> None:
    assert auto_settings.time_batch(times) == seconds


class Clock:
    """A clock that only the work of a run moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def slow_down(self, patch: pytest.MonkeyPatch, owner: type, name: str, seconds: float) -> None:
        work = getattr(owner, name)

        def slow(*given: Any, **named: Any) -> Any:
            self.now += seconds
            return work(*given, **named)

        patch.setattr(owner, name, slow)


@pytest.mark.parametrize(
    "model",
    [(), ("model=residual_informer", "model.patch_len=4")],
    ids=["informer", "validated before training"],
)
def test_a_run_of_short_epochs_ends_with_its_budget(
    model: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch is a second of training, one of validation, and four of a checkpoint."""
    clock, began = Clock(), []
    monkeypatch.setattr(auto_settings, "read_clock", lambda _: clock.now)
    clock.slow_down(monkeypatch, Forecaster, "training_step", 0.25)
    clock.slow_down(monkeypatch, Forecaster, "validation_step", 0.25)
    clock.slow_down(monkeypatch, Checkpointing, "_save", 4.0)
    fit = RunStart.fit
    monkeypatch.setattr(
        RunStart, "fit", lambda *given: (began.append(clock.now), fit(*given), began.append(clock.now))
    )
    settings = (*GIVEN, *model, "windows_per_epoch=64", "data.eval_batch_size=10", "budget=100s")
    assert train_here(monkeypatch, workplace(tmp_path), *settings) == 0
    start, end = began
    assert 90 <= end - start <= 100
    assert not list(tmp_path.glob("runs/*/.trial*"))


def test_a_resumed_run_keeps_its_epochs_and_a_continued_one_adds_those_that_fit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    content, data = checkpoint(folder, "timed"), load(only(folder, "timed/*")).data()
    config = OmegaConf.create({"budget": "2min", "budget_epochs": None, "resume": "auto"})
    monkeypatch.setattr(auto_settings, "check_memory", lambda *_: None)
    monkeypatch.setattr(auto_settings, "time_epoch", lambda *_: auto_settings.EpochTime(8.0, 1.5, 0.5))
    trained = content["hyper_parameters"]["budget_epochs"]
    for mode, epochs in {"resumed": trained, "continued": trained + 12, "new": 12}.items():
        start = RunStart(mode, content=None if mode == "new" else content)  # type: ignore[arg-type]
        auto_settings.resolve_budget(config, data, FittedBaselines.fit(data), start)
        assert config.budget_epochs == epochs


@pytest.mark.parametrize("trainer", [{"devices": 2, "num_nodes": 1}, {"devices": 1, "num_nodes": 2}])
def test_a_budget_is_for_one_device(trainer: dict) -> None:
    with pytest.raises(ConfigError):
        preparation.check_budget(OmegaConf.create({"budget": "1min", "compile": False, "trainer": trainer}))


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10min", 600), ("1.5h", 5400)])
def test_units(text: str, seconds: float) -> None:
    assert preparation.parse_budget(text) == seconds
