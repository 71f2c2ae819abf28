"""Names of the forecasters and scores of a test. Imports no torch: pages of results use them too."""

from typing import NamedTuple

MODEL = "model"


class BaselineFacts(NamedTuple):
    """Facts about a baseline for tables and figures.

    Attributes:
        label: its name in tables and figures.
        colour: of its lines, a grey: colours are those of attention types.
        dashes: of its lines, as Matplotlib names them.
        depends_on: the setting or the entry of metrics.json that changes its forecast; None: nothing does.
        has_parameters: whether it has weights, which later rows can make out of date.
    """

    label: str
    colour: str
    dashes: str
    depends_on: str | None = None
    has_parameters: bool = False


BASELINES = {
    "naive": BaselineFacts("naive", "#8a96a3", ":"),
    "seasonal_naive": BaselineFacts("seasonal naive", "#6b7785", "-.", depends_on="season"),
    "linear": BaselineFacts("linear baseline", "#3d4854", "--", depends_on="seq_len", has_parameters=True),
}
"""The baselines by name, in the order of tables; `forecast.evaluation.baselines` has their classes."""

LABELS = {name: facts.label for name, facts in BASELINES.items()}
"""Labels of the baselines in tables and figures."""


SAME_ERROR = 5e-4
"""Two forecasters of an origin, a series or a run are equal if their errors differ by less: by 0.0% when printed.

If only the linear model was kept, it can be the linear baseline up to round-off.
"""


LINEAR_ALONE = " (linear model alone)"
"""Follows the name of a model of which only the linear model was kept, so that attention has no part in its scores."""


def name_tested(attention: str, *, untrained: bool) -> str:
    """Name the model in a row of scores: by its attention type, and whether only its linear model was kept."""
    return attention + LINEAR_ALONE * untrained


def describe_change(change: float) -> str:
    """Describe a difference of two MSEs, relative to the second one: `3.1% less MSE`."""
    return f"{abs(change):.1%} {'less' if change < 0 else 'more'} MSE"


def labels(attention: str) -> dict[str, str]:
    """Labels of the model of this attention type (or `mlp`) and of the baselines, in figures.

    With attention=linear it is "model (linear)": a "linear model" is what the linear baseline fits.
    """
    return {MODEL: f"model ({attention})", **LABELS}


SCALED_SCORES = ("mse", "mae", "crps")
"""Scores of scaled values, which are means over all true values and are also saved for each window."""
