"""Score a trained model again, or on other data: `python -m forecast.evaluate --help`."""

from pathlib import Path

from omegaconf import DictConfig

from forecast.cli import command
from forecast.configuration import check_checkpoint
from forecast.errors import ConfigError
from forecast.files import check_free, whole_file, write_json


def evaluate(config: DictConfig) -> None:
    """Print the table of scores; write them as JSON where that is asked for."""
    check_checkpoint(config)
    file = Path(config.output).expanduser() if config.output else None
    if file:
        if file.suffix != ".json":
            raise ConfigError(f"output={config.output}: give a name that ends in .json")
        by_series = file.with_name(f"{file.stem}_by_series.parquet")  # of many series
        check_free(file, by_series, overwrite=config.overwrite)
    # Here and not above, so that --help and --cfg answer without loading torch, and mistakes at once.
    import torch

    from forecast import evaluation, quiet, series_report
    from forecast.data import SeriesData
    from forecast.scores import show_scores, which_windows
    from forecast.trained import load_tested

    quiet.lightning()
    model = load_tested(config.checkpoint)
    data = model.data(config.data)
    content, measured = evaluation.evaluate(model, data, config.split)
    title = f"{config.split}: {data.title}, {which_windows(data, config.split)}"
    show_scores(title, model.config["model"]["attention"]["name"], measured)
    for line in series_report.described(data, measured) if isinstance(data, SeriesData) else []:
        print(line)
    if config.split == "test" and not isinstance(data, SeriesData):
        first = data.dates(data.windows["test"].origins(torch.tensor([0])).numpy())
        if note := model.note_on(first):
            print(f"note: {note}")
    if isinstance(data, SeriesData) and data.split == "test":
        first, last = data.series_rows["test"]
        if note := model.note_on(data.dates(first[first < last])):
            print(f"note: {note}")
    if data.split != "test" and (now := data.trained_until) != model.trained_until:
        print(
            f"note: trained on rows to {model.trained_until}; this table's training rows end {now}, so its "
            f"{config.split} rows are not the run's"
        )
    if config.split != "test":
        print(
            f"note: the {config.split} rows were used in training; only the test split tells how new rows will do"
        )
    if file:
        write_json(file, content)
        print(f"saved {file}")
        if isinstance(data, SeriesData):
            with whole_file(by_series) as temporary:
                series_report.by_series(data, measured).to_parquet(temporary, index=False)
            print(f"saved {by_series}")


if __name__ == "__main__":
    command("evaluate", evaluate)
