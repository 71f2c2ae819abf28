"""Forecast from many origins as at the time: `python -m forecast.backtest --help`."""

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.cli import main
from forecast.configuration import check_one_table
from forecast.errors import ConfigError

OF_A_BACKTEST = (
    "checkpoint",
    "steps",
    "stride",
    "refit_every",
    "levels",
    "data",
    "trainer",
    "output_root",
    "hydra",
)
"""What may be said beside a checkpoint, which brings all other settings along."""


def backtest(config: DictConfig) -> None:
    """Train where that is asked for, forecast from every origin, and save tables and a picture."""
    # Here and not above, so that --help and --cfg answer without loading torch.
    from forecast import backtest_report, backtesting, quiet
    from forecast.build import check_callbacks, make_data
    from forecast.hardware import settle
    from forecast.resources import keep_freed_memory
    from forecast.trained import load_tested

    quiet.lightning()
    keep_freed_memory()
    check_one_table(config, "backtest")
    for key in ("refit", "resume"):
        if config[key] is not None:
            raise ConfigError(f"{key}={config[key]}: a backtest has no {key}: leave it out")
    check_callbacks(config, "checkpoint")
    if not config.checkpoint:
        settle(config, None)
        found = backtesting.refitted(config, make_data(config))
    else:
        typed = [override.lstrip("+~") for override in HydraConfig.get().overrides.task]
        for text in typed:
            if text.split("=")[0].split(".")[0] not in OF_A_BACKTEST:
                raise ConfigError(
                    f"{text}: the settings are the checkpoint's; leave it out, or leave checkpoint= out"
                )
        model = load_tested(config.checkpoint)
        model.check_one_table("backtest")
        settings, given = backtesting.settings_of(model, config, typed)
        data = model.data(given)
        found = (
            backtesting.unchanged(model, data, settings)
            if config.refit_every is None
            else backtesting.refitted(settings, data)
        )
    folder = Path(config.output_dir)
    backtest_report.save(folder, found)
    backtest_report.show(folder, found)


if __name__ == "__main__":
    main("backtest", backtest)
