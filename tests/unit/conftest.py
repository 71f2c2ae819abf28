"""Unit tests start no process and no trainer: this takes seconds, and belongs to tests/commands or tests/system."""

import multiprocessing.process
import subprocess
import sys

import pytest


@pytest.fixture(autouse=True)
def no_process_and_no_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that starts a process or a trainer."""

    def refuse(what: str):
        def refused(*args, **kwargs):
            pytest.fail(f"a unit test starts {what}: move it to tests/commands or tests/system")

        return refused

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse("a process"))
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", refuse("a process"))
    if lightning := sys.modules.get("lightning"):  # importing it takes seconds, and most tests need none of it
        for method in ("fit", "validate", "test", "predict"):
            monkeypatch.setattr(lightning.Trainer, method, refuse("a trainer"))
