"""A sweep's folder: its lock, its command, and the search for the sweep that `resume=auto` resumes.

Imports no torch: `forecast.cli.main` imports this module before every command.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from forecast.runs.folder import (
    UNREADABLE,
    InUse,
    is_running,
    locked,
    read_overrides,
    write_overrides,
)
from forecast.system.errors import ConfigError
from forecast.system.identity import identifying_overrides

COMMAND = "command.yaml"
"""The file in a sweep's folder that holds the command's overrides."""

_folders: dict[Path, dict[Path, float]] = {}
"""The folders of the sweeps of this process, each with the error files of earlier commands and their times."""

_locks = ExitStack()
_expected = 0


class SweepCallback(Callback):
    """Record the sweep's folder when the sweep starts: Hydra names it only then, and not at all after a failure.

    The folder is locked while the sweep runs, unless another command's sweep has locked the same folder.
    """

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)  # Optuna writes its study there before the first job
        with suppress(InUse):
            _locks.enter_context(locked(folder))
        if not (folder / COMMAND).exists():  # several commands may share a folder; the first one stays
            typed = [*config.hydra.overrides.task, *config.hydra.overrides.hydra]
            write_overrides(folder / COMMAND, typed)
        _folders[folder] = find_errors(folder)


def expect(n_jobs: int) -> None:
    """Set the number of jobs that the sweep is to have."""
    global _expected
    _expected = n_jobs


def finish(show: Callable[[Path], None] | None, *, can_resume: bool) -> int:
    """Print and save the summary of the sweep that this process ran, if it ran one.

    Args:
        show: prints the scores of the runs in the sweep's folder.
        can_resume: whether the command can resume a sweep.

    Returns:
        The number of jobs that have failed since the sweep began; those of earlier commands in its folder do not count.
    """
    failed = 0
    for folder, earlier in _folders.items():
        from forecast.runs import summary  # pandas takes half a second, which --help need not wait for

        jobs = summary.read_jobs(folder)
        summary.save_summary(folder, jobs, _expected, can_resume=can_resume)
        if show is not None and any(job.is_done for job in jobs):
            show(folder)
        failed += len(find_errors(folder).items() - earlier.items())
    _folders.clear()
    _locks.close()
    return failed


def find_errors(folder: Path) -> dict[Path, float]:
    """The error files of a sweep's jobs, with the times at which they were written."""
    return {path: path.stat().st_mtime for path in folder.glob("*/error.txt")}


# ---- resuming


def find_sweep(config: DictConfig, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the settings with which Hydra resumes a sweep of the same command; empty if there is no such sweep.

    Args:
        config: the composed configuration, Hydra's part included.
        arguments: the command's overrides.

    Raises:
        ConfigError: that sweep is still running.
    """
    is_named = any(argument.startswith("hydra.sweep.dir=") for argument in arguments)
    folder = (
        Path(config.hydra.sweep.dir) if is_named else find_same_command(Path(config.output_root), arguments)
    )
    if folder is None or not folder.exists():
        where = folder or config.output_root
        print(f"resume=auto: no sweep of this command under {where}; starting a new one")
        return {}
    if is_running(folder):
        raise ConfigError(f"{folder}: this sweep is still running; wait for it or stop it")
    finished = len(list(folder.glob("*/metrics.json")))
    print(f"resume=auto: resuming the sweep in {folder}, {finished} of its runs finished before")
    config.hydra.sweep.dir = str(folder)
    is_search = config.hydra.runtime.choices["hydra/sweeper"] == "optuna"
    settings = {} if is_named else {"hydra.sweep.dir": str(folder)}
    if is_search:
        from forecast.runs.search import remaining_trials  # imports optuna

        settings |= remaining_trials(config.hydra.sweeper, arguments)
    return settings


def find_same_command(root: Path, arguments: Sequence[str]) -> Path | None:
    """Find the newest folder below `root` of a sweep of the same command."""
    wanted = identifying_overrides(arguments)
    for path in sorted(root.glob(f"*/{COMMAND}"), key=lambda p: p.stat().st_mtime, reverse=True):
        try:
            if identifying_overrides(read_overrides(path)) == wanted:
                return path.parent
        except UNREADABLE:  # a file of another program
            continue
    return None
