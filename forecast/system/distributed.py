"""Runs of several processes: who started them, which one prints, where they write, and how all of them end.

A run's processes are started by Lightning on one machine (`trainer.devices=2`), or by a launcher on one machine or
several: `torchrun`, or Slurm's `srun`. Imports no torch: `forecast.cli.main` imports this module before every command.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forecast.system.errors import ConfigError

INTERACTIVE = ("bash", "interactive")
"""Names of Slurm jobs that are a shell, in which the user starts processes."""

_store: Any = None  # kept open: the other processes may still read from it


def launcher() -> str | None:
    """The program that started this run's processes: torchrun, srun, or None for the user or Lightning.

    The order is Lightning's: torchrun may itself be started by srun, once per node.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return "torchrun"
    if "SLURM_NTASKS" in os.environ and os.environ.get("SLURM_JOB_NAME") not in INTERACTIVE:
        return "srun"
    return None


def rank() -> int:
    """This process's number in the run, over all machines. Lightning starts processes on one machine only."""
    names = {"torchrun": "RANK", "srun": "SLURM_PROCID", None: "LOCAL_RANK"}
    return int(os.environ.get(names[launcher()], "0"))


def count() -> int:
    """The number of processes that the launcher started; 1 without a launcher."""
    names = {"torchrun": "WORLD_SIZE", "srun": "SLURM_NTASKS", None: ""}
    return int(os.environ.get(names[launcher()], "1"))


def per_node(otherwise: int) -> int:
    """The number of processes that the launcher started on each machine: `trainer.devices`."""
    names = {"torchrun": "LOCAL_WORLD_SIZE", "srun": "SLURM_NTASKS_PER_NODE", None: ""}
    return int(os.environ.get(names[launcher()], otherwise))


def nodes() -> int:
    """The number of machines on which the launcher started processes: `trainer.num_nodes`."""
    return count() // per_node(otherwise=count())


def is_first() -> bool:
    """Whether this is the process that the user started, or the first of those that a launcher started."""
    return rank() == 0


def choose_in_first(choose: Callable[[], str]) -> str | None:
    """Call `choose` in the first of the processes that a launcher started, and return its result in all of them.

    In a process that Lightning started the result is None: its command line holds the first process's choice.

    Raises:
        ConfigError: the Slurm job does not say how many processes each machine gets.
    """
    global _store
    if launcher() is None or count() == 1:
        return choose() if is_first() else None
    from torch.distributed.rendezvous import rendezvous

    connect()
    # The same store, at the same address, that torch.distributed.init_process_group will use.
    _store, *_ = next(rendezvous("env://", rank(), count()))
    key = f"forecast/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"  # torchrun may keep the store in a restart
    if is_first():
        _store.set(key, json.dumps(choose()))
    return json.loads(_store.get(key))


def connect() -> None:
    """Put the first process's address into the variables that torch.distributed reads, as torchrun does."""
    if launcher() == "srun":
        from lightning.fabric.plugins.environments.slurm import SLURMEnvironment

        if "SLURM_NTASKS_PER_NODE" not in os.environ:
            raise ConfigError("srun: give the job --ntasks-per-node, not --ntasks alone")
        slurm = SLURMEnvironment()
        _ = slurm.main_address, slurm.main_port  # reading them sets MASTER_ADDR and MASTER_PORT


def follow_parent() -> None:
    """End this process as soon as its parent process has ended, killed or not, so that none stays behind."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(2)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()


def write_first_error(path: Path, message: str) -> bool:
    """Write `message` to `path` unless another process of this run has written there.

    Returns:
        Whether this process is to print the message: it wrote the file, or no process can.
    """
    try:
        with path.open("x") as file:
            file.write(message + "\n")
    except FileExistsError:
        return False
    except OSError:  # a full disk: the screen is the only place
        return True
    return True


@contextmanager
def first_speaks(seconds: float = 5.0) -> Iterator[None]:
    """Where every process raises the same error, let the first one print it: the launcher then ends the others."""
    try:
        yield
    except Exception:
        if not is_first():
            time.sleep(seconds)
        raise


def wait_for_first(seconds: float = 5.0) -> None:
    """Give the first process time to fail on its own: once another process has ended, it is killed without a message.

    The first process fails as soon as the connection is closed. `follow_parent`, or the launcher, then ends this one.
    """
    import torch.distributed as dist

    if dist.is_initialized() and dist.get_backend() == "gloo":  # NCCL might wait for the others
        dist.destroy_process_group()
    time.sleep(seconds)
