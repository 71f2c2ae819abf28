"""What times depend on: the hardware, the versions, the commit, and the work of other programs."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from forecast import __version__

ROOT = Path(__file__).resolve().parents[2]
IDLE = ("idle", "iowait")  # times of psutil that are no work


def describe_machine(device: str) -> dict[str, Any]:
    """Return the device (`cuda`, or another for the CPU), the number of threads and the versions."""
    import torch

    cpu = read_cpu("model name") or platform.processor() or platform.machine()
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else cpu,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "forecast": __version__,
        "commit": find_commit(),
    }


def read_cpu(field: str) -> str:
    """Return a field of the first processor, `model name` or `flags`, as Linux gives it; empty on other systems."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith(field)), "")


def find_commit() -> str | None:
    """Return the commit of this package, marked `-dirty` if files have changed; None outside a git repository."""
    if not (ROOT / ".git").exists():
        return None
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except (FileNotFoundError, subprocess.SubprocessError):  # no git, or not its owner's repository
        return None


class OtherWork:
    """The share of the machine's processors that other processes use, from construction on.

    Processes that this one started count as its own once they have ended.
    """

    def __init__(self) -> None:
        self._before = self._read()

    def share(self) -> float:
        """Return the share, from 0 to 1."""
        own, busy, all_ = (now - before for now, before in zip(self._read(), self._before, strict=True))
        return min(max((busy - own) / all_, 0.0), 1.0) if all_ else 0.0

    @staticmethod
    def _read() -> tuple[float, float, float]:
        """Return processor seconds: of this process, of all processes, and those that there were."""
        import psutil

        times = psutil.cpu_times()._asdict()
        all_ = sum(seconds for name, seconds in times.items() if not name.startswith("guest"))  # in user and nice
        return sum(os.times()[:4]), all_ - sum(times.get(name, 0.0) for name in IDLE), all_
