"""The parts of `forecast.check`, each against a slow or closed form."""

import shlex
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecast.cli.compose import compose_config
from forecast.cli.overrides import parse, quote
from forecast.data import Panel, read_table
from forecast.data.source import AUTO
from forecast.system.formatting import quote_for_shell
from forecast.tools.check import advice, lengths
from forecast.tools.check.advice import suggest_columns, suggest_model, suggest_training
from forecast.tools.check.columns import (
    find_gross_errors,
    find_longest_run,
    follows_date,
    is_counter,
    measure_columns,
    number_date_parts,
    numbers_rows,
)
from forecast.tools.check.figure import average_by, envelope, shorten
from forecast.tools.check.gaps import find_gaps, runs, split_parts
from forecast.tools.check.lengths import suggest_lengths
from forecast.tools.check.seasons import (
    Season,
    autocorrelation,
    calendar_periods,
    find_seasons,
    seasonal_strength,
)
from forecast.tools.check.settings import Choices, Setting, format_argument


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_runs(mask: list[bool]) -> None:
    expected, row = [], 0
    for value, group in groupby(mask):
        length = len(list(group))
        if value:
            expected.append((row, length))
        row += length
    starts, lengths = runs(np.array(mask))
    assert list(zip(starts.tolist(), lengths.tolist(), strict=True)) == expected


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40))
def test_the_longest_run(values: list[int]) -> None:
    length, start = find_longest_run(np.array(values, dtype=float))
    assert length == max(len(list(group)) for _, group in groupby(values))
    assert len(set(values[start : start + length])) == 1


def test_missing_values_are_no_run() -> None:
    assert find_longest_run(np.array([1.0, np.nan, np.nan, np.nan, 2.0, 2.0])) == (2, 4)


def test_gaps_of_numbers_beside_columns_of_text(tmp_path: Path) -> None:
    dates = pd.date_range("2024-01-01", periods=30, freq="h")
    table = pd.DataFrame({"date": dates, "y": np.arange(30.0), "temperature": 1.0, "expected": 2.0})
    table["sky"] = ["clear", "rain"] * 15
    table.loc[4, "expected"] = np.nan
    table.to_csv(tmp_path / "a.csv", index=False)
    panel = read_table(
        tmp_path / "a.csv",
        target="y",
        columns=["y"],
        past_covariates=["sky"],
        future_covariates=["temperature"],
        as_of={"temperature": "expected"},
    )
    found = find_gaps(panel)
    assert (found.missing_rows, found.missing_numbers) == (0, 1)
    assert (found.places[0].column, found.places[0].date) == ("expected", dates[4])


def test_a_column_without_values_in_a_split_is_left_out() -> None:
    grid = pd.date_range("2024-01-01", periods=100, freq="h")
    values = np.random.default_rng(0).normal(size=(100, 3))
    values[70:, 1] = np.nan
    values[:90, 2] = np.nan
    panel = Panel.of_table(grid, values, ["a", "b", "c"], "h")
    columns, _ = measure_columns(panel, split_parts(panel, [0.7, 0.1, 0.2]))
    assert [column.empty_in for column in columns] == [(), ("validation", "test"), ("training", "validation")]
    assert columns[1].list_notes(100)[0] == "no value in validation and test"
    (setting,) = advice.suggest_columns(columns, [], [], Choices())
    assert setting.value == ["a"]


def gross_errors_by_hand(values: np.ndarray) -> list[int]:
    """The largest of the sets of 1 to 3 extreme numbers that lie ten ranges of the others away from them."""
    known = np.flatnonzero(~np.isnan(values))
    order = sorted(known, key=lambda row: -abs(values[row] - np.median(values[known])))
    for count in (3, 2, 1):
        rest = values[[row for row in known if row not in order[:count]]]
        far = [max(rest.min() - values[row], values[row] - rest.max()) for row in order[:count]]
        if 0 < 10 * (rest.max() - rest.min()) < min(far):
            return sorted(int(row) for row in order[:count])
    return []


@given(st.lists(st.floats(0.001, 1e5), max_size=5), st.integers(50, 90), st.integers(0, 2**16))
def test_numbers_far_from_all_others_are_gross_errors(planted: list[float], rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.exponential(size=rows)
    values[random.permutation(rows)[: len(planted)]] = planted
    values[random.permutation(rows)[:2]] = np.nan
    assert list(find_gross_errors(values).rows) == (gross_errors_by_hand(values) if rows >= 52 else [])


def test_true_spikes_are_no_gross_errors() -> None:
    """Prices that are 2.6 ranges of the others away, an event that comes once, and four numbers of one size."""
    prices = np.append(np.linspace(-200, 700, 100), 3_000.0)
    event, four = np.zeros(100), np.random.default_rng(0).normal(size=100)
    event[50], four[20:24] = 1.0, 1e6
    assert [find_gross_errors(values).rows for values in (prices, event, four)] == [(), (), ()]


@pytest.mark.parametrize(
    ("zeros", "lowest", "highest", "is_error"),
    [
        (1, 22_000.0, 42_000.0, True),
        (3, -42_000.0, -22_000.0, True),
        (4, 22_000.0, 42_000.0, False),
        (1, 2_000.0, 42_000.0, False),
        (1, -22_000.0, 42_000.0, False),
    ],
)
def test_isolated_zeros_are_gross_errors(zeros: int, lowest: float, highest: float, is_error: bool) -> None:
    values = np.random.default_rng(0).permutation(np.linspace(lowest, highest, 500))
    places = [100, 200, 300, 400][:zeros]
    values[places] = 0
    assert list(find_gross_errors(values).rows) == (places if is_error else [])


def test_a_zero_that_is_one_step_from_counts_is_no_gross_error() -> None:
    values = np.random.default_rng(0).integers(1, 5, 500).astype(float)
    values[100] = 0
    assert find_gross_errors(values).rows == ()


def test_a_column_that_counts_rows() -> None:
    counters = [np.arange(20.0), np.arange(1.0, 30.0), np.arange(2_000.0, 2_050.0)]
    gap, both = np.arange(30.0), np.arange(30.0)
    gap[10:15] = np.nan  # rows that were left out after they were numbered
    both[10:15], both[15:] = np.nan, np.arange(12.0, 27.0)
    late = np.append(gap[:15], np.arange(16.0, 31.0))
    others = [
        np.arange(9.0),
        np.arange(0.0, 40.0, 2.0),
        np.append(np.arange(20.0), 0.0),
        np.full(20, 3.0),
        late,
    ]
    assert [is_counter(values) for values in (*counters, gap, both, *others)] == [True] * 5 + [False] * 5


@pytest.mark.parametrize("amplitude", [0.5, 1.0, 3.0])
def test_the_strength_of_a_sine_in_noise(amplitude: float) -> None:
    t, noise = np.arange(24 * 400), np.random.default_rng(0).normal(size=24 * 400)
    values = (5 + amplitude * np.sin(2 * np.pi * t / 24) + noise + 0.001 * t)[:, None]
    expected = (amplitude**2 / 2) / (amplitude**2 / 2 + 1)
    assert seasonal_strength(values, 24)[0] == pytest.approx(expected, abs=0.02)


def test_noise_has_no_strength_though_its_average_cycle_varies() -> None:
    values = np.random.default_rng(0).normal(size=(24 * 5, 200))
    few = seasonal_strength(values, 24)
    assert few.mean() < 0.06
    assert np.isnan(seasonal_strength(np.full((120, 1), 1e9), 24)[0])


def test_autocorrelation_against_its_sum() -> None:
    values = np.random.default_rng(1).normal(size=(50, 2)).cumsum(0)
    got = autocorrelation(values, 49)
    for column in range(2):
        rest = values[:, column] - np.polyval(np.polyfit(np.arange(50), values[:, column], 1), np.arange(50))
        expected = [rest[: 50 - lag] @ rest[lag:] / (rest @ rest) for lag in range(50)]
        np.testing.assert_allclose(got[:, column], expected, atol=1e-9)


@pytest.mark.parametrize(
    ("freq", "periods"),
    [
        ("h", [24, 168, 8_760]), ("15min", [96, 672, 35_040]), ("D", [7, 365]), ("B", [5, 261]), ("W-SUN", [52]),
        ("MS", [12]), ("QS-JAN", [4]), ("7h", [24]), ("YS-JAN", []), ("4W-SUN", [13]), ("28D", [13]), ("7D", [52]),
    ],
)  # fmt: skip
def test_the_calendar(freq: str, periods: list[int]) -> None:
    assert sorted(calendar_periods(freq)) == periods


def rows_of(values: np.ndarray, freq: str) -> list[int]:
    return [season.rows for season in find_seasons(values[:, None], freq)]


def test_seasons_are_found() -> None:
    t, noise = np.arange(4_000), np.random.default_rng(2).normal(size=4_000)
    day, workday = np.sin(2 * np.pi * t / 24), (t // 24 % 7 < 5).astype(float)
    assert rows_of(3 * day + noise, "h") == [24]
    assert rows_of(3 * day + 3 * workday + noise, "h") == [24, 168]
    assert rows_of(3 * np.sin(2 * np.pi * t / 37) + noise, "min") == [37]
    assert rows_of(3 * (t % 10 == 0) + 0.3 * noise, "D") == [10]
    assert rows_of(3 * np.sin(2 * np.pi * t / 37)[:3_600] + noise[:3_600], "20min") == [37]  # not 72, a day


def test_noise_and_walks_have_no_seasons() -> None:
    random = np.random.default_rng(3)
    found = [
        rows
        for freq, length in (("h", 600), ("h", 4_000), ("D", 1_500), ("MS", 120))
        for _ in range(25)
        for values in (random.normal(size=length), random.normal(size=length).cumsum())
        for rows in rows_of(values, freq)
    ]
    assert len(found) <= 10  # of 200


def test_the_line_is_drawn_through_every_extreme() -> None:
    values = np.random.default_rng(4).normal(size=20_001)
    values[7_000:7_500] = np.nan
    rows = envelope(values)
    assert len(rows) < 4_000
    assert np.nanmax(values[rows]) == np.nanmax(values)
    assert np.nanmin(values[rows]) == np.nanmin(values)
    assert np.isnan(values[rows]).any()


def test_long_ids_stay_apart() -> None:
    assert shorten("shop_1") == "shop_1"
    labels = {shorten(f"a_rather_long_name_of_a_shop_{number}") for number in range(1_000)}
    assert len(labels) == 1_000
    assert max(map(len, labels)) <= 24


@pytest.mark.parametrize(
    ("freq", "rows", "name", "phases"),
    [
        ("h", 48, "hour of day", 24), ("h", 47, None, 0), ("15min", 192, "hour of day", 96),
        ("10min", 288, "hour of day", 24),
        ("s", 172_800, "hour of day", 24), ("s", 5_000, None, 0), ("D", 10, "weekday", 7), ("B", 10, "weekday", 5),
        ("MS", 30, "month", 12),
    ],
)  # fmt: skip
def test_by_what_values_are_averaged(freq: str, rows: int, name: str | None, phases: int) -> None:
    dates = pd.date_range("2021-03-01", periods=rows, freq=freq)
    profile = average_by(dates, freq)
    assert (profile and profile.name) == name
    assert (len(np.unique(profile.phase)) if profile else 0) == phases


def panel_of(rows: int, freq: str = "h") -> Panel:
    dates = pd.date_range("2021-01-01", periods=rows, freq=freq)
    return Panel.of_table(dates, np.arange(rows, dtype=float)[:, None], ["load"], freq)


def test_windows_of_a_part() -> None:
    train, val, test = split_parts(panel_of(30, "D"), ["2021-01-21", "2021-01-25"])
    assert (train.n_rows, val.n_rows, test.n_rows) == (20, 4, 6)
    assert train.windows(8, 3).tolist() == [10]
    assert test.windows(8, 3).tolist() == [4]
    assert test.windows(8, 7).tolist() == [0]
    assert test.windows(26, 3).tolist() == [2]  # pasts cannot begin before the first row


WEEK, DAY = Season(168, "a week", np.array([0.8])), Season(24, "a day", np.array([0.9]))


@pytest.mark.parametrize(
    ("rows", "seasons", "pred_len", "day", "past", "why"),
    [
        (39_456, [DAY, WEEK], 24, 24, 504, "three of the longest season, a week"),
        (39_456, [DAY, WEEK], 168, 24, 672, "four horizons"),
        (39_456, [DAY], 24, 24, 336, "the default of models on patches"),
        (39_456, [DAY], 24, 96, 480, "at most 5 days of steps below an hour"),
        (39_456, [DAY], 720, 96, 480, "at most 5 days of steps below an hour"),
        (
            39_456,
            [DAY, Season(336, "a week", np.array([0.95]))],
            48,
            48,
            672,
            "two of the strongest season, a week",
        ),
        (39_456, [DAY], 24, 288, 720, "at most 5 days of steps below an hour"),
        (2_500, [DAY, WEEK], 24, 24, 168, "the longest season, a week"),  # three: 29% of the training part
        (2_500, [], 24, 24, 96, "four horizons"),
        (2_500, [], 24, 96, 96, "four horizons"),
    ],
)
def test_the_past_that_is_suggested(
    rows: int, seasons: list[Season], pred_len: int, day: int, past: int, why: str
) -> None:
    parts = split_parts(panel_of(rows), [0.7, 0.1, 0.2])
    choices = Choices(pred_len=pred_len)
    assert suggest_lengths(parts, seasons, 24, day, choices)[0] == Setting("seq_len", past, why)


def test_little_training_is_suggested_where_windows_are_many() -> None:
    choices = Choices()
    windows = [Setting("seq_len", 336, "")]
    chosen = [
        {s.key: s.value for s in suggest_training(count, windows, choices, has_future=False)}
        for count in (50_000, 1_500, 100)
    ]
    assert [(s["data.batch_size"], s["trainer.max_epochs"]) for s in chosen] == [(32, 5), (32, 14), (16, 50)]
    known = {s.key: s.value for s in suggest_training(50_000, windows, choices, has_future=True)}
    assert (known["data.batch_size"], known["trainer.max_epochs"]) == (128, 5)


def test_short_windows_get_shorter_patches() -> None:
    for past, patch, tokens in ((28, 7, 4), (12, 3, 4), (336, None, 14), (3, 1, 3)):
        suggested = {
            s.key: s for s in suggest_training(500, [Setting("seq_len", past, "")], Choices(), False)
        }
        found = suggested.get("model.patch_len")
        assert (found.value if found else None) == patch
        assert suggested["attention"].why.startswith(f"on {tokens} tokens, all attention types")
    assert suggest_training(500, [Setting("seq_len", 2_400, "")], Choices(), False)[0].why.startswith("exact")


def test_numbers_of_the_rows_of_a_long_file() -> None:
    numbers = np.arange(1.0, 41.0).reshape(10, 4)[::-1].T.ravel()  # of four series, in descending order
    assert numbers_rows(numbers)
    assert not numbers_rows(np.append(numbers, 41.5))
    assert not numbers_rows(np.repeat(numbers, 2))
    assert not numbers_rows(np.arange(5.0))


@pytest.mark.parametrize(
    ("freq", "features", "model"),
    [
        ("15min", "M", "patch_encoder"),
        ("10min", "S", "patch_encoder"),
        ("15min", "MS", None),
        ("h", "M", None),
        ("D", "M", None),
    ],
)
def test_a_flat_head_is_suggested_for_columns_with_steps_below_an_hour(
    freq: str, features: str, model: str | None
) -> None:
    panel = Panel.of_table(
        pd.date_range("2024-01-01", periods=9, freq=freq), np.zeros((9, 2)), ["a", "b"], freq
    )
    assert [s.value for s in suggest_model(panel, features)] == ([model] if model else [])
    wind = replace(panel, targets=("a",), past_covariates=("b",))
    assert suggest_model(wind, features) == []


def test_the_default_model_is_known_as_it_is() -> None:
    config = compose_config("model=residual_informer")
    known = (lengths.PAST, AUTO, lengths.PATCH, advice.EPOCHS)
    assert known == (
        config.seq_len, config.data.windows_per_epoch, config.model.patch_len, config.trainer.max_epochs
    )  # fmt: skip
    assert compose_config().model._target_ == config.model._target_


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data.path", "~/it's/a b,c=d.csv"), ("data.separator", ";"), ("data.target", "Ziel[1]"),
        ("data.columns", ["plain", "a, b", "[x]", "it's", "température"]), ("data.fill", None),
        ("data.split", [0.6, 0.2, 0.2]), ("data.split", ["2017-07-01", "2017-11-01"]), ("seq_len", 96),
    ],
)  # fmt: skip
def test_arguments_are_read_as_they_were_meant(key: str, value: object) -> None:
    (override,) = parse([quote(format_argument(key, value), sweep=False)])
    assert (override.key_or_group, override.value()) == (key, value)


@pytest.mark.parametrize(
    ("argument", "typed"),
    [
        ("a=1", "a=1"), ('a=["b c",d]', """'a=["b c",d]'"""), ("a=it's b", '"a=it\'s b"'), ("a=it's $b", None),
    ],
)  # fmt: skip
def test_arguments_are_quoted_for_bash_without_doubled_quotes(argument: str, typed: str | None) -> None:
    written = quote_for_shell(argument)
    assert shlex.split(written) == [argument]
    assert typed in (None, written)


@pytest.mark.parametrize(
    ("part", "follows"),
    [
        ("hour", True),
        ("day_of_week", True),
        ("year", True),
        ("minute", False),
        ("hour, changed", False),
        ("load", False),
    ],
)
def test_columns_that_follow_from_the_date(part: str, follows: bool) -> None:
    dates = pd.date_range("2023-06-01", periods=9_000, freq="h")
    if part == "load":
        column = np.random.default_rng(0).normal(size=len(dates))
    else:
        column = np.array(getattr(dates, part.split(",")[0]), dtype=float)
    column[5] += "changed" in part
    column[7] = np.nan
    assert follows_date(column, number_date_parts(dates)) == follows


def test_columns_that_follow_from_the_date_are_left_out() -> None:
    dates = pd.date_range("2024-01-01", periods=2_000, freq="h")
    values = np.column_stack([np.random.default_rng(0).normal(size=2_000), dates.hour, dates.hour])
    panel = Panel.of_table(dates, values, ["load", "hour", "hour, again"], "h")
    columns, _ = measure_columns(panel, split_parts(panel, [0.7, 0.1, 0.2]))
    assert "follows from the date (data.drop=[hour])" in columns[1].list_notes(2_000)
    assert "follows from the date ('data.drop=[\"hour, again\"]')" in columns[2].list_notes(2_000)
    assert suggest_columns(columns, [], [], Choices())[0].value == ["load"]


@pytest.mark.parametrize("steps", ["dates", None])
def test_useless_columns_of_wide_data_are_dropped(steps: str | None) -> None:
    """Of a store too, whose data have no setting of steps."""
    dates = pd.date_range("2024-01-01", periods=2_000, freq="h")
    values = np.column_stack([np.random.default_rng(0).normal(size=(2_000, 25)), dates.hour])
    panel = Panel.of_table(dates, values, [*(f"c{number}" for number in range(25)), "hour"], "h")
    columns, _ = measure_columns(panel, split_parts(panel, [0.7, 0.1, 0.2]))
    (setting,) = suggest_columns(columns, [], [], Choices(steps=steps))
    assert (setting.key, setting.value) == ("data.drop", ["hour"])
