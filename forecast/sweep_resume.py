"""A sweep that was interrupted goes on in its folder: `resume=auto` with the same command.

A member's folder has a mark of its configuration in its name, so that each member finds its own, whatever its number.
There it is skipped (finished), goes on (half done) or begins again (failed, or killed before its first checkpoint).
Imports no torch: `forecast.cli` loads it before every command.
"""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast import overrides, resume
from forecast.errors import ConfigError
from forecast.files import whole_file
from forecast.paths import CONF

COMMAND = "command.yaml"
"""The file in a sweep's folder that says what was typed."""

NOT_COMPARED = (
    "hydra/launcher",
    "hydra.launcher",
    "hydra.mode",  # Hydra's own note of -m
    "hydra.sweep.",
    "hydra.sweeper.n_trials",
    "hydra.sweeper.n_jobs",
)
"""Where and how many at a time the members of a sweep run, and how many are drawn, may change when it goes on."""


# ---- the sweep


def in_place(config_name: str, arguments: list[str]) -> list[str]:
    """The overrides that make Hydra use the folder of the sweep to go on with, and draw only the trials left over.

    Raises:
        ConfigError: that sweep is still running.
    """
    config = composed_for_hydra(config_name, arguments)
    named = any(argument.startswith("hydra.sweep.dir=") for argument in arguments)
    folder = Path(config.hydra.sweep.dir) if named else find(Path(config.output_root), arguments)
    if folder is None or not folder.exists():
        where = folder or config.output_root
        print(f"resume=auto: no sweep of this command under {where}; starting a new one")
        return []
    if resume.is_running(folder):
        raise ConfigError(f"{folder}: this sweep is still running; wait for it or stop it")
    finished = len(list(folder.glob("*/metrics.json")))
    print(f"resume=auto: going on in {folder}, {finished} of its runs finished before")
    chosen = [] if named else [f"hydra.sweep.dir={overrides.quote_value(str(folder))}"]
    if config.hydra.runtime.choices["hydra/sweeper"] == "optuna":
        chosen += remaining_trials(composed_for_hydra(config_name, [*arguments, *chosen]).hydra.sweeper)
    return chosen


def composed_for_hydra(config_name: str, arguments: list[str]) -> DictConfig:
    """The configuration with Hydra's own part, of each sweep over choices the first value and other sweeps left out."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        typed = overrides.first_of_sweeps(arguments)
        return compose(config_name, overrides=typed, return_hydra_config=True)


def find(root: Path, arguments: Sequence[str]) -> Path | None:
    """The newest folder below `root` of a sweep of the same command."""
    wanted = compared(arguments)
    for path in sorted(root.glob(f"*/{COMMAND}"), key=lambda p: p.stat().st_mtime, reverse=True):
        typed = typed_for(path)
        if typed is not None and compared(typed) == wanted:
            return path.parent
    return None


def typed_for(path: Path) -> list[str] | None:
    """What a sweep's folder says was typed; None where the file is another program's."""
    try:
        typed = OmegaConf.to_container(OmegaConf.load(path))
    except resume.UNREADABLE:
        return None
    return [str(override) for override in typed] if isinstance(typed, list) else None


def compared(arguments: Sequence[str]) -> list[str]:
    """What makes two commands the same sweep: all but where it is kept and logged, and how its members are started."""
    apart = tuple(key for key in resume.NOT_COMPARED if key != "hydra")
    return sorted(
        argument
        for argument in arguments
        if argument.lstrip("+~").split("=")[0].split(".")[0] not in apart
        and not argument.lstrip("+~").startswith(NOT_COMPARED)
    )


def note_command(folder: Path, config: DictConfig) -> None:
    """Keep in a sweep's folder what was typed for it; the first command stands, where several share a folder."""
    typed = [*config.hydra.overrides.task, *config.hydra.overrides.hydra]
    if not (folder / COMMAND).exists():
        with whole_file(folder / COMMAND) as temporary:
            OmegaConf.save(OmegaConf.create(typed), temporary)


def remaining_trials(sweeper: DictConfig) -> list[str]:
    """Make an interrupted Optuna study ready to go on, and give the overrides that draw only what it still lacks.

    A trial that was running waits again, with its number and its values; one that failed is tried again as a new
    trial of the same values. `n_trials` counts the trials that came to a result.
    """
    import optuna
    from hydra.utils import instantiate
    from optuna.trial import TrialState

    if sweeper.storage is None:  # the study was in the memory of the process that is gone
        return []
    storage = instantiate(sweeper.storage)
    try:
        study = optuna.load_study(study_name=sweeper.study_name, storage=storage)
    except KeyError:  # stopped before it began
        return []
    trials = study.get_trials(deepcopy=False)
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            storage.set_trial_state(trial._trial_id, TrialState.WAITING)
    others = [trial for trial in trials if trial.state != TrialState.FAIL]
    retried = [trial.system_attrs.get("fixed_params", trial.params) for trial in others]
    for trial in trials:
        if trial.state == TrialState.FAIL and trial.params not in retried:
            with warnings.catch_warnings(action="ignore", category=optuna.exceptions.ExperimentalWarning):
                study.enqueue_trial(trial.params)
            retried.append(trial.params)
    done = sum(trial.state == TrialState.COMPLETE for trial in trials)
    chosen = [f"hydra.sweeper.n_trials={max(0, sweeper.n_trials - done)}"]
    seed = sweeper.sampler.get("seed")
    if seed is not None:  # the same seed would draw the first trials' numbers again
        chosen.append(f"hydra.sweeper.sampler.seed={seed + len(trials)}")
    return chosen


# ---- its members


def member_folder(stem: str, suffix: str, *, _root_: DictConfig) -> str:
    """The name of a member's folder in its sweep: with resume=auto the one it has there already, else a new one."""
    try:
        digest = digest_of(_root_)
    except OmegaConfBaseException:  # the run will say what is wrong
        return f"{stem}_{suffix}"
    found = find_member(_root_, digest) if _root_.get("resume") == "auto" else None
    return found.name if found is not None else f"{stem}_{mark(digest)}-{suffix}"


def digest_of(config: DictConfig) -> str:
    """The digest of a run's configuration that still has Hydra's part, and no folder yet."""
    own = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    OmegaConf.set_struct(own, False)
    own.output_dir = ""
    return resume.digest(own)


def mark(digest: str) -> str:
    return digest[:8]


def find_member(config: DictConfig, digest: str) -> Path | None:
    """The newest folder of this configuration in its sweep."""
    folders = Path(config.hydra.sweep.dir).glob(f"*_{mark(digest)}-*")
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True):
        written = folder / "config.yaml"
        if not written.exists() or resume.digest(resume.load(written)) == digest:
            return folder
    return None


def score_if_finished(folder: Path, config: DictConfig) -> float | None:
    """The tested model's validation MSE, of a finished run in this folder; a sweeper asks for it again."""
    if not resume.is_finished(folder, config):
        return None
    return json.loads((folder / "metrics.json").read_text("utf-8")).get("validation_mse")


def note_loss(config: DictConfig, number: int, reason: str) -> float | None:
    """Leave word in a member's folder that its process ended without one; a folder that it had not made is made.

    Returns its score, where all was done before it ended.
    """
    digest = digest_of(config)
    folder = find_member(config, digest)
    if folder is None:
        folder = Path(config.hydra.sweep.dir) / f"{number}_{config.run_name}_{mark(digest)}-lost"
        folder.mkdir()
    elif (score := score_if_finished(folder, config)) is not None:
        return score
    if not (folder / "overrides.yaml").exists():
        OmegaConf.save(config.hydra.overrides.task, folder / "overrides.yaml")
    (folder / "error.txt").write_text(reason + "\n", "utf-8")
    return None


OmegaConf.register_new_resolver("member_folder", member_folder, replace=True)
