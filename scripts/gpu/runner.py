"""Run commands of the project for `scripts/gpu_check` within the time limit, and record them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class PartFailed(Exception):
    """A command failed; the message contains the last lines that it printed."""


class NoTimeLeft(Exception):
    """A command was not started because the time limit is near."""


@dataclass
class Runner:
    device: str  # cuda or cpu
    quick: bool
    scratch: Path
    data_root: Path | None
    ends: float  # by time.monotonic()
    commands: list[str] = field(default_factory=list)

    def python(
        self, *command: str, output_root: Path | None = None, ok: tuple[int, ...] = (0,), seconds: float = 600
    ) -> None:
        """Run `python command`; a given `output_root` is passed as an override.

        Raises:
            NoTimeLeft: less than five seconds are left.
            PartFailed: the exit status is not in `ok`, or the command exceeded `seconds` or the time limit.
        """
        left = min(seconds, self.ends - time.monotonic())
        if left < 5:
            raise NoTimeLeft
        self.commands.append(" ".join(["python", *command]).replace(f"{self.scratch}/", ""))
        where = [f"output_root={output_root}"] if output_root else []
        paths = [
            str(ROOT),
            str(ROOT / "scripts"),
            *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
        ]
        process = subprocess.Popen(
            [sys.executable, *command, *where], cwd=ROOT, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=left)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # with its child processes
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise PartFailed(f"{self.commands[-1]}: not finished after {left:.0f} s") from None
            raise
        if process.returncode not in ok:
            raise PartFailed(f"{self.commands[-1]}: status {process.returncode}: {reason(said)}")
        if "recompile_limit" in said:
            raise PartFailed(f"{self.commands[-1]}: too many graphs for one process; some were not compiled")

    def benchmark(self, *overrides: str) -> dict[str, Any]:
        """Run `forecast.benchmark`; return its rows, the growth with the length, and the sizes of the model."""
        folder = self.scratch / f"benchmark-{time.monotonic_ns()}"
        self.python("-m", "forecast.benchmark", f"device={self.device}", *overrides, output_root=folder)
        (path,) = folder.glob("*/benchmark.json")
        content = json.loads(path.read_text())
        sizes = {key: content["config"]["model"][key] for key in ("d_model", "n_heads", "d_ff")}
        return {"rows": content["rows"], "growth": content["growth"], "sizes": sizes}


def reason(said: str) -> str:
    """Return the last line that names an error, and the last lines, of what a command printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|error)\b", line)]
    return " | ".join(dict.fromkeys([*named[-1:], *lines[-3:]]))
