"""One run as several processes (`trainer=ddp`): which of them speaks, and how all of them end together.

Imports no torch: `forecast.cli` loads it before every command.
"""

import os
import threading
import time
from pathlib import Path


def is_first() -> bool:
    """Whether this is the process that the user started, or the first of those that a launcher started."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def follow_parent() -> None:
    """End this process as soon as the one that started it is gone, killed or not: nothing stays behind, waiting."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(2)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()


def is_news(path: Path, message: str) -> bool:
    """Write `message` to `path` unless another process of this run has written there; whether this one did."""
    try:
        with path.open("x") as file:
            file.write(message + "\n")
    except FileExistsError:
        return False
    return True


def wait_for_first(seconds: float = 5.0) -> None:
    """Give the first process time to fail on its own: once another one has ended, Lightning kills it without a word.

    It notices as soon as the connection is closed; `follow_parent` then ends this process with it.
    """
    import torch.distributed as dist

    if dist.is_initialized() and dist.get_backend() == "gloo":  # NCCL might wait for the others
        dist.destroy_process_group()
    time.sleep(seconds)
