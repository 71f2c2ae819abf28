"""Body of `python -m forecast.dashboard`: a Weights & Biases workspace and report that compare logged runs.

`wandb_workspaces` comes with the extra `dashboard`, so what needs it is imported after the check that it is installed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wandb
from omegaconf import DictConfig
from wandb.sdk.lib.service.service_connection import WandbApiFailedError

from forecast.commands.compare import ATTENTION, read_places
from forecast.reports.compare.factors import find_factor
from forecast.reports.compare.grouping import group_into_tasks
from forecast.system.errors import ConfigError, NotInstalled, user_path
from forecast.system.files import atomic_file, check_output_files, write_json
from forecast.system.formatting import plural
from forecast.system.progress import status

if TYPE_CHECKING:
    from forecast.tools.dashboard import RunFilter


def dashboard(config: DictConfig) -> None:
    """Publish the workspace and the report if an account is set up, otherwise write their specification and a page."""
    if config.mode not in ("auto", "offline"):
        raise ConfigError(f"mode={config.mode} must be auto or offline")
    try:
        import wandb_workspaces  # noqa: F401
    except ModuleNotFoundError:
        raise NotInstalled("forecast.dashboard", "dashboard", "wandb-workspaces") from None

    if config.mode == "auto" and has_account():
        publish_dashboard(config)
    else:
        write_specification(config)


def write_specification(config: DictConfig) -> None:
    """Write the specification and the preview to files, and print how to publish.

    Raises:
        ConfigError: a file exists, or would be both.
    """
    from forecast.tools.dashboard import RunFilter, make_specification

    path, page = Path(config.output), Path(config.output).with_suffix(".html")
    if path == page:
        raise ConfigError(f"output={path}: the specification is a JSON file; give a name that ends in .json")
    check_output_files(path, *([page] if config.preview else []), overwrite=config.overwrite)
    runs = RunFilter(**config.runs)
    with atomic_file(path) as temporary:
        write_json(temporary, make_specification(config.entity, config.project, runs))
        preview = write_preview(str(config.preview), runs, config.project, page) if config.preview else None
    print(f"nothing was sent; saved the specification of the workspace and the report in {path}")
    if preview:
        print(preview)
    print(
        "to publish: run wandb login, then wandb sync RUN/wandb/offline-run-* for each run, "
        "then this command with mode=auto"
    )


def write_preview(place: str, selection: "RunFilter", project: str, path: Path) -> str:
    """Write the comparison page of the selected runs in a folder; return a sentence that says what was written."""
    found = read_places([place])[0] if user_path(place).exists() else []
    runs = [run for run in found if selection.accepts(run)]
    if not runs:
        return f"no preview: {place} has no finished run that is selected; name another folder with preview="
    tasks = group_into_tasks(runs)

    from forecast.reports.compare.page import render_page  # imports Jinja and Plotly

    page = render_page(f"W&B preview: {project}", tasks, [], find_factor(tasks, ATTENTION))
    with atomic_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return f"saved a preview of {plural(len(runs), 'run')} in {path}, which needs no network"


def publish_dashboard(config: DictConfig) -> None:
    """Save a new workspace and a new report on the server. Print the address of each as soon as it is saved.

    Raises:
        ConfigError: the project does not exist or holds no runs, or the server refuses or cannot be reached.
    """
    from forecast.tools.dashboard import RunFilter, make_report, make_workspace

    runs = RunFilter(**config.runs)
    with convert_server_errors(), status("Saving the workspace"):
        api = wandb.Api()
        entity = config.entity or api.default_entity
        if not entity:
            raise ConfigError("the W&B account has no default entity; give one with entity=USER_OR_TEAM")
        check_project(api, entity, config.project)
        workspace = make_workspace(entity, config.project, runs).save()
    print(f"workspace  {workspace.url}", flush=True)
    with convert_server_errors(), status("Saving the report"):
        report = make_report(entity, config.project, runs, project_exists=True).save()
    print(f"report     {report.url}")


def has_account() -> bool:
    """Return whether an API key is set, in the environment or by `wandb login`."""
    wandb.setup(wandb.Settings(silent=True))
    with convert_server_errors():
        return wandb.login(prompt=False, verify=False)


def check_project(api: Any, entity: str, project: str) -> None:
    """Check that a project exists and holds runs.

    Raises:
        ConfigError: it does not.
    """
    place = f"{entity}/{project}"
    try:
        n_runs = len(api.runs(place, per_page=1))
    except ValueError:
        raise ConfigError(
            f"{place}: the W&B project does not exist or the account cannot read it; "
            "give the project of the logged runs with project=NAME entity=USER_OR_TEAM"
        ) from None
    if not n_runs:
        raise ConfigError(f"{place}: the W&B project holds no runs; upload offline runs with wandb sync")


@contextmanager
def convert_server_errors() -> Iterator[None]:
    """Turn errors of the server into one line: the key is refused, or the server fails or cannot be reached."""
    try:
        yield
    except (wandb.Error, WandbApiFailedError) as error:
        failed = error if isinstance(error, WandbApiFailedError) else error.__cause__
        if not isinstance(failed, WandbApiFailedError):  # nothing was sent: the key has a wrong format
            raise ConfigError(str(error)) from error
        server = wandb.setup().settings.base_url
        code = failed.response.http_status if failed.response is not None else 0
        if code in (401, 403):
            raise ConfigError(
                f"{server} refuses the API key ({failed}); set another with wandb login --relogin"
            ) from error
        problem = f"answers with status {code} ({failed})" if code else "cannot be reached"
        raise ConfigError(
            f"{server} {problem}; write the specification to a file with mode=offline"
        ) from error
