"""The console command `forecast`, and its completion in a real shell."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import forecast
from forecast.__main__ import list_commands, main
from tests.support.commands import ROOT, SMALL, workplace
from tests.support.fork_server import run_python


def test_a_command_is_run_as_its_module_is(tmp_path: Path) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    typed = ["train", *SMALL, "trainer.max_epochs=1", "logger=[]", "pictures=false"]
    result = run_python(["-m", "forecast", *typed], cwd=workplace(tmp_path), env=env)
    assert result.returncode == 0, result.stderr
    assert len(list(tmp_path.glob("runs/*/metrics.json"))) == 1


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *typed: str) -> tuple:
    """The exit status, the output and the errors of `forecast`, within this process."""
    monkeypatch.setattr(sys, "argv", ["forecast", *typed])
    try:
        main()
        status = 0
    except SystemExit as exit:
        status = exit.code
    return status, *capsys.readouterr()


def test_help_lists_every_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    _, out, _ = said(monkeypatch, capsys, "--help")
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert listed == [
        "backtest", "benchmark", "check", "compare", "convert", "dashboard", "evaluate", "explain", "export",
        "monitor", "predict", "serve", "train",
    ]  # fmt: skip
    assert said(monkeypatch, capsys, "--version")[1] == f"forecast {forecast.__version__}\n"
    message = "error: forecast trian: there is no such command; did you mean train?\n"
    assert said(monkeypatch, capsys, "trian") == (2, "", message)
    status, _, error = said(monkeypatch, capsys, "completion")
    assert (status, error[:54]) == (2, "error: forecast completion bash|zsh|fish prints a scri")


LINES = [
    ("forecast pre", {"predict"}),
    ("forecast train atten", {"attention=", "attention_window="}),
    ("forecast train seed=1 attention=f", {"attention=full", "attention=fastformer"}),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_completion_in_bash(tmp_path: Path) -> None:
    program = tmp_path / "forecast"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m forecast "$@"\n')
    program.chmod(0o755)
    places = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    script = 'eval "$(forecast completion bash)"\n' + "".join(
        f'COMP_LINE="{line}" COMP_WORDS=({line}) COMP_CWORD={len(line.split()) - 1}\n'
        '_forecast\necho "${COMPREPLY[@]}"\n'
        for line, _ in LINES
    )
    command = ["bash", "-c", script]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | places, capture_output=True, text=True, check=True
    )
    for (_, choices), found in zip(LINES, done.stdout.splitlines(), strict=True):
        assert set(found.split()) == choices


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_the_scripts_of_other_shells_are_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """They need no such shell: quotes are closed, and the list of commands stands in them."""
    status, script, _ = said(monkeypatch, capsys, "completion", name)
    shlex.split(script)  # an open quote is refused
    assert [script.count(sign) for sign in "({"] == [script.count(sign) for sign in ")}"]
    assert (status, " ".join(list_commands()) in script) == (0, True)
