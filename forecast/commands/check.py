"""Body of `python -m forecast.check`: describe a data file before training."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig

from forecast.cli.overrides import parse, typed_overrides
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file, check_output_files, write_json
from forecast.system.progress import status
from forecast.tools.check.advice import Choices
from forecast.tools.check.diagnosis import Diagnosis, diagnose
from forecast.tools.check.report import collect_findings, print_report

FIGURES = (".png", ".svg", ".pdf")


def check(config: DictConfig) -> None:
    """Read and examine the data, print the findings, and save them as a figure and as JSON if `output` is given."""
    path = None if config.output is None else Path(config.output)
    if path is not None:
        if path.suffix not in FIGURES:
            raise ConfigError(f"output={path}: the picture must end in {', '.join(FIGURES)}")
        check_output_files(path, path.with_suffix(".json"), overwrite=config.overwrite)
    typed = typed_about_data()
    found = examine(config, typed)
    print_report(found, typed)
    if path is None:
        print("nothing is saved: output=check.png saves a picture, and these findings as check.json")
        return
    with status(f"Drawing {path}"):
        save(found, typed, path)
    print(f"saved {path} and {path.with_suffix('.json')}")


def examine(config: DictConfig, typed: dict[str, Any], *, must_fit: bool = False) -> Diagnosis:
    """Read and examine the data of a configuration of `forecast.check`.

    Args:
        typed: the keys below `data` that the user typed.
        must_fit: whether lengths that leave no windows are refused; else shorter ones are suggested.
    """
    make = partial(
        instantiate,
        config.data,
        seq_len=config.seq_len or 1,
        pred_len=config.pred_len or 1,
        features=config.features or "M",
    )
    with status("Examining the data"):
        return diagnose(make, replace(read_choices(config, typed), must_fit=must_fit))


def read_choices(config: DictConfig, typed: dict[str, Any]) -> Choices:
    """Return the settings of the user that the suggestions depend on."""
    return Choices(
        seq_len=config.seq_len,
        label_len=config.label_len,
        pred_len=config.pred_len,
        features=config.features,
        target=config.data.target,
        target_typed="data.target" in typed,
        season=config.data.season,
        batch_size=typed.get("data.batch_size"),
        columns=config.data.get("columns"),
        columns_typed="data.columns" in typed,
        past_covariates=config.data.get("past_covariates", ()),
        future_covariates=config.data.get("future_covariates", ()),
        drop=config.data.get("drop", ()),
        steps=config.data.get("steps"),
        freq=config.data.get("freq"),
        eval_stride=config.data.eval_stride,
        na_values=config.data.get("na_values"),
    )


def save(diagnosis: Diagnosis, typed: dict[str, Any], path: Path) -> None:
    """Save the figure as `path` and the findings next to it, both or neither."""
    from forecast.tools.check.figure import save_figure  # imports Matplotlib

    findings = collect_findings(diagnosis, typed)
    with atomic_file(path.with_suffix(".json")) as json_file, atomic_file(path) as figure_file:
        save_figure(diagnosis, figure_file)
        write_json(json_file, findings)


def typed_about_data() -> dict[str, Any]:
    """The chosen data group, then the keys of the group that the user typed, which depend on it."""
    about = {
        key: parse([argument])[0].value()
        for key, argument in typed_overrides().items()
        if key.startswith("data.")
    }
    return {"data": HydraConfig.get().runtime.choices["data"], **about}
