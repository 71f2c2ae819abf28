"""Run a module in an environment that holds this project and other packages. Standard library only."""

import os
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from .options import ROOT

FIND = "import sys, importlib.util as u; sys.exit(any(u.find_spec(name) is None for name in sys.argv[1:]))"


class SetUpError(Exception):
    """An environment that cannot be created or used."""


def run_in_environment(
    module: str, peers: Sequence[str], folder: Path | None, threads: int, after_stop: str
) -> int:
    """Run `module` with the arguments of this command, and return the exit status.

    Args:
        module: below scripts/.
        peers: packages beside this project.
        folder: the environment, which is created if it is empty; None: a temporary one.
        threads: of OpenMP.
        after_stop: what is left after an interrupt, for the message.
    """
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # like Ctrl-C, so that the environment is removed
    try:
        # All temporary files lie here: the environment, the files of pip, the run folders.
        with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
            os.environ |= {"TMPDIR": scratch, "OMP_NUM_THREADS": str(threads)}
            python = prepare_environment(folder or Path(scratch, "env"), peers)
            os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "scripts"), str(ROOT)])
            status, _ = run([python, "-m", module, *sys.argv[1:]])
    except (SetUpError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"error: stopped before the end; {after_stop}", file=sys.stderr)
        return 2
    return 2 if status else 0


def prepare_environment(folder: Path, peers: Sequence[str]) -> str:
    """Return the Python of the environment in `folder`; create the environment unless it is complete."""
    python = str(folder / "bin" / "python")
    if not (folder / "pyvenv.cfg").exists():
        if folder.exists() and any(folder.iterdir()):
            raise SetUpError(f"{folder} holds other files: give a new folder or an environment")
        print("creating an environment", file=sys.stderr)
        venv.create(folder, with_pip=True)
    elif run([python, "-I", "-c", FIND, "forecast", *peers])[0] == 0:
        return python
    constraints = ROOT / "constraints.txt"
    torch = next(line for line in constraints.read_text().splitlines() if line.startswith("torch=="))
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "-c", str(constraints)]
    print("installing this project", file=sys.stderr)
    # The CPU build is far smaller. If the index lacks it, the next command installs the default build.
    run([*pip, f"{torch}+cpu"], stderr=subprocess.PIPE)
    for what, packages in (("this project", ["-e", str(ROOT)]), ("the peers", peers)):
        status, errors = run([*pip, *packages], stderr=subprocess.PIPE)
        if status:
            reasons = [line for line in errors.splitlines() if line.startswith("ERROR: ")]
            reason = reasons[-1].removeprefix("ERROR: ") if reasons else f"pip ended with status {status}"
            raise SetUpError(f"{what} cannot be installed: {reason}")
        print(f"installed {what}", file=sys.stderr)
    return python


def run(command: list[str], stderr: int | None = None) -> tuple[int, str]:
    """Return the exit status, and stderr if it is piped. An interrupt ends the command and all its processes."""
    with subprocess.Popen(command, stderr=stderr, text=True, start_new_session=True) as process:
        try:
            errors = process.communicate()[1]
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, errors
