"""What strangers may hand to a user, checkpoints, command lines, names, addresses, runs nothing and leaks nothing."""

import copy
import pickle
import shutil
import sys
import zipfile
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from forecast import load
from forecast.checkpoints.contents import SAFE_NAMES, read_plain
from forecast.checkpoints.file import safe_load
from forecast.cli import compose, overrides, safety
from forecast.cli.compose import compose_command
from forecast.cli.main import main_with_run_folder
from forecast.inference.model_data import read_model_data
from forecast.system import hydra_internals, location
from forecast.system.errors import CheckpointError, ConfigError, ForecastError
from tests.support import hostile_checkpoints as hostile
from tests.support.commands import answer, train_here
from tests.unit.test_import_graph import COMMANDS

Content = dict[str, Any]


@pytest.fixture(scope="module")
def last(run: Path) -> Content:
    return safe_load(run / "checkpoints" / "last.ckpt")


@pytest.fixture
def best(run: Path) -> Content:
    return safe_load(run / "checkpoints" / "best.ckpt")


# ---- the attacks are real: unguarded, they run


@pytest.mark.parametrize("name", sorted({*hostile.CALLS} - {"getattr"}))  # names a method and does not call it
def test_a_pickle_that_is_trusted_runs(best: Content, tmp_path: Path, name: str) -> None:
    path, ran = tmp_path / "hostile.ckpt", tmp_path / "ran"
    hostile.CALLS[name](best, path, ran)
    if name == "no archive":
        pickle.loads(path.read_bytes())
    else:
        torch.load(path, weights_only=False)
    assert ran.exists()


def test_a_target_that_is_trusted_runs(tmp_path: Path) -> None:
    instantiate(hostile.target(tmp_path / "ran"))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", hostile.ALL)
def test_a_hostile_checkpoint_is_refused_in_a_line(best: Content, tmp_path: Path, name: str) -> None:
    path, ran = tmp_path / "hostile.ckpt", tmp_path / "ran"
    hostile.ALL[name](best, path, ran)
    before = psutil.Process().memory_info().rss
    with suppress(ForecastError):  # without its tensors, some may be read
        read_model_data(path).read_data({})
    assert not ran.exists()
    with pytest.raises(CheckpointError) as refused:
        load(path).read_panel()
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)
    assert not ran.exists()
    assert psutil.Process().memory_info().rss - before < 200e6


@pytest.mark.parametrize("command", ["predict", "evaluate", "explain", "export", "backtest", "train"])
def test_every_command_refuses_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    run: Path, last: Content, tmp_path: Path, command: str,
) -> None:  # fmt: skip
    shutil.copy(run.parent.parent / "load.csv", tmp_path)
    path, ran = tmp_path / "hostile.ckpt", tmp_path / "ran"
    hostile.ALL["os.system"](copy.deepcopy(last), path, ran)
    before = set(tmp_path.iterdir())
    if command == "train":
        status = train_here(monkeypatch, tmp_path, f"checkpoint={path}", "trainer.max_epochs=2", "logger=[]")
    else:
        status = answer(monkeypatch, command, tmp_path, f"checkpoint={path}")
    assert status == 2
    assert not ran.exists()
    errors = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("warning: ")]
    assert len(errors) == 1, errors
    assert errors[0].startswith("error: ")
    assert {path for path in tmp_path.iterdir() if path.suffix != ".log"} <= before | {tmp_path / "runs"}


def test_resume_refuses_it(monkeypatch: pytest.MonkeyPatch, capfd, run: Path, last: Content, tmp_path: Path) -> None:
    work, ran = tmp_path / "work", tmp_path / "ran"
    work.mkdir()
    shutil.copy(run.parent.parent / "load.csv", work)
    folder = work / "runs" / run.name
    shutil.copytree(run, folder)
    (folder / "metrics.json").unlink()
    for path in folder.glob("checkpoints/last*.ckpt"):
        hostile.ALL["os.system"](copy.deepcopy(last), path, ran)
    text = (folder / "config.yaml").read_text().replace(str(run.parent.parent), str(work))
    (folder / "config.yaml").write_text(text)
    status = train_here(monkeypatch, work, "trainer.max_epochs=1", "logger=[]", "resume=auto")
    captured = capfd.readouterr()
    assert f"resuming the run in runs/{run.name}" in captured.out.replace(f"{work}/", "")
    assert not ran.exists()
    assert status == 2
    assert "Traceback" not in captured.err


def test_a_refit_makes_no_optimizer_of_a_checkpoint(monkeypatch, capfd, run: Path, best: Content, tmp_path) -> None:
    shutil.copy(run.parent.parent / "load.csv", tmp_path)
    for group in ("optimizer", "schedule"):
        content = copy.deepcopy(best)
        hostile.in_settings(group)(content, tmp_path / "hostile.ckpt", tmp_path / "ran")
        given = (f"checkpoint={tmp_path}/hostile.ckpt", "refit_every=20", "steps=20")
        assert answer(monkeypatch, "backtest", tmp_path, *given) == 2
        assert f"error: {tmp_path}/hostile.ckpt: " in capfd.readouterr().err
        assert not (tmp_path / "ran").exists()


def test_a_run_folder_is_read_as_data(monkeypatch: pytest.MonkeyPatch, capfd, run: Path, tmp_path: Path) -> None:
    """Comparing runs makes nothing that a configuration names; YAML that calls or repeats itself is excluded."""
    for name in ("good", "target", "tag", "repeated", "deep"):
        shutil.copytree(run, tmp_path / "runs" / name)
    folder = tmp_path / "runs"
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["data"]["extra"] = hostile.target(tmp_path / "ran")
    (folder / "target" / "config.yaml").write_text(yaml.safe_dump(config))
    bombs = {
        "tag": f"pred_len: 1\ntrainer: !!python/object/apply:os.system ['touch {tmp_path}/ran']\n",
        "repeated": "pred_len: 1\ntrainer: 1\na0: &a0 {x: 1}\n"
        + "".join(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 40)),
        "deep": "pred_len: 1\ntrainer: " + "[" * 100_000,
    }
    for name, text in bombs.items():
        (folder / name / "config.yaml").write_text(text)
    status = answer(monkeypatch, "compare", tmp_path, "runs=[runs]")
    captured = capfd.readouterr()
    assert status == 0, captured.err
    assert not (tmp_path / "ran").exists()
    for name in bombs:
        assert f"excluded: {name}: " in captured.out


ATTACKS = {
    "the model": "model._target_=torch.hub.load",
    "the data": "data._target_=pandas.read_pickle",
    "a callback": "+callbacks.x._target_=os.system",
    "a logger": "logger.wandb._target_=os.system",
    "the trainer": "trainer._target_=subprocess.run",
    "the optimizer": "optimizer._target_=builtins.exec",
    "a class beside ours": "model._target_=forecast.data.read_table",
    "a class below ours": "model._target_=forecast.models.Informer.register_module",
    "a method finder": "model.dropout={_target_: hydra.utils.get_method, path: os.system}",
    "nested": "+trainer.plugins=[{_target_: os.system, command: id}]",
    "in a mapping": "+x={a: {b: [{_target_: os.system}]}}",
    "by reference": "model._target_=${x}",
    "made of text": "+callbacks.x='${oc.create:\"{_target_: os.system}\"}'",
    "decoded": "+callbacks.x='${oc.decode:\"{_target_: os.system}\"}'",
    "no text": "model._target_=[os.system]",
    "hydra's callback": "+hydra.callbacks.x._target_=os.system",
    "hydra's own callback": "hydra.callbacks.sweep._target_=os.system",
    "hydra's launcher": "hydra.launcher._target_=os.system",
    "in hydra's launcher": "+hydra.launcher.x._target_=os.system",
    "hydra's sweeper": "hydra.sweeper._target_=os.system",
    "hydra's text": "+hydra.callbacks.x='${oc.create:\"{_target_: os.system, x: ${hydra:runtime.cwd}}\"}'",
    "a handler": "hydra.job_logging.handlers.console.class=subprocess.Popen",
    "a factory": "+hydra.job_logging.handlers.x={(): os.system}",
    "a stream": "hydra.job_logging.handlers.console.stream=ext://os.system",
    "a stream by reference": "hydra.job_logging.handlers.console.stream=${x}",
    "hydra's handler": "+hydra.hydra_logging.handlers.x.class=os.system",
    "a search path": "hydra.searchpath=[pkg://this]",
    "a search space": "hydra.sweeper.custom_search_space=os.system",
}


def test_settings_that_repeat_themselves_without_end_are_refused() -> None:
    repeated = (f"a{n}: {{x: '${{a{n - 1}}}', y: '${{a{n - 1}}}'}}\n" for n in range(1, 40))
    with pytest.raises(ConfigError, match="without end"):
        safety.check_targets(OmegaConf.create("a0: {x: 1}\n" + "".join(repeated)), frozenset())


@pytest.mark.parametrize("flag", safety.FLAGS)
def test_settings_come_from_conf_alone(flag: str) -> None:
    typed = dict.fromkeys(safety.FLAGS)
    safety.check_flags(Namespace(**typed))
    with pytest.raises(ConfigError, match="settings come only from conf/ and the command line"):
        safety.check_flags(Namespace(**{**typed, flag: "/elsewhere"}))


def looked_at(given: list[str]) -> DictConfig:
    """A composed command whose targets are checked."""
    config = compose_command("train", given)
    safety.check_composed(config)
    return config


@pytest.mark.parametrize("name", ATTACKS)
def test_the_command_line_makes_only_what_conf_names(name: str) -> None:
    given = ["+x=ext://os.system", ATTACKS[name]] if "${x}" in ATTACKS[name] else [ATTACKS[name]]
    with pytest.raises(ConfigError) as refused:
        looked_at(given)
    assert "this" not in sys.modules
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "given",
    [
        [], ["search=informer"], ["hydra/launcher=joblib"], ["logger=[wandb,csv,tensorboard]"], ["callbacks=default"],
        ["hydra/job_logging=stdout", "hydra.job_logging.root.level=DEBUG"],
        ["hydra.sweeper.sampler.seed=1", "search=informer"],
        ["hydra.run.dir=x/${now:%Y}"], ["experiment=informer2020/etth1_m", "attention=linear", "cross=nystrom"],
    ],
)  # fmt: skip
def test_the_settings_of_the_project_pass_the_checks(given: list[str]) -> None:
    looked_at(given)


def test_a_class_of_ones_own_is_named_in_a_file_or_in_the_environment(monkeypatch, tmp_path: Path) -> None:
    own = "model.attention.encoder._target_=forecast.attention.MineAttention"
    with pytest.raises(ConfigError):
        looked_at([own])
    monkeypatch.setenv("FORECAST_TARGETS", "a.B:forecast.attention.MineAttention")
    looked_at([own])
    monkeypatch.delenv("FORECAST_TARGETS")
    shutil.copytree(location.CONF, tmp_path / "conf")
    for module in (compose, location, hydra_internals, overrides, location):
        monkeypatch.setattr(module, "CONF", tmp_path / "conf")
    text = (location.CONF / "attention" / "linear.yaml").read_text()
    (location.CONF / "attention" / "mine.yaml").write_text(text.replace("LinearAttention", "MineAttention"))
    looked_at(["attention=mine"])
    assert "forecast.attention.MineAttention" in location.known_targets("attention")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_looks_first(monkeypatch: pytest.MonkeyPatch, capfd, tmp_path: Path, command: str) -> None:
    (tmp_path / "a").write_text("")
    attack = "+hydra.callbacks.x={_target_: shutil.copyfile, src: a, dst: ran}"
    assert answer(monkeypatch, command, tmp_path, attack) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_each_job_of_a_sweep_is_checked(monkeypatch: pytest.MonkeyPatch, capfd, tmp_path: Path) -> None:
    """The first value is one that may be made, the second is not."""
    made: list[str] = []
    given = ("-m", "model._target_=forecast.models.Informer,torch.hub.load", "hydra/launcher=basic")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train", *given])
    with pytest.raises(SystemExit) as ended:
        main_with_run_folder("train", lambda config: made.append(config.model._target_))
    assert made == ["forecast.models.Informer"]
    assert ended.value.code == 2
    assert "model._target_=torch.hub.load" in capfd.readouterr().out


def test_the_names_in_a_checkpoint_of_ours_are_the_safe_ones(run: Path, quantile_run: Path) -> None:
    """Except for number types, the list contains only names that checkpoints need."""
    found = set()
    for path in (*run.glob("checkpoints/*.ckpt"), *quantile_run.glob("checkpoints/*.ckpt")):
        safe_load(path)
        found |= set(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    assert found == set()  # PyTorch's own list, which is longer, has all of them
    assert len([name for name in SAFE_NAMES if not name.endswith("Storage")]) == 2


def test_names_in_an_archive_lead_nowhere(best: Content, tmp_path: Path) -> None:
    path = tmp_path / "in" / "hostile.ckpt"
    path.parent.mkdir()
    torch.save(best, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{path.stem}/../../escaped", "x")
    load(path)
    assert {each.name for each in (*tmp_path.iterdir(), *path.parent.iterdir())} == {"in", "hostile.ckpt"}


def test_the_plain_values_are_those_beside_the_tensors(run: Path) -> None:
    def without_tensors(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_tensors(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(without_tensors, value))
        return None if isinstance(value, torch.Tensor) else value

    for path in run.glob("checkpoints/*.ckpt"):
        plain = read_plain(path)
        assert plain == without_tensors(safe_load(path))
        assert plain["hyper_parameters"]["pred_len"] == 5


def test_settings_of_a_checkpoint_that_no_command_creates_may_name_anything(best: Content, tmp_path: Path) -> None:
    """Callbacks, trainer and loggers come from the command and not from the checkpoint."""
    for group in ("callbacks", "trainer", "logger"):
        hostile.in_settings(group, "extra")(best, tmp_path / "odd.ckpt", tmp_path / "ran")
    load(tmp_path / "odd.ckpt")
    assert not (tmp_path / "ran").exists()
