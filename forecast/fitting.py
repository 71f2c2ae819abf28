"""Train from Python: `forecast.fit(frame, target="load", attention="linear")`, as the command does."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from forecast import secret, trust
from forecast.configuration import composed, keep
from forecast.data.frame import FrameData
from forecast.errors import ConfigError
from forecast.overrides import check, quote
from forecast.train import train
from forecast.trained import FRAME, OF_A_FRAME, TrainedModel, load


def fit(
    frame: pd.DataFrame | pd.Series,
    *,
    target: str | None = None,
    attention: str = "probsparse",
    overrides: Sequence[str] = (),
    **settings: Any,
) -> TrainedModel:
    """Train on a DataFrame with a DatetimeIndex, test, save a run folder below `runs`, and give the model back.

    `settings` are the keys of the command's top level (`pred_len=48, features="MS", refit="full"`), `overrides` any of
    its others as they are typed (`["trainer.max_epochs=3", "data.split=[0.8,0.1,0.1]", "logger=[]"]`).
    Raises ConfigError and DataError (both ValueError) as the command would print them.
    """
    typed = [
        f"attention={attention}",
        *(f"{key}={plain(value)}" for key, value in settings.items()),
        *overrides,
    ]
    given = [quote(text, sweep=False) for text in typed]
    if target is not None:
        given.append(quote(f"data.target={target}", sweep=False))
    check("train", ["data=csv", *given])
    for text in given:
        key = text.split("=")[0]
        if key == "data" or (
            key.startswith("data.") and key.removeprefix("data.") not in (*OF_A_FRAME, "freq")
        ):
            raise ConfigError(
                f"{text}: the data are the DataFrame; choose its columns, read its dates and fill its gaps there"
            )
    config = composed("data=csv", f"data.name={FRAME}", "run_name=''", *given)
    name = f"{config.model.attention.name}-{FRAME}-{config.pred_len}-s{config.seed}"
    config.run_name = name
    folder = Path(config.output_root) / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{name}_{token_hex(3)}"
    config.output_dir = str(folder)
    OmegaConf.resolve(config)
    trust.check_targets(config, trust.named())
    secret.check(config)
    options = {key: config.data[key] for key in OF_A_FRAME}
    if not isinstance(config.data.split, str):
        options["split"] = list(config.data.split)
    data = FrameData(frame, freq=config.data.freq, name=FRAME, **options)
    data.setup()
    keep(folder, config, given)
    train(config, data)
    return load(folder)


def plain(value: Any) -> str:
    """A Python value as it is typed on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"[{','.join(map(plain, value))}]" if isinstance(value, list | tuple) else str(value)
