"""Body of `python -m forecast.explain`: the inputs and the attention of a model, or the layers of several runs."""

from pathlib import Path

from omegaconf import DictConfig

from forecast.cli.compose import check_checkpoint
from forecast.commands.compare import read_places
from forecast.data.split import SPLITS
from forecast.inference.model_data import read_model_data
from forecast.reports.compare.chart_data import number_colours
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.run_folders import list_places
from forecast.system.checks import check_choice
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_folder, check_output_folder
from forecast.system.formatting import plural
from forecast.system.paths import user_path
from forecast.tools.explain.wandb_run import check_mode, log_folder

SLOTS = ("encoder", "decoder", "cross", "variables")


def explain(config: DictConfig) -> None:
    """Measure the inputs of the forecasts, draw the chosen attention layers on one window, write and print both."""
    check_options(config)
    output = user_path(config.output)
    check_output_folder(output, marks={"index.html"}, suffix=(".png", ".csv"), overwrite=config.overwrite)
    if config.runs:
        explain_runs(config, output)
        return
    data = read_model_data(config.checkpoint).read_data(config.data)
    from forecast.inference.forecasters import ModelForecaster, find_unread_columns  # imports PyTorch
    from forecast.inference.model import load
    from forecast.tools.explain.explanation import explain_model

    trained = load(config.checkpoint)
    trained.data(data, find_unread_columns([ModelForecaster(trained)]))
    explain_model(config, trained, data, output)


def explain_runs(config: DictConfig, output: Path) -> None:
    """Measure the attention layers of several runs of one task on the same windows, write and print the numbers.

    Raises:
        ConfigError: a folder does not exist, no run is finished, or the runs are of several tasks.
    """
    runs, _ = read_places(list_places(config.runs))
    if not runs:
        raise ConfigError(f"runs={config.runs}: no finished run; give run folders, sweep folders or globs")
    tasks = group_into_tasks(runs)
    if len(tasks) > 1:
        titles = "; ".join(dict.fromkeys(task.title for task in tasks))
        raise ConfigError(
            f"runs: {len(tasks)} tasks ({titles}): name runs that forecast the same test windows"
        )
    from forecast.tools.explain.runs import study_layers  # imports PyTorch
    from forecast.tools.explain.runs_report import describe_layers, print_report, write_report

    (task,) = tasks
    study = study_layers(config, task)
    windows = plural(study.windows, f"{config.split} window")
    title = f"Attention layers of {plural(len(runs), 'run')} on {windows}: {task.title}"
    facts = describe_layers(study)
    with atomic_folder(output) as folder:
        write_report(folder, title, facts, study, number_colours(task.unmerged_variants))
        if config.wandb:
            log_folder(folder, title, config.wandb, {"runs": [run.folder.name for run in runs]})
    print_report(title, facts, study)
    print(f"saved in {output}: index.html and numbers.csv")


def check_options(config: DictConfig) -> None:
    """Raise ConfigError for an invalid option."""
    if not config.runs:
        check_checkpoint(config)
    elif config.checkpoint:
        raise ConfigError("checkpoint= explains one model, runs= compares several: give one of them")
    check_choice("split", config.split, SPLITS)
    check_mode(config.wandb)
    if config.slot != "all" and config.slot not in SLOTS:
        raise ConfigError(f"slot={config.slot}: choose all, {', '.join(SLOTS)}")
    if config.importance_windows == 1:
        raise ConfigError("importance_windows=1: at least 2 windows are needed, or 0 to leave out importance")
    if config.repeats < 2:
        raise ConfigError(f"repeats={config.repeats} must be at least 2: their standard deviation is shown")
