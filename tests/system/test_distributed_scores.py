import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.distributed_pool import Case, Pool, evaluate, train, train_at_other_rates, train_on_other_data
from tests.support.models import ATTENTION_TYPES

cases = st.builds(
    Case, processes=st.integers(1, 4), val=st.integers(1, 30), test=st.integers(1, 30),
    batch_size=st.integers(1, 40), pred_len=st.integers(1, 3), columns=st.integers(1, 3), seed=st.integers(0, 9),
)  # fmt: skip


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    pool = Pool(4, tmp_path_factory.mktemp("stores"))
    yield pool
    pool.close()


@settings(max_examples=8, deadline=None)
@given(case=cases)
@example(Case(processes=4, val=1, test=1, batch_size=1))  # most processes have no window at all
@example(Case(processes=3, val=9, test=10, batch_size=3))  # the last batch has one window
def test_any_number_of_processes_scores_every_window_once(pool: Pool, case: Case) -> None:
    found = pool(evaluate, case)
    assert all(isinstance(one, dict) for one in found), found
    (alone,) = pool(evaluate, replace(case, processes=1, batch_size=1000))
    for one in found:
        assert one["count"] == case.test
        np.testing.assert_allclose(one["windows"], alone["windows"], rtol=1e-6, atol=1e-9)
        assert one["test"]["crps"] == pytest.approx(one["windows"][:, 2].mean(), rel=1e-6)
        for name, score in one["test"].items():
            assert score == pytest.approx(alone["test"][name], rel=1e-6), name
        for name, score in one["val"].items():
            assert score == pytest.approx(alone["val"][name], rel=1e-6, nan_ok=name == "crps"), name
        assert one["intervals"].keys() == alone["intervals"].keys()
        for name, score in one["intervals"].items():
            assert score == pytest.approx(alone["intervals"][name], rel=1e-5), name


steps = {
    "processes": st.integers(2, 4),
    "share": st.integers(1, 3),  # windows of each process in a step
    "attention": st.sampled_from(sorted(ATTENTION_TYPES)),
    "columns": st.integers(1, 3),
    "seed": st.integers(0, 9),
}


@settings(max_examples=5, deadline=None)
@given(**steps)
def test_steps_are_those_of_one_process(pool: Pool, **drawn: Any) -> None:
    check_steps(pool, **drawn)


@settings(max_examples=2, deadline=None)
@given(**steps)
def test_shared_out_parameters_learn_the_same(pool: Pool, **drawn: Any) -> None:
    check_steps(pool, strategy="fsdp", tolerance=1e-5, **drawn)


def test_processes_that_read_other_tables_or_settings_stop(pool: Pool) -> None:
    case = Case(processes=3, val=1, test=1, batch_size=3)
    table = f"{len(case.values())} rows from 2024-01-01 00:00:00 to 2024-03-10 00:00:00 with hash"
    advice = "give every process the same table, and type the same command on every machine"
    for error in pool(train_on_other_data, case):
        told = re.fullmatch(
            rf"ConfigError\('process 0 on .* has table={table} (\w+), process 1 on .* has {table} (\w+): {advice}'\)",
            error,
        )
        assert told, error
        assert told[1] != told[2]
    for error in pool(train_at_other_rates, case):
        assert "has optimizer.lr=0.001, process 1" in error
        assert f"has 0.002: {advice}" in error


def check_steps(pool: Pool, processes: int, share: int, tolerance: float = 1e-8, **drawn: Any) -> None:
    case = Case(processes, 1, 1, share * processes, **drawn)
    found = pool(train, case)
    assert all(isinstance(one, dict) for one in found), found
    (alone,) = pool(train, replace(case, processes=1))
    for step in range(3):
        together = [window for one in found for window in one["windows"][step]]
        assert sorted(together) == sorted(alone["windows"][step])
        assert len(together) == case.batch_size
    for one in found:
        assert one["rates"] == alone["rates"]
        assert one["weights"].keys() == alone["weights"].keys()
        for name, weights in one["weights"].items():
            np.testing.assert_allclose(weights, alone["weights"][name], rtol=1e-6, atol=tolerance, err_msg=name)
