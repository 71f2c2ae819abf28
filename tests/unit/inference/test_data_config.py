from pathlib import Path
from typing import Any

import pytest
from hydra.utils import get_method
from omegaconf import OmegaConf

from forecast.data.module import LONG, STORE, TABLE, option_names
from forecast.data.store import DESCRIPTION
from forecast.inference.model_data import choose_data_config
from forecast.system.errors import CONF
from tests.support.configurations import composed_once, with_values

pytestmark = pytest.mark.slow

SETS = sorted(path.stem for path in (CONF / "data").glob("*.yaml"))


def settings_of(name: str, **values: Any) -> dict[str, Any]:
    """The data settings of a run with data=NAME and these values."""
    config: Any = OmegaConf.to_container(with_values(composed_once(f"data={name}")).data, resolve=True)
    return {**config, **values}


def choose(saved: dict[str, Any], id_column: str | None = None, **given: Any) -> dict[str, Any]:
    state = {"id_column": id_column, "date_column": "day", "stamp": 0}
    return choose_data_config(Path("best.ckpt"), saved, ["load", "heat"], given, state)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A folder that is recognised as a store."""
    (tmp_path / DESCRIPTION).touch()
    return str(tmp_path)


@pytest.mark.parametrize("name", SETS)
def test_a_model_of_every_set_reads_another_file(name: str, store: str) -> None:
    """With options that the source of the file takes, and with the rows of the file as test rows."""
    for path in ("new.csv", store):
        chosen = choose(settings_of(name), path=path)
        assert chosen["_target_"] == (STORE if path == store else LONG if name == "long" else TABLE)
        assert chosen.keys() - option_names(get_method(chosen["_target_"])) == {"_target_", "_convert_"}
        assert (chosen["path"], chosen["name"], chosen["split"]) == (path, Path(path).name, "test")


def test_settings_of_one_file_do_not_apply_to_another() -> None:
    own: dict[str, Any] = {"rows": ["2020-01-01", None], "start": "2020-01-01", "drop": ["No"]}
    own |= {"future_path": "next.csv"}
    kept = {"separator": ";", "past_covariates": ["heat"]}
    table = choose(settings_of("csv", path="old.csv", **kept, **own), path="new.csv")
    assert own.keys() & table.keys() == set()
    assert {key: table[key] for key in (*kept, "columns")} == {**kept, "columns": ["load"]}
    own |= {"ids": ["a"], "static_path": "static.csv"}
    long = choose(settings_of("long", path="old.csv", id_column="shop", **own), path="new.csv")
    assert own.keys() & long.keys() == set()
    assert (long["id_column"], long["columns"]) == ("shop", ["load", "heat"])


def test_settings_of_the_file_of_training_are_kept() -> None:
    saved = settings_of("csv", path="old.csv", rows=["2020-01-01", None])
    assert choose(saved, path="old.csv") == choose(saved) == saved


@pytest.mark.parametrize("given", [{"path": "sets/ETTh1.csv"}, {"path": "ETTh1.csv", "root": "sets"}])
def test_a_file_below_the_root_of_training_is_that_of_training(given: dict[str, str]) -> None:
    saved = settings_of("etth1", root="sets")
    assert {**choose(saved, **given), "url": None} == choose(saved)


def test_a_model_of_a_store_of_many_series_reads_long_files(store: str) -> None:
    saved = settings_of("store", path="old.store", past_covariates=["heat"])
    long = choose(saved, id_column="shop", path="new.csv")
    assert long["_target_"] == LONG
    assert long.keys() - option_names(get_method(LONG)) == {"_target_", "_convert_"}
    assert (long["id_column"], long["date_column"], long["eval_stride"]) == ("shop", "day", 1)
    assert (long["columns"], long["past_covariates"]) == (["load"], ["heat"])
    assert choose(saved, id_column="shop", path=store)["_target_"] == STORE


def test_another_set_is_read_with_the_settings_of_the_model() -> None:
    saved = settings_of("sample", scaler="robust", fill="linear", target="load", batch_size=7, season=12)
    chosen = choose(saved, **settings_of("etth2"))
    kept = {"scaler": "robust", "fill": "linear", "target": "load", "season": 12}
    assert {key: chosen[key] for key in kept} == kept
    assert (chosen["name"], chosen["batch_size"], chosen["split"]) == ("etth2", "auto", [12, 4, 4])
