"""Body of `python -m forecast.monitor`: errors of a model on newer rows beside those of its test."""

from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from forecast.cli.compose import check_checkpoint
from forecast.data import DataModule
from forecast.inference.model_data import read_model_data
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file, check_output_files, write_json
from forecast.system.paths import user_path

if TYPE_CHECKING:
    from forecast.inference.model import TrainedModel
    from forecast.tools.monitor.report import Findings


def monitor(config: DictConfig) -> None:
    """Print what the newer rows show, and write it as JSON with a picture."""
    check_checkpoint(config)
    file = user_path(config.output)
    if file.suffix != ".json":
        raise ConfigError(f"output={config.output}: give a name that ends in .json")
    check_output_files(file, file.with_suffix(".png"), overwrite=config.overwrite)
    if not config.data.get("path"):
        raise ConfigError("data.path=null: name the file with the newer rows")
    given: dict[str, Any] = OmegaConf.to_container(config.data)  # type: ignore[assignment]
    data = read_model_data(config.checkpoint).read_data({**given, "split": "test"})
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


def examine(model: "TrainedModel", data: DataModule) -> "Findings":
    """Score the forecasts of the rows after the test, and compare them with the test."""
    from forecast.evaluation.reported_scores import ReportedScores
    from forecast.inference.evaluate import evaluate
    from forecast.inference.forecasters import find_unread_columns, list_forecasters
    from forecast.reports.series import tabulate_windows
    from forecast.tools.monitor.drift import measure_drift
    from forecast.tools.monitor.report import Findings
    from forecast.tools.monitor.verdict import judge
    from forecast.tools.monitor.windows import Period, find_end, keep_windows_after, read_test

    test = read_test(model)
    model.data(data, find_unread_columns(list_forecasters(model)))
    keep_windows_after(data, find_end(model, test, data.panel))
    content, results = evaluate(model, data)
    scores = ReportedScores.read(content)
    newer = Period.of_windows(tabulate_windows(data, results), data.windows["test"].overlap)
    return Findings(
        model=model,
        test=test,
        newer=newer,
        verdict=judge(newer, test),
        coverage=scores.coverage,
        misses=scores.misses,
        drift=measure_drift(data),
    )
