"""Settings to begin with, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from forecast.baselines import seasonal_naive_mae
from forecast.data.calendar import season_length
from forecast.data.module import AUTO, MODES, windows_an_epoch
from forecast.diagnosis.columns import Column
from forecast.diagnosis.seasons import Season
from forecast.diagnosis.windows import Part
from forecast.errors import ConfigError

LONGEST_PAST, LONGEST_HORIZON = 720, 96  # that are suggested unasked
PATCH, PAST = 24, 336  # steps a token, steps read, of model=residual_informer
ENOUGH = 16  # windows end to end in the training part, for a longer past than one season
FULL, NYSTROM = 512 * PATCH, 4_096 * PATCH  # longest windows for which these attention kinds are suggested
LISTED = 20  # columns in a suggested command
# of training, at least: the epochs that the trainer takes, and the steps that these are with windows in plenty
EPOCHS, STEPS = 5, 640
LESS_ERROR = 0.95  # of the season that follows the step, before another is suggested


@dataclass(frozen=True)
class Setting:
    key: str
    value: Any
    why: str


@dataclass(frozen=True)
class Asked:
    """What the user chose; None: not."""

    seq_len: int | None
    label_len: int | None
    pred_len: int | None
    features: str | None
    target: str | None
    target_typed: bool  # a ready set has a target of its own
    season: int | None
    batch_size: int | None
    fill: str | None
    columns: bool


def suggest_lengths(
    parts: Sequence[Part], seasons: Sequence[Season], freq: str, asked: Asked
) -> list[Setting]:
    """seq_len, label_len and pred_len that leave windows in every part. Empty where no lengths do."""
    train, val, test = parts
    room = min(len(val.rows), len(test.rows), len(train.rows) - 1)
    if room < 1:
        return []
    usual = season_length(freq)
    strongest = max(seasons, key=lambda season: season.strength, default=None)
    if asked.pred_len is not None:
        horizon, why = asked.pred_len, "as asked"
    elif 4 <= usual <= LONGEST_HORIZON:
        horizon, why = usual, f"the season of {freq} data"
    elif strongest and 4 <= strongest.rows <= LONGEST_HORIZON:
        horizon, why = strongest.rows, f"the strongest season, {_named(strongest)}"
    else:
        horizon, why = 24, "where no season says another"
    shortest = min((val, test), key=lambda part: len(part.rows))
    most = room if asked.pred_len is not None else max(1, room // 2)
    if horizon > most:
        split = "; data.split=[0.6,0.2,0.2] has more" if shortest.name == "val" else ""
        short = f"the {shortest.name} part has {len(shortest.rows)} rows{split}"
        horizon, why = most, f"not {horizon} ({why}): {short}"
    pred_len = Setting("pred_len", horizon, why)

    if asked.seq_len is not None:
        past, why = asked.seq_len, "as asked"
    else:
        few = [season for season in seasons if season.rows <= len(train.rows) / 8]
        past, why = _past(few, strongest, horizon, len(train.rows))
    room = len(train.rows) - horizon
    most = room if asked.seq_len is not None else max(1, room // 2)
    if past > most:
        why = f"not {past} ({why}): the training part has {len(train.rows):,} rows"
        past = most - most % strongest.rows if strongest and strongest.rows <= most else most
    label = min(past // 2, 2 * horizon) if asked.label_len is None else min(asked.label_len, past)
    label_why = (
        "as asked" if label == asked.label_len else "the last steps again for the decoder, at most half"
    )
    return [Setting("seq_len", past, why), Setting("label_len", label, label_why), pred_len]


def _past(seasons: Sequence[Season], strongest: Season | None, horizon: int, rows: int) -> tuple[int, str]:
    choices = (
        [(4 * horizon, "four horizons")] if 4 * horizon <= LONGEST_PAST else [(LONGEST_PAST, "long enough")]
    )
    if strongest and 2 * strongest.rows <= LONGEST_PAST:
        choices.append((2 * strongest.rows, f"two of the strongest season, {_named(strongest)}"))
    if rows >= ENOUGH * PAST:
        choices.append((PAST, "what model=residual_informer reads unasked"))
    for season in seasons:
        if season.rows <= LONGEST_PAST:
            three = 3 * season.rows <= min(LONGEST_PAST, rows / ENOUGH)
            times, said = (3, "three of the longest season") if three else (1, "the longest season")
            choices.append((times * season.rows, f"{said}, {_named(season)}"))
    return max(choices, key=lambda choice: choice[0])


def _named(season: Season) -> str:
    return season.name or f"{season.rows} rows"


def suggest_season(
    train: Float64[np.ndarray, "train columns"], seasons: Sequence[Season], freq: str, asked: Asked
) -> list[Setting]:
    """data.season, where another than the step's own makes a better seasonal-naive rule on the training rows."""
    if asked.season is not None and asked.season < len(train):
        return []
    deviation = train.std(0)
    rows, usual = torch.from_numpy(train / np.where(deviation > 0, deviation, 1)), season_length(freq)
    errors = {
        period: seasonal_naive_mae(rows, period).mean().item()
        for period in {1, usual, *(season.rows for season in seasons)}
        if period < len(rows)
    }
    best = min(errors, key=lambda period: errors[period])
    if usual >= len(rows):
        why = f"the training part is shorter than the season of {freq} data, {usual} rows"
        return [Setting("data.season", best, why)]
    if best == 1 or errors[best] >= LESS_ERROR * errors[usual]:
        return []  # 1 is the naive rule, which is beside it anyway
    why = f"repeating it errs {1 - errors[best] / errors[usual]:.0%} less in training than repeating {usual}"
    return [Setting("data.season", best, why)]


def suggest_training(n_windows: int, lengths: Sequence[Setting], asked: Asked) -> list[Setting]:
    """The attention kind by length, the batch by windows, the epochs by steps."""
    longest = max(setting.value for setting in lengths)
    kind, why = "linear", "its cost grows with the length, not with its square"
    if longest <= FULL:
        kind, why = "full", f"exact, and cheap up to some {FULL:,} steps"
    elif longest <= NYSTROM:
        kind, why = "nystrom", f"close to softmax, and cheaper beyond {FULL:,} steps"
    batch = asked.batch_size or (16 if n_windows < 1_000 else 32)
    steps = -(-windows_an_epoch(AUTO, n_windows) // batch)
    epochs = min(50, max(EPOCHS, -(-STEPS // steps)))
    settings = [Setting("attention", kind, why)]
    if asked.batch_size is None:
        settings.append(Setting("data.batch_size", batch, f"{n_windows:,} training windows"))
    return [
        *settings,
        Setting("trainer.max_epochs", epochs, f"at most, {steps:,} steps each; it stops early"),
    ]


def suggest_features(columns: Sequence[str], asked: Asked) -> Setting:
    """Raises ConfigError for a target that is not there, or missing where it is needed."""
    listed = ", ".join(columns[:20]) + (", ..." if len(columns) > 20 else "")
    if asked.target is not None and asked.target not in columns:
        raise ConfigError(f"data.target={asked.target} is not a column: there are {listed}")
    if asked.features is not None:
        if asked.features not in MODES:
            raise ConfigError(f"features={asked.features} is not one of {', '.join(MODES)}")
        if asked.features != "M" and asked.target is None and len(columns) > 1:
            raise ConfigError(f"features={asked.features} needs data.target, one of: {listed}")
        return Setting("features", asked.features, "as asked")
    if len(columns) == 1:
        return Setting("features", "M", "the one column from itself")
    if asked.target_typed:
        return Setting("features", "MS", f"{asked.target} from all columns")
    return Setting("features", "M", "all columns from all; for one of them features=MS data.target=NAME")


def suggest_columns(columns: Sequence[Column], asked: Asked) -> list[Setting]:
    """data.columns without those that teach nothing or cannot be filled, where a command can list the rest."""
    left_out = {
        column.name: reason
        for column in columns
        if column.name != asked.target and (reason := _reason_to_leave_out(column, asked))
    }
    rest = [column.name for column in columns if column.name not in left_out]
    if asked.columns or not left_out or not 0 < len(rest) <= LISTED:
        return []
    named = [f"{name} ({reason})" for name, reason in left_out.items()]
    return [
        Setting("data.columns", rest, f"without {', '.join(named[:3])}{', ...' if len(named) > 3 else ''}")
    ]


def _reason_to_leave_out(column: Column, asked: Asked) -> str:
    if np.isnan(column.mean):
        return "empty"
    if column.constant:
        return "constant"
    if column.leading_missing and asked.fill != "zero":
        return f"no number in its first {column.leading_missing:,} rows: cut them to keep it"
    return ""


def suggest_fill(fill: str | None, asked: Asked) -> list[Setting]:
    """`fill` is what works; None: nothing is to be filled. Zeros are never advised: few columns begin with them."""
    if fill != "previous" or fill == asked.fill:
        return []
    return [Setting("data.fill", fill, "each gap repeats the last value before it")]


def without_beginning(columns: Sequence[Column], asked: Asked) -> list[Column]:
    """Those that begin with missing numbers, which nothing before them can fill."""
    return [column for column in columns if column.leading_missing and asked.fill != "zero"]
