"""Run a command on an input in this process."""

import io
import os
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from forecast.cli.main import main_with_run_folder, main_without_run_folder

UNSEEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
"""Warnings that Python hides from users by default, and pytest shows."""


def run(program: str, folder: Path, *overrides: str) -> tuple[int, str]:
    """Run `python -m forecast.check` or `.train` in `folder` with these overrides; return the exit status and stderr."""
    errors = io.StringIO()
    with (
        chdir(folder),
        mock.patch.object(sys, "argv", [program, *overrides]),
        mock.patch.dict(os.environ, HYDRA_FULL_ERROR="0"),
        warnings.catch_warnings(),
        redirect_stdout(io.StringIO()),
        redirect_stderr(errors),
    ):
        warnings.resetwarnings()
        for category in UNSEEN:
            warnings.simplefilter("ignore", category)
        try:
            main_without_run_folder("check") if program == "check" else main_with_run_folder("train")
        except SystemExit as exit:
            return int(exit.code or 0), errors.getvalue()
    return 0, errors.getvalue()
