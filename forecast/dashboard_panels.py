"""What the Weights & Biases workspace and report show: which runs, how they are grouped, the panels, how to read them.

Every name here is one that `forecast.loggers` logs.
"""
# pyright: reportPrivateImportUsage=false
# (wandb_workspaces.reports.v2 is the documented place of names that it does not mark as exported)

import json
from dataclasses import dataclass, field
from typing import Any

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces import expr

VARIANT = (
    "data.name", "features", "seq_len", "pred_len", "loss", "model.d_model", "model.attention.name",
)  # fmt: skip
"""What tells variants apart: runs that agree in these (the seeds of a sweep) are averaged."""

BASELINES = ("naive", "seasonal_naive", "linear")
INTERVALS = ("conformal", "quantile")
COSTS = {
    "ms_per_window": "milliseconds a test window",
    "peak_memory_mb": "peak memory (MiB)",
    "n_parameters": "parameters",
    "seconds": "seconds of training and test",
}
COLUMNS = ("test/mse", "test/mae", "skill", "ms_per_window", "peak_memory_mb", "n_parameters")
MOST_SHOWN = 50  # variants in a panel; the app's default of 10 is fewer than two kinds at five horizons
GRID_WIDTH, PANEL_HEIGHT = 24, 8


@dataclass
class Runs:
    """The finished runs that are compared; None: all."""

    group: str | None = None
    data: str | None = None
    features: str | None = None
    pred_len: int | None = None

    def filters(self) -> expr.And:
        chosen = [
            (expr.Metric("State"), "finished"),
            (expr.Metric("Group"), self.group),
            (expr.Config("data.name"), self.data),
            (expr.Config("features"), self.features),
            (expr.Config("pred_len"), self.pred_len),
        ]
        return expr.And(*(key == value for key, value in chosen if value is not None))


@dataclass
class Topic:
    """One section of the workspace and of the report."""

    name: str
    text: str
    panels: list = field(default_factory=list)
    x_axis: str = "epoch"
    per_row: int = 2
    averaged: bool = True  # in the report: over the runs of a variant; else each run by itself

    def __post_init__(self) -> None:
        width = GRID_WIDTH // self.per_row
        for i, panel in enumerate(self.panels):
            row, column = divmod(i, self.per_row)
            panel.layout = wr.Layout(x=column * width, y=row * PANEL_HEIGHT, w=width, h=PANEL_HEIGHT)


def topics() -> list[Topic]:
    return [
        Topic(
            "Test scores",
            "Every test window counts once. MSE and MAE are on scaled values, as papers print them. Skill is "
            "1 − MSE / the best baseline's MSE: below zero, the simple rule is better than the model.",
            [
                bars("Test MSE (lower is better)", "test/mse"),
                bars("Skill (above zero: better than every baseline)", "skill"),
                bars("Test MAE (lower is better)", "test/mae"),
                bars("Test MSE beside the baselines'", "test/mse", *(f"baseline/{b}/mse" for b in BASELINES)),
            ],
        ),
        Topic(
            "Curves",
            "The mean over a variant's runs by epoch, with their standard deviation. Early stopping ends a run, "
            "so the last epochs of a mean may hold fewer runs.",
            [
                curves("Validation MSE", "val/mse"),
                curves("Training loss", "train/loss"),
                curves("Validation MAE", "val/mae"),
                curves("Learning rate", "lr"),
            ],
        ),
        Topic(
            "Accuracy against cost",
            "One point a run: nearer to the lower left corner is better. Compare times of runs on one machine only.",
            [
                *(scatter(f"Test MSE against {label}", cost) for cost, label in COSTS.items()),
                wr.ParallelCoordinatesPlot(
                    title="From the variant to its cost and its test MSE",
                    columns=[
                        *(wr.ParallelCoordinatesPlotColumn(wr.Config(name)) for name in VARIANT),
                        *(wr.ParallelCoordinatesPlotColumn(wr.SummaryMetric(name)) for name in COSTS),
                        wr.ParallelCoordinatesPlotColumn(wr.SummaryMetric("test/mse")),
                    ],
                ),
                curves("Windows a second in training", "windows_per_second"),
            ],
            averaged=False,
        ),
        Topic(
            "Error along the horizon",
            "Test MSE at each step of the forecast. A model is of use as far ahead as it stays below the baselines.",
            [
                curves("MSE by step of the horizon", "horizon/model_mse", x="horizon/step"),
                *(
                    curves(
                        f"MSE by step: model and {baseline.replace('_', ' ')}",
                        "horizon/model_mse",
                        f"horizon/{baseline}_mse",
                        x="horizon/step",
                    )
                    for baseline in reversed(BASELINES)
                ),
            ],
            x_axis="horizon/step",
        ),
        Topic(
            "Intervals",
            "How good prediction intervals are on the test windows: a good 80 % interval holds 80 % of the true values "
            "and is narrow. CRPS and width are on scaled values. Runs trained with loss=quantile have both "
            "methods, the others the conformal one.",
            [
                bars("CRPS (lower is better)", *(f"intervals/{method}/crps" for method in INTERVALS)),
                bars("Pinball loss (lower is better)", *(f"intervals/{method}/pinball" for method in INTERVALS)),
                bars("Share within the 80 % interval", *(f"intervals/{method}/80/coverage" for method in INTERVALS)),
                bars("Width of the 80 % interval", *(f"intervals/{method}/80/width" for method in INTERVALS)),
            ],
        ),
        Topic(
            "Forecasts",
            "The same few test windows for every run, evenly spread over the test split: history, truth, forecast.",
            [
                wr.MediaBrowser(title="Forecasts of test windows", media_keys=["pictures/forecasts"], num_columns=1),
                wr.MediaBrowser(
                    title="Error along the horizon, beside the baselines",
                    media_keys=["pictures/error_by_step"],
                    num_columns=2,
                ),
            ],
            per_row=1,
            averaged=False,
        ),
        Topic(
            "Settings",
            "In what the runs differ, and which settings go with a low validation MSE.",
            [
                wr.ParameterImportancePlot(with_respect_to="val/mse"),
                wr.RunComparer(diff_only="split"),
            ],
            averaged=False,
        ),
    ]  # fmt: skip


def bars(title: str, *names: str) -> wr.BarPlot:
    return wr.BarPlot(
        title=title, metrics=[*names], groupby_aggfunc="mean", groupby_rangefunc="stddev",
        max_runs_to_show=MOST_SHOWN, max_bars_to_show=MOST_SHOWN,
    )  # fmt: skip


def curves(title: str, *names: str, x: str = "epoch") -> wr.LinePlot:
    return wr.LinePlot(
        title=title, x=x, y=[*names], groupby_aggfunc="mean", groupby_rangefunc="stddev",
        smoothing_type="none", max_runs_to_show=MOST_SHOWN,
    )  # fmt: skip


def scatter(title: str, cost: str) -> wr.ScatterPlot:
    return wr.ScatterPlot(title=title, x=wr.SummaryMetric(cost), y=wr.SummaryMetric("test/mse"))


def pinned_columns() -> list[str]:
    """The runs table, as the app names its columns: a run's configuration lies below each top key's `value`."""
    names = [name.split(".", 1) for name in VARIANT]
    return [
        "run:displayName",
        *(f"config:{'.value.'.join(parts) if len(parts) > 1 else parts[0] + '.value'}" for parts in names),
        *(f"summary:{name}" for name in COLUMNS),
    ]


def workspace(entity: str, project: str, runs: Runs) -> ws.Workspace:
    return ws.Workspace(
        entity=entity,
        project=project,
        name="Attention variants",
        sections=[
            ws.Section(
                name=topic.name,
                panels=topic.panels,
                is_open=True,
                layout_settings=ws.SectionLayoutSettings(columns=topic.per_row, rows=2),
                panel_settings=ws.SectionPanelSettings(x_axis=topic.x_axis, smoothing_type="none"),
            )
            for topic in topics()
        ],
        settings=ws.WorkspaceSettings(x_axis="epoch", smoothing_type="none", max_runs=MOST_SHOWN),
        runset_settings=ws.RunsetSettings(
            filters=runs.filters(),
            groupby=[expr.Config(name) for name in VARIANT],
            order=[expr.Ordering(expr.Summary("test/mse"), ascending=True)],
            pinned_columns=pinned_columns(),
        ),
    )


def report(entity: str, project: str, runs: Runs, *, project_is_known: bool) -> wr.Report:
    """The report; its run sets name the project only where the server can be asked for the project's number."""
    blocks: list = [
        wr.P(
            "Runs of one data set, features, history, horizon, loss, width (d_model) and attention are one variant; "
            "its bars and curves are means over its runs, such as the seeds of a sweep. Runs that differ otherwise, in "
            "the learning rate say, are averaged too: narrow the runs with runs.group= when making this report. "
            "Compare variants of the same data set, features and horizon."
        ),
        wr.TableOfContents(),
    ]
    for topic in topics():
        runset = wr.Runset(
            entity=entity if project_is_known else "",
            project=project if project_is_known else "",
            name="variants" if topic.averaged else "runs",
            filters=runs.filters(),
            groupby=[f"config.{name}" for name in VARIANT] if topic.averaged else [],
            order=[wr.OrderBy(wr.SummaryMetric("test/mse"), ascending=True)],
            pinned_columns=pinned_columns(),
        )
        blocks += [wr.H1(topic.name), wr.P(topic.text), wr.PanelGrid(runsets=[runset], panels=topic.panels)]
    return wr.Report(
        entity=entity,
        project=project,
        title="Attention variants",
        description="Made by python -m forecast.dashboard from the logged runs.",
        blocks=blocks,
        width="fluid",
    )


def specification(entity: str | None, project: str, runs: Runs) -> dict[str, Any]:
    """What saving the two sends, as plain JSON, but for the project's number, which the server alone knows."""
    # wandb-workspaces has no public way to give what it sends
    view = workspace(entity or "", project, runs)._to_model()
    page = report(entity or "", project, runs, project_is_known=False)._to_model()
    return {
        "entity": entity,
        "project": project,
        "workspace": {
            "type": "project-view",
            "displayName": view.display_name,
            "spec": json.loads(view.spec.model_dump_json(by_alias=True, exclude_none=True)),
        },
        "report": {
            "type": "runs",
            "displayName": page.display_name,
            "description": page.description,
            "spec": json.loads(page.spec.model_dump_json(by_alias=True, exclude_none=True)),
        },
    }
