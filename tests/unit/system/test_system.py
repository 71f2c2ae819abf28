"""The user's own options, whole files, the memory of a container; the table of keys has every key of every command."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from omegaconf import OmegaConf

from forecast.cli.main import one_line
from forecast.data.files.read_options import ReadOptions
from forecast.system import memory
from forecast.system.errors import CONF, ConfigError
from forecast.system.files import atomic_file, atomic_folder
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
from forecast.system.location import conf_files, conf_folders, known_targets
from tests.support.configurations import COMMANDS, choices, compose_choice, composed_once, with_values


def test_files_of_both_folders_are_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [path.stem for path in conf_files("encoder")]
    (tmp_path / "attention").mkdir()
    for name in ("full", "window_mean"):
        (tmp_path / "attention" / f"{name}.yaml").write_text("_target_: mine.WindowMeanAttention\n")
    monkeypatch.setenv("FORECAST_CONF", str(tmp_path))
    assert conf_folders() == [CONF, tmp_path]
    assert {path.stem for path in conf_files("encoder")} == {*before, "window_mean"}
    assert [path.parent for path in conf_files("encoder") if path.stem == "full"] == [CONF / "attention"]
    assert "mine.WindowMeanAttention" in known_targets("attention")
    monkeypatch.delenv("FORECAST_CONF")
    assert "mine.WindowMeanAttention" not in known_targets()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORECAST_CONF", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError):
        conf_folders()


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize("written", [atomic_file, atomic_folder])
def test_a_full_disk_is_reported_with_the_file_that_is_written(written, tmp_path: Path) -> None:
    path = tmp_path / "forecast.csv"
    with pytest.raises(OSError, match="No space left") as failed, written(path), FULL.open("wb", buffering=0) as file:
        file.write(b"x")
    assert failed.value.errno == errno.ENOSPC
    assert one_line(failed.value) == f"{path}: No space left on device"
    assert list(tmp_path.iterdir()) == []


GIB = 2**30


@pytest.mark.parametrize(("limit", "expected"), [("max", 100), (f"{32 * GIB}", 30), (f"{512 * GIB}", 100)])
def test_pages_of_files_that_were_read_are_available(limit: str, expected: int, tmp_path: Path, monkeypatch) -> None:
    """A container of 32 GiB that uses 30 of them, 28 of which are cached files."""
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{30 * GIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon {2 * GIB}\ninactive_file {28 * GIB}\nactive_file 0\n")
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100 * GIB))
    assert memory.available() == expected * GIB


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
    """Not that of its group alone, but for fields of `ReadOptions`, which the row of `data` covers."""
    assert len(found) > 300
    closed = {name for name in found if not name.startswith(tuple(f"{group}." for group in OPEN))}
    assert len(closed) > 100
    reading = {f"data.{name}" for name in ReadOptions.option_names()}
    of_hydra = {name for name in closed if name.rpartition(".")[2].startswith("_")}  # such as _target_
    assert sorted(closed - reading - of_hydra - ROWS.keys()) == []


@pytest.mark.slow
def test_every_row_has_a_key(found: set[str]) -> None:
    used = {row.name for name in found if (row := row_of(name)) is not None}
    assert sorted({row.name for row in TABLE} - used) == []


# ---- what makes two runs the same


@pytest.mark.parametrize(
    ("override", "resumes", "is_variant"),
    [
        ("output_root=elsewhere", True, True), ("run_group=a", True, True), ("logger.mode=online", True, True),
        ("callbacks.progress.refresh_rate=1", True, True), ("resume=auto", True, True), ("run_name=a", False, True),
        ("refit=full", False, True), ("levels=[90]", False, True), ("data.path=a.csv", False, True),
        ("data.root=elsewhere", False, True), ("data.seed=5", False, True), ("seed=5", False, False),
        ("compile=true", False, False), ("optimizer.fused=false", False, False), ("data.batch_size=16", False, False),
        ("model.d_model=16", False, False), ("+model.of_my_own=16", False, False), ("+of_my_own=16", False, False),
    ],
)  # fmt: skip
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
    "typed", ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "hydra.sweep.dir=a", "hydra.sweeper.n_trials=3"]
)
def test_how_jobs_are_started_does_not_tell_sweeps_apart(typed: str) -> None:
    searched = "hydra.sweeper.params.seed=1"
    assert identifying_overrides([typed, searched]) == [searched]


def plain(*overrides: str) -> dict[str, Any]:
    config = with_values(composed_once("data=etth1"), *(override.lstrip("+") for override in overrides))
    return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]
