"""The table of keys: every key of every command has a row, and every row a key."""

from typing import Any

import pytest
from omegaconf import OmegaConf

from forecast.data.files.read_options import ReadOptions
from forecast.system import keys
from forecast.system.keys import (
    ROWS,
    RUN_EFFECTS,
    STATE,
    TABLE,
    VARIANT_EFFECTS,
    first_difference,
    identifying_overrides,
    identity,
    row_of,
    variant_id,
)
from tests.support.configurations import COMMANDS, choices, compose_choice, composed_once, with_values

OPEN = ("benchmark", "callbacks", "hydra", "logger", "model", "optimizer", "schedule", "trainer.strategy")
"""Groups whose options have keys of their own, the arguments of a class. The row of the group covers them."""


@pytest.fixture(scope="module")
def found() -> set[str]:
    """The keys of all commands and options, Hydra's own too."""
    names: set[str] = set()
    for command, overrides in [*((command, ()) for command in COMMANDS), *choices()]:
        config: Any = OmegaConf.to_container(compose_choice(command, overrides), throw_on_missing=False)
        names |= set(identity(config))
    return names


@pytest.mark.slow
def test_every_key_has_a_row_of_its_own(found: set[str]) -> None:
    """A new key of a file or of the trainer has no row by the prefix of its group alone.

    A field of `ReadOptions` may have none: the row of `data` covers it.
    """
    assert len(found) > 300
    closed = {name for name in found if not name.startswith(tuple(f"{group}." for group in OPEN))}
    assert len(closed) > 100
    reading = {f"data.{name}" for name in ReadOptions.option_names()}
    without = sorted(name for name in closed - reading if name not in ROWS and not is_of_hydra(name))
    assert without == []


def is_of_hydra(key: str) -> bool:
    """Whether a key tells Hydra how to create an object, as `_target_` does."""
    return key.rpartition(".")[2].startswith("_")


@pytest.mark.slow
def test_every_row_has_a_key(found: set[str]) -> None:
    used = {row.name for name in found if (row := row_of(name)) is not None}
    assert sorted({row.name for row in TABLE} - used) == []


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("optimizer.betas", "optimizer"),
        ("optimizer.lr", "optimizer.lr"),
        ("data.columns", "data.columns"),
        ("data.of_my_own", "data"),
        ("trainer.strategy._target_", "trainer.strategy"),
        ("hydra.launcher.init.address", "hydra.launcher"),
    ],
)
def test_the_longest_prefix_holds(key: str, row: str) -> None:
    assert row_of(key) is keys.ROWS[row]


# ---- what makes two runs the same


@pytest.mark.parametrize(
    ("override", "resumes", "is_variant"),
    [
        ("output_root=elsewhere", True, True),
        ("run_group=a", True, True),
        ("logger.mode=online", True, True),
        ("callbacks.progress.refresh_rate=1", True, True),
        ("resume=auto", True, True),
        ("run_name=a", False, True),
        ("refit=full", False, True),
        ("levels=[90]", False, True),
        ("data.path=a.csv", False, True),
        ("data.root=elsewhere", False, True),
        ("data.seed=5", False, True),
        ("seed=5", False, False),
        ("compile=true", False, False),
        ("optimizer.fused=false", False, False),
        ("data.batch_size=16", False, False),
        ("model.d_model=16", False, False),
        ("+model.of_my_own=16", False, False),
        ("+of_my_own=16", False, False),
    ],
)
def test_overrides_that_make_two_runs_the_same(override: str, resumes: bool, is_variant: bool) -> None:
    old, new = plain(), plain(override)
    assert (identity(old, RUN_EFFECTS) == identity(new, RUN_EFFECTS)) == resumes
    assert (identifying_overrides([override]) == []) == resumes
    if override != "seed=5":  # data.seed follows it
        assert (identity(old, VARIANT_EFFECTS) == identity(new, VARIANT_EFFECTS)) == is_variant


@pytest.mark.parametrize(
    ("override", "is_same"),
    [
        ("seed=5", True), ("output_root=/elsewhere", True), ("refit=full", True), ("data.path=/folder/b.csv", True),
        ("data.path=a.csv", False), ("model.d_model=16", False), ("attention=linear", False), ("pred_len=5", False),
        ("checkpoint=run", False),
    ],
)  # fmt: skip
def test_the_id_of_a_variant_is_that_of_its_seeds(override: str, is_same: bool) -> None:
    assert (variant_id(plain("data.path=b.csv")) == variant_id(plain("data.path=b.csv", override))) == is_same


def test_levels_are_part_of_the_model_where_it_has_quantiles() -> None:
    assert first_difference(identity(plain(), [STATE]), identity(plain("levels=[90]"), [STATE])) is None
    old, new = plain("loss=quantile"), plain("loss=quantile", "levels=[90]")
    assert first_difference(identity(old, [STATE]), identity(new, [STATE])) == ("levels", [80, 95], [90])


@pytest.mark.parametrize(
    "typed",
    ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "hydra.sweep.dir=a", "hydra.sweeper.n_trials=3"],
)
def test_how_jobs_are_started_does_not_tell_sweeps_apart(typed: str) -> None:
    searched = "hydra.sweeper.params.seed=1"
    assert identifying_overrides([typed, searched]) == [searched]


def plain(*overrides: str) -> dict[str, Any]:
    """The settings of a run with these overrides."""
    config = with_values(composed_once("data=etth1"), *(override.lstrip("+") for override in overrides))
    return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]
