"""The Weights & Biases workspace and report: which runs they show, how the runs are grouped, and which panels."""
# pyright: reportPrivateImportUsage=false
# (wandb_workspaces.reports.v2 is the documented module, but does not mark its names as exported)

import json
from dataclasses import asdict, dataclass
from typing import Any

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces import expr

from forecast.reports.compare.run_folders import FinishedRun
from forecast.runs.folder import read_config
from forecast.tools.dashboard.panels import GROUPING, MAX_SHOWN, VARIANT, make_topics

COLUMNS = ("test/mse", "test/mae", "skill", "ms_per_window", "peak_memory_mb", "n_parameters")
GUIDE = (
    "A variant is a set of runs that differ only in the seed: they have the same variant_id. "
    "Bars and curves are means over the runs of a variant. "
    "Compare only variants with the same data set, features and horizon."
)


@dataclass
class RunFilter:
    """Selection of finished runs. None: no restriction."""

    group: str | None = None
    data: str | None = None
    features: str | None = None
    pred_len: int | None = None

    def make_expression(self) -> expr.And:
        """Return the filter as a W&B expression."""
        conditions = [
            (expr.Metric("State"), "finished"),
            (expr.Metric("Group"), self.group),
            (expr.Config("data.name"), self.data),
            (expr.Config("features"), self.features),
            (expr.Config("pred_len"), self.pred_len),
        ]
        return expr.And(*(key == value for key, value in conditions if value is not None))

    def accepts(self, run: FinishedRun) -> bool:
        """Return whether a run folder would be selected."""
        values = {"group": read_config(run.folder / "config.yaml").get("run_group"), **run.metrics}
        return all(value is None or values.get(name) == value for name, value in asdict(self).items())


def list_pinned_columns() -> list[str]:
    """Return W&B's names of the table columns, where `value` follows the first part of a configuration key."""
    names = [name.split(".", 1) for name in VARIANT]
    return [
        "run:displayName",
        *(f"config:{'.value.'.join(parts) if len(parts) > 1 else parts[0] + '.value'}" for parts in names),
        *(f"summary:{name}" for name in COLUMNS),
    ]


def make_workspace(entity: str, project: str, runs: RunFilter) -> ws.Workspace:
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
            filters=runs.make_expression(),
            groupby=[expr.Config(name) for name in GROUPING],
            order=[expr.Ordering(expr.Summary("test/mse"), ascending=True)],
            pinned_columns=list_pinned_columns(),
        ),
    )


def make_report(entity: str, project: str, runs: RunFilter, *, project_exists: bool) -> wr.Report:
    """Return the report.

    Args:
        project_exists: whether run sets name the project; the package then asks the server for the project's id.
    """
    blocks: list = [wr.P(GUIDE), wr.TableOfContents()]
    for topic in make_topics():
        runset = wr.Runset(
            entity=entity if project_exists else "",
            project=project if project_exists else "",
            name="variants" if topic.averaged else "runs",
            filters=runs.make_expression(),
            groupby=[f"config.{name}" for name in GROUPING] if topic.averaged else [],
            order=[wr.OrderBy(wr.SummaryMetric("test/mse"), ascending=True)],
            pinned_columns=list_pinned_columns(),
        )
        blocks += [wr.H1(topic.name), wr.P(topic.text), wr.PanelGrid(runsets=[runset], panels=topic.panels)]
    return wr.Report(
        entity=entity,
        project=project,
        title="Attention variants",
        description="Created by python -m forecast.dashboard from the logged runs.",
        blocks=blocks,
        width="fluid",
    )


def make_specification(entity: str | None, project: str, runs: RunFilter) -> dict[str, Any]:
    """Return the JSON that saving the workspace and the report sends, without the id of the project."""
    # wandb-workspaces has no public function that returns what it sends.
    view = make_workspace(entity or "", project, runs)._to_model()
    page = make_report(entity or "", project, runs, project_exists=False)._to_model()
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
