"""Suggested settings, each with its reason, and the training command with them."""

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from forecast.cli.overrides import FREE_TEXT
from forecast.data import DataModule, Panel
from forecast.data.covariates import MAX_INDICATORS
from forecast.data.source import AUTO, FEATURES, choose_batch_size, count_windows_per_epoch
from forecast.data.time_features import rows_in
from forecast.system.errors import ConfigError, check_choice
from forecast.system.formatting import plural, quote_for_shell, shorten, write_value
from forecast.tools.check.facts import CategoryColumn, Column, SplitPart, follows_date, is_counter, number_date_parts
from forecast.tools.check.relations import Copy
from forecast.tools.check.seasons import Season

MAX_PAST, MAX_HORIZON = 720, 96  # largest seq_len and pred_len that are suggested unless the user gives others
PATCHES = {"residual_informer": (6, 56), "patch_encoder": (24, 4)}
"""Of each model, the default steps per token, and the tokens that a window has if it has so many steps."""
PAST = 336  # default seq_len of these models
PAST_DAYS = 5
"""Length of the past for steps below an hour, chosen by validation errors on ETTm1 and weather (docs/results.md)."""
HORIZON = 24  # pred_len if no season suggests another
MIN_TRAINING_RATIO = 16  # a past of several seasons is suggested only if the training rows are this many times as long
FULL, NYSTROM = 512, 4_096  # most tokens for which attention=full and attention=nystrom are suggested
DIFFERENT = 50  # fewest tokens on which attention types differ
MOSTLY_DIFFERENT = 0.5  # a column of text with more different texts per filled cell is no category
MAX_UNSEEN = 0.01  # a column of text of which more cells have a value that no training row has is left out
EPOCHS, STEPS = 5, 640  # default epochs of the trainer, and the fewest training steps that are suggested
MAX_ERROR_RATIO = 0.9  # another season is suggested if its MSE is below this fraction of the MSE of the default season
WEATHER = (  # stems of the names of weather in English, German, French and Spanish
    r"temperat|\b(temp|t)\b|humid|humed|feucht|wind(?!ow)|viento|\bvent\b|\brain|regen|pluie|lluvia|pr[eé]cip|niederschlag|"
    r"snow|schnee|neige|nieve|solar|irradia|radiation|radiaci|strahlung|sonne|soleil|cloud|wolk|nuage|nubos|pressure|"
    r"luftdruck|pression|presi[oó]n|\bdew|taupunkt"
)
OUTPUT = r"power|gener|produ|leistung|erzeug|energ|\b[kmg]wh?\b|pri[cs]e|preis|prix|precio|\bload|last|demand|sales"
"""Stems of what may be the target although its name has a stem of the weather, such as solar power."""
PLANNED = r"holiday|feiertag|f[eé]ri|festiv|vacation|ferien|weekend|wochenende|work.?day|werktag|promo|\bopen"
"""Stems of columns of 0 and 1 that are known in advance."""
HEAVY_TAILS = 10.0
"""Excess kurtosis from which a transform is suggested: those of hourly loads and of ETT are lower, of prices higher."""


class Setting(NamedTuple):
    """A suggested value of a configuration key, and the reason."""

    key: str
    value: Any
    why: str


@dataclass(frozen=True)
class Choices:
    """Values that the user chose; None where there is no choice.

    `steps`, `na_values`: these options; None if the source has no such option.
    """

    seq_len: int | None = None
    label_len: int | None = None
    pred_len: int | None = None
    features: str | None = None
    target: str | None = None
    target_typed: bool = False  # whether `target` was typed; some data sets have a default target
    season: int | None = None
    batch_size: int | None = None
    columns: Sequence[str] | None = None  # the targets; None: all columns without another role
    past_covariates: Sequence[str] = ()
    future_covariates: Sequence[str] = ()
    drop: Sequence[str] = ()
    steps: str | None = None
    freq: str | None = None
    eval_stride: int | None = 1
    na_values: Sequence[int | float | str] | None = None


def leave_out_typed(settings: Sequence[Setting], typed: Collection[str]) -> list[Setting]:
    """Leave out the settings of the keys in `typed`, and with the key `model` all settings of a model."""
    others = [setting for setting in settings if setting.key not in typed]
    return [setting for setting in others if "model" not in typed or not setting.key.startswith("model")]


def print_suggested(settings: Sequence[Setting], options: Sequence[str]) -> list[str]:
    """Print suggested settings with their reasons to standard error, and return them as overrides.

    `options` are lines on settings that are not suggested; they are printed too.
    """
    lines = [format_argument(setting.key, setting.value) for setting in settings]
    for line, setting in zip(lines, settings, strict=True):
        print(f"suggested: {line}  ({setting.why})", file=sys.stderr)
    for option in options:
        print(f"not set:   {option}", file=sys.stderr)
    return lines


def write_command(typed: Mapping[str, Any], settings: Sequence[Setting], program: str = "train") -> str:
    """Return a command, quoted for a shell: the data keys that the user typed, then the settings."""
    chosen = dict(typed) | {setting.key: setting.value for setting in settings}
    arguments = [format_argument(key, value) for key, value in chosen.items()]
    return " ".join(["forecast", program, *map(quote_for_shell, arguments)])


def format_argument(key: str, value: Any) -> str:
    """Format an override so that the commands read the same value back."""
    text = f"{key}={value}"
    return text if isinstance(value, str) and FREE_TEXT.match(text) else f"{key}={write_value(value)}"


def suggest_lengths(
    parts: Sequence[SplitPart], seasons: Sequence[Season], usual: int, day: int, choices: Choices
) -> list[Setting]:
    """Suggest seq_len, label_len and pred_len that leave windows in every split; empty if no lengths do.

    `usual` is the default season, `day` the number of rows of a day. Of several series, the lengths fit one whose
    splits have the median number of rows.
    """
    strongest = max(seasons, key=lambda season: season.strength, default=None)
    pred_len = _suggest_horizon(parts, strongest, usual, choices)
    if pred_len is None:
        return []
    train, horizon = parts[0], pred_len.value
    room = most = train.typical - horizon
    if choices.seq_len is not None:
        past, why = choices.seq_len, "as asked"
    else:
        most = max(1, room // 2)
        few = [season for season in seasons if season.rows <= train.typical / 8]
        past, why = _choose_past(few, strongest, horizon, day, train)
    if past > most:
        why = f"not {past} ({why}): the training part of a series has {train.typical:,} rows"
        past = most - most % strongest.rows if strongest and strongest.rows <= most else most
    label = min(past // 2, 2 * horizon) if choices.label_len is None else min(choices.label_len, past)
    is_asked = label == choices.label_len
    label_why = "as asked" if is_asked else "last steps that the decoder reads again, at most half of seq_len"
    return [Setting("seq_len", past, why), Setting("label_len", label, label_why), pred_len]


def _suggest_horizon(
    parts: Sequence[SplitPart], strongest: Season | None, usual: int, choices: Choices
) -> Setting | None:
    """pred_len; None if no horizon leaves a window in every split."""
    train, val, test = parts
    room = min(val.typical, test.typical, train.typical - 1)
    if room < 1:
        return None
    if choices.pred_len is not None:
        horizon, why = choices.pred_len, "as asked"
    elif 4 <= usual <= MAX_HORIZON:
        horizon, why = usual, "the default season of this frequency"
    elif strongest and 4 <= strongest.rows <= MAX_HORIZON:
        horizon, why = strongest.rows, f"the strongest season, {strongest.title}"
    else:
        horizon, why = HORIZON, f"no season has 4 to {MAX_HORIZON} rows"
    most = room if choices.pred_len is not None else max(1, room // 2)
    if horizon > most:
        shortest = min((val, test), key=lambda part: part.typical)
        why = f"not {horizon} ({why}): the {shortest.name} part of a series has {shortest.typical:,} rows"
        horizon = most
    return Setting("pred_len", horizon, why)


def _choose_past(
    seasons: Sequence[Season], strongest: Season | None, horizon: int, day: int, train: SplitPart
) -> tuple[int, str]:
    """seq_len and the reason."""
    rows, typical = train.n_rows, train.typical
    recent = min(PAST_DAYS * day, MAX_PAST)
    if day > 24 and rows >= MIN_TRAINING_RATIO * recent and typical >= 2 * recent:
        candidates = [(recent, f"at most {PAST_DAYS} days of steps below an hour")]
    else:
        candidates = [(4 * horizon, "four horizons") if 4 * horizon <= MAX_PAST else (MAX_PAST, "long enough")]
    if strongest and strongest.rows <= MAX_PAST:
        times, words = (2, "two of ") if 2 * strongest.rows <= MAX_PAST else (1, "")
        candidates.append((times * strongest.rows, f"{words}the strongest season, {strongest.title}"))
    if rows >= MIN_TRAINING_RATIO * PAST and typical >= 2 * PAST:
        candidates.append((PAST, "the default of models on patches"))
    for season in seasons:
        if season.rows <= MAX_PAST:
            three = 3 * season.rows <= min(MAX_PAST, rows / MIN_TRAINING_RATIO)
            times, words = (3, "three of the longest season") if three else (1, "the longest season")
            candidates.append((times * season.rows, f"{words}, {season.title}"))
    return max(candidates, key=lambda candidate: candidate[0])


def suggest_season(
    train: Sequence[Float64[np.ndarray, "_ columns"]], seasons: Sequence[Season], usual: int, choices: Choices
) -> list[Setting]:
    """Suggest data.season if another season than the default has a lower seasonal-naive error.

    `train` has the training rows of one or several series, `usual` is the default season.
    """
    shortest = min(map(len, train), default=0)
    if choices.season is not None and choices.season < shortest:
        return []
    scaled = [rows / np.where((deviation := rows.std(0)) > 0, deviation, 1) for rows in train]  # as skill counts errors
    errors = {
        period: float(np.mean([np.square(rows[period:] - rows[:-period]).mean() for rows in scaled]))
        for period in {1, usual, *(season.rows for season in seasons)}
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


def suggest_transform(
    train: Sequence[Float64[np.ndarray, "_ columns"]], targets: Sequence[str], data: DataModule
) -> list[Setting]:
    """Suggest data.transform=auto for targets with outliers, of which the squared error would learn most.

    `train` has the training rows of the targets, of one or several series.
    """
    kurtosis = [_excess_kurtosis(rows) for rows in train if len(rows)]
    if not kurtosis or data.options.transform is not None:
        return []
    heavy = np.mean(kurtosis, axis=0) > HEAVY_TAILS
    if not heavy.any():
        return []
    listed = shorten([name for name, is_heavy in zip(targets, heavy, strict=True) if is_heavy], 3)
    why = f"outliers in {listed}; kept if validation errors are lower with it"
    return [Setting("data.transform", "auto", why)]


def _excess_kurtosis(rows: Float64[np.ndarray, "rows columns"]) -> Float64[np.ndarray, " columns"]:
    """0 for normal values, and for columns of at most two values, such as the days on which something happened."""
    centered = rows - rows.mean(0)
    variance = (centered**2).mean(0)
    has_two_values = ((rows == rows.min(0)) | (rows == rows.max(0))).all(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(has_two_values, 0.0, (centered**4).mean(0) / variance**2 - 3)


def suggest_training(n_windows: int, settings: Sequence[Setting], choices: Choices, has_future: bool) -> list[Setting]:
    """Suggest the attention type by window length, the batch size by windows and the epochs by training steps.

    `settings` have the lengths, `has_future` tells whether the model reads future covariates.
    """
    values = {setting.key: setting.value for setting in settings}
    past, (usual, wanted) = values["seq_len"], PATCHES[values.get("model", "residual_informer")]
    patch = min(usual, max(1, past // wanted))
    tokens = max(past, values["pred_len"]) // patch
    attention, why = "linear", "its cost is linear in the length"
    if past // patch < DIFFERENT:
        attention, why = "full", f"on {past // patch} tokens, all attention types compute nearly the same"
    elif tokens <= FULL:
        attention, why = "full", f"exact, and fast up to about {FULL * patch:,} steps"
    elif tokens <= NYSTROM:
        attention, why = "nystrom", f"close to softmax, and faster beyond {FULL * patch:,} steps"
    batch = choices.batch_size or (16 if n_windows < 1_000 else choose_batch_size(AUTO, has_future))
    steps = -(-count_windows_per_epoch(AUTO, n_windows, has_future) // batch)
    epochs = min(50, max(EPOCHS, -(-STEPS // steps)))
    found = [Setting("attention", attention, why)]
    if patch < usual:
        why = f"{past // patch} tokens of {patch} steps; the default, {usual} steps, leaves {max(1, past // usual)}"
        found.append(Setting("model.patch_len", patch, why))
    if choices.batch_size is None:
        found.append(Setting("data.batch_size", batch, f"{n_windows:,} training windows"))
    why = f"at most, {plural(steps, 'step')} each; early stopping may end sooner"
    return [*found, Setting("trainer.max_epochs", epochs, why)]


def suggest_model(panel: Panel, features: str) -> list[Setting]:
    """Suggest the encoder with a flat head for columns that are forecast from their own past in steps below an hour.

    On such files its validation error was at most that of the default model (docs/residual.md).
    """
    reads_more = panel.past_covariates or panel.future_covariates or (features == "MS" and len(panel.targets) > 1)
    if reads_more or rows_in(days=1, freq=panel.freq) <= 24:
        return []
    why = f"for columns that are forecast from their own past, in steps of {panel.freq}"
    return [Setting("model", "patch_encoder", why)]


def suggest_features(panel: Panel, choices: Choices) -> Setting:
    """Suggest `features`. Raises ConfigError for a target that does not exist, or is missing where it is needed."""
    targets = panel.targets
    listed = shorten(targets, 20)
    if choices.target is not None and choices.target not in targets:
        advice = "set data.target to one of them, or add it to data.columns"
        raise ConfigError(f"data.target={choices.target} is no column to forecast ({listed}): {advice}")
    if choices.features is not None:
        check_choice("features", choices.features, FEATURES)
        if choices.features != "M" and choices.target is None and len(targets) > 1:
            raise ConfigError(f"features={choices.features} needs data.target, one of: {listed}")
        return Setting("features", choices.features, "as asked")
    if len(targets) == 1:
        read = " and the covariates" if panel.past_covariates or panel.future_covariates else ""
        return Setting("features", "M", f"the one target, {targets[0]}, from its own past{read}")
    if choices.target_typed:
        return Setting("features", "MS", f"{choices.target} from all columns")
    return Setting("features", "M", "all columns from all; for one of them features=MS data.target=NAME")


def is_named_like_covariate(name: str) -> bool:
    """Whether a column is by name a forecast, planned in advance, or weather."""
    return bool(re.search(rf"forecast|{PLANNED}|{WEATHER}", _words(name)))


def _words(name: str) -> str:
    """A name in lower case, with a space in place of digits and of other characters than letters."""
    return re.sub(r"[\W\d_]+", " ", name).lower()


def suggest_covariates(panel: Panel, choices: Choices) -> list[Setting]:
    """Suggest covariates among the targets of a file, unless the user chose columns or future covariates.

    Known in advance are forecasts and holidays by name, and columns with values after the last ones of the others. Read
    up to the forecast origin are the weather by name and columns of 0 and 1, if they leave one column to forecast.
    """
    if choices.columns is not None or choices.future_covariates or choices.steps is None:
        return []
    values = np.asarray(panel.values)[:, : len(panel.targets)]
    columns = dict(zip(panel.targets, values.T, strict=True))
    last = {name: max(np.flatnonzero(np.isfinite(column)), default=-1) for name, column in columns.items()}
    first_end = min(last.values())
    has_after = (len(values) - 1 - first_end) * MIN_TRAINING_RATIO <= len(values) and not panel.has_ids
    is_flag = {
        name: (column == 0).any() and (column == 1).any() and np.isin(column[np.isfinite(column)], (0, 1)).all()
        for name, column in columns.items()
    }
    future, past = {}, {}
    for name in columns:
        words = _words(name)
        if name == choices.target:
            continue
        if "forecast" in words:
            future[name] = "by name forecasts, known for the steps to forecast"
        elif has_after and last[name] > first_end:
            future[name] = "values come after the last ones of the other columns"
        elif is_flag[name] and re.search(PLANNED, words):
            future[name] = "by name planned in advance"
        elif is_flag[name] or (re.search(WEATHER, words) and not re.search(OUTPUT, words)):
            kind = "only 0 and 1" if is_flag[name] else "weather by name"
            past[name] = f"{kind}; data.future_covariates if known in advance"
    parts = number_date_parts(panel)
    rest = {name: column for name, column in columns.items() if name not in future and name not in past}
    useful = [name for name, one in rest.items() if not (is_counter(one) or follows_date(one, parts))]
    found = {"data.future_covariates": future if rest or past else {}}
    if len(useful) == 1 and not (choices.past_covariates or choices.features):
        found["data.past_covariates"] = past
    return [Setting(key, [*names], "; ".join(dict.fromkeys(names.values()))) for key, names in found.items() if names]


def suggest_columns(
    columns: Sequence[Column], copies: Sequence[Copy], texts: Sequence[CategoryColumn], choices: Choices
) -> list[Setting]:
    """Suggest which columns to read: without useless targets and copies, and with texts as past covariates or dropped.

    `columns`: the targets that the file offers.
    """
    dropped = {} if choices.columns is not None else _find_useless(columns, copies, choices.target)
    settings, dropped = [], dropped if len(dropped) < len(columns) else {}
    reasons = {text.name: _reason_against_text(text, choices) for text in texts}
    read = [text for text in texts if not reasons[text.name]]
    if read:
        values = shorten([f"{text.name} has {text.distinct}" for text in read], 3)
        others = "data.future_covariates if known in advance, data.drop if not wanted"
        names = [*choices.past_covariates, *(text.name for text in read)]
        settings.append(Setting("data.past_covariates", names, f"text is read as categories ({values}); {others}"))
    dropped |= {name: reason for name, reason in reasons.items() if reason}
    if dropped:
        why = shorten([f"{name} ({reason})" for name, reason in dropped.items()], 3)
        settings.append(Setting("data.drop", [*choices.drop, *dropped], f"without {why}"))
    return settings


def _find_useless(columns: Sequence[Column], copies: Sequence[Copy], target: str | None) -> dict[str, str]:
    """The targets to leave out, each with the reason; never `target`."""
    useless = {column.name: column.useless for column in columns if column.useless and column.name != target}
    offered = {column.name for column in columns} - {target}
    repeated = {copy.name: copy.relation for copy in copies if copy.name in offered and copy.source not in useless}
    return repeated | useless


def _reason_against_text(text: CategoryColumn, choices: Choices) -> str:
    """Why a column of text is left out; empty if it is read as categories."""
    if choices.features == "S":
        return "text cannot be forecast"
    if text.distinct < 2:
        return "text with one value or none"
    if text.distinct > MOSTLY_DIFFERENT * text.filled:
        return "text that differs in most rows"
    if text.unseen > MAX_UNSEEN * text.filled:
        return "text with values that no training row has"
    return f"text with more than {MAX_INDICATORS} values" if text.distinct > MAX_INDICATORS else ""


def suggest_na_values(columns: Sequence[Column], choices: Choices) -> list[Setting]:
    """Suggest data.na_values, with those that were typed, for numbers that are probably codes for missing values."""
    codes: dict[int | float, list[str]] = {}
    for column in columns:
        if column.sentinel is not None:
            code = int(column.sentinel) if column.sentinel.is_integer() else column.sentinel
            codes.setdefault(code, []).append(column.name)
    if not codes or choices.na_values is None:
        return []
    named = "; ".join(f"{code:g} in {', '.join(names[:4])}" for code, names in codes.items())
    return [Setting("data.na_values", [*choices.na_values, *codes], f"probable codes for missing values: {named}")]
