"""A run that draws figures until it is stopped, in a forked process, which starts fast."""

import multiprocessing
import os
import signal
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["forecast.cli.main", "forecast.reports.figures", "tests.support.figure_process"]
)


def start(folder: Path, signal_in_callback: int | None = None) -> BaseProcess:
    """Start the run in `folder`; it writes `figure.png` and prints to `output.txt`.

    With `signal_in_callback=n`, the process sends itself SIGTERM when the C code of matplotlib calls back into Python
    for the n-th time.
    """
    process = processes.Process(target=_run, args=(folder, signal_in_callback))
    process.start()
    return process


def _run(folder: Path, signal_in_callback: int | None) -> None:
    from matplotlib.transforms import BboxBase

    from forecast.cli.main import main_with_run_folder
    from forecast.reports import figures
    from forecast.system import signals

    os.chdir(folder)
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    original, calls = BboxBase.__array__, 0

    def array(box: BboxBase, *args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == signal_in_callback:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(box, *args, **kwargs)

    def draw(config: DictConfig) -> None:
        while True:
            figures.save(
                figures.step_figure({"model": np.arange(24.0)}, "error", "full", 24), Path("figure.png")
            )
            signals.exit_if_received(" while it drew figures")

    BboxBase.__array__ = array
    sys.argv = ["train", "logger=[]"]
    main_with_run_folder("train", draw)
