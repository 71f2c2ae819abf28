"""Test on newer rows whether a model should be trained again: `forecast monitor --help`."""

import sys

from omegaconf import DictConfig, OmegaConf

from forecast.cli.compose import check_checkpoint
from forecast.cli.main import main_without_run_folder
from forecast.system.errors import ConfigError, TooFewRows, user_path
from forecast.system.files import atomic_file, check_output_files, output_file, write_json

DRIFT_STATUS = 3  # exit status for the verdict `retrain`, with exit_code=true; 1 and 2 are errors


def monitor(config: DictConfig) -> None:
    """Print what the newer rows show, and write it as JSON with a picture."""
    from forecast.inference.model_data import read_model_data

    check_checkpoint(config)
    file = output_file(config.output, ".json")
    check_output_files(file, file.with_suffix(".png"), overwrite=config.overwrite)
    if not config.data.get("path"):
        raise ConfigError("data.path=null: name the file with the newer rows")
    model_data = read_model_data(config.checkpoint)
    try:
        data = model_data.read_data({**OmegaConf.to_container(config.data), "split": "test"})  # type: ignore[dict-item]
    except TooFewRows as error:  # a job may give the rows since its last run, of which there may be none
        if not str(error).startswith(str(user_path(config.data.path))):
            raise  # another file, such as one of covariates
        data = None
    from forecast.inference.model import load  # imports PyTorch
    from forecast.reports import figures
    from forecast.tools.monitor import describe, draw, examine

    found = examine(load(config.checkpoint), data)
    figure = draw(found)
    print(*describe(found), sep="\n")
    with atomic_file(file) as temporary:
        write_json(temporary, found.content())
        figures.save(figure, file.with_suffix(".png"))
    print(f"saved      {file}, {file.with_suffix('.png')}")
    if config.exit_code and found.verdict.advice == "retrain":
        sys.exit(DRIFT_STATUS)


if __name__ == "__main__":
    main_without_run_folder("monitor")
