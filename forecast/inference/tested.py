"""What the test of a run found about a forecast: skill and coverage, in lines for the terminal."""

from forecast.evaluation.names import LABELS, MODEL, SAME_ERROR
from forecast.evaluation.quantiles import Level
from forecast.evaluation.results import Tested
from forecast.inference.forecast import Forecast
from forecast.inference.model import TrainedModel


def describe_test(model: TrainedModel, found: Forecast) -> list[str]:
    """Lines on how the model, or the baseline that forecasts, did in the test; none without a test."""
    if model.test is None:
        return []
    if found.baseline is not None:
        return [f"test       {compare(model.test, found.baseline, MODEL)}"]
    best = model.test.best_baseline
    lines = [compare(model.test, MODEL, best)]
    if model.test.mse[best] < (1 - SAME_ERROR) * model.test.mse[MODEL]:
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
    change = abs(mse / other_mse - 1)
    if change <= SAME_ERROR:
        return f"{one} and {two} had the same MSE"
    return f"{one} had {change:.1%} {'less' if mse < other_mse else 'more'} MSE than {two}"


def describe_coverage(test: Tested, method: str, levels: list[Level]) -> list[str]:
    """The coverage of each level, where the test measured intervals of this method."""
    measured = test.coverage.get(method, {})
    return [
        f"the {level:g}% interval held {measured[f'{level:g}']:.1%} of the values"
        for level in levels
        if f"{level:g}" in measured
    ]
