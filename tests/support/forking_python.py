"""A program `python` for shell scripts, which starts commands as `start_python` does, by the server of the test.

As a program: `python arguments...`.
"""

import json
import os
import signal
import sys
from pathlib import Path

from tests.support.fork_server import ROOT, SERVER, server_for_scripts, start_python


def write_python(folder: Path) -> tuple[dict[str, str], int]:
    """Write the program to `folder`; return the environment of a script that finds it, and a file it must inherit."""
    server = server_for_scripts()
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{__file__}" "$@"\n')
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
