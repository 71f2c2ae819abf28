"""Train like `python -m forecast.train`, and record the growth of anonymous memory.

python anonymous_memory.py RESULT.json KEY=VALUE...
"""

import json
import sys
import threading
from pathlib import Path

STATUS = Path("/proc/self/status")


def anonymous() -> float:
    """Return the memory of this process that is not mapped from a file (RssAnon), in MiB."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) / 2**10


class Peak(threading.Thread):
    """A thread that samples the peak of anonymous memory fifty times per second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest, self._ends = anonymous(), threading.Event()

    def run(self) -> None:
        while not self._ends.wait(0.02):
            self.highest = max(self.highest, anonymous())

    def end(self) -> float:
        self._ends.set()
        self.join()
        return max(self.highest, anonymous())


def main() -> None:
    result = Path(sys.argv.pop(1))
    import lightning  # noqa: F401
    import matplotlib  # noqa: F401

    from forecast.cli.main import main_with_run_folder
    from forecast.system import memory  # noqa: F401
    from forecast.train import train

    before, peak = anonymous(), Peak()
    peak.start()
    try:
        main_with_run_folder("train", train)
    finally:
        found = {"before_mib": before, "peak_mib": peak.end()}
        result.write_text(json.dumps({**found, "growth_mib": found["peak_mib"] - before}))


if __name__ == "__main__":
    main()
