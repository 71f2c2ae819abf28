"""Values `auto` on simulated machines and on data with planted transforms; batches that do not fit into memory."""

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from omegaconf import DictConfig, OmegaConf, ReadonlyConfigError

import forecast.system.machine as this_machine
from forecast.data import Batch, DataModule, csv_data, frame_data
from forecast.data.scaler import Scaler
from forecast.evaluation.baselines import FittedBaselines
from forecast.system.errors import ConfigError
from forecast.training import create_model
from forecast.training.preparation import check_trainer
from tests.support.configurations import composed_once, with_values
from tests.support.windows import set_up

AMX = {"amx_bf16"}


@pytest.fixture(scope="module")
def build():
    """Imported here: Lightning takes seconds, which only the process that runs these tests pays."""
    from forecast.training import build

    return build


@pytest.fixture
def machine(monkeypatch):
    """Simulate the flags of a CPU, and the compute capability of a GPU or none."""

    def pretend(flags: set[str], capability: tuple[int, int] | None = None) -> None:
        monkeypatch.setattr(create_model, "read_cpu", lambda field: " ".join(flags))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    return pretend


@pytest.mark.parametrize(
    ("flags", "capability", "typed", "saved", "expected"),
    [
        (AMX, None, "", None, "bf16-mixed"),
        (AMX, None, "trainer.accelerator=cpu model.d_model=128", None, "bf16-mixed"),
        (AMX, None, "model.d_model=64", None, "32-true"),
        ({"avx512f"}, None, "", None, "32-true"),
        (set(), (9, 0), "", None, "bf16-mixed"),
        (set(), (7, 5), "trainer.accelerator=gpu", None, "32-true"),
        (set(), (9, 0), "trainer.accelerator=cpu", None, "32-true"),
        (AMX, None, "trainer.accelerator=mps", None, "32-true"),
        (AMX, None, "trainer.precision=32-true", None, "32-true"),
        # of a run that is resumed or continued; float16 needs a GPU
        (AMX, None, "", "32-true", "32-true"),
        (AMX, None, "", "16-mixed", "bf16-mixed"),
        (AMX, (9, 0), "", "16-mixed", "16-mixed"),
    ],
)
def test_precision_follows_device_width_and_checkpoint(machine, build, flags, capability, typed, saved, expected):
    machine(flags, capability)
    config = with_values(composed_once(), "model.d_model=512", *typed.split())
    content = {"hyper_parameters": {"trainer": {"precision": saved}}} if saved else None
    resolved = build.resolve_settings(config, content=content).config
    assert resolved.trainer.precision == expected
    assert resolved.optimizer.fused == (expected != "16-mixed")
    assert config.optimizer.fused == "auto"
    with pytest.raises(ReadonlyConfigError):
        resolved.trainer.precision = "64-true"


def test_fused_is_left_out_for_an_optimizer_that_has_no_such_option(build):
    config = with_values(composed_once(), "optimizer._target_=torch.optim.RMSprop")
    assert "fused" not in build.resolve_settings(config).config.optimizer


def test_the_first_processors_flags_are_read(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx512f amx_bf16\nbugs\t\t: none\n")
    monkeypatch.setattr(this_machine, "Path", lambda _: tmp_path / "cpuinfo")
    assert this_machine.read_cpu("flags") == "fpu avx512f amx_bf16"
    monkeypatch.setattr(this_machine, "Path", lambda _: tmp_path / "none")
    assert this_machine.read_cpu("flags") == ""


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("trainer.precision=16-mixed trainer.accelerator=cpu", "needs a GPU"),
        ("trainer.num_nodes=2 trainer.precision=32-true", r"with torchrun or srun \(docs/scaling\.md\)"),
    ],
)
def test_a_trainer_that_the_machine_does_not_support(build: Any, typed: str, says: str) -> None:
    config = with_values(composed_once("trainer=ddp_cpu"), *typed.split())
    with pytest.raises(ConfigError, match=says):
        check_trainer(config, build.make_trainer(config, names=(), logger=False))


GIB = 2**30
DATA: Any = Mock(DataModule, batch_size=2048, n_windows={"train": 10_000}, n_features=7, n_targets=7)
WIDE = ("seq_len=720", "pred_len=720", "model.d_model=512", "model.d_ff=2048")
NEEDED = 4 * (2048 * 1440 * (6 * 512 + 2048) + 720 * 512) / GIB  # 56 GiB of float32


def wide(*values: str) -> DictConfig:
    return with_values(composed_once("model=informer"), *WIDE, *values)


@pytest.mark.parametrize(
    ("typed", "is_refused"),
    [
        ("trainer.precision=32-true", True),
        ("trainer.precision=bf16-mixed", False),
        ("trainer.precision=32-true trainer.num_nodes=2", False),
    ],
)
def test_a_batch_that_does_not_fit_into_a_machine(typed: str, is_refused: bool, monkeypatch) -> None:
    monkeypatch.setattr(create_model, "available", lambda: int(0.9 * NEEDED * GIB))
    refused = pytest.raises(ConfigError, match=rf"need at least {NEEDED:.1f} GiB")
    with refused if is_refused else nullcontext():
        create_model.check_memory(wide(*typed.split()), DATA)


@pytest.mark.parametrize(("devices", "free", "is_refused"), [(-1, 1.1, False), (32, 1.1, True), (-1, 0.5, True)])
def test_a_batch_that_does_not_fit_into_several_gpus(devices: int, free: float, is_refused: bool, monkeypatch) -> None:
    """64 GPUs hold 32 windows each, which no memory of the machine limits."""
    monkeypatch.setattr(create_model, "available", lambda: 8 * GIB)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 64)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(free * NEEDED / 64 * GIB), 80 * GIB))
    with pytest.raises(ConfigError) if is_refused else nullcontext():
        create_model.check_memory(wide("trainer.precision=32-true", f"trainer.devices={devices}"), DATA)


ROWS = 1500
OPTIONS = {"name": "mine", "seq_len": 24, "pred_len": 6, "split": [0.7, 0.1, 0.2]}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hourly values: of a day's curve with noise, of its hyperbolic sine, and of counts with a level of their own."""
    random, t = np.random.default_rng(0), np.arange(ROWS)
    noise = random.normal(0, 1, (ROWS, 3))
    for i in range(1, ROWS):
        noise[i] += 0.8 * noise[i - 1]
    level = np.sin(2 * np.pi * t / 24)[:, None] + noise
    columns = {
        "even": level[:, 0],
        "heavy": np.sinh(1.6 * level[:, 1]),
        "counts": np.floor(np.exp(1.2 * level[:, 2] + 1)),
    }
    path = tmp_path_factory.mktemp("transforms") / "mine.csv"
    dates = pd.date_range("2024-01-01", periods=ROWS, freq="h", name="date")
    pd.DataFrame(columns, dates).to_csv(path)
    return path


def data(file: Path, **options: object) -> DataModule:
    module = csv_data(path=file, **{**OPTIONS, "transform": "auto", **options})
    module.read()
    return module


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"columns": ["even", "heavy"]}, {"heavy": "asinh"}),
        ({"columns": ["counts"], "lower": 0}, {"counts": "log1p"}),
        # a target is judged alone beside covariates and settings by column
        (
            {
                "features": "MS", "target": "heavy", "columns": ["heavy"], "past_covariates": ["even"],
                "future_covariates": ["counts"], "fill": {"even": "zero"}, "upper": {"heavy": 1e6},
            },
            {"heavy": "asinh"},
        ),
    ],
)  # fmt: skip
def test_the_transform_of_a_column(build: Any, file: Path, options: dict[str, Any], expected: dict[str, str]) -> None:
    chosen = build.choose_transforms(data(file, **options), "mae")
    assert {name: kind for name, (kind, _) in chosen.items()} == expected
    assert all(relative < 0.97 for _, relative in chosen.values())


def test_later_rows_choose_nothing(build: Any, file: Path, tmp_path: Path) -> None:
    table, other = pd.read_csv(file), tmp_path / "mine.csv"
    table.loc[int(0.8 * ROWS) :, ["even", "heavy"]] = 1e6
    table.to_csv(other, index=False)
    before, after = (build.choose_transforms(data(path, columns=["even", "heavy"]), "mse") for path in (file, other))
    assert before == after


@pytest.mark.parametrize("saved", [None, {"even": "asinh"}])
def test_the_choice_replaces_the_setting_unless_resumed(build: Any, file: Path, saved: dict[str, str] | None) -> None:
    settings = {"loss": "mae", "data": {"transform": "auto"}, "trainer": {"precision": "32-true"}, "optimizer": {}}
    config, module = OmegaConf.create(settings), data(file, columns=["even", "heavy"])
    content = {"hyper_parameters": {"data": {"transform": saved}}} if saved else None
    resolved, lines = build.resolve_settings(config, module, content)
    expected = saved or {"heavy": "asinh"}
    assert (resolved.data.transform, config.data.transform) == (expected, "auto")
    assert [line.startswith("transform  heavy asinh (-") for line in lines] == [True] * (saved is None)
    module = module.with_transform(resolved.data.transform)
    assert module.target_scaler.domain.transforms == tuple(expected.get(name, "none") for name in ("even", "heavy"))


def test_the_whole_model_is_loaded_without_fitting_the_linear_model_again(build: Any, monkeypatch) -> None:
    from forecast.training.module import load_whole

    dates = pd.date_range("2024-01-01", periods=160, name="date")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(160, 3)), dates, ["load", "wind", "price"])
    frame["load"] += frame["price"]  # so that the linear model reads covariates
    sizes = {"name": "frame", "seq_len": 8, "pred_len": 2, "split": [0.6, 0.2, 0.2], "season": 7}
    data = set_up(frame_data(frame, past_covariates=["wind"], future_covariates=["price"], **sizes))
    config = with_values(
        composed_once(), "seq_len=8", "pred_len=2", "label_len=2", "model.patch_len=2", "model.d_model=8",
        "model.n_heads=2", "model.d_ff=8", "loss=quantile",
    )  # fmt: skip
    trained = build.make_forecaster(config, data, FittedBaselines.fit(data)).eval()
    assert trained.model.state_dict()["linear.covariates"] is not None
    monkeypatch.setattr(FittedBaselines, "fit_linear", None)
    whole = load_whole(build.make_model(config, data), {"state_dict": trained.state_dict()}).eval()
    batch = data.windows["test"].gather(torch.arange(5))
    inputs = batch.past, batch.past_time, batch.future_time
    assert torch.equal(whole(*inputs), trained.model(*inputs))


QUANTILES = (0.1, 0.5, 0.9)


def batch_of(future: torch.Tensor) -> Batch:
    empty = torch.zeros(len(future), 0, 0)
    index = torch.arange(len(future))
    return Batch(empty, empty, future, empty, index, torch.zeros_like(index))


@pytest.mark.parametrize("quantiles", [None, QUANTILES])
def test_the_loss_of_a_window_is_the_mean_over_its_values(quantiles: tuple[float, ...] | None) -> None:
    from forecast.training.module import window_losses

    generator = torch.Generator().manual_seed(0)
    future = torch.randn(5, 4, 2, generator=generator)
    future[1, 2, 0] = future[3] = torch.nan
    shape = future.shape if quantiles is None else (*future.shape, len(quantiles))
    forecast = torch.randn(shape, generator=generator)
    found = window_losses(forecast, batch_of(future), Scaler(torch.zeros(1, 2), torch.ones(1, 2)), quantiles).numpy()
    if quantiles is None:
        losses = np.square(future.numpy() - forecast.numpy())
    else:
        over, p = future[..., None].numpy() - forecast.numpy(), np.array(quantiles)
        losses = np.maximum(p * over, (p - 1) * over).mean(-1)
        np.testing.assert_allclose(found[:, 0], np.nansum(np.abs(over[..., 1]), (1, 2)) / 8, rtol=1e-5)
    np.testing.assert_allclose(found[:, -1], np.nansum(losses, (1, 2)) / 8, rtol=1e-5)


@pytest.mark.parametrize(("scores", "best"), [((math.nan, 0.5, 0.7), 1), ((0.5, math.nan, 0.4), 2)])
def test_an_epoch_without_a_finite_score_is_not_the_best(scores: tuple[float, ...], best: int, tmp_path: Path) -> None:
    """float16 can overflow in validation."""
    import lightning as L
    from lightning.pytorch.trainer.states import TrainerFn

    from forecast.training.checkpointing import Checkpointing

    class Module(L.LightningModule):
        validation_metric = "val/mse"
        data = None

    checkpointing, module = Checkpointing(str(tmp_path)), Module()
    trainer = L.Trainer(logger=False, enable_checkpointing=False)
    trainer.state.fn = TrainerFn.FITTING
    chosen = -1
    for epoch, score in enumerate(scores):
        trainer.callback_metrics[module.validation_metric] = torch.tensor(score)
        checkpointing.on_validation_end(trainer, module)
        if checkpointing._is_best:
            chosen = epoch
            (tmp_path / "best.ckpt").touch()
    assert chosen == best
