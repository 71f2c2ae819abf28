"""The parts of `scripts/gpu_check`: each runs the project's own commands and reads the files that they leave."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAPER = ("model.d_model=512", "model.n_heads=8", "model.d_ff=2048", "benchmark.batch_size=32")
STEPS = ("336/168/168", "96/48/24", "720/336/720")  # the most telling first
COMPILED_TOGETHER = ("full,probsparse,linear", "nystrom,fastformer")
"""Two graphs a kind, and one process compiles eight of one module's call before it falls back (recompile_limit)."""


class PartFailed(Exception):
    """A command ended badly; the message holds the last lines that it printed."""


class NoTimeLeft(Exception):
    pass


@dataclass
class Runner:
    """Runs commands of the project on `device`, in time, and remembers them."""

    device: str
    quick: bool
    scratch: Path
    data_root: Path | None
    ends: float  # by time.monotonic()
    commands: list[str] = field(default_factory=list)

    def python(self, *command: str, output_root: Path | None = None, ok: tuple[int, ...] = (0,)) -> None:
        """Run `python command`, its folder below `output_root` where that is given.

        Raises:
            NoTimeLeft: before it was started.
            PartFailed: a status that is not `ok`, or it took more time than was left.
        """
        left = self.ends - time.monotonic()
        if left < 5:
            raise NoTimeLeft
        self.commands.append(" ".join(["python", *command]))
        where = [f"output_root={output_root}"] if output_root else []
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *python_path()])}
        process = subprocess.Popen(
            [sys.executable, *command, *where], cwd=ROOT, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=left)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # and what it started
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise PartFailed(f"{self.commands[-1]}: not over when the time was, after {left:.0f} s") from None
            raise
        if process.returncode not in ok:
            last = " | ".join(line.strip() for line in said.splitlines()[-4:] if line.strip())
            raise PartFailed(f"{self.commands[-1]}: status {process.returncode}: {last}")
        if "recompile_limit" in said:
            raise PartFailed(f"{self.commands[-1]}: too many graphs for one process; some were not compiled")

    def benchmark(self, *overrides: str) -> dict[str, Any]:
        """What `forecast.benchmark` wrote: rows, and growth over the lengths."""
        folder = self.scratch / f"benchmark-{time.monotonic_ns()}"
        self.python("-m", "forecast.benchmark", f"device={self.device}", *overrides, output_root=folder)
        (path,) = folder.glob("*/benchmark.json")
        content = json.loads(path.read_text())
        return {"rows": content["rows"], "growth": content["growth"]}


def python_path() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def etth1_folder(given: Path | None) -> Path | None:
    """The folder given, where ETTh1.csv lies in it."""
    return given.resolve() if given and (given / "ETTh1.csv").is_file() else None


def tests(runner: Runner) -> dict[str, Any]:
    """pytest's counts, and the names of what failed."""
    junit = runner.scratch / "junit.xml"
    runner.python("-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", f"--junitxml={junit}", ok=(0, 1))
    runner.commands = ["python -m pytest -m gpu"]
    cases = list(ElementTree.parse(junit).getroot().iter("testcase"))
    failed = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = [c for c in cases if c.find("skipped") is not None]
    found: dict[str, Any] = {
        "n_passed": len(cases) - len(failed) - len(skipped),
        "n_failed": len(failed),
        "n_skipped": len(skipped),
        "failures": [f"{case.get('classname')}::{case.get('name')}: {first_line(case)}" for case in failed],
    }
    if failed:
        found |= {"status": "failed", "why": f"{len(failed)} tests failed"}
    return found


def first_line(case: ElementTree.Element) -> str:
    told = case.find("failure")
    told = case.find("error") if told is None else told
    return "" if told is None else (told.get("message") or "").split("\n")[0][:200]


def layer_self(runner: Runner) -> dict[str, Any]:
    return layer(runner, "self", (1024, 4096, 16_384, 65_536, 131_072))


def layer_causal(runner: Runner) -> dict[str, Any]:
    return layer(runner, "causal", (1024, 4096, 16_384, 65_536))


def layer(runner: Runner, role: str, lengths: tuple[int, ...]) -> dict[str, Any]:
    """The mixing alone, forward and backward. Every length has as many tokens, so that the device is always full."""
    if runner.quick:
        lengths = (64, 256)
    return runner.benchmark(
        "benchmark.part=mixing", f"benchmark.role={role}", "precision=bfloat16",
        f"benchmark.lengths=[{','.join(map(str, lengths))}]", f"benchmark.tokens={lengths[-1]}",
    )  # fmt: skip


def steps(runner: Runner) -> dict[str, Any]:
    return runner.benchmark(
        "benchmark=model", f"benchmark.lengths=[{','.join(windows(runner))}]", *model_sizes(runner)
    )


def compiled_steps(runner: Runner) -> dict[str, Any]:
    """The same through torch.compile, a length at a time: what no longer fits is named, what was measured stays."""
    rows: list[dict[str, Any]] = []
    for length in windows(runner):
        try:
            for kinds in COMPILED_TOGETHER:
                rows += runner.benchmark(
                    "benchmark=model", "benchmark.compile=true", "memory=false", f"kinds=[{kinds}]",
                    f"benchmark.lengths=[{length}]", *model_sizes(runner),
                )["rows"]  # fmt: skip
        except (NoTimeLeft, PartFailed) as error:
            if not rows:
                raise
            why = f"from {length} on: {error or 'no time left'}"
            return {"rows": rows, "status": "failed" if str(error) else "passed", "why": why}
    return {"rows": rows}


def windows(runner: Runner) -> tuple[str, ...]:
    """seq_len/label_len/pred_len of the training steps."""
    return ("24/12/6",) if runner.quick else STEPS


def model_sizes(runner: Runner) -> tuple[str, ...]:
    small = ("model.d_model=16", "model.n_heads=2", "model.d_ff=32", "benchmark.batch_size=4")
    return ("precision=bfloat16", *(small if runner.quick else PAPER))


def profile(runner: Runner) -> dict[str, Any]:
    """Where the device's time goes in a training step of probsparse."""
    path = runner.scratch / "profile.json"
    runner.python(
        "-m", "forecast.gpu_check_profile", str(path), f"device={runner.device}", "benchmark=model",
        f"benchmark.lengths=[{windows(runner)[0]}]", "kinds=[probsparse]", *model_sizes(runner),
    )  # fmt: skip
    runner.commands = [command.replace(str(path), "profile.json") for command in runner.commands]
    return json.loads(path.read_text())


def train(runner: Runner) -> dict[str, Any]:
    """ETTh1 in the paper's setting where it is at hand, else the sample set, in float32 and in bfloat16."""
    small = runner.quick or runner.device == "cpu"
    settings = ["experiment=informer2020/etth1_m_24", "attention=probsparse", "logger=[]"]
    settings += ["data=sample"] if runner.data_root is None or small else [f"data.root={runner.data_root}"]
    settings += [f"trainer={'gpu' if runner.device == 'cuda' else 'cpu'}", f"trainer.max_epochs={1 if small else 2}"]
    if small:
        settings += ["seq_len=12", "label_len=6", "pred_len=5", "data.batch_size=1024"]
        settings += ["model.d_model=8", "model.n_heads=2", "model.d_ff=8"]
    runs = []
    for precision in ("bf16-mixed",) if runner.device == "cpu" else ("32-true", "bf16-mixed"):
        folder = runner.scratch / f"train-{precision}"
        runner.python(
            "-m", "forecast.train", *settings, f"trainer.precision={precision}",
            "callbacks.progress.refresh_rate=0", output_root=folder,
        )  # fmt: skip
        (path,) = folder.glob("*/metrics.json")
        runs.append(json.loads(path.read_text()))
    if runner.data_root is not None:
        runner.commands = [c.replace(str(runner.data_root), "FOLDER") for c in runner.commands]
    return {"runs": runs}
