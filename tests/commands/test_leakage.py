"""Rows at and after a forecast's origin change by no bit the forecast, or anything that it is made with.

`PLANTED` holds leaks that these tests must find.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

from forecast import load
from forecast.attention import FullAttention
from forecast.checkpoints.file import safe_load
from forecast.cli.compose import compose_config
from forecast.data import DataModule, Windows, module, scaled_panel
from forecast.data.scaler import Scaler, fit_scaler
from forecast.data.source import FILLS
from forecast.data.split import find_window_starts
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.conformal import calibrate
from forecast.models.layers import TOKENS
from forecast.training.build import make_forecaster
from forecast.training.module import predict
from forecast.training.preparation import read_data
from tests.support.commands import TINY, only, run_training, workplace
from tests.support.long_variants import every_nth
from tests.support.models import ATTENTION_TYPES
from tests.support.run_differences import unequal
from tests.support.windows import set_up

ROWS, COLUMNS = 240, ["load", "temperature", "price"]
DATES = pd.date_range("2023-01-01", periods=ROWS, freq="D")
SEQ, PRED, SEASON = 12, 5, 7
SPLITS: dict[str, Any] = {"ratios": [0.7, 0.1, 0.2], "months": [4, 2, 2], "dates": [str(DATES[160]), str(DATES[190])]}
PARTS = {"ratios": (168, 192), "months": (120, 180), "dates": (160, 190)}  # first rows of validation and test
MODES, SCALERS = ("M", "S", "MS"), ("standard", "minmax", "robust", "none")


@dataclass(frozen=True)
class Example:
    """A table, its reading options, and a change of its rows from `origin` on."""

    kind: str = "full"
    mode: str = "M"
    split: str = "ratios"
    fill: str | None = None  # None: no value is missing
    scaler: str = "standard"
    transform: str | None = None
    origin: int = 200
    change: float = 1e3
    lost: tuple[int, ...] = ()  # cells after the origin that are emptied, where there is a fill
    missing: tuple[int, ...] = ()  # rows after the origin that are taken out, where there is a fill
    seed: int = 0
    model: str = "informer"
    tokens: str = "mixed"

    def before(self) -> pd.DataFrame:
        t = np.arange(ROWS)[:, None]
        noise = np.random.default_rng(self.seed).normal(size=(ROWS, len(COLUMNS)))
        frame = pd.DataFrame(10 + 3 * np.sin(2 * np.pi * t / SEASON) + noise, DATES, COLUMNS)
        if self.fill:
            frame.iloc[[50, self.origin - 2, self.origin - 1], 0] = np.nan  # completed, up to the origin
        return frame

    def after(self) -> pd.DataFrame:
        frame = self.before()
        frame.iloc[self.origin :] = frame.iloc[self.origin :] + self.change
        if self.fill:
            rows = [row for row in self.lost if row > self.origin]
            frame.iloc[rows, 0] = np.nan
            kept = [row for row in range(ROWS) if row not in self.missing or row <= self.origin]
            frame = frame.iloc[kept]
        return frame


@st.composite
def examples(draw: st.DrawFn, kind: str, mode: str) -> Example:
    split, fill = draw(st.sampled_from(list(SPLITS))), draw(st.sampled_from([None, *FILLS]))
    model = draw(st.sampled_from(["informer", "residual_informer"]))
    # the linear model that reads other columns, and the one of the residual Informer, as best epochs are
    chosen_on_validation = model == "residual_informer" or mode == "MS"
    return Example(
        kind, mode, split, fill,
        model=model,
        tokens=draw(st.sampled_from(TOKENS)),
        scaler=draw(st.sampled_from(SCALERS)),
        transform=draw(st.sampled_from([None, "asinh"])),
        origin=draw(st.integers(PARTS[split][chosen_on_validation] + 2, ROWS - PRED - 2)),
        change=draw(st.sampled_from([-1e6, -3.0, 0.5, 50.0, 1e4])),
        lost=tuple(draw(st.lists(st.integers(0, ROWS - 1), max_size=5))),
        missing=tuple(draw(st.lists(st.integers(0, ROWS - 2), max_size=5))),
        seed=draw(st.integers(0, 99)),
    )  # fmt: skip


@cache
def configuration(kind: str, mode: str, model: str, tokens: str) -> DictConfig:
    typed = [text for text in TINY if not text.startswith(("seq_len", "pred_len"))]
    return compose_config(
        "data=csv", f"attention={kind}", f"features={mode}", f"seq_len={SEQ}", f"pred_len={PRED}", *typed,
        "data.target=load", "factor=1", "num_landmarks=4", f"data.season={SEASON}", f"model={model}",
        *(["model.patch_len=3", f"model.tokens={tokens}"] if model == "residual_informer" else []),
    )  # fmt: skip


def answers(frame: pd.DataFrame, example: Example, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is fitted once for a table, and what belongs to each window of validation and test."""
    path = folder / "table.csv"
    frame.to_csv(path, index_label="date")
    config = OmegaConf.merge(
        configuration(example.kind, example.mode, example.model, example.tokens),
        {
            "data": {
                "path": str(path), "split": SPLITS[example.split], "fill": example.fill or FILLS[0],
                "scaler": example.scaler, "transform": example.transform,
            }
        },
    )  # fmt: skip
    assert isinstance(config, DictConfig)
    _, once, each = measure(config)
    return once, each


def measure(config: DictConfig) -> tuple[DataModule, dict[str, Any], dict[str, Any]]:
    """The data of a configuration, what is fitted once, and the origins and values of what belongs to each window."""
    data = set_up(read_data(config))
    fitted = FittedBaselines.fit(data)
    torch.manual_seed(0)
    forecaster = make_forecaster(config, data, fitted)
    calibration = calibrate(partial(predict, forecaster), data.windows["val"], data.target_scaler, 64, [80])
    once = {
        "scaler": data.scaler.tensors,
        **fitted.linear.tensors(),
        "naive_mae": fitted.naive_mae,
        "offsets": calibration.offsets,
    }
    each: dict[str, Any] = {}
    for split in ("val", "test"):
        windows = data.windows[split]
        batch = windows.gather(torch.arange(len(windows)))  # all at once: each beside those that see the change
        point = predict(forecaster, batch)
        parts = {
            "past": batch.past, "past_time": batch.past_time, "future_time": batch.future_time, "model": point,
            "units": data.target_scaler.inverse(point, batch.series), "truth": batch.future,
            **{name: rule(windows, batch) for name, rule in fitted.baselines().items()},
        }  # fmt: skip
        each |= {f"{split} {name}": (windows.origins(batch.index), part) for name, part in parts.items()}
    return data, once, each


def check(example: Example, folder: Path) -> None:
    once, each = answers(example.before(), example, folder)
    once_after, each_after = answers(example.after(), example, folder)
    _, test = PARTS[example.split]
    for name, value in once.items():
        if name == "offsets" and example.origin < test + PRED - 1:
            continue  # the change lies within the last validation windows, or in none of them
        pairs = zip(value, once_after[name], strict=True)
        assert all(torch.equal(a, b) for a, b in pairs), name
    reached = False
    for name, (origins, value) in each.items():
        unknowing = origins <= example.origin
        other = each_after[name][1]
        if name.endswith("truth"):
            reached |= not torch.equal(value, other)
            continue
        assert torch.equal(value[unknowing], other[unknowing]), name
    assert reached, "the change changed nothing"


def quietly(check: Callable[[], None]) -> None:
    with warnings.catch_warnings(action="ignore"):
        check()


@pytest.mark.parametrize("mode", every_nth(MODES, 3))
@pytest.mark.parametrize("kind", ATTENTION_TYPES)
@pytest.mark.parametrize("number", [pytest.param(3, id="few"), pytest.param(60, id="many", marks=pytest.mark.long)])
def test_no_forecast_reads_later_rows(tmp_path_factory, kind: str, mode: str, number: int) -> None:
    @settings(
        max_examples=number, deadline=None, database=None, derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    @given(examples(kind, mode))
    def holds(example: Example) -> None:
        quietly(lambda: check(example, tmp_path_factory.mktemp("table")))

    holds()


# ---- leaks that must be found

gather = Windows.gather


def scaled_by_all_rows(values: Any, columns: Any, first: Any, last: Any, **options: Any) -> Scaler:
    return fit_scaler(values, columns, first, np.full_like(last, len(values)), **options)


def longer(split: str, rows: int) -> Callable[..., dict[str, list[range]]]:
    def too_long(*given: Any, **named: Any) -> dict[str, list[range]]:
        found = find_window_starts(*given, **named)
        return found | {split: [range(part.start, part.stop + rows) for part in found[split]]}

    return too_long


def one_row_late(windows: Windows, index: torch.Tensor) -> Any:
    later = (index + 1).clamp(max=len(windows) - 1)
    return gather(windows, index)._replace(past=gather(windows, later).past)


def with_neighbours(self: FullAttention, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v) + v.mean(0, keepdim=True).mean(2, keepdim=True)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a scaler of all rows": lambda patch: patch.setattr(scaled_panel, "fit_scaler", scaled_by_all_rows),
    "a history one row too long": lambda patch: patch.setattr(Windows, "gather", one_row_late),
    "windows of a batch that see each other": lambda patch: patch.setattr(FullAttention, "mix", with_neighbours),
    "a linear model fitted to all rows": lambda patch: patch.setattr(module, "find_window_starts", longer("train", 60)),
    "intervals from test windows": lambda patch: patch.setattr(module, "find_window_starts", longer("val", 40)),
}


@pytest.mark.parametrize("leak", PLANTED)
def test_a_planted_leak_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leak: str) -> None:
    example = Example(fill="linear", origin=205)
    quietly(lambda: check(example, tmp_path))
    PLANTED[leak](monkeypatch)
    with pytest.raises(AssertionError):
        quietly(lambda: check(example, tmp_path))


@pytest.fixture(params=["run", "quantile_run"])
def model_and_frame(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, pd.DataFrame]:
    folder = request.getfixturevalue(request.param)
    monkeypatch.chdir(folder.parent.parent)  # bounds beyond pred_len are calibrated on the data trained on
    frame = pd.read_csv(folder.parent.parent / "load.csv", index_col="date", parse_dates=True)
    return load(folder), frame


@pytest.mark.parametrize("horizon", [5, 12])
def test_a_forecast_is_the_same_whatever_came_true(model_and_frame: Any, horizon: int) -> None:
    """From a date on in a longer table, in one that went on otherwise, and in one that ends there."""
    model, frame = model_and_frame
    origin = 270
    start = frame.index[origin]
    otherwise = frame.copy()
    otherwise.iloc[origin:] = -1e5
    asked: dict[str, Any] = {"horizon": horizon, "levels": [80]}
    found = [model.predict(table, start=start, **asked) for table in (frame, otherwise)]
    found.append(model.predict(frame.iloc[:origin], **asked))
    columns = [name for name in found[0].columns if not name.endswith(("-true", "-error"))]
    for other in found[1:]:
        pd.testing.assert_frame_equal(found[0][columns], other[columns], check_exact=True, check_freq=False)
    assert "load-lo-80" in columns


def train_on(folder: Path, changed_from: int) -> dict[str, Any]:
    """The checkpoint of an epoch on a table whose rows from `changed_from` on are others, in a new folder."""
    folder.mkdir()
    workplace(folder)
    frame = pd.read_csv(folder / "load.csv")
    frame.iloc[changed_from:, 1:] = frame.iloc[changed_from:, 1:] * 3 - 50
    frame.to_csv(folder / "load.csv", index=False)
    assert run_training(folder, "trainer.max_epochs=1", "logger=[]") == 0
    return safe_load(only(folder, "runs/*") / "checkpoints" / "best.ckpt")


def test_training_knows_nothing_of_later_splits(tmp_path: Path) -> None:
    """300 rows: training to 210, validation to 240, then the test."""
    before, test, val = (train_on(tmp_path / name, row) for name, row in (("before", 300), ("test", 240), ("val", 210)))
    learnt = ("state_dict", "optimizer_states", "lr_schedulers", "LightningData", "baselines")
    for name in (*learnt, "calibration"):
        assert unequal(before[name], test[name]) == [], name
    before["baselines"]["season"] = val["baselines"]["season"]  # chosen on validation windows
    for name in learnt:
        assert unequal(before[name], val[name]) == [], name
    assert unequal(before["calibration"], val["calibration"])


# ---- many series

DAYS = pd.date_range("2023-01-01", periods=120, freq="D")
CHANGED = 108
"""The number of the day from which on all series are others. The test begins at 96."""


def series(changed: int) -> pd.DataFrame:
    """Three series of one span, whose target and past covariate change; the known one only beyond the horizon."""
    generator, parts = np.random.default_rng(0), []
    for number, name in enumerate(("a", "b", "c")):
        y = 10 * (number + 1) + np.sin(np.arange(len(DAYS))) + generator.normal(size=len(DAYS))
        visits, price = generator.normal(size=(2, len(DAYS)))
        y[changed:], visits[changed:] = 500 - 3 * y[changed:], visits[changed:] + 90
        price[changed + PRED :] += 7
        columns = {"unique_id": name, "ds": DAYS, "y": y, "visits": visits, "price": price, "size": number}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts)


@pytest.mark.parametrize(
    ("given", "leaks"),
    [
        (("features=S", "attention=full"), ""),
        (("data.past_covariates=[visits]", "data.future_covariates=[price]", "attention=probsparse"), ""),
        (("data.future_covariates=[visits,price]", "attention=full"), "future_time"),  # it changes too early
    ],
    ids=["no covariates", "covariates", "a covariate that is declared to be known"],
)
def test_no_forecast_of_a_series_reads_later_rows(tmp_path: Path, given: tuple[str, ...], leaks: str) -> None:
    found = []
    for changed in (len(DAYS), CHANGED):
        series(changed).to_csv(tmp_path / "long.csv", index=False)
        path = f"data.path='{tmp_path / 'long.csv'}'"
        more = ("data.static_covariates=[size]", *(["features=MS"] if "features=S" not in given else []))
        found.append(measure(compose_config("data=long", path, *TINY, *more, *given)))
    (data, once, each), (_, once_after, each_after) = found
    for name, value in once.items():
        pairs = zip(value, once_after[name], strict=True)
        assert all(torch.equal(a, b) for a, b in pairs), name
    assert not torch.equal(each.pop("test truth")[1], each_after["test truth"][1])
    differ = set()
    for name, (origins, value) in each.items():
        unknowing = data.panel.dates(origins.numpy()) <= DAYS[CHANGED]
        assert unknowing.all() if name.startswith("val") else 0 < unknowing.sum() < len(unknowing)
        if not torch.equal(value[unknowing], each_after[name][1][unknowing]):
            differ.add(name)
    assert {f"test {leaks}"} <= differ if leaks else not differ
