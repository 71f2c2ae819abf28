"""What the test of a run says of forecasts, in lines for the terminal: skill, coverage, test rows trained on."""

import math

from forecast.data import DataModule
from forecast.evaluation.names import LABELS, MODEL
from forecast.evaluation.quantiles import Level
from forecast.evaluation.results import Tested
from forecast.inference.forecast import Forecast
from forecast.inference.model import TrainedModel


def describe_test(found: Forecast) -> list[str]:
    """Lines on how the model, or the baseline that forecasts, did in the test; none without a test."""
    model, name = found.forecaster.model, found.forecaster.name
    if model.test is None:
        return []
    if name != MODEL:
        return [f"test       {compare(model.test, name, MODEL)}"]
    best = model.test.best_baseline
    lines = [compare(model.test, MODEL, best)]
    if model.test.mse[best] < model.test.mse[MODEL] and change_of(model.test, best, MODEL) != "0.0%":
        lines = [f"{compare(model.test, best, MODEL)}: baseline={best} forecasts with it"]
    if found.dates.shape[1] <= model.pred_len:
        lines += describe_coverage(model.test, found.method, list(found.low))
    return [f"test       {line}" for line in lines]


def compare(test: Tested, name: str, other: str) -> str:
    """Compare the MSE of two forecasters."""
    one, two = ({MODEL: "the model", **LABELS}[each] for each in (name, other))
    mse, other_mse = test.mse[name], test.mse[other]
    if other_mse == 0:
        return f"{two} had no error"
    change = change_of(test, name, other)
    if change == "0.0%":
        return f"{one} and {two} had the same MSE"
    return f"{one} had {change} {'less' if mse < other_mse else 'more'} MSE than {two}"


def change_of(test: Tested, name: str, other: str) -> str:
    """The relative difference of two MSEs, of which the second is not 0, in percent and without a sign."""
    return f"{abs(test.mse[name] / test.mse[other] - 1):.1%}"


def describe_coverage(test: Tested, method: str, levels: list[Level]) -> list[str]:
    """The coverage of each level, where the test measured intervals of this method."""
    measured = test.coverage.get(method, {})
    return [
        f"the {level:g}% interval covered {measured[f'{level:g}']:.1%} of the values"
        for level in levels
        if math.isfinite(measured.get(f"{level:g}", math.nan))
    ]


def note_on_test(model: TrainedModel, data: DataModule) -> str:
    """Return a caution if the first test date of a series was trained on, as after a refit; else an empty string.

    One of several series may be tested before the training of another one ends: several series are looked at only where
    all their rows are the test split.
    """
    if len(data.panel) > 1 and data.options.split != "test":
        return ""
    first, last = data.rows["test"]
    return model.note_on(data.panel.dates(first[first < last]))
