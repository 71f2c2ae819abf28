"""Programs `python` and `forecast` for shell scripts, which start commands by the test's server, as `start_python`."""

import json
import os
import signal
import sys
from pathlib import Path

from tests.support.fork_server import ROOT, SERVER, server_for_scripts, start_python


def write_python(folder: Path) -> tuple[dict[str, str], int]:
    """Write the programs to `folder`; return the environment of a script, and a file it must inherit."""
    server = server_for_scripts()
    for name, arguments in (("python", '"$@"'), ("forecast", '-m forecast "$@"')):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{__file__}" {arguments}\n')
        program.chmod(0o755)
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PATH": path}
    return {**env, SERVER: json.dumps({"file": server, "environ": env})}, server


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["-"]:
        arguments[:1] = ["-c", sys.stdin.read()]
    env = {name: value for name, value in os.environ.items() if name != SERVER}
    process = start_python(arguments, env=env)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: process.send_signal(number))
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
