import contextlib
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from forecast.cli.compose import compose_command, describe_keys, find_named_files
from forecast.system.errors import CheckpointError, ConfigError, DataError
from tests.support.refusals import Refusal

pytestmark = pytest.mark.slow


def override(arguments: str, says: str) -> Refusal:
    return Refusal(arguments, says, ConfigError, lambda folder: compose_command("train", arguments.split()))


def missing(what: str, says: str, kind: type[Exception], **settings: Any) -> Refusal:
    """Settings that name a file which is not in the working directory."""

    def call(folder: Path) -> None:
        (folder / "link.csv").symlink_to("nowhere.csv")
        with contextlib.chdir(folder):
            find_named_files(OmegaConf.create(settings))

    return Refusal(what, says, kind, call)


def own_attention(content: str, argument: str, says: str) -> Refusal:
    def call(folder: Path) -> None:
        (folder / "attention").mkdir()
        (folder / "attention" / "mine.yaml").write_text(f"{content}\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FORECAST_CONF", str(folder))
            compose_command("train", [argument])

    return Refusal(f"{content}, {argument}", says, ConfigError, call)


def own_search(params: str, argument: str, says: str) -> Refusal:
    def call(folder: Path) -> None:
        (folder / "search").mkdir()
        sweeper = f"hydra: {{sweeper: {{params: {{{params}}}}}}}"
        content = f"# @package _global_\ndefaults: [{{override /hydra/sweeper: optuna}}, _self_]\n{sweeper}\n"
        (folder / "search" / "mine.yaml").write_text(content)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FORECAST_CONF", str(folder))
            compose_command("train", ["search=mine", "optimizer.lr=interval(0.1,0.2)", argument])

    return Refusal(f"{params}, {argument}", says, ConfigError, call)


OWN_FILES = [
    own_attention("width: 3", "attention=mine", "attention=mine: … must name the class, as _target_: module.Class, and its options beside it"),
    own_attention("_target_: forecast.attention.FastformerAttention", "cross=mine", "cross=mine: forecast.attention.FastformerAttention cannot be used: fastformer attention cannot serve role 'cross'; it serves self, causal"),
    own_search("optimizer.lr: 'interval(1, 9000)', seed: 'range(5, -2, -1)'", "features=M", "seed=-1: a number from 0 to 4,294,967,295 is needed"),
    own_search("optimizer.lr: 'interval(1, 9000)', attention: 'choice(full, ful)'", "features=M", "attention=ful: there is no such attention; did you mean full? There are …."),
    own_search("model.encoder_layers: 'int(interval(1, 4))'", "model=mlp", "model.encoder_layers: the chosen model has no such key; these options have it: …"),
    own_attention("{_target_: forecast.attention.FullAttention, width: '${nothing}'}", "attention=mine", "model.attention.encoder.width: Interpolation key 'nothing' not found"),
]  # fmt: skip
OVERRIDES = [
    override("attention=full,linaer", "attention=linaer: there is no such attention; did you mean linear? There are …."),
    override("experiment=informer2020/etth1", "experiment=informer2020/etth1: there is no such experiment; did you mean informer2020/etth1_s? There are …."),
    override("experiment=informer2020/etth1_m pred_len=96", "seq_len: pred_len=96: this experiment has settings for the horizons 24, 48, 168, 336, 720 only"),
    override("atention=linear", "atention: there is no such key; did you mean attention? (--cfg job lists them all)"),
    override("d_model=64", "d_model: there is no such key; did you mean model.d_model? (--cfg job lists them all)"),
    override("data.path=x.csv", "data.path: the chosen data has no such key; these options have it: data=csv, data=electricity, data=etth1, data=etth2, data=ettm1, data=ettm2, data=long, data=store"),
    override("model.share_layers=true", "model.share_layers: the chosen model has no such key; these options have it: model=informer, model=informer_stack"),
    override("output_dir=x", "output_dir: it is computed; set output_root=runs instead"),
    override("optimizer.lr=fast", "optimizer.lr=fast: a number is needed, as in optimizer.lr=0.001"),
    override("optimizer.lr=interval(0.001,2000)", "optimizer.lr=2000.0: a number from 0 to 1,000 is needed"),
    override("ema=abc", "ema=abc: a number from 0 to 1 is needed"),
    override("ema=true", "ema=True: a number from 0 to 1 is needed"),
    override("model.encoder_layers=interval(1,4)", "model.encoder_layers=interval(1,4): whole numbers are needed, as in int(interval(1,4))"),
    override("compile=perhaps", "compile=perhaps: true or false is needed"),
    override("seed=1,2", "seed=1,2: several values: give one of them, or a list in brackets; forecast.train, forecast.backtest and forecast.benchmark run each of them with -m"),
    override("my/own.csv", "my/own.csv: cannot be read; write key=value; text that holds commas, brackets or spaces as \"key='the text'\""),
]  # fmt: skip
FILES = [
    missing("a file", "load.csv: no such file", DataError, data={"name": "csv", "path": "load.csv"}),
    missing("a broken link", "link.csv: no such file: a broken link", DataError, data={"name": "csv", "path": "link.csv"}),
    missing("a checkpoint", "runs/none: there is no such checkpoint file or run folder", CheckpointError, checkpoint="runs/none"),
    missing("the newest checkpoint", "checkpoint=latest: no finished run is below runs: give a run folder or a file", CheckpointError, checkpoint="latest"),
    Refusal("a key without a comment", "conf/ has no comment on the key data.nothing'", KeyError, lambda folder: describe_keys("data.nothing", _root_=compose_command("train", ["data=sample"]))),
]  # fmt: skip


@pytest.mark.parametrize("refusal", [*OVERRIDES, *OWN_FILES, *FILES], ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"checkpoint": None, "data": {"name": "csv", "path": None}},
        {"checkpoint": "run", "data": {"path": "other.csv"}},  # what the file must be depends on the checkpoint
        {"data": {"name": "csv", "path": "s3://bucket/load.csv"}},
        {"data": {"name": "store", "path": "load.store"}},
        {"data": {"name": "csv", "path": "run"}},
    ],
)
def test_everything_else_is_left_to_its_reader(settings: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    find_named_files(OmegaConf.create(settings))


def test_latest_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends during the command does not become the run that the command reads."""
    monkeypatch.chdir(tmp_path)
    config = OmegaConf.create({"checkpoint": "latest"})
    for name in ("old", "new"):
        (tmp_path / "runs" / name / "checkpoints").mkdir(parents=True)
        (tmp_path / "runs" / name / "metrics.json").touch()
        find_named_files(config)
    assert config.checkpoint == str(Path("runs", "old"))
