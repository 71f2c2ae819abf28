"""Sweeps that are killed, stopped by a signal, or fail, and are resumed by `resume=auto`; runs started together."""

import signal
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import optuna
import pandas as pd
import pytest
from filelock import FileLock
from hydra import compose, initialize_config_dir
from hydra.core.plugins import Plugins
from hydra.utils import instantiate
from omegaconf import OmegaConf
from optuna.trial import TrialState

from forecast.cli.compose import compose_command
from forecast.cli.overrides import EXTRAS, options
from forecast.runs.folder import is_running, read_metrics
from forecast.runs.search import remaining_trials
from forecast.system.errors import CONF
from forecast.system.hydra_internals import prefer_own_plugins
from forecast.system.location import known_targets
from tests.support.commands import finish, only, start, train, train_here, wait_for, workplace
from tests.support.run_differences import differences
from tests.support.wandb_file import WandbRun

SHORT = ("logger=[]", "trainer.max_epochs=3")

train_dying = partial(train, program=("-m", "tests.support.self_killing_train"))


def jobs(sweep: Path) -> dict[str, Path]:
    """Return the folder of the job of each attention type; each type must have one folder only."""
    folders = [path.parent for path in sweep.glob("*/config.yaml")]
    named = {OmegaConf.load(path / "config.yaml").model.attention.name: path for path in folders}
    assert len(named) == len(folders)
    return named


def test_a_killed_sweep_is_resumed_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three jobs is killed at its third epoch: it ends as an unbroken run, and the first is skipped."""
    folder = workplace(tmp_path)
    command = ("-m", "attention=full,linear,fastformer", *SHORT)
    assert train_dying(folder, *command, DIES="1 2 SIGKILL").returncode == -signal.SIGKILL
    sweep = only(folder, "runs/*")
    finished, half_done = (jobs(sweep)[name] for name in ("full", "linear"))
    scores = (finished / "metrics.json").read_text()
    assert not (half_done / "metrics.json").exists()

    result = train(folder, *command, "resume=auto")
    assert result.returncode == 0, result.stderr
    resumed = f"resume=auto: resuming the sweep in {sweep.relative_to(folder)}, 1 of its runs finished before"
    assert resumed in result.stdout
    assert set(jobs(sweep)) == {"full", "linear", "fastformer"}
    assert jobs(sweep)["linear"] == half_done
    rows = pd.read_csv(sweep / "summary.csv").dropna(subset="attention").set_index("attention")
    measured = {name: read_metrics(path)["test"]["mse"] for name, path in jobs(sweep).items()}
    assert rows["mse"].to_dict() == pytest.approx(measured)
    (line,) = (line for line in result.stdout.splitlines() if line.endswith("   finished before"))
    assert line.startswith("[1/3] attention=full ")
    assert (finished / "metrics.json").read_text() == scores
    assert train_here(monkeypatch, folder, "attention=linear", *SHORT, "output_root=unbroken") == 0
    assert differences(only(folder, "unbroken/*"), half_done) == []


def test_the_remaining_trials_of_a_study(tmp_path: Path) -> None:
    states = [TrialState.COMPLETE, TrialState.FAIL, TrialState.RUNNING, TrialState.COMPLETE]
    typed = [f"hydra.sweep.dir='{tmp_path}'", "hydra.sweeper.n_trials=6", "hydra.sweeper.sampler.seed=7"]
    sweeper = compose_command("train", ["search=informer", *typed]).hydra.sweeper
    study = optuna.create_study(storage=instantiate(sweeper.storage), study_name=sweeper.study_name)
    for number, state in enumerate(states):
        trial = study.ask()
        trial.suggest_float("lr", 0.0, 1.0)
        if state.is_finished():
            study.tell(trial, float(number) if state == TrialState.COMPLETE else None, state=state)
    for _ in range(2):  # asking twice changes nothing
        assert remaining_trials(sweeper, typed)["hydra.sweeper.n_trials"] == 4
    failed, running = study.trials[1].params, study.trials[2].params
    study = optuna.load_study(storage=instantiate(sweeper.storage), study_name=sweeper.study_name)
    asked = []
    for _ in range(4):
        trial = study.ask()
        trial.suggest_float("lr", 0.0, 1.0)
        asked.append((trial.number, trial.params))
    assert asked[:2] == [(2, running), (4, failed)]
    assert [number for number, _ in asked] == [2, 4, 5, 6]


ENDLESS = ("-m", "seed=1,2", "logger=[]", "trainer.max_epochs=4000", "callbacks.early_stopping.patience=4000")
JOBLIB = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")


@pytest.mark.long
@pytest.mark.parametrize("launcher", [(), JOBLIB])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_sweep_leaves_no_job_behind(tmp_path, launcher: tuple[str, ...], number: signal.Signals) -> None:
    process = start(workplace(tmp_path), *ENDLESS, *launcher)
    wait_for(lambda: [*tmp_path.glob("runs/*/*/checkpoints/last.ckpt")])
    jobs = [path.parent for path in tmp_path.glob("runs/*/*/config.yaml")]
    process.send_signal(number)
    result = finish(process)
    wait_for(lambda: not any(map(is_running, jobs)))
    if number == signal.SIGTERM:
        assert result.returncode == 75, result.stderr
        assert "Traceback" not in result.stderr
        assert not list(tmp_path.glob("runs/*/*/error.txt"))
        assert "interrupted: " in result.stdout
        assert "failed: " not in result.stdout
        assert "repeat the command with resume=auto to continue" in result.stdout


@pytest.mark.slow
def test_a_failed_job_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    folder = workplace(tmp_path)
    command = ("-m", "data.path=load.csv,later.csv", "logger=[]", "trainer.max_epochs=1")
    assert train_here(monkeypatch, folder, *command) == 2
    assert "failed: " in capsys.readouterr().out
    (folder / "later.csv").write_bytes((folder / "load.csv").read_bytes())
    assert train_here(monkeypatch, folder, *command, "resume=auto") == 0
    printed = capsys.readouterr().out
    assert "failed: " not in printed
    assert printed.count("   finished before") == 1
    assert len(list(only(folder, "runs/*").glob("*/metrics.json"))) == len(list(only(folder, "runs/*").glob("*/"))) == 2


def test_what_is_still_running_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """A job of a sweep, and the sweep itself."""
    folder = workplace(tmp_path)
    command = ("-m", "seq_len=500,501", "logger=[]")
    assert train_here(monkeypatch, folder, *command) == 2
    sweep = only(folder, "runs/*")
    job = only(sweep, "0_*")
    (job / "error.txt").unlink()
    capsys.readouterr()
    with FileLock(job / "run.lock"):
        assert train_here(monkeypatch, folder, *command, "resume=auto") == 2
        assert f"still running, by another process: {job.name}" in capsys.readouterr().out
    assert len(list(sweep.glob("*/"))) == 2
    assert not (job / "error.txt").exists()
    with FileLock(sweep / "run.lock"):
        assert train_here(monkeypatch, folder, *command, "resume=auto") == 2
    message = f"error: {sweep.relative_to(folder)}: this sweep is still running; wait for it or stop it\n"
    assert capsys.readouterr().err == message


@pytest.mark.long
def test_runs_started_together_collide_in_nothing(tmp_path: Path) -> None:
    """Two alone below one output_root, two as sweeps of one job in one folder; two of them are alike."""
    workplace(tmp_path)
    together = ("-m", "hydra.sweep.dir=runs/together")
    commands = [("seed=0",), ("seed=0",), (*together, "seed=0"), (*together, "seed=1")]
    runs = [start(tmp_path, *command, "trainer.max_epochs=1") for command in commands]
    errors = [run.communicate(timeout=500)[1] for run in runs]
    assert [run.returncode for run in runs] == [0] * 4, errors
    folders = [*tmp_path.glob("runs/2*/"), *tmp_path.glob("runs/together/*/")]
    assert len(folders) == 4
    assert all((folder / "metrics.json").exists() for folder in folders)
    assert all(len(pd.read_csv(folder / "metrics.csv")) == 1 for folder in folders)
    ids = [WandbRun(path).run.run_id for path in tmp_path.rglob("offline-run-*/*.wandb")]
    assert len(set(ids)) == len(ids) == 4


# ---- joblib, submitit and Ray on this machine: a killed job does not stop the others

LAUNCHERS = {"joblib": ("hydra.launcher.n_jobs=2",), "submitit_local": (), "ray": ("hydra.launcher.init.num_cpus=2",)}


def compared(sweep: Path) -> set[str]:
    rows = pd.read_csv(sweep / "summary.csv")
    return set(rows.loc[rows["kind"] == "variant", "name"])


def needs(launcher: str) -> None:
    extra = EXTRAS.get(f"hydra/launcher/{launcher}")
    if extra is not None and find_spec(extra) is None:
        pytest.skip(f"the extra {extra} is not installed")


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local", "ray"])
def test_a_killed_job_does_not_stop_the_others_and_is_started_again(launcher: str, tmp_path: Path) -> None:
    needs(launcher)
    folder = workplace(tmp_path)
    command = ("-m", f"hydra/launcher={launcher}", *LAUNCHERS[launcher], "attention=full,linear", "logger=[]")
    short = "trainer.max_epochs=1"
    killed = train_dying(folder, *command, short, DIES="1 start SIGKILL")
    assert killed.returncode == 2
    assert killed.stderr.splitlines()[-1] == "error: 1 of the runs failed, each for the reason above"
    assert "Traceback" not in killed.stderr
    (failed,) = [line for line in killed.stdout.splitlines() if line.startswith("failed: ")]
    assert failed.startswith("failed: 1_linear-csv-5-s1_")
    assert "its process ended without a result" in failed
    sweep = only(folder, "runs/*")
    assert compared(sweep) == {"full"}

    result = train(folder, *command, short, "resume=auto")
    assert result.returncode == 0, result.stderr
    assert f"resuming the sweep in {sweep.relative_to(folder)}, 1 of its runs finished before" in result.stdout
    assert "failed: " not in result.stdout
    assert compared(sweep) == {"full", "linear"}
    assert len(list(sweep.glob("*/config.yaml"))) == 2


def test_slurm_is_needed_for_its_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    needs("submitit_slurm")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert train_here(monkeypatch, workplace(tmp_path), "-m", "hydra/launcher=submitit_slurm", "seed=1,2") == 2
    assert capsys.readouterr().err == "error: hydra/launcher=submitit_slurm needs Slurm, and there is no srun here\n"


@pytest.mark.parametrize("launcher", options("hydra/launcher"))
def test_every_launcher_is_made_from_its_configuration(launcher: str, tmp_path: Path) -> None:
    prefer_own_plugins()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("train", overrides=[f"hydra/launcher={launcher}"], return_hydra_config=True).hydra
    config.sweep.dir = str(tmp_path)
    assert config.launcher._target_ in known_targets()
    made = Plugins.instance()._instantiate(config.launcher)
    assert type(made).__module__ == "hydra_plugins.forecast_launchers"
