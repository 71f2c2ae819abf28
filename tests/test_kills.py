"""A run that is killed and resumed ends, to the bit, as one that never was; and what its checkpoints survive."""

import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from forecast.checkpoint import add_to_checkpoint, load_checkpoint, newest_state
from forecast.errors import CheckpointError
from forecast.preemption import STATUS
from forecast.sealed import is_damaged, save_sealed
from tests import killing
from tests.commands import finish, only, start
from tests.helpers import TINY, write_csv
from tests.samerun import differences, logged_differently

EVERY_STEP = "callbacks.checkpoint.every_minutes=0"
SETTINGS = (
    *TINY, "data=csv", "data.path=load.csv", "callbacks.progress.refresh_rate=0", "trainer.max_epochs=3", EVERY_STEP,
)  # fmt: skip
LOGGERS = "logger=[csv,tensorboard,wandb]"
VARIANTS = {
    "cosine": (LOGGERS,),
    "plateau": ("schedule=plateau", "schedule.patience=0", "optimizer.lr=0.05", "logger=csv"),
    "accumulated": (
        "trainer.accumulate_grad_batches=2",
        "schedule=halving",
        "logger=csv",
        "attention=nystrom",
    ),
    "early": (
        "callbacks.early_stopping.patience=1",
        "optimizer.lr=0.5",
        "trainer.max_epochs=6",
        "logger=csv",
    ),
    "refit": ("refit=full", "loss=quantile", "logger=csv"),
    "fitted": (
        "model=residual_informer",
        "model.patch_len=4",
        "refit=full",
        "logger=csv",
    ),  # in part, before training
}


class Unbroken:
    """One run that nothing happens to, for each variant."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_csv(folder / "load.csv", rows=300)
        (folder / "said.txt").touch()
        self.runs: dict[str, Path] = {}
        self.points: dict[str, int] = {}
        self.seconds: dict[str, float] = {}

    def __call__(self, variant: str) -> Path:
        if variant not in self.runs:
            started = time.monotonic()
            assert self.go(variant, "unbroken") == 0, killing.said(self.folder)[-2000:]
            self.seconds[variant] = time.monotonic() - started
            self.points[variant] = int(killing.said(self.folder).rsplit("crash points: ", 1)[1])
            self.runs[variant] = only(self.folder, f"{variant}-unbroken/*")
        return self.runs[variant]

    def go(self, variant: str, name: str, *overrides: str, crash_at: int | None = None) -> int | None:
        return killing.finish(self.folder, *self.settings(variant, name), *overrides, crash_at=crash_at)

    def settings(self, variant: str, name: str) -> tuple[str, ...]:
        return (*SETTINGS, *VARIANTS[variant], f"output_root={variant}-{name}")

    def check(self, variant: str, name: str) -> None:
        """The run that was resumed is the unbroken one."""
        runs = [p.parent for p in self.folder.glob(f"{variant}-{name}/*/metrics.json")]
        assert len(runs) == 1, killing.said(self.folder)[-2000:]
        assert differences(self(variant), runs[0]) == []
        if LOGGERS in VARIANTS[variant]:
            assert logged_differently(self(variant), runs[0]) == []


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    return Unbroken(tmp_path_factory.mktemp("kills"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "share",
    [
        pytest.param(0.4, id="within an epoch"),
        pytest.param(0.97, id="in the test", marks=pytest.mark.long),
    ],
)
def test_a_killed_run_ends_as_the_unbroken_one(unbroken: Unbroken, share: float) -> None:
    name = f"at-{share}"
    unbroken("cosine")
    at = int(share * unbroken.points["cosine"])
    assert unbroken.go("cosine", name, crash_at=at) == -signal.SIGKILL
    assert unbroken.go("cosine", name, "resume=auto") == 0
    unbroken.check("cosine", name)


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("number", range(6))
def test_killed_at_random_points_again_and_again(unbroken: Unbroken, variant: str, number: int) -> None:
    """Killed at up to three random points of one run, before a file gets its name or reaches the disk."""
    unbroken(variant)
    draw = random.Random(f"{variant}{number}")
    name, kills = f"points-{number}", 0
    for _ in range(3):
        at = draw.randint(8, unbroken.points[variant])
        kills += unbroken.go(variant, name, "resume=auto", crash_at=at) == -signal.SIGKILL
    assert kills
    unbroken.go(variant, name, "resume=auto")
    unbroken.check(variant, name)


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("number", range(4))
def test_killed_at_random_moments(unbroken: Unbroken, variant: str, number: int) -> None:
    unbroken(variant)
    draw = random.Random(f"{variant}{number}")
    name = f"moments-{number}"
    process = killing.start(unbroken.folder, *unbroken.settings(variant, name), "resume=auto")
    time.sleep(draw.uniform(0.3, 1) * unbroken.seconds[variant])
    process.kill()
    process.join()
    unbroken.go(variant, name, "resume=auto")
    unbroken.check(variant, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGUSR1, pytest.param(signal.SIGTERM, marks=pytest.mark.long)], ids=["USR1", "TERM"]
)
def test_a_run_that_is_told_to_stop_exits_with_its_status_and_is_queued_again(
    unbroken: Unbroken, tmp_path: Path, number: signal.Signals
) -> None:
    unbroken("cosine")
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho $@ >> {tmp_path}/asked\n")
    scontrol.chmod(0o755)
    queue = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "train", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    name = f"told-{number.name}"
    begun = len(killing.said(unbroken.folder))
    process = killing.start(unbroken.folder, *unbroken.settings("cosine", name), environment=queue)
    assert wait_for(unbroken.folder, f"cosine-{name}/*/checkpoints/last.ckpt")
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode == STATUS
    said = killing.said(unbroken.folder)[begun:]
    assert re.search(rf"stopped by {number.name} after (step|epoch) \d+, which is kept; .*resume=auto", said)
    assert "Slurm job 4711 queued again" in said
    assert (tmp_path / "asked").read_text() == "requeue 4711\n"
    state = only(unbroken.folder, f"cosine-{name}/*") / "checkpoints" / "last.ckpt"
    callbacks = load_checkpoint(state)["callbacks"]
    assert callbacks["RunTime"]["seconds"] > 0
    callbacks["RunTime"]["seconds"] += 1000
    add_to_checkpoint(state, callbacks=callbacks)
    assert unbroken.go("cosine", name, "resume=auto") == 0
    unbroken.check("cosine", name)
    metrics = json.loads((state.parents[1] / "metrics.json").read_text())
    assert 1000 < metrics["seconds"] < 1100  # of both parts


@pytest.mark.long
def test_two_processes_stopped_and_killed_end_as_the_unbroken_ones(tmp_path: Path) -> None:
    write_csv(tmp_path / "load.csv", rows=300)
    settings = ("trainer=ddp_cpu", "trainer.max_epochs=3", EVERY_STEP, "logger=csv")
    whole = finish(start(tmp_path, *settings, "output_root=unbroken"))
    assert whole.returncode == 0, whole.stderr
    again = (*settings, "output_root=broken", "resume=auto")
    stopped = start(tmp_path, *again)
    assert wait_for(tmp_path, "broken/*/checkpoints/last.ckpt")
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


def wait_for(folder: Path, pattern: str) -> bool:
    deadline = time.monotonic() + 60
    while not list(folder.glob(pattern)):
        time.sleep(0.005)
        if time.monotonic() > deadline:
            return False
    return True


def test_a_run_that_is_finished_is_not_run_again(unbroken: Unbroken) -> None:
    folder = unbroken("cosine")
    begun = len(killing.said(unbroken.folder))
    assert unbroken.go("cosine", "unbroken", "resume=auto") == 0
    assert f"finished before: {folder}" in killing.said(unbroken.folder)[begun:]
    assert [p.name for p in (unbroken.folder / "cosine-unbroken").iterdir()] == [folder.name]


@pytest.mark.parametrize("hook", ["on_validation_start", "on_train_epoch_end"])
def test_told_to_stop_in_the_last_epoch(unbroken: Unbroken, hook: str) -> None:
    """The test would follow, which may take longer than there is time."""
    unbroken("cosine")
    name = f"late-{hook}"
    told = (
        "+callbacks.told._target_=tests.probes.TellToStop",
        f"+callbacks.told.hook={hook}",
        "+callbacks.told.epoch=2",
    )
    process = killing.start(
        unbroken.folder, *unbroken.settings("cosine", name), *told,
        environment={"FORECAST_TARGETS": "tests.probes.TellToStop"},
    )  # fmt: skip
    process.join(60)
    assert process.exitcode == STATUS, killing.said(unbroken.folder)[-3000:]
    assert not list(unbroken.folder.glob(f"cosine-{name}/*/metrics.json"))


@pytest.mark.slow
def test_a_damaged_state_is_passed_over_for_the_one_before(unbroken: Unbroken) -> None:
    unbroken("cosine")
    assert unbroken.go("cosine", "torn", crash_at=unbroken.points["cosine"] // 2) == -signal.SIGKILL
    last = only(unbroken.folder, "cosine-torn/*/checkpoints/last.ckpt")
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.unlink()  # it may be best.ckpt too
    last.write_bytes(content)
    begun = len(killing.said(unbroken.folder))
    assert unbroken.go("cosine", "torn", "resume=auto") == 0
    said = killing.said(unbroken.folder)[begun:]
    assert (
        "last.ckpt: damaged: its content is not what its hash says; going on from the one before it" in said
    )
    unbroken.check("cosine", "torn")


def test_every_kind_of_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state.ckpt"
    save_sealed({"forecast_version": "1", "weights": torch.randn(1000)}, path)
    whole = path.read_bytes()
    assert not is_damaged(path)
    assert torch.equal(load_checkpoint(path)["weights"], torch.load(path, weights_only=True)["weights"])
    draw = random.Random(0)
    for _ in range(200):
        content = bytearray(whole)
        place = draw.randrange(len(whole) - 75)
        content[place] ^= draw.randint(1, 255)
        path.write_bytes(content)
        with pytest.raises(CheckpointError):
            load_checkpoint(path)
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            load_checkpoint(path)


def test_where_every_state_is_damaged_the_run_says_so(tmp_path: Path) -> None:
    for name in ("last", "last-1"):
        path = tmp_path / "checkpoints" / f"{name}.ckpt"
        save_sealed({"forecast_version": "1"}, path)
        path.write_bytes(path.read_bytes()[:-30])
    with pytest.warns(UserWarning, match="last-1"), pytest.raises(CheckpointError, match=r"last-1\.ckpt"):
        newest_state(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "logger"),
    [
        pytest.param("1100k", "logger=csv", marks=pytest.mark.long),
        ("40k", "logger=[csv,tensorboard,wandb]"),
        pytest.param("500k", "logger=[csv,tensorboard,wandb]", marks=pytest.mark.long),
    ],
)
def test_a_full_disk_ends_the_run_in_one_line_and_leaves_the_state_before(
    unbroken: Unbroken, size: str, logger: str
) -> None:
    root = unbroken.folder / f"cosine-{size}"
    root.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(root)], check=False)
    if made.returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        ends_in_one_line(unbroken, size, logger)
        assert bool(list(root.glob("*/checkpoints/last.ckpt"))) == (size == "1100k")
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)


def test_a_file_that_cannot_grow_ends_the_run_in_one_line(unbroken: Unbroken) -> None:
    ends_in_one_line(
        unbroken, "limit", "logger=csv", file_limit=300_000
    )  # a state is larger than the other files


def ends_in_one_line(unbroken: Unbroken, name: str, logger: str, file_limit: int | None = None) -> None:
    begun = len(killing.said(unbroken.folder))
    wide = ("model.d_model=32", "model.d_ff=64", logger)
    process = killing.start(unbroken.folder, *unbroken.settings("cosine", name), *wide, file_limit=file_limit)
    process.join(120)
    said = killing.said(unbroken.folder)[begun:]
    assert process.exitcode == 2, said
    errors = [
        line for line in said.splitlines() if line.startswith(("error", "Traceback", "---", "Exception"))
    ]
    assert len(errors) == 1, said
    assert re.search(r"No space left on device|File too large", errors[0])
    assert "resume=auto" in errors[0] or name == "40k"  # where not even a log could be written
    for path in (unbroken.folder / f"cosine-{name}").glob("*/checkpoints/*.ckpt"):
        load_checkpoint(path)
