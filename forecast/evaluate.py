"""Score a trained model again, or on other data: `forecast evaluate --help`."""

from omegaconf import DictConfig

from forecast.cli.compose import check_checkpoint
from forecast.cli.main import main_without_run_folder
from forecast.system.errors import check_choice
from forecast.system.files import atomic_file, check_output_files, output_file, write_json


def evaluate(config: DictConfig) -> None:
    """Print the table of scores, and write them as JSON if a file is given."""
    from forecast.data.split import SPLITS
    from forecast.inference.model_data import read_model_data

    check_checkpoint(config)
    file = output_file(config.output, ".json") if config.output else None
    if file:
        series_file = file.with_name(f"{file.stem}_by_series.parquet")
        check_output_files(file, series_file, overwrite=config.overwrite)
    check_choice("split", config.split, SPLITS)
    data = read_model_data(config.checkpoint, tested=True).read_data(config.data)
    from forecast.evaluation.scores import name_tested
    from forecast.inference.forecasters import find_unread_columns, list_forecasters
    from forecast.inference.model import evaluate as evaluate_model  # imports PyTorch
    from forecast.inference.model import load_tested
    from forecast.inference.origins import note_on_windows
    from forecast.reports.scores import describe_series, print_scores, tabulate_series, which_windows

    model = load_tested(config.checkpoint)
    data = model.data(data, find_unread_columns(list_forecasters(model)))
    content, results = evaluate_model(model, data, config.split)
    title = f"{config.split}: {data.title}, {which_windows(data, config.split)}"
    name = name_tested(model.config["model"]["attention"]["name"], untrained=model.is_untrained)
    print_scores(title, name, results, data)
    by_series = tabulate_series(data, results)
    if by_series is not None:
        print(*describe_series(by_series, results.best_baseline), sep="\n")
    if note := note_on_windows(model, data, config.split):
        print(f"note: {note}")
    if file:
        with atomic_file(file) as temporary:
            write_json(temporary, content)
            if by_series is not None:
                with atomic_file(series_file) as temporary_series:
                    by_series.to_parquet(temporary_series, index=False)
                print(f"saved {series_file}")
        print(f"saved {file}")


if __name__ == "__main__":
    main_without_run_folder("evaluate")
