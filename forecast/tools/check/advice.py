"""Suggested settings, with a reason for each."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from forecast.data import Panel
from forecast.data.covariates import MAX_INDICATORS
from forecast.data.source import AUTO, FEATURES, choose_batch_size, count_windows_per_epoch
from forecast.data.time_features import rows_in
from forecast.system.errors import ConfigError, check_choice
from forecast.system.formatting import plural, shorten
from forecast.tools.check.columns import Column
from forecast.tools.check.lengths import PATCH
from forecast.tools.check.relations import CategoryColumn, Copy
from forecast.tools.check.seasons import Season
from forecast.tools.check.settings import Choices, Setting

FULL, NYSTROM = 512 * PATCH, 4_096 * PATCH
"""Longest windows for which attention=full and attention=nystrom are suggested."""
MIN_TOKENS, DIFFERENT = 4, 50
"""Fewest tokens of a window that are suggested, and fewest on which attention types differ."""
MAX_LISTED = 20
"""Largest number of columns that a suggested command lists."""
MOSTLY_DIFFERENT = 0.5
"""A column of text with more different texts per filled cell is no category."""
EPOCHS, STEPS = 5, 640
"""Default epochs of the trainer, and the fewest training steps that are suggested."""
MAX_ERROR_RATIO = 0.9
"""Another season is suggested if its MSE is below this fraction of the MSE of the default season."""


def suggest_season(
    train: Sequence[Float64[np.ndarray, "_ columns"]], seasons: Sequence[Season], usual: int, choices: Choices
) -> list[Setting]:
    """Suggest data.season if another season than the default has a lower seasonal-naive error.

    `train` has the training rows of one or several series, `usual` is the default season.
    """
    shortest = min(map(len, train), default=0)
    if choices.season is not None and choices.season < shortest:
        return []
    periods = {1, usual, *(season.rows for season in seasons)}
    errors = {
        period: float(np.mean([_repeat_error(rows, period) for rows in train]))
        for period in periods
        if period < shortest
    }
    if not errors:
        return []
    best = min(errors, key=lambda period: errors[period])
    if usual >= shortest:
        why = f"the training part is shorter than the default season, {usual} rows"
        return [Setting("data.season", best, why)]
    if best == 1 or errors[best] >= MAX_ERROR_RATIO * errors[usual]:
        return []  # 1 is the naive baseline, which is measured anyway
    less = f"{1 - errors[best] / errors[usual]:.0%}"
    why = f"the seasonal naive has {less} less MSE on the training rows than with {usual}"
    return [Setting("data.season", best, why)]


def _repeat_error(rows: Float64[np.ndarray, "rows columns"], period: int) -> float:
    """Mean (y(t) − y(t − period))² in units of the variance, as skill counts it."""
    deviation = rows.std(0)
    scaled = rows / np.where(deviation > 0, deviation, 1)
    return float(np.square(scaled[period:] - scaled[:-period]).mean())


def suggest_training(
    n_windows: int, lengths: Sequence[Setting], choices: Choices, has_future: bool
) -> list[Setting]:
    """Suggest the attention type by window length, the batch size by windows and the epochs by training steps.

    `has_future`: whether the model reads future covariates.
    """
    past, *_ = (setting.value for setting in lengths)
    longest = max(setting.value for setting in lengths)
    patch = min(PATCH, max(1, past // MIN_TOKENS))
    attention, why = "linear", "its cost is linear in the length"
    if past // patch < DIFFERENT:
        attention, why = "full", f"on {past // patch} tokens, all attention types compute nearly the same"
    elif longest <= FULL:
        attention, why = "full", f"exact, and fast up to about {FULL:,} steps"
    elif longest <= NYSTROM:
        attention, why = "nystrom", f"close to softmax, and faster beyond {FULL:,} steps"
    batch = choices.batch_size or (16 if n_windows < 1_000 else choose_batch_size(AUTO, has_future))
    steps = -(-count_windows_per_epoch(AUTO, n_windows, has_future) // batch)
    epochs = min(50, max(EPOCHS, -(-STEPS // steps)))
    settings = [Setting("attention", attention, why)]
    if patch < PATCH:
        why = f"{past // patch} tokens of {patch} steps; the default, {PATCH} steps, leaves {max(1, past // PATCH)}"
        settings.append(Setting("model.patch_len", patch, why))
    if choices.batch_size is None:
        settings.append(Setting("data.batch_size", batch, f"{n_windows:,} training windows"))
    return [
        *settings,
        Setting(
            "trainer.max_epochs",
            epochs,
            f"at most, {plural(steps, 'step')} each; early stopping may end sooner",
        ),
    ]


def suggest_model(panel: Panel, features: str) -> list[Setting]:
    """Suggest the encoder with a flat head for columns that are forecast from their own past in steps below an hour.

    On such files its validation error was at most that of the default model (docs/residual.md).
    """
    reads_more = (
        panel.past_covariates or panel.future_covariates or (features == "MS" and len(panel.targets) > 1)
    )
    if reads_more or rows_in(days=1, freq=panel.freq) <= 24:
        return []
    why = f"for columns that are forecast from their own past, in steps of {panel.freq}"
    return [Setting("model", "patch_encoder", why)]


def suggest_features(panel: Panel, choices: Choices) -> Setting:
    """Suggest `features`. Raises ConfigError for a target that does not exist, or is missing where it is needed."""
    targets = panel.targets
    listed = shorten(targets, 20)
    if choices.target is not None and choices.target not in targets:
        raise ConfigError(f"data.target={choices.target} is not a column: there are {listed}")
    if choices.features is not None:
        check_choice("features", choices.features, FEATURES)
        if choices.features != "M" and choices.target is None and len(targets) > 1:
            raise ConfigError(f"features={choices.features} needs data.target, one of: {listed}")
        return Setting("features", choices.features, "as asked")
    if len(targets) == 1:
        covariates = (*panel.past_covariates, *panel.future_covariates)
        read = " and the covariates" if covariates else ""
        return Setting("features", "M", f"the one target from its own past{read}")
    if choices.target_typed:
        return Setting("features", "MS", f"{choices.target} from all columns")
    return Setting("features", "M", "all columns from all; for one of them features=MS data.target=NAME")


def suggest_columns(
    columns: Sequence[Column], copies: Sequence[Copy], texts: Sequence[CategoryColumn], choices: Choices
) -> list[Setting]:
    """Suggest which columns to read: without useless targets and copies, and with texts as past covariates or dropped.

    Args:
        columns: the targets that the file offers.
        copies: columns that repeat another one.
        texts: columns of text without another role.
    """
    useless = {} if choices.columns_typed else _find_useless(columns, copies, choices.target)
    rest = [column.name for column in columns if column.name not in useless]
    settings, dropped = [], {}
    if useless and rest:
        if len(rest) <= MAX_LISTED:
            named = [f"{name} ({reason})" for name, reason in useless.items()]
            settings.append(Setting("data.columns", rest, f"without {_list_first(named)}"))
        elif len(useless) <= MAX_LISTED:
            dropped = useless
    read, left_out = _sort_texts(texts, choices)
    if read:
        values = _list_first([f"{text.name} has {text.distinct}" for text in read])
        others = "data.future_covariates if known in advance, data.drop if not wanted"
        names = [*choices.past_covariates, *(text.name for text in read)]
        settings.append(
            Setting("data.past_covariates", names, f"text is read as categories ({values}); {others}")
        )
    dropped |= left_out
    if dropped:
        named = _list_first([f"{name} ({reason})" for name, reason in dropped.items()])
        settings.append(Setting("data.drop", [*choices.drop, *dropped], f"without {named}"))
    return settings


def _find_useless(columns: Sequence[Column], copies: Sequence[Copy], target: str | None) -> dict[str, str]:
    """The targets to leave out, each with the reason; never `target`."""
    useless = {
        column.name: reason
        for column in columns
        if column.name != target and (reason := _reason_to_leave_out(column))
    }
    offered = {column.name for column in columns}
    repeated = {
        copy.name: copy.relation
        for copy in copies
        if copy.name in offered
        and copy.name != target
        and copy.source not in useless
        and not (copy.is_function or copy.is_sum)
    }
    return repeated | useless


def _reason_to_leave_out(column: Column) -> str:
    if np.isnan(column.mean):
        return "empty"
    if column.constant:
        return "constant"
    if column.empty_in:
        return f"no value in {' and '.join(column.empty_in)}"
    if column.calendar:
        return "follows from the date, which the model reads"
    return "counts the rows" if column.counter else ""


def _sort_texts(
    texts: Sequence[CategoryColumn], choices: Choices
) -> tuple[list[CategoryColumn], dict[str, str]]:
    """The columns of text to read as categories, and the others, each with the reason to leave it out."""
    read, left_out = [], {}
    for text in texts:
        if choices.features == "S":
            left_out[text.name] = "text cannot be forecast"
        elif text.distinct < 2:
            left_out[text.name] = "text with one value or none"
        elif text.distinct > MOSTLY_DIFFERENT * text.filled:
            left_out[text.name] = "text that differs in most rows"
        elif text.distinct > MAX_INDICATORS:
            left_out[text.name] = f"text with more than {MAX_INDICATORS} values"
        else:
            read.append(text)
    return read, left_out


def _list_first(names: Sequence[str]) -> str:
    return shorten(names, 3)


def suggest_na_values(columns: Sequence[Column], choices: Choices) -> list[Setting]:
    """Suggest data.na_values, with those that were typed, for numbers that are probably codes for missing values."""
    codes: dict[int, list[str]] = {}
    for column in columns:
        if column.sentinel is not None:
            codes.setdefault(int(column.sentinel), []).append(column.name)
    if not codes or choices.na_values is None:
        return []
    named = "; ".join(f"{code} in {', '.join(names[:4])}" for code, names in codes.items())
    return [
        Setting("data.na_values", [*choices.na_values, *codes], f"probable codes for missing values: {named}")
    ]
