"""The page docs/benchmarks/gift_eval.md: our scores among the published ones."""

import textwrap
from typing import Any

import numpy as np
import pandas as pd

from leaderboard.gift_settings import SETTINGS
from leaderboard.page import bold, describe_hardware
from tables import markdown_table

METRICS = ("MASE", "CRPS")
NAIVE = "seasonal_naive"
LABELS = {"mlp": "`model=mlp`", "linear baseline": "linear baseline"}
TRAINED = (
    "DLinear", "N-BEATS", "PatchTST", "crossformer", "deepar", "iTransformer", "tft", "tide", "xLSTM-Mixer", "FFM",
)  # fmt: skip
"""Published models of the type deep-learning in the files config.json of GIFT-Eval: trained on the data set alone."""
STATISTICAL = ("FLAIR", "auto_arima", "auto_ets", "auto_theta", "naive", NAIVE)
LEAKING = (
    "Chronos_small", "Lag-Llama", "MoiraiAgent-leaking", "RAES-Conductance-Ensemble", "Super-Linear",
    "TSOrchestra-test", "TTM-R1-Pretrained", "TTM-R2-Finetuned", "TTM-R2-Pretrained", "chronos_base",
    "chronos_bolt_base", "chronos_bolt_small", "chronos_large", "tempo_ensemble", "timesfm", "timesfm_2_0_500m",
)  # fmt: skip
"""Published models whose config.json says that their training data contain test rows of GIFT-Eval."""
BEST = 5
"""Models of other types that the page shows."""

HEAD = """\
# Settings of GIFT-Eval

Scores of this program among those that [GIFT-Eval](https://github.com/SalesforceAIResearch/gift-eval) publishes, on
{run} of its 97 settings. The data of {all} settings are public files: the transformers ETTm1 and ETTm2, the weather of
Jena in 2020, and the hourly series of the M4 competition. `scripts/leaderboards gift_eval` runs them and writes this
page.

A setting has one origin or up to 20 origins at the end of the rows, one horizon apart. MASE is the mean absolute error
of the median, in units of the mean absolute difference of values that are a season apart, before each origin. The
season is one day; for steps of a day or a week, it is one step. CRPS is the mean over nine deciles of the sum of
quantile losses, divided by the sum of absolute values. Lower is better.

Each of our models is trained once for a setting, on the rows before its first origin. All settings have the same
rules: `model=mlp model.tokens=independent loss=quantile refit=full`, at most 6 epochs of 2,000 windows (m4_hourly:
6,000 windows of single series), one seed, one thread. The models read 7 days of steps of 10 or 15 minutes, 14 days of
hours, 60 days or 16 weeks. The last 15% of the rows, and at least three horizons, are for validation, followed by one
horizon for the test of the run. Epochs and windows are as many as time allowed. The linear baseline comes from the same
run and is fitted to all rows too, without the combination with a naive forecast. −9999 in the weather is missing for
our models, but is scored as GIFT-Eval does.

Three rules were developed when test scores of an earlier version were visible. The combination of the linear model with
a [naive forecast](../residual.md#shrinkage-to-a-naive-forecast): errors on the last fifth of daily and weekly means of
these files and on 18 series of m4_hourly. The pooled [intervals of few windows](../intervals.md): scores of
the settings with steps of a day or a week, also of versions that pooled otherwise; the rule was chosen on electricity
prices, the weekly series of M4 and simulations, although symmetric intervals have lower scores here. The choice of the
epoch by the quantile loss: scores of the hourly settings of jena_weather and ett1, which were run with both rules. No
other rule was selected by scores of test rows.
"""


def write_page(content: dict[str, Any], published: pd.DataFrame) -> str:
    """Return the page from our rows and the published ones."""
    check_seasonal_naive(content, published)
    ours = pd.DataFrame(content["rows"]).replace({"model": LABELS})
    names = [name for name in SETTINGS if name in set(ours["task"])]
    published = published.loc[~published["model"].isin(LEAKING)]
    everyone = pd.concat([published.rename(columns={"dataset": "task"}), ours])
    scores = {
        metric: everyone.pivot(index="model", columns="task", values=metric).reindex(columns=names)
        for metric in METRICS
    }
    parts = [
        HEAD.format(run=len(names), all=len(SETTINGS)).strip(),
        describe_missing(names),
        "## All settings together",
        compare_models(scores),
        "## Each setting",
        compare_settings(scores, ours),
        "## The seasonal naive",
        list_seasonal_naive(content, published),
    ]
    return "\n\n".join([*filter(None, parts), describe_hardware(content)])


def fill(text: str) -> str:
    return textwrap.fill(text, 119, break_on_hyphens=False)


def describe_missing(names: list[str]) -> str:
    missing = [name for name in SETTINGS if name not in names]
    return fill(f"Not run: {', '.join(missing)}.") if missing else ""


def compare_models(scores: dict[str, pd.DataFrame]) -> str:
    """Return the table of the geometric means of the scores relative to the seasonal naive, with their ranks."""
    means = pd.DataFrame(
        {metric: np.exp(np.log(table / table.loc[NAIVE]).mean(axis=1)) for metric, table in scores.items()}
    )
    ranks = means.rank(method="min").astype(int)
    means = means.sort_values("CRPS")
    others = [model for model in means.index if name_type(model) == "pretrained or combined"]
    shown = [model for model in means.index if model not in others[BEST:]]
    ours = {*LABELS.values()}
    lines = [
        [bold(model, model in ours), name_type(model), *(f"{means.loc[model, each]:.3f}" for each in ("CRPS", "MASE")),
         *(str(ranks.loc[model, each]) for each in ("CRPS", "MASE"))]
        for model in shown
    ]  # fmt: skip
    table = markdown_table(["model", "type", "CRPS", "MASE", "rank by CRPS", "rank by MASE"], lines)
    note = fill(
        "Geometric means over these settings of the scores divided by those of the seasonal naive, and ranks among "
        f"{len(means)} models. Of the pretrained and combined models, only the best {BEST} are shown. Models whose "
        "authors declare that their training data contain test rows are left out."
    )
    return "\n".join([note, "", *table])


def name_type(model: str) -> str:
    if model in LABELS.values():
        return "ours, trained on the data set"
    if model in TRAINED:
        return "trained on the data set"
    return "statistical" if model in STATISTICAL else "pretrained or combined"


def compare_settings(scores: dict[str, pd.DataFrame], ours: pd.DataFrame) -> str:
    """Return a table for each metric with our scores, our rank and the best published models."""
    seconds = ours.assign(seconds=ours["training_s"] + ours["inference_s"]).pivot(
        index="task", columns="model", values="seconds"
    )
    mlp = LABELS["mlp"]
    parts = []
    for metric, table in scores.items():
        ranks = table.rank(method="min")
        lines = [
            [name, *(f"{table.loc[each, name]:.3f} ({ranks.loc[each, name]:.0f})" for each in LABELS.values()),
             f"{table.loc[NAIVE, name]:.3f}", name_best(table.loc[list(TRAINED), name]),
             name_best(table[name].drop(list(LABELS.values()))), f"{seconds.loc[name, mlp]:,.0f}"]
            for name in table
        ]  # fmt: skip
        header = [f"{metric} (rank)", *LABELS.values(), "seasonal naive", "best trained on the data set",
                  "best of all", f"seconds, {mlp}"]  # fmt: skip
        parts.append("\n".join(markdown_table(header, lines)))
    note = (
        "Seconds are those of the processor, for training, validation, training on all rows, and forecasts."
    )
    return "\n\n".join([*parts, note])


def name_best(column: Any) -> str:
    return f"{column.min():.3f} {column.idxmin()}"


def check_seasonal_naive(content: dict[str, Any], published: pd.DataFrame) -> None:
    """Raise ValueError if the scores of our seasonal naive differ from the published ones."""
    naive = published[published["model"] == NAIVE].set_index("dataset")
    for name, scores in content["seasonal_naive"].items():
        if any(abs(scores[metric] - naive.loc[name, metric]) > 1e-5 for metric in METRICS):
            raise ValueError(f"{name}: the seasonal naive differs from the published one, so the data differ")


def list_seasonal_naive(content: dict[str, Any], published: pd.DataFrame) -> str:
    """Return the table that compares our seasonal naive with the published one."""
    naive = published[published["model"] == NAIVE].set_index("dataset")
    lines = [
        [name, str(SETTINGS[name].horizon),
         *(f"{value:.5f}" for each in METRICS for value in (scores[each], naive.loc[name, each]))]
        for name, scores in sorted(content["seasonal_naive"].items(), key=lambda item: list(SETTINGS).index(item[0]))
    ]  # fmt: skip
    table = markdown_table(["setting", "horizon", "MASE", "published", "CRPS", "published"], lines)
    note = "The data, the origins and the scores are those of the published scores:"
    return "\n".join([note, "", *table])
