"""Score a trained model again, or on other data."""

from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from forecast.cli.compose import check_checkpoint
from forecast.data import DataModule
from forecast.system.errors import ConfigError
from forecast.system.files import check_free, whole_file, write_json


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
    from forecast.inference import evaluate
    from forecast.inference.model import load_tested
    from forecast.reports.series import describe_series, tabulate_series
    from forecast.reports.terminal import print_scores, which_windows
    from forecast.training import lightning_warnings

    lightning_warnings.filter_messages()
    model = load_tested(config.checkpoint)
    data = model.data(config.data)
    content, measured = evaluate.evaluate(model, data, config.split)
    title = f"{config.split}: {data.title}, {which_windows(data, config.split)}"
    print_scores(title, model.config["model"]["attention"]["name"], measured)
    for line in describe_series(data, measured):
        print(line)
    if config.split == "test" and (note := model.note_on(first_test_dates(data))):
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
        if data.panel.has_ids:
            with whole_file(by_series) as temporary:
                tabulate_series(data, measured).to_parquet(temporary, index=False)
            print(f"saved {by_series}")


def first_test_dates(data: DataModule) -> pd.DatetimeIndex:
    """The first date of each series that is tested; of several series, where all rows are the test split."""
    first, last = data.rows["test"]
    if len(data.panel) > 1 and data.split != "test":
        return pd.DatetimeIndex([])  # one series may be tested before another one's training ends
    return data.panel.dates(first[first < last])
