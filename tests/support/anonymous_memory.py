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


def main() -> None:
    result = Path(sys.argv.pop(1))
    import lightning  # noqa: F401
    import matplotlib  # noqa: F401

    from forecast.cli.main import main_with_run_folder
    from forecast.system import memory  # noqa: F401
    from forecast.train import train

    before = highest = anonymous()
    ends = threading.Event()

    def sample() -> None:
        nonlocal highest
        while not ends.wait(0.02):
            highest = max(highest, anonymous())

    threading.Thread(target=sample, daemon=True).start()
    try:
        main_with_run_folder("train", train)
    finally:
        ends.set()
        result.write_text(json.dumps({"growth_mib": max(highest, anonymous()) - before}))


if __name__ == "__main__":
    main()
