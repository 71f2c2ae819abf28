"""How much memory is left here, for refusing what would not fit before any of it is taken."""

from pathlib import Path

import psutil

_CONTAINER = Path("/sys/fs/cgroup")  # cgroup version 2


def available() -> int:
    """Bytes that this process may still take: the machine's, or where that is less, its container's."""
    free = psutil.virtual_memory().available
    try:
        limit, used = ((_CONTAINER / f"memory.{name}").read_text().strip() for name in ("max", "current"))
    except OSError:  # not Linux, or not in a container
        return free
    return free if limit == "max" else min(free, int(limit) - int(used))
