"""Columns that repeat another column."""

import numpy as np

from forecast.tools.check.copies import Copy, find_copies


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


def test_a_copy_of_a_copy_names_the_first_column() -> None:
    values = np.random.default_rng(0).normal(size=100)
    assert find_copies(np.column_stack([values] * 3), list("abc")) == [Copy("b", "a", 0), Copy("c", "a", 0)]


def test_the_target_is_never_the_copy() -> None:
    values = np.random.default_rng(0).normal(size=1_001)
    table = np.column_stack([values[1:], values[:-1], values[:-1]])
    found = find_copies(table, ["tomorrow", "load", "again"], target="load")
    assert set(found) == {Copy("tomorrow", "load", -1), Copy("again", "load", 0)}
    assert {copy.relation for copy in found} == {"holds load of 1 row later", "repeats load"}
