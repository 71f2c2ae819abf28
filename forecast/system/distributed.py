"""Runs of several processes: their launcher, their ranks, their common folder and their end.

Lightning starts the processes of a run on one machine (`trainer.devices=2`). A launcher, `torchrun` or Slurm's `srun`,
starts them on one machine or several. Imports no torch: `forecast.cli.main` imports this module before every command.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from forecast.system.errors import ConfigError

INTERACTIVE = ("bash", "interactive")
"""Names of Slurm jobs that are an interactive shell, in which the user starts processes."""

Chosen = TypeVar("Chosen")  # a value that JSON can hold

_store: Any = None  # kept open: the other processes may still read from it


def launcher() -> str | None:
    """The launcher that started the processes of this run: torchrun, srun, or None for the user or Lightning.

    torchrun comes first, as in Lightning, because srun may start torchrun once per node.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return "torchrun"
    if "SLURM_NTASKS" in os.environ and os.environ.get("SLURM_JOB_NAME") not in INTERACTIVE:
        return "srun"
    return None


def rank() -> int:
    """The rank of this process in the run, over all machines. Lightning starts processes on one machine only."""
    names = {"torchrun": "RANK", "srun": "SLURM_PROCID", None: "LOCAL_RANK"}
    return int(os.environ.get(names[launcher()], "0"))


def n_processes() -> int:
    """The number of processes that the launcher started; 1 without a launcher."""
    names = {"torchrun": "WORLD_SIZE", "srun": "SLURM_NTASKS", None: ""}
    return int(os.environ.get(names[launcher()], "1"))


def processes_per_node(otherwise: int) -> int:
    """The number of processes that the launcher started on each machine, for `trainer.devices`."""
    names = {"torchrun": "LOCAL_WORLD_SIZE", "srun": "SLURM_NTASKS_PER_NODE", None: ""}
    return int(os.environ.get(names[launcher()], otherwise))


def nodes() -> int:
    """The number of machines on which the launcher started processes, for `trainer.num_nodes`."""
    return n_processes() // processes_per_node(otherwise=n_processes())


def is_first() -> bool:
    """Whether this is the process that the user started, or the first of those that a launcher started."""
    return rank() == 0


def choose_in_first(what: str, choose: Callable[[], Chosen]) -> Chosen | None:
    """Call `choose` in the first process that a launcher started, and return the result in all its processes.

    In a process that Lightning started, the result is None, because its command line holds the choice already.

    `what`: a name of the choice; each choice has its own.

    Raises ConfigError: the Slurm job does not set the number of processes per machine.
    """
    global _store
    if launcher() is None or n_processes() == 1:
        return choose() if is_first() else None
    from torch.distributed.rendezvous import rendezvous

    connect()
    if _store is None:  # the same one that torch.distributed.init_process_group will use
        _store, *_ = next(rendezvous("env://", rank(), n_processes()))
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun may keep the store in a restart
    key = f"forecast/{what}/{restart}"
    if is_first():
        _store.set(key, json.dumps(choose()))
    return json.loads(_store.get(key))


def connect() -> None:
    """Set the variables from which torch.distributed reads the address of the first process, as torchrun does."""
    if launcher() == "srun":
        from lightning.fabric.plugins.environments.slurm import SLURMEnvironment

        if "SLURM_NTASKS_PER_NODE" not in os.environ:
            raise ConfigError("srun: give the job --ntasks-per-node, not only --ntasks")
        slurm = SLURMEnvironment()
        _ = slurm.main_address, slurm.main_port  # reading them sets MASTER_ADDR and MASTER_PORT


def follow_parent() -> None:
    """End this process as soon as its parent process ends for any reason, so that no process is left behind."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(2)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()


def write_first_error(path: Path, message: str) -> bool:
    """Write `message` to `path` unless another process of this run has written to it.

    Returns whether this process must print the message: it wrote the file, or the file cannot be written.
    """
    try:
        with path.open("x") as file:
            file.write(message + "\n")
    except FileExistsError:
        return False
    except OSError:  # for example a full disk
        return True
    return True


_GRACE = 5.0  # seconds in which the first process prints its error before another one ends


@contextmanager
def delay_errors_of_others() -> Iterator[None]:
    """Delay an error that every process raises, so that the first process prints it; the launcher ends the others."""
    try:
        yield
    except Exception:
        if not is_first():
            time.sleep(_GRACE)
        raise


def wait_for_first() -> None:
    """Wait, so that the first process can fail with a message before it is killed because this process ended.

    The first process fails as soon as this one closes the connection. `follow_parent` or the launcher then ends this
    process.
    """
    import torch.distributed as dist

    if dist.is_initialized() and dist.get_backend() == "gloo":  # NCCL might wait for the others
        dist.destroy_process_group()
    time.sleep(_GRACE)
