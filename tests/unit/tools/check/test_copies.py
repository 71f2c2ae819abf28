"""Columns that repeat another column."""

import numpy as np

from forecast.tools.check.relations import (
    Copy,
    find_copies,
    find_copies_and_functions,
    find_functions,
    find_sums,
)


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


def test_functions_of_one_column_are_found_and_slow_or_noisy_columns_are_none() -> None:
    random = np.random.default_rng(0)
    load = 100 + random.normal(size=400).cumsum()
    columns = {
        "load": load,
        "root": np.sqrt(load),
        "inverse": 1000 / load,
        "rounded": np.round(np.log(load), 4),
        "high": (load > 100) * 1.0,
        "noisy": np.sqrt(load + random.normal(scale=0.1, size=400)),
        "earlier": np.sqrt(np.roll(load, 1)),
        "counter": np.arange(400.0),
        "squared counter": np.arange(400.0) ** 2,
        "constant": np.ones(400),
    }
    table, names = np.column_stack(list(columns.values())), list(columns)
    found = find_functions(table, names)
    assert {copy.name for copy in found} == {"root", "inverse", "rounded"}
    assert {copy.relation for copy in found} == {"is a function of load"}
    of_root = {copy.name: copy.source for copy in find_functions(table, names, target="root")}
    assert of_root["load"] == "root"
    assert "root" not in of_root


def test_a_copy_is_not_a_function_too() -> None:
    values = 5 + np.random.default_rng(0).normal(size=200)
    table = np.column_stack([values, 3 * values, values**3])
    assert find_copies_and_functions(table, ["a", "b", "c"]) == [
        Copy("b", "a", 0), Copy("c", "a", 0, is_function=True)
    ]  # fmt: skip


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
    assert found == {
        "subtotal": "is the sum first + second",
        "total": "is the sum third + subtotal",
    }
    assert find_sums(table[:40], names) == []


def test_a_copy_of_a_part_of_a_sum_is_named_as_a_copy_alone() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 200))
    table = np.column_stack([first, 2 * first, second, first + second])
    assert find_copies_and_functions(table, list("abcd")) == [
        Copy("b", "a", 0),
        Copy("d", "a + c", 0, is_sum=True),
    ]
