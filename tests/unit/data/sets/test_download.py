"""A published data set is downloaded once, a bad download leaves nothing behind, and generated sets never change."""

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hydra.utils import instantiate

from forecast.cli.compose import compose_config
from forecast.data import Panel
from forecast.data.sets import SAMPLE_COLUMNS, recall_table, sample_table
from forecast.system.errors import DataError
from tests.support.csv_files import real_file, write
from tests.support.download_server import CONTENT, MD5, SHA256, Server, published, serving
from tests.support.refusals import Refusal
from tests.support.windows import set_up


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.mark.parametrize("hash", [SHA256, MD5])
def test_the_right_file_is_downloaded_once(tmp_path: Path, server: Server, hash: str):
    """A file of another hash is replaced."""
    root = tmp_path / "not" / "yet" / "there"
    for _ in range(2):
        data = set_up(published(root, server.url("right"), hash))
        assert data.n_windows == {"train": 185, "val": 25, "test": 55}
    assert server.requests == ["/right"]
    write(root, CONTENT[:100], "set.csv")
    published(root, server.url("right"), hash).setup()
    assert (root / "set.csv").read_bytes() == CONTENT


@pytest.mark.parametrize("page", ["wrong", "cut", "missing"])
@pytest.mark.parametrize("before", [None, b"what was there"])
def test_a_bad_download_leaves_nothing_behind(tmp_path: Path, server: Server, page: str, before: bytes | None):
    file = tmp_path / "set.csv"
    if before:
        file.write_bytes(before)
    with pytest.raises(DataError):
        published(tmp_path, server.url(page)).setup()
    left = {each.name for each in tmp_path.iterdir()}
    assert left <= {".set.csv.lock"} | ({"set.csv"} if before else set())
    assert before is None or file.read_bytes() == before


def test_jobs_started_together_download_once(tmp_path: Path, server: Server):
    jobs = [threading.Thread(target=published(tmp_path, server.url("right")).prepare_data) for _ in range(8)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert server.requests == ["/right"]
    assert (tmp_path / "set.csv").read_bytes() == CONTENT


@pytest.mark.slow
def test_the_published_hash_is_that_of_the_file():
    """The other tests on real data read ETTh1."""
    root = real_file("ETTh2.csv").parent
    data = set_up(instantiate(compose_config("data=etth2", f"data.root='{root}'", "data.url=null").data))
    assert sum(data.n_windows.values()) > 13_000


def missing(folder: Path) -> None:
    with serving() as server:
        published(folder, server.url("missing")).setup()


def refused_connection(folder: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/right"
        published(folder, url, by_hand="ask the library").setup()


def wrong_hash(folder: Path) -> None:
    write(folder, CONTENT, "set.csv")
    published(folder, None, "0" * 64, by_hand="make it").setup()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (missing, "cannot be downloaded (404 Client Error: Not Found for url: …): …: from http://…/missing"),
        (refused_connection, "cannot be downloaded (…refused…): put it there by hand: ask the library"),
        (
            lambda folder: published(folder, None, None, by_hand="make it").setup(),
            "no such file: put it there by hand: make it",
        ),
        (wrong_hash, "not the published file (wrong hash): put it there by hand: make it"),
    ],
)
def test_what_is_refused(call: Callable[[Path], None], says: str, tmp_path: Path) -> None:
    Refusal("", f"set.csv: {says}", DataError, call).check(tmp_path)


@pytest.mark.parametrize(
    ("make", "digest"),
    [
        (sample_table, "2fa4e5ae2a5c276023588c6ad19f1211fbeb34642b8f1153f9b5b9d10e314590"),
        pytest.param(
            recall_table, "0312245e03745126408781b80c1cfa930c10ea24ef55bc6f8d55cb3a93fc5800", marks=pytest.mark.slow
        ),
    ],
)
def test_the_table_is_the_same_bytes_every_time(make: Callable[[], Panel], digest: str) -> None:
    assert hashlib.sha256(make().values.tobytes()).hexdigest() == digest


def test_the_sample_is_hourly_and_in_etts_columns() -> None:
    table = sample_table()
    assert (table.columns, table.freq) == (SAMPLE_COLUMNS, "h")
    assert str(table.grid[0]) == "2016-07-01 00:00:00"
