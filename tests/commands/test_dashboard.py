"""The dashboard: names of logged values, the file, publication to a local server, and error messages."""
# pyright: reportPrivateImportUsage=false

import json
import os
from pathlib import Path
from typing import Any

import pytest
import wandb
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces.reports.v2.internal import ReportViewspec
from wandb_workspaces.workspaces.internal import View, WorkspaceViewspec

from forecast.tools.dashboard import RunFilter, make_specification
from tests.support.commands import only, run_command, run_training, workplace
from tests.support.wandb_file import WandbRun
from tests.support.wandb_server import API_KEY, environment, wandb_server


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command in this process, as a user without an account or with one on a server: status, output, errors."""

    def go(*arguments: str, **account: Any) -> tuple[int | str | None, str, str]:
        # The service keeps the key of the call before. Its name goes from the environment with it: restored by
        # `monkeypatch`, it would be looked for by every later test.
        wandb.teardown()
        for name in [name for name in os.environ if name.startswith("WANDB_")]:
            monkeypatch.delenv(name)
        for name, value in environment(tmp_path, **account).items():
            monkeypatch.setenv(name, value)
        status = run_command("dashboard", tmp_path, *arguments)
        said = capsys.readouterr()
        return status, said.out, said.err

    return go


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> WandbRun:
    folder = workplace(tmp_path_factory.mktemp("dashboard"))
    given = ("pictures=true", "trainer.max_epochs=2", "loss=quantile", "logger=wandb")
    assert run_training(folder, *given) == 0
    return WandbRun(only(folder, "runs/*/wandb/offline-run-*/*.wandb"))


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    return make_specification("someone", "forecast", RunFilter("a-sweep", "csv", "M", 5))


def grids(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The panel grids of the report."""
    blocks = content["report"]["spec"]["blocks"]
    return [block["metadata"] for block in blocks if block["type"] == "panel-grid"]


def run_sets(content: dict[str, Any]) -> list[dict[str, Any]]:
    of_report = [one for grid in grids(content) for one in grid["runSets"]]
    return [*content["workspace"]["spec"]["section"]["runSets"], *of_report]


def panels_of(grid: dict[str, Any]) -> list[dict[str, Any]]:
    return grid["panelBankSectionConfig"]["panels"]


def panels(content: dict[str, Any]) -> list[dict[str, Any]]:
    sections = content["workspace"]["spec"]["section"]["panelBankConfig"]["sections"]
    of_workspace = [panel for section in sections for panel in section["panels"]]
    return of_workspace + [panel for grid in grids(content) for panel in panels_of(grid)]


def unknown(content: dict[str, Any], run: WandbRun) -> set[str]:
    """Names in panels, groupings, filters, orders and columns that the run did not log."""

    def known(section: str, name: str) -> bool:
        if section == "config":
            value: Any = run.config
            parts = [part for i, part in enumerate(name.split(".")) if (i, part) != (1, "value")]
            for part in parts:
                value = value.get(part) if isinstance(value, dict) else None
            return isinstance(value, str | int)
        if section == "summary":
            return isinstance(run.summary.get(name), int | float)
        return section == "run" and name in ("state", "group", "displayName")

    wrong = set()
    for one in run_sets(content):
        keys = [*one["grouping"], *(f["key"] for f in one["filters"]["filters"])]
        keys += [key["key"] for key in one["sort"]["keys"]]
        columns = {*one["runFeed"]["columnVisible"], *one["runFeed"]["columnOrder"]} - {"run:name"}
        named = [(key["section"], key["name"]) for key in keys] + [tuple(c.split(":", 1)) for c in columns]
        wrong |= {name for section, name in named if not known(section, name)}
    for panel in panels(content):
        config = panel["config"]
        match panel["viewType"]:
            case "Run History Line Plot":  # the x axis must be logged along with the curve
                x = config["xAxis"]
                rows = [row for row in run.history if x in row]
                wrong |= {y for y in config["metrics"] if not any(y in row for row in rows)}
                assert config["metrics"]
            case "Bar Chart":
                wrong |= {name for name in config["metrics"] if not known("summary", name)}
                assert config["metrics"]
            case "Scatter Plot":
                axes = [tuple(config[axis].split(":", 1)) for axis in ("xAxis", "yAxis")]
                wrong |= {name for section, name in axes if not known(section, name)}
            case "Media Browser":
                names = config["mediaKeys"]
                wrong |= {n for n in names if run.summary.get(f"{n}/_type") != "images/separated"}
            case other:
                raise AssertionError(f"a panel that this test does not know: {other}")
    return wrong


def test_every_name_is_logged(run: WandbRun, content: dict[str, Any]) -> None:
    assert unknown(content, run) == set()


def test_which_runs_are_compared(content: dict[str, Any]) -> None:
    expected = {"state": "finished", "group": "a-sweep", "data.name": "csv", "features": "M", "pred_len": 5}
    for one in run_sets(content):
        found = {item["key"]["name"]: item["value"] for item in one["filters"]["filters"]}
        assert found == expected
        assert {item.get("connector", "AND") for item in one["filters"]["filters"]} == {"AND"}
    everything = run_sets(make_specification(None, "forecast", RunFilter()))[0]["filters"]["filters"]
    assert [item["key"]["name"] for item in everything] == ["state"]


def test_the_package_reads_it_back_unchanged(content: dict[str, Any]) -> None:
    """W&B's models accept the specification, know every part of it, and return it unchanged."""
    spec = content["workspace"]["spec"]
    model = WorkspaceViewspec.model_validate_json(json.dumps(spec))
    assert json.loads(model.model_dump_json(by_alias=True, exclude_none=True)) == spec
    view = View(entity="e", project="p", display_name="d", name="n", id="i", spec=model)
    shown = [panel for section in ws.Workspace._from_model(view).sections for panel in section.panels]

    spec = content["report"]["spec"]
    project = {"entityName": "e", "name": "p"}
    page = ReportViewspec.model_validate({"displayName": "d", "project": project, "spec": json.dumps(spec)})
    again = json.loads(page.spec.model_dump_json(by_alias=True, exclude_none=True))
    assert without(again, "inlineComments") == spec  # comments of readers: none
    blocks = wr.Report._from_model(page).blocks
    shown += [panel for block in blocks if isinstance(block, wr.PanelGrid) for panel in block.panels]
    assert len(shown) == len(panels(content))
    assert not [part for part in [*blocks, *shown] if type(part).__name__.startswith("Unknown")]


def test_without_an_account(tmp_path: Path, publish) -> None:
    status, out, error = publish("project=mine", "runs.data=etth1")
    assert (status, error) == (0, "")
    assert out.startswith(
        "nothing was sent; saved the specification of the workspace and the report in dashboard.json\n"
    )
    written = json.loads((tmp_path / "dashboard.json").read_text())
    assert without_ids(written) == without_ids(make_specification(None, "mine", RunFilter(data="etth1")))
    status, _, error = publish()
    assert (status, error.count("\n")) == (2, 1)
    assert json.loads((tmp_path / "dashboard.json").read_text()) == written


def without(content: Any, *names: str) -> Any:
    """Remove keys at any depth."""
    if isinstance(content, dict):
        return {key: without(value, *names) for key, value in content.items() if key not in names}
    return [without(value, *names) for value in content] if isinstance(content, list) else content


def without_ids(content: Any) -> Any:
    """Remove the random ids of panels and run sets."""
    return without(content, "id", "__id__")


def test_published(tmp_path: Path, publish) -> None:
    with wandb_server(forecast=3) as server:
        status, out, error = publish("runs.pred_len=24", server=server)
    assert (status, error) == (0, "")
    view, page = server.views
    name = view["name"].removeprefix("nw-").removesuffix("-v")
    assert out.splitlines() == [
        f"workspace  {server.url}/someone/forecast?nw={name}",
        f"report     {server.url}/someone/forecast/reports/Attention-variants--view2",
    ]
    expected = make_specification("someone", "forecast", RunFilter(pred_len=24))
    for sent, kind in ((view, "workspace"), (page, "report")):
        assert (sent["entityName"], sent["projectName"]) == ("someone", "forecast")
        spec = json.loads(sent["spec"])
        for block in spec.get("blocks", []):
            for one in block.get("metadata", {}).get("runSets", []):
                assert one.pop("project") == {"name": "forecast", "entityName": "someone", "id": "17"}
        assert without_ids(spec) == without_ids(expected[kind]["spec"])
        facts = without(expected[kind], "spec")
        assert {key: sent[key] for key in facts} == facts
    assert not (tmp_path / "dashboard.json").exists()
    kept = [p for p in tmp_path.rglob("*") if p.is_file() and API_KEY.encode() in p.read_bytes()]
    assert kept == []
    assert API_KEY not in out + json.dumps(server.views)


def test_refusals_of_publishing_and_the_file_with_an_account(tmp_path: Path, publish) -> None:
    with wandb_server(forecast=3, empty=0) as server:
        refused_key = (
            f"{server.url} refuses the API key (user is not logged in); set another with wandb login"
        )
        for argument, account, message in (
            ("entity=nobody", {}, "nobody/forecast: the W&B project does not exist"),
            ("project=empty", {}, "someone/empty: the W&B project holds no runs;"),
            ("mode=auto", {"api_key": "a" * 40}, refused_key),
        ):
            status, out, error = publish(argument, server=server, **account)
            # pytest shows the deprecations of packages that the first call imports
            (said,) = (line for line in error.splitlines() if not line.startswith("warning: "))
            assert (status, out) == (2, "")
            assert said.startswith(f"error: {message}")
        status, out, error = publish("mode=offline", server=server)
    assert (status, server.views) == (0, []), error
    assert API_KEY not in (tmp_path / "dashboard.json").read_text() + out
    advice = "cannot be reached; write the specification to a file with mode=offline"
    status, _, error = publish(server=server)  # which has ended
    assert (status, error) == (2, f"error: {server.url} {advice}\n")
