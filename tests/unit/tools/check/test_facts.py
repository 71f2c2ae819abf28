"""Facts about columns, copies, gaps and seasons, each against a slow or closed form."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data import Panel
from forecast.data.calendars import Calendar
from forecast.data.files.sources import read_frame
from forecast.tools.check.advice import Choices, suggest_columns, suggest_covariates, suggest_na_values
from forecast.tools.check.diagnosis import find_calendar_of_gaps, suggest_overrides
from forecast.tools.check.facts import find_gross_errors, find_sentinel, is_counter, measure_columns, split_parts
from forecast.tools.check.relations import Copy, find_copies, find_sums
from forecast.tools.check.seasons import calendar_periods, find_seasons, seasonal_strength

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(("code", "suggested"), [(-9999.0, -9999), (-99.99, -99.99), (-99.5, None)])
def test_codes_for_missing_values(code: float, suggested: float | None) -> None:
    """Whole numbers, and numbers of nines, that lie far from all others; in another column, one of them is enough."""
    values = RANDOM.normal(350, 10, (500, 2))
    values[:5, 0] = values[7, 1] = code
    assert find_sentinel(values[:, 0]) == suggested
    columns = columns_of({"a": values[:, 0], "b": values[:, 1]})
    assert {column.sentinel for column in columns} == {suggested}
    settings = suggest_na_values(columns, Choices(na_values=["none"]))
    assert [setting.value for setting in settings] == ([["none", suggested]] if suggested else [])


def columns_of(columns: dict[str, np.ndarray]):
    values = np.column_stack(list(columns.values())).astype(float)
    grid = pd.date_range("2024-01-01", periods=len(values), freq="h")
    panel = Panel.of_table(grid, values, [*columns], "h")
    return measure_columns(panel, split_parts(panel, [0.7, 0.1, 0.2]))


def test_useless_columns_are_left_out() -> None:
    rows = np.arange(2_000)
    dates = pd.date_range("2024-01-01", periods=len(rows), freq="h")
    load = RANDOM.normal(size=len(rows))
    columns = columns_of({  # type: ignore[reportArgumentType]
        "load": load,
        "hour": dates.hour,
        "almost hour": np.where(rows == 5, 30, dates.hour),
        "minute": dates.minute + load,
        "row": rows,
        "flat": np.full(len(rows), 7.0),
        "empty": np.full(len(rows), np.nan),
        "ended": np.where(rows < 1_400, load, np.nan),
    })  # fmt: skip
    notes = {column.name: column.notes for column in columns}
    assert notes["load"] == []
    assert notes["hour"] == ["follows from the date, which the model reads"]
    assert notes["row"][0] == "counts the rows"
    assert (notes["flat"], notes["empty"]) == (["constant"], ["empty"])
    assert notes["ended"] == ["no value in validation and test", "600 missing"]
    (setting,) = suggest_columns(columns, [], [], Choices())
    assert (setting.key, setting.value) == ("data.drop", ["hour", "row", "flat", "empty", "ended"])
    assert "hour (follows from the date, which the model reads)" in setting.why
    assert suggest_columns(columns_of({"flat": np.ones(200)}), [], [], Choices()) == []


@pytest.mark.parametrize(
    ("columns", "chosen", "future", "past"),
    [
        (("load", "temperature", "holiday"), {}, ["holiday"], ["temperature"]),
        (("load", "Feiertag", "hour"), {}, ["Feiertag"], []),
        (("load", "T", "rain (mm)", "flag", "hour"), {}, [], ["T", "rain (mm)", "flag"]),
        (("load", "temperature until the end"), {}, ["temperature until the end"], []),
        (("load", "price", "temperature", "holiday"), {}, ["holiday"], []),  # two targets, or one: in doubt all
        (("solar generation", "wind power", "windows"), {}, [], []),
        (("temperature", "wind speed"), {}, [], []),
        (("load", "temperature", "holiday"), {"target": "temperature"}, ["holiday"], []),
        (("load", "temperature", "holiday"), {"past_covariates": ["temperature"]}, ["holiday"], []),
        (("load", "temperature", "holiday"), {"future_covariates": ["holiday"]}, [], []),
        (("load", "temperature", "holiday"), {"columns": ["load"]}, [], []),
    ],
)
def test_covariates_and_targets(columns: tuple[str, ...], chosen: dict, future: list[str], past: list[str]) -> None:
    grid = pd.date_range("2024-01-01", periods=2_000, freq="h")
    known = {
        "holiday": grid.day_of_year % 50 == 9,
        "Feiertag": grid.day % 9 == 3,
        "hour": grid.hour,
        "flag": RANDOM.integers(0, 2, 2_000),
    }
    values = np.column_stack([known.get(name, RANDOM.normal(size=2_000)) for name in columns]).astype(float)
    if "until the end" in columns[1]:
        values[-24:, 0] = np.nan
    panel = Panel.of_table(grid, values, [*columns], "h")
    found = {each.key: each.value for each in suggest_covariates(panel, Choices(steps="dates", **chosen))}
    expected = {"data.future_covariates": future, "data.past_covariates": past}
    assert found == {key: names for key, names in expected.items() if names}


def test_days_of_one_year_are_no_function_of_the_date() -> None:
    dates = pd.date_range("2024-01-01", periods=2_000, freq="h")
    days, months = (part.to_numpy() for part in (dates.day_of_year, dates.month))
    columns = columns_of({"open": days % 7 == days % 5, "month": months})
    assert [column.useless for column in columns] == ["", "follows from the date, which the model reads"]


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


@settings(max_examples=40)
@given(st.lists(st.floats(0.001, 1e5), max_size=5), st.integers(50, 90), st.integers(0, 2**16))
def test_numbers_far_from_all_others_are_gross_errors(planted: list[float], rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.exponential(size=rows)
    values[random.permutation(rows)[: len(planted)]] = planted
    values[random.permutation(rows)[:2]] = np.nan
    assert find_gross_errors(values)[2] == (gross_errors_by_hand(values) if rows >= 52 else [])


@pytest.mark.parametrize(
    "values",
    [
        np.append(np.linspace(-200, 700, 100), 3_000.0),  # a true price, 2.6 ranges of the others away
        np.arange(100.0) == 50,  # an event that comes once
        np.where(np.arange(100) // 4 == 5, 1e6, np.linspace(0, 1, 100)),  # four numbers of one size
    ],
)
def test_spikes_and_events_are_no_errors(values: np.ndarray) -> None:
    assert find_gross_errors(values.astype(float))[2] == []


def test_a_column_that_counts_rows() -> None:
    counters = [np.arange(20.0), np.arange(1.0, 30.0), np.arange(2_000.0, 2_050.0)]
    gap, both = np.arange(30.0), np.arange(30.0)
    gap[10:15] = np.nan  # rows that were left out after they were numbered
    both[10:15], both[15:] = np.nan, np.arange(12.0, 27.0)
    late = np.append(gap[:15], np.arange(16.0, 31.0))
    others = [np.arange(9.0), np.arange(0.0, 40.0, 2.0), np.append(np.arange(20.0), 0.0), np.full(20, 3.0), late]
    assert [is_counter(values) for values in (*counters, gap, both, *others)] == [True] * 5 + [False] * 5


def test_copies_are_found_with_their_shift_and_slow_columns_are_none() -> None:
    random = np.random.default_rng(0)
    walk, other = random.normal(size=(2, 400)).cumsum(1)
    noise = random.normal(size=400)
    columns = {
        "load": walk,
        "unrelated": other,
        "in kW": 1000 * walk + 7,
        "negative": -walk,
        "rounded": np.round(walk, 3),
        "a day earlier": np.concatenate([walk[:24], walk[:-24]]),
        "tomorrow": np.concatenate([walk[24:], walk[-24:]]),
        "slow": np.convolve(noise, np.full(50, 1 / 50), "same").cumsum(),
        "constant": np.ones(400),
    }
    found = {copy.name: copy for copy in find_copies(np.column_stack(list(columns.values())), list(columns))}
    assert set(found) == {"in kW", "negative", "rounded", "a day earlier", "tomorrow"}
    assert {copy.source for copy in found.values()} == {"load"}
    assert [found[name].shift for name in ("in kW", "a day earlier", "tomorrow")] == [0, 24, -24]
    assert find_copies(np.column_stack([walk[:40], walk[:40]]), ["a", "b"]) == []
    of_target = np.column_stack([noise[1:], noise[:-1], noise[:-1]])
    copies = find_copies(of_target, ["next", "load", "again"], target="load")  # the target is never the copy
    assert {copy.relation for copy in copies} == {"holds load of 1 row later", "repeats load"}
    assert {copy.name for copy in copies} == {"next", "again"}


def test_a_shared_event_or_code_makes_no_copy() -> None:
    random = np.random.default_rng(0)
    strike = np.arange(2_000) // 24 == 40
    first, second = random.normal(20, 2, size=(2, 2_000)).round()
    lost = random.random(2_000) < 0.02
    holiday = np.isin(np.arange(2_000) // 24, [3, 9, 20, 31, 40, 52, 71]).astype(float)
    columns = {
        "line 1": 1.0 * strike, "line 2": 5.0 * strike,
        "first": np.where(lost, -9999, first), "second": np.where(lost, -9999, second),
        "holiday": holiday, "closed": 2 * holiday,
    }  # fmt: skip
    found = find_copies(np.column_stack(list(columns.values())), list(columns))
    assert found == [Copy("closed", "holiday")]


def test_sums_and_differences_are_found_and_noise_is_none() -> None:
    a, b, c, other = np.random.default_rng(0).normal(50, 9, size=(4, 2_000)).cumsum(axis=1).round(1)
    slow = np.sin(np.arange(2_000) / 300)

    def relations(**columns: np.ndarray) -> list[str]:
        return [one.relation for one in find_sums(np.column_stack(list(columns.values())), list(columns))]

    assert relations(a=a, b=b, c=c, other=other, total=a + b + c) == ["total = a + b + c"]
    assert relations(total=(a + b + c).round(0), a=a, b=b, c=c) == ["total = a + b + c"]  # rounded
    assert relations(a=a, net=a - b, slow=slow, b=b, both=a + c, c=c) == ["a = net + b", "both = a + c"]
    assert relations(a=a, b=b, c=c, other=a + b + c + 0.5 * other) == []
    assert relations(a=a, b=b, c=c, mean=(a + b + c) / 3, slow=slow, constant=0 * slow) == []
    noise = np.random.default_rng(1).normal(size=(60, 100))
    assert find_sums(noise, [str(number) for number in range(100)]) == []


HOURS = pd.date_range("2024-01-01", "2024-03-29", freq="h")
BUSINESS = pd.bdate_range("2024-01-01", "2024-06-28")
EVENTS = pd.date_range("2024-01-01", periods=2_000, freq="5min")
EVENTS = EVENTS[np.sort(np.random.default_rng(0).permutation(2_000)[:900])]


@pytest.mark.parametrize(
    ("dates", "described"),
    [
        (BUSINESS.delete([14, 60]), "business days"),
        (HOURS[HOURS.day_of_week < 5], "sessions of 24 rows every hour on business days"),
        (HOURS[(HOURS.hour >= 8) & (HOURS.hour < 18) & (HOURS.day_of_week < 6)].delete(77),
         "sessions of 10 rows every hour on Mon, Tue, Wed, Thu, Fri, Sat"),
        (BUSINESS, None),  # no gap
        (HOURS.delete([100, 101, 900]), None),  # missing values
        (BUSINESS.delete(range(40, 50)), None),  # two weeks without rows  # type: ignore
        (pd.date_range("2024-01-01", periods=90).delete([20, 50]), None),
        (pd.date_range("2020-01-01", periods=40, freq="MS").delete([20]), None),
        (EVENTS, None),
    ],
)  # fmt: skip
def test_the_calendar_of_gaps(dates: pd.DatetimeIndex, described: str | None) -> None:
    panel = read_frame(pd.DataFrame({"x": np.arange(len(dates)) + 1.0}, index=dates))
    calendar = find_calendar_of_gaps(panel)
    assert (calendar and calendar.describe()) == described


def season_of_pulses(rows: int, part: int, cycles: float) -> np.ndarray:
    """A third of each season has a higher level, and a peak in every `part` rows."""
    t = np.arange(int(cycles * rows))
    high = t % rows < rows * 126 // 364
    noise = np.random.default_rng(0).normal(scale=0.2, size=len(t))
    return 8 + 2 * high * (t % part == 0) + 0.3 * (t % part == 1) + 0.5 * high + noise


def smooth_season(rows: float, cycles: float, part: int | None = None) -> np.ndarray:
    t = np.arange(int(cycles * rows))
    noise = np.random.default_rng(1).normal(scale=0.3, size=len(t))
    of_part = 0.0 if part is None else np.sin(2 * np.pi * t / part)
    return np.sin(2 * np.pi * t / rows) + 0.4 * np.sin(4 * np.pi * t / rows + 1) + of_part + noise


T = np.arange(3_640)
THIRD = np.cos(2 * np.pi * T / 364) + 1.2 * np.cos(6 * np.pi * T / 364)
"""The third harmonic is stronger, with 121.3 rows."""
WEEKDAYS = Calendar(slots=tuple(day * 86_400 for day in range(5)))


@pytest.mark.parametrize(
    ("values", "freq", "expected"),
    [
        (season_of_pulses(364, 7, 8.14), "D", {7: "a week", 364: "52 weeks"}),
        (season_of_pulses(350, 7, 10), "D", {7: "a week", 350: ""}),
        (smooth_season(365.25, 8, 7), "D", {7: "a week", 365: "a year"}),
        (smooth_season(13, 5), "4W-SUN", {13: "a year"}),
        (smooth_season(13, 12), "MS", {13: ""}),
        (season_of_pulses(8_736, 168, 4.1), "h", {8_736: "52 weeks"}),
        (season_of_pulses(8_736, 24, 9), "h", {24: "a day", 8_736: "52 weeks"}),
        (smooth_season(8_766, 5, 24), "h", {24: "a day", 8_760: "a year"}),
        (season_of_pulses(336, 48, 30), "30min", {48: "a day", 336: "a week"}),
        (season_of_pulses(260, 5, 9), "B", {5: "a week", 260: "52 weeks"}),
        (smooth_season(5, 300), WEEKDAYS, {5: "a week"}),
        (THIRD, "D", {364: "52 weeks"}),
        (np.random.default_rng(0).normal(size=2_964), "D", {}),
        (np.random.default_rng(0).normal(size=2_964).cumsum(), "D", {}),
    ],
)
def test_the_strongest_season_is_named(values: np.ndarray, freq: str | Calendar, expected: dict[int, str]) -> None:
    """Neither a side peak, such as a season without a week, nor a harmonic, nor the calendar beside it."""
    step, calendar = (freq, None) if isinstance(freq, str) else (freq.freq, freq)
    assert {season.rows: season.name for season in find_seasons(values[:, None], step, calendar)} == expected


def test_the_settings_follow_the_season() -> None:
    """A seasonal naive of 364 days has less than half the error of one of 7."""
    values = season_of_pulses(364, 7, 8.14)
    dates = pd.date_range("2015-01-01", periods=len(values), freq="D", name="ds")
    found = suggest_overrides(pd.DataFrame({"y": values}, index=dates), {"target": "y"}, {}, ())
    assert {"seq_len=364", "data.season=364"} <= set(found)


@pytest.mark.parametrize("amplitude", [0.5, 1.0, 3.0])
def test_the_strength_of_a_sine_in_noise(amplitude: float) -> None:
    t, noise = np.arange(24 * 400), np.random.default_rng(0).normal(size=24 * 400)
    values = (5 + amplitude * np.sin(2 * np.pi * t / 24) + noise + 0.001 * t)[:, None]
    expected = (amplitude**2 / 2) / (amplitude**2 / 2 + 1)
    assert seasonal_strength(values, 24)[0] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("freq", "periods"),
    [
        ("h", [24, 168, 8_736, 8_760]), ("D", [7, 364, 365]), ("B", [5, 260, 261]), ("W-SUN", [52]), ("MS", [12]),
        ("QS-JAN", [4]), ("7h", [24, 1_248]), ("YS-JAN", []), ("28D", [13]),
    ],
)  # fmt: skip
def test_the_calendar(freq: str, periods: list[int]) -> None:
    assert sorted(calendar_periods(freq)) == periods


def rows_of(values: np.ndarray, freq: str) -> list[int]:
    return [season.rows for season in find_seasons(values[:, None], freq)]


def test_seasons_are_found_and_noise_and_walks_have_none() -> None:
    t, noise = np.arange(4_000), np.random.default_rng(2).normal(size=4_000)
    day, workday = np.sin(2 * np.pi * t / 24), (t // 24 % 7 < 5).astype(float)
    assert rows_of(3 * day + noise, "h") == [24]
    assert rows_of(3 * day + 3 * workday + noise, "h") == [24, 168]
    assert rows_of(3 * np.sin(2 * np.pi * t / 37) + noise, "min") == [37]
    assert rows_of(3 * (t % 10 == 0) + 0.3 * noise, "D") == [10]
    assert rows_of(3 * np.sin(2 * np.pi * t / 37)[:3_600] + noise[:3_600], "20min") == [37]  # not 72, a day
    random, found = np.random.default_rng(3), []
    for freq, length in (("h", 600), ("h", 4_000), ("D", 1_500), ("MS", 120)):
        for _ in range(25):
            values = random.normal(size=length), random.normal(size=length).cumsum()
            found += [rows for each in values for rows in rows_of(each, freq)]
    assert len(found) <= 10  # of 200
