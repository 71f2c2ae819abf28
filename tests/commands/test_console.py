"""The console command `forecast`, as a process, and its completion in a real shell."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import forecast
from forecast.__main__ import list_commands, main
from tests.support.commands import ROOT, SMALL, workplace
from tests.support.fork_server import run_python


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return run_python(["-m", "forecast", *arguments], cwd=folder, env=env)


def test_a_command_is_run_as_its_module_is(tmp_path: Path) -> None:
    result = run(workplace(tmp_path), "train", *SMALL, "trainer.max_epochs=1", "logger=[]", "pictures=false")
    assert result.returncode == 0, result.stderr
    assert len(list(tmp_path.glob("runs/*/metrics.json"))) == 1


def test_help_lists_every_command(tmp_path: Path) -> None:
    said = run(tmp_path, "--help").stdout
    listed = [line.split()[0] for line in said.splitlines() if line.startswith("  ")]
    assert listed == [
        "backtest", "benchmark", "check", "compare", "convert", "dashboard", "evaluate", "explain", "export",
        "monitor", "predict", "serve", "train",
    ]  # fmt: skip
    assert run(tmp_path, "--version").stdout == f"forecast {forecast.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "error: forecast trian: there is no such command; did you mean train?\n"),
        (
            ["completion"],
            'error: forecast completion bash|zsh|fish prints a script; bash: eval "$(forecast completion bash)"; '
            "zsh: the same with zsh; fish: forecast completion fish | source\n",
        ),
    ],
)
def test_what_is_no_command_is_refused_in_one_line(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    result = run(tmp_path, *arguments)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", message)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Run a script in a shell in which `forecast` is this program; skip where there is no such shell."""
    program = tmp_path / "forecast"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m forecast "$@"\n')
    program.chmod(0o755)
    places = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    env = {**os.environ, **places}

    def run_script(name: str, script: str) -> str:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
        command = [name, "-c", script]
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        ).stdout

    return run_script


LINES = [
    ("forecast pre", {"predict"}),
    ("forecast train atten", {"attention=", "attention_window="}),
    ("forecast train seed=1 attention=f", {"attention=full", "attention=fastformer"}),
]


@pytest.mark.parametrize(("line", "choices"), LINES)
def test_completion_in_bash(shell: Callable[[str, str], str], line: str, choices: set[str]) -> None:
    words = line.split()
    script = (
        'eval "$(forecast completion bash)"\n'
        f'COMP_LINE="{line}" COMP_WORDS=({line}) COMP_CWORD={len(words) - 1}\n'
        '_forecast\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert set(shell("bash", script).split()) == choices


@pytest.mark.parametrize(
    ("name", "blocks", "last"),
    [
        ("zsh", ("{", "}"), "compdef _forecast forecast"),
        ("fish", ("function", "end"), "complete -c forecast -n 'test (count (commandline -opc)) -gt 1' -f "),
    ],
)
def test_the_scripts_of_other_shells_are_whole(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    blocks: tuple[str, str],
    last: str,
) -> None:
    """They need no such shell: quotes and blocks are closed, and the list of commands stands in them."""
    monkeypatch.setattr(sys, "argv", ["forecast", "completion", name])
    main()
    script = capsys.readouterr().out
    assert script.splitlines()[-1].startswith(last)
    words = [word for part in shlex.split(script) for word in part.split()]  # an open quote is refused
    opened = words.count(blocks[0]) + (words.count("if") - words.count("else") if name == "fish" else 0)
    assert opened == words.count(blocks[1]) > 0
    assert [script.count(sign) for sign in "({"] == [script.count(sign) for sign in ")}"]
    assert " ".join(list_commands()) in script
