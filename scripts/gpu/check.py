"""Tests and benchmarks on a CUDA device in one command: `scripts/gpu_check --help`.

Needs only the standard library and this project until `gpu.environment` has found or installed the other packages.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forecast.system.files import atomic_file, write_json

from . import environment, page, parts
from .runner import ROOT, NoTimeLeft, Runner

PARTS: dict[str, Callable[[Runner], dict[str, Any]]] = {
    "GPU tests": parts.tests,
    "layer benchmark, role self": parts.layer_self,
    "layer benchmark, role causal": parts.layer_causal,
    "training steps": parts.steps,
    "profile of a training step": parts.profile,
    "training end to end": parts.train,
    "training steps, compiled": parts.compiled_steps,
}
ON_CPU = {"training end to end"}


def main() -> int:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
        try:
            python = environment.python_with_everything(options.wheels, Path(scratch) / "venv")
        except environment.MissingPackages as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        if python != sys.executable:
            return subprocess.call([python, str(ROOT / "scripts" / "gpu_check"), *sys.argv[1:]])
        return check(options, Path(scratch))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check",
        description="Run the tests and benchmarks on the CUDA device of this machine, without network. Writes "
        "gpu-NAME.json and gpu-NAME.md. Without a CUDA device, the parts that need one are skipped.",
    )
    parser.add_argument(
        "--wheels", type=Path, metavar="FOLDER", help="folder from which missing packages are installed"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder for the results (default: docs/benchmarks)"
    )
    parser.add_argument(
        "--data-root",
        type=Path,
        metavar="FOLDER",
        help="folder of ETTh1.csv; without it, the sample data set is used",
    )
    parser.add_argument(
        "--minutes", type=float, default=8.5, metavar="N",
        help="time limit for all parts together; later parts are skipped (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small sizes, to test the script; needs --out")
    options = parser.parse_args()
    if options.quick and options.out is None:
        parser.error("--quick needs --out FOLDER, so that it does not replace real measurements")
    options.out = options.out or ROOT / "docs" / "benchmarks"
    return options


def check(options: argparse.Namespace, scratch: Path) -> int:
    """Run all parts and write the results after each. Returns 1 if a part failed."""
    machine = environment.machine()
    runner = Runner(
        device="cuda" if machine["cuda_device"] else "cpu",
        quick=options.quick,
        scratch=scratch,
        data_root=parts.etth1_folder(options.data_root),
        ends=time.monotonic() + 60 * options.minutes,
    )
    report: dict[str, Any] = {"quick": options.quick, "machine": machine, "parts": {}}
    stem = options.out / f"gpu-{environment.slug(machine['cuda_device'] or 'none')}"
    for name, work in PARTS.items():
        report["parts"][name] = outcome(name, work, runner)
        write_json(stem.with_suffix(".json"), report)
        with atomic_file(stem.with_suffix(".md")) as temporary:
            temporary.write_text(page.markdown(report), encoding="utf-8")
    print(f"saved in {stem.with_suffix('.md')} and {stem.with_suffix('.json')}")
    failed = [name for name, part in report["parts"].items() if part["status"] == "failed"]
    if failed:
        print(f"error: failed: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def outcome(name: str, work: Callable[[Runner], dict[str, Any]], runner: Runner) -> dict[str, Any]:
    """Run a part; return its results, status (passed, failed or skipped), seconds and commands."""
    if runner.device == "cpu" and name not in ON_CPU:
        print(f"skipped: {name}: no CUDA device", flush=True)
        return {"status": "skipped", "why": "no CUDA device"}
    print(f"{name} ...", flush=True)
    started, runner.commands = time.monotonic(), []
    try:
        part = {"status": "passed", **work(runner)}
    except NoTimeLeft:
        part = {"status": "skipped", "why": "no time left"}
    except Exception as error:  # the other parts run nevertheless
        part = {"status": "failed", "why": str(error) or type(error).__name__}
    part |= {"seconds": round(time.monotonic() - started, 1), "commands": runner.commands}
    why = f": {part['why']}" if "why" in part else ""
    print(f"{part['status']}: {name}, {part['seconds']:.0f} s{why}", flush=True)
    return part
