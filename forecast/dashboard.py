"""A Weights & Biases workspace and report that compare the logged runs: `python -m forecast.dashboard --help`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from forecast.cli import command
from forecast.errors import ConfigError, NotInstalled
from forecast.files import check_free, write_json


def dashboard(config: DictConfig) -> None:
    """Publish the workspace and the report where an account is set up, else write what would be sent."""
    if config.mode not in ("auto", "offline"):
        raise ConfigError(f"mode={config.mode} must be auto or offline")
    try:
        import wandb_workspaces  # noqa: F401
    except ModuleNotFoundError:
        raise NotInstalled("forecast.dashboard", "dashboard", "wandb-workspaces") from None

    if config.mode == "auto" and has_account():
        publish(config)
    else:
        write(config)


def write(config: DictConfig) -> None:
    """Write the specification to a file, and say how to publish it."""
    from forecast.dashboard_panels import Runs, specification

    path = Path(config.output)
    check_free(path, overwrite=config.overwrite)
    write_json(path, specification(config.entity, config.project, Runs(**config.runs)))
    print(f"nothing was sent; the workspace and the report are described in {path}")
    print(
        "to publish: wandb login; wandb sync RUN/wandb/offline-run-* for each run; then this command with mode=auto"
    )


def publish(config: DictConfig) -> None:
    """Save a new workspace and a new report, and say where each is as soon as it is saved.

    Raises:
        ConfigError: the project is not there or holds no runs; the server refuses, or cannot be reached.
    """
    import wandb
    from rich.console import Console

    from forecast.dashboard_panels import Runs, report, workspace

    with server_errors(), Console(stderr=True).status("talking to Weights & Biases"):
        api = wandb.Api()
        entity = config.entity or api.default_entity
        if not entity:
            raise ConfigError("the W&B account has no default entity: name one, entity=USER_OR_TEAM")
        check_project(api, entity, config.project)
        runs = Runs(**config.runs)
        saved = workspace(entity, config.project, runs).save()
        print(f"workspace  {saved.url}", flush=True)
        saved = report(entity, config.project, runs, project_is_known=True).save()
        print(f"report     {saved.url}")


def has_account() -> bool:
    """Whether a key is set up, in the environment or by `wandb login`."""
    import wandb

    wandb.setup(wandb.Settings(silent=True))
    with server_errors():
        return wandb.login(prompt=False, verify=False)


def check_project(api: Any, entity: str, project: str) -> None:
    place = f"{entity}/{project}"
    try:
        n_runs = len(api.runs(place, per_page=1))
    except ValueError:
        raise ConfigError(
            f"{place}: there is no such W&B project, or the account may not see it; "
            "project=NAME entity=USER_OR_TEAM say where the runs were logged"
        ) from None
    if not n_runs:
        raise ConfigError(f"{place}: the W&B project holds no runs yet; wandb sync uploads offline ones")


@contextmanager
def server_errors() -> Iterator[None]:
    """Say in one line that the key is refused, or that the server cannot be reached."""
    import wandb
    from wandb.sdk.lib.service.service_connection import WandbApiFailedError

    try:
        yield
    except (wandb.Error, WandbApiFailedError) as error:
        failed = error if isinstance(error, WandbApiFailedError) else error.__cause__
        if not isinstance(failed, WandbApiFailedError):  # nothing was sent: a key of the wrong form
            raise ConfigError(str(error)) from error
        server = wandb.setup().settings.base_url
        status = failed.response.http_status if failed.response is not None else 0
        if status in (401, 403):
            raise ConfigError(
                f"{server} refuses the API key ({failed}): wandb login --relogin sets another"
            ) from error
        problem = f"answers with status {status} ({failed})" if status else "cannot be reached"
        raise ConfigError(f"{server} {problem}; mode=offline writes the specification to a file") from error


if __name__ == "__main__":
    command("dashboard", dashboard)
