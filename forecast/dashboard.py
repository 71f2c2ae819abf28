"""Create a Weights & Biases workspace and report that compare logged runs: `forecast dashboard --help`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from forecast.cli.main import main_without_run_folder
from forecast.system.errors import ConfigError, NotInstalled, check_choice
from forecast.system.files import check_output_files, write_json
from forecast.system.progress import status


def dashboard(config: DictConfig) -> None:
    """Publish the workspace and the report if an account is set up, otherwise write their specification."""
    check_choice("mode", config.mode, ("auto", "offline"))
    try:
        import wandb_workspaces  # noqa: F401
    except ModuleNotFoundError:
        raise NotInstalled("forecast.dashboard", "dashboard", "wandb-workspaces") from None

    if config.mode == "auto" and has_account():
        publish_dashboard(config)
    else:
        write_specification(config)


def write_specification(config: DictConfig) -> None:
    """Write the specification to a file, and print how to publish. Raises ConfigError if the file exists."""
    from forecast.tools.dashboard import make_specification, select_runs

    path = Path(config.output)
    check_output_files(path, overwrite=config.overwrite)
    write_json(path, make_specification(config.entity, config.project, select_runs(**config.runs)))
    print(f"nothing was sent; saved the specification of the workspace and the report in {path}")
    print(
        "to publish: run wandb login, then wandb sync RUN/wandb/offline-run-* for each run, "
        "then this command with mode=auto"
    )


def publish_dashboard(config: DictConfig) -> None:
    """Save a new workspace and a new report on the server. Print the address of each as soon as it is saved."""
    import wandb

    from forecast.tools.dashboard import make_report, make_workspace, select_runs

    runs = select_runs(**config.runs)
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
    import wandb

    wandb.setup(wandb.Settings(silent=True))
    with convert_server_errors():
        return wandb.login(prompt=False, verify=False)


def check_project(api: Any, entity: str, project: str) -> None:
    """Raise ConfigError unless a project exists and holds runs."""
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
    import wandb
    from wandb.sdk.lib.service.service_connection import WandbApiFailedError

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
        raise ConfigError(f"{server} {problem}; write the specification to a file with mode=offline") from error


if __name__ == "__main__":
    main_without_run_folder("dashboard")
