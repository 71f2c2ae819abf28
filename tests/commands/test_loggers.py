"""What the loggers keep of a real run, read back with their own readers, and the dashboard of W&B."""
# pyright: reportPrivateImportUsage=false

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pandas as pd
import psutil
import pytest
import wandb
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces.reports.v2.internal import ReportViewspec
from wandb_workspaces.workspaces.internal import View, WorkspaceViewspec

from forecast.runs.folder import read_metrics
from forecast.system.errors import ConfigError
from forecast.system.keys import flatten, variant_id
from forecast.tools.dashboard import make_specification, select_runs
from forecast.training.loggers import MlflowLogger
from tests.commands.test_secrets import CANARY, ENVIRONMENT, holding
from tests.support.commands import finish, only, run_command, start, train, workplace
from tests.support.wandb_file import WandbRun, records
from tests.support.wandb_server import API_KEY, environment, wandb_server

KEYS = {name: value for name, value in ENVIRONMENT.items() if not name.endswith("PROXY")}
IDS = ("id", "__id__")  # random ones, of panels and run sets
CURVES = {"train/loss", "train/grad_norm", "val/mse", "val/mae", "lr", "windows_per_second"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    folder = workplace(tmp_path_factory.mktemp("loggers"))
    given = (
        "logger=[wandb,csv,tensorboard,mlflow]", "pictures=true", "trainer.max_epochs=3", "seed=7", "loss=quantile",
    )  # fmt: skip
    result = train(folder, *given, **KEYS)
    assert result.returncode == 0, result.stderr
    return only(folder, "runs/*-s7_*"), result


@pytest.fixture(scope="module")
def wandb_run(ran) -> WandbRun:
    return WandbRun(only(ran[0], "wandb/offline-run-*/*.wandb"))


@pytest.fixture(scope="module")
def metrics(ran) -> dict[str, Any]:
    return read_metrics(ran[0])


def test_wandb_has_the_resolved_configuration_without_local_paths(ran, wandb_run: WandbRun) -> None:
    assert (wandb_run.run.project, wandb_run.run.display_name) == ("forecast", "probsparse-csv-5-s7")
    assert list(wandb_run.run.tags) == ["probsparse", "csv"]
    assert (wandb_run.run.run_group, wandb_run.exit_code) == ("", 0)
    logged = dict(wandb_run.config)
    assert logged["model"]["attention"]["encoder"]["factor"] == 5
    assert logged["data"]["path"] == "load.csv"
    assert "${" not in json.dumps(logged)
    assert "output_dir" not in logged
    assert logged.pop("variant_id") == variant_id({**logged, "seed": logged["seed"] + 1})
    text = [str(one) for one in records(only(ran[0], "wandb/offline-run-*/*.wandb"))]
    for path in (ran[0].parents[1], Path.home(), Path(sys.executable).parent):
        assert not [one for one in text if str(path) in one]


def test_wandb_has_the_curves_and_the_final_scores(ran, wandb_run: WandbRun, metrics: dict[str, Any]) -> None:
    epochs = pd.read_csv(ran[0] / "metrics.csv").set_index("epoch")
    assert list(epochs.index) == [0, 1, 2]
    for name in CURVES:
        assert wandb_run.curve(name) == pytest.approx(epochs[name].to_dict(), rel=1e-6), name
    expected = {f"test/{name}": value for name, value in metrics["test"].items()}
    for baseline, scores in metrics["baselines"].items():
        expected |= {f"baseline/{baseline}/{name}": value for name, value in scores.items()}
    for name in ("skill", "seconds", "windows_per_second", "n_parameters", "best_epoch", "shrinkage_weight"):
        expected[name] = metrics[name]
    for level, scores in metrics["intervals"]["conformal"].items():
        of_level = scores if isinstance(scores, dict) else {"": scores}  # pinball and crps, over all levels
        names = {name: f"intervals/conformal/{level}/{name}".rstrip("/") for name in of_level}
        expected |= {names[name]: value for name, value in of_level.items()}
    for slot, sides in metrics["attention_slots"].items():
        expected |= {f"tokens/{slot}/{side}": sides[side] for side in ("queries", "keys")}
    expected |= {f"val/{name}": metrics[f"validation_{name}"] for name in ("mse", "mae")}
    assert len(expected) == 4 * 8 + 6 + 2 * 6 + 4 + 6 + 2
    assert {name: wandb_run.summary[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert not [name for name in wandb_run.summary if "validation" in name or "memory" in name]


def test_wandb_has_the_error_by_step_as_curves_and_the_pictures(ran, wandb_run: WandbRun) -> None:
    by_step = pd.read_csv(ran[0] / "errors_by_step.csv").set_index("step")
    rows = {row["horizon/step"]: row for row in wandb_run.history if "horizon/step" in row}
    for name in ("model_mse", "linear_mse"):
        assert {step: row[f"horizon/{name}"] for step, row in rows.items()} == pytest.approx(by_step[name].to_dict())
    files = only(ran[0], "wandb/offline-run-*/files")
    for picture in ("forecasts", "error_by_step"):
        (name,) = wandb_run.summary[f"pictures/{picture}/filenames"]
        assert (files / name).read_bytes() == (ran[0] / f"{picture}.png").read_bytes()


def test_each_service_says_one_line(ran, mlflow_run) -> None:
    folder, result = ran
    offline = only(folder, "wandb/offline-run-*").relative_to(folder.parent.parent)
    said = (result.stdout + result.stderr).splitlines()
    assert [line for line in said if "wandb" in line.lower()] == [
        f"W&B: offline run; upload it with: wandb sync {folder.parent.parent / offline}"
    ]
    run_id, view = mlflow_run[0].info.run_id, "mlflow ui --backend-store-uri sqlite:///runs/mlflow.db"
    assert [line for line in said if "mlflow" in line.lower()] == [f"MLflow: run {run_id}; view it with: {view}"]
    last = [line.split(":")[0] for line in result.stdout.splitlines()[-3:]]
    assert sorted(last) == ["MLflow", "TensorBoard", "W&B"]
    logged = next(line.split("--logdir ")[1] for line in said if "--logdir " in line)
    assert (folder.parents[1] / logged).samefile(folder / "logs" / "tensorboard")


def test_a_run_its_comparison_and_its_dashboard_keep_no_secret(ran, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    run, result = ran
    folder = run.parents[1]
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert run_command("compare", folder, "runs=[runs]") == 0
    assert run_command("dashboard", folder, "mode=offline") == 0
    assert CANARY not in "".join((result.stdout, result.stderr, *capfd.readouterr()))
    assert holding(folder) == []
    (run / "planted").write_text(f"x{CANARY}")
    assert holding(folder) == [run / "planted"]


def test_csv_and_tensorboard_have_the_same(ran, metrics: dict[str, Any]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows = pd.read_csv(ran[0] / "logs" / "csv" / "version_0" / "metrics.csv")
    assert rows["skill"].dropna().item() == pytest.approx(metrics["skill"])
    events = EventAccumulator(str(only(ran[0], "logs/tensorboard/events.*"))).Reload()
    assert "hp_metric" not in events.Tags()["scalars"]
    assert set(events.Tags()["scalars"]) >= {*CURVES, "skill", "test/mse", "baseline/naive/mae"}
    curve = [event.value for event in events.Scalars("val/mse")]
    for found in (rows["val/mse"].dropna().tolist(), curve):
        assert found == pytest.approx(list(pd.read_csv(ran[0] / "metrics.csv")["val/mse"]), rel=1e-5)


@pytest.fixture(scope="module")
def mlflow_run(ran) -> Any:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{ran[0].parent / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("forecast")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    return run, client


def test_mlflow_has_what_wandb_has(ran, mlflow_run, wandb_run: WandbRun, metrics: dict[str, Any]) -> None:
    run, client = mlflow_run
    logged = {key: str(value) for key, value in flatten(wandb_run.config)}
    assert {key: run.data.params[key] for key in logged} == logged
    assert run.data.tags == {
        "mlflow.runName": "probsparse-csv-5-s7",
        "attention": "probsparse",
        "data": "csv",
        "variant_id": wandb_run.config["variant_id"],
    }
    prefixes = ("test/", "baseline/", "intervals/", "tokens/", "skill", "best_epoch")
    expected = {name: value for name, value in wandb_run.summary.items() if name.startswith(prefixes)}
    assert len(expected) > 40
    assert {name: run.data.metrics[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    epochs = pd.read_csv(ran[0] / "metrics.csv")
    for name in CURVES:
        found = [point.value for point in client.get_metric_history(run.info.run_id, name)]
        assert found[: len(epochs)] == pytest.approx(list(epochs[name]), rel=1e-6), name
    assert run.info.status == "FINISHED"
    files = Path(run.info.artifact_uri.removeprefix("file://"))
    assert files.is_relative_to(ran[0].parent)
    assert read_metrics(files) == metrics
    for picture in ("forecasts.png", "error_by_step.png"):
        assert (files / "pictures" / picture).read_bytes() == (ran[0] / picture).read_bytes()


def test_an_interrupted_run_closes_wandb(tmp_path: Path) -> None:
    process = start(
        workplace(tmp_path), "trainer.max_epochs=100000", "callbacks.early_stopping.patience=100000",
        "callbacks.progress.refresh_rate=1", "logger=wandb", **ENVIRONMENT,  # type: ignore
    )  # fmt: skip
    assert process.stderr
    for line in process.stderr:
        if "epoch 2:" in line:
            break
    process.send_signal(signal.SIGINT)
    result = finish(process)
    assert result.returncode == 130
    assert result.stderr.splitlines()[-1].startswith("interrupted; repeat the command with resume=auto")
    folder = only(tmp_path, "runs/*")
    assert (folder / "checkpoints" / "last.ckpt").exists()
    assert WandbRun(only(folder, "wandb/offline-run-*/*.wandb")).exit_code == 1
    assert holding(tmp_path) == []


@pytest.mark.slow
def test_a_run_goes_on_when_wandb_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # another test's, in this process: the run starts its own
    monkeypatch.delenv("WANDB_SERVICE", raising=False)
    process = start(
        workplace(tmp_path), "trainer.max_epochs=15", "callbacks.early_stopping.patience=100", "logger=[wandb,csv]",
        "callbacks.progress.refresh_rate=1",
    )  # fmt: skip
    assert process.stderr
    for line in process.stderr:
        if "epoch 3:" in line:
            break
    begun = psutil.Process(process.pid).children()
    (service,) = (child for child in begun if "wandb" in " ".join(child.cmdline()))
    service.kill()
    result = finish(process)
    assert result.returncode == 0, result.stderr
    warnings = [line for line in result.stderr.splitlines() if "W&B" in line]
    assert len(warnings) == 1, result.stderr
    folder = only(tmp_path, "runs/*")
    assert read_metrics(folder)["epochs"] == 15
    assert len(pd.read_csv(folder / "logs/csv/version_0/metrics.csv")["train/loss"].dropna()) == 15


def make(root: Path, name: str = "run") -> MlflowLogger:
    return MlflowLogger(
        experiment="forecast", name=name, tags={"data": "csv", "group": None}, root=str(root),
        save_dir=str(root / name), tracking_uri=None,
    )  # fmt: skip


def read(logger: MlflowLogger) -> Any:
    return logger.experiment.get_run(logger.run_id)


@pytest.mark.slow
def test_jobs_that_start_together_share_an_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They create the tables of the database."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    loggers = [make(tmp_path, f"run{i}") for i in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(MlflowLogger.begin, loggers))
    assert len({logger.run_id for logger in loggers}) == 4
    assert len({read(logger).info.experiment_id for logger in loggers}) == 1


def test_a_resumed_run_continues_its_mlflow_run(ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    first, second = make(ran[0].parent), make(ran[0].parent)
    settings = {"seed": 1, "data": {"path": "load.csv"}, "trainer": {"max_epochs": 2}}
    first.begin()
    first.log_hyperparams(settings)
    first.log_metrics({"val/mse": 0.5}, step=3)
    first.end(succeeded=False)
    assert read(first).info.status == "FAILED"

    second.begin()
    second.log_hyperparams({**settings, "trainer": {"max_epochs": 4}, "loss": "mae"})
    second.log_metrics({"val/mse": float("nan"), "skill": None}, step=6)
    second.end(succeeded=True)
    assert second.run_id == first.run_id
    run = read(second)
    assert run.info.status == "FINISHED"
    assert run.data.params["trainer.max_epochs"] == "2"  # MLflow refuses another value
    assert run.data.params["loss"] == "mae"
    assert run.data.tags["data"] == "csv"
    assert "group" not in run.data.tags
    assert [p.step for p in second.experiment.get_metric_history(run.info.run_id, "val/mse")] == [3, 6]


def test_an_unreachable_server_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"http://127\.0\.0\.1:9 cannot be used") as caught:
        make(tmp_path).begin()
    assert "\n" not in str(caught.value)
    assert "me:secret" not in str(caught.value)


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

    yield go
    wandb.teardown()  # or later tests would ask its server


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    return make_specification("someone", "forecast", select_runs("a-sweep", "csv", "M", 5))


def grids(content: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = content["report"]["spec"]["blocks"]
    return [block["metadata"] for block in blocks if block["type"] == "panel-grid"]


def run_sets(content: dict[str, Any]) -> list[dict[str, Any]]:
    of_report = [one for grid in grids(content) for one in grid["runSets"]]
    return [*content["workspace"]["spec"]["section"]["runSets"], *of_report]


def panels(content: dict[str, Any]) -> list[dict[str, Any]]:
    sections = content["workspace"]["spec"]["section"]["panelBankConfig"]["sections"]
    of_workspace = [panel for section in sections for panel in section["panels"]]
    return of_workspace + [panel for grid in grids(content) for panel in grid["panelBankSectionConfig"]["panels"]]


def test_every_name_is_logged(wandb_run: WandbRun, content: dict[str, Any]) -> None:
    """In panels, groupings, filters, orders and columns."""
    run = wandb_run

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
    assert wrong == set()


def test_which_runs_are_compared(content: dict[str, Any]) -> None:
    expected = {"state": "finished", "group": "a-sweep", "data.name": "csv", "features": "M", "pred_len": 5}
    for one in run_sets(content):
        found = {item["key"]["name"]: item["value"] for item in one["filters"]["filters"]}
        assert found == expected
        assert {item.get("connector", "AND") for item in one["filters"]["filters"]} == {"AND"}
    everything = run_sets(make_specification(None, "forecast", select_runs()))[0]["filters"]["filters"]
    assert [item["key"]["name"] for item in everything] == ["state"]


def test_the_package_reads_it_back(content: dict[str, Any]) -> None:
    model = WorkspaceViewspec.model_validate_json(json.dumps(content["workspace"]["spec"]))
    view = View(entity="e", project="p", display_name="d", name="n", id="i", spec=model)
    shown = [panel for section in ws.Workspace._from_model(view).sections for panel in section.panels]
    given = {"displayName": "d", "project": {"entityName": "e", "name": "p"}}
    page = ReportViewspec.model_validate({**given, "spec": json.dumps(content["report"]["spec"])})
    blocks = wr.Report._from_model(page).blocks
    shown += [panel for block in blocks if isinstance(block, wr.PanelGrid) for panel in block.panels]
    assert len(shown) == len(panels(content))
    assert not [part for part in [*blocks, *shown] if type(part).__name__.startswith("Unknown")]


def test_without_an_account(tmp_path: Path, publish) -> None:
    status, out, error = publish("project=mine", "runs.data=etth1")
    assert (status, error) == (0, "")
    assert out.startswith("nothing was sent; saved the specification of the workspace and the report in dashboard.json")
    written = json.loads((tmp_path / "dashboard.json").read_text())
    expected = make_specification(None, "mine", select_runs(data="etth1"))
    assert without(written, *IDS) == without(expected, *IDS)
    status, _, error = publish()
    assert (status, error.count("\n")) == (2, 1)
    assert json.loads((tmp_path / "dashboard.json").read_text()) == written


def without(content: Any, *names: str) -> Any:
    if isinstance(content, dict):
        return {key: without(value, *names) for key, value in content.items() if key not in names}
    return [without(value, *names) for value in content] if isinstance(content, list) else content


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
    expected = make_specification("someone", "forecast", select_runs(pred_len=24))
    for sent, kind in ((view, "workspace"), (page, "report")):
        assert (sent["entityName"], sent["projectName"]) == ("someone", "forecast")
        assert without(json.loads(sent["spec"]), *IDS, "project") == without(expected[kind]["spec"], *IDS, "project")
    assert not (tmp_path / "dashboard.json").exists()
    kept = [p for p in tmp_path.rglob("*") if p.is_file() and API_KEY.encode() in p.read_bytes()]
    assert kept == []
    assert API_KEY not in out + json.dumps(server.views)


def test_refusals_of_publishing(tmp_path: Path, publish) -> None:
    with wandb_server(forecast=3, empty=0) as server:
        for argument, account, message in (
            ("entity=nobody", {}, "nobody/forecast: the W&B project does not exist"),
            ("project=empty", {}, "someone/empty: the W&B project holds no runs;"),
            ("mode=auto", {"api_key": "a" * 40}, f"{server.url} refuses the API key (user is not logged in); set "),
        ):
            status, out, error = publish(argument, server=server, **account)
            said = [line for line in error.splitlines() if line.startswith("error: ")]
            assert (status, out, len(said)) == (2, "", 1)
            assert said[0].startswith(f"error: {message}")
    assert (server.views, [path.name for path in tmp_path.glob("dashboard*")]) == ([], [])
