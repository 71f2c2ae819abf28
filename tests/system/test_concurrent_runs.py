"""Many runs started together, into one folder and from one download: nothing collides."""

import hashlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.commands.test_loggers import WandbRun
from tests.support.commands import TINY, start

N_RUNS = 3
COLUMNS = ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]


def table(rows: int = 300) -> bytes:
    dates = pd.date_range("2024-01-01", periods=rows, freq="h")
    values = np.random.default_rng(0).normal(size=(rows, len(COLUMNS)))
    return pd.DataFrame(values, dates, COLUMNS).rename_axis("date").to_csv().encode()


class Server(ThreadingHTTPServer):
    """Serves one file, slowly, so that all who want it meet; counts how often."""

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.served = content, 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/set.csv"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.served += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        half = len(self.server.content) // 2
        self.wfile.write(self.server.content[:half])
        self.wfile.flush()
        time.sleep(5)
        self.wfile.write(self.server.content[half:])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(table()) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.long
def test_runs_started_together_collide_in_nothing(server: Server, tmp_path: Path) -> None:
    """Half of them alone below one output_root, half as sweeps of one job in one folder, some of them alike."""
    settings = (
        *TINY, "data=etth1", f"data.url={server.url}", f"data.hash={hashlib.sha256(server.content).hexdigest()}",
        "data.split=[0.7,0.1,0.2]", "data.root=sets", "trainer.max_epochs=1", "callbacks.progress.refresh_rate=0",
    )  # fmt: skip
    runs = []
    for i in range(N_RUNS):
        together = ("-m", "hydra.sweep.dir=runs/together") if i % 2 else ()
        runs.append(
            start(
                tmp_path, *together, f"seed={i // 2 % 5}", settings=settings, program=("-m", "forecast.train")
            )
        )
    errors = [run.communicate(timeout=500)[1] for run in runs]

    assert [run.returncode for run in runs] == [0] * N_RUNS, errors
    assert server.served == 1
    alone, together = list(tmp_path.glob("runs/2*/")), list(tmp_path.glob("runs/together/*/"))
    assert (len(alone), len(together)) == (N_RUNS - N_RUNS // 2, N_RUNS // 2)
    folders = [*alone, *together]
    assert all((folder / "metrics.json").exists() for folder in folders)
    assert all(len(pd.read_csv(folder / "metrics.csv")) == 1 for folder in folders)
    ids = [WandbRun(path).run.run_id for path in tmp_path.rglob("offline-run-*/*.wandb")]
    assert len(set(ids)) == len(ids) == N_RUNS
    assert sorted(path.name for path in (tmp_path / "sets").iterdir() if path.suffix != ".lock") == [
        "ETTh1.csv"
    ]
