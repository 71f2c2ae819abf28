"""Serve forecasts over HTTP: `forecast serve --help`."""

import signal
import socket
import sys

from omegaconf import DictConfig

from forecast.cli.main import main_without_run_folder
from forecast.system.errors import ConfigError, NotInstalled, check_choice, install_command
from forecast.system.progress import status

AUTO, EXPORT = "auto", "export"


def serve(config: DictConfig) -> None:
    """Load the models in worker processes, and answer requests until Ctrl-C or SIGTERM; imports no torch."""
    try:
        import uvicorn

        from forecast.tools.serve.app import Limits, create_app
    except ModuleNotFoundError as error:
        raise NotInstalled("forecast.serve", "serve", error.name or "a package") from None
    from forecast.tools.export.metadata import ONNX_PACKAGES, ONNX_RUNTIME, TORCH, list_missing_packages
    from forecast.tools.serve.processes import WorkerPool, export_models, find_models, why_not_exported

    check_choice("runtime", config.runtime, (AUTO, TORCH, EXPORT))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises it again once the last requests are answered
    models = find_models(list(config.models))
    missing = list_missing_packages([TORCH, *ONNX_PACKAGES])
    lacking = f"not installed: {', '.join(missing)}: {install_command('serve')}"
    if config.runtime == EXPORT:
        if missing:
            raise ConfigError(f"runtime={EXPORT}: {lacking}")
        export_models(models)
        for name, path in models.items():
            reason = why_not_exported(path)
            print(f"exported   {name}" if not reason else f"PyTorch    must answer for {name}: {reason}")
        return
    listening = listen(config.host, config.port)
    use_graphs = config.runtime == AUTO and not list_missing_packages([ONNX_RUNTIME])
    is_exported = config.runtime == AUTO and not missing
    if is_exported:
        export_models(models)
    elif config.runtime == AUTO:
        print(f"export     no model is exported for ONNX Runtime: {lacking}")
    pool = WorkerPool(
        models, workers=config.workers, max_waiting=config.max_waiting, timeout=config.timeout, use_graphs=use_graphs
    )  # fmt: skip
    try:
        with status(f"Loading {len(models)} models in {config.workers} processes"):
            pool.wait_until_loaded()
        served = [name for name in models if name not in pool.unavailable]
        for name, reason in pool.unavailable.items():
            print(f"left out   {name}: {reason}")
        for name in served if is_exported else ():
            if reason := why_not_exported(models[name]):
                print(f"PyTorch    answers for {name}: {reason}")
        limits = Limits(max_body=config.max_body_mb * 2**20, max_rows=config.max_rows, timeout=config.timeout)
        settings = uvicorn.Config(
            create_app(pool, limits), log_level="warning", access_log=False, lifespan="off",
            timeout_graceful_shutdown=config.timeout + 1,
        )  # fmt: skip
        host, port = listening.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host  # IPv6
        print(f"serving    {', '.join(served)}", flush=True)
        print(f"address    http://{host}:{port}   Ctrl-C ends the server", flush=True)
        uvicorn.Server(settings).run(sockets=[listening])
    finally:
        pool.close()
        listening.close()


def listen(host: str, port: int) -> socket.socket:
    """Open the port. Raises ConfigError if it is in use or not allowed."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # named as TCP, or asyncio leaves Nagle's algorithm on, which delays each answer by 40 ms
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        why = error.strerror
        raise ConfigError(f"host={host} port={port}: {why}: give another port, or port=0") from None
    return listening


if __name__ == "__main__":
    main_without_run_folder("serve", positional="models")
