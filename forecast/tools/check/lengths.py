"""Suggested window lengths, with a reason for each."""

from collections.abc import Sequence

from forecast.data.split import refuse_short_split
from forecast.tools.check.gaps import SplitPart
from forecast.tools.check.seasons import Season
from forecast.tools.check.settings import Choices, Setting

MAX_PAST, MAX_HORIZON = 720, 96
"""Largest seq_len and pred_len that are suggested unless the user gives others."""
PATCH, PAST = 24, 336
"""Steps per token and default seq_len of model=residual_informer."""
PAST_DAYS = 5
"""Length of the past for steps below an hour, chosen by validation errors on ETTm1 and weather (docs/results.md)."""
HORIZON = 24
"""pred_len if no season suggests another."""
MIN_TRAINING_RATIO = 16
"""A past of several seasons is suggested only if the training rows are this many times as long."""


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
    if choices.seq_len is not None:
        past, why = choices.seq_len, "as asked"
    else:
        few = [season for season in seasons if season.rows <= train.typical / 8]
        past, why = _choose_past(few, strongest, horizon, day, train)
    room = train.typical - horizon
    most = room if choices.seq_len is not None else max(1, room // 2)
    if past > most:
        why = f"not {past} ({why}): {_describe_rows('training', train)}"
        past = most - most % strongest.rows if strongest and strongest.rows <= most else most
    label = min(past // 2, 2 * horizon) if choices.label_len is None else min(choices.label_len, past)
    is_asked = label == choices.label_len
    label_why = "as asked" if is_asked else "last steps that the decoder reads again, at most half of seq_len"
    return [Setting("seq_len", past, why), Setting("label_len", label, label_why), pred_len]


def check_lengths(name: str, parts: Sequence[SplitPart], choices: Choices) -> None:
    """Raise DataError, as training does, if no series has a window of the lengths that the user chose in a split.

    `name` is the name of the data.
    """
    seq_len, pred_len = choices.seq_len or 1, choices.pred_len or 1
    chosen = [f"{key}={value}" for key in ("seq_len", "pred_len") if (value := getattr(choices, key))]
    for part in parts:
        if not part.windows(seq_len, pred_len).any():
            needed = pred_len + (seq_len if part.name == "train" else 0)
            raise refuse_short_split(name, part.name, needed, ", ".join(chosen), part.lengths)


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
        horizon, why = strongest.rows, f"the strongest season, {_name(strongest)}"
    elif usual > MAX_HORIZON:
        horizon, why = HORIZON, f"the default season, {usual} rows, is longer than {MAX_HORIZON}"
    else:
        horizon, why = HORIZON, "no season suggests another length"
    most = room if choices.pred_len is not None else max(1, room // 2)
    if horizon > most:
        shortest = min((val, test), key=lambda part: part.typical)
        split = "; data.split=[0.6,0.2,0.2] has more" if shortest.name == "val" else ""
        horizon, why = most, f"not {horizon} ({why}): {_describe_rows(shortest.name, shortest)}{split}"
    return Setting("pred_len", horizon, why)


def _describe_rows(name: str, part: SplitPart) -> str:
    """The number of rows of a split in a typical series."""
    per_series = " per series (median)" if len(part.lengths) > 1 else ""
    return f"the {name} part has {part.typical:,} rows{per_series}"


def _choose_past(
    seasons: Sequence[Season], strongest: Season | None, horizon: int, day: int, train: SplitPart
) -> tuple[int, str]:
    """seq_len and the reason."""
    rows, typical = train.n_rows, train.typical
    recent = min(PAST_DAYS * day, MAX_PAST)
    if day > 24 and rows >= MIN_TRAINING_RATIO * recent and typical >= 2 * recent:
        candidates = [(recent, f"at most {PAST_DAYS} days of steps below an hour")]
    else:
        candidates = [
            (4 * horizon, "four horizons") if 4 * horizon <= MAX_PAST else (MAX_PAST, "long enough")
        ]
    if strongest and strongest.rows <= MAX_PAST:
        times, words = (2, "two of ") if 2 * strongest.rows <= MAX_PAST else (1, "")
        candidates.append((times * strongest.rows, f"{words}the strongest season, {_name(strongest)}"))
    if rows >= MIN_TRAINING_RATIO * PAST and typical >= 2 * PAST:
        candidates.append((PAST, "the default of models on patches"))
    for season in seasons:
        if season.rows <= MAX_PAST:
            three = 3 * season.rows <= min(MAX_PAST, rows / MIN_TRAINING_RATIO)
            times, words = (3, "three of the longest season") if three else (1, "the longest season")
            candidates.append((times * season.rows, f"{words}, {_name(season)}"))
    return max(candidates, key=lambda candidate: candidate[0])


def _name(season: Season) -> str:
    return season.name or f"{season.rows} rows"
