"""A run that is killed and resumed ends, to the bit, as one that never was; and what its checkpoints survive."""

import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from forecast.checkpoints.file import load_checkpoint, save_checkpoint
from forecast.runs.folder import read_metrics
from forecast.system import signals
from forecast.system.errors import CheckpointError
from forecast.system.signals import STATUS
from tests.support.commands import TINY, finish, only, start, wait_for
from tests.support.csv_files import write_csv
from tests.support.long_variants import every_nth
from tests.support.run_differences import differences, logged_differently, unequal

EVERY_STEP = "callbacks.checkpoint.every_minutes=0"
SETTINGS = (
    *TINY, "data=csv", "data.path=load.csv", "callbacks.progress.refresh_rate=0", "trainer.max_epochs=2", EVERY_STEP,
)  # fmt: skip
LOGGERS = "logger=[csv,wandb]"
VARIANTS = {
    "cosine": (LOGGERS,),
    "plateau": ("schedule=plateau", "schedule.patience=0", "optimizer.lr=0.05", "logger=csv"),
    "accumulated": (
        "trainer.accumulate_grad_batches=2", "schedule=halving", "logger=csv", "attention=nystrom", "ema=0.5",
    ),
    "early": ("callbacks.early_stopping.patience=1", "optimizer.lr=0.5", "trainer.max_epochs=6", "logger=csv"),
    "refit": ("refit=full", "loss=quantile", "ema=0.9", "logger=csv"),
    "fitted": ("model=residual_informer", "model.patch_len=4", "refit=full", "logger=csv"),  # before training
}  # fmt: skip


class Unbroken:
    """One run that nothing happens to, for each variant."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_csv(folder / "load.csv", rows=120)
        self.runs: dict[str, Path] = {}
        self.writes: dict[str, int] = {}

    def __call__(self, variant: str) -> Path:
        if variant not in self.runs:
            result = self.go(variant, "unbroken")
            assert result.returncode == 0, result.stderr
            self.writes[variant] = int(result.stdout.rsplit("writes: ", 1)[1])
            self.runs[variant] = only(self.folder, f"{variant}-unbroken/*")
        return self.runs[variant]

    def begin(
        self, variant: str, name: str, *overrides: str, dies: int = 0, **environment: str
    ) -> subprocess.Popen[str]:
        """Start a run, which is killed before write `dies`, from 1."""
        program = ("-m", "tests.support.self_killing_train")
        given = (*VARIANTS[variant], f"output_root={variant}-{name}", *overrides)
        return start(self.folder, *given, program=program, settings=SETTINGS, DIES=str(dies), **environment)

    def go(self, *given: str, dies: int = 0) -> subprocess.CompletedProcess[str]:
        return finish(self.begin(*given, dies=dies))

    def check(self, variant: str, name: str) -> None:
        run = only(self.folder, f"{variant}-{name}/*/metrics.json").parent
        assert differences(self(variant), run) == []
        if LOGGERS in VARIANTS[variant]:
            assert logged_differently(self(variant), run) == []


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    return Unbroken(tmp_path_factory.mktemp("kills"))


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("number", range(3))
def test_killed_at_random_points_again_and_again(unbroken: Unbroken, variant: str, number: int) -> None:
    """Killed at up to three random points of one run, before a file gets its name or reaches the disk."""
    unbroken(variant)
    draw = random.Random(f"{variant}{number}")
    name, kills = f"points-{number}", 0
    for _ in range(3):
        at = draw.randint(8, unbroken.writes[variant])
        kills += unbroken.go(variant, name, "resume=auto", dies=at).returncode == -signal.SIGKILL
    assert kills
    unbroken.go(variant, name, "resume=auto")
    unbroken.check(variant, name)


@pytest.mark.long
def test_a_run_that_is_told_to_stop_exits_with_its_status_and_is_queued_again(unbroken: Unbroken, tmp_path) -> None:
    unbroken("cosine")
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho $@ >> {tmp_path}/asked\n")
    scontrol.chmod(0o755)
    queue = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "train", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    name = "told"
    process = unbroken.begin("cosine", name, **queue)  # type: ignore[reportArgumentType]
    wait_for(lambda: [*unbroken.folder.glob(f"cosine-{name}/*/checkpoints/last.ckpt")])
    process.send_signal(signal.SIGUSR1)
    stopped = finish(process)
    said = stopped.stdout + stopped.stderr
    assert stopped.returncode == STATUS
    assert re.search(r"stopped by SIGUSR1 after (step|epoch) \d+, whose state is saved; .*resume=auto", said)
    assert "Slurm job 4711 requeued" in said
    assert (tmp_path / "asked").read_text() == "requeue 4711\n"
    state = only(unbroken.folder, f"cosine-{name}/*") / "checkpoints" / "last.ckpt"
    content = load_checkpoint(state)
    assert content["callbacks"]["RunTime"]["seconds"] > 0
    content["callbacks"]["RunTime"]["seconds"] += 1000
    save_checkpoint(content, state)
    assert unbroken.go("cosine", name, "resume=auto").returncode == 0
    unbroken.check("cosine", name)
    metrics = read_metrics(state.parents[1])
    assert 1000 < metrics["seconds"] < 1100  # of both parts


@pytest.mark.long
def test_two_processes_stopped_and_killed_end_as_the_unbroken_ones(tmp_path: Path) -> None:
    write_csv(tmp_path / "load.csv", rows=300)
    settings = ("trainer=ddp_cpu", "trainer.max_epochs=2", EVERY_STEP, "logger=csv")
    whole = finish(start(tmp_path, *settings, "output_root=unbroken"))
    assert whole.returncode == 0, whole.stderr
    again = (*settings, "output_root=broken", "resume=auto")
    stopped = start(tmp_path, *again)
    wait_for(lambda: [*tmp_path.glob("broken/*/checkpoints/last.ckpt")])
    stopped.send_signal(signal.SIGTERM)
    assert finish(stopped).returncode == STATUS
    killed = start(tmp_path, *again)
    (folder,) = (tmp_path / "broken").iterdir()
    newest = (folder / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    while (folder / "checkpoints" / "last.ckpt").stat().st_mtime_ns == newest and killed.poll() is None:
        time.sleep(0.005)
    killed.kill()
    assert finish(killed).returncode == -signal.SIGKILL
    time.sleep(2)  # the second process notices, and lets the folder go
    last = finish(start(tmp_path, *again))
    assert last.returncode == 0, last.stderr
    assert differences(only(tmp_path, "unbroken/*"), folder) == []


@pytest.mark.parametrize(
    ("variant", "hook", "epoch", "function", "where"),
    every_nth(
        [
            ("fitted", "on_sanity_check_end", 0, "fit", "after step 1, whose state is saved"),
            ("cosine", "on_validation_start", 2, "fit", "after training, whose state is saved"),
            ("cosine", "on_train_epoch_end", 2, "fit", "after training, whose state is saved"),
            ("cosine", "on_validation_start", 3, "validate", "in validation"),
            ("cosine", "on_test_start", 3, "test", "in the test"),
        ],
        5,
    ),
)
def test_a_signal_outside_of_a_training_step_stops_the_run(
    unbroken: Unbroken, variant: str, hook: str, epoch: int, function: str, where: str
) -> None:
    name = f"late-{hook}-{function}"
    callback = {"_target_": "tests.support.probe_callbacks.TellToStop", "hook": hook, "epoch": epoch}
    told = (f"+callbacks.told.{key}={value}" for key, value in {**callback, "function": function}.items())
    stopped = unbroken.go(variant, name, *told)
    assert stopped.returncode == STATUS, stopped.stderr
    assert f"stopped by SIGTERM {where}; " in stopped.stderr
    assert not list(unbroken.folder.glob(f"{variant}-{name}/*/metrics.json"))


@pytest.mark.slow
def test_a_damaged_state_is_passed_over_for_the_one_before(unbroken: Unbroken) -> None:
    """The run ends as the unbroken one, and is not run again."""
    variant = "cosine"
    unbroken(variant)
    killed = unbroken.go(variant, "torn", dies=unbroken.writes[variant] // 2)
    assert killed.returncode == -signal.SIGKILL
    last = only(unbroken.folder, f"{variant}-torn/*/checkpoints/last.ckpt")
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.unlink()  # it may be best.ckpt too
    last.write_bytes(content)
    resumed = unbroken.go(variant, "torn", "resume=auto")
    assert resumed.returncode == 0
    said = resumed.stdout + resumed.stderr
    assert re.search(r"last\.ckpt: the file is damaged, .*; resuming from last-1\.ckpt instead", said)
    unbroken.check(variant, "torn")
    assert f"finished before: {last.parents[1]}" in unbroken.go(variant, "torn", "resume=auto").stdout
    assert only(unbroken.folder, f"{variant}-torn/*") == last.parents[1]


def test_every_kind_of_damage_is_noticed(tmp_path: Path) -> None:
    """A changed byte is refused, unless it is one of those that pad the zip archive and say nothing."""
    path = tmp_path / "state.ckpt"
    parts = {"hyper_parameters": {}, "LightningData": {}, "state_dict": {}, "loops": {}}
    content = {"forecast_version": "1", "weights": torch.randn(1000), **parts}
    save_checkpoint(content, path)
    whole = path.read_bytes()
    assert unequal(load_checkpoint(path), content) == []
    draw, refused = random.Random(0), 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(whole))] ^= draw.randint(1, 255)
        path.write_bytes(damaged)
        try:
            assert unequal(load_checkpoint(path), content) == []
        except CheckpointError:
            refused += 1
    assert refused > 200
    weights = whole.index(content["weights"].numpy().tobytes()) + 1999
    path.write_bytes(whole[:weights] + bytes([whole[weights] ^ 1]) + whole[weights + 1 :])
    with pytest.raises(CheckpointError):
        load_checkpoint(path)
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            load_checkpoint(path)


# ---- a signal stops a run with status 75 wherever it arrives


@pytest.fixture(autouse=True)
def handlers():
    """Restore the handlers, which a run that was stopped leaves off: subprocesses of later tests would inherit that."""
    before = {number: signal.getsignal(number) for number in signals.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def listening():
    with signals.listening():
        yield
        signals._received = None


def told() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_training_saves_its_state_before_the_run_stops(listening: None) -> None:
    saved = []

    def train() -> None:
        with signals.deferred():
            told()
            signals.exit_if_received()
            saved.append("state")

    with pytest.raises(SystemExit) as stop:
        train()
    assert (saved, stop.value.code) == (["state"], signals.STATUS)


def test_a_signal_late_in_a_run_stops_the_next_one_of_a_sweep() -> None:
    with signals.listening():
        told()
    with pytest.raises(SystemExit) as stop, signals.listening():
        raise AssertionError("the next run started")
    assert stop.value.code == signals.STATUS
    assert not signals.received()
