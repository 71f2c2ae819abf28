"""What is secret on a machine is in no file that a run, a comparison or a dashboard leaves, and on no screen."""

import sys
from pathlib import Path

import pytest

from forecast.cli import safety
from forecast.cli.main import main_with_run_folder
from forecast.system.errors import ConfigError
from tests.support.commands import SMALL, train

CANARY = "canary7f3a91c2d4e5f60718293a4b5c6d7e8f9012"
ENVIRONMENT = {
    **dict.fromkeys(("WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "DATABASE_PASSWORD"), CANARY),
    **dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY"), f"http://user:{CANARY}@127.0.0.1:9"),
}


def holding(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def test_errors_do_not_repeat_it(tmp_path: Path) -> None:
    """A download through a proxy with a password, and its traceback in the log."""
    given = ("data=etth1", f"data.root={tmp_path}/none", "logger=[]")
    failed = train(tmp_path, *given, settings=(), HYDRA_FULL_ERROR="1", **ENVIRONMENT)
    assert failed.returncode != 0
    assert "DataError" in failed.stderr
    assert CANARY not in failed.stdout + failed.stderr
    assert holding(tmp_path) == []


@pytest.mark.parametrize(
    "typed",
    [
        f"++api_key={CANARY}", f"++logger.wandb.settings.api_key={CANARY}", f"+secret={CANARY}",
        f"+logger.wandb.settings={{api_key: {CANARY}}}", f"hydra.job.env_set.HF_TOKEN={CANARY}",
        f"data.url=https://user:{CANARY}@host/file.csv", f"data.url=https://{CANARY}@host/file.csv",
        f"data.url=https://host/file.csv?X-Amz-Signature={CANARY}", "run_name=${oc.env:HF_TOKEN}",
        "run_name=${oc.env:DATABASE_PASSWORD}x", f"run_name=x{CANARY}", f"unknown={CANARY}", f"x y={CANARY}",
        f"hydra.sweeper.storage=postgresql://user:{CANARY}@host/db",
    ],
)  # fmt: skip
def test_a_secret_that_is_typed_is_refused_and_not_repeated(monkeypatch, capfd, tmp_path: Path, typed: str) -> None:
    monkeypatch.setenv("HF_TOKEN", CANARY)
    monkeypatch.setenv("DATABASE_PASSWORD", CANARY)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    monkeypatch.chdir(tmp_path)
    data = ["data=etth1"] if typed.startswith("data.url") else []
    monkeypatch.setattr(sys, "argv", ["train", *data, typed])
    with pytest.raises(SystemExit) as stopped:
        main_with_run_folder("train", lambda config: None)
    assert stopped.value.code == 2
    captured = capfd.readouterr()
    assert len(captured.err.splitlines()) == 1
    assert CANARY not in captured.out + captured.err
    assert list(tmp_path.iterdir()) == []


def test_ordinary_settings_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", CANARY)
    monkeypatch.setenv("SHORT_KEY", "1")  # could not be told from a number
    safety.check_typed(
        [
            *SMALL, "benchmark.tokens=4096", "data.target=token", "data.path=a/b@c.csv", "logger.mode=online",
            "data.url=https://host/a?b=c", "+x.api_key=null", "hydra.sweeper.storage=sqlite:///study.db", "levels=[80]",
        ]
    )  # fmt: skip
    with pytest.raises(ConfigError):
        safety.check({"a": [{"password": "x"}]})
