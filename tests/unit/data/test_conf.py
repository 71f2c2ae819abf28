"""The data files of the configuration, composed as the entry points compose them and instantiated."""

from dataclasses import replace
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig

from forecast.data import DataModule
from tests.support.csv_files import numbers, real_file

pytestmark = pytest.mark.slow

CONF = Path(__file__).parents[3] / "conf"
NAMES = sorted(file.stem for file in (CONF / "data").glob("*.yaml"))


def config(name: str, *overrides: str) -> DictConfig:
    lengths = ["+seq_len=48", "+pred_len=24", "+features=M", "+seed=3"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(overrides=[f"+data={name}", *lengths, *overrides]).data


@pytest.mark.parametrize("name", NAMES)
def test_every_set_instantiates(name: str, tmp_path: Path):
    numbers(60, columns=("load", "OT")).to_csv(tmp_path / "a.csv", index=False)
    downloaded, generated = name.startswith(("ett", "electricity")), name in ("load", "recall", "sample")
    place = (
        [f"data.root={tmp_path}", "data.path=a.csv"] if downloaded else [f"data.path={tmp_path / 'a.csv'}"]
    )
    data = instantiate(config(name, *(place if not generated else [])))
    assert isinstance(data, DataModule)
    assert (data.name, data.seq_len, data.pred_len, data.options.features, data.options.seed) == (
        name,
        48,
        24,
        "M",
        3,
    )
    assert data.title == ("a.csv" if name in ("csv", "long", "store") else name)
    data.options = replace(data.options, name="mine")
    assert data.title == "mine"
    assert data.options.split == config(name).split


@pytest.mark.parametrize("name", ["etth1", "etth2"])
def test_the_published_hashes_are_those_of_the_files(name: str):
    path = real_file({"etth1": "ETTh1.csv", "etth2": "ETTh2.csv"}[name])
    data = instantiate(config(name, f"data.root={path.parent}", "data.url=null"))
    data.setup()
    assert data.n_windows == {"train": 8569, "val": 2857, "test": 2857}
