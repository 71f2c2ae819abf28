"""Start commands as processes forked from a server that has imported the heavy libraries, which takes seconds.

As a program: the server, which takes requests from the socket whose file descriptor is its argument.
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PRELOADED = (
    "lightning", "matplotlib.figure", "forecast.api", "forecast.training.run", "forecast.tools.check.report",
    "forecast.tools.check.diagnosis",
)  # fmt: skip
READ_AT_IMPORT = ("FORECAST_", "OMP_", "MKL_", "PYTHON", "TORCH", "LD_", "KMP_", "ATEN", "MPL")
"""Environment variables that are read when modules are imported begin with these."""
SERVER = "FORK_SERVER"
"""Environment variable of a script: the inherited connection to a server, and the environment of that server."""


class ForkedProcess(subprocess.Popen):
    """A Python command as `subprocess.Popen` starts it, forked from the server instead of executed."""

    def _execute_child(self, args: list[str], *rest: Any) -> None:
        # pass_fds, cwd, env, startupinfo, creationflags, shell, six pipe ends: see subprocess.Popen
        cwd, env = rest[4], rest[5]
        stdin, _, _, stdout, _, stderr = rest[9:15]
        self._status, theirs = socket.socketpair()
        request = json.dumps({"args": args[1:], "cwd": str(cwd or os.getcwd()), "env": dict(env or os.environ)})
        ends = [stdin if stdin != -1 else 0, stdout if stdout != -1 else 1, stderr if stderr != -1 else 2]
        server = _server(os.getpid())
        with Path(__file__).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # the processes of a script share one connection
            server.sendall(struct.pack("I", len(request.encode())))
            socket.send_fds(server, [b"f"], [theirs.fileno(), *ends])
            server.sendall(request.encode())
        theirs.close()
        for end in {stdin, stdout, stderr} - {-1}:
            os.close(end)
        (self.pid,) = struct.unpack("i", _receive(self._status, 4))
        self._child_created = True

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        self._status.setblocking(not wait_flags & os.WNOHANG)
        try:
            (status,) = struct.unpack("i", _receive(self._status, 4))
        except BlockingIOError:
            return 0, 0
        self._status.close()
        return self.pid, status


def start_python(arguments: list[str], *, env: dict[str, str], **options: Any) -> subprocess.Popen[str]:
    """Start `python arguments...`: forked, unless the environment has something that is read at import."""
    at_start = json.loads(os.environ[SERVER])["environ"] if SERVER in os.environ else os.environ
    changed = {key for key in env.keys() | at_start.keys() if env.get(key) != at_start.get(key)}
    known = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    cold = {key for key in changed if key.startswith(READ_AT_IMPORT) and env.get(key) != known.get(key)}
    kind = subprocess.Popen if cold or arguments[0] not in ("-m", "-c") else ForkedProcess
    return kind([sys.executable, *arguments], text=True, env=env, **options)


@cache
def _server(owner: int) -> socket.socket:
    if SERVER in os.environ:
        return socket.socket(fileno=json.loads(os.environ[SERVER])["file"])
    mine, theirs = socket.socketpair()
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, __file__, str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env, start_new_session=True)
    theirs.close()
    atexit.register(process.kill)
    return mine


def server_for_scripts() -> int:
    """The file of the connection of this process to its server."""
    return _server(os.getpid()).fileno()


def _receive(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise EOFError("the connection was closed")
    return data


def serve(connection: socket.socket) -> dict[str, Any]:
    """Fork a process for each request, for as long as the connection is open; return the request in that process."""
    while True:
        try:
            (size,) = struct.unpack("I", _receive(connection, 4))
        except EOFError:
            os._exit(0)
        _, files, _, _ = socket.recv_fds(connection, 1, 4)
        request = json.loads(_receive(connection, size))
        if os.fork() == 0:
            connection.close()
            return _become(request, files)
        for file in files:
            os.close(file)
        _reap()


def _reap() -> None:
    """Take the exit statuses of the processes that watch over finished commands."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _become(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    """Fork once more: the parent reports the exit status of the child, which takes over files and environment."""
    status = socket.socket(fileno=files[0])
    pid = os.fork()
    if pid:
        for file in files[1:]:
            os.close(file)
        status.sendall(struct.pack("i", pid))
        status.sendall(struct.pack("i", os.waitpid(pid, 0)[1]))
        os._exit(0)
    status.close()
    for number, file in enumerate(files[1:]):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return request


def run(arguments: list[str]) -> None:
    kind, name, *rest = arguments
    sys.argv = [name, *rest]
    sys.path[0] = "" if kind == "-c" else os.getcwd()
    if kind == "-c":
        sys.argv[0] = "-c"
        exec(compile(name, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.modules.pop(name, None)  # a preloaded command runs as the main module
        runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for module in PRELOADED:
        importlib.import_module(module)
    gc.freeze()  # the collector of a forked process would write to the pages of all these objects, and so copy them
    run(serve(socket.socket(fileno=int(sys.argv[1])))["args"])
