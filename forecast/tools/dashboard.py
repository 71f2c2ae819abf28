"""The Weights & Biases workspace and report: which runs they show, how the runs are grouped, and which panels."""

# pyright: reportPrivateImportUsage=false
# (wandb_workspaces.reports.v2 is the documented module, but does not mark its names as exported)
import json
import re
from dataclasses import dataclass
from typing import Any

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces import expr

from forecast.evaluation.scores import BASELINES, CONFORMAL, QUANTILE
from forecast.system.keys import TABLE

VARIANT = tuple(row.name for row in TABLE if row.variant)  # keys that describe a variant

GROUPING = (*VARIANT[:-1], "variant_id", VARIANT[-1])
"""Keys whose values the runs of a variant share. The id is a hash of all settings but the seed."""

INTERVALS = {
    "CRPS (lower is better)": "crps",
    "Coverage of the 80% interval": "80/coverage",
    "Width of the 80% interval": "80/width",
}
PICTURES = {"forecasts": "Forecasts of test windows", "error_by_step": "Error by horizon step, model and baselines"}
COSTS = {
    "ms_per_window": "inference time per test window (ms)",
    "n_parameters": "number of parameters",
    "seconds": "time of training and test (s)",
}
MAX_SHOWN = 50  # variants in a panel; the default of 10 is less than two attention types at five horizons
GRID_WIDTH, PANEL_HEIGHT = 24, 8
COLUMNS = ("test/mse", "test/mae", "skill", "ms_per_window", "n_parameters")
GUIDE = (
    "A variant is a set of runs that differ only in the seed: they have the same variant_id. "
    "Bars and curves are means over the runs of a variant; the lines on bars reach to its lowest and highest run. "
    "Compare only variants with the same data set, features and horizon."
)


@dataclass
class Topic:
    """A section of the workspace and of the report, with its panels in a grid."""

    name: str
    text: str
    panels: list
    x_axis: str = "epoch"
    per_row: int = 2
    averaged: bool = True  # whether the report shows means over the runs of a variant, or each run

    def __post_init__(self) -> None:
        width = GRID_WIDTH // self.per_row
        for i, panel in enumerate(self.panels):
            row, column = divmod(i, self.per_row)
            panel.layout = wr.Layout(x=column * width, y=row * PANEL_HEIGHT, w=width, h=PANEL_HEIGHT)


def make_topics() -> list[Topic]:
    """Return the sections in the order of the page. The panels are new objects on every call."""
    return [*make_averaged_topics(), *make_single_topics()]


def make_averaged_topics() -> list[Topic]:
    each_baseline = [f"baseline/{name}/mse" for name in BASELINES]
    return [
        Topic(
            "Test scores",
            "All test windows have the same weight. MSE and MAE are computed on scaled values, as in papers. Skill is "
            "1 − MSE / MSE of the best baseline; if it is negative, that baseline is better than the model.",
            [
                make_bars("Test MSE (lower is better)", "test/mse"),
                make_bars("Skill (positive: better than every baseline)", "skill"),
                make_bars("Test MAE (lower is better)", "test/mae"),
                make_bars("Test MSE of model and baselines", "test/mse", *each_baseline),
            ],
        ),
        Topic(
            "Training curves",
            "Mean and standard deviation over the runs of a variant, by epoch. Early stopping ends some runs sooner "
            "than others, so the last epochs may average fewer runs.",
            [
                make_lines("Validation MSE", "val/mse"),
                make_lines("Training loss", "train/loss"),
                make_lines("Norm of the gradient before clipping", "train/grad_norm"),
            ],
            per_row=3,
        ),
        Topic(
            "Error by horizon step",
            "Test MSE at each step of the forecast. A model is useful up to the step at which a baseline is better.",
            [
                make_lines(f"MSE by horizon step: {name}", f"horizon/{name}_mse", "horizon/step")
                for name in ("model", *BASELINES)
            ],
            x_axis="horizon/step",
        ),
        Topic(
            "Prediction intervals",
            "An 80% interval should contain 80% of the true values and be narrow. CRPS and width are computed on "
            "scaled values. Runs with loss=quantile have both methods, other runs have the conformal method.",
            [
                make_bars(title, *(f"intervals/{method}/{score}" for method in (CONFORMAL, QUANTILE)))
                for title, score in INTERVALS.items()
            ],
        ),
    ]


def make_single_topics() -> list[Topic]:
    return [
        Topic(
            "Accuracy against cost",
            "One point per run; lower left is better. Compare times only between runs on the same machine.",
            [make_scatter(f"Test MSE against {label}", cost, "test/mse") for cost, label in COSTS.items()],
            averaged=False,
        ),
        Topic(
            "Error and time against tokens",
            "One point per run, by the number of tokens that the encoder attends to; runs without attention have none.",
            [
                make_scatter(f"{name} against tokens", "tokens/encoder/keys", score)
                for name, score in (("Test MSE", "test/mse"), ("Inference time (ms)", "ms_per_window"))
            ],
            averaged=False,
        ),
        Topic(
            "Forecasts",
            "History, true values and forecast of a few test windows, the same for every run.",
            [
                wr.MediaBrowser(title=title, media_keys=[f"pictures/{key}"], num_columns=number)
                for number, (key, title) in enumerate(PICTURES.items(), start=1)
            ],
            per_row=1,
            averaged=False,
        ),
    ]


def make_bars(title: str, *names: str) -> wr.BarPlot:
    return wr.BarPlot(
        title=title, metrics=[*names], groupby_aggfunc="mean", groupby_rangefunc="minmax",
        max_runs_to_show=MAX_SHOWN, max_bars_to_show=MAX_SHOWN,
    )  # fmt: skip


def make_lines(title: str, name: str, x: str = "epoch") -> wr.LinePlot:
    return wr.LinePlot(
        title=title, x=x, y=[name], groupby_aggfunc="mean", groupby_rangefunc="stddev", smoothing_type="none",
        max_runs_to_show=MAX_SHOWN,
    )  # fmt: skip


def make_scatter(title: str, x: str, y: str) -> wr.ScatterPlot:
    return wr.ScatterPlot(title=title, x=wr.SummaryMetric(x), y=wr.SummaryMetric(y))


def select_runs(
    group: str | None = None, data: str | None = None, features: str | None = None, pred_len: int | None = None
) -> expr.And:
    """The filter of finished runs as a W&B expression. None: no restriction."""
    conditions = [(expr.Metric("State"), "finished"), (expr.Metric("Group"), group)]
    settings = {"data.name": data, "features": features, "pred_len": pred_len}
    conditions += [(expr.Config(key), value) for key, value in settings.items()]
    return expr.And(*(key == value for key, value in conditions if value is not None))


def list_pinned_columns() -> list[str]:
    """Return W&B's names of the table columns, where `value` follows the first part of a configuration key."""
    keys = (re.sub(r"^([^.]*)", r"\1.value", name) for name in VARIANT)
    return ["run:displayName", *(f"config:{key}" for key in keys), *(f"summary:{name}" for name in COLUMNS)]


def make_workspace(entity: str, project: str, runs: expr.And) -> ws.Workspace:
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
            for topic in make_topics()
        ],
        settings=ws.WorkspaceSettings(x_axis="epoch", smoothing_type="none", max_runs=MAX_SHOWN),
        runset_settings=ws.RunsetSettings(
            filters=runs,
            groupby=[expr.Config(name) for name in GROUPING],
            order=[expr.Ordering(expr.Summary("test/mse"), ascending=True)],
            pinned_columns=list_pinned_columns(),
        ),
    )


def make_report(entity: str, project: str, runs: expr.And, *, project_exists: bool) -> wr.Report:
    """Return the report. If `project_exists`, run sets name it, and the package asks the server for its id."""
    blocks: list = [wr.P(GUIDE), wr.TableOfContents()]
    for topic in make_topics():
        runset = wr.Runset(
            entity=entity if project_exists else "",
            project=project if project_exists else "",
            name="variants" if topic.averaged else "runs",
            filters=runs,
            groupby=[f"config.{name}" for name in GROUPING] if topic.averaged else [],
            order=[wr.OrderBy(wr.SummaryMetric("test/mse"), ascending=True)],
            pinned_columns=list_pinned_columns(),
        )
        blocks += [wr.H1(topic.name), wr.P(topic.text), wr.PanelGrid(runsets=[runset], panels=topic.panels)]
    return wr.Report(
        entity=entity,
        project=project,
        title="Attention variants",
        description="Created by forecast dashboard from the logged runs.",
        blocks=blocks,
        width="fluid",
    )


def make_specification(entity: str | None, project: str, runs: expr.And) -> dict[str, Any]:
    """Return the JSON that saving the workspace and the report sends, without the id of the project."""
    # wandb-workspaces has no public function that returns what it sends.
    view = make_workspace(entity or "", project, runs)._to_model()
    page = make_report(entity or "", project, runs, project_exists=False)._to_model()
    view_spec, page_spec = (
        json.loads(one.spec.model_dump_json(by_alias=True, exclude_none=True)) for one in (view, page)
    )
    workspace = {"type": "project-view", "displayName": view.display_name, "spec": view_spec}
    report = {"type": "runs", "displayName": page.display_name, "description": page.description}
    report["spec"] = page_spec
    return {"entity": entity, "project": project, "workspace": workspace, "report": report}
