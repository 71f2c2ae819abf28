"""Facts about columns, copies and sums, each against a slow or closed form."""

from itertools import groupby

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecast.data import Panel
from forecast.tools.check.advice import Choices, suggest_columns, suggest_na_values
from forecast.tools.check.columns import (
    find_gross_errors,
    find_longest_run,
    find_sentinel,
    is_counter,
    measure_columns,
)
from forecast.tools.check.copies import Copy, find_copies, find_copies_and_sums, find_sums
from forecast.tools.check.gaps import split_parts

RANDOM = np.random.default_rng(0)


@given(st.lists(st.sampled_from([0.0, 1.0, np.nan]), min_size=1, max_size=40))
def test_the_longest_run(values: list[float]) -> None:
    """A missing value equals no other value."""
    length, start = find_longest_run(np.array(values))
    numbers = [len(list(group)) for value, group in groupby(values) if value == value]
    assert length == max(numbers, default=1)
    assert length == 1 or len(set(values[start : start + length])) == 1


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
        "hour, again": dates.hour,
        "almost hour": np.where(rows == 5, 30, dates.hour),
        "minute": dates.minute + load,
        "row": rows,
        "flat": np.full(len(rows), 7.0),
        "empty": np.full(len(rows), np.nan),
        "ended": np.where(rows < 1_400, load, np.nan),
        "begun": np.where(rows < 300, 0, load),
        "spikes": np.where(rows % 900 == 1, 1e4 + rows, load),
    })  # fmt: skip
    notes = {column.name: column.notes for column in columns}
    assert notes["load"] == []
    assert notes["hour"] == ["follows from the date (data.drop=[hour])"]
    assert notes["hour, again"] == ["follows from the date ('data.drop=[\"hour, again\"]')"]
    assert notes["row"][0] == "counts the rows (data.drop=[row])"
    assert (notes["flat"], notes["empty"]) == (["constant"], ["empty"])
    assert notes["ended"] == ["no value in validation and test", "600 missing"]
    assert notes["begun"][-1] == "one value 300 times from 2024-01-01"
    assert notes["spikes"] == ["3 outliers"]
    (setting,) = suggest_columns(columns, [], [], Choices())
    assert setting.value == ["load", "almost hour", "minute", "begun", "spikes"]
    assert "hour (follows from the date, which the model reads)" in setting.why
    wide = {f"c{number}": RANDOM.normal(size=200) for number in range(25)} | {"flat": np.ones(200)}
    (setting,) = suggest_columns(columns_of(wide), [], [], Choices())
    assert (setting.key, setting.value) == ("data.drop", ["flat"])


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
    assert find_gross_errors(values)[2] == (gross_errors_by_hand(values) if rows >= 52 else [])


def with_zeros(values: np.ndarray, zeros: int) -> np.ndarray:
    values = np.random.default_rng(0).permutation(values.astype(float))
    values[[100, 200, 300, 400][:zeros]] = 0
    return values


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        (np.append(np.linspace(-200, 700, 100), 3_000.0), []),  # a true price, 2.6 ranges of the others away
        (np.arange(100.0) == 50, []),  # an event that comes once
        (np.where(np.arange(100) // 4 == 5, 1e6, np.linspace(0, 1, 100)), []),  # four numbers of one size
        (with_zeros(np.linspace(22_000, 42_000, 500), 1), [100]),
        (with_zeros(np.linspace(-42_000, -22_000, 500), 3), [100, 200, 300]),
        (with_zeros(np.linspace(22_000, 42_000, 500), 4), []),
        (with_zeros(np.linspace(2_000, 42_000, 500), 1), []),
        (with_zeros(np.linspace(-22_000, 42_000, 500), 1), []),
        (with_zeros(1 + np.arange(500) % 4, 1), []),  # one step from counts
    ],
)
def test_spikes_and_zeros(values: np.ndarray, rows: list[int]) -> None:
    assert find_gross_errors(values.astype(float))[2] == rows


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


def test_sums_of_rounded_columns_are_found_and_near_sums_are_none() -> None:
    random = np.random.default_rng(0)
    first, second, third = 32_000 + 1_000 * random.normal(size=(3, 400)).cumsum(1)
    columns = {
        "first": np.round(first, 1),
        "second": np.round(second, 1),
        "third": np.round(third, 1),
        "subtotal": np.round(first + second, 1),
        "total": np.round(first + second + third, 1),
        "with noise": first + second + random.normal(size=400),
        "unrelated": random.normal(size=400),
        "constant": np.ones(400),
        "zero": np.zeros(400),
        "empty": np.full(400, np.nan),
    }
    table, names = np.column_stack(list(columns.values())), list(columns)
    table[:5, 0] = np.nan  # the other rows are compared
    table[100, 1] = table[200, 4] = 0  # gross errors
    found = {copy.name: copy.relation for copy in find_sums(table, names)}
    assert found == {"subtotal": "is the sum first + second", "total": "is the sum third + subtotal"}
    assert find_sums(table[:40], names) == []
    first, second = random.normal(size=(2, 200))
    table = np.column_stack([first, 2 * first, second, first + second])  # a copy is no part of a sum
    expected = [Copy("b", "a"), Copy("d", "a + c", is_sum=True)]
    assert find_copies_and_sums(table, list("abcd"), None) == expected
