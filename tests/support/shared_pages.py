"""Memory that two training processes use for one store; a page in both counts half for each (Pss)."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil


def mapped(process: psutil.Process, file: str) -> dict[str, float]:
    """Return the MiB of a file in the memory of a process (Rss), and its proportional part of them (Pss)."""
    found = {"Rss": 0.0, "Pss": 0.0, "Private_Dirty": 0.0}
    inside = False
    for line in Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
        name = line.split()[0].rstrip(":")
        if "-" in name:  # the first line of a mapping
            inside = line.endswith(file)
        elif inside and name in found:
            found[name] += int(line.split()[1]) / 2**10
    return found


def measure(store: Path, folder: Path, settings: list[str]) -> dict[str, Any]:
    """Return the peak over the two processes of `trainer=ddp_cpu` for values.npy, sampled every half second."""
    command = [sys.executable, "-m", "forecast.train", "data=store", f"data.path={store}", "trainer=ddp_cpu"]
    run = subprocess.Popen([*command, *settings], cwd=folder, stdout=subprocess.DEVNULL)
    best: dict[str, Any] = {"processes": 0, "Pss": 0.0}
    while run.poll() is None:
        time.sleep(0.5)
        try:
            family = [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]
            held = [found for process in family if (found := mapped(process, "values.npy"))["Rss"] > 0]
        except (psutil.Error, OSError):
            continue
        total = {key: sum(found[key] for found in held) for key in ("Rss", "Pss", "Private_Dirty")}
        if (len(held), total["Pss"]) > (best["processes"], best["Pss"]):
            best = {"processes": len(held), **total}
    return {
        **best,
        "values_mib": (store / "values.npy").stat().st_size / 2**20,
        "exit_status": run.returncode,
    }
