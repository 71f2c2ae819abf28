"""Run the missing results of the comparison, keep each, and write the page. `scripts/peers_accuracy` runs this module
in the environment that it creates."""

import json
import platform
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from forecast.system.files import atomic_file, write_json
from forecast.tools.benchmark.measurement import describe_hardware
from peer_scores import ours
from peer_scores.forecasters import FORECASTERS, MAX_ROWS, MAX_TREES, PATIENCE_TREES, list_settings
from peer_scores.options import parse
from peer_scores.page import CHECKED, write_page
from peer_scores.processes import ProcessFailed, measure
from peer_scores.tasks import TASKS
from results.runner import described_commit

LIBRARIES = ("lightgbm", "neuralforecast", "torch", "numpy")


def main() -> None:
    options = parse()
    file: Path = options.out / "peers-accuracy.json"
    content = json.loads(file.read_text()) if file.exists() else {"machines": [], "cells": {}, "checks": {}}
    failed = 0
    for task in options.tasks:
        for name in options.forecasters:
            key, settings = f"{task}/{name}", identify(task, name)
            if content["cells"].get(key, {}).get("settings") == settings:
                continue
            print(key, file=sys.stderr)
            try:
                row = {**run(task, name, options.root, content), "settings": settings}
            except (ProcessFailed, ValueError) as error:
                print(f"error: {key}: {error}", file=sys.stderr)
                failed += 1
                continue
            keep(content, key, row)
            write_json(file, content)
            with atomic_file(file.with_suffix(".md")) as page:
                page.write_text(write_page(content))
    print(f"saved in {file.with_suffix('.md')}", file=sys.stderr)
    if failed:
        sys.exit(f"error: {failed} results are missing: the same command tries them again")


def identify(task: str, name: str) -> list[str]:
    """Return the settings that identify a result."""
    forecaster = FORECASTERS[name]
    if forecaster.library == "forecast":
        return list(ours.list_overrides(task, forecaster))
    limits = {"rows": MAX_ROWS, "trees": MAX_TREES, "patience": PATIENCE_TREES}
    settings = list_settings(TASKS[task], forecaster) | (limits if forecaster.library == "lightgbm" else {})
    return [f"{key}={value}" for key, value in settings.items()]


def run(task: str, name: str, root: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Return the scores and the cost of a forecaster; add the check of the scores to `content`."""
    with tempfile.TemporaryDirectory() as scratch:
        forecaster = FORECASTERS[name]
        if forecaster.library == "forecast":
            row = ours.train(ours.list_overrides(task, forecaster), root, Path(scratch))
            if name == CHECKED:
                # In a process of its own: those that follow inherit the peak memory of this one.
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    check = pool.submit(ours.check_scores, task, root, Path(scratch))
                    content["checks"][task] = check.result()
            return {**row, "commit": described_commit()}
        out = Path(scratch, "scores.json")
        command = [sys.executable, "-m", "peer_scores.forecast_task", str(root), task, name, str(out)]
        cost = measure(command)
        return {**json.loads(out.read_text()), **asdict(cost)}


def keep(content: dict[str, Any], key: str, row: dict[str, Any]) -> None:
    """Add a result with the machine and the versions that it comes from."""
    hardware = describe_hardware("cpu")
    machine = {
        "device": hardware["device"],
        "system": hardware["system"],
        "python": platform.python_version(),
    }
    machine |= {library: version(library) for library in LIBRARIES}
    if machine not in content["machines"]:
        content["machines"].append(machine)
    content["cells"][key] = {**row, "machine": content["machines"].index(machine)}


if __name__ == "__main__":
    main()
