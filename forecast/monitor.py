"""Test on newer rows whether a model should be trained again: `python -m forecast.monitor --help`."""

import sys
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from forecast.cli.compose import check_checkpoint
from forecast.cli.main import main_without_run_folder
from forecast.system.errors import ConfigError, TooFewRows, user_path
from forecast.system.files import atomic_file, check_output_files, write_json

if TYPE_CHECKING:
    from forecast.data import DataModule
    from forecast.inference.model import TrainedModel
    from forecast.tools.monitor.report import Findings

DRIFT_STATUS = 3
"""Exit status for the verdict `retrain`, with exit_code=true; 1 and 2 are those of errors."""


def monitor(config: DictConfig) -> None:
    """Print what the newer rows show, and write it as JSON with a picture.

    Raises:
        SystemExit: with `DRIFT_STATUS`, if the verdict is `retrain` and `exit_code` is true.
    """
    from forecast.inference.model_data import read_model_data

    check_checkpoint(config)
    file = user_path(config.output)
    if file.suffix != ".json":
        raise ConfigError(f"output={config.output}: give a name that ends in .json")
    check_output_files(file, file.with_suffix(".png"), overwrite=config.overwrite)
    if not config.data.get("path"):
        raise ConfigError("data.path=null: name the file with the newer rows")
    model_data = read_model_data(config.checkpoint)
    try:
        data = model_data.read_data({**OmegaConf.to_container(config.data), "split": "test"})  # type: ignore[dict-item]
    except TooFewRows as error:  # a job may give the rows since its last run, of which there may be none
        if not str(error).startswith(
            str(user_path(config.data.path))
        ):  # another file, such as one of covariates
            raise
        data = None
    from forecast.inference.model import load  # imports PyTorch
    from forecast.reports import figures
    from forecast.tools.monitor.report import describe, draw

    found = examine(load(config.checkpoint), data)
    figure = draw(found)
    print(*describe(found), sep="\n")
    with atomic_file(file) as temporary:
        write_json(temporary, found.content())
        figures.save(figure, file.with_suffix(".png"))
    print(f"saved      {file}, {file.with_suffix('.png')}")
    if config.exit_code and found.verdict.advice == "retrain":
        sys.exit(DRIFT_STATUS)


def examine(model: "TrainedModel", data: "DataModule | None") -> "Findings":
    """Score the forecasts of the rows after the test, and compare them with the test and the inputs of the run.

    `data` are read, but need not be set up; None: there are no rows.
    """
    from forecast.evaluation.scores import ReportedScores
    from forecast.inference.forecasters import find_unread_columns, list_forecasters
    from forecast.inference.model import evaluate
    from forecast.reports.inputs import tabulate_inputs
    from forecast.reports.scores import tabulate_windows
    from forecast.tools.monitor.report import Findings
    from forecast.tools.monitor.verdict import (
        Period,
        find_end,
        find_rows_after,
        has_newer_window,
        judge,
        keep_windows_after,
        measure_drift,
        read_test,
    )

    test, run_inputs = read_test(model)
    end = None if data is None else find_end(model, test, data.read_panel())
    if data is None or end is None or not has_newer_window(model, data.read_panel(), end):
        nothing = Period.empty(test)
        return Findings(model, test, nothing, judge(nothing, test, {}), {}, {}, {})
    model.data(data, find_unread_columns(list_forecasters(model)))
    keep_windows_after(data, end)
    content, results = evaluate(model, data)
    newer = Period.of_windows(tabulate_windows(data, results), data.windows["test"].overlap)
    scores = ReportedScores.read(content)
    if model.refitted is not None:  # the inputs of the run have the scale of the tested model
        data.load_state_dict(model.tested().data_state)
    drift = measure_drift(tabulate_inputs(data, find_rows_after(data.panel, end), blocks=1), run_inputs)
    return Findings(model, test, newer, judge(newer, test, drift), scores.coverage, scores.misses, drift)


if __name__ == "__main__":
    main_without_run_folder("monitor")
