"""Hyperparameter searches with Optuna: the space, the study, and the trials that a resumed search begins with.

Imports optuna (extra `optuna`).
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep, Transformer
from hydra.core.utils import JobReturn, JobStatus
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage
from optuna.trial import Trial, TrialState

from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file
from forecast.system.formatting import shorten
from forecast.system.keys import identifying_overrides, key_of_override

RESULTS = "optimization_results.yaml"  # in a sweep's folder: the parameters and the value of the best trial

SEARCH = "search"  # the attribute of a study that holds the overrides of its search

Draw = Callable[[Trial], Any]  # draws the value of one parameter of a trial


# ---- the study


def open_study(name: str, storage: BaseStorage | str | None, search: Sequence[str]) -> optuna.Study:
    """Open the study of this name in its storage, or create it; it minimises the validation score.

    Raises ConfigError: the study is that of another search.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name=name, storage=storage, load_if_exists=True)
    check_same_search(study, search)
    study.set_user_attr(SEARCH, list(search))
    return study


def identify_search(space: Mapping[str, Any], arguments: Sequence[str]) -> list[str]:
    """The overrides in which two commands must agree to share a study: search space, data and settings.

    Args:
        space: the search space of the configuration, as `read_search_space` takes its values.
        arguments: the overrides of the command, which replace entries of the search space.
    """
    every = [*(f"{key}={value}" for key, value in space.items()), *arguments]
    last = {key_of_override(argument): argument for argument in every}
    return identifying_overrides([each for key, each in last.items() if key.split(".")[0] != "hydra"])


def check_same_search(study: optuna.Study, search: Sequence[str]) -> None:
    """Raise ConfigError if the study has trials of another search."""
    if differences := {*study.user_attrs.get(SEARCH, search)} ^ {*search}:
        keys = shorten(sorted({key_of_override(each) for each in differences}))
        raise ConfigError(
            f"hydra.sweeper.study_name={study.study_name}: the storage has a study of this name for another search, "
            f"which differs in {keys}: give this search another name"
        )


def begin_trial(study: optuna.Study, sampler: partial[Any], draws: dict[str, Draw]) -> tuple[Trial, list[str]]:
    """Begin the next trial of a study. Return the trial and its values as overrides.

    The seed of the sampler's numbers is its own seed plus the number of trials in the study. So a resumed search, and a
    command that adds trials, draw other numbers than the trials before, and the numbers of an uninterrupted search.

    Raises ConfigError: the sampler cannot draw a parameter, or the study has drawn it from other choices.
    """
    seed = sampler.keywords["seed"]
    with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
        study.sampler = sampler(seed=None if seed is None else seed + len(study.get_trials(deepcopy=False)))
    trial = study.ask()
    for name, draw in draws.items():
        try:
            draw(trial)
        except ValueError as error:
            study.tell(trial, state=TrialState.FAIL)
            raise ConfigError(f"{name}: the search cannot draw a value: {error}") from None
    return trial, [f"{name}={trial.params[name]}" for name in draws]


def end_trial(study: optuna.Study, trial: Trial, result: JobReturn) -> None:
    """Record the value that a trial's job returned, or a failure if it is no number."""
    value = result.return_value if result.status is JobStatus.COMPLETED else None
    if not isinstance(value, int | float) or math.isnan(value):
        study.tell(trial, state=TrialState.FAIL)
    else:
        study.tell(trial, float(value))


def save_best(study: optuna.Study, folder: Path) -> None:
    """Save the parameters and the value of the best trial, if a trial of the study has a value."""
    if study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]):
        best = {
            "name": "optuna",
            "best_params": study.best_params,
            "best_value": study.best_value,
            "score": "quantile loss" if "loss=quantile" in study.user_attrs.get(SEARCH, ()) else "MSE",
        }
        with atomic_file(folder / RESULTS) as temporary:
            OmegaConf.save(OmegaConf.create(best), temporary)


# ---- resuming


def remaining_trials(sweeper: DictConfig, arguments: Sequence[str]) -> dict[str, Any]:
    """Queue the unfinished trials of an interrupted study, and return the settings that run only these.

    A trial that was running is set to waiting, with its number and values. A failed trial is enqueued as a new trial
    with the same values, unless another trial has them. `n_trials` counts the trials that have a result.

    Raises ConfigError: the study is that of another search.
    """
    if sweeper.storage is None:  # the study was in the memory of the ended process
        return {}
    is_url = isinstance(sweeper.storage, str)
    storage = optuna.storages.get_storage(sweeper.storage) if is_url else instantiate(sweeper.storage)
    try:
        study = optuna.load_study(study_name=sweeper.study_name, storage=storage)
    except KeyError:  # stopped before it began
        return {}
    check_same_search(study, identify_search(sweeper.params, arguments))
    trials = study.get_trials(deepcopy=False)
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)
    others = [trial for trial in trials if trial.state != TrialState.FAIL]
    known = [trial.system_attrs.get("fixed_params", trial.params) for trial in others]
    for trial in trials:
        if trial.state == TrialState.FAIL and trial.params not in known:
            study.enqueue_trial(trial.params)
            known.append(trial.params)
    done = sum(trial.state == TrialState.COMPLETE for trial in trials)
    return {"hydra.sweeper.n_trials": max(0, sweeper.n_trials - done)}


# ---- the space


def read_search_space(arguments: Sequence[str], config_loader: Any = None) -> tuple[dict[str, Draw], list[str]]:
    """Split overrides into the parameters that each trial draws, and the overrides that all trials share.

    If a key has several overrides, the last one counts.

    Args:
        arguments: overrides in Hydra's syntax. `interval`, `choice` (also `a,b`), `range` and `glob` are drawn. The tag
            `log` of an interval draws on a logarithmic scale. `int(interval(1, 4))` draws whole numbers.
        config_loader: Hydra's, which knows the options that `glob` selects.

    Raises ConfigError: a range has no values, or trials would have validation scores that cannot be compared.
    """
    parsed = OverridesParser.create(config_loader).parse_overrides(list(arguments))
    last = {override.get_key_element().lstrip("+~"): override for override in parsed}
    drawn = [o for o in last.values() if o.is_sweep_override()]
    for override in drawn:
        key, text = override.get_key_element(), override.input_line or ""
        if key == "levels" or (key == "loss" and "quantile" in text):
            raise ConfigError(
                f"{text}: the scores of trials cannot be compared: loss=quantile has the quantile loss, which depends "
                "on levels, and other losses have the MSE; search with one loss and one list of levels"
            )
    draws = {o.get_key_element(): draw_of(o) for o in drawn}
    return draws, [o.input_line or "" for o in last.values() if not o.is_sweep_override()]


def draw_of(override: Override) -> Draw:
    name, value = override.get_key_element(), override.value()
    if isinstance(value, IntervalSweep):
        low, high = value.start, value.end
        suggest: Any = Trial.suggest_int if isinstance(low, int) and isinstance(high, int) else Trial.suggest_float
        return partial(suggest, name=name, low=low, high=high, log="log" in value.tags)
    values: list[Any] = list(override.sweep_iterator(transformer=Transformer.encode))
    if not isinstance(value, RangeSweep):
        return partial(Trial.suggest_categorical, name=name, choices=values)
    if not values:
        raise ConfigError(f"{override.input_line}: this range has no values")
    is_whole = all(isinstance(each, int) for each in values)
    number, suggest = (int, Trial.suggest_int) if is_whole else (float, Trial.suggest_float)
    start, step = Decimal(str(value.start)), Decimal(str(value.step))  # 0.1 + 0.2 is 0.3
    low, high = sorted((start, start + (len(values) - 1) * step))
    return partial(suggest, name=name, low=number(low), high=number(high), step=number(abs(step)))
