"""Score a trained model again, or on other data: `python -m forecast.evaluate --help`."""

from typing import TYPE_CHECKING

from omegaconf import DictConfig

from forecast.cli.compose import check_checkpoint
from forecast.cli.main import main_without_run_folder
from forecast.system.errors import ConfigError, check_choice, user_path
from forecast.system.files import atomic_file, check_output_files, write_json

if TYPE_CHECKING:
    from forecast.data import DataModule
    from forecast.inference.model import TrainedModel


def evaluate(config: DictConfig) -> None:
    """Print the table of scores, and write them as JSON if a file is given."""
    from forecast.data.split import SPLITS
    from forecast.inference.model_data import read_model_data

    check_checkpoint(config)
    file = user_path(config.output) if config.output else None
    if file:
        series_file = file.with_name(f"{file.stem}_by_series.parquet")
        if file.suffix != ".json":
            raise ConfigError(f"output={config.output}: give a name that ends in .json")
        check_output_files(file, series_file, overwrite=config.overwrite)
    check_choice("split", config.split, SPLITS)
    data = read_model_data(config.checkpoint, tested=True).read_data(config.data)
    from forecast.evaluation.scores import name_tested
    from forecast.inference.evaluate import evaluate as evaluate_model  # imports PyTorch
    from forecast.inference.forecasters import find_unread_columns, list_forecasters
    from forecast.inference.model import load_tested
    from forecast.reports.scores import describe_series, print_scores, tabulate_series, which_windows

    model = load_tested(config.checkpoint)
    model.data(data, find_unread_columns(list_forecasters(model)))
    content, results = evaluate_model(model, data, config.split)
    title = f"{config.split}: {data.title}, {which_windows(data, config.split)}"
    name = name_tested(model.config["model"]["attention"]["name"], untrained=model.is_untrained)
    print_scores(title, name, results, data)
    by_series = tabulate_series(data, results)
    if by_series is not None:
        print(*describe_series(by_series, results.best_baseline), sep="\n")
    for note in describe_overlap(model, data, config.split):
        print(f"note: {note}")
    if file:
        with atomic_file(file) as temporary:
            write_json(temporary, content)
            if by_series is not None:
                with atomic_file(series_file) as temporary_series:
                    by_series.to_parquet(temporary_series, index=False)
                print(f"saved {series_file}")
        print(f"saved {file}")


def describe_overlap(model: "TrainedModel", data: "DataModule", split: str) -> list[str]:
    """Notes where scored rows were used in training, or where the split is not the split of the training run."""
    from forecast.inference.origins import note_on_test

    notes = []
    if split == "test" and (note := note_on_test(model, data)):
        notes.append(note)
    if data.options.split != "test" and (now := data.last_date("train")) != model.trained_until:
        trained_until, rows_end = (
            data.panel.utc_offset.describe(date, with_offset=False) for date in (model.trained_until, now)
        )
        notes.append(
            f"trained on rows to {trained_until}; the training rows of these data end {rows_end}, so their "
            f"{split} rows are not those of the run"
        )
    if split != "test":
        notes.append(
            f"the {split} rows were used in training; only the test split shows how accurate forecasts of new rows are"
        )
    return notes


if __name__ == "__main__":
    main_without_run_folder("evaluate")
