"""The Python interface: `fit` a model to a DataFrame or `load` one, then `predict` and `evaluate`."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import pandas as pd
from omegaconf import DictConfig, OmegaConf

from forecast.cli import allowed_targets, secrets_check
from forecast.cli.compose import compose_command, composed
from forecast.cli.quoting import quote
from forecast.commands.train import train
from forecast.data import DataModule, frame_data
from forecast.evaluation.quantiles import Level
from forecast.inference.data_config import FRAME, OF_A_FRAME
from forecast.inference.evaluate import evaluate as evaluate_model
from forecast.inference.model import TrainedModel, read_checkpoint
from forecast.inference.predict import predict as predict_panel
from forecast.runs.folder import write_config
from forecast.system.errors import CheckpointError, ConfigError
from forecast.system.targets import known_targets
from forecast.training import lightning_warnings


class Model(TrainedModel):
    """A trained model that forecasts DataFrames."""

    def predict(
        self,
        frame: pd.DataFrame | pd.Series | None = None,
        *,
        horizon: int | None = None,
        start: str | pd.Timestamp | None = None,
        levels: Sequence[Level] = (),
        intervals: str = "auto",
    ) -> pd.DataFrame:
        """Forecast the steps after the end of `frame` (default: of the training data), or from `start`, in its units.

        Args:
            frame: has a DatetimeIndex and at least `feature_columns`; for a model of many series, one row for each
                series and date.
            horizon: steps; beyond `pred_len` the model reads its own forecasts.
            start: date of the first step.
            levels: intervals, in percent.
            intervals: auto, conformal or quantile.

        Returns:
            One row for each date (and series). Each target has a column of its forecast, `-lo-80` and `-hi-80` for
            each level, and with `start`, `-true` and `-error`.

        Raises:
            ConfigError, DataError: what cannot be forecast (both are ValueError).
        """
        panel = self.read_panel() if frame is None else self.panel_of(frame)
        found = predict_panel(self, panel, horizon=horizon, start=start, levels=levels, method=intervals)
        return found.frame()

    def evaluate(self, frame: pd.DataFrame | pd.Series | None = None, split: str = "test") -> dict[str, Any]:
        """Score every window of `frame`, or of a split of the training data; laid out as metrics.json.

        Raises:
            CheckpointError: the model was refitted on all rows, so that none are left to score it on.
        """
        if self.refitted is not None:
            raise CheckpointError(
                f"{self.path}: refitted on all rows, so none are left to score it on: load checkpoints/best.ckpt of "
                "the run"
            )
        lightning_warnings.filter_messages()
        data = self.data() if frame is None else self.data_of_frame(frame)
        content, _ = evaluate_model(self, data, split, progress=False)
        return content


def load(path: str | Path) -> Model:
    """The model of a run folder or checkpoint file; of a folder, the one refitted on all rows if there is one.

    Raises:
        CheckpointError: there is none, or it is damaged, not ours, or names what it may not.
    """
    return Model(*read_checkpoint(path))


def fit(
    frame: pd.DataFrame | pd.Series,
    *,
    target: str | None = None,
    attention: str = "probsparse",
    overrides: Sequence[str] = (),
    **settings: Any,
) -> Model:
    """Train on a DataFrame with a DatetimeIndex, test, save a run folder below `runs`, and give the model back.

    Args:
        frame: columns of numbers with a DatetimeIndex.
        target: name of the target column, for features="S" or "MS".
        attention: attention type, a file of conf/attention.
        overrides: any other settings as on the command line, such as `["trainer.max_epochs=3", "logger=[]"]`.
        settings: keys of the command's top level, such as `pred_len=48, features="MS", refit="full"`.

    Returns:
        The trained model, as `forecast.load` reads it from the run folder.

    Raises:
        ConfigError: a wrong setting; like DataError, it is a ValueError with the message of the command.
        DataError: a DataFrame that cannot be used.
    """
    arguments = [f"attention={attention}", *(f"{key}={plain(value)}" for key, value in settings.items())]
    given = [quote(text, sweep=False) for text in (*arguments, *overrides)]
    if target is not None:
        given.append(quote(f"data.target={target}", sweep=False))
    compose_command("train", ["data=csv", *given])
    check_data_overrides(given)
    config = compose_run(given)
    data = make_frame_data(frame, config)
    folder = Path(config.output_dir)
    write_config(folder, config, given)
    train(config, data)
    return load(folder)


def check_data_overrides(given: Sequence[str]) -> None:
    """Raise ConfigError for settings of data files, which a DataFrame does not have."""
    allowed = (*OF_A_FRAME, "freq")
    for text in given:
        group, _, key = text.split("=")[0].partition(".")
        if group == "data" and key not in allowed:
            raise ConfigError(
                f"{text}: the data are the DataFrame; choose its columns, parse its dates and fill its gaps there"
            )


def compose_run(given: Sequence[str]) -> DictConfig:
    """Compose and check the configuration of a run on a DataFrame, with a new run folder."""
    config = composed("data=csv", f"data.name={FRAME}", "run_name=''", *given)
    config.run_name = f"{config.model.attention.name}-{FRAME}-{config.pred_len}-s{config.seed}"
    folder = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{config.run_name}_{token_hex(3)}"
    config.output_dir = str(Path(config.output_root) / folder)
    OmegaConf.resolve(config)
    allowed_targets.check_targets(config, known_targets())
    secrets_check.check(config)
    return config


def make_frame_data(frame: pd.DataFrame | pd.Series, config: DictConfig) -> DataModule:
    """Create the data module of a DataFrame and set it up."""
    options = {key: config.data[key] for key in OF_A_FRAME}
    if not isinstance(config.data.split, str):
        options["split"] = list(config.data.split)
    data = frame_data(frame, freq=config.data.freq, name=FRAME, **options)
    data.setup()
    return data


def plain(value: Any) -> str:
    """Write a Python value as on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"[{','.join(map(plain, value))}]" if isinstance(value, list | tuple) else str(value)
